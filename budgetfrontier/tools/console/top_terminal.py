"""The terminal of `top`: keys in, screens out, and its state restored at the end."""

from __future__ import annotations

import asyncio
import codecs
import os
import signal
import sys
import termios
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

from rich.console import Console, Group
from rich.text import Text

from budgetfrontier.engine.remote import whoami
from budgetfrontier.errors import FrontierError
from budgetfrontier.reports.format import clean
from budgetfrontier.reports.layout import layout_for
from budgetfrontier.tools.console.forms import SubmittedCommand
from budgetfrontier.tools.console.jobs import ConsoleJob, Gone
from budgetfrontier.tools.console.steering import Task
from budgetfrontier.tools.console.top_controls import Controls, Mode, split_keys
from budgetfrontier.tools.console.top_reading import JobReading
from budgetfrontier.tools.console.top_view import plain, room, screen

EVERY = 1.0
"""Seconds between two screens."""
_ESCAPE = 0.05  # seconds after which an Escape is no beginning of another key
_ANSWER = 10.0  # seconds that quitting waits for a command that was given
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def is_screen(stdin: IO[str], stdout: IO[str]) -> bool:
    """Return whether there is a terminal that can move its cursor, and a keyboard."""
    try:
        return stdin.isatty() and stdout.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")
    except ValueError:  # closed
        return False


def print_once(job: ConsoleJob) -> None:
    """Print the overview once, as plain text. Waits for a scan of all queues."""
    reading = JobReading(job)
    asyncio.run(job.scans.run())
    scanned = job.scans.latest
    if scanned is None:
        raise FrontierError(f"the queues could not be read: {job.scans.error}")
    shown = reading.read()
    for line in plain(shown, reading.lists(scanned), width=layout_for(sys.stdout, wide=False).width):
        print(line.plain)


def watch(job: ConsoleJob) -> None:
    """Show the overview until a key or a signal ends it. A signal other than Ctrl-C ends the process as usual."""
    ended_by = asyncio.run(_Top(job, _Terminal(sys.stdin.fileno())).run())
    if ended_by is signal.SIGINT:
        raise KeyboardInterrupt
    if ended_by is not None:
        signal.signal(ended_by, signal.SIG_DFL)
        os.kill(os.getpid(), ended_by)


