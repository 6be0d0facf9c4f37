"""Messages on their way to a stream, which stay in order however often the bus fails meanwhile."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from budgetfrontier.bus.interface import TIMEOUT, Bus, MessagesTooLarge, TooLarge
from budgetfrontier.bus.streams import Stream

Item = tuple[int, bytes]
"""A message and its partition."""


class Outbox:
    """A producer that continues after BusAway.

    A message may be sent twice. `too_large` returns the replacements of messages that the broker will never take.
    """

    def __init__(self, bus: Bus, stream: Stream, *, too_large: Callable[[TooLarge], Iterable[Item]]) -> None:
        self._producer = bus.producer(stream)
        self._replace = too_large
        self._waiting: deque[Item] = deque()
        self._too_large: deque[TooLarge] = deque()
        self._unflushed = False

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, items: Iterable[Item]) -> None:
        """Add messages, which `flush` sends."""
        self._waiting.extend(items)

    def flush(self, timeout: float = TIMEOUT) -> None:
        """Return once the broker has all messages. Raises BusError; with BusAway, call it again."""
        while self._waiting or self._unflushed or self._too_large:
            while self._too_large:
                self._waiting.extend(self._replace(self._too_large[0]))
                self._too_large.popleft()
            while self._waiting:
                self._unflushed = True
                partition, data = self._waiting[0]
                self._producer.send(data, partition=partition)
                self._waiting.popleft()
            try:
                self._producer.flush(timeout)
            except MessagesTooLarge as error:
                self._too_large.extend(error.messages)
            self._unflushed = False

    def close(self, timeout: float = TIMEOUT) -> None:
        """Flush and close. Raises BusError."""
        self.flush(timeout)
        self._producer.close()
