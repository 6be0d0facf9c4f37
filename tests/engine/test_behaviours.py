"""The behaviours that the contract names, one test each."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from budgetfrontier import Admission, CrawlUri, Frontier, Outcome
from budgetfrontier.clock import ManualClock
from budgetfrontier.core.model import Directive
from tests.support import START, crawl, crawl_state, memory, on_disk, one, pages, paths, record, state, until


def test_two_hosts_take_turns_by_budget() -> None:
    with memory(balance_replenish_amount=3) as f:
        f.schedule_many(pages("AB", 5))
        assert crawl(f) == "AAABBBAABB"


def test_one_queue_alone_goes_on_with_a_fresh_balance() -> None:
    with memory(balance_replenish_amount=3) as f:
        f.schedule_many(pages("A", 8))
        assert crawl(f, 3) == "AAA"
        assert state(f, "A") == "INACTIVE"
        assert crawl(f, 1) == "A"
        assert record(f, "A").balance == 2
        assert crawl(f) == "AAAA"


def test_a_depleted_queue_waits_behind_the_inactive_ones() -> None:
    with memory(balance_replenish_amount=2) as f:
        f.schedule_many(pages("ABC", 3))
        assert crawl(f, 2) == "AA"
        assert [state(f, host) for host in "ABC"] == ["INACTIVE"] * 3
        assert crawl(f) == "BBCCABC"


def test_zero_cost_never_depletes() -> None:
    with memory(cost_policy="zero", balance_replenish_amount=3, queue_total_budget=1) as f:
        f.schedule_many(pages("A", 10_001))
        assert crawl(f, 10_000) == "A" * 10_000
        assert record(f, "A").balance == 3
        assert record(f, "A").expenditure == 0
        assert f.summary().queues["RETIRED"] == 0


@pytest.mark.parametrize(("retire_when", "total", "crawled"), [("exceeded", 5, 6), ("reached", 5, 5)])
def test_total_budget_retires(retire_when: str, total: int, crawled: int) -> None:
    with memory(queue_total_budget=total, retire_when=retire_when) as f:
        f.schedule_many(pages("A", 9))
        assert crawl(f) == "A" * crawled
        assert state(f, "A") == "RETIRED"
        assert record(f, "A").queued == 9 - crawled


def test_total_budget_of_nothing() -> None:
    with memory(queue_total_budget=0, retire_when="reached") as f:
        f.schedule_many(pages("A", 3))
        assert crawl(f) == ""
        assert state(f, "A") == "RETIRED"


def test_no_total_budget() -> None:
    with memory(queue_total_budget=-1, retire_when="reached") as f:
        f.schedule_many(pages("A", 5000))
        assert crawl(f) == "A" * 5000
        assert record(f, "A").expenditure == 5000


def test_what_a_retired_queue_holds_is_not_queued() -> None:
    with memory() as f:
        f.schedule_many(pages("A", 4) + pages("B", 3))
        f.retire("a.test")
        assert f.summary().queued == 3
        assert record(f, "A").queued == 4
        assert f.schedule("https://a.test/another") is Admission.ADDED
        assert record(f, "A").queued == 5
        assert f.summary().queued == 3
        assert state(f, "A") == "RETIRED"


def test_a_raised_budget_revives() -> None:
    with memory(queue_total_budget=1) as f:
        f.schedule_many(pages("AB", 5))
        assert crawl(f) == "AABB"
        f.adjust(match="queue:a.test", queue_total_budget=3)
        assert state(f, "A") == "INACTIVE"
        assert crawl(f) == "AA"


def test_a_budget_raised_too_little_tries_no_uri() -> None:
    with memory(queue_total_budget=3) as f:
        f.schedule_many(pages("A", 9))
        assert crawl(f) == "AAAA"
        f.adjust(queue_total_budget=2)  # the crawl is over, and stays so
        assert (state(f, "A"), f.state, f.summary().queued) == ("RETIRED", "FINISHED", 0)
        f.schedule_many(pages("B", 1))
        f.adjust(queue_total_budget=1)
        assert (state(f, "A"), f.summary().queued) == ("INACTIVE", 6)
        assert crawl(f) == "B"
        assert state(f, "A") == "RETIRED"
        assert record(f, "A").expenditure == 4


def test_replenish_nothing_in_mid_session() -> None:
    with memory() as f:
        f.schedule_many(pages("A", 9))
        assert crawl(f, 2) == "AA"
        f.adjust(balance_replenish_amount=0)
        assert crawl(f) == ""
        assert state(f, "A") == "RETIRED"


class Pauses:
    """A hook that keeps what it was told."""

    def __init__(self) -> None:
        self.reports: list[object] = []

    def on_pause_at_finish(self, frontier: Frontier, report: object) -> None:
        self.reports.append(report)


def test_only_retired_queues_left_finishes() -> None:
    hook = Pauses()
    with memory(queue_total_budget=1, hooks=[hook]) as f:
        f.schedule_many(pages("A", 5))
        assert crawl(f) == "AA"
        assert crawl_state(f) == "FINISHED"
        assert hook.reports == []


def test_only_retired_queues_left_pauses_when_asked_to() -> None:
    hook = Pauses()
    with memory(queue_total_budget=1, pause_at_finish=True, hooks=[hook]) as f:
        f.schedule_many(pages("A", 5))
        assert crawl(f) == "AA"
        assert crawl_state(f) == "PAUSED"
        assert f.summary().pause_reason == "finish"
        assert len(hook.reports) == 1
        f.lease(1)
        assert len(hook.reports) == 1
        assert str(f.resume()) == "PAUSED"
        assert len(hook.reports) == 2
        f.adjust(queue_total_budget=2)
        assert str(f.resume()) == "RUNNING"
        assert crawl(f) == "A"
        assert crawl_state(f) == "PAUSED"


def test_wag_puts_the_likely_worthless_last() -> None:
    with memory(cost_policy="wag") as f:
        f.schedule(CrawlUri("https://a.test/p?b", via="https://a.test/p?a"))
        f.schedule(CrawlUri("https://a.test/q?x", via="https://a.test/"))
        f.schedule(CrawlUri("https://a.test/q", via="https://a.test/"))
        leases = []
        while given := f.lease(1):
            leases += given
            f.finish(given[0], Outcome.SUCCESS)
        assert paths(leases) == ["q", "q?x", "p?b"]
        assert [lease.cost for lease in leases] == [1, 2, 3]


DEPTHS = {"deep": "LLL", "frame": "LEE", "page": "L", "moved": "R", "seed": ""}


@pytest.mark.parametrize(
    ("policy", "order"),
    [
        ("cost", "frame page seed deep moved"),
        ("base", "deep frame page moved seed"),
        ("hops", "moved seed frame page deep"),
        ({"hops": {"navlinks_only": False, "base": 0}}, "seed page moved deep frame"),
        ({"hops": {"base": 126}}, "moved seed deep frame page"),  # 127 is the last precedence
    ],
)
def test_the_precedence_of_uris_orders_a_queue_before_their_arrival(policy: object, order: str) -> None:
    with memory(uri_precedence_policy=policy) as f:
        for path, hops in DEPTHS.items():
            f.schedule(CrawlUri(f"https://a.test/{path}", hops=hops, cost=1 + (path in ("deep", "moved"))))
        f.check()
        leases = []
        while given := f.lease(1):
            leases += given
            f.finish(given[0], Outcome.SUCCESS)
        assert paths(leases) == order.split()
        assert record(f, "A").expenditure == 7, "the costs are those of the URIs"


def test_a_precedence_given_with_a_uri_takes_the_place_of_the_policy_s_and_of_the_cost() -> None:
    with memory() as f:
        f.schedule_many(CrawlUri(f"https://a.test/{given}", precedence=given, cost=5) for given in (7, 0, 1000, -4))
        f.schedule(CrawlUri("https://a.test/cost", cost=3))
        leases = []
        while given := f.lease(1):
            leases += given
            f.finish(given[0], Outcome.SUCCESS)
        assert paths(leases) == ["0", "-4", "cost", "7", "1000"]
        assert [lease.uri.precedence for lease in leases] == [0, 0, None, 7, 127]
        assert [lease.cost for lease in leases] == [5, 5, 3, 5, 5]


def test_a_precedence_is_kept_by_retries_replays_returns_and_moves(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with on_disk(tmp_path / "f", clock, uri_precedence_policy="hops", retry={"delay": 10, "scope": "uri"}) as f:
        f.schedule_many([CrawlUri("https://a.test/1", hops="LL"), CrawlUri("https://a.test/2", hops="L", cost=3)])
        first = one(f)
        assert (first.uri.url[-1], first.uri.precedence, first.cost) == ("2", 2, 3)
        f.finish(first, Outcome.RETRY)
        clock.advance(11)
        f.schedule(CrawlUri("https://a.test/3", hops="LLLL"))
        second = one(f)
        assert (second.uri.url[-1], second.uri.precedence, second.attempt) == ("2", 2, 2)
        f.finish(second, Outcome.DEAD)
        f.replay()
        f.delete(queue="a.test")
        f.undo(f.audit(limit=1)[0].id)
    with on_disk(tmp_path / "f", clock) as f:  # with the default policy, what is queued stays as it is
        f.check()
        leases = []
        while given := f.lease(1):
            leases += given
            f.finish(given[0], Outcome.SUCCESS)
        assert [(lease.uri.url[-1], lease.uri.precedence, lease.cost) for lease in leases] == [
            ("2", 2, 3),
            ("1", 3, 1),
            ("3", 5, 1),
        ]


def test_overrides_give_some_uris_another_policy_and_a_clipped_precedence_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with memory(uri_precedence_policy={"base": {"base": 5}}) as f:
        f.adjust(match="regex:/first/", uri_precedence_policy={"base": {"base": 0}})
        f.adjust(match="regex:/deep/", uri_precedence_policy={"hops": {"base": 127}})
        f.schedule_many(CrawlUri(f"https://a.test/{path}", hops="L") for path in ("deep/1", "deep/2", "x", "first/"))
        leases = []
        while given := f.lease(1):
            leases += given
            f.finish(given[0], Outcome.SUCCESS)
        assert [lease.uri.precedence for lease in leases] == [0, 5, 127, 127]
        assert [each.getMessage() for each in caplog.records] == [
            "the uri_precedence policy {'hops': {'base': 127}} gave https://a.test/deep/1 precedence 128, beyond 127, "
            "the last one: it and others like it go out in the order of arrival"
        ]


@pytest.mark.parametrize(
    ("fetch_seconds", "crawl_delay", "delay"),
    [(0.8, None, 4.0), (0.1, None, 3.0), (10.0, None, 30.0), (0.1, 45.0, 45.0), (None, None, 3.0), (1.0, 900.0, 300.0)],
)
def test_politeness(fetch_seconds: float | None, crawl_delay: float | None, delay: float) -> None:
    clock = ManualClock(START)
    with memory(clock, polite=True) as f:
        f.schedule_many(pages("A", 2))
        f.finish(one(f), Outcome.SUCCESS, fetch_seconds=fetch_seconds, crawl_delay=crawl_delay)
        assert state(f, "A") == "SNOOZED"
        assert f.next_ready_in() == pytest.approx(delay)
        clock.advance(delay - 0.01)
        assert f.lease(1) == []
        clock.advance(0.02)
        assert len(f.lease(1)) == 1


@pytest.mark.parametrize("hold_queues", [True, False])
def test_a_queue_refilled_within_its_delay_waits(hold_queues: bool) -> None:
    clock = ManualClock(START)
    with memory(clock, polite=True, hold_queues=hold_queues) as f:
        f.schedule("https://a.test/0")
        f.finish(one(f), Outcome.SUCCESS, fetch_seconds=0.8)
        assert state(f, "A") == "EXHAUSTED"
        clock.advance(1.0)
        f.schedule("https://a.test/1")
        assert f.lease(1) == []
        assert state(f, "A") == "SNOOZED"
        assert f.next_ready_in() == pytest.approx(3.0)
        clock.advance(3.0)
        assert len(f.lease(1)) == 1


EVERYTHING = pages("ABCDE", 40)

KILLED = """
import os, sys, time
from budgetfrontier import Frontier, Outcome, Settings
settings = Settings.from_dict({"crawl": "test", "frontier": {
    "balance_replenish_amount": 7, "commit_interval": 0.01, "commit_operations": 20,
    "politeness": {"delay_factor": 0.0, "min_delay": 0.0, "max_delay": 0.0}}})
