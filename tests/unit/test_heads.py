"""What goes out next, when URIs are out already."""

from __future__ import annotations

from budgetfrontier import CrawlUri, Outcome
from budgetfrontier.model import Directive
from tests.support import memory, one, pages, paths, record


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
