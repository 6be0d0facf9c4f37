"""Calls as they should not be: wrong arguments and interrupts change nothing, or all of it."""

from __future__ import annotations

import gc
import math
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from budgetfrontier import CrawlUri, Finish, Frontier, FrontierError, Lease, Outcome, PolicyError
from budgetfrontier.errors import FrontierClosed
from tests.sizes import sized
from tests.support import START, crawl, memory, on_disk, one, pages, whole

pytestmark = pytest.mark.full_size

WRONG: dict[str, Callable[[Frontier], object]] = {
    "queue(5)": lambda f: f.queue(5),  # type: ignore[arg-type]
    "queue(None)": lambda f: f.queue(None),  # type: ignore[arg-type]
    "retire(5)": lambda f: f.retire(5),  # type: ignore[arg-type]
    "retire(reason=object)": lambda f: f.retire("a.test", reason=object()),  # type: ignore[arg-type]
    "retire(reason=None)": lambda f: f.retire("a.test", reason=None),  # type: ignore[arg-type]
    "retire(who=surrogate)": lambda f: f.retire("a.test", who="\ud800"),
    "pause(reason=5)": lambda f: f.pause(reason=5),  # type: ignore[arg-type]
    "pause(reason=surrogate)": lambda f: f.pause(reason="\ud800"),
    "resume(reason=5)": lambda f: f.resume(reason=5),  # type: ignore[arg-type]
    "snooze(nan)": lambda f: f.snooze("a.test", until=math.nan),
    "snooze(inf)": lambda f: f.snooze("a.test", until=math.inf),
    "snooze(text)": lambda f: f.snooze("a.test", until="later"),  # type: ignore[arg-type]
    "snooze(huge)": lambda f: f.snooze("a.test", until=10**400),
    "delete(queue=5)": lambda f: f.delete(queue=5),  # type: ignore[arg-type]
    "delete(pattern=5)": lambda f: f.delete(pattern=5),  # type: ignore[arg-type]
    "delete(pattern=open)": lambda f: f.delete(pattern="("),
    "delete(pattern=surrogate)": lambda f: f.delete(pattern="\ud800"),
    "replay(huge)": lambda f: f.replay([10**30]),
    "replay(text)": lambda f: f.replay(["x"]),  # type: ignore[list-item]
    "drop_dead_letters(None)": lambda f: f.drop_dead_letters([None]),  # type: ignore[list-item]
    "adjust()": lambda f: f.adjust(),
    "adjust(match=5)": lambda f: f.adjust(match=5, queue_total_budget=1),  # type: ignore[arg-type]
    "adjust(match=surrogate)": lambda f: f.adjust(match="queue:\ud800", queue_total_budget=1),
    "adjust(match=regex)": lambda f: f.adjust(match="regex:(", queue_total_budget=1),
    "adjust(huge)": lambda f: f.adjust(queue_total_budget=10**30),
    "adjust(nan)": lambda f: f.adjust(min_delay=math.nan),
    "adjust(unknown)": lambda f: f.adjust(budget=1),
    "adjust(policy)": lambda f: f.adjust(cost_policy="nope"),
    "adjust(reason=None)": lambda f: f.adjust(queue_total_budget=1, reason=None),  # type: ignore[arg-type]
    "adjust(who=5)": lambda f: f.adjust(queue_total_budget=1, who=5),  # type: ignore[arg-type]
    "lease(text)": lambda f: f.lease("x"),  # type: ignore[arg-type]
    "lease(ttl=nan)": lambda f: f.lease(1, ttl=math.nan),
    "lease(ttl=-1)": lambda f: f.lease(1, ttl=-1),
    "renew(None)": lambda f: f.renew(None),  # type: ignore[arg-type]
    "finish(None)": lambda f: f.finish(None),  # type: ignore[arg-type]
    "schedule_many(text)": lambda f: f.schedule_many("https://c.test/"),
    "schedule_many(5)": lambda f: f.schedule_many(5),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_argument_changes_nothing_and_leaves_the_frontier_open(f: Frontier, wrong: str) -> None:
    before, audit = f.summary(), f.audit()
    with pytest.raises(Exception):  # noqa: B017 - of whatever kind: what matters is what it leaves
        WRONG[wrong](f)
    assert (f.summary(), f.audit()) == (before, audit)
    whole(f)
    assert crawl(f) == "AAABBB"


WRONG_FINISHES: list[dict[str, Any]] = [
    {"outcome": "MAYBE"},
    {"outcome": None},
    {"fetch_seconds": "soon"},
    {"fetch_seconds": -1},
    {"fetch_seconds": math.nan},
    {"fetch_seconds": 10**400},
    {"crawl_delay": "soon"},
    {"crawl_delay": math.nan},
    {"crawl_delay": 10**400},
    {"delay": -1},
    {"delay": math.inf},
    {"delay": 10**400},
    {"discovered": 7},
    {"discovered": "https://d.test/"},
]


@pytest.mark.parametrize("wrong", WRONG_FINISHES, ids=str)
def test_a_finish_with_a_wrong_argument_changes_nothing(f: Frontier, wrong: dict[str, Any]) -> None:
    lease, before = one(f), f.summary()
    with pytest.raises((TypeError, ValueError, OverflowError)):
        f.finish(lease, **wrong)
    assert f.summary() == before
    f.finish(lease, Outcome.SUCCESS)
    whole(f)


class Unspeakable(str):
    """It cannot be told."""

    def __str__(self) -> str:
        raise RuntimeError("not even its name")


@pytest.mark.parametrize("reason", ["\ud800", "", "x" * 1_000_000], ids=lambda reason: repr(reason)[:10])
def test_any_reason_buries_a_uri(f: Frontier, reason: Any) -> None:
    f.finish(one(f), Outcome.DEAD, reason=reason)
    assert isinstance(f.dead_letters()[0].reason, str)
    whole(f)


def test_a_reason_that_cannot_be_told_changes_nothing(f: Frontier) -> None:
    lease = one(f)
    with pytest.raises(RuntimeError):
        f.finish(lease, Outcome.DEAD, reason=Unspeakable())
    f.finish(lease, Outcome.SUCCESS)
    whole(f)


def test_odd_delays_keep_politeness() -> None:
    for odd, wait in (-5.0, 3.0), (math.inf, 300.0), (1e308, 300.0):
        with memory(polite=True) as f:
            f.schedule_many(pages("A", 2))
            f.finish(one(f), Outcome.SUCCESS, fetch_seconds=0.1, crawl_delay=odd)
            assert f.next_ready_in() == pytest.approx(wait)
            whole(f)


def test_an_iterable_with_an_error_of_its_own_changes_nothing(f: Frontier) -> None:
    def faulty() -> Iterator[str]:
        yield "https://d.test/"
        raise LookupError

    lease, before = one(f), f.summary()
    with pytest.raises(LookupError):
        f.finish(lease, Outcome.SUCCESS, discovered=faulty())
    with pytest.raises(LookupError):
        f.schedule_many(faulty())
    assert f.summary() == before
    f.finish(lease, Outcome.SUCCESS)
    whole(f)


def test_an_iterable_may_use_the_frontier(f: Frontier) -> None:
    def curious() -> Iterator[str]:
        for number in range(5):
            f.schedule(f"https://d.test/{number}")
            yield f"https://e.test/{number}"

    assert f.schedule_many(curious()).added == 5
    f.finish(one(f), Outcome.SUCCESS, discovered=curious())
    assert f.summary().seen == 16
    whole(f)


def test_start_is_in_the_past_of_no_block(f: Frontier) -> None:
    assert f.snooze("a.test", until=START - 5)
    assert f.snooze("b.test", until=-START)
    looks = [(entry.effect["before"], entry.effect["after"]) for entry in f.audit()]
    assert all(before == after and not after["block"] for before, after in looks)
    assert crawl(f) == "AAABBB"
    whole(f)


class TimeLimit(Exception):
    """What a signal handler raises."""


@pytest.fixture
def time_limit() -> Iterator[None]:
    """A signal handler that raises an ordinary exception."""

    def handle(number: int, frame: FrameType | None) -> None:
        raise TimeLimit

    before = signal.signal(signal.SIGUSR1, handle)
    yield
    signal.signal(signal.SIGUSR1, before)


class Interrupt:
    """Ctrl-C, or the call of a signal handler, at the n-th line that the package runs."""

    def __init__(self, at: int, handler: Callable[[], object] | None = None) -> None:
        self._left = at
        self._handler = handler
        self.came = False

    def __call__(self, frame: FrameType, event: str, arg: object) -> Interrupt | None:
        if "budgetfrontier" not in frame.f_code.co_filename:
            return None
        if event == "line":
            self._left -= 1
            if not self._left:
                self.came = True
                if self._handler is None:
                    raise KeyboardInterrupt
                with suppress(FrontierError):
                    self._handler()
        return self


INTERRUPTED: dict[str, Callable[[Frontier, Lease], object]] = {
    "schedule": lambda f, lease: f.schedule("https://z.test/"),
    "schedule_many": lambda f, lease: f.schedule_many(pages("YZ", 2)),
    "lease": lambda f, lease: f.lease(3),
    "finish": lambda f, lease: f.finish(lease, Outcome.RETRY, discovered=pages("Y", 2)),
    "finish_many": lambda f, lease: f.finish_many([lease, Finish(lease), *f.lease(2, ttl=60.0)]),
    "finish_many, each": lambda f, lease: f.finish_many([Finish(lease, Outcome.RETRY, discovered=pages("Y", 2))]),
    "schedule_each": lambda f, lease: f.schedule_each(pages("YZ", 2)),
    "bury": lambda f, lease: f.finish(lease, Outcome.DEAD),
    "adjust": lambda f, lease: f.adjust(queue_total_budget=5),
    "retire": lambda f, lease: f.retire("a.test"),
    "delete": lambda f, lease: f.delete(queue="b*"),
    "finish, plainly": lambda f, lease: f.finish(lease),
    "several, plainly": lambda f, lease: list(map(f.finish, (lease, *f.lease()))),
    "close": lambda f, lease: f.close(),
}
OVERRIDE = {"match": "regex:/0$", "set": {"retry.max_retries": 3}}
LIMITED: dict[str, Any] = {"hold_queues": False, "polite": True, "cost_policy": "wag", "overrides": [OVERRIDE]}


@pytest.mark.usefixtures("time_limit")
@pytest.mark.parametrize("call", INTERRUPTED)
@pytest.mark.parametrize("options", [LIMITED, {"concurrency": 2}], ids=["limited", "plain"])
@pytest.mark.parametrize("handler", [None, partial(signal.raise_signal, signal.SIGUSR1)], ids=["Ctrl-C", "time limit"])
def test_an_interrupt_anywhere_leaves_no_half_operation(
    tmp_path: Path, call: str, options: dict[str, Any], handler: Callable[[], object] | None
) -> None:
    """Its error is that of the call: it is not told as one of a policy. With plain options, the kernel is called."""
    at = 0
    came = True
    while came:
        at += 1 + at // sized(6, 15)  # each of the first lines, then ever fewer
        f = on_disk(tmp_path / str(at), **options)
        f.schedule_many(pages("ABC", 3))
        lease = one(f)
        f.retire("c.test")
        f.commit()
        committed = f.summary()
        interrupt = Interrupt(at, handler)
        before = sys.gettrace()
        gc.disable()  # Python prints an interrupt of a finalizer, and goes on
        sys.settrace(interrupt)
        try:
            INTERRUPTED[call](f, lease)
        except (KeyboardInterrupt, TimeLimit):
            pass
        finally:
            sys.settrace(before)
            gc.enable()
        came = interrupt.came
        try:
            f.check()  # it struck before or after the operation: the whole of it was done, or nothing
            f.close()
        except FrontierClosed:
            pass
        else:
            continue
        with on_disk(tmp_path / str(at), keep_leases=True) as f:
            f.check()
            if came and call != "close":
                assert f.summary() == committed


HANDLERS: dict[str, Callable[[Frontier], object]] = {
    "close": Frontier.close,
    "commit": Frontier.commit,
    "lease": lambda f: f.lease(2),
    "schedule_many": lambda f: f.schedule_many(pages("XY", 2)),
    "summary": Frontier.summary,
}


READ: dict[str, Callable[[Frontier, Lease], object]] = {
    "check": lambda f, lease: f.check(),
    "summary": lambda f, lease: f.summary(),
    "audit": lambda f, lease: f.audit(),
    "dead_letters": lambda f, lease: f.dead_letters(),
    "next_ready_in": lambda f, lease: f.next_ready_in(),
    "report": lambda f, lease: f.report(),
}


@pytest.mark.parametrize("call", INTERRUPTED | READ)
@pytest.mark.parametrize("handler", HANDLERS)
def test_a_signal_handler_that_calls_the_frontier_leaves_no_half_operation(
    tmp_path: Path, call: str, handler: str
) -> None:
    """It calls between two operations, or is refused."""
    at = 0
    came = True
    while came:
        at += 1 + at // sized(2, 4)
        f = on_disk(tmp_path / str(at), hold_queues=False, polite=True, overrides=[OVERRIDE])
        f.schedule_many(pages("ABC", 3))
        lease = one(f)
        f.retire("c.test")
        interrupt = Interrupt(at, partial(HANDLERS[handler], f))
        before = sys.gettrace()
        gc.disable()
        sys.settrace(interrupt)
        try:
            (INTERRUPTED | READ)[call](f, lease)
        except Exception as e:  # it was closed, or the lease was given back
            assert isinstance(e, FrontierError) or "closed" in repr(f)
        finally:
            sys.settrace(before)
            gc.enable()
        came = interrupt.came
        with suppress(FrontierClosed):
            f.check()
        f.close()
        with on_disk(tmp_path / str(at), keep_leases=True) as f:
            f.check()


def test_a_policy_that_calls_the_frontier_is_refused() -> None:
    with memory(cost_policy=f"{__name__}:calling") as f:
        CALLED.append(f)
        try:
            with pytest.raises(PolicyError, match="A call of this frontier is in progress"):
                f.schedule("https://a.test/")
        finally:
            CALLED.clear()
        assert f.summary().seen == 0


CALLED: list[Frontier] = []


def calling(uri: CrawlUri) -> int:
    """A cost policy that looks at the frontier."""
    for frontier in CALLED:
        frontier.summary()
    return 1
