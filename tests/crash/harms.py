"""SIGKILL at a chosen point: at a commit, before a step, at a line of Python, in a system call, or after some time."""

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
from tests.crash.lives import DONE, LINES, Events
from tests.crash.processes import Ended, Go
from tests.support import PATIENCE

_CODE = str(Path(budgetfrontier.__file__).parent)


def die() -> None:
    """End this process as the kernel, a power cut or an operator would."""
    os.kill(os.getpid(), signal.SIGKILL)


class Harmless:
    """No harm until all steps are done; what others are made from."""

    lasting = False
    fails = False
    """The process may see an error, and end with that."""

    def arm(self, events: Events) -> None:
        """In the process, before it opens the frontier."""

    def strike(self, pid: int, go: Go) -> None:
        """Outside; the process begins at `go`, or when this returns."""

    def accepts(self, ended: Ended) -> bool:
        """Whether the process may have ended so: by SIGKILL or by its work, or with an error that has a name."""
        return ended.signal == signal.SIGKILL or ended.answer is not None or (self.fails and ended.named)

    def mend(self) -> None:
        """Outside, after its end."""


@dataclass
class AtEvent(Harmless):
    """The process is killed at the `number`th event of a kind: a step, a commit that begins, one that has returned."""

    kind: bytes
    number: int

    def arm(self, events: Events) -> None:
        events.trap(self.kind, self.number, die)


@dataclass
class AtLine(Harmless):
    """The process is killed before the `number`th line of our Python that it comes to; 0: it counts them."""

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
            events.tell(LINES, count)

        events.trap(DONE, 1, done)
        sys.settrace(call)


@dataclass
class AtTime(Harmless):
    """The process is killed from outside, `delay` seconds after it began."""

    delay: float

    def strike(self, pid: int, go: Go) -> None:
        go()
        time.sleep(self.delay)
        os.kill(pid, signal.SIGKILL)


STRACE = shutil.which("strace")


@dataclass
class AtCall(Harmless):
    """What strace does at the `number`th system call of a name: by default it kills the process there."""

    call: str
    number: int | str
    what: str = "signal=KILL"

    def __post_init__(self) -> None:
        self.fails = self.what != "signal=KILL"

    def strike(self, pid: int, go: Go) -> None:
        inject = f"inject={self.call}:{self.what}:when={self.number}"
        self._strace = traced(pid, "-o", os.devnull, "-e", f"trace={self.call}", "-e", inject)
        go()

    def mend(self) -> None:
        self._strace.communicate(timeout=PATIENCE)


def traced(pid: int, *options: str) -> subprocess.Popen[str]:
    """A strace of a process, which has begun to look when this returns, and ends with it."""
    if STRACE is None:
        raise Unavailable("strace is not installed")
    process = subprocess.Popen([STRACE, "-f", "-p", str(pid), *options], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    first = process.stderr.readline()
    if "attached" not in first:
        process.communicate()
        raise Unavailable(f"strace: {first.strip()}")
    return process
