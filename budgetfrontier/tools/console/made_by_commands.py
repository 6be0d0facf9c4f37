"""Answers that may need a pass over all queues or logs: a command makes them, in a process of its own."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from subprocess import DEVNULL, PIPE, Popen
from threading import BoundedSemaphore, Event, Lock, Thread
from typing import Any, NamedTuple

import msgspec

from budgetfrontier.errors import FrontierError
from budgetfrontier.tools.console.query import BeingMade, ServiceUnavailable

AT_ONCE = 2
"""Commands that run at a time; others are refused until one has ended, so that they keep no page waiting."""
FRESH = 60.0
"""Seconds for which an answer is given again."""
SHORT = 0.5
"""Seconds that a request waits for an answer, so that those of most jobs come at once."""
_KEPT = 20  # answers of a job
_places = BoundedSemaphore(AT_ONCE)


class MadeAnswer(NamedTuple):
    """The JSON that a command has printed, and the time at which it began."""

    found: Any
    when: float
    told: str = ""
    """The sentence with which the command has failed, if it has: its answer lacks partitions that do not answer."""


class _Making:
    """An answer that is being made, or was."""

    def __init__(self, words: Sequence[str]) -> None:
        self.when = time.time()
        self.ended = Event()
        self.found: Any = None
        self.error = self.told = ""
        self.process = Popen(
            [sys.executable, "-m", "budgetfrontier", *words, "--format", "json"],
            stdin=DEVNULL, stdout=PIPE, stderr=PIPE,
        )  # fmt: skip
        self.thread = Thread(target=self._finish, name="made by a command", daemon=True)
        self.thread.start()

    def _finish(self) -> None:
        try:
            out, told = self.process.communicate()
            if self.process.returncode:
                self.told = told.decode("utf-8", "replace").strip() or f"it ended with {self.process.returncode}"
            if self.told and not out.strip():  # without partitions that do not answer, it is about others
                self.error = self.told
            else:
                self.found = msgspec.json.decode(out)
        except msgspec.DecodeError as error:
            self.error = f"its answer cannot be read: {error}"
        finally:
            _places.release()
            self.ended.set()


class CommandAnswers:
    """The answers of commands on one job, each kept for FRESH seconds. For any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._made: dict[tuple[str, ...], _Making] = {}
        self._begun: list[_Making] = []

    def get(self, *words: str) -> MadeAnswer:
        """Return the answer of a command, which begins now unless it has one or runs.

        Raises BeingMade while it runs, ServiceUnavailable if too many do, and FrontierError if it has failed.
        """
        with self._lock:
            made = self._made.get(words)
            if made is None or (made.ended.is_set() and not 0 <= time.time() - made.when < FRESH):
                if not _places.acquire(blocking=False):
                    raise ServiceUnavailable
                try:
                    made = self._made[words] = _Making(words)
                except BaseException:
                    _places.release()
                    raise
                self._begun = [*(one for one in self._begun if not one.ended.is_set()), made]
                for old in [name for name, one in self._made.items() if one.ended.is_set()][:-_KEPT]:
                    del self._made[old]
        if not made.ended.wait(SHORT):
            raise BeingMade(f"this is being made, since {time.time() - made.when:.0f} s; ask again")
        if made.error:
            with self._lock:
                if self._made.get(words) is made:
                    del self._made[words]
            raise FrontierError(made.error)
        return MadeAnswer(made.found, made.when, made.told.rpartition("\n")[2])

    def clear(self) -> None:
        """Forget the answers: they are of another frontier, or of the time before a command."""
        with self._lock:
            self._made.clear()

    def close(self) -> None:
        """End the commands that run."""
        with self._lock:
            begun, self._begun = self._begun, []
        for one in begun:
            one.process.kill()
        for one in begun:
            one.thread.join()
