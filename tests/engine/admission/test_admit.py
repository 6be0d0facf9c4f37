"""Admission: once per canonical form, forced or full, on which queue, in which order, at which cost."""

from __future__ import annotations

from typing import Any

import pytest

from budgetfrontier import Admission, CrawlUri, Directive, Outcome
from budgetfrontier.clock import ManualClock
from tests.support import START, crawl, memory, one, pages, paths


def test_a_cost_is_fixed_when_the_uri_is_scheduled() -> None:
    with memory() as f:
        f.schedule_many(pages("A", 1))
        f.adjust(cost_policy="zero")
        f.schedule_many(pages("A", 1, first=1))
        costs = []
        while leases := f.lease(1):
            costs.append(leases[0].cost)
            f.finish(leases[0], Outcome.SUCCESS)
        assert costs == [0, 1]


@pytest.mark.parametrize(("order", "expected"), [("fifo", list("pqmshcdabx")), ("lifo", list("pqmshcdbax"))])
def test_the_order_inside_a_queue(order: str, expected: list[str]) -> None:
    with memory(order=order) as f:
        uris: dict[str, dict[str, Any]] = {
            "x": {"cost": 9},
            "a": {},
            "b": {},
            "c": {"priority": 5, "cost": 3},
            "d": {"priority": 5, "cost": 4},
            "h": {"directive": Directive.MEDIUM, "priority": -1},
            "s": {"directive": Directive.MEDIUM},
            "m": {"directive": Directive.HIGH, "cost": 99},
            "q": {"directive": Directive.HIGHEST, "cost": 2},
            "p": {"directive": Directive.HIGHEST},
        }
        for name, options in uris.items():
            f.schedule(CrawlUri(f"https://a.test/{name}", **options))
        leases = []
        while given := f.lease(1):
            leases += given
            f.finish(given[0], Outcome.SUCCESS)
        assert paths(leases) == expected


@pytest.mark.parametrize(
    "url",
    ["", "no url", "ftp://a.test/", "mailto:a@b.test", "https://", "https://a.test:99999/", "\ud800", "https://a\0/"],
)
def test_a_bad_uri_is_invalid_and_poisons_no_batch(url: str) -> None:
    with memory() as f:
        assert f.schedule(url) is Admission.INVALID
        tally = f.schedule_many(["https://a.test/1", url, "https://a.test/2", url, "https://a.test/1"])
        assert (tally.added, tally.invalid, tally.duplicate, tally.full) == (2, 2, 1, 0)
        assert sum(tally.reasons.values()) == 2
        assert f.summary().queued == 2
        f.check()


def test_a_full_frontier_keeps_no_trace() -> None:
    with memory(max_queued=3) as f:
        tally = f.schedule_many(pages("A", 2) + pages("BC", 1))
        assert (tally.added, tally.full) == (3, 1)
        assert f.queue("c.test") is None
        assert f.summary().seen == 3
        assert crawl(f, 1) == "A"
        assert f.schedule("https://c.test/0") is Admission.ADDED


def test_a_full_queue_keeps_no_trace() -> None:
    overrides = [{"match": "queue:b.test", "set": {"max_queue_size": 0}}]
    with memory(max_queue_size=2, overrides=overrides) as f:
        tally = f.schedule_many(pages("AB", 5))
        assert (tally.added, tally.full) == (7, 3)
        assert f.schedule("https://a.test/4") is Admission.FULL
        assert crawl(f, 1) == "A"
        assert f.schedule("https://a.test/4") is Admission.ADDED


@pytest.mark.parametrize("limit", ["max_queue_size", "max_queued"])
def test_what_is_full_has_room_for_a_prerequisite(limit: str) -> None:
    frontier: dict[str, Any] = {limit: 2}
    with memory(**frontier) as f:
        f.schedule_many(pages("A", 2))
        url = "https://a.test/robots.txt"
        assert f.schedule(CrawlUri(url, directive=Directive.HIGHEST)) is Admission.FULL
        assert f.schedule(CrawlUri(url, force=True)) is Admission.FULL
        assert f.schedule(CrawlUri(url, directive=Directive.HIGHEST, force=True)) is Admission.ADDED
        assert one(f).uri.url == url
        f.check()


@pytest.mark.parametrize("limit", ["max_queue_size", "max_queued"])
@pytest.mark.parametrize("order", ["fifo", "lifo"])
def test_what_is_full_has_room_for_the_revisits_of_its_own_pages(limit: str, order: str) -> None:
    clock = ManualClock(START)
    frontier: dict[str, Any] = {limit: 2, "order": order}
    with memory(clock, **frontier) as f:
        f.schedule_many(pages("A", 2))
        for _ in range(3):
            for _ in range(2):
                lease = one(f)
                f.finish(lease, discovered=[CrawlUri(lease.uri.url, force=True, not_before=clock.time() + 3600)])
            assert (f.summary().future, f.summary().queued) == (2, 0)
            clock.advance(3600)
        f.check()


def test_a_forced_queue_key_wins() -> None:
    with memory() as f:
        f.schedule(CrawlUri("https://a.test/", queue="my queue"))
        assert f.queue("a.test") is None
        assert one(f).queue == "my queue"


def test_a_queue_key_has_255_bytes_at_most() -> None:
    with memory() as f:
        assert f.schedule(CrawlUri("https://a.test/", queue="k" * 255)) is Admission.ADDED
        f.schedule(CrawlUri("https://b.test/", queue="k" * 256))
        f.schedule(CrawlUri("https://c.test/", queue="\u00e9" * 200))
        assert all(len(lease.queue.encode()) <= 255 for lease in f.lease(5))
        f.check()
