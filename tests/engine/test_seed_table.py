"""The list of seeds: which URIs are in it, and that it says what became of each, whatever ended it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Admission, CrawlUri, Directive, Finish, Frontier, Outcome
from budgetfrontier.clock import ManualClock
from budgetfrontier.rules.seeds import SeedFate
from budgetfrontier.storage import seed_list
from tests.support import START, memory, on_disk, one

A, B = "http://a.test/", "http://b.test/"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def frontier(tmp_path: Path, clock: ManualClock) -> Iterator[Frontier]:
    with on_disk(tmp_path, clock, retry={"max_retries": 1, "delay": 0}, max_deliveries=1) as f:
        yield f
        f.check()


def seed(url: str, **fields: Any) -> CrawlUri:
    return CrawlUri(url, directive=Directive.MEDIUM, **fields)


def listed(f: Frontier) -> dict[str, tuple[str, str]]:
    """The fate of each seed, and the reason."""
    f.commit()
    found = {row.url: (str(row.fate), row.reason) for _, row in seed_list.rows(f._tables.env.view())}
    assert f._counters.seeds == len(found)
    return found


def test_seeds_are_listed_and_links_are_not(frontier: Frontier) -> None:
    frontier.schedule_many([seed("HTTP://a.test", source="list"), seed(B, meta={"seed": B}), "http://link.test/"])
    frontier.schedule_many([CrawlUri("http://embed.test/", hops="E", directive=Directive.MEDIUM)])
    frontier.schedule(seed(A))  # as a crawl does at each start
    rows = [row for _, row in seed_list.rows(frontier._tables.env.view())]
    assert [(row.url, row.queue, row.origin, row.label) for row in rows] == [
        (A, "a.test", "scheduled", "list"),
        (B, "b.test", "imported", ""),
    ]


@pytest.mark.parametrize("each", [True, False], ids=["one by one", "as a batch"])
@pytest.mark.parametrize(
    ("outcome", "fate"),
    [("SUCCESS", "SUCCEEDED"), ("FAILURE", "FAILED"), ("DISREGARDED", "DISREGARDED"), ("DEAD", "DEAD")],
)
def test_an_outcome_is_noted_with_its_reason(frontier: Frontier, outcome: Outcome, fate: str, each: bool) -> None:
    frontier.schedule(seed(A))
    if each:
        frontier.finish(one(frontier), outcome, reason="because")
    else:
        frontier.finish_many([Finish(one(frontier), Outcome(outcome), reason="because")])
    assert listed(frontier) == {A: (fate, "because")}


def test_a_batch_of_leases_has_no_reasons(frontier: Frontier) -> None:
    frontier.schedule_many([seed(A), B])
    frontier.finish_many(frontier.lease(2))
    assert listed(frontier) == {A: ("SUCCEEDED", "")}


def test_a_retry_says_why_it_waits_and_the_last_one_is_a_dead_letter(frontier: Frontier) -> None:
    frontier.schedule(seed(A))
    frontier.finish(one(frontier), Outcome.RETRY, reason="no answer")
    assert listed(frontier) == {A: ("WAITING", "no answer")}
    frontier.finish(one(frontier), Outcome.RETRY, reason="no answer again")
    assert listed(frontier) == {A: ("DEAD", "no answer again")}
    frontier.replay()
    assert listed(frontier)[A][0] == "WAITING"


def test_a_lease_that_expires_too_often_makes_it_a_dead_letter(frontier: Frontier, clock: ManualClock) -> None:
    frontier.schedule(seed(A))
    lease = one(frontier)
    clock.advance(lease.expires)
    assert frontier.lease(1) == []
    assert listed(frontier) == {A: ("DEAD", "max deliveries")}


def test_what_is_deleted_and_put_back(frontier: Frontier) -> None:
    frontier.schedule_many([seed(A), seed("http://later.test/", not_before=2**40)])
    frontier.delete(queue="*")
    assert {fate for fate, _ in listed(frontier).values()} == {"DELETED"}
    frontier.undo(1)
    assert {fate for fate, _ in listed(frontier).values()} == {"WAITING"}


def test_a_redirect_is_a_seed_and_its_source_says_so(frontier: Frontier) -> None:
    frontier.schedule_many([seed(A), seed(B), "http://old.test/"])
    leases = {lease.uri.url: lease for lease in frontier.lease(3)}
    found = [seed("http://new.test/", hops="R", via=A), CrawlUri("http://not.test/", hops="LR", via="http://old.test/")]
    frontier.finish(leases[A], discovered=found, reason="status 301")
    frontier.finish(leases[B], discovered=[seed("http://old.test/", hops="R", via=B)], reason="status 301")
    rows = {row.url: row for _, row in seed_list.rows(frontier._tables.env.view())}
    assert (rows[A].redirect, rows[B].redirect) == ("http://new.test/", "http://old.test/")
    assert (rows["http://new.test/"].via, rows["http://new.test/"].origin) == (A, "redirected")
    assert rows["http://old.test/"].fate is SeedFate.KNOWN, "it was found before, as a link"
    assert "http://not.test/" not in rows


def test_marked_and_buried_seeds_are_listed(frontier: Frontier) -> None:
    frontier.mark_seen([seed(A)])
    assert listed(frontier) == {A: ("KNOWN", "")}
    frontier.schedule(seed(A, force=True))
    assert listed(frontier) == {A: ("WAITING", "")}


def test_one_that_finds_no_room_is_not_listed(tmp_path: Path) -> None:
    with on_disk(tmp_path, max_queued=1) as f:
        f.schedule_many([seed(A), seed(B)])
        assert listed(f) == {A: ("WAITING", "")}


@pytest.mark.parametrize(
    ("end", "fate"),
    [
        (lambda f: f.internals.forget_urls([f.find_url(A).fingerprint]), "DELETED"),
        (lambda f: f.internals.fetched([(CrawlUri(A), None)]), "SUCCEEDED"),
    ],
    ids=["forgotten", "reported"],
)
def test_a_kept_url_that_a_crawler_ends(tmp_path: Path, end: Callable[[Any], object], fate: str) -> None:
    with on_disk(tmp_path, keep_urls=True) as f:
        f.schedule(seed(A))
        end(f)
        assert listed(f)[A][0] == fate
        f.check()


def test_the_hosts_of_those_imported_are_found_and_those_scheduled_are_not(frontier: Frontier) -> None:
    other = seed("http://www.b.example.co.uk/x", meta={"seed": "http://www.b.example.co.uk/x"})
    frontier.schedule_many([seed(A), other])
    hosts = frontier.internals.seed_hosts
    assert hosts.has_host("b.example.co.uk") and not hosts.has_host("example.co.uk") and not hosts.has_host("a.test")

    def domain_of(uri: CrawlUri) -> str:
        return "example.co.uk" if uri.url.endswith("example.co.uk/") else "other"

    assert hosts.has_domain("example.co.uk", domain_of)
    assert not hosts.has_domain("co.uk", domain_of) and not hosts.has_domain("ample.co.uk", domain_of)
    last = hosts.last
    frontier.schedule(seed("http://more.test/"))
    assert hosts.last == last + 1, "so that a scope asks again"


def test_a_seed_that_is_full_is_not_listed_although_a_link_to_it_is_admitted() -> None:
    with memory(max_queue_size=1) as f:
        f.schedule("http://a.test/0")
        link = CrawlUri("http://a.test/1", queue="elsewhere")
        assert f.schedule_each([seed("http://a.test/1"), link]) == [Admission.FULL, Admission.ADDED]
        assert listed(f) == {}
