"""The placing of new URIs: by queue or in order, with the same queues, records and totals."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest

from budgetfrontier import CrawlUri, Frontier
from budgetfrontier.engine.admission.placing import Placer
from tests.engine.admission.test_twins import tables
from tests.support import START, memory, one, record


def place_in_order(self: Placer, candidates: dict[Any, Any], via: CrawlUri | None, now: float) -> None:
    arrivals = self.arrivals(via, now)
    arrivals.add(candidates.values())
    arrivals.write()


SOME: list[Any] = [
    "https://b.test/1",
    "https://a.test/1",
    CrawlUri("https://b.test/2", not_before=START + 60),
    CrawlUri("https://b.test/3", priority=5, cost=7),
    "https://a.test/2",
    CrawlUri("https://a.test/3", queue="q", meta=[1]),
    CrawlUri("https://c.test/later", not_before=START + 60),
    CrawlUri("https://a.test/2", force=True),
    "http://a.test:81/4",
]


@pytest.mark.parametrize("order", ["fifo", "lifo"])
@pytest.mark.parametrize("hold_queues", [True, False])
@pytest.mark.parametrize("budget", [-1, 0])
@pytest.mark.parametrize("retired", [True, False])
def test_placing_by_queue_does_what_placing_in_order_does(
    order: str, hold_queues: bool, budget: int, retired: bool
) -> None:
    def scheduled() -> Frontier:
        f = memory(order=order, hold_queues=hold_queues, queue_total_budget=budget, retire_when="reached")
        if retired:
            f.schedule("https://a.test/0")
            f.retire("a.test")
        f.schedule_many(SOME)
        f.schedule_many([CrawlUri(f"https://{'abc'[n % 3]}.test/more/{n}", priority=n % 2) for n in range(20)])
        for lease in f.lease(1):
            f.finish(lease, discovered=[f"https://{'abcd'[n % 4]}.test/found/{n}" for n in range(20)])
        f.check()
        return f

    by_queue = tables(scheduled())
    with mock.patch.object(Placer, "_place_by_queue", place_in_order):
        assert by_queue == tables(scheduled())


def test_a_queue_takes_the_settings_of_the_uri_placed_last() -> None:
    overrides = [
        {"match": "regex:/rich", "set": {"balance_replenish_amount": 90, "queue_total_budget": 900}},
        {"match": "regex:/first", "set": {"precedence": 1}},
    ]
    with memory(overrides=overrides) as f:
        f.schedule_many(["https://a.test/rich/first", "https://b.test/", "https://a.test/poor", "https://b.test/first"])
        a, b = record(f, "A"), record(f, "B")
        assert (a.balance_replenish_amount, a.total_budget, a.precedence) == (3000, -1, 3)
        assert (b.precedence, a.queued, b.queued) == (1, 2, 2)
        assert one(f).queue == "b.test"
        f.schedule_many(["https://a.test/2", "https://a.test/rich/2"])
        assert record(f, "A").balance_replenish_amount == 90


def test_queues_wait_in_the_order_in_which_their_first_uris_came() -> None:
    overrides = [{"match": "regex:/last", "set": {"precedence": 4}}]
    with memory(overrides=overrides) as f:
        f.schedule_many([f"https://{host}.test/{path}" for host, path in ("ca", "bb", "cd", "al", "ba")])
        assert [lease.queue[0] for lease in f.lease(3)] == ["c", "b", "a"]
        f.check()
    with memory(overrides=overrides) as f:
        f.schedule_many(["https://c.test/last", "https://b.test/last", "https://c.test/1", "https://c.test/last/1"])
        assert [lease.queue[0] for lease in f.lease(2)] == ["b", "c"], "c came back to the end of its FIFO"
        f.check()
