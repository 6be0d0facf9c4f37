"""The comparison of crawls: which queues either has, and which differ most."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetfrontier.core.model import Run, RunEnd
from budgetfrontier.errors import ConnectionLost
from budgetfrontier.reports.crawl_comparison import SIDES, FetchedQueue, KnownQueues, compared, compared_runs
from budgetfrontier.reports.over_time import Series
from budgetfrontier.rules.rates import Window
from budgetfrontier.storage.series import Busiest, SeriesRow

NOTHING = Window(0.0, 0, {})
amounts = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 50))


@given(amounts, amounts, st.sampled_from((None, 1, 3)))
def test_each_queue_is_there_once_and_the_greatest_difference_first(
    first: dict[str, int], second: dict[str, int], limit: int | None
) -> None:
    one, two = ([FetchedQueue(name, number, 2 * number) for name, number in side.items()] for side in (first, second))
    found = compared(KnownQueues(one), KnownQueues(two), (NOTHING, NOTHING), measure="fetched", limit=limit)
    both = len(first.keys() & second.keys())
    assert found.queues == dict(zip(SIDES, (len(first) - both, len(second) - both, both), strict=True))
    differences = {name: abs(second.get(name, 0) - first.get(name, 0)) for name in {**first, **second}}
    expected = sorted(differences.values(), reverse=True)[:limit]
    assert [abs(row.difference("fetched")) for row in found.rows] == expected
    assert len({row.queue for row in found.rows}) == len(found.rows)
    for row in found.rows:
        assert (row.amount(0, "spent"), row.amount(1, "spent")) == (
            2 * first.get(row.queue, 0),
            2 * second.get(row.queue, 0),
        )


class _Runs:
    """A crawl of three runs with the totals of its time; the clock was set back before the third."""

    def __init__(self, *series: list[SeriesRow]) -> None:
        self._series = series
        self.missing = ""

    def unanswered(self) -> str:
        return self.missing

    def runs(self) -> list[Run]:
        times = [(0.0, 7200.0), (7500.0, 7800.0), (7700.0, 8000.0)]
        common = {"program": "p", "pid": 1, "host": "h", "end": RunEnd.EXIT, "reason": "", "leased": 9, "kernel": ""}
        return [
            Run(number=number, began=began, ended=ended, **common)  # type: ignore[arg-type]
            for number, (began, ended) in enumerate(times, 1)
        ]

    def series(self, since: float, now: float) -> Series:
        return self._series

    def busiest(self, since: float, until: float) -> Busiest:
        return Busiest(since=since, until=until, queues=[], others_spent=0, others_fetched=0)

    def compared(self, first: int, second: int) -> tuple[list[float], list[str]]:
        """What both have fetched, and what is not known exactly."""
        found = compared_runs(self, first, second, measure="fetched", limit=None)
        return [one["fetched"].count for one in found.totals], found.unsure


def of_run(run: int, *rows: tuple[float, int]) -> list[SeriesRow]:
    """The rows of a run: the times, and what had been fetched."""
    return [SeriesRow(time, not place, succeeded=done, run=run) for place, (time, done) in enumerate(rows)]


def test_each_run_is_compared_by_its_own_totals() -> None:
    """Also if another one was at the same time, as the clock was set back."""
    rows = [*of_run(1, (0, 0), (7200, 20)), *of_run(2, (7500, 20), (7800, 25)), *of_run(3, (7700, 25), (8000, 33))]
    rows = sorted(rows, key=lambda row: row.time)
    assert _Runs(rows).compared(1, 3) == ([20, 8], [])
    assert _Runs(rows).compared(2, 3) == ([5, 8], [])


def test_the_runs_of_partitions_are_those_of_all_of_them() -> None:
    one, other = of_run(1, (0, 0), (3000, 20)), of_run(4, (10, 0), (7200, 7))
    again = of_run(2, (3100, 20), (7200, 40))
    assert _Runs([*one, *again], other).compared(1, 1) == ([47, 47], [])


def test_a_run_that_is_not_told_apart_is_said_to_be_an_estimate() -> None:
    rows = [SeriesRow(0.0, True, run=2), SeriesRow(7800.0, succeeded=25, run=2, stopped=300.0)]
    counts, unsure = _Runs(rows).compared(1, 2)
    assert counts == [24, 1]
    assert unsure == [
        f"run {number}: its counts are estimates: where it begins or ends, totals are known 2h10m apart"
        for number in (1, 2)
    ]


def test_no_runs_are_compared_that_a_partition_without_an_answer_may_have_numbered_otherwise() -> None:
    crawl = _Runs()
    crawl.missing = "partition 1 of 2 does not answer"
    with pytest.raises(ConnectionLost, match="which run has which number is not known: partition 1 of 2 does not"):
        crawl.compared(1, 2)
