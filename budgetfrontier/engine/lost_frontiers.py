"""Frontiers that were garbage-collected unclosed: their files are closed, and their locks released.

Uncommitted changes are dropped, as at a kill. The garbage collector may run in any thread, but LMDB's transaction can
only be ended in the thread that has begun it: files found by another thread wait for the next opening there.
"""

from __future__ import annotations

import os
import warnings
from threading import get_ident
from typing import NamedTuple
from weakref import finalize

from budgetfrontier.engine.commands.mailbox import Mailbox
from budgetfrontier.storage.environment import Environment


class _Files(NamedTuple):
    env: Environment
    mailbox: Mailbox | None
    thread: int
    pid: int


_waiting: list[_Files] = []


def close_files(env: Environment, mailbox: Mailbox | None) -> None:
    """Close the files of a frontier without a commit."""
    try:
        env.close()
    finally:
        if mailbox is not None:
            mailbox.close()


def watch(frontier: object, env: Environment, mailbox: Mailbox | None) -> finalize[[_Files], object]:
    """Close the files of a frontier once it is garbage-collected, unless the returned finalizer was detached before."""
    watching = finalize(frontier, _lose, _Files(env, mailbox, get_ident(), os.getpid()))
    watching.atexit = False  # the locks end with the process
    return watching


def close_waiting() -> None:
    """Close the files of this thread's lost frontiers that another thread has found."""
    for files in list(_waiting):
        if files.thread == get_ident():
            _waiting.remove(files)
            if files.pid == os.getpid():
                close_files(files.env, files.mailbox)


def _lose(files: _Files) -> None:
    if files.pid != os.getpid():
        return  # in a forked child, which has nothing to close
    if files.thread == get_ident():
        close_files(files.env, files.mailbox)
    else:
        _waiting.append(files)
    warnings.warn(
        f"the frontier {files.env.path} was lost without `close`: what was not committed is dropped. Use `with "
        "Frontier.open(...)`",
        ResourceWarning,
        stacklevel=2,
    )
