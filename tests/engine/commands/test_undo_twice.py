"""Each kind of command that can be undone: it is undone once, and `--force` does what its refusals say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from budgetfrontier import Frontier, Outcome
from budgetfrontier.engine.commands.mailbox import Command
from budgetfrontier.engine.commands.undo_checks import FORCE
from budgetfrontier.errors import FrontierError
from tests.engine.commands.test_undo import last
from tests.support import START, crawl, memory, pages


def given(op: str, **args: Any) -> Callable[[Frontier], None]:
    """Return the giving of a command, which is not refused."""

    def give(f: Frontier) -> None:
        assert f.internals.apply(Command(op, args, "somebody", "")).error is None

    return give


COMMANDS: dict[str, tuple[Callable[[Frontier], Any], Callable[[Frontier], Any], Callable[[Frontier], Any]]] = {
    "adjust": (
        lambda f: None,
        lambda f: f.adjust(match="queue:a.test", queue_total_budget=5),
        lambda f: f.adjust(match="host:a.test", queue_total_budget=7),
    ),
    "withdraw": (
        lambda f: f.adjust(match="queue:a.test", queue_total_budget=5),
        lambda f: f.withdraw(1),
        lambda f: f.adjust(match="host:a.test", queue_total_budget=7),
    ),
    "retire": (lambda f: None, lambda f: f.retire("a.test"), lambda f: f.unretire("a.test")),
    "unretire": (lambda f: f.retire("a.test"), lambda f: f.unretire("a.test"), lambda f: f.retire("a.test")),
    "snooze": (
        lambda f: None,
        lambda f: f.snooze("a.test", until=START + 99),
        lambda f: f.snooze("a.test", until=START + 500),
    ),
    "wake": (
        lambda f: f.snooze("a.test", until=START + 99),
        lambda f: f.wake("a.test"),
        lambda f: f.snooze("a.test", until=START + 9),
    ),
    "set-queue": (
        lambda f: None,
        given("set_queue", queue="a.test", interval=90.0),
        given("set_queue", queue="a.test", interval=50.0),
    ),
    "retire many": (lambda f: None, given("retire", match="*"), lambda f: f.unretire("a.test")),
    "unretire many": (given("retire", match="*"), given("unretire", match="*"), lambda f: f.retire("a.test")),
    "snooze many": (lambda f: None, given("snooze", match="*", until=START + 99), lambda f: f.wake("a.test")),
    "set-queue many": (
        lambda f: None,
        given("set_queue", match="*", max_completed=9),
        given("set_queue", queue="a.test", max_completed=7),
    ),
    "pause": (lambda f: None, lambda f: f.pause(), lambda f: f.resume()),
    "resume": (lambda f: f.pause(), lambda f: f.resume(), lambda f: f.pause()),
    "delete": (
        lambda f: None,
        lambda f: f.delete(queue="a.test"),
        lambda f: f.schedule_many(pages("A", 1, first=9)),
    ),
    "drop": (lambda f: f.finish(f.lease(1)[0], Outcome.DEAD), lambda f: f.drop_dead_letters(), lambda f: None),
    "forget": (lambda f: crawl(f, 1), given("forget", uris=pages("A", 1)), lambda f: None),
}
"""What is before each kind of command, the command, and what changes the same thing after it."""
GIVE_AGAIN = {"retire many", "unretire many", "snooze many", "set-queue many", "delete", "drop", "forget"}
"""The commands whose undo cannot be undone."""
STANDS = {"pause", "resume"}
"""The commands whose undo is refused, forced or not, once another has taken them back."""


@pytest.mark.parametrize("kind", COMMANDS)
def test_a_command_is_undone_once_until_its_undo_is_undone(kind: str) -> None:
    first, command, _ = COMMANDS[kind]
    with memory(keep_urls=True) as f:
        f.schedule_many(pages("AB", 3))
        first(f)
        command(f)
        number = last(f)
        for _ in range(2):
            f.undo(number)
            undone = last(f)
            for force in False, True:
                with pytest.raises(FrontierError, match=rf"^{number}, {kind.split(maxsplit=1)[0]}, is undone already$"):
                    f.undo(number, force=force)
            if kind in GIVE_AGAIN:
                with pytest.raises(FrontierError, match="again"):
                    f.undo(undone, force=True)
                break
            f.undo(undone)
            with pytest.raises(FrontierError, match=rf"^{undone}, {kind}, is undone already$"):
                f.undo(undone)
        f.check()


@pytest.mark.parametrize("kind", COMMANDS)
def test_what_a_refusal_says_of_force_is_true(kind: str) -> None:
    first, command, since = COMMANDS[kind]
    with memory(keep_urls=True) as f:
        f.schedule_many(pages("AB", 3))
        first(f)
        command(f)
        number = last(f)
        since(f)
        try:
            f.undo(number)
        except FrontierError as refusal:
            can_be_forced = str(refusal).endswith(FORCE)
            assert can_be_forced == (kind not in STANDS)
            if can_be_forced:
                f.undo(number, force=True)
            else:
                with pytest.raises(FrontierError, match="nothing left"):
                    f.undo(number, force=True)
        else:
            assert kind in GIVE_AGAIN
        f.check()
