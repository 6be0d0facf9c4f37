"""Commands of operators in the logs of partitions: replicas apply them alike, and audit who gave them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from math import inf
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from budgetfrontier.cluster.entries import Given, Sent, Steered, Ticked
from budgetfrontier.cluster.inspector import Inspector
from budgetfrontier.cluster.operator_commands import refusal
from budgetfrontier.cluster.partition import Partition
from budgetfrontier.cluster.state import COMMANDS
from budgetfrontier.core import protocol
from budgetfrontier.errors import CommandInProgress, FrontierError, NotAFrontier, SettingsError
from tests.cluster.log import CRAWL, PARTITIONS, Log, Owner, contents
from tests.cluster.test_partition import OWN, replica_contents
from tests.support import PATIENCE


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    owner = Owner(tmp_path / "one", Log())
    yield owner
    owner.close()


def test_replicas_apply_and_audit_them_alike(owner: Owner, tmp_path: Path) -> None:
    def give(command: bytes, op: str, args: dict[str, Any]) -> None:
        owner.log.time += 1.0
        owner.log.append(Steered(command, "apply", [op, args, "me", "why", "the line"], {}))

    owner.schedule(*(f"https://{host}/" for host in OWN[:3]))
    owner.schedule(*(f"https://{OWN[5]}/{page}?x" for page in range(1200)))
    give(b"1", "adjust", {"match": "*", "set": {"queue_total_budget": 0}})
    give(b"2", "withdraw", {"id": b"1"})
    give(b"1", "adjust", {"match": "*", "set": {"queue_total_budget": 0}})  # a repetition
    give(b"3", "withdraw", {"id": b"nothing"})
    give(b"4", "withdraw", {})
    give(b"5", "delete", {"pattern": r"\?x"})  # which takes three steps
    give(b"6", "retire", {"queue": OWN[5]})  # which waits
    give(b"7", "undo", {"id": b"6"})
    give(b"8", "pause", {"reason": "why"})  # which does not
    give(b"9", "delete", {"pattern": "(a+)+"})
    owner.apply()
    state = owner.partition.state
    assert (state.job, [one.command for one in state.waiting]) == (b"5", [b"6", b"7", b"9"])
    assert (state.commands[b"5"], state.commands[b"8"]) == (None, 4)
    with pytest.raises(CommandInProgress, match="delete by me is in progress"):
        owner.call(protocol.STEER, protocol.MethodCall("retire", [OWN[0]]))
    for _ in range(5):
        assert owner.partition.goes_on_at() == 0.0
        owner.log.append(Ticked())
        owner.apply()
    assert (owner.partition.goes_on_at(), state.job, state.waiting) == (inf, None, [])
    entries = owner.partition.frontier.audit()
    assert [(one.command, bool(one.error)) for one in entries] == [
        ("adjust", False), ("withdraw", False), ("withdraw", True), ("pause", False), ("delete", False),
        ("retire", False), ("undo", False), ("delete", True),
    ]  # fmt: skip
    assert (entries[4].effect["deleted"], "kept" in entries[4].effect) == (1200, True)
    assert {(one.who, one.reason, one.line) for one in entries} == {("me", "why", "the line")}
    assert state.of_queues == {b"6": 6}
    assert (state.entry_of(b"6"), state.is_known(b"6"), state.entry_of(b"none")) == (6, True, None)
    commands = state.entries()
    in_order = dict(zip((b"1", b"2", b"3", b"8", b"5", b"6", b"7", b"9"), range(1, 9), strict=True))
    assert commands == in_order | {b"4": None}
    replica = Partition(tmp_path / "other", CRAWL, 0, PARTITIONS)
    while replica.state.position < len(owner.log.entries):
        replica.apply(owner.log.entries[replica.state.position :])
        replica.commit()
    assert contents(replica) == contents(owner.partition)
    assert replica.state == state
    replica.close()


def test_what_is_kept_for_undo_is_the_same_in_all_replicas(owner: Owner, tmp_path: Path) -> None:
    """Also in one that is rebuilt while some of it is back."""
    undone = ("retire", {"match": "*"}), ("delete", {"queue": OWN[0]})

    def give(op: str, args: dict[str, Any]) -> bytes:
        command = len(owner.log.entries).to_bytes(8, "big")
        owner.log.append(Steered(command, "apply", [op, args, "me", "why", ""], {}))
        owner.apply()
        return command

    def go_on() -> None:
        while owner.partition.goes_on_at() == 0.0:
            owner.log.append(Ticked())
            owner.apply()
            seen.append(len(contents(owner.partition)["removed"]))

    seen: list[int] = []
    owner.schedule(*(f"https://{OWN[0]}/{page}?x" for page in range(1200)), f"https://{OWN[1]}/")
    before = contents(owner.partition)
    commands = []
    for op, args in undone:
        commands.append(give(op, args))
        go_on()
    assert replica_contents(tmp_path / "kept", owner.log) == contents(owner.partition)
    give("undo", {"id": commands[1]})
    owner.log.append(Ticked())
    owner.apply()
    assert replica_contents(tmp_path / "halfway", owner.log) == contents(owner.partition)
    go_on()
    give("undo", {"id": commands[0]})
    go_on()
    found = contents(owner.partition)
    assert replica_contents(tmp_path / "back", owner.log) == found
    assert max(seen) > 2 and found["removed"] == before["removed"] and found["pending"] == before["pending"]
    assert [bool(one.error) for one in owner.partition.frontier.audit()] == [False] * 4
    owner.partition.frontier.check()


def test_looks_that_fail_leave_the_next_ones_alone(owner: Owner, tmp_path: Path) -> None:
    owner.partition.commit()
    path = owner.partition.folder / "frontier"
    inspector = Inspector()

    def asked(folder: Path, name: str, **named: Any) -> Any:
        answers: list[Any] = []
        ended = Event()

        def done(result: Any, error: BaseException | None) -> None:
            answers.append(error or result)
            ended.set()

        inspector.ask(folder, name, named, done)
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
    first = Given(b"1", "adjust", {"match": "*", "set": {"queue_total_budget": 1}}, ["me", "", ""], {}, None)
    second = Given(b"2", "adjust", {"match": "*", "set": {"queue_total_budget": 2}}, ["you", "", ""], {}, [0, 2])
    for given in (first, second, first):
        owner.log.append(given)
    owner.apply()
    sent = owner.partition.take_outgoing()
    assert [(one.partition, one.body.steered.command) for one in sent if isinstance(one.body, Sent)] == [
        (1, b"1"), (2, b"1"), (3, b"1"), (2, b"2"), (1, b"1"), (2, b"1"), (3, b"1"),
    ]  # fmt: skip
    log = Log()
    with closing(Owner(tmp_path / "two", log, 2)) as two:
        for one in [*sent, *sent]:
            if one.partition == 2:
                log.append(one.body)
        two.apply()
        for each in (owner, two):
            assert [entry.who for entry in each.partition.frontier.audit()] == ["me", "you"]
            assert each.partition.state.entries() == {b"1": 1, b"2": 2}
    assert replica_contents(tmp_path / "other", owner.log) == contents(owner.partition)


def test_adjustments_stay_known_however_many_other_commands_come(owner: Owner) -> None:
    owner.log.append(
        Steered(b"a", "apply", ["adjust", {"match": "*", "set": {"queue_total_budget": 1}}, "", "", ""], {})
    )
    for number in range(COMMANDS + 1):
        owner.log.append(
            Steered(number.to_bytes(4, "big"), "apply", [("pause", "resume")[number % 2], {}, "", "", ""], {})
        )
    owner.log.append(Steered(b"w", "apply", ["withdraw", {"id": b"a"}, "", "", ""], {}))
    owner.apply()
    assert owner.partition.frontier.adjustments == []


@pytest.mark.parametrize("chosen", [{"quotas.label": {"urls": 5}}, {"quotas": {"label": {"urls": 5}}}])
def test_labels_get_no_quota(chosen: dict[str, Any]) -> None:
    found = refusal("adjust", {"match": "*", "set": chosen})
    assert isinstance(found, FrontierError) and "the URIs with a label are in all of them" in str(found)
    assert refusal("adjust", {"match": "*", "set": {"quotas.host": {"urls": 5}, "quotas.label": {}}}) is None
