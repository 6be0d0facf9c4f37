"""Budgets by links: which links count, when the domains are ranked, and what that changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from budgetfrontier import CrawlUri, Frontier, QueueState, Reader, Settings
from budgetfrontier.clock import ManualClock
from budgetfrontier.engine import link_table
from budgetfrontier.engine.commands.mailbox import Command
from budgetfrontier.errors import MissingExtra, SettingsError
from budgetfrontier.reports.dry_runs import dry_run
from budgetfrontier.storage import group_listing, keys
from budgetfrontier.storage.backup import compact
from budgetfrontier.storage.records import decode_links
from budgetfrontier.testing import crash
from tests.support import START, kernel

STAR: dict[str, Any] = {"default_budget": 2, "max_budget": 6, "top": 2, "epoch": 100}


def settings(**frontier: Any) -> Settings:
    politeness = {"delay_factor": 0, "min_delay": 0, "max_delay": 0}
    return Settings.from_dict(
        {
            "crawl": "star",
            "groups": [{"name": "domain", "by": "registered-domain", "total_budget": "star"}],
            "frontier": {"retire_when": "reached", "politeness": politeness, "star": STAR} | frontier,
        }
    )


def opened(clock: ManualClock | None = None, **frontier: Any) -> Frontier:
    return Frontier.open(":memory:", settings(**frontier), clock=clock or ManualClock(START))


def links(frontier: Frontier) -> dict[str, int]:
    """The in-degrees, as written."""
    view = kernel(frontier).tables.flushed()
    return {key.decode(): decode_links(value).degree for key, value in view.items(keys.LINKS)}


def stored(frontier: Frontier) -> dict[str, dict[bytes, bytes]]:
    view = kernel(frontier).tables.flushed()
    return {table: dict(view.items(table)) for table in (keys.LINKS, keys.DEGREES)}


def crawled(frontier: Frontier, found: dict[str, list[str]] | None = None) -> list[str]:
    """Crawl to the end; `found` are the links on pages, by their hosts."""
    urls: list[str] = []
    while frontier.next_ready_in() is not None:
        for lease in frontier.lease(1):
            urls.append(lease.uri.url)
            frontier.finish(lease, discovered=(found or {}).get(lease.queue, []))
    return urls


def fetched(frontier: Frontier) -> list[str]:
    """The queues of what can be fetched now."""
    queues: list[str] = []
    while leases := frontier.lease():
        queues += [lease.queue for lease in leases]
        frontier.finish_many(leases)
    return queues


def pages(host: str, number: int) -> list[str]:
    return [f"https://{host}/{page}" for page in range(number)]


@pytest.mark.parametrize(
    "discovered",
    [
        ["https://www.b.test/", "http://b.test:8080/x", "HTTPS://B.test/x", "https://a.b.test/"],
        [CrawlUri("https://b.test/", priority=1), "https://b.test"],
        ["https://b.test/seen"],
        ["https://user:secret@b.test/?x"],
        [f"https://b.test/{page}" for page in range(20)],
    ],
)
def test_a_link_counts_once_for_each_pair_of_registered_domains(discovered: list[Any]) -> None:
    with opened() as frontier:
        frontier.schedule_many(["https://www.a.test/", "https://x.a.test/", "https://b.test/seen"])
        for lease in frontier.lease(9):
            if lease.queue != "b.test":
                frontier.finish(lease, discovered=discovered)
        assert links(frontier) == {"b.test": 1}
        frontier.check()


def test_links_within_a_domain_and_what_is_no_url_do_not_count() -> None:
    with opened() as frontier:
        frontier.schedule("https://www.a.test/")
        [lease] = frontier.lease()
        frontier.finish(lease, discovered=["https://shop.a.test/", "ftp://b.test/", "", "https://", "https://\udc80/"])
        assert links(frontier) == {}


def test_the_page_given_with_a_uri_counts_and_an_address_is_a_domain() -> None:
    with opened() as frontier:
        found = CrawlUri("https://b.test/1", via="https://www.a.test/page")
        frontier.schedule(found)
        frontier.schedule_many([found, CrawlUri("http://192.0.2.1/", via="https://a.test/"), "https://c.test/"])
        frontier.schedule_each([found, CrawlUri("https://b.test/2", via="http://192.0.2.1/")])
        frontier.schedule(CrawlUri("https://b.test/3", via="not a page"))
        assert links(frontier) == {"b.test": 2, "192.0.2.1": 1}


def test_links_to_uris_that_are_refused_count_but_none_of_a_finish_that_fails() -> None:
    with opened(max_queued=1) as frontier:
        frontier.schedule("https://a.test/1")
        [lease] = frontier.lease()
        frontier.schedule(CrawlUri("https://b.test/", via="https://c.test/"))
        assert links(frontier) == {"b.test": 1}
        with pytest.raises(TypeError):
            frontier.finish(lease, discovered=42)  # type: ignore[arg-type]
        assert links(frontier) == {"b.test": 1}


def test_without_such_a_group_links_are_not_counted() -> None:
    with Frontier.open(":memory:", Settings(), clock=ManualClock(START)) as frontier:
        frontier.schedule(CrawlUri("https://b.test/1", via="https://a.test/"))
        assert links(frontier) == {}


def test_pairs_are_written_before_they_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_table, "MOST_PAIRS", 2)
    with opened() as frontier:
        frontier.schedule_many(CrawlUri("https://b.test/", via=f"https://a{n}.test/") for n in range(3))
        view = kernel(frontier).tables.env.view()
        assert [key for key, _ in view.items(keys.LINKS)] == [b"b.test"]


def test_a_domain_spends_what_its_in_degree_allows_and_an_epoch_revives_it() -> None:
    clock = ManualClock(START)
    with opened(clock) as frontier:
        frontier.schedule_many([*pages("a.test", 9), *pages("www.a.test", 9), *pages("b.test", 1)])
        frontier.snooze("b.test", until=START + 1000)
        first = fetched(frontier)
        assert first == ["a.test", "a.test"], "the default"
        frontier.schedule(CrawlUri("https://a.test/0", via="https://c.test/"))
        assert frontier.lease() == []
        assert frontier.next_ready_in() == 100, "the end of the epoch"
        clock.advance(99)
        assert frontier.lease() == []
        clock.advance(1)
        then = fetched(frontier)
        assert len(then) == 4, "the maximum, for it is the first"
        queue = frontier.queue("a.test")
        assert queue is not None
        assert queue.state is QueueState.RETIRED
        frontier.check()


def test_only_a_lease_ends_an_epoch() -> None:
    """What is asked about kept URLs, reported of them or done to them changes no budget."""
    clock = ManualClock(START)
    with opened(clock, keep_urls=True) as frontier:
        frontier.schedule_many([*pages("a.test", 9), *pages("b.test", 4)])
        frontier.snooze("b.test", until=START + 1000)
        assert fetched(frontier) == ["a.test", "a.test"]
        frontier.schedule(CrawlUri("https://a.test/0", via="https://c.test/"))
        assert frontier.lease() == []
        clock.advance(100)
        waiting = frontier.find_url("https://b.test/0")
        assert waiting is not None
        internals = frontier.internals
        assert internals.forget_urls([waiting.fingerprint]) == 1
        assert len(internals.kept_urls()) == 12
        assert internals.kept_totals() is not None
        assert internals.fetched([(CrawlUri("https://b.test/1"), None)])
        again = msgspec.msgpack.encode(CrawlUri("https://b.test/2", force=True))
        assert internals.apply(Command("schedule", {"uris": [again], "in_place": True}, "me", "")).effect["added"] == 1
        frontier.commit()
        queue = frontier.queue("a.test")
        assert queue is not None
        assert queue.state is QueueState.RETIRED
        assert frontier.next_ready_in() == 0
        assert len(fetched(frontier)) == 4
        frontier.check()


def test_a_crawl_is_not_over_before_its_last_links_are_ranked() -> None:
    with opened() as frontier:
        frontier.schedule_many([*pages("a.test", 9), *pages("b.test", 3), *pages("c.test", 1)])
        found = {"b.test": ["https://a.test/"], "c.test": ["https://www.a.test/"]}
        urls = crawled(frontier, found)
        assert [sum(f"//{host}.test/" in url for url in urls) for host in "abc"] == [6, 2, 1]
        assert frontier.state.value == "FINISHED"
        frontier.check()


@pytest.mark.parametrize(("news", "by_name"), [(False, False), (True, False), (True, True)])
def test_a_resume_with_nothing_left_says_how_the_crawl_stands_after_its_last_ranking(news: bool, by_name: bool) -> None:
    with opened(pause_at_finish=True) as frontier:
        frontier.schedule_many(pages("a.test", 9))
        assert fetched(frontier) == ["a.test", "a.test"]
        if news:
            frontier.schedule(CrawlUri("https://a.test/0", via="https://c.test/"))
        if by_name:
            frontier.retire("a.test")
        frontier.pause()
        shown = dry_run(kernel(frontier).tables.flushed(), "resume", {})
        frontier.resume()
        entry = frontier.audit(limit=1)[0]
        state = (frontier.state.value, frontier.summary().pause_reason)
        assert state == (("RUNNING", None) if news and not by_name else ("PAUSED", "finish"))
        assert (entry.effect["after"]["state"], entry.effect["after"]["pause_reason"]) == state
        assert {name: shown[name] for name in entry.effect} == entry.effect
        frontier.undo(entry.id, force=True)
        entry = frontier.audit(limit=1)[0]
        assert entry.effect["after"]["state"] == frontier.state == "PAUSED"
        frontier.check()


def test_a_budget_holds_until_the_next_ranking_and_over_a_crash(tmp_path: Path) -> None:
    clock = ManualClock(START)
    frontier = Frontier.open(tmp_path / "f", settings(), clock=clock)
    frontier.schedule_many(CrawlUri("https://a.test/", via=f"https://{host}.test/") for host in ("b", "c"))
    frontier.lease()
    clock.advance(100)
    frontier.lease()
    frontier.schedule_many(CrawlUri(f"https://{host}.test/", via="https://x.test/") for host in ("b", "a"))
    frontier.commit()
    frontier.schedule(CrawlUri("https://b.test/", via="https://lost.test/"))
    crash(frontier)
    with Reader(tmp_path / "f") as reader, reader.view() as view:
        assert [view.in_degree(domain) for domain in ("a.test", "b.test", "x.test")] == [2, 0, 0]
    with Frontier.open(tmp_path / "f", clock=clock) as frontier:
        budgets = kernel(frontier).tables.links.budget
        assert (budgets("a.test"), budgets("b.test")) == (6, 2)
        clock.advance(100)
        frontier.lease()
        assert (budgets("a.test"), budgets("b.test"), budgets("c.test")) == (6, 3, 2)
        frontier.check()


def test_a_backup_and_a_compact_file_have_the_links_and_the_ranking(tmp_path: Path) -> None:
    clock = ManualClock(START)

    def many(first: int) -> list[CrawlUri]:
        return [CrawlUri("https://a.test/", via=f"https://x{n}.test/") for n in range(first, first + 90)]

    with Frontier.open(tmp_path / "f", settings(), clock=clock) as frontier:
        frontier.schedule_many([*many(0), CrawlUri("https://b.test/", via="https://a.test/")])
        clock.advance(100)
        frontier.lease()
        frontier.schedule_many(many(90))
        tables = stored(frontier)
        frontier.commit()
        with Reader(tmp_path / "f") as reader:
            reader.backup(tmp_path / "copy")
    assert sorted(map(len, tables.values())) == [2, 2]
    compact(tmp_path / "f")
    for path in (tmp_path / "f", tmp_path / "copy"):
        with Frontier.open(path, clock=clock) as frontier:
            assert stored(frontier) == tables
            budgets = kernel(frontier).tables.links.budget
            assert (budgets("a.test"), budgets("b.test")) == (6, 2)
            frontier.check()


def test_an_adjustment_takes_the_place_of_the_budget_by_links() -> None:
    with opened() as frontier:
        frontier.schedule_many([*pages("a.test", 9), *pages("b.test", 9)])
        frontier.adjust(match="group:domain/a.test", group={"total_budget": 5})
        urls = crawled(frontier)
        assert [sum(f"//{host}.test/" in url for url in urls) for host in "ab"] == [5, 2]


@pytest.mark.parametrize("match", ["group:domain", "group:*", "group:domain/*.test", f"group:domain/{'x' * 600}"])
@pytest.mark.parametrize("name", ["max_in_flight", "total_budget"])
def test_a_dry_run_and_an_adjustment_of_groups_that_have_their_budgets_by_links(match: str, name: str) -> None:
    with opened() as frontier:
        frontier.schedule_many([*pages("a.test", 9), *pages("b.test", 3)])
        crawled(frontier, {"b.test": ["https://a.test/"]})
        frontier.adjust(match=match, group={name: 7}, dry_run=True)
        frontier.adjust(match=match, group={name: 7})
        frontier.check()


def test_groups_are_listed_with_the_in_degree_of_their_domain() -> None:
    with opened() as frontier:
        frontier.schedule_many([*pages("a.test", 9), *pages("b.test", 9)])
        crawled(frontier, {"b.test": ["https://a.test/"]})
        rows = {row.group: row for row in group_listing.rows(kernel(frontier).tables.flushed(), START)}
        told = {name: (row.in_degree, row.total_budget, row.expenditure) for name, row in rows.items()}
        assert told == {"domain/a.test": (1, 6, 6), "domain/b.test": (0, 2, 2)}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"groups": [{"name": "g", "by": "host", "total_budget": "star"}]}, "needs by: registered-domain"),
        ({"groups": [{"name": "g", "match": "*", "total_budget": "star"}]}, "needs by: registered-domain"),
        ({"groups": [{"name": "g", "by": "host", "total_budget": "stars"}]}, "expected star, or a whole number"),
        ({"frontier": {"star": {"default_budget": 5, "max_budget": 4}}}, "max_budget is 4, less than the default"),
        ({"frontier": {"star": {"top": 0}}}, "frontier.star.top"),
        ({"frontier": {"star": {"epoch": 0}}}, "frontier.star.epoch"),
        (
            {
                "groups": [{"name": "g", "by": "registered-domain", "total_budget": "star"}],
                "frontier": {"queue_assignment_policy": "registered-domain"},
                "cluster": {"kafka": "localhost:9092"},
            },
            "no partition sees all links",
        ),
    ],
)
def test_what_is_wrong_is_said(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        Settings.from_dict({"crawl": "star"} | change)


def test_a_frontier_needs_the_extra_from_the_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"budgetfrontier\[star\]"):
        opened()
