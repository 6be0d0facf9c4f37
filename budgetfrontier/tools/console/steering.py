"""Steering: a dry run, then the command, each carried out by its job while a page follows it."""

from __future__ import annotations

import asyncio
import json
import secrets
from typing import Any

import msgspec
from msgspec.structs import replace

from budgetfrontier.core.converters import converter
from budgetfrontier.core.effect_words import command_in_words
from budgetfrontier.core.units import counted
from budgetfrontier.engine.commands.adjustment import is_foreseen, promise
from budgetfrontier.engine.commands.undo_checks import FORCE
from budgetfrontier.reports import simulation_results
from budgetfrontier.rules.crawl_states import disk_sentence
from budgetfrontier.rules.simulation import Simulated
from budgetfrontier.tools.console.forms import SubmittedCommand
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.query import NotNow, NotThere
from budgetfrontier.tools.console.rendering import as_sentence
from budgetfrontier.tools.console.steer_process import SIMULATE, SteerLine, SteerOrder

AT_ONCE = 2
"""Dry runs of all jobs, simulations of all jobs, and commands of one job, that run at a time; others wait."""
WAITING_TASKS = 10
"""Commands and dry runs of a job that have not ended; more are refused."""
GIVEN_WITHIN = 60.0
"""Seconds that a command waits for its turn: nobody expects it to be applied long after that."""
ONE_AT_A_TIME = "A simulation of this job has not ended, and a job has one at a time: cancel it, or wait for its end."
_NOT_GIVEN = (
    "it was not given, and nothing was changed: commands before it still wait for the crawl's answer; see whether the "
    "crawl hangs, and give it again"
)
_KEPT = 100  # tasks whose results can be looked at
_as_simulated = converter(Simulated)


class Task:
    """A dry run or a command that was given, and its result."""

    def __init__(
        self, job: ConsoleJob, asked: SubmittedCommand, who: str, *, dry_run: bool, back: str, shown: Task | None = None
    ) -> None:
        self.id = secrets.token_urlsafe(12)
        self.job = job
        self.asked = asked
        self.who = who
        self.dry_run = dry_run
        self.back = back
        self.step = SteerLine()
        self.begun = False
        self.ended = asyncio.Event()
        self.cancelled_by = ""
        self.promised = shown.promise() if shown else {}
        """The argument by which the audit keeps what the dry run that this applies has shown."""
        self.applied = ""
        """The id of the task that has applied what this dry run shows."""

    @property
    def error(self) -> str:
        """Why there is no result, "" if there is one or will be."""
        return self.step.error

    def promise(self) -> dict[str, Any]:
        """Return the argument that keeps in the audit what this dry run of a change of the adjustments has shown."""
        effect = self.step.effect
        return {"promised": promise(effect)} if effect is not None and is_foreseen(effect) else {}

    @property
    def has_shown(self) -> bool:
        """Whether this is a dry run of a command that has ended with an effect."""
        return self.asked.op != SIMULATE and self.dry_run and self.ended.is_set() and self.step.effect is not None

    async def run(self, places: asyncio.Semaphore) -> None:
        """Carry the task out as soon as there is a place for it."""
        try:
            try:
                async with asyncio.timeout(None if self.dry_run else GIVEN_WITHIN):
                    await places.acquire()
            except TimeoutError:
                self.step = SteerLine(error=_NOT_GIVEN)
                return
            self.begun = True
            try:
                await self._run()
            finally:
                places.release()
        except asyncio.CancelledError:
            why = f"{self.cancelled_by} has cancelled it" if self.cancelled_by else "it has ended with the console"
            self.step = SteerLine(done=self.step.done, error=why)
            raise
        except Exception as error:
            self.step = SteerLine(done=self.step.done, error=f"it could not be done: {error}")
            raise
        finally:
            self.ended.set()

    def look_again(self) -> None:
        """Take what came of a command that its crawl had not ended when it was waited for. Any thread may call it."""
        if self.ended.is_set() and self.step.in_progress:
            self.step = self.job.outcome(self.step)

    async def _run(self) -> None:
        asked = self.asked
        order = SteerOrder(asked.op, asked.args | self.promised, self.who, asked.reason, self.dry_run)
        async for step in self.job.steer(order):
            self.step = replace(step, done=self.step.done) if step.error else step


