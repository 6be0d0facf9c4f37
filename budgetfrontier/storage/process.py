"""The process that runs a frontier, and the history of those before it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from math import inf
from pathlib import Path

from budgetfrontier.core.model import Process, Run, RunEnd, RunRow
from budgetfrontier.rules import run_history
from budgetfrontier.storage import keys
from budgetfrontier.storage.last_note import decode_note, how_copied
from budgetfrontier.storage.lock import LOCK, lock_holder, own_pid, read_note, server_of
from budgetfrontier.storage.records import decode_run
from budgetfrontier.storage.view import View


def process(view: View, path: Path) -> Process:
    """Return the process that has the frontier at `path` open, and how the last one stopped. O(1)."""
    holder = lock_holder(path)
    last_commit = view.counters().time or None
    found = Process(alive=holder is not None, pid=holder, last_commit=last_commit)
    if holder is not None:
        found.last_call = _last_use(path)
        if found.last_call is not None and last_commit is not None and last_commit <= view.now():
            found.last_call = max(found.last_call, last_commit)
        found.suspended = bool(holder) and _is_suspended(holder)
    else:
        found.server = server_of(path)
    latest = next(runs(view, path, holder=holder), None)
    if latest is not None and latest.end is None:
        found.host, found.program, found.began = latest.host, latest.program, latest.began
    found.last_stop = run_history.last_stop(runs(view, path, holder=holder))
    return found


def seen_alive(row: RunRow, path: Path) -> float:
    """Return when the process of a run was last seen at work, ten seconds late at the most; 0.0 if it is gone.

    A worker does not use a partition to which no entry comes: as long as it has it open, it is at work.
    """
    if row.end is not None or not _may_go_on(row, path, lock_holder(path)):
        return 0.0
    return inf if row.program == run_history.WORKER else _last_use(path) or 0.0


def _last_use(path: Path) -> float | None:
    """Return when the holder of the lock last touched it."""
    with suppress(OSError):
        return os.stat(path / LOCK).st_mtime
    return None


def _is_suspended(pid: int) -> bool:
    """Return whether a process was stopped by a signal; False where there is no /proc."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return status.rpartition(")")[2].split()[:1] == ["T"]


def runs(view: View, path: Path, *, holder: int | None) -> Iterator[Run]:
    """Yield the runs, newest first; `holder` is the pid of the process that has the frontier open now, if any.

    The end of a run that was not stored is as the next opening will store it.
    """
    for key, value in view.newest_items(keys.RUNS):
        row = decode_run(value)
        if row.end is None and not _may_go_on(row, path, holder):
            line, last_commit = read_note(path), view.counters().time
            row = run_history.taken_over(row, decode_note(line), last_commit=last_commit, copied=how_copied(line))
        yield _public(keys.u32.unpack(key)[0], row)


def _may_go_on(row: RunRow, path: Path, holder: int | None) -> bool:
    """Return whether a run without an end may be that of the process that has the lock.

    The pids in the row and in the lock file are those in the process's own container.
    """
    return holder is not None and (holder in (0, row.pid) or own_pid(path) in (0, row.pid))


def _public(number: int, row: RunRow) -> Run:
    return Run(
        number=number,
        program=row.program,
        pid=row.pid,
        host=row.host,
        began=row.began,
        ended=None if row.end is None else row.ended,
        end=row.end,
        reason=row.reason,
        leased=None if row.end in (None, RunEnd.KILLED) else row.leased,
        kernel=row.kernel,
    )
