"""A command, or its dry run, in a process of its own: `python -m budgetfrontier.tools.console.steer_process FRONTIER`.

A process cannot read and write one LMDB environment at once, so that the console, which reads, may not open a stopped
frontier to change it. The order comes on the standard input; lines of JSON go to the standard output.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from budgetfrontier.core.model import QueueRecord
from budgetfrontier.engine.remote import steer
from budgetfrontier.errors import CommandInProgress, FrontierError
from budgetfrontier.reports import dry_runs
from budgetfrontier.storage.reader import Reader
from budgetfrontier.storage.view import View

_EVERY = 10_000  # queues between two reports of progress


class SteerOrder(msgspec.Struct):
    """An order: a dry run, or the command itself. `timeout` is how long a running engine may take to answer."""

    op: str
    args: dict[str, Any]
    who: str
    reason: str
    dry_run: bool
    timeout: float = 60.0


class SteerLine(msgspec.Struct, omit_defaults=True):
    """A line of the process: the share that is done, the effect or the audit entry, or why there is none."""

    done: float = 0.0
    effect: dict[str, Any] | None = None
    entry: dict[str, Any] | None = None
    error: str = ""
    in_progress: bool = False
    """Whether the engine has begun the command, and will end it."""
    last_command: int = 0
    """The id of the newest entry of the audit that a dry run has seen."""
    seen: list[str] = []
    """The same for a crawl in partitions: the names of the newest ones."""


_decode = msgspec.json.Decoder(SteerOrder).decode


class _Counted(View):
    """A view that tells how far a pass over all queues has come."""

    def stored_queues(self) -> Iterator[QueueRecord]:
        total = self.counters().queues or 1
        for number, queue in enumerate(super().stored_queues()):
            if not number % _EVERY:
                _say(SteerLine(done=min(number / total, 1.0)))
            yield queue


def main(frontier: Path) -> None:
    """Obey the order on the standard input."""
    order = _decode(sys.stdin.buffer.read())
    try:
        if order.dry_run:
            with Reader(frontier) as reader, reader.view() as view:
                last = next((entry.id for entry in view.newest_commands()), 0)
                counted = _Counted(view.txn, view.db)
                effect = dry_runs.dry_run(counted, frontier, order.op, order.args)
                _say(SteerLine(done=1.0, effect=effect, last_command=last))
            return
        args = order.args
        if order.op in dry_runs.OF_ADJUSTMENTS:  # what is changed is found here: no engine waits for that
            with Reader(frontier) as reader, reader.view() as view:
                counted = _Counted(view.txn, view.db)
                args = args | {"survey": dry_runs.survey(counted, order.op, args)}
        entry = steer(frontier, order.op, args, who=order.who or None, reason=order.reason, timeout=order.timeout)
        _say(SteerLine(done=1.0, entry=msgspec.structs.asdict(entry)))
    except CommandInProgress as error:
        _say(SteerLine(done=1.0, error=str(error), in_progress=True))
    except (FrontierError, OSError) as error:
        _say(SteerLine(done=1.0, error=str(error)))


def _say(step: SteerLine) -> None:
    sys.stdout.write(json.dumps(msgspec.to_builtins(step), default=str) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that began this one; a command goes on
    main(Path(sys.argv[1]))
