"""The history of runs: the row of this run, and the ends of earlier ones. Written at opening and closing only."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from time import monotonic

from budgetfrontier.core.model import CrawlState, RunEnd, RunRow
from budgetfrontier.engine import native
from budgetfrontier.rules import run_history
from budgetfrontier.storage import keys
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.environment import Environment
from budgetfrontier.storage.last_note import decode_note, encode_note, how_copied
from budgetfrontier.storage.records import decode_run

TOUCH_EVERY = 10.0
"""Seconds between two signs of life."""


def this_program() -> str:
    """Return the name of the program that this process runs."""
    path = sys.argv[0] if sys.argv else ""
    if os.path.basename(path) == "__main__.py":  # python -m
        path = os.path.dirname(path)
    return os.path.basename(path) if path not in ("", "-", "-c", "-m") else "python"


class Runs:
    """The owner of the table `runs`."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._number = 0
        self._row = RunRow(0.0, 0, "", "")
        self._next_touch = 0.0

    def begin(self, program: str, now: float, epoch: int, *, last_commit: float, elsewhere: bool = False) -> None:
        """Begin the row of this run; end that of the run before, with `last_commit` as its last, if it has no end.

        If that may have been `elsewhere`, the lock file does not say how it ended.
        """
        latest = next(self._env.view().newest_items(keys.RUNS), None)
        if latest is not None:
            self._number, row = keys.u32.unpack(latest[0])[0], decode_run(latest[1])
            if row.end is None:
                line = b"" if elsewhere else self._env.note
                note, copied = decode_note(line), how_copied(line)
                self._put(run_history.taken_over(row, note, last_commit=last_commit, copied=copied))
        self._number += 1
        host = os.uname().nodename  # importing socket takes milliseconds
        self._row = RunRow(now, os.getpid(), host, program, kernel=native.NAME, epoch=epoch)
        self._put(self._row)
        self._remove_outdated()

    def begun(self) -> None:
        """Remove the note of an earlier run from the lock file, after the commit that has stored its end."""
        with suppress(OSError):
            self._env.leave_note(b"")

    def end(self, end: RunEnd | None, reason: str, now: float, *, leased: int, asked: bool, crawl: CrawlState) -> bool:
        """End the row of this run, or remove it, see `run_history.ended`; return whether it stays."""
        if run_history.was_refused(self._row.program, end):
            end = None
        terminated = self._terminated_by() if crawl is CrawlState.TERMINATED else ""
        row = run_history.ended(self._row, end, reason, leased=leased, now=now, asked=asked, terminated=terminated)
        if row is None:
            self._env.txn.delete(keys.u32.pack(self._number), db=self._env.db[keys.RUNS])
        else:
            self._put(row)
        return row is not None

    def _terminated_by(self) -> str:
        entry = self._env.view().last_command("terminate")
        return "terminated" if entry is None else run_history.steered_by("terminated", entry.who, entry.reason)

    def fail(self, error: BaseException, now: float, *, leased: int) -> None:
        """Leave a note of the end that an error brings, which is not committed."""
        end, reason = run_history.end_of(error)
        row = run_history.ended(self._row, end or RunEnd.EXIT, reason, leased=leased, now=now)
        with suppress(OSError):
            if row is not None:
                self._env.leave_note(encode_note(row))

    def touch(self) -> None:
        """Show that this process is at work, at most once in TOUCH_EVERY."""
        if (now := monotonic()) >= self._next_touch:
            self._next_touch = now + TOUCH_EVERY
            with suppress(OSError):
                self._env.touch()

    def _put(self, row: RunRow) -> None:
        self._env.txn.put(keys.u32.pack(self._number), encode(row), db=self._env.db[keys.RUNS])

    def _remove_outdated(self) -> None:
        cursor = self._env.txn.cursor(self._env.db[keys.RUNS])
        while cursor.set_range(keys.FIRST):
            if not run_history.is_outdated(keys.u32.unpack(cursor.key())[0], latest=self._number):
                return
            cursor.delete()
