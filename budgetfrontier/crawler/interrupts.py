"""Handling of SIGINT, SIGTERM and SIGHUP, from the start of a crawl's process to its end.

Signals are only counted, because a handler that raises could interrupt any cleanup. Code that can act on a signal reads
the count or calls `listen`; the second signal raises KeyboardInterrupt, but only in code that can be interrupted
without loss (`breakable`). This module imports nothing that is slow to import.
"""

from __future__ import annotations

import atexit
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupts:
    """A count of the signals to stop, and the action for the next one. Does not install handlers itself."""

    def __init__(self) -> None:
        self.count = 0
        self.name = ""
        """The name of the last signal."""
        self._breakable = False
        self._listener: Callable[[], object] | None = None

    def listen(self, listener: Callable[[], object] | None) -> None:
        """Call `listener` on each further signal, in the main thread between any two of its bytecode instructions."""
        self._listener = listener

    @contextmanager
    def breakable(self) -> Iterator[None]:
        """Let a signal in this context raise KeyboardInterrupt if it is not the first one, and nothing listens."""
        self._breakable = True
        try:
            yield
        finally:
            self._breakable = False

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Count a signal and act on it: the handler to install."""
        self.count += 1
        self.name = signal.Signals(number).name
        if self._listener is not None:
            self._listener()
        elif self._breakable and self.count > 1:
            raise KeyboardInterrupt


_of_process: list[Interrupts] = []  # at most one


def install_for_process() -> None:
    """Install handlers until the process ends: for a program that only crawls."""
    own, signals = Interrupts(), _stop_signals()
    _of_process.append(own)
    for number in signals:
        signal.signal(number, own.handle)
    atexit.register(_ignore, signals)  # Python removes its handlers before the process has ended


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """Yield the process-wide Interrupts if installed; otherwise new ones, with handlers until the end."""
    if _of_process:
        yield _of_process[0]
        return
    own = Interrupts()
    before = {number: signal.signal(number, own.handle) for number in _stop_signals()}
    try:
        yield own
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)


def _stop_signals() -> list[signal.Signals]:
    """Return the signals that stop a crawl: none outside the main thread; not SIGHUP under nohup."""
    if threading.current_thread() is not threading.main_thread():
        return []
    hung_up = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    return [signal.SIGINT, signal.SIGTERM, *hung_up]


def _ignore(signals: list[signal.Signals]) -> None:
    for number in signals:
        signal.signal(number, signal.SIG_IGN)
