"""SIGINT, SIGTERM and SIGHUP of a crawl, from the first moment of its process to the last.

They are counted, and no more: a handler that raised could do so within any cleanup. Whoever can act on one asks, or
`listen`s; only where nothing is lost by it does the second raise KeyboardInterrupt. Imports nothing that takes time.
"""

from __future__ import annotations

import atexit
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupts:
    """How often the process was asked to stop. Installs nothing by itself."""

    def __init__(self) -> None:
        self.count = 0
        self._breakable = False
        self._tell: Callable[[], object] | None = None

    def listen(self, tell: Callable[[], object] | None) -> None:
        """Let `tell` be called, in the main thread between any two steps of it, whenever another one comes."""
        self._tell = tell

    @contextmanager
    def breakable(self) -> Iterator[None]:
        """What is done inside may be broken off: one that comes now, and is not the first, raises KeyboardInterrupt."""
        self._breakable = True
        try:
            yield
        finally:
            self._breakable = False

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Take one in: the handler of the signals."""
        self.count += 1
        if self._tell is not None:
            self._tell()
        elif self._breakable and self.count > 1:
            raise KeyboardInterrupt


_of_process: list[Interrupts] = []  # one at the most


def install_for_process() -> None:
    """Take in signals until the process has ended: for a program that does nothing but crawl."""
    own, handled = Interrupts(), _handled()
    _of_process.append(own)
    for number in handled:
        signal.signal(number, own.handle)
    atexit.register(_ignore, handled)  # Python takes its handlers away before it has ended


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """The process's, if it has them; else those of this crawl, which ends with the handlers that it found."""
    if _of_process:
        yield _of_process[0]
        return
    own = Interrupts()
    before = {number: signal.signal(number, own.handle) for number in _handled()}
    try:
        yield own
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)


def _handled() -> list[signal.Signals]:
    """Return the signals that stop a crawl: none outside the main thread, and no SIGHUP under nohup."""
    if threading.current_thread() is not threading.main_thread():
        return []
    hung_up = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    return [signal.SIGINT, signal.SIGTERM, *hung_up]


def _ignore(handled: list[signal.Signals]) -> None:
    for number in handled:
        signal.signal(number, signal.SIG_IGN)
