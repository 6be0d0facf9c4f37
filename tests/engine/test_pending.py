"""What goes out next, when URIs are out already."""

from __future__ import annotations

import pytest

from budgetfrontier import CrawlUri, Outcome
from budgetfrontier.clock import ManualClock
from budgetfrontier.errors import CorruptFrontier, FrontierClosed
from budgetfrontier.model import Directive
from tests.support import START, kernel, memory, one, pages, paths, record


def test_a_uri_that_is_out_stays_out_when_another_overtakes_it() -> None:
    frontier = memory(hold_queues=False, concurrency=4)
    frontier.schedule_many(pages("A", 4))
    one(frontier)
    frontier.schedule(CrawlUri("https://a.test/first", directive=Directive.HIGHEST))
    assert paths(frontier.lease(1)) == ["first"]
    assert paths(frontier.lease(2)) == ["1", "2"]


def test_the_head_is_looked_for_at_the_front_once_nothing_is_out() -> None:
    frontier = memory(hold_queues=False, concurrency=2)
    frontier.schedule_many(pages("A", 3))
    frontier.finish(one(frontier))
    frontier.schedule(CrawlUri("https://b.test/first", queue="a.test", directive=Directive.HIGHEST))
    frontier.adjust(match="host:b.test", queue_total_budget=7)
    assert record(frontier, "A").total_budget == 7
    assert one(frontier).uri.url == "https://b.test/first"


def test_a_thousand_may_be_out() -> None:
    frontier = memory(hold_queues=False, concurrency=5000)
    frontier.schedule_many(pages("A", 3000))
    leases = frontier.lease(2000)
    frontier.finish(leases[7], Outcome.RETRY, delay=0)
    frontier.finish(leases[8])
    assert paths(frontier.lease(2)) == ["7", "2000"]
    frontier.check()


def test_a_retry_that_comes_back_to_its_old_place_goes_out_again() -> None:
    clock = ManualClock(START)
    frontier = memory(clock, hold_queues=False, concurrency=2, retry={"delay": 5.0, "scope": "uri"})
    frontier.schedule_many(pages("A", 3))
    slow, ill = frontier.lease(2)
    frontier.finish(ill, Outcome.RETRY)
    clock.advance(5)
    again = one(frontier)
    assert (paths([again]), again.attempt) == (["1"], 2)
    assert frontier.lease(1) == []
    frontier.finish(slow)
    frontier.finish(again)
    assert paths(frontier.lease(2)) == ["2"]
    frontier.check()


def test_the_only_one_that_is_not_out_is_found_where_it_was() -> None:
    clock = ManualClock(START)
    frontier = memory(clock, hold_queues=False, concurrency=2, retry={"delay": 5.0, "scope": "uri"})
    frontier.schedule_many(pages("A", 2))
    slow, ill = frontier.lease(2)
    frontier.finish(ill, Outcome.RETRY)
    clock.advance(5)
    again = one(frontier)
    assert (paths([slow]), paths([again])) == (["0"], ["1"])
    frontier.finish(slow)
    frontier.finish(again)
    assert (frontier.summary().succeeded, frontier.summary().expenditure) == (2, 3)
    frontier.check()


def test_a_queue_whose_totals_are_wrong_hands_nothing_out_twice() -> None:
    frontier = memory(hold_queues=False, concurrency=2)
    frontier.schedule_many(pages("A", 1))
    lease = one(frontier)
    kernel(frontier).tables.queues.find("a.test").queued += 1  # type: ignore[union-attr]  # as a fault of ours might leave it
    frontier.adjust(balance_replenish_amount=100)
    with pytest.raises(CorruptFrontier, match=r"a\.test holds 2 URIs of which 1 are out"):
        frontier.lease(1)
    with pytest.raises(FrontierClosed):
        frontier.finish(lease)
