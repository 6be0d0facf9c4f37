"""Kills at every line: work is done in a child process that dies before a line of the given modules runs first."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType, ModuleType
from typing import Any


def killed_at_each_line(work: Callable[[], object], *modules: ModuleType) -> Iterator[int]:
    """Do `work` again and again, killed one line of the modules later each time, until it is done.

    Gives the number of lines that were run, after each kill; what the kill left can then be looked at.
    """
    lines = 0
    while killed_after(lines, work, *modules):
        yield lines
        lines += 1


def killed_after(lines: int, work: Callable[[], object], *modules: ModuleType) -> bool:
    """Do `work` in a child process, killed after so many different lines of the modules; False if it was done."""
    pid = os.fork()
    if pid == 0:
        _trace(lines, {module.__file__ for module in modules})
        try:
            work()
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in (0, -signal.SIGKILL), f"the work failed ({code})"
    return code != 0


def _trace(lines: int, files: set[str | None]) -> None:
    run: set[tuple[str, int]] = set()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        if code.co_filename not in files:
            return None
        if event == "line" and (line := (code.co_filename, frame.f_lineno)) not in run:
            if len(run) == lines:
                os.kill(os.getpid(), signal.SIGKILL)
            run.add(line)
        return trace

    sys.settrace(trace)
