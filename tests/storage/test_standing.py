"""The standing of a crawl: read at bounded cost, and what the verdict needs of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlUri, Directive, Frontier, Reader
from budgetfrontier.clock import ManualClock
from budgetfrontier.core.model import QueueRecord, RunEnd
from budgetfrontier.engine.commands.mailbox import Command
from budgetfrontier.errors import CorruptFrontier, FrontierClosed
from budgetfrontier.rules.run_history import CRAWL, WORKER
from budgetfrontier.rules.verdict import Standing, standstill, verdict
from budgetfrontier.storage import keys
from budgetfrontier.storage import standing as module
from budgetfrontier.storage.view import View
from budgetfrontier.testing import crash
from tests.support import START, crawl, kernel, make_settings, on_disk, pages


def standing(f: Frontier, tmp_path: Path, now: float | None = None) -> Standing:
    f.commit()
    with Reader(tmp_path / "frontier") as reader:
        return reader.standing(now)


def test_the_job_is_the_folder_above_the_frontier(tmp_path: Path) -> None:
    with on_disk(tmp_path) as f:
        found = standing(f, tmp_path)
    assert found.job == str(tmp_path) and found.start == f"budgetfrontier crawl CONFIG --job {tmp_path}"


def test_the_oldest_lease_is_found_with_its_url(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with on_disk(tmp_path, clock, hold_queues=False) as f:
        f.schedule_many(pages("AB", 2))
        (first,) = f.lease(1)
        clock.advance(100)
        f.lease(1)
        found = standing(f, tmp_path)
        assert (found.first_lease, found.first_url) == (START, first.uri.url)
        f.pause()
        found = standing(f, tmp_path)
        assert (found.totals.state, found.first_lease) == ("PAUSING", START)


def test_the_rate_is_that_of_the_last_minute_of_this_run(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with on_disk(tmp_path, clock, hold_queues=False) as f:
        f.schedule_many(pages("ABCDE", 300))
        f.commit()
        assert standing(f, tmp_path).rate is None
        for finished in 60, 120, 6:  # a minute each
            for _ in range(finished):
                f.finish(f.lease(1)[0])
            clock.advance(60)
            f.commit()
            assert standing(f, tmp_path, clock.time()).rate == pytest.approx(finished / 60)
        clock.advance(40)
        f.finish(f.lease(1)[0])
        assert standing(f, tmp_path, clock.time()).rate == pytest.approx((1 + 2) / 60)
        assert standing(f, tmp_path, clock.time() + 1e9).rate is None, "of a process that hangs"
    clock.advance(60)
    with on_disk(tmp_path, clock) as f:
        assert standing(f, tmp_path, clock.time()).rate is None


@pytest.mark.parametrize("idle", [31, 88, 3000])
def test_the_rate_after_an_idle_time_is_that_of_the_last_minute(tmp_path: Path, idle: int) -> None:
    clock = ManualClock(START + 12)
    with on_disk(tmp_path, clock, hold_queues=False, commit_interval=0.5) as f:
        f.schedule_many(pages("ABCDE", 20))
        for finished, wait in (40, idle), (10, 0):
            for _ in range(finished):
                f.finish(f.lease(1)[0])
            clock.advance(0.5)
            f.commit()
            clock.advance(wait)
        assert standing(f, tmp_path, clock.time()).rate == pytest.approx((50 if idle < 60 else 10) / min(idle + 1, 60))


@pytest.mark.parametrize(("idle", "rate"), [(2, 120 / 56.5), (33, 120 / 60), (58, 80 / 60)])
def test_the_rate_of_a_crawl_that_idles_is_that_of_the_minute_until_now(
    tmp_path: Path, idle: float, rate: float
) -> None:
    clock = ManualClock(START + 12)
    with on_disk(tmp_path, clock, hold_queues=False, commit_interval=0.5) as f:
        f.schedule_many(pages("ABCDE", 30))
        f.commit()
        clock.advance(51.5)
        for _ in range(6):
            for _ in range(20):
                f.finish(f.lease(1)[0])
            clock.advance(0.5)
            f.commit()
        clock.advance(idle)
        assert standing(f, tmp_path, clock.time()).rate == pytest.approx(rate)


@pytest.mark.parametrize("killed", [False, True])
def test_the_rate_of_a_partition_is_that_of_the_last_minute_whoever_had_it(tmp_path: Path, killed: bool) -> None:
    clock = ManualClock(START)
    settings = make_settings(polite=False, hold_queues=False, commit_interval=0.5)

    def opened() -> Frontier:
        return Frontier.open(tmp_path / "frontier", settings, clock=clock, program=WORKER, keep_leases=True)

    f = opened()
    f.schedule_many(pages("ABC", 50))
    clock.advance(100)
    crawl(f, 60)
    f.commit()
    crash(f) if killed else f.close(end=RunEnd.SIGNAL)
    clock.advance(20)
    with opened() as f:
        f.commit()
        clock.advance(5)
        assert standing(f, tmp_path, clock.time()).rate == pytest.approx(60 / 60)
        crawl(f, 30)
        clock.advance(1)
        assert standing(f, tmp_path, clock.time()).rate == pytest.approx(90 / 60)
        f.close(end=RunEnd.SIGNAL)


def test_a_request_is_known_by_its_time_whatever_came_of_it(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with on_disk(tmp_path, clock) as f:

        def asked() -> float:
            clock.advance(60)
            f.schedule_many(pages("ABC", int(clock.time() - START) // 60))  # who schedules does not ask
            f.commit()
            return START + 60 - standing(f, tmp_path, clock.time()).asked

        assert asked() == 60  # it has never asked: its process began then
        assert asked() == 60
        when = clock.time()
        (lease,) = f.lease(1)
        assert START + 60 - asked() == when
        f.finish(lease)
        assert START + 60 - asked() == when
        f.pause()
        when = clock.time()
        assert f.lease(1) == []
        clock.advance(600)
        f.resume()
        assert START + 60 - asked() == when
        when = clock.time()
        f.next_ready_in()
        assert START + 60 - asked() == when
        when = clock.time()
        f.give_back(f.lease(2))
        assert START + 60 - asked() == when


def test_a_worker_that_begins_does_not_count_as_a_request(tmp_path: Path) -> None:
    clock = ManualClock(START)
    settings = make_settings(polite=False, hold_queues=False, commit_interval=1.0)

    def seen(program: str, *, leases: bool = False) -> Standing:
        f = Frontier.open(tmp_path / "frontier", settings, clock=clock, program=program, keep_leases=True)
        f.schedule("https://a.test/")
        f.give_back(f.lease(int(leases)))
        found = standing(f, tmp_path, clock.time())
        f.close(end=RunEnd.SIGNAL)
        clock.advance(600)
        return found

    assert [seen(WORKER).asked for _ in range(2)] == [START, START]
    asked = clock.time()
    assert seen(WORKER, leases=True).asked == asked
    found = seen(WORKER)
    assert found.asked == asked and verdict(found).text.endswith(" for a URI for 10m.")
    began = clock.time()
    assert seen(CRAWL).asked == began, "it asks itself"


def test_leases_of_a_client_that_is_gone_do_not_hide_that_nobody_asks(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with on_disk(tmp_path, clock, polite=False, hold_queues=False, commit_interval=1.0, lease_ttl=600) as f:
        f.schedule_many(pages("ABC", 2))
        clock.advance(60)
        leases = f.lease(2)
        for wait, slug in (299, "running"), (2, "not_asked"):
            clock.advance(wait)
            found = standing(f, tmp_path, clock.time())
            assert verdict(found).slug == slug
        assert verdict(found).text.endswith(" for 5m1s; their leases expire within 4m59s.")
        assert standstill(found).endswith("for 5m1s")
        f.renew(leases[1])
        for wait, slug in (0, "running"), (299, "running"), (2, "not_asked"):
            clock.advance(wait)
            found = standing(f, tmp_path, clock.time())
            assert verdict(found).slug == slug
        assert (found.renewed, found.last_expiry) == (START + 361, START + 961)
        f.renew(leases[1], 9e3)
        f.finish_many(leases[1:])
        f.finish_many(f.lease(4))
        assert verdict(standing(f, tmp_path, clock.time())).slug != "not_asked"


@pytest.mark.parametrize("command", ["snooze", "undo", "import", "resume", "unretire", "adjust"])
def test_no_command_counts_as_a_request(tmp_path: Path, command: str) -> None:
    clock = ManualClock(START)
    with on_disk(tmp_path, clock, polite=False, hold_queues=False, commit_interval=1.0) as f:
        f.schedule_many(pages("AB", 2))
        f.finish(f.lease(1)[0])
        if command == "undo":
            f.snooze("a.test", until=START + 3600)
            f.snooze("b.test", until=START + 3600)
        elif command == "resume":
            f.pause()
        elif command == "unretire":
            f.retire("a.test")
            f.retire("b.test")
        clock.advance(300)
        given: dict[str, Callable[[], object]] = {
            "snooze": lambda: f.snooze("a.test", until=clock.time() + 1),
            "undo": lambda: [*map(f.undo, [entry.id for entry in f.audit()])],
            "import": lambda: f.schedule("https://c.test/"),
            "resume": f.resume,
            "unretire": lambda: [*map(f.unretire, ["a.test", "b.test"])],
            "adjust": lambda: f.adjust(match="*", queue_total_budget=99),
        }
        given[command]()
        told = verdict(standing(f, tmp_path, clock.time())).text
        clock.advance(2)
        later = verdict(standing(f, tmp_path, clock.time())).text
    assert told.endswith("has asked for no URI for 5m."), told
    assert later.endswith("has asked for no URI for 5m2s."), later


@pytest.mark.parametrize("many", [False, True])
def test_queues_whose_snooze_was_undone_are_due_at_once(tmp_path: Path, many: bool) -> None:
    clock = ManualClock(START)
    with on_disk(tmp_path, clock, hold_queues=False, commit_interval=1.0) as f:
        f.schedule_many(pages("AB", 2))
        f.next_ready_in()
        if many:
            f.internals.apply(Command("snooze", {"match": "*", "until": START + 3600}, "me", ""))
        else:
            f.snooze("a.test", until=START + 3600)
            f.snooze("b.test", until=START + 3600)
        clock.advance(300)
        assert "is due" not in verdict(standing(f, tmp_path, clock.time())).text
        for entry in f.audit():
            f.undo(entry.id)
        told = verdict(standing(f, tmp_path, clock.time())).text
    assert told.startswith("The next of the snoozed queues (2) is due") and told.endswith(" for 5m."), told


def test_of_requests_since_the_last_commit_nothing_is_said_before_a_wait_is_over(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with on_disk(tmp_path, clock, hold_queues=False, commit_interval=1.0) as f:
        f.schedule_many(pages("A", 2))
        f.snooze("a.test", until=START + 1000)
        f.commit()
        assert verdict(standing(f, tmp_path, START + 1060)).slug == "snoozed"
        told = verdict(standing(f, tmp_path, START + 1061)).text
    assert told.endswith("has asked for no URI for 1m1s."), told


def test_who_paused_is_the_one_who_gave_the_last_pause(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with on_disk(tmp_path, clock) as f:
        f.schedule_many(pages("A", 1))
        f.pause(who="alice")
        f.resume(who="bob")
        assert standing(f, tmp_path).steered_by == ""
        clock.advance(5)
        f.pause(who="carol")
        found = standing(f, tmp_path)
        assert (found.steered_by, found.steered_at) == ("carol", START + 5)
        clock.advance(5)
        f.pause(reason="again", who="erin")  # it is paused already: this changes nothing
        found = standing(f, tmp_path)
        assert (found.steered_by, found.steered_at, found.totals.pause_reason) == ("carol", START + 5, "operator")
        f.terminate(who="dave")
        f.terminate(who="frank")
        assert standing(f, tmp_path).steered_by == "dave"


def test_who_paused_is_the_one_who_has_undone_a_resume(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with on_disk(tmp_path, clock) as f:
        f.schedule_many(pages("A", 1))

        def undo_last(who: str) -> None:
            clock.advance(5)
            f.undo(f.audit()[-1].id, who=who)

        f.pause(who="alice")
        clock.advance(5)
        f.resume(who="bob")
        undo_last("carol")
        f.retire("a.test")
        undo_last("dave")  # which pauses nothing
        found = standing(f, tmp_path)
        assert (found.totals.state, found.steered_by, found.steered_at) == ("PAUSED", "carol", START + 10)
        f.resume(who="bob")
        f.pause(who="erin")
        undo_last("frank")
        assert standing(f, tmp_path).steered_by == ""
        undo_last("grace")
        found = standing(f, tmp_path)
        assert (found.totals.state, found.steered_by, found.steered_at) == ("PAUSED", "grace", START + 25)


def test_what_waits_is_found_with_its_times(tmp_path: Path) -> None:
    with on_disk(tmp_path, hold_queues=False) as f:
        f.schedule_many(pages("AB", 2))
        f.schedule(CrawlUri("https://b.test/robots.txt", directive=Directive.HIGHEST))
        f.snooze("a.test", until=START + 200)
        f.snooze("b.test", until=START + 100)
        f.schedule(CrawlUri("https://c.test/", not_before=START + 300))
        found = standing(f, tmp_path)
        assert (found.next_wake, found.for_robots, found.next_due) == (START + 100, 1, START + 300)


@pytest.mark.parametrize(
    ("adjusted", "over"),
    [
        ({"match": "queue:nobody.test", "precedence": 2}, True),
        ({"match": "queue:a.test", "queue_total_budget": 50}, False),
        ({"match": "queue:a.test", "retire_when": "exceeded"}, False),
        ({"match": "*", "balance_replenish_amount": 0}, True),
    ],
)
def test_inactive_queues_are_over_budget_by_the_settings_in_force(
    tmp_path: Path, adjusted: dict[str, Any], over: bool
) -> None:
    with on_disk(tmp_path, queue_total_budget=1, retire_when="reached", pause_at_finish=True) as f:
        f.schedule_many(pages("AB", 5))
        while leases := f.lease(10):
            f.finish_many(leases)
        found = standing(f, tmp_path)
        assert (found.held, found.totals.queues["RETIRED"]) == (8, 2)
        f.pause()  # else queues that would retire again stay RETIRED, as the crawl is over
        f.adjust(**adjusted)
        f.resume()
        found = standing(f, tmp_path)
        assert found.totals.queues["INACTIVE"] == 2
        assert found.over_budget is over


def test_a_queue_that_an_undo_puts_over_its_budget_is_so_at_the_finish_too(tmp_path: Path) -> None:
    with on_disk(tmp_path, queue_total_budget=1, pause_at_finish=True) as f:
        f.schedule_many(pages("A", 9))
        f.finish(f.lease(1)[0])
        f.finish(f.lease(1)[0])
        assert f.summary().pause_reason == "finish"
        f.adjust(match="queue:a.test", queue_total_budget=50)
        f.undo(f.audit()[0].id)
        found = standing(f, tmp_path)
        assert (found.totals.pause_reason, found.totals.queues["INACTIVE"], found.over_budget) == ("finish", 1, True)


def test_it_looks_at_a_bounded_number_of_queues_and_leases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOKED_AT", 5)
    looked: list[int] = []
    by_id = View.queue_by_id

    def counted(view: View, number: int) -> QueueRecord:
        looked.append(number)
        return by_id(view, number)

    monkeypatch.setattr(View, "queue_by_id", counted)
    with on_disk(tmp_path, hold_queues=False, commit_operations=100_000) as f:
        f.schedule_many(f"https://h{host}.test/{page}" for host in range(60) for page in range(2))
        f.lease(20)
        for host in range(20, 60):
            f.snooze(f"h{host}.test", until=START + 1000)
        f.schedule_many(f"https://i{host}.test/" for host in range(30))
        f.lease(30)
        found = standing(f, tmp_path)
        assert found.totals.queues["SNOOZED"] == 40 and found.totals.in_process == 50
        assert 0 < len(looked) <= 3 * 5


def test_damage_is_told_as_such_by_the_engine(tmp_path: Path) -> None:
    f = on_disk(tmp_path, hold_queues=False)
    f.schedule_many(pages("A", 2))
    f.snooze("a.test", until=START + 1000)
    f.commit()
    env = kernel(f).tables.env
    env.txn.put(keys.u32.pack(1), b"\xc1", db=env.db[keys.QUEUES])
    env.commit()
    with pytest.raises(CorruptFrontier):
        f.verdict()
    with pytest.raises(FrontierClosed):
        f.verdict()


def test_a_frontier_in_memory_has_no_folder(tmp_path: Path) -> None:
    with Frontier.open(":memory:") as f:
        f.schedule("https://a.test/")
        report = f.report()
        assert (report.standing.job, report.standing.start) == ("", None)
        assert report.standing.process.alive and report.verdict.slug == "running"
