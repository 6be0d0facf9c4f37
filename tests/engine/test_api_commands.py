"""Steering through the API: errors are raised, long commands done when the call returns, and queues looked up."""

from __future__ import annotations

from pathlib import Path

import pytest

from budgetfrontier import (
    FrontierError,
    Outcome,
    SettingsError,
)
from budgetfrontier.engine.commands import runner
from tests.support import memory, on_disk, pages, post


def test_a_command_that_is_refused_raises_and_changes_nothing() -> None:
    with memory() as f:
        f.schedule_many(pages("A", 2))
        before = f.summary()
        with pytest.raises(FrontierError, match="not a valid regular expression"):
            f.delete(pattern="(")
        with pytest.raises(SettingsError, match="at least one setting"):
            f.adjust()
        assert f.summary() == before and f.audit() == []


def test_a_command_to_a_queue_that_does_not_exist_is_none() -> None:
    with memory() as f:
        f.schedule_many(pages("A", 1))
        assert [f.retire("b.test"), f.snooze("b.test", until=1.0), f.retire("a.test")] == [False, False, True]
        assert [entry.command for entry in f.audit()] == ["retire"]


def test_a_call_ends_the_long_command_in_progress_first_unless_it_overtakes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "STEP", 2)
    with on_disk(tmp_path, hold_queues=False) as f:
        f.schedule_many(pages("AB", 4))
        f.commit()
        post(tmp_path / "frontier", "delete", pattern="/[01]$")
        f.commit()
        assert f.pause() == "PAUSED" and [entry.command for entry in f.audit()] == ["pause"]
        assert f.delete(queue="a.test") == 2  # the others are gone by then
        assert [entry.command for entry in f.audit()] == ["pause", "delete", "delete"]
        f.check()


def test_an_adjustment_says_what_it_did_or_would_do() -> None:
    with memory() as f:
        f.schedule_many(pages("A", 2))
        would = f.adjust(match="queue:a.test", queue_total_budget=0, dry_run=True)
        assert (would.dry_run, would.matched, f.audit()) == (True, 1, [])
        done = f.adjust(match="queue:a.test", queue_total_budget=0)
        assert (done.dry_run, done.id, done.after) == (False, 1, {"queue_total_budget": 0})


def test_dead_letters_are_named_by_themselves_or_their_ids() -> None:
    with memory() as f:
        f.schedule_many(pages("ABC", 1))
        while leases := f.lease(1):
            f.finish(leases[0], Outcome.DEAD)
        first, second, _ = f.dead_letters()
        assert (f.replay(first), f.drop_dead_letters([second.id]), f.replay()) == (1, 1, 1)
        assert f.summary().queued == 2
