"""A bus whose broker takes no messages above a size, as a topic of Kafka, and may be away."""

from __future__ import annotations

from typing import Any

from budgetfrontier.bus.interface import TIMEOUT, BusAway, MessagesTooLarge, Producer, TooLarge
from budgetfrontier.bus.streams import Stream


class LimitedBus:
    """Another bus, with a limit."""

    def __init__(self, bus: Any, limit: int) -> None:
        self._bus, self.limit = bus, limit
        self.away = 0
        """Calls of `flush` that fail from now on."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bus, name)

    def producer(self, stream: Stream) -> LimitedProducer:
        return LimitedProducer(self, self._bus.producer(stream))


class LimitedProducer:
    """A producer that says at the flush what was too large."""

    def __init__(self, bus: LimitedBus, producer: Producer) -> None:
        self._bus, self._producer = bus, producer
        self._too_large: list[TooLarge] = []

    def send(self, *messages: bytes, partition: int = 0) -> None:
        for message in messages:
            if len(message) > self._bus.limit:
                self._too_large.append(TooLarge(partition, message, "too large"))
            else:
                self._producer.send(message, partition=partition)

    def flush(self, timeout: float = TIMEOUT) -> None:
        if self._bus.away:
            self._bus.away -= 1
            raise BusAway("gone")
        self._producer.flush(timeout)
        if self._too_large:
            found, self._too_large = self._too_large, []
            raise MessagesTooLarge(found)

    def close(self) -> None:
        self.flush()
