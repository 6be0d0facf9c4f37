"""Quotas: what has been fetched of a host, a queue or a group, or with a label, and what happens when it is enough."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlUri, Directive, Finish, Frontier, Outcome, QueueState, Settings
from budgetfrontier.clock import ManualClock
from budgetfrontier.core.model import FetchStats
from budgetfrontier.engine import tallies, turns
from budgetfrontier.testing import crash
from tests.support import START, crawl, kernel, make_settings, memory, on_disk, one, pages


def stats(frontier: Frontier, kind: str, name: str) -> FetchStats:
    return kernel(frontier).tables.tallies.get(kind, name)


def adjust(frontier: Frontier, match: str, quotas: dict[str, Any]) -> None:
    frontier.adjust(match=match, **quotas)


def with_quotas(**quotas: Any) -> Settings:
    return make_settings(quotas=quotas)


@pytest.mark.parametrize(
    ("quota", "size", "fetched"),
    [
        ({"successes": 3}, 0, 3),
        ({"urls": 3}, 0, 3),
        ({"novel": 3}, 0, 3),
        ({"errors": 0}, 0, 0),
        ({"errors": 1}, 0, 5),
        ({"bytes": "25B"}, 10, 3),
        ({"success_bytes": 20, "successes": 4}, 10, 2),
        ({"novel_bytes": 0}, 10, 0),
        ({"error_bytes": 1}, 10, 5),
    ],
)
@pytest.mark.parametrize("kind", ["host", "queue", "label"])
def test_a_quota_used_up_retires_the_queue(kind: str, quota: dict[str, Any], size: int, fetched: int) -> None:
    with memory(quotas={kind: quota}) as frontier:
        frontier.schedule_many(CrawlUri(url, source="news") for url in pages("a", 5))
        assert len(crawl(frontier, size=size)) == fetched
        queue, totals = frontier.queue("a.test"), frontier.summary()
        assert queue is not None
        assert (queue.state, queue.queued) == (QueueState.RETIRED if fetched < 5 else QueueState.EXHAUSTED, 5 - fetched)
        assert (totals.queued, totals.expenditure, totals.quota_denials) == (0, fetched, 0)
        frontier.check()


@pytest.mark.parametrize(("kind", "name"), [("host", "hosts"), ("queue", "queues"), ("label", ""), ("group", "groups")])
def test_the_first_quota_of_a_kind_warns_that_earlier_fetches_are_not_in_its_count(kind: str, name: str) -> None:
    setting = "group.quotas" if kind == "group" else f"quotas.{kind}"
    change: dict[str, Any] = {"match": "group:domain" if kind == "group" else "*", setting: {"successes": 25}}
    told = [f"quotas of {name} count from now on: none was in force, and fetches before are not in the count"]
    groups = [{"name": "domain", "by": "registered-domain"}]
    with Frontier.open(":memory:", Settings.from_dict({"groups": groups})) as frontier:
        assert frontier.adjust(**change, dry_run=True).warnings == []  # nothing was fetched yet
        frontier.schedule_many(pages("a", 5))
        frontier.finish(one(frontier))
        assert frontier.adjust(**change, dry_run=True).warnings == (told if name else [])
        assert frontier.adjust(**change).warnings == (told if name else [])
        first = frontier.audit()[-1]
        assert first.effect.get("warnings", []) == (told if name else [])
        change[setting] = {"successes": 30}
        assert frontier.adjust(**change, dry_run=True).warnings == frontier.adjust(**change).warnings == []


def test_errors_are_failures_and_dead_letters_and_retries_count_their_bytes() -> None:
    ends = [Outcome.FAILURE, Outcome.DEAD, Outcome.RETRY, Outcome.RETRY, Outcome.DEFERRED, Outcome.DISREGARDED]
    with memory(quotas={"queue": {"errors": 4}}, retry={"max_retries": 1, "delay": 0}) as frontier:
        frontier.schedule_many(pages("a", 9))
        for end in ends:
            [lease] = frontier.lease()
            frontier.finish(lease, end, size=10)
        found = stats(frontier, "queue", "a.test")
        assert found == FetchStats(successes=0, errors=3, error_bytes=60) and (found.urls, found.bytes) == (3, 60)
        [lease] = frontier.lease()
        frontier.finish(lease, Outcome.FAILURE)
        assert not frontier.lease()


def test_novel_are_the_successes_not_said_to_be_known() -> None:
    with memory(quotas={"host": {"novel": 9}}) as frontier:
        frontier.schedule_many(pages("a", 4))
        for novel in (True, False, None):
            frontier.finish_many([Finish(lease, size=5, novel=novel) for lease in frontier.lease()])
        frontier.finish(one(frontier), novel=False)
        assert stats(frontier, "host", "a.test") == FetchStats(successes=4, novel=2, success_bytes=15, novel_bytes=10)


def test_a_quota_that_is_raised_revives_the_queue_and_one_that_stays_retires_it_untried() -> None:
    with memory(quotas={"host": {"successes": 2}}) as frontier:
        frontier.schedule_many(pages("ab", 5))
        assert crawl(frontier) == "AABB"
        adjust(frontier, "host:a.test", {"quotas.host": {"successes": 4}})
        assert crawl(frontier) == "AA"
        assert frontier.summary().queues["RETIRED"] == 2
        adjust(frontier, "host:b.test", {"quotas.host": {}})
        assert crawl(frontier) == "BBB"
        frontier.undo(frontier.audit()[-1].id)
        frontier.schedule_many(pages("b", 7))
        assert crawl(frontier) == ""


def test_a_queue_retired_by_name_stays_so_when_its_quota_is_raised() -> None:
    with memory(quotas={"queue": {"urls": 1}}) as frontier:
        frontier.schedule_many(pages("a", 3))
        assert crawl(frontier) == "A"
        frontier.retire("a.test")
        adjust(frontier, "*", {"quotas.queue": {"urls": 2}})
        assert crawl(frontier) == ""


def test_without_force_retire_uris_are_disregarded_on_their_turn() -> None:
    told: list[Any] = []
    with memory(quotas={"label": {"urls": 1}, "force_retire": False}) as frontier:
        for number in range(6):
            frontier.schedule(CrawlUri(f"https://a.test/{number}", source=("x", "y", None)[number % 3]))
        frontier.schedule(CrawlUri("https://a.test/robots.txt", source="x", directive=Directive.HIGHEST, force=True))
        frontier.schedule(CrawlUri("https://a.test/seed", source="y", directive=Directive.MEDIUM))
        while leases := frontier.lease():
            told.append(leases[0].uri.url)
            frontier.finish(leases[0])
        totals = frontier.summary()
        assert told == [f"https://a.test/{name}" for name in ("robots.txt", "seed", "2", "5")]
        assert (totals.disregarded, totals.quota_denials, totals.expenditure) == (4, 4, 4)
        assert totals.state == "FINISHED"
        frontier.check()


def test_a_disregarded_seed_and_prerequisite_say_so() -> None:
    with memory(quotas={"host": {"urls": 0}, "force_retire": False}) as frontier:
        frontier.schedule(CrawlUri("https://a.test/", directive=Directive.MEDIUM))
        frontier.schedule(CrawlUri("https://a.test/robots.txt", directive=Directive.HIGHEST, force=True))
        assert not frontier.lease()
        totals = frontier.summary()
        assert (totals.prerequisites, totals.prerequisites_disregarded, totals.quota_denials) == (1, 1, 1)
        assert kernel(frontier).counters.seed_fates == {"DISREGARDED": 2, "WAITING": 0}
        frontier.check()


def test_one_call_disregards_so_many_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "MAX_TURNS", 10)
    with memory(quotas={"host": {"urls": 0}, "force_retire": False}) as frontier:
        frontier.schedule_many(pages("a", 25))
        for left in (16, 6, 0):  # the first turn of the first call is an activation
            assert not frontier.lease()
            assert frontier.summary().queued == left
            assert (frontier.next_ready_in() == 0.0) is (left > 0)


@pytest.mark.parametrize("force_retire", [True, False])
def test_leases_by_queue_obey_quotas(force_retire: bool) -> None:
    quotas = {"host": {"urls": 2}, "force_retire": force_retire}
    with memory(quotas=quotas, concurrency=9, queue_assignment_policy="single") as frontier:
        frontier.schedule_many(f"https://{host}.test/{page}" for page in range(4) for host in "ab")
        frontier.finish_many(frontier.internals.lease_queues(1, 2))
        frontier.finish_many(frontier.internals.lease_queues(1, 2))
        assert not frontier.internals.lease_queues(9, 9)
        totals = frontier.summary()
        assert (totals.succeeded, totals.quota_denials) == (4, 0 if force_retire else 4)
        assert totals.queues["RETIRED" if force_retire else "EXHAUSTED"] == 1
        frontier.check()


def test_what_is_in_flight_may_exceed_a_quota() -> None:
    with memory(quotas={"host": {"successes": 2}}, concurrency=3) as frontier:
        frontier.schedule_many(pages("a", 9))
        frontier.finish_many(frontier.lease(3))
        assert stats(frontier, "host", "a.test").successes == 3 and not frontier.lease(3)


def test_a_quota_of_a_host_is_for_all_its_queues_and_ports_and_one_of_a_queue_for_all_its_hosts() -> None:
    with memory(quotas={"host": {"urls": 2}}) as frontier:
        frontier.schedule_many(["https://a.test/", "https://a.test:8443/", "http://a.test/"])
        frontier.schedule(CrawlUri("https://a.test/else", queue="else"))
        assert len(crawl(frontier)) == 2
    with memory(quotas={"queue": {"urls": 3}}, queue_assignment_policy="registered-domain") as frontier:
        frontier.schedule_many(f"https://{host}.example.org/{page}" for host in "ab" for page in range(4))
        assert len(crawl(frontier)) == 3


def test_labels_are_always_counted_hosts_and_queues_only_with_a_quota() -> None:
    with memory() as frontier:
        frontier.schedule_many(CrawlUri(url, source="news") for url in pages("a", 4))
        frontier.finish(one(frontier), Outcome.FAILURE)
        frontier.finish_many(frontier.lease())
        assert stats(frontier, "label", "news").urls == 2
        assert stats(frontier, "host", "a.test") == stats(frontier, "queue", "a.test") == FetchStats()
        adjust(frontier, "host:elsewhere.test", {"quotas.host": {"urls": 1}})
        frontier.finish_many(frontier.lease())
        assert stats(frontier, "host", "a.test").urls == 1


def test_tallies_survive_reopening_and_a_crash_as_of_the_last_commit(tmp_path: Path) -> None:
    clock = ManualClock(START)
    settings = with_quotas(host={"urls": 4}, label={"bytes": 1000})
    with Frontier.open(tmp_path / "f", settings, clock=clock) as frontier:
        frontier.schedule_many(CrawlUri(url, source="news") for url in pages("a", 9))
        frontier.finish(one(frontier), size=7)
        leases = frontier.lease()
    with Frontier.open(tmp_path / "f", clock=clock) as frontier:
        assert stats(frontier, "label", "news") == stats(frontier, "host", "a.test")
        frontier.finish(one(frontier), size=7)
        frontier.commit()
        frontier.finish(one(frontier), size=7)
        crash(frontier)
    with Frontier.open(tmp_path / "f", clock=clock, keep_leases=True) as frontier:
        assert stats(frontier, "host", "a.test") == FetchStats(successes=2, novel=2, success_bytes=14, novel_bytes=14)
        assert len(crawl(frontier)) == 2 and leases


def test_the_lease_of_a_labelled_uri_that_is_kept_is_counted_when_it_ends(tmp_path: Path) -> None:
    with Frontier.open(tmp_path / "f", keep_leases=True) as frontier:
        frontier.schedule(CrawlUri("https://a.test/", source="news"))
        [lease] = frontier.lease()
    with Frontier.open(tmp_path / "f", keep_leases=True) as frontier:
        frontier.finish(lease)
        assert stats(frontier, "label", "news").successes == 1


def test_a_bounded_number_of_tallies_is_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tallies, "CACHE", 3)
    with memory(quotas={"host": {"urls": 2}, "queue": {"urls": 3}}) as frontier:
        frontier.schedule_many(pages("abcdefgh", 5))
        assert sorted(crawl(frontier)) == sorted("ABCDEFGH" * 2)
        frontier.commit()
        assert len(kernel(frontier).tables.tallies._live) <= 3
        frontier.check()


def test_reports_of_fetches_by_url_count() -> None:
    with memory(keep_urls=True, quotas={"host": {"successes": 2}}) as frontier:
        frontier.schedule_many(pages("a", 4))
        for _ in range(2):
            [lease] = frontier.lease()
            frontier.internals.fetched([(lease.uri, None)])
        assert stats(frontier, "host", "a.test").successes == 2 and not frontier.lease()


def test_long_labels_are_told_apart_by_their_first_bytes() -> None:
    with memory() as frontier:
        for number, label in enumerate(("é" * 400 + "1", "é" * 400 + "2", "é" * 200)):
            frontier.schedule(CrawlUri(f"https://a.test/{number}", source=label))
        crawl(frontier)
        assert stats(frontier, "label", "é" * 400).urls == 2 and stats(frontier, "label", "é" * 200).urls == 1
        frontier.check()


FEW: dict[str, Any] = {"name": "few", "match": "domain:few.test", "quotas": {"urls": 3}}


@pytest.mark.parametrize("force_retire", [True, False])
def test_a_quota_of_a_group_is_for_all_its_queues(force_retire: bool) -> None:
    with memory(groups=[FEW], quotas={"force_retire": force_retire}) as frontier:
        frontier.schedule_many(f"https://{host}.test/{page}" for host in ("x.few", "y.few", "b") for page in range(4))
        assert len(crawl(frontier, size=5)) == 7
        totals = frontier.summary()
        assert stats(frontier, "group", "few") == FetchStats(successes=3, novel=3, success_bytes=15, novel_bytes=15)
        assert (totals.queues[QueueState.RETIRED], totals.quota_denials) == ((2, 0) if force_retire else (0, 5))
        frontier.check()


def test_a_quota_of_a_group_is_adjusted_by_its_name_and_revives_its_queues() -> None:
    with memory(groups=[{"name": "site", "by": "registered-domain", "quotas": {"urls": 1}}]) as frontier:
        frontier.schedule_many(f"https://{host}.test/{page}" for host in ("x.a", "y.a", "b", "c") for page in range(3))
        assert len(crawl(frontier)) == 3
        frontier.adjust(match="group:site/a.test", **{"group.quotas": {"urls": 4}})  # type: ignore[arg-type]
        assert len(crawl(frontier)) == 3
        assert stats(frontier, "group", "site/a.test").urls == 4
        frontier.adjust(match="group:site/b*", **{"group.quotas": {}})  # type: ignore[arg-type]
        assert len(crawl(frontier)) == 2 and frontier.summary().queues[QueueState.RETIRED] == 2
        frontier.adjust(match="group:*", **{"group.quotas": {"errors": 1}})  # type: ignore[arg-type]
        assert len(crawl(frontier)) == 4


def test_what_is_fetched_counts_for_the_group_that_a_queue_is_in_then(tmp_path: Path) -> None:
    rest = {"name": "rest", "match": "*", "quotas": {"urls": 2}}
    with on_disk(tmp_path / "f", groups=[FEW, rest]) as frontier:
        frontier.schedule_many(f"https://x.few.test/{page}" for page in range(6))
        frontier.finish(one(frontier))
    with on_disk(tmp_path / "f", groups=[FEW | {"match": "domain:else.test"}, rest]) as frontier:
        assert len(crawl(frontier)) == 2
        assert (stats(frontier, "group", "few").urls, stats(frontier, "group", "rest").urls) == (1, 2)
        frontier.check()


def test_groups_are_counted_only_while_some_group_has_a_quota() -> None:
    with memory(groups=[{"name": "site", "by": "host", "total_budget": 9}]) as frontier:
        frontier.schedule_many(pages("a", 3))
        frontier.finish(one(frontier))
        assert stats(frontier, "group", "site/a.test") == FetchStats()
        frontier.adjust(match="group:site/b.test", **{"group.quotas": {"urls": 1}})  # type: ignore[arg-type]
        frontier.finish_many(frontier.lease())
        assert stats(frontier, "group", "site/a.test").urls == 1
