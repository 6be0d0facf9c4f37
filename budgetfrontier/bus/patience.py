"""Waiting for a broker that does not answer: the deadlines of operations of a bus, and the log lines meanwhile.

They wait in short steps, so that a program that is to stop ends soon, and handlers of signals run.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Final

STEP: Final = 0.25
"""Seconds of a step of waiting in an operation."""
GRACE: Final = 2.0
"""Seconds that a broker has to answer an operation once the program is to stop."""
SAY_AFTER: Final = 5.0
"""Seconds without an answer after which that is said."""


class Patience:
    """The patience of the operations of a bus, which all wait for as long as they may until `stop`."""

    def __init__(self, say: Callable[[str], object] | None = None) -> None:
        """Call `say` with a sentence once an operation has waited for long, the first time."""
        self._say = say
        self.stopped: float | None = None
        """The monotonic time of `stop`."""
        self.grace = GRACE
        """Seconds that an operation waits after it."""

    def stop(self, *, at_once: bool = False) -> None:
        """Let operations give up soon, or `at_once`, those waiting, too; a handler of a signal may call it."""
        if self.stopped is None:
            self.stopped = monotonic()
        if at_once:
            self.grace = STEP

    def wait(self, timeout: float) -> Wait:
        """Return the wait of an operation that begins now, and may take so many seconds."""
        return Wait(self, timeout)

    def say(self, seconds: float) -> None:
        """Say that there was no answer for so many seconds, the first time."""
        if self._say is not None:
            say, self._say = self._say, None
            say(f"waiting for the message bus: no answer for {seconds:.0f} s")


class Wait:
    """The wait of one operation for a broker."""

    def __init__(self, patience: Patience, timeout: float) -> None:
        self._patience, self._began, self._timeout = patience, monotonic(), timeout

    @property
    def waited(self) -> float:
        """The seconds since the operation began."""
        return monotonic() - self._began

    def left(self) -> float:
        """Return the seconds that are left; 0 or less if it is time to give up."""
        left = self._timeout - self.waited
        if (stopped := self._patience.stopped) is not None:
            return min(left, max(stopped, self._began) + self._patience.grace - monotonic())
        if self.waited >= SAY_AFTER:
            self._patience.say(self.waited)
        return left
