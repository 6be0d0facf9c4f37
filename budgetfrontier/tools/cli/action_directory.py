"""The action directory of a job: files that are put into JOB/action are applied while the job is crawled.

Each file is applied by the command for its kind, in a process of its own, which gives its commands to the crawl as any
other process does: a list of a million URLs holds nothing up. A file that is being applied when the process ends stays,
and is applied again by the next run: URIs are known by then, and adjustments set the same values. Links are not
followed, neither in place of a file nor of a folder: results quote lines that are refused, so those who may write into
the folder could read any file of the user, and write results elsewhere.
"""

from __future__ import annotations

import asyncio
import builtins
import io
import json
import os
import shlex
import signal
import stat
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from budgetfrontier.core.units import format_time
from budgetfrontier.reports.action_results import ACTION, DONE, ERROR, RESULT
from budgetfrontier.reports.format import clean, counted
from budgetfrontier.storage.modes import make_folder_no_link
from budgetfrontier.storage.whole_files import atomic_file
from budgetfrontier.tools.cli.exits import EXIT_CODES, OK

KINDS = {
    ".seeds": ("import", "--from", "list", "--seeds"),
    ".urls": ("import", "--from", "list"),
    ".adjust.yaml": ("adjust",),
}
"""The endings of names, each perhaps followed by .gz, and the command that takes such a file."""
MODULE = "budgetfrontier.tools.cli.action_directory"
"""This module, which is run as a process of its own."""
WHO = "action"
"""The name in the audit of who gave the commands."""
SCAN_EVERY = 1.0
"""Seconds between two looks into the folder: a file is complete if its size and time are the same in both."""
LONG = 10.0
"""Seconds after which a file that is still being applied is told."""
_LONGEST_NAME = 180  # bytes of a name that are part of others, which have at most 255
_MOST_MESSAGES = 1000  # lines of a command that are kept
_GRACE = 10.0  # seconds that a command has to end after an interrupt


class _Stamp(NamedTuple):
    """The properties of a file by which a change is noticed."""

    inode: int
    size: int
    mtime: int
    regular: bool
    """Whether it is a regular file: not a link, a folder or a pipe."""


class _Ran(NamedTuple):
    """A command that has ended."""

    line: str
    code: int
    result: Any
    """The JSON that it has printed; None if there is none."""
    messages: list[str]


class ActionDirectory:
    """The folder `action` of a job, whose files are applied as long as `watched` is entered.

    `say` and `warn` print a line about what was done.
    """

    def __init__(self, job: Path, *, say: Callable[[str], None], warn: Callable[[str], None]) -> None:
        self._job, self._folder, self._done = job, job / ACTION, job / ACTION / DONE
        self._say, self._warn = say, warn
        self._seen: dict[str, _Stamp] = {}
        """The files at the last look."""
        self._left: dict[str, _Stamp] = {}
        """The files that are not taken until they change: nothing takes them, or they could not be moved."""
        self._watching: asyncio.Task[None] | None = None

    def has_files(self) -> bool:
        """Return whether a file waits or is being applied: a crawl does not end before."""
        if self._watching is None or self._watching.done():
            return False
        return any(
            stamp.regular and kind_of(name) is not None and self._left.get(name) != stamp
            for name, stamp in self._files()
        )

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Apply files within the block. The one that is being applied at its end stays for the next time."""
        self._watching = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            self._watching.cancel()
            [ended] = await asyncio.gather(self._watching, return_exceptions=True)
            if isinstance(ended, Exception):
                self._warn(f"files in {self._folder} were not taken to the end: {ended!r}")

    async def _watch(self) -> None:
        try:
            make_folder_no_link(self._folder, like=self._job)
        except OSError as error:
            self._warn(f"files for actions are not taken: {error}")
            return
        while True:
            for name in self.complete():
                await self._take(name)
            await asyncio.sleep(SCAN_EVERY)

    def complete(self) -> list[str]:
        """Look into the folder; return the files that have not changed since the last look, by name."""
        before, self._seen = self._seen, dict(self._files())
        return [
            name
            for name, stamp in sorted(self._seen.items())
            if before.get(name) == stamp and self._left.get(name) != stamp
        ]

    def _files(self) -> Iterator[tuple[str, _Stamp]]:
        """Yield what is in the folder. A hidden file is one that somebody is about to rename."""
        with suppress(OSError), os.scandir(self._folder) as entries:
            for entry in entries:
                with suppress(OSError):
                    if not entry.name.startswith(".") and entry.name != DONE:
                        status = entry.stat(follow_symlinks=False)
                        regular = stat.S_ISREG(status.st_mode)
                        size, mtime = (status.st_size, status.st_mtime_ns) if regular else (0, 0)
                        yield entry.name, _Stamp(status.st_ino, size, mtime, regular)

    async def _take(self, name: str) -> None:
        """Apply a file, and move it to those that are done, with its result beside it."""
        command, stamp = kind_of(name), self._seen[name]
        if not stamp.regular:
            self._left[name] = stamp
            self._warn(f"{self._folder / name} is not taken: it is no regular file, but a link, a folder or a pipe")
            return
        if command is None:
            self._left[name] = stamp
            self._warn(f"{self._folder / name}: nothing takes it; names end in {', '.join(KINDS)}, perhaps with .gz")
            return
        began = time.time()
        try:
            make_folder_no_link(self._folder, like=self._job)
            make_folder_no_link(self._done, like=self._folder)
            ran = await self._run(name, command)
            self._tell(name, ran, self._put_away(name, stamp, ran, began))
        except OSError as error:
            self._left[name] = stamp
            self._warn(f"{self._folder / name} is not taken until it changes: {error}")

    async def _run(self, name: str, command: tuple[str, ...]) -> _Ran:
        """Run the command that takes a file. It is interrupted if this is cancelled."""
        op, *options = command
        file = os.fspath(self._folder / name)
        source = ["--file", file] if op == "adjust" else [file, *options]
        about = ["--format", "json", "--who", WHO, "--reason", f"{ACTION}/{clean(name)}"]
        words = [op, os.fspath(self._job), *source, *about]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", MODULE, *words),
            stdin=asyncio.subprocess.PIPE,  # which ends with this process
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is handled by this process alone
        )
        outputs = asyncio.create_task(_outputs(process))
        try:
            if not (await asyncio.wait([outputs], timeout=LONG))[0]:
                self._say(f"{file}: it is being applied, and other files wait for its end; `audit` lists what it does")
            out, messages = await outputs
        except asyncio.CancelledError:
            outputs.cancel()
            await asyncio.wait([outputs])
            await _end(process)
            raise
        assert process.returncode is not None
        lines = messages.decode(errors="replace").splitlines()[:_MOST_MESSAGES]
        return _Ran(shlex.join(["budgetfrontier", *words]), process.returncode, _decoded(out), lines)

    def _put_away(self, name: str, stamp: _Stamp, ran: _Ran, began: float) -> Path:
        """Write the result, then move the file, unless it has changed meanwhile; return the result's path."""
        short = os.fsdecode(os.fsencode(name)[:_LONGEST_NAME])
        to = self._done / f"{short}.{format_time(began, '%Y%m%dT%H%M%SZ')}"
        result = {
            "file": clean(name),
            "command": clean(ran.line),
            "exit_code": ran.code,
            "meaning": EXIT_CODES.get(ran.code, "it was ended by a signal" if ran.code < 0 else ""),
            "began": format_time(began),
            "ended": format_time(time.time()),
            "result": ran.result,
            "messages": ran.messages,
        }
        path = to.with_name(to.name + (RESULT if ran.code == OK else ERROR))
        with atomic_file(path) as written:
            written.write(json.dumps(result, indent=1).encode("utf-8", "replace") + b"\n")
        if dict(self._files()).get(name) == stamp:
            (self._folder / name).rename(to)
        return path

    def _tell(self, name: str, ran: _Ran, result: Path) -> None:
        file = self._folder / name
        if ran.code == OK:
            self._say(f"{file}: {_told(ran.result)}; {result} has the result")
        else:
            why = ran.messages[-1].removeprefix("budgetfrontier: ") if ran.messages else f"exit code {ran.code}"
            self._warn(f"{file}: {why}; {result} has all messages")


