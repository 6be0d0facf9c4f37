"""Queues that look like traps: all traps are named, and no honest archive is."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from random import Random
from urllib.parse import urljoin

import pytest

from budgetfrontier import CrawlUri, Frontier, ManualClock, Settings
from budgetfrontier.reports import trap_list
from budgetfrontier.reports.trap_list import Suspect
from budgetfrontier.settings.scope_rules import parse_rule
from budgetfrontier.storage.reader import Reader
from tests.reports.trap_sites import HONEST, TRAPS, Links, content
from tests.support import on_disk

NOW = 1_795_000_000.0
"""In November 2026."""
GUIDE = Path(__file__).parents[2] / "docs/howto/traps.md"
SIGNS = {
    "calendar": "future-dates",
    "shop": "combined-arguments",
    "facets-in-paths": "permuted-segments",
    "sessions": "session-ids",
    "unnamed-sessions": "session-ids",
    "relative": "repeated-segments",
    "gone": "repeated-content",
    "next-month": "future-dates",
    "one-link": "future-dates",
    "letter-sessions": "session-ids",
}


def crawl_sites(frontier: Frontier, sites: Mapping[str, Links], fetched: int = 0) -> None:
    """Fetch a number of pages of each site (0: all), with its links as the discovered URIs."""
    requests: Counter[str] = Counter()
    frontier.schedule_many(f"http://{name}.test/" for name in sites)
    while leases := frontier.lease(1):
        uri, name = leases[0].uri, leases[0].queue.partition(".")[0]
        requests[name] += 1
        path = uri.url.partition(".test")[2]
        links = sites[name](path, requests[name])
        found = [CrawlUri(urljoin(uri.url, link), via=uri.url, hops=uri.hops + "L") for link in links]
        frontier.finish(leases[0], discovered=found, digest=content(name, path).encode())
        if requests[name] == fetched:
            frontier.retire(leases[0].queue)


def suspects(folder: Path, *, limit: int | None = None) -> list[Suspect]:
    with Reader(folder / "frontier") as reader, reader.view() as view:
        return trap_list.suspects(view, lambda queue: True, limit=limit, now=NOW)


@pytest.mark.parametrize("fetched", [100, 279, 300, 600])
def test_all_traps_are_named_and_no_honest_archive_is(tmp_path: Path, fetched: int) -> None:
    frontier = on_disk(tmp_path, ManualClock(NOW), queue_total_budget=-1)
    crawl_sites(frontier, TRAPS | HONEST, fetched)
    frontier.close()
    found = {one.queue.partition(".")[0]: one for one in suspects(tmp_path)}
    assert {name: one.evidence[0].code for name, one in found.items()} == SIGNS
    if fetched == 100:
        told = re.findall(r"^\| .* \| `([\w-]+)`[^|]* \| ([\d.]+) \|$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
        of_demo, of_sites = told[:2], told[2:]
        assert sorted(code for code, _ in of_demo) == ["future-dates", "session-ids"]
        assert sorted(of_sites) == sorted((one.evidence[0].code, f"{one.score:.2f}") for one in found.values())
    with Reader(tmp_path / "frontier") as reader:
        for name in TRAPS.keys() & found.keys():
            one = found[name]
            assert one.score >= 0.6
            if not one.rule:
                assert name == "gone"
                continue
            fits = parse_rule(one.rule).fits
            pending = [item.uri for item in reader.pending(one.queue)]
            assert sum(fits(uri, None) for uri in pending) >= 0.5 * len(pending)
            assert not fits(CrawlUri(f"http://{name}.test/"), None)
            assert not any(fits(CrawlUri(f"http://{other}.test/2031/04/"), None) for other in HONEST)


TABS = ("overview", "specs", "reviews", "images", "faq", "similar", "support", "warranty")


def products(path: str, request: int) -> list[str]:
    """A shop of 400 products under random ids, with eight pages each that lead to one another and to related ones."""
    ids = [hashlib.md5(f"p{n}".encode(), usedforsecurity=False).hexdigest() for n in range(400)]
    if path == "/":
        return [f"/product/{one}/overview" for one in ids[:30]]
    random, own = Random(path), path.split("/")[2]
    related = [f"/product/{random.choice(ids)}/{random.choice(TABS)}" for _ in range(4)]
    return [*(f"/product/{own}/{tab}" for tab in TABS), *related]


@pytest.mark.parametrize("fetched", [100, 500])
def test_a_shop_whose_pages_all_differ_is_not_named(tmp_path: Path, fetched: int) -> None:
    frontier = on_disk(tmp_path, ManualClock(NOW), queue_total_budget=-1)
    crawl_sites(frontier, {"products": products}, fetched)
    frontier.close()
    assert suspects(tmp_path) == []


@pytest.mark.parametrize(("redirects", "named"), [(400, True), (12, True), (11, False)])
def test_a_chain_of_redirects_is_named(tmp_path: Path, redirects: int, named: bool) -> None:
    with on_disk(tmp_path, ManualClock(1_795_000_000.0)) as frontier:
        frontier.schedule("http://chain.test/")
        last = CrawlUri(f"http://chain.test/{redirects}", hops="L" + redirects * "R")
        frontier.finish(frontier.lease()[0], status=302, discovered=[last])
        others = [CrawlUri(f"http://site.test/{page}", hops="LL" + "R" * (page % 3)) for page in range(30)]
        frontier.schedule_many(others)
    found = suspects(tmp_path)
    assert [one.queue for one in found] == ["chain.test"] * named
    assert all([each.code for each in one.evidence] == ["redirects"] and not one.rule for one in found)


def test_a_limit_keeps_the_most_suspicious(tmp_path: Path) -> None:
    frontier = on_disk(tmp_path, ManualClock(NOW), queue_total_budget=-1)
    crawl_sites(frontier, {name: TRAPS[name] for name in ("sessions", "calendar")}, 60)
    frontier.close()
    both = suspects(tmp_path)
    assert [one.score for one in both] == sorted((one.score for one in both), reverse=True)
    assert len(both) == 2 and suspects(tmp_path, limit=1) == both[:1]


def test_a_queue_is_held_by_what_it_has_spent(tmp_path: Path) -> None:
    """The next attempt exceeds it, unless the queue is retired already."""
    frontier = on_disk(tmp_path, ManualClock(NOW), queue_total_budget=-1)
    crawl_sites(frontier, {"sessions": TRAPS["sessions"]}, 60)
    frontier.commit()
    assert [one.total_budget for one in suspects(tmp_path)] == [None]
    frontier.unretire("sessions.test")
    frontier.commit()
    (one,) = suspects(tmp_path)
    assert one.total_budget == one.spent == 60
    frontier.adjust(match=f"queue:{one.queue}", queue_total_budget=one.total_budget)
    for lease in frontier.lease(1):
        frontier.finish(lease)
    assert frontier.lease(1) == []


def test_the_profile_trap_guard_gives_traps_a_part_and_archives_all() -> None:
    """Facets in paths look like any path: only the total budget holds them."""
    fast = {"delay_factor": 0, "min_delay": 0, "max_delay": 0}
    chosen = {"profile": "trap-guard", "frontier": {"queue_total_budget": 400, "politeness": fast}}
    with Frontier.open(":memory:", Settings.from_dict(chosen), clock=ManualClock(NOW)) as frontier:
        crawl_sites(frontier, TRAPS | HONEST)
        found = {name: frontier.queue(f"{name}.test") for name in TRAPS | HONEST}
    fetched = {name: queue.charges for name, queue in found.items() if queue is not None}
    assert {fetched[name] for name in (*(HONEST.keys() - {"library"}), "facets-in-paths", "gone")} == {401}
    assert 60 < fetched["library"] < 100  # its ids might be those of sessions
    assert fetched["shop"] < 320  # with one or two facets its pages are not expensive
    assert max(fetched[name] for name in TRAPS.keys() - {"facets-in-paths", "gone", "shop"}) < 170
