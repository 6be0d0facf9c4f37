"""Time, memory and messages of an open frontier."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import (
    CrawlUri,
    DeadLetter,
    Frontier,
    Lease,
    LeaseExpired,
    Outcome,
    Settings,
)
from budgetfrontier.clock import ManualClock
from budgetfrontier.engine.commands.mailbox import Command, Mailbox
from budgetfrontier.errors import CorruptFrontier, FrontierClosed, PolicyError, WrongThread
from budgetfrontier.settings.overrides import Effective
from budgetfrontier.storage import keys
from tests.storage.repair.damaging import damaging
from tests.support import START, crawl_state, kernel, memory, one, pages


def test_a_clock_that_is_set_back_goes_on_from_where_it_was() -> None:
    clock = ManualClock(1_000_000.0)
    with Frontier.open(":memory:", clock=clock) as frontier:
        frontier.schedule_many(["http://a.test/1", "http://a.test/2"])
        frontier.finish(frontier.lease(1)[0])
        clock.set(1_000_000.0 - 3600)
        assert frontier.lease(1) == []  # no earlier than politeness allows
        clock.advance(3.0)
        assert [lease.uri.url for lease in frontier.lease(1)] == ["http://a.test/2"]  # and no later


class Settable(ManualClock):
    """A system's clock: it is set, and a steady one beside it is not."""

    passed = 0.0

    def steady(self) -> float:
        return self.passed

    def pass_by(self, seconds: float) -> None:
        self.passed += seconds
        self.advance(seconds)


