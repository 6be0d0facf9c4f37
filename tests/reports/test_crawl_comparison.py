"""The comparison of crawls: which queues either has, and which differ most."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from budgetfrontier.core.model import Run, RunEnd
from budgetfrontier.reports.crawl_comparison import SIDES, FetchedQueue, compared, compared_runs, rates_of
from budgetfrontier.reports.over_time import Between, between
from budgetfrontier.rules.rates import Rate, Window
from budgetfrontier.storage.series import Busiest, SeriesRow

amounts = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 50))


@given(amounts, amounts, st.sampled_from((None, 1, 3)))
def test_each_queue_is_there_once_and_the_greatest_difference_first(
    first: dict[str, int], second: dict[str, int], limit: int | None
) -> None:
    one, two = ([FetchedQueue(name, number, 2 * number) for name, number in side.items()] for side in (first, second))
    found = compared(one, two, ({}, {}), measure="fetched", limit=limit)
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


def test_counts_are_whole_numbers() -> None:
    fetched = Rate(count=1454.9998962932787, per_hour=2000.5, low=None, high=None)
    found = rates_of(Window(60.0, 3, {"fetched": fetched}))
    assert str(found["fetched"].count) == "1455" and found["fetched"].per_hour == 2000.5


class _Runs:
    """A crawl of three runs with the totals of its time; the clock was set back before the third."""

    def __init__(self, rows: list[SeriesRow]) -> None:
        self.rows = rows

    def runs(self) -> list[Run]:
        times = [(0.0, 7200.0), (7500.0, 7800.0), (7700.0, 8000.0)]
        common = {"program": "p", "pid": 1, "host": "h", "end": RunEnd.EXIT, "reason": "", "leased": 9, "kernel": ""}
        return [
            Run(number=number, began=began, ended=ended, **common)  # type: ignore[arg-type]
            for number, (began, ended) in enumerate(times, 1)
        ]

    def between(self, since: float, now: float) -> Between:
        return between(self.rows)

    def busiest(self, since: float, until: float) -> Busiest:
        return Busiest(since=since, until=until, queues=[], others_spent=0, others_fetched=0)


def test_what_is_not_known_exactly_of_runs_is_said() -> None:
    rows = [SeriesRow(0.0, True, run=1), SeriesRow(7800.0, succeeded=20, run=1, stopped=300.0)]
    found = compared_runs(_Runs(rows), 1, 2, measure="fetched", limit=None)
    assert found.unsure == [
        "run 1: its counts are estimates: where it begins or ends, totals are known 2h10m apart",
        "run 2: the clock was set back, and what run 3 did in the same time counts, too",
    ]
    exact = [*rows[:1], SeriesRow(7200.0, succeeded=20, run=1)]
    assert compared_runs(_Runs(exact), 1, 1, measure="fetched", limit=None).unsure == []
