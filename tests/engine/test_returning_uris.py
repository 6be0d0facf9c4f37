"""URIs that come back: in which order, how many in one call, and as what."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from budgetfrontier import CrawlUri, Frontier, Lease, Outcome
from budgetfrontier.clock import ManualClock
from budgetfrontier.engine import returning_uris
from tests.support import START, crawl, memory, one, pages, paths, record


def test_what_is_due_arrives_in_order() -> None:
    clock = ManualClock(START)
    with memory(clock) as f:
        for host, wait in ("a", 30), ("b", 10), ("c", 30), ("d", 0):
            f.schedule(CrawlUri(f"https://{host}.test/", not_before=START + wait))
        clock.advance(40)
        assert crawl(f) == "DBAC"


def test_so_many_come_back_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(returning_uris, "MAX_DUE", 3)
    clock = ManualClock(START)
    with memory(clock) as f:
        f.schedule_many(CrawlUri(url, not_before=START + 10) for url in pages("A", 7))
        clock.advance(10)
        for left in 4, 1, 0:
            f.lease(0)
            assert (f.summary().future, record(f, "A").queued) == (left, 7 - left)
            f.check()


def test_a_retry_keeps_its_rank_and_a_dead_letter_that_is_replayed_arrives_anew() -> None:
    clock = ManualClock(START)
    with memory(clock, retry={"delay": 10.0, "scope": "uri"}) as f:
        f.schedule_many(pages("A", 3))
        f.finish(one(f), Outcome.DEAD)
        f.finish(one(f), Outcome.RETRY)
        f.replay()
        clock.advance(10)
        assert paths(_finished(f)) == ["1", "2", "0"]


def _finished(frontier: Frontier) -> Iterator[Lease]:
    """Crawl all that may go out, in that order."""
    while leases := frontier.lease(1):
        frontier.finish(leases[0])
        yield leases[0]
