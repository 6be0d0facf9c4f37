"""A frontier that is lost without `close`: its lock goes with it, and what was not committed."""

from __future__ import annotations

import gc
import threading
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Frontier, ManualClock
from budgetfrontier.errors import FrontierLocked
from budgetfrontier.testing import crash
from tests.crash.processes import in_child
from tests.support import PATIENCE


class Watching:
    """A hook that the tables of a frontier refer to, and that way the frontier itself."""

    def on_dead_letter(self, frontier: Frontier, letter: object) -> None: ...


def lose(path: Path | str) -> None:
    """Open a frontier, change it, and lose it."""
    f = Frontier.open(path, hooks=[Watching()])
    f.schedule("https://a.test/")
    f.commit()
    f.schedule("https://a.test/2")


def in_thread(work: Callable[[], object]) -> None:
    """Do something in another thread."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(PATIENCE)


def test_it_can_be_opened_again_as_of_its_last_commit(tmp_path: Path) -> None:
    with pytest.warns(ResourceWarning, match="lost without `close`"):
        lose(tmp_path / "frontier")
        gc.collect()
    assert in_child(lambda: Frontier.open(tmp_path / "frontier").close()).error == ""
    with Frontier.open(tmp_path / "frontier") as f:
        assert f.summary().queued == 1
        f.check()


HELD = {
    "plain": {},
    "links": {"frontier": {"politeness": {"min_delay": 0, "delay_factor": 0}}},
    "kept URLs": {"frontier": {"keep_urls": True}},
    "overrides": {"overrides": [{"match": "domain:a.test", "set": {"politeness": {"min_delay": 1}}}]},
    "groups": {"groups": [{"name": "one", "match": "domain:a.test", "max_in_flight": 2}]},
    "quotas": {"frontier": {"quotas": {"host": {"urls": 100}}}},
}
"""Settings with which different parts of the kernel refer to the engine."""


@pytest.mark.parametrize("settings", HELD.values(), ids=HELD)
@pytest.mark.parametrize("end", [Frontier.commit, Frontier.close, crash, None])
def test_nothing_of_it_is_left_in_memory(
    settings: dict[str, Any], end: Callable[[Frontier], object] | None, tmp_path: Path
) -> None:
    f = Frontier.open(tmp_path / "frontier", settings, clock=ManualClock(1e9))
    left = [weakref.ref(part) for part in (f._guard, f._kernel, f._admitter)]
    f.schedule_many([f"https://{host}.test/a/{number}" for host in "abc" for number in range(9)])
    f.finish(f.lease(1)[0])
    f.finish(f.lease(1)[0], discovered=["https://a.test/b"])
    if end is not None:
        end(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        del f
        gc.collect()
    assert [part() for part in left] == [None] * 3
    Frontier.open(tmp_path / "frontier").close()


def test_one_that_another_thread_finds_is_closed_when_its_own_opens_the_next(tmp_path: Path) -> None:
    gc.disable()
    try:
        lose(tmp_path / "frontier")
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            in_thread(gc.collect)
        assert [one.category for one in told if "lost without" in str(one.message)] == [ResourceWarning]
    finally:
        gc.enable()
    assert in_child(lambda: Frontier.open(tmp_path / "frontier")).error == FrontierLocked.__name__
    Frontier.open(":memory:").close()
    with Frontier.open(tmp_path / "frontier") as f:
        assert f.summary().queued == 1


def test_one_of_a_thread_that_has_ended_is_locked_and_the_error_says_so(tmp_path: Path) -> None:
    def lose_in_thread() -> None:
        held: list[Frontier] = []
        in_thread(lambda: held.append(Frontier.open(tmp_path / "frontier")))
        with pytest.raises(FrontierLocked, match=r"which has ended.*End the process, and open it again"):
            Frontier.open(tmp_path / "frontier")

    assert in_child(lose_in_thread).error == ""
    with Frontier.open(tmp_path / "frontier") as f:
        with pytest.raises(FrontierLocked, match=r"in this process \(\d+\)$"):
            Frontier.open(tmp_path / "frontier")
        f.check()


def test_one_that_was_closed_or_is_lost_in_a_forked_child_is_left_alone(tmp_path: Path) -> None:
    def lose_all() -> None:
        held.clear()
        gc.collect()

    held = [Frontier.open(tmp_path / "frontier")]
    held[0].schedule("https://a.test/")
    assert in_child(lose_all).error == ""
    held[0].schedule("https://a.test/2")
    held[0].close()
    lose_all()
    with Frontier.open(tmp_path / "frontier") as f:
        assert f.summary().queued == 2
