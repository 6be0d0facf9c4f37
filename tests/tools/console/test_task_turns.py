"""The turns of commands and dry runs: what waits for which."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from budgetfrontier.tools.console import steering
from budgetfrontier.tools.console.forms import SubmittedCommand
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.steering import Task, Tasks
from tests.support import PATIENCE


def test_a_job_that_hangs_keeps_no_other_from_being_steered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hung, other = ConsoleJob("hung", tmp_path, tmp_path), ConsoleJob("other", tmp_path, tmp_path)
    given = []

    async def run(task: Task) -> None:
        given.append(task)
        if task.job is hung and not task.dry_run:
            await asyncio.sleep(PATIENCE)

    def task(job: ConsoleJob, *, dry_run: bool = False) -> Task:
        return Task(job, SubmittedCommand("wake", {}, "because"), "alice", dry_run=dry_run, back="/")

    async def steer() -> None:
        tasks = Tasks()
        waiting = [task(hung) for _ in range(steering.AT_ONCE + 1)]
        for one in waiting:
            tasks.begin(one)
        for one in (task(other), task(other, dry_run=True), task(hung, dry_run=True)):
            tasks.begin(one)
            await asyncio.wait_for(one.ended.wait(), PATIENCE)
            assert one in given
        await asyncio.wait_for(waiting[-1].ended.wait(), PATIENCE)
        assert "was not given" in waiting[-1].error and waiting[-1] not in given
        assert tasks.waiting(hung) <= steering.AT_ONCE + 1 and not tasks.waiting(other)
        await tasks.end()

    monkeypatch.setattr(Task, "_run", run)
    monkeypatch.setattr(steering, "GIVEN_WITHIN", 0.1)
    asyncio.run(steer())
