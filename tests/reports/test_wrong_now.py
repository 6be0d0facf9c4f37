"""The list of present problems beside the verdict."""

from __future__ import annotations

import pytest

from budgetfrontier.core.model import QueueRecord
from budgetfrontier.reports.overview import SpendDistribution
from budgetfrontier.reports.wrong_now import wrong_now
from tests.support import memory


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
    found = wrong_now(None, memory().summary(), spend)
    assert [one.slug for one in found] == ["one_queue"] * worth_a_line
