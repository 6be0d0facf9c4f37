"""Hooks: when they are called, what they may do, and what their errors do."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import pytest

from budgetfrontier import Frontier, Lease, Outcome, QueueRecord, Settings
from budgetfrontier.clock import ManualClock
from budgetfrontier.errors import FrontierClosed, SettingsError
from budgetfrontier.testing import crash
from tests.support import START, crawl, memory, on_disk, one, pages, whole


class Calls:
    """Hooks that do what they are made with; `told` is what they were called for."""

    def __init__(self, act: Callable[[Frontier], object] = lambda f: None) -> None:
        self.told: list[str] = []
        self._act = act

    def _call(self, name: str, frontier: Frontier) -> None:
        self.told.append(name)
        self._act(frontier)

    def on_retire(self, frontier: Frontier, queue: object) -> None:
        self._call("retire", frontier)

    def on_finish(self, frontier: Frontier, lease: object, outcome: object) -> None:
        self._call("finish", frontier)

    def on_pause_at_finish(self, frontier: Frontier, report: object) -> None:
        self._call("pause", frontier)

    def on_dead_letter(self, frontier: Frontier, letter: object) -> None:
        self._call("dead", frontier)


def test_a_hook_may_close_the_frontier() -> None:
    calls = Calls(Frontier.close)
    f = memory(hooks=[calls], pause_at_finish=True)
    f.schedule_many(pages("A", 1))
    f.finish(one(f), Outcome.DEAD)
    assert len(calls.told) == 1
    with pytest.raises(FrontierClosed):
        f.lease(1)


def test_a_hook_may_call_the_frontier_back() -> None:
    rounds: list[int] = []

    def act(f: Frontier) -> None:
        rounds.append(1)
        if len(rounds) < 20:
            f.schedule(f"https://d.test/{len(rounds)}")
            f.adjust(queue_total_budget=len(rounds))
            f.check()
            for lease in f.lease(1):
                f.finish(lease)

    with memory(hooks=[Calls(act)], hold_queues=False) as f:
        f.schedule_many(pages("A", 2))
        f.finish(one(f))
        assert f.summary().succeeded == 20
        whole(f)


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_interrupt_in_a_hook_closes_as_of_the_last_commit(tmp_path: Path, error: type[BaseException]) -> None:
    """Also if it is an ordinary exception of a signal handler, which is no fault of the hook."""

    def handle(*signal_and_frame: object) -> None:
        raise error

    def interrupt(f: Frontier) -> None:
        signal.raise_signal(signal.SIGUSR1)

    with on_disk(tmp_path, hold_queues=False) as f:
        f.schedule_many(pages("A", 2))
    f = Frontier.open(tmp_path / "frontier", clock=ManualClock(START), hooks=[Calls(interrupt)])
    before = signal.signal(signal.SIGUSR1, handle)
    try:
        with pytest.raises(error):
            f.finish(one(f))
    finally:
        signal.signal(signal.SIGUSR1, before)
    with pytest.raises(FrontierClosed):
        f.lease(1)
    with on_disk(tmp_path) as f:
        assert crawl(f) == "AA"


def test_hooks_are_told_what_opening_did(tmp_path: Path) -> None:
    f = on_disk(tmp_path, pause_at_finish=True, max_deliveries=1)
    f.schedule_many(pages("A", 1))
    f.lease(1)
    f.commit()
    crash(f)
    for expected in ["dead", "pause"], []:
        calls = Calls()
        with Frontier.open(tmp_path / "frontier", clock=ManualClock(START), hooks=[calls]) as f:
            assert (str(f.state), calls.told) == ("PAUSED", expected)


class Misspelt:
    def on_retired(self, *_: object) -> None: ...
    def on_finish(self, *_: object) -> None: ...


def on_dead_letters(*_: object) -> None: ...


@pytest.mark.parametrize(
    ("hook", "said"),
    [
        (Misspelt(), "on_retired of .* is never called; did you mean on_retire?"),
        (on_dead_letters, "did you mean on_dead_letter?"),
        (object(), "has no function that is called; there are on_activate, "),
        (lambda *_: None, "has no function that is called"),
    ],
)
def test_a_hook_that_would_never_be_called_is_refused(tmp_path: Path, hook: object, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        Frontier.open(tmp_path / "f", hooks=[hook])
    with Frontier.open(tmp_path / "f") as frontier:  # nothing is left locked
        assert frontier.summary().queued == 0


class Faulty:
    """A hook with an error."""

    def on_finish(self, frontier: Frontier, lease: object, outcome: Outcome) -> None:
        raise RuntimeError("a hook's own trouble")


class Counts:
    """A hook of each kind; one is no method."""

    on_finish = 5

    def on_commit(self, frontier: Frontier) -> None: ...


class Takes:
    """A hook that takes too little, or too much."""

    def on_finish(self, frontier: Frontier, lease: Lease) -> None: ...


class Waits:
    """A hook that nothing would await."""

    async def on_retire(self, frontier: Frontier, record: QueueRecord) -> None: ...


def on_commit(frontier: Frontier, path: str) -> None: ...


@pytest.mark.parametrize(
    ("hook", "said"),
    [
        (Faulty, r"on_finish of <class .*> must take \(frontier, lease, outcome\): .*; give an object: Faulty\(\)"),
        (Counts(), "on_finish of .* is not a function, but 5"),
        (Takes(), r"on_finish of .* must take \(frontier, lease, outcome\): too many positional arguments"),
        (Waits(), "on_retire of .* is a coroutine function, and would never run"),
        (on_commit, r"on_commit of .* must take \(frontier\): missing a required argument: 'path'"),
    ],
)
def test_a_hook_that_would_fail_at_each_call_is_refused_with_nothing_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hook: object, said: str
) -> None:
    with pytest.raises(SettingsError, match=said):
        Frontier.open(tmp_path / "frontier", hooks=[hook])
    assert not (tmp_path / "frontier").exists()
    if isinstance(hook, type):  # a class that the settings name is called for an object
        return
    module = ModuleType("own_hooks")
    module.hook = hook  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "own_hooks", module)
    on_disk(tmp_path).close()
    with pytest.raises(SettingsError, match=said):
        Frontier.open(tmp_path / "frontier", {"crawl": "test", "hooks": ["own_hooks:hook"]})
    on_disk(tmp_path).close()


class Static:
    """A class as a hook: its functions take no object."""

    finished: ClassVar[list[Outcome]] = []

    @staticmethod
    def on_finish(frontier: Frontier, lease: Lease, outcome: Outcome) -> None:
        Static.finished.append(outcome)


def test_a_class_whose_functions_can_be_called_is_a_hook() -> None:
    with memory(hooks=[Static]) as f:
        f.schedule_many(pages("A", 1))
        crawl(f)
    assert Static.finished == [Outcome.SUCCESS]


def test_hooks_that_cannot_be_loaded_are_not_stored(tmp_path: Path) -> None:
    on_disk(tmp_path, hold_queues=False).close()
    with pytest.raises(SettingsError, match="no_such_module"):
        Frontier.open(tmp_path / "frontier", Settings.from_dict({"crawl": "test", "hooks": ["no_such_module:hook"]}))
    on_disk(tmp_path).close()


def test_the_errors_of_hooks_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with memory(hooks=[Faulty()]) as f:
        f.schedule_many(pages("A", 2))
        assert crawl(f) == "AA"
    assert "a hook's own trouble" in caplog.text


class Syncs:
    """A hook that counts commits, and fails when told to."""

    def __init__(self) -> None:
        self.commits = 0
        self.error: Exception | None = None

    def on_commit(self, frontier: Frontier) -> None:
        self.commits += 1
        if self.error:
            raise self.error


def test_a_hook_comes_before_each_commit_that_changes_something(tmp_path: Path) -> None:
    hook = Syncs()
    with on_disk(tmp_path, hooks=[hook]) as f:
        f.commit()
        before = hook.commits
        f.commit()
        f.schedule_many(pages("A", 2))
        assert hook.commits == before
        f.commit()
        assert hook.commits == before + 1
    assert hook.commits == before + 2


def test_nothing_is_committed_that_a_hook_could_not_sync(tmp_path: Path) -> None:
    hook = Syncs()
    with on_disk(tmp_path) as f:
        f.schedule_many(pages("A", 2))
    f = on_disk(tmp_path, hooks=[hook])
    f.finish(one(f))
    hook.error = OSError("no space left")
    with pytest.raises(OSError, match="no space left"):
        f.commit()
    with pytest.raises(FrontierClosed):
        f.lease(1)
    with on_disk(tmp_path) as f:
        assert f.summary().queued == 2


def test_a_hook_that_resumes_a_crawl_with_nothing_to_do_is_called_once_per_finish(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def act(f: Frontier) -> None:
        assert len(calls.told) < 9
        f.adjust(queue_total_budget=100)
        f.resume()

    calls = Calls(act)
    with memory(hooks=[calls], pause_at_finish=True) as f:
        for round in 1, 2:
            f.schedule_many(pages("A", round))
            f.resume()
            crawl(f, 9)
            assert (str(f.state), calls.told.count("pause")) == ("PAUSED", round)
    assert "with nothing to lease" in caplog.text
