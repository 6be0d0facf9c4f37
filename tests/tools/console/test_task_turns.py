"""The turns of commands and dry runs: what waits for which."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from budgetfrontier.tools.console import steering
from budgetfrontier.tools.console.forms import SubmittedCommand
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.query import NotNow
from budgetfrontier.tools.console.steer_process import SteerLine, SteerOrder
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


def simulation(job: ConsoleJob) -> Task:
    return Task(job, SubmittedCommand("simulate", {}, ""), "alice", dry_run=True, back="/")


def test_simulations_of_two_jobs_run_at_a_time_and_others_say_what_they_wait_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run(task: Task) -> None:
        task.step = SteerLine(done=0.25)
        await asyncio.sleep(PATIENCE)

    async def simulate() -> None:
        tasks = Tasks()
        given = [simulation(ConsoleJob(name, tmp_path, tmp_path)) for name in ("one", "two", "three", "four")]
        for one in given:
            tasks.begin(one)
        await asyncio.sleep(0)
        assert [one.begun for one in given] == [True, True, False, False]
        assert [tasks.waits(one) for one in given] == [
            "", "", "it waits for 2 simulations of one and two to end",
            "it waits for 2 simulations of one and two to end; 1 other waits before it",
        ]  # fmt: skip
        tasks.cancel(given[2], "bob")
        await given[2].ended.wait()
        tasks.cancel(given[0], "bob")
        await given[0].ended.wait()
        await asyncio.sleep(0)
        assert [(one.error, one.step.done) for one in given] == [
            ("bob has cancelled it", 0.25), ("", 0.25), ("bob has cancelled it", 0.0), ("", 0.25)
        ]  # fmt: skip
        with pytest.raises(NotNow, match="ended already"):
            tasks.cancel(given[0], "bob")
        command = Task(given[1].job, SubmittedCommand("wake", {}, "x"), "alice", dry_run=False, back="/")
        tasks.begin(command)
        with pytest.raises(NotNow, match="not left half done"):
            tasks.cancel(command, "alice")
        await tasks.end()
        assert given[1].error == "it has ended with the console" and given[1].ended.is_set()

    monkeypatch.setattr(Task, "_run", run)
    asyncio.run(simulate())


def test_a_task_that_ends_with_an_error_says_how_far_it_had_come(tmp_path: Path) -> None:
    class Killed(ConsoleJob):
        async def steer(self, order: SteerOrder) -> AsyncIterator[SteerLine]:
            yield SteerLine(done=0.5)
            yield SteerLine(done=1.0, error="its process ended with code -9")

    async def simulate() -> Task:
        tasks = Tasks()
        given = simulation(Killed("one", tmp_path, tmp_path))
        tasks.begin(given)
        await given.ended.wait()
        return given

    given = asyncio.run(simulate())
    assert (given.error, given.step.done) == ("its process ended with code -9", 0.5)
