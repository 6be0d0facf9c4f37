"""Commands from other processes: one call for frontiers that are open in an engine and for those that are not."""

from __future__ import annotations

import getpass
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from budgetfrontier.core.effect_words import command_in_words
from budgetfrontier.engine import audit
from budgetfrontier.engine.commands.mailbox import Command, Mailbox
from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.errors import CommandInProgress, FrontierError, FrontierLocked, NotAFrontier
from budgetfrontier.storage import meta
from budgetfrontier.storage.lmdb_env import check_files
from budgetfrontier.storage.lock import lock_holder
from budgetfrontier.storage.reader import Reader
from budgetfrontier.storage.records import AuditEntry, Progress, StartedCommand

_LOOK = 10.0  # seconds between two checks whether an engine is still running


def whoami() -> str:
    """Return the user's login name, for the audit."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def refuse_a_copy(reader: Reader) -> None:
    """Raise FrontierError for a copy of a partition, to which nobody may give a command but its log."""
    if reader.row(meta.PLACE) is not None:
        raise FrontierError(f"{reader.path} {meta.IS_COPY}")


def steer(
    path: str | Path,
    op: str,
    args: dict[str, Any],
    *,
    who: str | None = None,
    reason: str = "",
    timeout: float | None = 10.0,
    line: str = "",
) -> AuditEntry:
    """Apply a command to the frontier at `path`, running or not; return its audit entry. `line`: the command line.

    With an engine running, the command goes through its mailbox, and this waits up to `timeout` seconds for the answer
    (None: as long as an engine runs). Otherwise, or if it ends without an answer, the frontier is opened here for a
    moment, keeping its leases. Raises FrontierError for a command that is refused, or that was left in the mailbox
    unanswered; StorageFull if the disk is full; and CommandInProgress if it takes longer, or waits for another one.
    """
    [entry] = steer_all(path, [Command(op, args, who or whoami(), reason, line)], timeout=timeout)
    return audit.check(entry)


def steer_all(path: str | Path, commands: Sequence[Command], *, timeout: float | None = 10.0) -> list[AuditEntry]:
    """Apply commands in order, as `steer` does, but all at once; return their audit entries.

    The entry of one that is refused has an `error`; those after it are applied nevertheless. The engine applies those
    that need no further step in one look into its mailbox, so that all of them hold it up: give some dozens at a time.
    """
    path = Path(path)
    if not check_files(path):
        raise NotAFrontier(f"there is no frontier at {path}; name the folder of a job")
    if lock_holder(path) is None:
        program = f"budgetfrontier {commands[0].op}"
        try:
            with Frontier.open(path, keep_leases=True, program=program, disks=None) as frontier:
                return [frontier.internals.apply(command) for command in commands]
        except FrontierLocked:
            pass  # an engine has just started: it has a mailbox
    with Reader(path) as reader, reader.view() as view:
        refuse_a_copy(reader)
        last = view.counters().last_command
    mailbox = Mailbox(path)
    try:
        mailbox.begin_after(last)  # it may be new, after somebody has removed the last one
        numbers = mailbox.post_all(commands)
    finally:
        mailbox.close()
    return [_wait(path, number, timeout) for number in numbers]


def _wait(path: Path, number: int, timeout: float | None) -> AuditEntry:
    """Return the running engine's answer to a command in the mailbox; if it ends without one, apply it here."""
    deadline = time.monotonic() + (_LOOK if timeout is None else timeout)
    while True:
        entry = _poll(path, number, deadline) or _apply_here(path, number)
        if entry is not None:
            return entry
        if time.monotonic() >= deadline:
            if timeout is not None or lock_holder(path) is None:
                break
            deadline += _LOOK
    with Reader(path) as reader:
        found = reader.in_progress()
    if found is not None and lock_holder(path) is not None:
        error = CommandInProgress(_in_progress(number, *found))
        error.number = number
        raise error
    timeout = _LOOK if timeout is None else timeout
    raise FrontierError(
        f"the running engine (process {lock_holder(path) or '?'}) did not answer within {timeout:g} s; the command is "
        "in its mailbox and will be applied when it next looks there, or when the frontier is next opened"
    )


def _poll(path: Path, number: int, deadline: float) -> AuditEntry | None:
    """Return the answer to a command; None at the deadline, or if no process that could give it is running."""
    with Reader(path) as reader:
        while True:
            runs = lock_holder(path) is not None  # checked before the answer is read
            entry = reader.answer(number)
            if entry is not None or not runs or time.monotonic() >= deadline:
                return entry
            time.sleep(0.02)


def _apply_here(path: Path, number: int) -> AuditEntry | None:
    """Apply the commands in the mailbox up to a number if no engine is running; return None if one is."""
    if lock_holder(path) is not None:
        return None
    try:
        program = "budgetfrontier (a command that was left)"
        opened = Frontier.open(path, keep_leases=True, program=program, disks=None)
        with opened as frontier, Reader(path) as reader:  # opening applies it
            while (entry := reader.answer(number)) is None and reader.in_progress() is not None:
                frontier.commit()  # applies the next step of a long one
            return entry
    except FrontierLocked:
        return None


def describe_progress(begun: StartedCommand, progress: Progress) -> str:
    """Describe a command in progress and its effect so far."""
    done = ", ".join(f"{name} {count:,}" for name, count in progress.effect.items() if isinstance(count, int))
    return f"{command_in_words(begun.op)} by {begun.who} is in progress ({done})"


def _in_progress(number: int, begun: StartedCommand, progress: Progress) -> str:
    later = "`budgetfrontier audit JOB` lists it once it is done"
    if begun.number == number:
        return f"{describe_progress(begun, progress)}; {later}"
    return f"{describe_progress(begun, progress)}, and your command comes after it; {later}"
