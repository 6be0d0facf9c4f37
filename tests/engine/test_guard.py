"""Time, memory and messages of an open frontier."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from budgetfrontier import (
    CrawlUri,
    DeadLetter,
    Frontier,
    Lease,
    LeaseExpired,
    Outcome,
    QueueState,
    Reader,
    Settings,
    SettingsError,
)
from budgetfrontier.clock import ManualClock
from budgetfrontier.engine.commands.mailbox import Command, Mailbox
from budgetfrontier.errors import PolicyError
from budgetfrontier.settings.overrides import Effective
from budgetfrontier.store import environment
from budgetfrontier.testing import crash

NO_WAIT = {"delay_factor": 0, "min_delay": 0, "max_delay": 0}


def test_a_clock_that_is_set_back_goes_on_from_where_it_was() -> None:
    clock = ManualClock(1_000_000.0)
    with Frontier.open(":memory:", clock=clock) as frontier:
        frontier.schedule_many(["http://a.test/1", "http://a.test/2"])
        frontier.finish(frontier.lease(1)[0])
        clock.set(1_000_000.0 - 3600)
        assert frontier.lease(1) == []  # no earlier than politeness allows
        clock.advance(3.0)
        assert [lease.uri.url for lease in frontier.lease(1)] == ["http://a.test/2"]  # and no later


def test_an_hour_ahead_and_back_again_does_not_stop_the_frontier() -> None:
    clock = ManualClock(1_000_000.0)
    with Frontier.open(":memory:", clock=clock) as frontier:
        frontier.schedule_many(["http://a.test/1", "http://a.test/2"])
        frontier.finish(frontier.lease(1)[0])
        clock.set(1_003_600.0)
        (lease,) = frontier.lease(1, ttl=60.0)
        clock.set(1_000_000.0)
        assert lease.uri.url == "http://a.test/2"
        assert frontier.next_ready_in() == pytest.approx(60.0)
        clock.advance(60.0)
        assert frontier.lease(1)[0].delivery == 2


@pytest.mark.parametrize("killed", [False, True])
def test_leases_kept_and_retries_set_aside_by_a_clock_that_was_ahead_have_as_long_as_they_had(
    tmp_path: Path, killed: bool
) -> None:
    now, year = 1_000_000.0, 365 * 86_400.0
    clock = ManualClock(now + year)
    settings = Settings.from_dict({"frontier": {"politeness": NO_WAIT, "retry": {"scope": "uri", "delay": 900}}})
    frontier = Frontier.open(tmp_path / "f", settings, clock=clock, keep_leases=True)
    frontier.schedule_many(["http://a.test/retry", "http://b.test/kept"])
    frontier.schedule(CrawlUri("http://a.test/later", not_before=now + year + 5))
    frontier.finish(frontier.lease(1)[0], Outcome.RETRY)
    frontier.lease(1, ttl=2000.0)
    clock.advance(100.0)
    frontier.commit()
    if killed:
        crash(frontier)
    else:
        frontier.close()
    clock = ManualClock(now)
    with Frontier.open(tmp_path / "f", clock=clock, keep_leases=True) as frontier:
        assert frontier.next_ready_in() == pytest.approx(800.0)
        clock.advance(801.0)
        assert [lease.uri.url for lease in frontier.lease(9)] == ["http://a.test/retry"]
        clock.advance(1100.0)
        assert {lease.uri.url for lease in frontier.lease(9)} == {"http://a.test/retry", "http://b.test/kept"}
        frontier.check()
        clock.advance(year - 2000.0)
        assert "http://a.test/later" not in {lease.uri.url for lease in frontier.lease(9)}


def test_many_queues_touched_are_committed_before_their_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "MOST_QUEUES", 500)
    settings = Settings.from_dict({"frontier": {"commit_interval": 3600}})
    frontier = Frontier.open(tmp_path / "f", settings)
    frontier.schedule_many(f"http://h{i}.test/" for i in range(3000))
    frontier._guard.close("as a kill would")
    with Frontier.open(tmp_path / "f") as again:
        assert again.summary().queued == 3000


def test_a_frontier_opens_where_address_space_is_limited(tmp_path: Path) -> None:
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (6 << 30,) * 2)\n"
        "from budgetfrontier import Frontier\n"
        "with Frontier.open(sys.argv[1]) as f:\n"
        "    print(f.schedule_many(f'http://a{i}.test/' for i in range(5000)).added)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "f")]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("5000\n", "")
    with Frontier.open(tmp_path / "f") as frontier:
        assert frontier.summary().queued == 5000


def word(uri: object) -> str:
    """A cost policy that is wrong."""
    return "dear"


def test_a_cost_policy_that_gives_no_number_is_named() -> None:
    settings = Settings.from_dict({"frontier": {"cost_policy": f"{__name__}:word"}})
    with Frontier.open(":memory:", settings) as frontier, pytest.raises(PolicyError, match=r"gave 'dear' for http://a"):
        frontier.schedule("http://a.test/")


def post_pause(path: Path) -> None:
    """Post it as another process would."""
    mailbox = Mailbox(path)
    mailbox.post(Command("pause", {"reason": "a look"}, "somebody", ""))
    mailbox.close()


class Letters:
    """A hook that notes dead letters."""

    def __init__(self) -> None:
        self.urls: list[str] = []

    def on_dead_letter(self, frontier: Frontier, letter: DeadLetter) -> None:
        self.urls.append(letter.uri.url)


@pytest.mark.parametrize("call", ["finish", "renew", "landed"])
def test_a_call_for_a_lease_that_has_ended_reads_the_mailbox_and_runs_hooks(tmp_path: Path, call: str) -> None:
    clock, hook = ManualClock(1_000_000.0), Letters()
    settings = Settings.from_dict({"frontier": {"max_deliveries": 1, "commit_interval": 0}})
    with Frontier.open(tmp_path / "f", settings, clock=clock, hooks=[hook]) as frontier:
        frontier.schedule("http://a.test/1")
        (lease,) = frontier.lease(1, ttl=1.0)
        clock.advance(2.0)
        post_pause(tmp_path / "f")
        with pytest.raises(LeaseExpired):
            getattr(frontier, call)(lease)
        assert (frontier.state, hook.urls) == ("PAUSED", ["http://a.test/1"])


@pytest.mark.parametrize(
    "call",
    [
        lambda frontier, lease: frontier.schedule("http://a.test/2"),
        lambda frontier, lease: frontier.schedule_many(["http://a.test/2"]),
        lambda frontier, lease: frontier.schedule_each(["http://a.test/2"]),
        lambda frontier, lease: frontier.mark_seen(["http://a.test/2"], charge=True),
        lambda frontier, lease: frontier.finish(lease, discovered=["http://a.test/2"]),
    ],
    ids=["schedule", "schedule_many", "schedule_each", "mark_seen", "finish"],
)
def test_a_call_in_which_a_policy_fails_reads_the_mailbox(
    tmp_path: Path, call: Callable[[Frontier, Lease], object]
) -> None:
    settings = Settings.from_dict({"frontier": {"cost_policy": f"{__name__}:word", "commit_interval": 0}})
    with Frontier.open(tmp_path / "f", settings) as frontier:
        frontier.schedule(CrawlUri("http://a.test/1", cost=1))
        (lease,) = frontier.lease(1)
        post_pause(tmp_path / "f")
        with pytest.raises(PolicyError):
            call(frontier, lease)
        assert frontier.state == "PAUSING"


def undecided(uri: object, *, precedence: int) -> int:
    """A precedence policy that fails once the URI is on its queue."""
    raise LookupError("nobody knows")


def test_a_lease_in_which_a_policy_fails_reads_the_mailbox(tmp_path: Path) -> None:
    settings = Settings.from_dict({"frontier": {"commit_interval": 0}})
    with Frontier.open(tmp_path / "f", settings) as frontier:
        frontier.schedule("http://a.test/1")
    wrong = Settings.from_dict({"frontier": {"commit_interval": 0, "precedence_policy": f"{__name__}:undecided"}})
    with Frontier.open(tmp_path / "f", wrong) as frontier:
        post_pause(tmp_path / "f")
        with pytest.raises(PolicyError):
            frontier.lease(1)
        assert frontier.state == "PAUSED"


def test_audit_entries_are_numbered_and_a_dry_run_says_what_it_matches() -> None:
    with Frontier.open(":memory:") as frontier:
        frontier.schedule_many(["http://a.test/", "http://b.test/"])
        assert frontier.adjust(match="domain:a.test", queue_total_budget=0, dry_run=True).matched == 1
        frontier.retire("a.test")
        assert frontier.adjust(match="*", queue_total_budget=5).id == 2
        assert [entry.id for entry in frontier.audit()] == [1, 2]


def test_an_adjustment_reads_all_overrides_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    init = Effective.__init__

    def counting(self: Effective, base: Any, overrides: Any) -> None:
        read.append(len(overrides))
        init(self, base, overrides)

    with Frontier.open(":memory:") as frontier:
        frontier.schedule("http://a.test/")
        frontier.adjust(match="host:b.test", queue_total_budget=5)
        monkeypatch.setattr(Effective, "__init__", counting)
        told = frontier.adjust(match="host:a.test", queue_total_budget=7)
        assert (read, told.before, told.after) == ([2], {"queue_total_budget": -1}, {"queue_total_budget": 7})


def test_adjustments_that_are_set_again_do_not_pile_up(tmp_path: Path) -> None:
    with Frontier.open(tmp_path / "f") as frontier:
        for budget in range(50):
            frontier.adjust(match="host:a.test", queue_total_budget=budget)
            frontier.adjust(queue_total_budget=budget)
        assert len(frontier.audit()) == 100
    with Reader(tmp_path / "f") as reader:
        assert [(one.match, one.set) for one in reader.adjustments] == [
            ("host:a.test", {"queue_total_budget": 49}),
            ("*", {"queue_total_budget": 49}),
        ]


def test_check_finds_whole_what_a_hook_changes_meanwhile() -> None:
    class Replacing:
        def on_dead_letter(self, frontier: Frontier, letter: DeadLetter) -> None:
            frontier.schedule(f"{letter.uri.url}again")

    clock, settings = ManualClock(1_000_000.0), Settings.from_dict({"frontier": {"max_deliveries": 1}})
    with Frontier.open(":memory:", settings, clock=clock, hooks=[Replacing()]) as frontier:
        frontier.schedule("http://a.test/1")
        (lease,) = frontier.lease(1, ttl=1.0)
        clock.advance(2.0)
        with pytest.raises(LeaseExpired):
            frontier.renew(lease)
        frontier.check()  # the hook is called before this returns
        assert frontier.summary().queued == 1


def test_opening_that_fails_for_a_stored_hook_gives_no_lease_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("my_hooks")
    module.own = object()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "my_hooks", module)
    frontier = Frontier.open(tmp_path / "f", Settings.from_dict({"hooks": ["my_hooks:own"]}))
    frontier.schedule("http://a.test/1")
    assert frontier.lease(1)
    frontier.commit()
    crash(frontier)
    monkeypatch.delitem(sys.modules, "my_hooks")
    with pytest.raises(SettingsError, match="my_hooks"):
        Frontier.open(tmp_path / "f")
    with Reader(tmp_path / "f") as reader:
        assert reader.summary().in_process == 1


@pytest.mark.parametrize("how", ["arrival", "expiry"])
def test_no_queue_sleeps_beyond_its_delays_after_a_clock_that_was_ahead(tmp_path: Path, how: str) -> None:
    clock = ManualClock(1_000_000.0 + 86_400)
    frontier = Frontier.open(tmp_path / "f", Settings(), clock=clock, keep_leases=True)
    frontier.schedule("http://a.test/1")
    (lease,) = frontier.lease(1)
    frontier.landed(lease)  # the wake time is set, and nothing more may go out
    frontier.close()
    clock = ManualClock(1_000_000.0)
    with Frontier.open(tmp_path / "f", clock=clock, keep_leases=True) as frontier:
        if how == "arrival":
            frontier.schedule("http://a.test/2")
        else:
            frontier.renew(lease, 1.0)
            clock.advance(1.0)
            frontier.lease(1)
        queue = frontier.queue("a.test")
        assert queue is not None and queue.state is QueueState.SNOOZED
        assert queue.wake_time <= clock.time() + 900.0
