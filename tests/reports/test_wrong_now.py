"""The list of present problems beside the verdict."""

from __future__ import annotations

import pytest

from budgetfrontier import Frontier
from budgetfrontier.core.model import Process, QueueRecord
from budgetfrontier.reports.overview import SpendDistribution
from budgetfrontier.reports.wrong_now import wrong_now
from budgetfrontier.rules.verdict import Standing
from tests.support import memory, pages


@pytest.mark.parametrize(
    ("spent", "worth_a_line"),
    [
        ((100,), False),
        ((51, 49), False),
        ((99, 1), False),
        ((60, 20, 20), False),
        ((70, 20, 10), True),
        ((51, 20, 19, 10), True),
        ((50, 20, 20, 10), False),
        ((52, *([1] * 48)), True),
    ],
)
def test_the_share_of_one_queue_is_compared_with_an_even_one(spent: tuple[int, ...], worth_a_line: bool) -> None:
    top = [QueueRecord(f"{number}.test", number, expenditure=each) for number, each in enumerate(spent)]
    spend = SpendDistribution(sum(spent), len(spent), 0, 0.0, 1.0, top, 0, [], 0)
    found = wrong_now(None, _standing(memory()), spend)
    assert [one.slug for one in found] == ["one_queue"] * worth_a_line


def test_queues_that_an_operator_retired_are_told_apart() -> None:
    """No budget brings them back."""
    with memory() as frontier:
        frontier.schedule_many(pages("ABCD", 1))
        frontier.retire("a.test")
        (told,) = wrong_now(None, _standing(frontier, by_name=1), None)
        assert told.text == "25% of the queues are RETIRED, 1 of them by an operator."
        (told,) = wrong_now(None, _standing(frontier), None)
        assert told.text == "25% of the queues are RETIRED."


def _standing(frontier: Frontier, by_name: int = 0) -> Standing:
    process = Process(alive=False, pid=None)
    return Standing(now=0.0, totals=frontier.summary(), process=process, retired_by_name=by_name)
