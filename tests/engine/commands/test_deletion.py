"""Deleting: what is taken, for free, and what it does to queues."""

from __future__ import annotations

from budgetfrontier import CrawlUri
from budgetfrontier.clock import ManualClock
from tests.support import START, crawl, crawl_state, memory, one, pages, paths, record, state


def test_deleting_is_free() -> None:
    with memory() as f:
        f.schedule_many(pages("AB", 4))
        assert f.delete(queue="a.*", pattern="/[01]$") == 2
        assert (record(f, "A").queued, f.summary().queued) == (2, 6)
        assert f.delete(queue="a.test") == 2
        assert (state(f, "A"), f.summary().queued, f.summary().expenditure) == ("EXHAUSTED", 4, 0)
        assert f.schedule("https://a.test/0").value == "DUPLICATE"
        assert f.delete(pattern=".") == 4
        assert crawl_state(f) == "FINISHED"
        f.check()


def test_what_is_out_and_what_arrives_later_stays() -> None:
    with memory(hold_queues=False) as f:
        f.schedule_many(pages("A", 4))
        lease = one(f)
        assert f.delete(queue="a.test") == 3
        f.schedule("https://a.test/later")
        f.finish(lease)
        assert paths([one(f)]) == ["later"]
        f.check()


def test_what_is_scheduled_for_later_goes_too() -> None:
    with memory(clock := ManualClock(START)) as f:
        f.schedule_many(CrawlUri(url, not_before=START + 60) for url in pages("AB", 2))
        assert f.delete(queue="a.test", pattern="/1$") == 1
        clock.advance(60)
        assert sorted(crawl(f)) == ["A", "B", "B"]
        f.check()


def test_a_deletion_is_told_beforehand() -> None:
    with memory() as f:
        f.schedule_many(pages("AB", 3))
        assert f.delete(queue="[ab].test", pattern="/0$", dry_run=True) == 2
        assert f.summary().queued == 6 and f.audit() == []
