"""Kills at each line: a child process is killed before a line of the given modules runs for the first time."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any


def killed_at_each_line(
    work: Callable[[], object], folder: Path, *modules: ModuleType, every: int = 1
) -> Iterator[int]:
    """Do `work` again and again, killed at a later line of the modules each time, until it would be done.

    Yields the number of lines that were run, after each kill: the caller may then look at the folder, and has to
    restore it. Lines before which the folder has not changed since the line before are skipped, and of the others
    all but each `every`th from the last on.
    """
    with tempfile.TemporaryDirectory() as kept:
        shutil.copytree(folder, kept, dirs_exist_ok=True)
        changed = list(_lines_that_find_a_change(work, folder, *modules))
        for item in folder.iterdir():
            shutil.rmtree(item) if item.is_dir() else item.unlink()
        shutil.copytree(kept, folder, dirs_exist_ok=True)
    for lines in sorted(changed[::-every]):
        assert killed_after(lines, work, *modules)
        yield lines


def _lines_that_find_a_change(work: Callable[[], object], folder: Path, *modules: ModuleType) -> Iterator[int]:
    """Do `work` in a child process that waits at each new line; yield the numbers of lines that find a change."""
    told, tell = os.pipe()
    waited, resume = os.pipe()

    def wait(_: int) -> None:
        os.write(tell, b".")
        os.read(waited, 1)

    def report() -> None:
        os.close(told)
        os.close(resume)
        _trace(wait, *modules)
        work()

    pid = _forked(report)
    os.close(tell)
    os.close(waited)
    lines, before = 0, None
    while os.read(told, 1):
        if (state := _state(folder)) != before:
            yield lines
        lines, before = lines + 1, state
        os.write(resume, b".")
    os.close(told)
    os.close(resume)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code == 0, f"the work failed ({code})"


def _state(folder: Path) -> list[tuple[str, int, int]]:
    """Return the content of a folder: names, inodes and checksums."""
    return [
        (str(path), path.stat().st_ino, zlib.crc32(path.read_bytes()) if path.is_file() else 0)
        for path in sorted(folder.rglob("*"))
    ]


def killed_after(lines: int, work: Callable[[], object], *modules: ModuleType) -> bool:
    """Do `work` in a child process, killed after so many different lines of the modules; False if it was done."""

    def die(run: int) -> None:
        if run == lines:
            os.kill(os.getpid(), signal.SIGKILL)

    def traced() -> None:
        _trace(die, *modules)
        work()

    code = os.waitstatus_to_exitcode(os.waitpid(_forked(traced), 0)[1])
    assert code in (0, -signal.SIGKILL), f"the work failed ({code})"
    return code != 0


def _forked(work: Callable[[], object]) -> int:
    """Start `work` in a child process, and return its pid."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    return pid


def _trace(at_line: Callable[[int], object], *modules: ModuleType) -> None:
    """Call `at_line` before each line of the modules that runs for the first time, with their number so far."""
    files = {module.__file__ for module in modules}
    run: set[tuple[str, int]] = set()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        if code.co_filename not in files:
            return None
        if event == "line" and (line := (code.co_filename, frame.f_lineno)) not in run:
            at_line(len(run))
            run.add(line)
        return trace

    sys.settrace(trace)