class Tasks:
    """The tasks of a console."""

    def __init__(self) -> None:
        self._dry_runs = asyncio.Semaphore(AT_ONCE)
        self._simulations = asyncio.Semaphore(AT_ONCE)
        # One for each crawl: a crawl that hangs keeps only its own commands from their turns.
        self._commands: dict[ConsoleJob, asyncio.Semaphore] = {}
        self._tasks: dict[str, Task] = {}
        self._running: dict[asyncio.Task[None], Task] = {}

    def begin(self, task: Task) -> None:
        """Begin a task."""
        while len(self._tasks) >= _KEPT:
            oldest = next((one.id for one in self._tasks.values() if one.ended.is_set()), next(iter(self._tasks)))
            del self._tasks[oldest]
        self._tasks[task.id] = task
        running = asyncio.create_task(task.run(self._places(task)))
        self._running[running] = task
        running.add_done_callback(self._ended)

    def _places(self, task: Task) -> asyncio.Semaphore:
        if task.asked.op == SIMULATE:
            return self._simulations
        return self._dry_runs if task.dry_run else self._commands.setdefault(task.job, asyncio.Semaphore(AT_ONCE))

    def waits(self, task: Task) -> str:
        """Return a sentence on what a task waits for before it begins; "" if it has begun. Any thread may ask."""
        if task.begun or task.ended.is_set():
            return ""
        places = self._places(task)
        same = [one for one in [*self._running.values()] if self._places(one) is places and not one.ended.is_set()]
        before = sum(not one.begun for one in same[: same.index(task)]) if task in same else 0
        running = [one for one in same if one.begun and one is not task]  # it may begin meanwhile
        what = "simulation" if task.asked.op == SIMULATE else "dry run" if task.dry_run else "command"
        of_jobs = sorted({one.job.slug for one in running})
        queue = f"; {counted(before, 'other')} {'waits' if before == 1 else 'wait'} before it" if before else ""
        return f"it waits for {counted(len(running), what)} of {' and '.join(of_jobs)} to end{queue}" if running else ""

    def cancel(self, task: Task, who: str) -> None:
        """End a simulation that waits or runs, for somebody. Raises NotNow for one that has ended, and for commands."""
        running = next((running for running, one in self._running.items() if one is task), None)
        if task.asked.op != SIMULATE:
            raise NotNow("Only a simulation can be cancelled: a dry run ends soon, a command is not left half done.")
        if running is None or task.ended.is_set():
            raise NotNow("This simulation has ended already.")
        task.cancelled_by = who
        running.cancel()

    def simulation(self, job: ConsoleJob) -> Task | None:
        """Return the simulation of a job that has not ended, if there is one. Any thread may ask."""
        return next((one for one in [*self._running.values()] if one.job is job and one.asked.op == SIMULATE), None)

    def running_simulation(self, job: ConsoleJob, asked: SubmittedCommand) -> Task | None:
        """Return the simulation of a job that has not ended, if another one is asked for."""
        return self.simulation(job) if asked.op == SIMULATE else None

    def _ended(self, running: asyncio.Task[None]) -> None:
        task = self._running.pop(running)
        task.ended.set()
        if not task.dry_run:
            task.job.answers.clear()  # they are of what was before
        if not running.cancelled():
            running.exception()  # the task has it as its error

    def find(self, number: str, job: ConsoleJob | None = None) -> Task:
        """Return a task, of a job if that is given. Raises NotThere."""
        task = self._tasks.get(number)
        if task is None or (job is not None and task.job.slug != job.slug):
            raise NotThere("There is no such command any more; the audit has what was applied.")
        return task

    def own(self, number: str, who: str) -> Task:
        """Return a task of somebody. Raises NotThere."""
        task = self.find(number)
        if task.who != who:
            raise NotThere("Somebody else has given this command; once it is applied, the audit has it.")
        return task

    def shown(self, number: str, who: str) -> Task:
        """Return a dry run of somebody that has ended with an effect. Raises NotThere."""
        task = self.own(number, who)
        if not task.has_shown:
            raise NotThere("This dry run has shown nothing that could be applied.")
        return task

    def waiting(self, job: ConsoleJob) -> int:
        """Return the number of tasks of a job that have not ended."""
        return sum(one.job is job for one in self._running.values())

    async def end(self) -> None:
        """End all dry runs, and wait for commands."""
        for running in self._running:
            running.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)


