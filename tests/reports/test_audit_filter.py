"""Which commands may have changed the queues that a dry run was about."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from budgetfrontier import Frontier, Outcome, Reader, Settings
from budgetfrontier.engine.commands.mailbox import Command
from budgetfrontier.reports.audit_filter import coverage, deleted_queues, touches
from budgetfrontier.settings.matching import Match, parse_match

COMMANDS: dict[str, Callable[[Frontier], object]] = {
    "retire": lambda frontier: frontier.retire("a.test"),
    "snooze": lambda frontier: frontier.snooze("a.test", until=9e9),
    "adjust key": lambda frontier: frontier.adjust(match="queue:a.test", queue_total_budget=5),
    "adjust host": lambda frontier: frontier.adjust(match="host:a.test", queue_total_budget=6),
    "adjust domain": lambda frontier: frontier.adjust(match="domain:a.test", queue_total_budget=7),
    "delete": lambda frontier: frontier.delete(queue="a.test"),
    "delete glob": lambda frontier: frontier.delete(queue="a.*"),
}
EVERYTHING: dict[str, Callable[[Frontier], object]] = {
    "adjust all": lambda frontier: frontier.adjust(queue_total_budget=5),
    "adjust regex": lambda frontier: frontier.adjust(match="regex:x", queue_total_budget=5),
    "delete pattern": lambda frontier: frontier.delete(pattern="x"),
}
NOTHING: dict[str, Callable[[Frontier], object]] = {
    "pause": lambda frontier: frontier.pause(),
    "terminate": lambda frontier: frontier.terminate(),
}
PATTERNS = [
    ("queue:{}.test", True),
    ("queues:{}.test,c.test", True),
    ("host:{}.test", True),
    ("domain:{}.test", True),
    ("*", False),
]


def touched(path: Path, command: Callable[[Frontier], object], match: Match) -> bool:
    with Frontier.open(path) as frontier:
        for host in "ab":
            frontier.schedule_many(f"http://{host}.test/{n}" for n in range(3))
        frontier.commit()
        command(frontier)
    with Reader(path) as reader, reader.view() as view:
        return touches(view, match)(next(view.newest_commands()))


@pytest.mark.parametrize(("pattern", "tells_apart"), PATTERNS)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_on_another_queue_touches_nothing(
    tmp_path: Path, command: str, pattern: str, tells_apart: bool
) -> None:
    assert touched(tmp_path / "own", COMMANDS[command], parse_match(pattern.format("a")))
    if tells_apart:
        other = parse_match(pattern.format("b"))
        may = command == "delete glob" and other.exact is not None and not other.keys  # not told apart
        assert touched(tmp_path / "other", COMMANDS[command], other) is may


@pytest.mark.parametrize("pattern", [pattern.format("a") for pattern, _ in PATTERNS])
def test_a_command_that_names_no_queue_may_touch_all(tmp_path: Path, pattern: str) -> None:
    for name, command in EVERYTHING.items():
        assert touched(tmp_path / name, command, parse_match(pattern)) or name == "adjust regex"
    for name, command in NOTHING.items():
        assert not touched(tmp_path / name, command, parse_match(pattern))


def test_an_undo_touches_what_it_gives_back(tmp_path: Path) -> None:
    def adjust_and_undo(frontier: Frontier) -> None:
        frontier.undo(frontier.adjust(match="queue:a.test", queue_total_budget=5).id)

    assert touched(tmp_path / "own", adjust_and_undo, parse_match("queue:a.test"))


def test_the_queues_of_a_deletion() -> None:
    assert deleted_queues(None).matches("", "x") and deleted_queues("[ab].test").matches("", "x")
    assert deleted_queues("a.test").keys == ("a.test",) and not deleted_queues("a.*").matches("", "b.test")


@pytest.mark.parametrize("command", ["replay", "drop", "undo"])
def test_commands_to_dead_letters_concern_the_queues_that_these_were_of(tmp_path: Path, command: str) -> None:
    with Frontier.open(tmp_path / "frontier") as frontier:
        frontier.schedule_many(f"http://{host}.test/" for host in "ab")
        for lease in frontier.lease(2):
            frontier.finish(lease, Outcome.DEAD, reason="gone")
        (letter,) = (one.id for one in frontier.dead_letters() if one.queue == "a.test")
        if command == "replay":
            frontier.replay([letter])
        else:
            frontier.drop_dead_letters([letter])
        if command == "undo":
            frontier.undo(frontier.audit()[-1].id)
    with Reader(tmp_path / "frontier") as reader, reader.view() as view:
        entry = next(view.newest_commands())
        told = [coverage(view, key)(entry) for key in ("a.test", "b.test")]
    assert told == ["named", None]


@pytest.mark.parametrize("op", ["delete", "retire", "snooze"])
@pytest.mark.parametrize("args", [{"match": "queue:a.test"}, {"queue": "a.test"}])
def test_an_undo_concerns_the_queues_of_its_command(tmp_path: Path, op: str, args: dict[str, str]) -> None:
    with Frontier.open(tmp_path / "frontier") as frontier:
        frontier.schedule_many(f"http://{host}.test/" for host in "ab")
        frontier.internals.apply(Command(op, args | ({"until": 4e9} if op == "snooze" else {}), "", ""))
        frontier.undo(1)
    with Reader(tmp_path / "frontier") as reader, reader.view() as view:
        undo, command = view.newest_commands()
        for key in ("a.test", "b.test"):
            assert (coverage(view, key)(undo) is None) == (coverage(view, key)(command) is None) == (key == "b.test")


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ({"match": "queue:a.test"}, ["perhaps", None]),
        ({"match": "domain:test", "queue": "a.*"}, ["perhaps", None]),
        ({"match": "host:a.test"}, ["perhaps", "perhaps"]),  # their URIs are gone
    ],
)
def test_a_deletion_by_key_concerns_no_other_queue(
    tmp_path: Path, args: dict[str, str], told: list[str | None]
) -> None:
    with Frontier.open(tmp_path / "frontier") as frontier:
        frontier.schedule_many(f"http://{host}.test/" for host in "ab")
        frontier.internals.apply(Command("delete", args, "", ""))
    with Reader(tmp_path / "frontier") as reader, reader.view() as view:
        entry = next(view.newest_commands())
        assert [coverage(view, key)(entry) for key in ("a.test", "b.test")] == told


@pytest.mark.parametrize(("command", "arguments", "concerns"), [
    ("drop", {"ids": None, "why": "*refused*"}, False),
    ("replay", {"ids": None, "why": "*refused*"}, False),
    ("delete", {"queue": None, "pattern": "nothing"}, False),
    ("forget", {"match": "host:none.test"}, False),
    ("retire", {"match": "*", "states": ["RETIRED"]}, False),
    ("retire", {"match": "*"}, True),
    ("delete", {"queue": None, "pattern": "a[.]test"}, True),
    ("drop", {"ids": None}, True),
    ("adjust", {"match": "*", "set": {"queue_total_budget": -1}}, True),  # queues that come later get it
])  # fmt: skip
def test_a_command_that_has_changed_nothing_concerns_no_queue(
    tmp_path: Path, command: str, arguments: dict[str, object], concerns: bool
) -> None:
    with Frontier.open(tmp_path, Settings.from_dict({"frontier": {"keep_urls": True}})) as frontier:
        frontier.schedule_many(f"http://a.test/{n}" for n in range(3))
        frontier.finish(frontier.lease(1)[0], Outcome.DEAD, reason="gone")
        entry = frontier.internals.apply(Command(command, arguments, "", ""))
        assert entry.error is None
    with Reader(tmp_path) as reader, reader.view() as view:
        (entry,) = view.newest_commands()
        assert (coverage(view, "a.test")(entry) is not None) is concerns
