"""What is scheduled for later: retries set aside, and revisits."""

from __future__ import annotations

import pytest

from budgetfrontier import CrawlState, CrawlUri, Outcome
from budgetfrontier.clock import ManualClock
from tests.support import START, memory, one, pages, record


def test_a_retry_can_set_only_its_uri_aside() -> None:
    clock = ManualClock(START)
    with memory(clock, retry={"delay": 900.0, "scope": "uri"}) as f:
        f.schedule_many(pages("A", 2))
        f.finish(one(f), Outcome.RETRY)
        assert (f.summary().future, f.summary().queued, record(f, "A").queued) == (1, 1, 1)
        lease = one(f)
        assert lease.uri.url == "https://a.test/1"
        f.finish(lease, Outcome.SUCCESS)
        assert (f.lease(1), f.state) == ([], CrawlState.RUNNING)
        assert f.next_ready_in() == pytest.approx(900)
        clock.advance(900)
        lease = one(f)
        assert (lease.uri.url, lease.attempt) == ("https://a.test/0", 2)


def test_a_revisit_is_a_forced_uri_for_later() -> None:
    clock = ManualClock(START)
    with memory(clock) as f:
        f.schedule("https://a.test/0")
        revisit = CrawlUri("https://a.test/0", force=True, not_before=START + 86400)
        f.finish(one(f), Outcome.SUCCESS, discovered=[revisit])
        assert (f.summary().future, f.summary().seen) == (1, 1)
        clock.advance(86400)
        assert one(f).uri.url == "https://a.test/0"
