"""The comparison of crawls: which queues either has, and which differ most."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from budgetfrontier.reports.crawl_comparison import SIDES, FetchedQueue, compared, rates_of
from budgetfrontier.rules.rates import Rate, Window

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
    found = rates_of(lambda since, until: Window(until - since, 3, {"fetched": fetched}), 0.0, 60.0)
    assert str(found["fetched"].count) == "1455" and found["fetched"].per_hour == 2000.5
