"""The wish that a server stops: made in a handler of a signal, or in another thread."""

from __future__ import annotations

from queue import Empty, SimpleQueue


class Stop:
    """The wish that a server stops. Unlike an Event, it may be set in a handler of a signal while the thread waits."""

    def __init__(self) -> None:
        self._asked: SimpleQueue[str] = SimpleQueue()

    def __repr__(self) -> str:
        return f"<Stop: asked {self._asked.qsize()} more times>"

    def ask(self, reason: str = "") -> None:
        """Let the server stop because of a signal of this name, if any; a second time: at once."""
        self._asked.put(reason)

    def wait(self, seconds: float | None = None) -> str | None:
        """Wait until somebody has asked once more, and return the reason; None if nobody has within so many seconds."""
        try:
            return self._asked.get(timeout=seconds)
        except Empty:
            return None