def told_effect(step: SteerLine) -> dict[str, Any]:
    """Return the effect that a command has had, or by a dry run would have; {} before it has ended."""
    effect: dict[str, Any] = (step.entry or {}).get("effect") or step.effect or {}
    return effect


def missing_from(step: SteerLine) -> str:
    """Return the sentence on the partitions that an effect is without; "" if it is that of the whole crawl."""
    numbers = told_effect(step).get("missing_partitions")
    if not numbers:
        return ""
    named, verb, there = ("partition", "does", "it") if numbers.isdecimal() else ("partitions", "do", "them")
    return f"without {named} {numbers}, which {verb} not answer: what is given counts in {there} once an owner reads it"


def as_json(task: Task, waits: str) -> dict[str, Any]:
    """Return a task for a script: its command, what it waits for, and its result once it has ended."""
    asked = {"op": task.asked.op, "args": task.asked.args, "reason": task.asked.reason, "dry_run": task.dry_run}
    answer: dict[str, Any] = json.loads(json.dumps(asked | msgspec.to_builtins(task.step), default=str))
    return answer | {"done": task.step.done, "ended": task.ended.is_set(), "waits": waits}


def context(task: Task, waits: str) -> dict[str, Any]:
    """Return the values of the page of a task."""
    return {
        "task": task,
        "title": f"{command_in_words(task.asked.op)}: {'dry run' if task.dry_run else 'result'}",
        "step": task.step,
        "asked": task.asked,
        "arguments": _asked(task),
        "running": not task.ended.is_set(),
        "waits": as_sentence(waits),
        "can_overrule": task.asked.op == "undo" and task.step.error.endswith(FORCE),
        "follows": as_sentence(disk_sentence(told_effect(task.step))),
        "missing": as_sentence(missing_from(task.step)),
        "entry": task.step.entry,
        "effect": task.step.effect,
    } | _of_simulation(task)


def _asked(task: Task) -> dict[str, Any]:
    """Return the arguments of a command, those of a simulation in the words of its form."""
    args = dict(task.asked.args)
    if args.get("ids", ()) is None:
        args["ids"] = "all"
    if task.asked.op == SIMULATE:
        args |= {"fetchers": args["fetchers"] or "as set", "max_fetches": f"{args['max_fetches']:,}"}
    return args


def _of_simulation(task: Task) -> dict[str, Any]:
    """Return the results of a simulation as a table, what they leave open, and its settings as lines of a form."""
    effect = task.step.effect if task.asked.op == SIMULATE else None
    found = [_as_simulated(effect[name]) for name in ("today", "proposed") if name in effect] if effect else []
    return {
        "simulates": task.asked.op == SIMULATE,
        "table": simulation_results.table(found) if found else [],
        "doubts": effect["doubts"] if effect else [],
        "notes": [*map(as_sentence, effect["notes"])] if effect else [],
        "set_lines": [f"{name}={json.dumps(value)}" for name, value in task.asked.args.get("set", {}).items()],
    }
