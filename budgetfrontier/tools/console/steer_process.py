"""A command, or its dry run, in a process of its own: `python -m budgetfrontier.tools.console.steer_process FRONTIER`.

A process cannot read and write one LMDB environment at once, so that the console, which reads, may not open a stopped
frontier to change it. The order comes on the standard input; lines of JSON go to the standard output.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from budgetfrontier.engine.remote import whoami
from budgetfrontier.errors import CommandInProgress, FrontierError
from budgetfrontier.reports.audit_inverses import discard_each, kept_rows
from budgetfrontier.reports.operators import (
    Applied,
    CrawlOperator,
    OperatorCommand,
    refuse_if_terminated,
    unknown_queues,
)
from budgetfrontier.reports.simulation_results import doubts
from budgetfrontier.rules.crawl_states import NOTHING_MORE
from budgetfrontier.rules.simulation import Simulated, SimulationRequest, Step
from budgetfrontier.settings import Settings
from budgetfrontier.settings.values import read_duration
from budgetfrontier.storage.records import AuditEntry
from budgetfrontier.tools.job_operator import JobOperator
from budgetfrontier.tools.simulation.partitions_simulation import simulate_partitions

SIMULATE = "simulate"
"""The order of a simulation, which is no command: it changes nothing."""
FINISH = "finish"
"""The end of a simulation `until` the crawl ends by itself."""


class SteerOrder(msgspec.Struct):
    """An order: a dry run, or the command itself. `timeout` is how long a running engine may take to answer."""

    op: str
    args: dict[str, Any]
    who: str
    reason: str
    dry_run: bool
    timeout: float = 60.0
    workers: dict[str, Any] | None = None
    """The settings of the workers of a crawl in partitions, which is simulated from its snapshots, and not FRONTIER."""


class SteerLine(msgspec.Struct, omit_defaults=True):
    """A line of the process: the share that is done, the effect or the audit entry, or why there is none."""

    done: float = 0.0
    effect: dict[str, Any] | None = None
    entry: dict[str, Any] | None = None
    error: str = ""
    in_progress: bool = False
    """Whether the engine has begun the command, and will end it."""
    number: int = 0
    """The number of a command in progress in the mailbox of the frontier."""
    name: str = ""
    """The name of a command that some partitions of a crawl have not applied yet, by which its end is found."""
    asked: list[int] = []
    """The partitions that it is for."""
    note: str = ""
    """A sentence on names in the command that name nothing."""
    last_command: int = 0
    """The id of the newest entry of the audit that a dry run has seen."""
    seen: list[str] = []
    """The same for a crawl in partitions: the names of the newest ones."""


_decode = msgspec.json.Decoder(SteerOrder).decode


def main(frontier: Path) -> None:
    """Carry out the order on the standard input."""
    order = _decode(sys.stdin.buffer.read())
    simulates, workers = order.op == SIMULATE, order.workers
    operator = JobOperator(frontier, frontier, timeout=order.timeout, progress=None if simulates else _say_done)
    try:
        if simulates:
            of_workers = workers and partial(simulate_partitions, Settings.from_dict(workers))
            _say(SteerLine(done=1.0, effect=_simulated(of_workers or operator.simulate, order.args)))
            return
        refuse_if_terminated(operator, order.op)
        if order.op == "discard" and "ids" in order.args:
            _say(discarded(operator, order))
            return
        if order.op in ("replay", "drop") and order.args["ids"] is not None:
            operator.check_letters(order.args["ids"])
        if order.dry_run:
            last = next((row.entry.id for row in operator.audit().rows), 0)
            effect = operator.dry_run(order.op, order.args)
            note = unknown_queues(operator, order.args.get("match"))
            _say(SteerLine(done=1.0, effect=effect, note=note, last_command=last))
            return
        over = nothing_more(operator)
        applied = operator.apply(OperatorCommand(order.op, order.args, order.who or whoami(), order.reason))
        assert applied.entry is not None
        note = over or unknown_queues(operator, order.args.get("match"))
        _say(of_entry(applied.entry, note))
    except CommandInProgress as error:
        _say(SteerLine(error=str(error), in_progress=True, number=error.number))
    except (FrontierError, OSError) as error:
        _say(SteerLine(error=str(error)))


def of_entry(entry: AuditEntry, note: str = "") -> SteerLine:
    """Return the line on a command that was applied, with its audit entry."""
    return SteerLine(done=1.0, entry=msgspec.structs.asdict(entry), note=note)


def discarded(operator: CrawlOperator, order: SteerOrder) -> SteerLine:
    """Discard what the entries in an order have kept, or in a dry run tell how much that is. Raises FrontierError."""
    ids = order.args["ids"]
    if ids is None:
        age = order.args.get("older_than")
        ids = [row.id for row in kept_rows(operator, time.time() - (read_duration(age) if age else 0.0))[0]]

    def give(args: dict[str, Any]) -> Applied:
        return operator.apply(OperatorCommand("discard", args, order.who or whoami(), order.reason))

    over = nothing_more(operator)
    effect, left = discard_each(operator, ids, None if order.dry_run else give)
    return SteerLine(error=left, in_progress=True) if left else SteerLine(done=1.0, effect=effect, note=over)


def nothing_more(operator: CrawlOperator) -> str:
    """Return the sentence that a command lets nothing be fetched in a crawl that was terminated; "" if it was not."""
    return NOTHING_MORE if operator.is_terminated() else ""


def _simulated(simulate: Callable[..., list[Simulated]], args: dict[str, Any]) -> dict[str, Any]:
    """Return the results of a simulation, and sentences about them. SIGTERM ends it, and its copies are removed."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    change = [(args["match"], args["set"])] if "set" in args else []
    asked = SimulationRequest(
        changes=change,
        seconds=None if args["until"] == FINISH else read_duration(args["until"]),
        fetchers=args["fetchers"],
        most=args["max_fetches"],
        seed=args["seed"],
        draws=args["draws"],
    )
    notes: list[str] = []

    def say_steps(done: Sequence[Step]) -> None:
        _say_done(min(step.share for step in done))

    found = simulate(asked, say=notes.append, steps=say_steps)
    named = zip(("today", "proposed"), found, strict=False)
    return {name: one.plain() for name, one in named} | {"doubts": doubts(found), "notes": notes}


def _say_done(share: float) -> None:
    _say(SteerLine(done=share))


def _say(step: SteerLine) -> None:
    sys.stdout.write(json.dumps(msgspec.to_builtins(step), default=str) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that began this one; a command goes on
    main(Path(sys.argv[1]))
