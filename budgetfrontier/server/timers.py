"""Functions to be called later, all in one thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from time import monotonic


class Timers:
    """Calls functions after a time. They must be short, and raise nothing. All methods may be called in any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = count()
        self._thread: threading.Thread | None = None
        self._closed = False

    def after(self, seconds: float, action: Callable[[], object]) -> None:
        """Call `action` in so many seconds."""
        with self._changed:
            heappush(self._due, (monotonic() + seconds, next(self._numbers), action))
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._main, name="timers", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """End the thread; pending timers are not called."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _main(self) -> None:
        while True:
            with self._changed:
                while not self._closed and (not self._due or self._due[0][0] > monotonic()):
                    self._changed.wait(self._due[0][0] - monotonic() if self._due else None)
                if self._closed:
                    return
                _, _, action = heappop(self._due)
            action()