@pytest.mark.parametrize("step", [3600.0, 365 * 86400.0, -3600.0])
@pytest.mark.parametrize("idle", [0.0, 2.0])
def test_a_system_clock_that_is_set_neither_shortens_nor_prolongs_what_waits(
    step: float, idle: float, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Settable(START)
    with Frontier.open(":memory:", clock=clock) as frontier:
        frontier.schedule_many(["http://a.test/1", "http://a.test/2", "http://a.test/3", "http://b.test/1"])
        lease, slow = frontier.lease(2)
        frontier.finish(lease)
        clock.pass_by(idle)
        clock.advance(step)
        frontier.renew(slow)  # has not expired
        assert frontier.lease(1) == []
        clock.pass_by(2.999 - idle)
        assert frontier.lease(1) == []
        clock.pass_by(0.002)
        (lease,) = frontier.lease(1)
        clock.advance(-step)  # set right
        frontier.finish(lease)
        clock.pass_by(2.999)
        assert frontier.lease(1) == []
        clock.pass_by(0.002)
        assert [lease.uri.url for lease in frontier.lease(1)] == ["http://a.test/3"]
        frontier.finish(slow)
    direction = "forward" if step > 0 else "back"
    assert [direction in record.getMessage() for record in caplog.records] == [True, False]


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


def word(uri: object) -> str:
    """A cost policy that is wrong."""
    return "dear"


def test_a_cost_policy_that_gives_no_number_is_named() -> None:
    settings = Settings.from_dict({"frontier": {"cost_policy": f"{__name__}:word"}})
    with (
        Frontier.open(":memory:", settings) as frontier,
        pytest.raises(PolicyError, match=r"returned 'dear' for http://a"),
    ):
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


def test_an_adjustment_reads_all_overrides_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    init = Effective.__init__

    def counting(self: Effective, base: Any, overrides: Any, adjustments: Any) -> None:
        read.append(len(overrides) + len(adjustments))
        init(self, base, overrides, adjustments)

    with Frontier.open(":memory:") as frontier:
        frontier.schedule("http://a.test/")
        frontier.adjust(match="host:b.test", queue_total_budget=5)
        monkeypatch.setattr(Effective, "__init__", counting)
        told = frontier.adjust(match="host:a.test", queue_total_budget=7)
        assert (told.before, told.after) == ({"queue_total_budget": -1}, {"queue_total_budget": 7})
        assert read == [1, 2]  # the new one alone, for the values after it, and all of them once


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


def test_time_never_goes_backwards() -> None:
    clock = ManualClock(START)
    with memory(clock) as f:
        f.schedule_many(pages("A", 2))
        f.finish(one(f), Outcome.SUCCESS)
        clock.set(START - 1000)
        assert one(f).expires >= START + 300


def test_a_frontier_belongs_to_its_thread() -> None:
    with memory() as f:
        errors: list[BaseException] = []

        def elsewhere() -> None:
            try:
                f.schedule("https://a.test/")
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert [type(error) for error in errors] == [WrongThread]
        assert crawl_state(f) == "NEW"


def test_it_can_be_shown_in_the_middle_of_each_call() -> None:
    class Showing(ManualClock):
        shown: list[str] | None = None

        def time(self) -> float:
            if self.shown is not None:
                self.shown.append(repr(f))
            return super().time()

    clock = Showing(1e9)
    with memory(clock=clock) as f:
        f.schedule_many([f"https://a{number}.test/" for number in range(9)])
        f.finish(f.lease(1)[0])
        clock.shown = []
        f.schedule("https://b.test/")
        f.finish(f.lease(1)[0], discovered=["https://c.test/"])
        shown, clock.shown = clock.shown, None
        assert shown and all(text.endswith(" in a call>") for text in shown)


def test_it_can_be_shown_in_another_thread() -> None:
    with memory() as f:
        shown: list[str] = []
        thread = threading.Thread(target=lambda: shown.append(repr(f)))
        thread.start()
        thread.join()
        assert [text.endswith(" of another thread or process>") for text in shown] == [True]


@pytest.mark.parametrize(
    "call",
    [
        lambda f, lease, uris: f.schedule_many(uris),
        lambda f, lease, uris: f.schedule_each(uris),
        lambda f, lease, uris: f.mark_seen(uris),
        lambda f, lease, uris: f.finish(lease, discovered=uris),
    ],
    ids=["schedule_many", "schedule_each", "mark_seen", "finish"],
)
def test_an_iterable_that_closes_the_frontier_ends_the_call(
    call: Callable[[Frontier, Lease, Iterator[str]], object],
) -> None:
    f = memory()
    f.schedule("https://a.test/")

    def closing() -> Iterator[str]:
        f.close()
        yield "https://b.test/"

    with pytest.raises(FrontierClosed):
        call(f, one(f), closing())


def test_a_closed_frontier_says_so() -> None:
    f = memory()
    f.close()
    for call in f.lease, f.commit, f.summary:
        with pytest.raises(FrontierClosed):
            call(*([1] if call == f.lease else []))
    f.close()


def interrupted(uri: CrawlUri) -> int:
    """A cost policy in which Ctrl-C comes."""
    raise KeyboardInterrupt


@pytest.mark.parametrize("call", [Frontier.commit, Frontier.summary, Frontier.close])
def test_an_error_while_an_error_closes_it_leaves_it_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[[Frontier], object]
) -> None:
    """Such as the recursion limit, or Ctrl-C twice."""
    settings = Settings.from_dict({"frontier": {"cost_policy": f"{__name__}:interrupted"}})
    frontier = Frontier.open(tmp_path / "frontier", settings)

    def fail(*args: object, **named: object) -> None:
        raise RecursionError

    monkeypatch.setattr(kernel(frontier).tables.runs, "fail", fail)
    with pytest.raises(RecursionError):
        frontier.schedule("http://a.test/")
    if call is Frontier.close:
        call(frontier)
    else:
        with pytest.raises(FrontierClosed, match="in the end of which another came"):
            call(frontier)
    with Frontier.open(tmp_path / "frontier") as again:
        again.check()


@pytest.mark.parametrize(("table", "look"), [(keys.DEAD, Frontier.dead_letters), (keys.AUDIT, Frontier.audit)])
def test_a_damaged_record_that_is_only_read_is_named_as_damage(
    tmp_path: Path, table: str, look: Callable[[Frontier], object]
) -> None:
    with Frontier.open(tmp_path / "frontier") as f:
        f.schedule("https://a.test/")
    with damaging(tmp_path / "frontier") as damage:
        damage.put(table, keys.u64.pack(1), b"\xc1")
    with Frontier.open(tmp_path / "frontier") as f:
        for _ in range(2):
            with pytest.raises(CorruptFrontier, match="verify --repair"):
                look(f)
        assert f.summary().queued == 1
