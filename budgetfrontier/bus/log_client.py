"""Producers and consumers of a broker that keeps a log, with their state between its replies."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from budgetfrontier.bus.broker import Append, Commit, Fetch, Lag, Leave, Operation, Seek
from budgetfrontier.bus.interface import SESSION, TIMEOUT, BusError, Received, Start
from budgetfrontier.bus.log import Fetched
from budgetfrontier.bus.streams import Stream
from budgetfrontier.core.converters import converter

BATCH_MESSAGES, BATCH_BYTES = 500, 1 << 20
"""The size of a batch of a producer, above which it is sent without a flush."""

Call = Callable[[Operation, float], Any]
"""Has an operation performed within a number of seconds, and returns its result. Raises BusError."""

_fetched: Callable[[Any], Fetched] = converter(Fetched)
_numbers: Callable[[Any], list[int]] = converter(list[int])


def unique_name() -> str:
    """Return a name that no other producer or consumer has."""
    return f"{os.getpid()}-{os.urandom(8).hex()}"


class LogProducer:
    """A producer: batches with numbers, which the broker appends once however often they are sent."""

    def __init__(self, call: Call, stream: Stream) -> None:
        self._call, self._stream, self._name = call, stream, unique_name()
        self._buffer: list[tuple[int, bytes]] = []
        self._buffered = 0
        self._batch: Append | None = None
        self._sequence = 0

    def send(self, *messages: bytes, partition: int = 0) -> None:
        """Hand messages over; sends a batch if the buffer is full, and waits while the partition is."""
        self._buffer += [(partition, message) for message in messages]
        self._buffered += sum(map(len, messages))
        if len(self._buffer) >= BATCH_MESSAGES or self._buffered >= BATCH_BYTES:
            self.flush()

    def flush(self, timeout: float = TIMEOUT) -> None:
        """Return once the broker has all that was sent."""
        deadline = time.monotonic() + timeout
        while self._batch is not None or self._buffer:
            if self._batch is None:
                self._sequence += 1
                self._batch = Append(self._stream, self._name, self._sequence, self._take())
            self._call(self._batch, max(0.001, deadline - time.monotonic()))
            self._batch = None

    def close(self) -> None:
        """Flush."""
        self.flush()

    def _take(self) -> list[tuple[int, bytes]]:
        size = count = 0
        while count < min(len(self._buffer), BATCH_MESSAGES) and size < BATCH_BYTES:
            size += len(self._buffer[count][1])
            count += 1
        batch, self._buffer = self._buffer[:count], self._buffer[count:]
        self._buffered -= size
        return batch


class LogConsumer:
    """A consumer, which knows its positions, so that an answer that was lost loses no message."""

    def __init__(
        self,
        call: Call,
        stream: Stream,
        group: str,
        *,
        partitions: Iterable[int] = (),
        start: Start | None = None,
        session: float = SESSION,
    ) -> None:
        self._call, self._stream, self._group, self._name = call, stream, group, unique_name()
        self._bound, self._start, self._session = tuple(partitions), start, session
        self._positions: dict[int, tuple[int, int]] = {}

    @property
    def partitions(self) -> frozenset[int]:
        """The partitions that belong to this consumer as of its last poll."""
        return frozenset(self._positions)

    def poll(self, count: int = 512, timeout: float = 0.1) -> list[Received]:
        """Return up to `count` messages, waiting up to `timeout` seconds for the first."""
        deadline = time.monotonic() + timeout
        while True:
            wait = max(0.0, deadline - time.monotonic())
            # A partition that is new may have to start elsewhere, so that the first answer is not waited for.
            fetched = self._fetch(count, min(wait, self._session / 3) if self._positions else 0.0)
            fresh = {
                partition: offset
                for partition, (generation, offset) in fetched.owned.items()
                if self._positions.get(partition, (0, 0))[0] != generation
            }
            self._positions = fetched.owned
            if self._start is not None and fresh:
                wanted = {partition: self._start(partition) for partition in fresh}
                moved = {partition: offset for partition, offset in wanted.items() if offset is not None}
                for partition, offset in moved.items():
                    self.seek(partition, offset)
                if moved:
                    continue
            for message in fetched.messages:
                generation, _ = self._positions[message.partition]
                self._positions[message.partition] = generation, message.offset + 1
            if fetched.messages or wait <= 0:
                return fetched.messages
            if not fetched.owned:
                time.sleep(min(wait, 0.05))

    def commit(self, offsets: Mapping[int, int] | None = None) -> None:
        """Record that messages were processed."""
        if offsets is None:
            offsets = {partition: offset for partition, (_, offset) in self._positions.items()}
        if offsets:
            self._do(Commit(self._stream, self._group, self._name, dict(offsets)))

    def seek(self, partition: int, offset: int) -> None:
        """Go on with the message of an offset."""
        self._do(Seek(self._stream, self._group, partition, offset))
        if partition in self._positions:
            self._positions[partition] = self._positions[partition][0], offset

    def close(self) -> None:
        """Leave the group; the broker learns it by itself if it does not answer."""
        with suppress(BusError):
            self._call(Leave(self._stream, self._group, self._name), 1.0)
        self._positions = {}

    def _fetch(self, count: int, wait: float) -> Fetched:
        fetch = Fetch(self._stream, self._group, self._name, self._bound, self._positions, count, wait, self._session)
        return _fetched(self._call(fetch, TIMEOUT))

    def _do(self, operation: Operation) -> None:
        self._call(operation, TIMEOUT)


class LogBus:
    """A bus of a broker that keeps a log; `close` ends the connection behind `call`."""

    def __init__(self, call: Call, close: Callable[[], None], *, session: float = SESSION) -> None:
        self._call, self._close, self._session = call, close, session

    def producer(self, stream: Stream) -> LogProducer:
        """Return a new producer."""
        return LogProducer(self._call, stream)

    def consumer(
        self, stream: Stream, group: str, *, partitions: tuple[int, ...] = (), start: Start | None = None
    ) -> LogConsumer:
        """Return a new consumer of a group."""
        return LogConsumer(self._call, stream, group, partitions=partitions, start=start, session=self._session)

    def lag(self, stream: Stream, group: str) -> list[int]:
        """Return the number of messages in each partition that the group has not committed."""
        return _numbers(self._call(Lag(stream, group), TIMEOUT))

    def begins(self, stream: Stream, partition: int) -> None:
        """Return None: the next message has the next number."""

    def log_id(self, stream: Stream) -> None:
        """Return None: the offsets of a new log begin with the time."""

    def close(self) -> None:
        """Close the connection."""
        self._close()
