"""Sizes: many URIs, queues and links at once, large URIs, and maps that have to grow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from budgetfrontier import Admission, CrawlUri, Outcome, Reader
from budgetfrontier.clock import ManualClock
from budgetfrontier.engine import queue_cache
from budgetfrontier.errors import StorageFull
from budgetfrontier.storage import lmdb_env
from tests.support import START, crawl, growing, kernel, map_size, memory, on_disk, one, pages, whole

URL = "https://c.test/"


OVERRIDE = {"match": "regex:/0$", "set": {"retry.max_retries": 3}}


def test_memory_does_not_grow_with_the_queues_that_one_call_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_cache, "CACHE", 20)
    clock = ManualClock(START)
    hosts = [f"https://h{number}.test/" for number in range(500)]
    with memory(clock, polite=True) as f:
        cached = kernel(f).tables.queues.cache  # its memory cannot be measured: each record is small
        f.schedule_many(hosts)
        f.adjust(precedence=2)
        assert len(cached) < 100
        f.adjust(balance_replenish_amount=0)
        assert f.lease(1) == []
        assert f.summary().queues["RETIRED"] == 500
        f.adjust(balance_replenish_amount=10)
        assert len(cached) < 100
        assert f.summary().queues["INACTIVE"] == 500
        f.schedule_many(url + "2" for url in hosts)
        while leases := f.lease(50):
            for lease in leases:
                f.finish(lease)
        f.schedule_many(CrawlUri(url + "3", not_before=START + 60) for url in hosts)
        f.check()
        assert f.summary().queues["SNOOZED"] == 500
        clock.advance(10)
        assert len(f.lease(1)) == 1
        assert len(cached) < 100
        clock.advance(100)
        assert len(f.lease(1)) == 1
        assert len(cached) < 100
        assert f.summary().future == 0
        whole(f)


def test_long_authorities_are_not_remembered() -> None:
    with memory(overrides=[OVERRIDE]) as f:
        with growing() as grown:
            tally = f.schedule_many(f"https://{'u' * 7000}{number}@h.test/{number}" for number in range(200))
        assert tally.added == 200
        assert grown() < 200 * 7000 / 2
        whole(f)


@pytest.mark.parametrize("concurrency", [1, 64])
def test_one_queue_may_hold_everything(concurrency: int) -> None:
    with memory(concurrency=concurrency, balance_replenish_amount=50) as f:
        assert f.schedule_many(f"https://a.test/{number}" for number in range(20_000)).added == 20_000
        for _ in range(20):
            leases = f.lease(64)
            assert len(leases) == min(concurrency, 50)
            for lease in leases:
                f.finish(lease)
        whole(f)
        left = f.summary().queued
        assert f.delete(queue="a.test") == left
        assert f.state == "FINISHED"
        whole(f)


def test_one_finish_may_discover_very_many() -> None:
    with memory(commit_operations=1000) as f:
        f.schedule(URL)
        f.finish(one(f), discovered=[f"https://h{number % 100}.test/{number}" for number in range(100_000)])
        assert (f.summary().queued, f.summary().seen) == (100_000, 100_001)
        whole(f)


def test_limits_leave_no_trace() -> None:
    with memory(max_queued=3, overrides=[{"match": "queue:a.test", "set": {"max_queue_size": 1}}]) as f:
        tally = f.schedule_many(pages("AB", 3))
        assert (tally.added, tally.full, tally.reasons) == (3, 3, {"max_queue_size": 2, "max_queued": 1})
        assert [f.schedule(url).value for url in pages("AB", 3)] == [
            "DUPLICATE",
            "FULL",
            "FULL",
            *2 * ["DUPLICATE"],
            "FULL",
        ]
        assert (f.summary().seen, f.queue("c.test")) == (3, None)
        assert f.schedule(URL) is Admission.FULL
        assert (f.summary().seen, f.queue("c.test")) == (3, None)
        crawl(f, 1)
        assert f.schedule(URL) is Admission.ADDED
        whole(f)


def test_the_map_grows_between_commits_and_readers_follow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lmdb_env, "MIN_ROOM", 1 << 20)
    with on_disk(tmp_path, hold_queues=False) as f, Reader(tmp_path / "frontier") as reader:
        size = map_size(tmp_path / "frontier")
        for number in range(15):
            f.schedule_many(f"https://h{host}.test/{number}" for host in range(1000))
            f.commit()
            assert reader.summary().queued == 1000 * (number + 1)
        assert map_size(tmp_path / "frontier") > size
        assert reader.report().totals.queued == 15_000
        whole(f)


def large(number: int) -> Iterator[CrawlUri]:
    """URIs with nearly a MiB each."""
    return (CrawlUri(f"https://h{n}.test/", payload=bytes(900_000)) for n in range(number))


def test_large_uris_do_not_fill_a_map_that_is_short_of_address_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lmdb_env, "MIN_ROOM", 64 << 20)
    with on_disk(tmp_path) as f:
        for uri in large(100):
            assert f.schedule(uri) is Admission.ADDED
        assert f.schedule_many(CrawlUri(f"{uri.url}x", payload=uri.payload) for uri in large(100)).added == 100
        for lease in f.lease(100):
            f.finish(lease, Outcome.DEAD, discovered=[CrawlUri(f"{lease.uri.url}y", payload=bytes(900_000))])
        assert f.replay() == 100


@pytest.mark.xfail(reason="one call is one transaction: a map short of address space must hold all of it", strict=True)
def test_one_page_with_more_than_a_map_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lmdb_env, "MIN_ROOM", 64 << 20)
    with on_disk(tmp_path) as f:
        f.schedule(URL)
        try:
            f.finish(one(f), discovered=large(200))
        except StorageFull as error:  # pytest would show the URIs, all of them
            raise AssertionError(str(error)) from None