frontier = Frontier.open(sys.argv[1], settings)
frontier.schedule_many(f"https://{host}.test/{page}" for page in range(40) for host in "abcde")
frontier.commit()
with open(sys.argv[2], "a", buffering=1) as log:
    held = []
    while True:
        held += frontier.lease(3)
        if not held:
            time.sleep(3600)  # the kill comes, however late
        frontier.finish(held[0], Outcome.SUCCESS)
        log.write(f"{held.pop(0).uri.url}\\n")
        time.sleep(0.001)
"""


@pytest.mark.parametrize("lines", [0, 1, 20, 70, 150])
def test_a_kill_loses_nothing_and_charges_nothing_twice(tmp_path: Path, lines: int) -> None:
    log = tmp_path / "log"
    log.touch()
    worker = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path / "frontier"), str(log)])
    until(lambda: (tmp_path / "frontier").exists() and len(log.read_text().splitlines()) >= lines, worker)
    worker.send_signal(signal.SIGKILL)
    assert worker.wait() == -signal.SIGKILL
    done = set(log.read_text().splitlines())
    with on_disk(tmp_path, balance_replenish_amount=7) as f:
        f.check()
        f.schedule_many(EVERYTHING)
        before = f.summary()
        assert before.queued + before.succeeded == 200
        assert before.expenditure == before.succeeded
        assert before.in_process == 0
        assert before.succeeded <= len(done) + 1
        again = []
        while leases := f.lease(5):
            for lease in leases:
                again.append(lease.uri.url)
                f.finish(lease, Outcome.SUCCESS)
        assert len(again) == len(set(again)) == before.queued
        assert set(again) | done == set(EVERYTHING)
        assert f.summary().expenditure == f.summary().succeeded == 200
        f.check()


def test_snoozes_survive_a_restart(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with on_disk(tmp_path, clock, polite=True) as f:
        f.schedule_many(pages("AB", 3))
        f.finish(one(f), Outcome.SUCCESS, fetch_seconds=2.0)
        f.snooze("b.test", until=START + 200.0)
    with on_disk(tmp_path, clock) as f:
        assert f.lease(5) == []
        assert [state(f, host) for host in "AB"] == ["SNOOZED", "SNOOZED"]
        clock.advance(10.0)
        assert one(f).queue == "a.test"
        clock.advance(190.0)
        assert one(f).queue == "b.test"


def test_a_better_precedence_takes_over_at_the_finish() -> None:
    with memory() as f:
        f.schedule_many(pages("A", 3))
        lease = one(f)
        f.adjust(match="host:b.test", precedence=1)
        f.schedule_many(pages("B", 2))
        assert state(f, "B") == "INACTIVE"
        f.finish(lease, Outcome.SUCCESS)
        assert state(f, "A") == "INACTIVE"
        assert record(f, "A").balance == 0
        assert crawl(f) == "BBAA"


def test_a_prerequisite_precedes_the_uri_that_asked_for_it() -> None:
    with memory() as f:
        f.schedule_many(pages("A", 2))
        wanting = one(f)
        robots = CrawlUri("https://a.test/robots.txt", directive=Directive.HIGHEST, via=wanting.uri.url)
        f.finish(wanting, Outcome.DEFERRED, discovered=[robots])
        assert record(f, "A").expenditure == 0
        leases = []
        while given := f.lease(1):
            leases += given
            f.finish(given[0], Outcome.SUCCESS)
        assert paths(leases) == ["robots.txt", "0", "1"]


ABANDONED = """
import os, sys
from budgetfrontier import Frontier, Outcome, Settings
settings = Settings.from_dict({"crawl": "test", "frontier": {"hold_queues": False, "commit_interval": 3600.0,
    "politeness": {"delay_factor": 0.0, "min_delay": 0.0, "max_delay": 0.0}}})
