"""A command from outside that reaches a frontier just as its engine ends."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Frontier, QueueState
from budgetfrontier.engine.commands.mailbox import Command, Mailbox
from budgetfrontier.engine.remote import steer
from budgetfrontier.engine.runs import Runs
from budgetfrontier.rules.run_history import may_crawl
from budgetfrontier.storage.lock import LOCK, WriterLock


@pytest.fixture
def ending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A frontier in use by an engine that ends when a command is posted, and has not seen it."""
    path = tmp_path / "frontier"
    with Frontier.open(path) as frontier:
        frontier.schedule_many(f"https://a.example/{n}" for n in range(1200))
    engine = WriterLock(path / LOCK)
    post_all = Mailbox.post_all

    def post_and_end(mailbox: Mailbox, commands: Iterable[Command]) -> range:
        numbers = post_all(mailbox, commands)
        engine.release()
        return numbers

    monkeypatch.setattr(Mailbox, "post_all", post_and_end)
    return path


@pytest.mark.parametrize("timeout", [0.0, 10.0, None])
def test_a_command_is_applied_though_the_engine_ended_before_it_looked(ending: Path, timeout: float | None) -> None:
    entry = steer(ending, "retire", {"queue": "a.example"}, timeout=timeout)
    assert entry.command == "retire"
    with Frontier.open(ending) as frontier:
        record = frontier.queue("a.example")
        assert record is not None
        assert record.state is QueueState.RETIRED
        assert [entry.command for entry in frontier.audit()] == ["retire"]


def test_a_process_that_applies_a_command_is_not_taken_for_a_crawl(
    ending: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = []
    begin = Runs.begin

    def noted(runs: Runs, program: str, *args: Any, **options: Any) -> None:
        programs.append(program)
        begin(runs, program, *args, **options)

    monkeypatch.setattr(Runs, "begin", noted)
    steer(ending, "retire", {"queue": "a.example"})
    steer(ending, "unretire", {"queue": "a.example"})
    assert len(programs) == 2 and not any(map(may_crawl, programs))


@pytest.mark.parametrize("args", [{"queue": "a.example"}, {"pattern": "/"}])
def test_a_long_command_is_applied_to_its_end(ending: Path, args: dict[str, Any]) -> None:
    entry = steer(ending, "delete", args)
    assert entry.effect["deleted"] == 1200
    with Frontier.open(ending) as frontier:
        assert frontier.summary().queued == 0