def kind_of(name: str) -> tuple[str, ...] | None:
    """Return the command that takes a file of this name, with its options; None if none does.

    >>> kind_of("2026-11.seeds"), kind_of("traps.adjust.yaml.gz"), kind_of("notes.txt")
    (('import', '--from', 'list', '--seeds'), ('adjust',), None)
    """
    plain = name.removesuffix(".gz")
    return next((command for ending, command in KINDS.items() if plain.endswith(ending)), None)


def _told(result: Any) -> str:
    """Return a sentence on the effect of a command, from the JSON that it has printed."""
    if isinstance(result, dict) and "adjustments" in result:
        return f"{counted(len(result['adjustments']), 'adjustment')} applied"
    if isinstance(result, dict) and "added" in result:
        return ", ".join(f"{name} {result[name]:,}" for name in ("added", "duplicate", "full", "invalid"))
    return "applied"


def _decoded(out: bytes) -> Any:
    """Return the JSON that a command has printed; None if there is none."""
    try:
        return json.loads(out)
    except ValueError:
        return None


async def _end(process: asyncio.subprocess.Process) -> None:
    """Interrupt a process, and kill it if it does not end."""
    with suppress(ProcessLookupError):  # it has just ended
        process.send_signal(signal.SIGINT)
        with suppress(TimeoutError):
            async with asyncio.timeout(_GRACE):
                await _outputs(process)
                return
        process.kill()
    await process.wait()


async def _outputs(process: asyncio.subprocess.Process) -> tuple[bytes, bytes]:
    """Return what a process prints until it has ended. Its standard input stays open: `communicate` would close it."""
    assert process.stdout is not None and process.stderr is not None
    out, messages = await asyncio.gather(process.stdout.read(), process.stderr.read())
    await process.wait()
    return out, messages


def main(arguments: list[str]) -> int:
    """Run a command, which is interrupted when the standard input ends: with the crawl, also if that is killed."""
    from budgetfrontier.tools.cli import main as command_line

    def end() -> None:
        while os.read(0, 1):
            pass
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=end, daemon=True).start()
    _follow_no_link(next(word for word in arguments[2:] if word != "--file"))
    return command_line(arguments)


def _follow_no_link(file: str) -> None:
    """Let this process open a file only if it is no link: it may have become one since it was seen in the folder."""
    plain = io.open

    def opened(path: Any, *options: Any, **more: Any) -> Any:
        if isinstance(path, str | Path) and os.fspath(path) == file:
            more["opener"] = lambda name, flags: os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
        return plain(path, *options, **more)

    io.open = builtins.open = opened  # type: ignore[assignment]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