frontier = Frontier.open(sys.argv[1], settings)
frontier.schedule_many(f"https://{host}.test/{page}" for host in "abcd" for page in range(3))
a, b, c = frontier.lease(3)
frontier.finish(a, Outcome.SUCCESS)
frontier.commit()
frontier.finish(b, Outcome.SUCCESS)
frontier.schedule("https://e.test/")
os._exit(0)
"""


@pytest.mark.parametrize("keep_leases", [False, True])
def test_an_abandoned_process_leaves_the_last_commit(tmp_path: Path, keep_leases: bool) -> None:
    subprocess.run([sys.executable, "-c", ABANDONED, str(tmp_path / "frontier")], check=True, env=os.environ)
    with on_disk(tmp_path, ManualClock(time.time()), keep_leases=keep_leases) as f:
        summary = f.summary()
        assert (summary.queued, summary.succeeded, summary.expenditure) == (11, 1, 1)
        assert f.queue("e.test") is None
        if keep_leases:
            assert summary.in_process == 2
            assert [lease.queue[0] for lease in f.lease(5)] == ["d", "a"]
        else:
            assert summary.in_process == 0
            leases = f.lease(5)
            assert [lease.queue[0] for lease in leases] == ["b", "c", "d", "a"]
            assert [lease.delivery for lease in leases] == [2, 2, 1, 1]
        f.check()


def test_a_uri_with_more_to_say_is_a_duplicate_of_its_plain_self() -> None:
    url = "https://a.test/1"
    with memory() as f:
        assert f.schedule(CrawlUri(url, via="https://b.test/", hops="E")) is Admission.ADDED
        for given in (url, CrawlUri(url, hops="L"), CrawlUri(url, source="list", meta={"seed": url})):
            assert f.schedule(given) is Admission.DUPLICATE
        assert f.schedule(CrawlUri(url, force=True)) is Admission.ADDED
        assert f.schedule(CrawlUri(url, method="POST", body=b"x")) is Admission.ADDED
        assert f.schedule_many([CrawlUri(url, hops="E"), CrawlUri(url + "?a", hops="E")]).added == 1
