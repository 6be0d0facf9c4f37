"""Messages on their way to a stream, which stay in order however often the bus fails meanwhile."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from budgetfrontier.bus.interface import TIMEOUT, Bus
from budgetfrontier.bus.streams import Stream

Item = tuple[int, bytes]
"""A message and its partition."""


class Outbox:
    """A producer that can be asked again after an error: then it goes on where it was. A message may be sent twice."""

    def __init__(self, bus: Bus, stream: Stream) -> None:
        self._producer = bus.producer(stream)
        self._waiting: deque[Item] = deque()
        self._unflushed = False

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, items: Iterable[Item]) -> None:
        """Add messages, which `flush` sends."""
        self._waiting.extend(items)

    def flush(self, timeout: float = TIMEOUT) -> None:
        """Return once the broker has all messages. Raises BusError: call it again."""
        while self._waiting:
            self._unflushed = True
            partition, data = self._waiting[0]
            self._producer.send(data, partition=partition)
            self._waiting.popleft()
        if self._unflushed:
            self._producer.flush(timeout)
            self._unflushed = False

    def close(self, timeout: float = TIMEOUT) -> None:
        """Flush and close. Raises BusError."""
        self.flush(timeout)
        self._producer.close()
