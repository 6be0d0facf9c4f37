"""Admission: once per canonical form, forced or full, on which queue, in which order, at which cost."""

from __future__ import annotations

import random
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetfrontier import Admission, CrawlUri, Directive, Outcome, Tally
from budgetfrontier.clock import ManualClock
from budgetfrontier.engine.admission.candidates import Candidates
from tests.examples import few
from tests.support import START, crawl, memory, one, pages, paths, stored


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


HOSTS = ("a.test", "b.test", "A.test", "c.test:8080", "[::1]")
TAILS = ("/", "/p/{n}", "/p/{n}?b=2&a=1", "/x#y", "", "/./p", "/p {n}", "/\u00e9{n}", "/p/{n}?utm_source=x")


def without_shortcut() -> AbstractContextManager[object]:
    """Admission by the machinery of batches alone."""
    return mock.patch.object(Candidates, "read_plain", lambda self, *_: None)


@pytest.mark.parametrize("order", ["fifo", "lifo"])
@pytest.mark.parametrize("limits", [{}, {"max_queued": 9}, {"max_queue_size": 2}, {"keep_urls": True}])
@few(30)  # of ten mutants, the last was found by the 22nd example
@given(seed=st.integers(0, 1 << 32))
def test_a_plain_url_alone_is_admitted_as_by_the_batch(order: str, limits: dict[str, int], seed: int) -> None:
    draw = random.Random(seed)
    options: dict[str, Any] = {"order": order, "concurrency": 5, **limits}
    with memory(**options) as quick, memory(**options) as slow:
        for _ in range(12):
            sites = [f"http{draw.choice(('', 's'))}://{draw.choice(HOSTS)}" for _ in range(draw.randrange(1, 10))]
            urls = [site + draw.choice(TAILS).format(n=draw.randrange(6)) for site in sites]
            kind = draw.random()
            if kind < 0.4:
                first = [quick.schedule(url) for url in urls]
                with without_shortcut():
                    assert first == [slow.schedule(url) for url in urls]
            elif kind < 0.5:
                carrying = [CrawlUri(url, payload=draw.choice((None, b"", b"carried"))) for url in urls]
                given_back = quick.schedule_each(carrying)
                with without_shortcut():
                    assert given_back == slow.schedule_each(carrying)
            elif kind < 0.7:
                together = quick.schedule_many(urls[:8])
                apart = Tally()
                with without_shortcut():
                    for url in urls[:8]:
                        apart.add(slow.schedule_many([url]))
                assert msgspec.structs.astuple(together) == msgspec.structs.astuple(apart)
            else:
                leases = quick.lease(1), slow.lease(1)
                if leases[0]:
                    links = [url.replace(url.split("/")[2], "d.test") for url in urls]
                    quick.finish(leases[0][0], discovered=links)
                    with without_shortcut():
                        slow.finish(leases[1][0], discovered=links)
            if draw.random() < 0.3:
                assert stored(quick) == stored(slow)
        assert stored(quick) == stored(slow)
        quick.check()