class _Terminal:
    """The terminal while it shows screens: no echo, keys one by one, its other screen. A context manager."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._before: list[Any] = []
        self._console = Console(highlight=False, markup=False, emoji=False)

    def __enter__(self) -> _Terminal:
        self._before = termios.tcgetattr(self.fd)
        self.enter()
        return self

    def __exit__(self, *error: object) -> None:
        self.leave()

    def enter(self) -> None:
        """Prepare the terminal."""
        mode = termios.tcgetattr(self.fd)
        # Ctrl-C and Ctrl-Z come as keys: as signals they would end the processes that scan and steer, too.
        mode[3] &= ~(termios.ECHO | termios.ICANON | termios.ISIG)
        termios.tcsetattr(self.fd, termios.TCSANOW, mode)
        self._console.set_alt_screen(True)
        self._console.show_cursor(False)

    def leave(self) -> None:
        """Restore the terminal."""
        with suppress(OSError):  # it is gone
            self._console.clear()  # with the cursor below, tmux mixes the two screens if it has grown meanwhile
            self._console.show_cursor(True)
            self._console.set_alt_screen(False)
        with suppress(termios.error):
            termios.tcsetattr(self.fd, termios.TCSADRAIN, self._before)

    def size(self) -> tuple[int, int]:
        """Return the columns and lines, also if the variable COLUMNS says otherwise."""
        columns, lines = os.get_terminal_size(self.fd)
        return columns or 80, lines or 24

    def show(self, lines: list[Text]) -> None:
        """Show a screen."""
        self._console.size = self.size()
        self._console.update_screen(Group(*lines))


class _Top:
    """The loop: a screen each second and after each key, a scan when one is due."""

    def __init__(self, job: ConsoleJob, terminal: _Terminal) -> None:
        self._job = job
        self._terminal = terminal
        self._reading = JobReading(job)
        self._controls = Controls()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._wake = asyncio.Event()
        self._ended_by: signal.Signals | None = None
        self._running: set[asyncio.Task[None]] = set()
        self._commands: set[asyncio.Task[None]] = set()

    async def run(self) -> signal.Signals | None:
        """Run until the end; return the signal that asked for it, or None."""
        with self._listening(asyncio.get_running_loop()), self._terminal:
            while not self._controls.quits:
                self._wake.clear()
                self._show()
                if self._job.scans.is_due:
                    self._begin(self._job.scans.run())
                    await asyncio.sleep(0)  # it has begun
                with suppress(TimeoutError):
                    async with asyncio.timeout(EVERY):
                        await self._wake.wait()
            if self._commands:  # one may be half-way through a stopped frontier
                await asyncio.wait(self._commands, timeout=_ANSWER)
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        return self._ended_by

    @contextmanager
    def _listening(self, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
        for number in _ENDING:
            loop.add_signal_handler(number, self._end, number)
        loop.add_signal_handler(signal.SIGWINCH, self._wake.set)
        loop.add_signal_handler(signal.SIGTSTP, self._suspend)
        loop.add_reader(self._terminal.fd, self._typed, loop)
        try:
            yield
        finally:
            loop.remove_reader(self._terminal.fd)

    def _end(self, number: signal.Signals | None) -> None:
        self._ended_by, self._controls.quits = number, True
        self._wake.set()

    def _suspend(self) -> None:
        """Stop for the shell (Ctrl-Z), with the terminal as it was, until the shell continues this process."""
        self._terminal.leave()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._terminal.enter()
        self._wake.set()

    def _typed(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            data = os.read(self._terminal.fd, 4096)
        except OSError:
            data = b""
        if not data:  # the terminal is gone
            self._end(None)
            return
        keys, self._rest = split_keys(self._rest + self._decoder.decode(data))
        self._press(keys)
        if self._rest:
            loop.call_later(_ESCAPE, self._escape, self._rest)

    def _escape(self, rest: str) -> None:
        """Take an Escape after which nothing came as the key."""
        if self._rest == rest:
            self._rest = ""
            self._press(["escape"] if rest == "\x1b" else [])

    def _press(self, keys: list[str]) -> None:
        for key in keys:
            if key == "interrupt":
                self._end(signal.SIGINT)
            elif key == "suspend":
                self._suspend()
            asked = self._controls.press(key)
            if asked is not None:
                self._controls.message = f"{asked.op}: waiting for the answer"
                self._commands.add(self._begin(self._steer(asked)))
        self._wake.set()

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._commands.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self._controls.message = f"it failed: {error}"
        self._wake.set()

    async def _steer(self, asked: SubmittedCommand) -> None:
        """Give a command in a process of its own, and show its audit entry."""
        task = Task(self._job, asked, whoami(), dry_run=False, back="")
        await task.run(asyncio.Semaphore())
        entry = task.step.entry
        if entry is None:
            self._controls.message = f"{asked.op}: {task.error}"
            return
        before, after = (entry["effect"][when]["state"] for when in ("before", "after"))
        self._controls.message = f"{asked.op}: {before} -> {after} (audit entry {entry['id']})"

    def _show(self) -> None:
        controls = self._controls
        width, height = self._terminal.size()
        try:
            shown = self._reading.read()
            controls.paused = shown.sample.totals.state in ("PAUSED", "PAUSING")
            if controls.screen is Mode.LIST:
                shown.rows = self._reading.rows(controls, room(shown, width=width, height=height))
            shown.opened = self._reading.opened(controls)
            lines = screen(shown, controls, width=width, height=height)
        except (FrontierError, OSError) as error:
            if isinstance(error, Gone):
                self._job.close()
            lines = [Text(clean(str(error)), style="bold red"), Text("q quits; it is shown again once it is back")]
        self._terminal.show(lines)
