"""The check of all files of a frontier, in a separate process, because damage may make LMDB crash.

It checks the pages first, without LMDB, then the records. The frontier may be written meanwhile.
"""

from __future__ import annotations

import errno
import os
import signal
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import lmdb
import lmdb.verify
import msgspec

from budgetfrontier import errors
from budgetfrontier.errors import CorruptFrontier, FrontierError
from budgetfrontier.storage import lock_table
from budgetfrontier.storage.damage import report
from budgetfrontier.storage.lmdb_env import check_files, is_unfinished, open_lmdb
from budgetfrontier.storage.reader import Reader

AUDITS = 20
"""Audits of a file that grows during each of them, at the most."""
_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL)
_HARMLESS = "neither reachable nor in the freeDB"  # an unused page, which `compact` leaves out


class _Message(msgspec.Struct):
    """A message of the child process: the step that begins, or the error at the end."""

    step: str
    error: str = ""
    message: str = ""
    errno: int = 0


_decode = msgspec.json.Decoder(_Message).decode


def verify(path: Path) -> None:
    """Raise CorruptFrontier with the damage found, another FrontierError or OSError if the check is impossible.

    Writes nothing. O(all records); the records of all queues are kept in memory.
    """
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        _examine(path, lambda message: os.write(write, msgspec.json.encode(message) + b"\n"))
    try:
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            messages = [_decode(line) for line in pipe]
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        raise
    finally:
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    last = messages[-1] if messages else _Message("it")
    if last.errno:
        raise OSError(last.errno, last.message, str(path))
    if last.error:
        raise getattr(errors, last.error)(last.message)
    if -code in _CRASHES:
        name = signal.Signals(-code).name
        raise CorruptFrontier(f"{path} is damaged: LMDB crashed ({name}) when it read {last.step}")
    if code:
        raise FrontierError(f"{path}: the check ended early ({code}) when it read {last.step}; run it again")


def _examine(path: Path, send: Callable[[_Message], object]) -> NoReturn:
    """Check everything, send the result, and end this process."""
    step = ""

    def begin(what: str) -> None:
        nonlocal step
        step = what
        send(_Message(step))

    try:
        _check(path, begin)
    except FrontierError as e:
        send(_Message(step, type(e).__name__, str(e)))
    except OSError as e:
        if e.errno == errno.EIO:
            send(_Message(step, CorruptFrontier.__name__, f"{path}: the disk cannot read {step} ({e})"))
        else:
            send(_Message(step, message=e.strerror or str(e), errno=e.errno or errno.EIO))
    except (lmdb.Error, struct.error, AssertionError, ArithmeticError, LookupError, TypeError, ValueError) as e:
        # Errors that reading a damaged record may cause.
        send(_Message(step, CorruptFrontier.__name__, f"{path}: {step} cannot be read ({type(e).__name__}: {e})"))
    except KeyboardInterrupt:
        os._exit(1)  # the parent has received the signal too
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)
    os._exit(0)


def _check(path: Path, begin: Callable[[str], None]) -> None:
    begin("the pages of the file")
    check_files(path)  # LMDB would write to an empty file
    check_pages(path)
    begin("the records")
    with Reader(path) as reader:
        reader.check()
    mailbox = path / "mailbox"
    begin("the pages of the mailbox")
    if not is_unfinished(mailbox / "data.mdb") and mailbox.is_dir() and check_files(mailbox):
        check_pages(mailbox)


def check_pages(path: Path) -> None:
    """Raise CorruptFrontier unless the pages of the environment at `path` are sound, by py-lmdb's own audit.

    The audit reads the file without LMDB; a snapshot is held meanwhile so that no page in use is overwritten. It reads
    the size of the file before the last commit's number: if a writer has made the file grow in between, its findings
    are no damage, and it is repeated.
    """
    data = path / "data.mdb"
    env = open_lmdb(path, readonly=True)
    try:
        with env.begin():
            for _ in range(AUDITS):
                size = data.stat().st_size
                problems = _audit(path)
                if not problems or data.stat().st_size == size:
                    break
    finally:
        lock_table.close(env)
    if problems:
        raise CorruptFrontier(report(problems))


def _audit(path: Path) -> list[str]:
    try:
        found: list[str] = lmdb.verify.verify(str(path))  # type: ignore[no-untyped-call]
    except lmdb.verify.VerifyError as e:
        return [f"{path / 'data.mdb'}: {e}"]
    return [problem for problem in found if _HARMLESS not in problem]
