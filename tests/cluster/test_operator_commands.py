"""Commands of operators in the logs of partitions: owners apply them once, and audit who gave them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from math import inf
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from budgetfrontier.cluster.log.entries import Given, Steered
from budgetfrontier.cluster.log.state import COMMANDS
from budgetfrontier.cluster.operators.inspector import Inspector
from budgetfrontier.cluster.partitions.operator_commands import refusal
from budgetfrontier.core import protocol
from budgetfrontier.engine.commands.mailbox import Command
from budgetfrontier.errors import CommandInProgress, FrontierError, NotAFrontier, SettingsError
from tests.cluster.log import Log, Owner, copied
from tests.cluster.test_partition import OWN
from tests.support import PATIENCE


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    owner = Owner(tmp_path / "one", Log())
    yield owner
    owner.close()


def test_they_are_applied_once_in_order_and_audited(owner: Owner, tmp_path: Path) -> None:
    def give(command: bytes, op: str, args: dict[str, Any]) -> None:
        owner.log.time += 1.0
        owner.log.steer(command, op, args, "me", "why", "the line")

    owner.schedule(*(f"https://{host}/" for host in OWN[:3]))
    owner.schedule(*(f"https://{OWN[5]}/{page}?x" for page in range(2200)))
    give(b"1", "adjust", {"match": "*", "set": {"queue_total_budget": 0}})
    give(b"2", "withdraw", {"id": b"1"})
    give(b"1", "adjust", {"match": "*", "set": {"queue_total_budget": 0}})  # a repetition
    give(b"3", "withdraw", {"id": b"nothing"})
    give(b"4", "withdraw", {})
    give(b"5", "delete", {"pattern": r"\?x"})  # which takes five steps
    give(b"6", "retire", {"queue": OWN[5]})  # which waits
    give(b"7", "undo", {"id": b"6"})
    give(b"8", "pause", {"reason": "why"})  # which does not
    give(b"9", "delete", {"pattern": "(a+)+"})
    owner.turn()
    commands = owner.partition._commands
    state = commands.known
    assert (state.job, [one.command for one in state.waiting]) == (b"5", [b"6", b"7", b"9"])
    assert (state.commands[b"5"], state.commands[b"8"]) == (None, 4)
    assert commands.goes_on_at() == 0.0
    with pytest.raises(CommandInProgress, match="delete by me is in progress"):
        owner.call(protocol.STEER, protocol.MethodCall("retire", [OWN[0]]))
    owner.apply()
    assert (commands.goes_on_at(), state.job, state.waiting) == (inf, None, [])
    entries = owner.partition.frontier.audit()
    assert [(one.command, bool(one.error)) for one in entries] == [
        ("adjust", False), ("withdraw", False), ("withdraw", True), ("pause", False), ("delete", False),
        ("retire", False), ("undo", False), ("delete", False),
    ]  # fmt: skip
    assert (entries[4].effect["deleted"], "kept" in entries[4].effect) == (2200, True)
    assert {(one.who, one.reason, one.line) for one in entries} == {("me", "why", "the line")}
    assert state.of_queues == {b"6": 6}
    assert (state.entry_of(b"6"), state.is_known(b"6"), state.entry_of(b"none")) == (6, True, None)
    in_order = dict(zip((b"1", b"2", b"3", b"8", b"5", b"6", b"7", b"9"), range(1, 9), strict=True))
    assert state.entries() == in_order | {b"4": None}
    assert owner.contents() == copied(tmp_path / "other", owner.log)
    with closing(Owner(tmp_path / "two", owner.log)) as two:
        assert two.partition._commands.known == state
        give(b"5", "delete", {"pattern": "/"})
        two.apply()
        assert len(two.partition.frontier.audit()) == 8


def test_what_is_kept_for_undo_is_the_same_in_all_copies(owner: Owner, tmp_path: Path) -> None:
    """Also in one that is made while some of it is back."""

    def give(op: str, args: dict[str, Any]) -> bytes:
        command = len(owner.log.entries).to_bytes(8, "big")
        owner.log.steer(command, op, args, "me", "why", "")
        return command

    owner.schedule(*(f"https://{OWN[0]}/{page}?x" for page in range(1200)), f"https://{OWN[1]}/")
    before = owner.contents()
    commands = []
    for op, args in ("retire", {"match": "*"}), ("delete", {"queue": OWN[0]}):
        commands.append(give(op, args))
        owner.apply()
    found = owner.contents()
    assert copied(tmp_path / "kept", owner.log) == found
    assert len(found["removed"]) > len(before["removed"])
    give("undo", {"id": commands[1]})
    owner.turn()
    assert owner.partition._commands.goes_on_at() == 0.0
    copied(tmp_path / "halfway", owner.log)
    owner.apply()
    give("undo", {"id": commands[0]})
    found = owner.contents()
    assert copied(tmp_path / "halfway", owner.log) == copied(tmp_path / "back", owner.log) == found
    assert (found["removed"], found["pending"]) == (before["removed"], before["pending"])
    assert [bool(one.error) for one in owner.partition.frontier.audit()] == [False] * 4
    owner.partition.frontier.check()


def test_looks_that_fail_leave_the_next_ones_alone(owner: Owner, tmp_path: Path) -> None:
    owner.commit()
    path = owner.partition.folder / "frontier"
    inspector = Inspector()

    def asked(folder: Path, name: str, **named: Any) -> Any:
        answers: list[Any] = []
        ended = Event()

        def done(result: Any, error: BaseException | None) -> None:
            answers.append(error or result)
            ended.set()

        inspector.ask(folder, time.time(), name, named, done)
        assert ended.wait(PATIENCE)
        return answers[0]

    assert isinstance(asked(tmp_path, "head"), NotAFrontier)
    assert str(asked(path, "nonsense")).startswith("this worker has no look 'nonsense'")
    assert isinstance(asked(path, "head", nonsense=1), TypeError)
    assert isinstance(asked(path, "best", selection={}, sort="nonsense", reverse=False, offset=0, count=1), bytes)
    args = {"match": "*", "set": {"nonsense": 1}}
    assert isinstance(asked(path, "dry_run", op="adjust", args=args), SettingsError)
    assert inspector._process is not None
    inspector._process.kill()
    assert "try again" in str(asked(path, "head"))
    assert isinstance(asked(path, "head"), bytes)
    inspector.close()
    assert isinstance(asked(path, "head"), FrontierError)


def test_the_treasurer_sends_commands_to_all_partitions_in_one_order(owner: Owner, tmp_path: Path) -> None:
    """Two operators give commands at once; a repetition is sent again, and applied once."""
    first = Given(b"1", Command("adjust", {"match": "*", "set": {"queue_total_budget": 1}}, "me", ""), {}, None)
    second = Given(b"2", Command("adjust", {"match": "*", "set": {"queue_total_budget": 2}}, "you", ""), {}, [0, 2])
    for given in (first, second, first):
        owner.log.append(given)
    owner.apply()
    sent = owner.take_outgoing()
    assert [(number, told.message.command) for number, told in sent if isinstance(told.message, Steered)] == [
        (1, b"1"), (2, b"1"), (3, b"1"), (2, b"2"), (1, b"1"), (2, b"1"), (3, b"1"),
    ]  # fmt: skip
    log = Log()
    with closing(Owner(tmp_path / "two", log, 2)) as two:
        for number, told in [*sent, *sent]:
            if number == 2:
                log.append(told)
        two.apply()
        for each in (owner, two):
            assert [entry.who for entry in each.partition.frontier.audit()] == ["me", "you"]
            assert each.partition._commands.known.entries() == {b"1": 1, b"2": 2}
    assert owner.contents() == copied(tmp_path / "other", owner.log)


def test_adjustments_stay_known_however_many_other_commands_come(owner: Owner) -> None:
    owner.log.steer(b"a", "adjust", {"match": "*", "set": {"queue_total_budget": 1}})
    for number in range(COMMANDS + 1):
        owner.log.steer(number.to_bytes(4, "big"), ("pause", "resume")[number % 2], {})
    owner.log.steer(b"w", "withdraw", {"id": b"a"})
    owner.apply()
    assert owner.partition.frontier.adjustments == []


@pytest.mark.parametrize("chosen", [{"quotas.label": {"urls": 5}}, {"quotas": {"label": {"urls": 5}}}])
def test_labels_get_no_quota(chosen: dict[str, Any]) -> None:
    found = refusal("adjust", {"match": "*", "set": chosen})
    assert isinstance(found, FrontierError) and "the URIs with a label are in all of them" in str(found)
    assert refusal("adjust", {"match": "*", "set": {"quotas.host": {"urls": 5}, "quotas.label": {}}}) is None
