"""Commands of operators in the logs of partitions: replicas apply them alike, and audit who gave them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from budgetfrontier.cluster.entries import Steered
from budgetfrontier.cluster.inspector import Inspector
from budgetfrontier.cluster.partition import Partition
from budgetfrontier.errors import FrontierError, NotAFrontier, SettingsError
from tests.cluster.log import CRAWL, PARTITIONS, Log, Owner, contents
from tests.cluster.test_partition import OWN
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
    give(b"1", "adjust", {"match": "*", "set": {"queue_total_budget": 0}})
    give(b"2", "withdraw", {"id": b"1"})
    give(b"1", "adjust", {"match": "*", "set": {"queue_total_budget": 0}})  # a repetition
    give(b"3", "withdraw", {"id": b"nothing"})
    give(b"4", "withdraw", {})
    give(b"5", "delete", {"queue": "*"})  # which takes several steps
    give(b"6", "pause", {"reason": "why"})
    owner.apply()
    entries = owner.partition.frontier.audit()
    assert [(one.command, bool(one.error)) for one in entries] == [
        ("adjust", False), ("withdraw", False), ("withdraw", True), ("pause", False),
    ]  # fmt: skip
    assert {(one.who, one.reason, one.line) for one in entries} == {("me", "why", "the line")}
    commands = owner.partition.state.commands
    assert commands == {b"1": 1, b"2": 2, b"3": 3, b"4": None, b"5": None, b"6": 4}
    replica = Partition(tmp_path / "other", CRAWL, 0, PARTITIONS)
    replica.apply(owner.log.entries)
    assert contents(replica) == contents(owner.partition)
    assert replica.state.commands == commands
    replica.close()


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
    order = {"match": "*", "set": {"nonsense": 1}}
    assert isinstance(asked(path, "preview", order=order), SettingsError)
    assert inspector._process is not None
    inspector._process.kill()
    assert "try again" in str(asked(path, "head"))
    assert isinstance(asked(path, "head"), bytes)
    inspector.close()
    assert isinstance(asked(path, "head"), FrontierError)
