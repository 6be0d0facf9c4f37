"""The dry runs of commands for a queue or the crawl: what they show is what the commands then do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Frontier, FrontierError, Reader
from budgetfrontier.clock import ManualClock
from budgetfrontier.engine.commands import state_preview
from budgetfrontier.engine.commands.undo_checks import preview
from tests.support import START, on_disk, pages

LATER = START + 5000.0


def _leased(f: Frontier) -> None:
    f.lease(1)


def _delayed(f: Frontier) -> None:
    f.finish(f.lease(1)[0])


def _woken(f: Frontier) -> None:
    _delayed(f)
    f.wake("a.test")


def _over_budget(f: Frontier) -> None:
    f.adjust(queue_total_budget=0)
    _delayed(f)


STATES: dict[str, Callable[[Frontier], object]] = {
    "INACTIVE": lambda f: None,
    "IN_PROCESS": _leased,
    "SNOOZED": _delayed,
    "READY": _woken,
    "RETIRED": lambda f: f.retire("a.test"),
    "RETIRED for its budget": _over_budget,
    "INELIGIBLE": lambda f: f.adjust(precedence=7),
    "RETIRED, and beyond the floor": lambda f: (f.retire("a.test"), f.adjust(precedence=7)),
    "EXHAUSTED": lambda f: f.delete(queue="a.test"),
}


@pytest.fixture(params=STATES)
def frontier(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Frontier]:
    """A frontier with a queue in each state."""
    f = on_disk(tmp_path, ManualClock(START), politeness={"min_delay": "60s", "max_delay": "60s"}, precedence_floor=5)
    f.schedule_many(pages("A", 3))
    STATES[request.param](f)
    f.commit()
    queue = f.queue("a.test")
    assert queue is not None and queue.state == request.param.replace(",", "").split()[0]
    yield f
    f.close()


def tried(folder: Path, make: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    with Reader(folder / "frontier") as reader, reader.view() as view:
        return make(view)


@pytest.mark.parametrize("op", ["retire", "unretire", "snooze", "wake"])
def test_a_dry_run_shows_the_queue_as_the_command_and_its_undo_leave_it(
    frontier: Frontier, tmp_path: Path, op: str
) -> None:
    args = {"queue": "a.test"} | ({"until": LATER} if op == "snooze" else {})
    shown = tried(tmp_path, lambda view: state_preview.of_queue(view, op, args, START))
    getattr(frontier, op)("a.test", **({"until": LATER} if op == "snooze" else {}))
    (entry,) = frontier.audit(limit=1)
    assert (shown["before"], shown["after"]) == (entry.effect["before"], entry.effect["after"])
    assert shown.get("still_over") == entry.effect.get("still_over")
    if op == "unretire" and entry.effect["after"]["state"] == "INACTIVE" and shown["before"]["state"] == "RETIRED":
        assert frontier.lease(1) == [] if shown.get("still_over") else frontier.lease(1)
    elif shown["before"] != shown["after"]:
        frontier.commit()
        shown = tried(tmp_path, lambda view: preview(view, {"id": entry.id}, START))
        frontier.undo(entry.id)
        (undone,) = frontier.audit(limit=1)
        assert (shown["before"], shown["after"]) == (undone.effect["before"], undone.effect["after"])


@pytest.mark.parametrize("chosen", [{"interval": 0.0}, {"interval": 900.0}, {"max_completed": 5}, {}])
@pytest.mark.parametrize("state", STATES)
def test_a_dry_run_shows_the_interval_and_the_limit_as_the_command_and_its_undo_leave_them(
    tmp_path: Path, state: str, chosen: dict[str, Any]
) -> None:
    politeness = {"min_delay": "60s", "max_delay": "60s", "min_interval": "100s"}
    with on_disk(tmp_path, ManualClock(START), keep_urls=True, politeness=politeness) as f:
        f.schedule_many(pages("A", 3))
        STATES[state](f)
        f.commit()
        args = {"queue": "a.test", **chosen}
        shown = tried(tmp_path, lambda view: state_preview.of_queue(view, "set_queue", args, START))
        f.set_queue("a.test", **chosen)
        (entry,) = f.audit(limit=1)
        assert (shown["before"], shown["after"]) == (entry.effect["before"], entry.effect["after"])
        if shown["before"] != shown["after"]:
            f.commit()
            shown = tried(tmp_path, lambda view: preview(view, {"id": entry.id}, START))
            f.undo(entry.id)
            (undone,) = f.audit(limit=1)
            assert (shown["before"], shown["after"]) == (undone.effect["before"], undone.effect["after"])


@pytest.mark.parametrize("op", ["pause", "resume", "terminate"])
@pytest.mark.parametrize("paused", [False, True])
def test_a_dry_run_shows_the_crawl_as_the_command_leaves_it(
    frontier: Frontier, tmp_path: Path, op: str, paused: bool
) -> None:
    if paused:
        frontier.pause(reason="for the night")
    frontier.commit()
    args = {"reason": "a storm"} if op == "pause" else {}
    shown = tried(tmp_path, lambda view: state_preview.of_crawl(view, op, args))
    getattr(frontier, op)(**args)
    (entry,) = frontier.audit(limit=1)
    assert (shown["before"], shown["after"]) == (entry.effect["before"], entry.effect["after"])


def test_a_queue_that_is_not_there_is_refused(frontier: Frontier, tmp_path: Path) -> None:
    with pytest.raises(FrontierError, match="there is no queue"):
        tried(tmp_path, lambda view: state_preview.of_queue(view, "retire", {"queue": "nowhere.test"}, START))
