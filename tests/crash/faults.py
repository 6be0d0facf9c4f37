"""Faults: SIGKILL at a commit, before a step, at a line of Python, in a system call, or after some time."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import budgetfrontier
from tests.crash.figures import Unavailable
from tests.crash.processes import Ended, Go
from tests.crash.runs import DONE, LINES, Events
from tests.support import PATIENCE

_CODE = str(Path(budgetfrontier.__file__).parent)


def die() -> None:
    """Kill this process, as the kernel or an operator would."""
    os.kill(os.getpid(), signal.SIGKILL)


class NoFault:
    """No fault until all steps are done; the base class of the others."""

    lasting = False
    fails = False
    """Whether the process may end with a named error."""

    def arm(self, events: Events) -> None:
        """Prepare the fault in the process, before it opens the frontier."""

    def inject(self, pid: int, go: Go, events: Events) -> None:
        """Cause the fault from outside; the process begins at `go`, or when this returns."""

    def accepts(self, ended: Ended) -> bool:
        """Tell whether the process may have ended so: by SIGKILL, with its work done, or with a named error."""
        return ended.signal == signal.SIGKILL or ended.answer is not None or (self.fails and ended.named)

    def clear(self) -> None:
        """Remove the fault, after the end of the process."""


@dataclass
class AtEvent(NoFault):
    """A kill at the `number`th event of a kind: a step, the beginning of a commit, or its return."""

    kind: bytes
    number: int

    def arm(self, events: Events) -> None:
        events.trap(self.kind, self.number, die)


@dataclass
class AtLine(NoFault):
    """A kill before the `number`th line of the package's code that is run; 0: the lines are only counted."""

    number: int

    def arm(self, events: Events) -> None:
        count = 0

        def line(frame: FrameType, event: str, arg: Any) -> Any:
            nonlocal count
            if event == "line":
                count += 1
                if count == self.number:
                    die()
            return line

        def call(frame: FrameType, event: str, arg: Any) -> Any:
            return line if frame.f_code.co_filename.startswith(_CODE) else None

        def done() -> None:
            sys.settrace(None)
            events.send(LINES, count)

        events.trap(DONE, 1, done)
        sys.settrace(call)


@dataclass
class AtTime(NoFault):
    """A kill from outside, `delay` seconds after the process began."""

    delay: float

    def inject(self, pid: int, go: Go, events: Events) -> None:
        go()
        time.sleep(self.delay)
        os.kill(pid, signal.SIGKILL)


STRACE = shutil.which("strace")


@dataclass
class AtCall(NoFault):
    """A fault that strace injects at the `number`th system call of a name; by default a kill."""

    call: str
    number: int | str
    what: str = "signal=KILL"

    def __post_init__(self) -> None:
        self.fails = self.what != "signal=KILL"

    def inject(self, pid: int, go: Go, events: Events) -> None:
        inject = f"inject={self.call}:{self.what}:when={self.number}"
        self._strace = traced(pid, "-o", os.devnull, "-e", f"trace={self.call}", "-e", inject)
        go()

    def clear(self) -> None:
        self._strace.communicate(timeout=PATIENCE)


def traced(pid: int, *options: str) -> subprocess.Popen[str]:
    """Return a running strace that is attached to a process, and ends with it."""
    if STRACE is None:
        raise Unavailable("strace is not installed")
    process = subprocess.Popen([STRACE, "-f", "-p", str(pid), *options], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    first = process.stderr.readline()
    if "attached" not in first:
        process.communicate()
        raise Unavailable(f"strace: {first.strip()}")
    return process
