"""Work in child processes that may die, hang or be killed while the parent watches."""

from __future__ import annotations

import os
import pickle
import select
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from io import FileIO
from typing import Any, NamedTuple, NoReturn

from tests.support import PATIENCE


class Ended(NamedTuple):
    """How a process ended: with an answer, with an exception, by a signal, or not at all (`hung`)."""

    answer: Any = None
    error: str = ""
    """The name of the exception's class."""
    message: str = ""
    named: bool = False
    """The error was one that users are told of: a FrontierError, or a PermissionError that says what to check."""
    signal: int = 0
    hung: bool = False

    def __str__(self) -> str:
        if self.hung:
            return "it hung"
        if self.signal:
            return f"it died of {signal.Signals(self.signal).name}"
        return f"{self.error}: {self.message}" if self.error else "it ended well"


def ended_by(error: BaseException) -> Ended:
    """An exception as the end of a process."""
    from budgetfrontier.errors import FrontierError

    named = isinstance(error, FrontierError) or (isinstance(error, PermissionError) and "check" in str(error))
    message = str(error) if named else "".join(traceback.format_exception(error))
    return Ended(error=type(error).__name__, message=message, named=named)


Go = Callable[[], None]


class Child:
    """Work in a forked process, which begins when it is told to `go`."""

    def __init__(self, work: Callable[[], object]) -> None:
        read, write = os.pipe()
        gate, self._gate = os.pipe()
        self._read = read
        self.pid = os.fork()
        if self.pid == 0:
            os.close(read)
            os.close(self._gate)
            _do(work, gate, write)
        os.close(write)
        os.close(gate)

    def go(self) -> None:
        """Let it begin. A second time does nothing."""
        fd, self._gate = self._gate, -1
        if fd >= 0:
            os.write(fd, b"!")
            os.close(fd)

    def ended(self) -> Ended:
        """Wait for its end."""
        self.go()
        deadline = time.monotonic() + PATIENCE
        told = bytearray()
        hung = False
        with open(self._read, "rb", buffering=0) as pipe:
            while not hung and (part := self._part(pipe, deadline)) != b"":
                hung = part is None
                told += part or b""
        if hung:
            os.kill(self.pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        if hung or code < 0:
            return Ended(hung=True) if hung else Ended(signal=-code)
        ended = pickle.loads(told)
        assert isinstance(ended, Ended)
        return ended

    @staticmethod
    def _part(pipe: FileIO, deadline: float) -> bytes | None:
        """What it says next: nothing at its end, None if it says nothing for too long."""
        if select.select([pipe], [], [], max(deadline - time.monotonic(), 0.0))[0]:
            return pipe.read(1 << 16)
        return None


def _do(work: Callable[[], object], gate: int, write: int) -> NoReturn:
    """What a child does."""
    ended = Ended()
    try:
        os.read(gate, 1)
        ended = Ended(answer=work())
    except BaseException as e:
        ended = ended_by(e)
    finally:
        with open(write, "wb", buffering=0) as pipe:
            pipe.write(pickle.dumps(ended))
        os._exit(0)  # a child must never come back into what its parent does


def in_child(work: Callable[[], object], *, meanwhile: Callable[[int, Go], None] = lambda pid, go: None) -> Ended:
    """Do `work` in a forked process. `meanwhile` is called here with its pid; it begins at `go`, or afterwards."""
    child = Child(work)
    try:
        meanwhile(child.pid, child.go)
    except BaseException:
        os.kill(child.pid, signal.SIGKILL)
        child.ended()
        raise
    return child.ended()


def together(works: Sequence[Callable[[], object]]) -> list[Ended]:
    """Do all of these at once, each in a process of its own."""
    children = [Child(work) for work in works]
    for child in children:
        child.go()
    return [child.ended() for child in children]
