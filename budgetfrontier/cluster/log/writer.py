"""The writer of logs: a thread that appends entries, in order, as fast as the broker takes them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from itertools import count
from queue import Empty, SimpleQueue
from time import monotonic, sleep
from typing import Final, NamedTuple

from budgetfrontier.bus.interface import Bus, BusAway, BusError, Producer
from budgetfrontier.bus.streams import Stream
from budgetfrontier.errors import FrontierClosed
from budgetfrontier.server.tasks import Done

PATIENCE: Final = 5.0
"""Seconds without an answer after which a broker is said to be away, and for which one is waited for at the end."""
_PAUSE: Final = 0.2


class _QueuedEntry(NamedTuple):
    ticket: int
    partition: int
    data: bytes
    done: Done | None


log = logging.getLogger("budgetfrontier.cluster")


class Writer:
    """Appends entries to the logs of partitions, however long the broker is away. Methods may be called in any thread.

    Only a refusal of the broker ends it.
    """

    def __init__(self, bus: Bus, stream: Stream) -> None:
        self._bus, self._stream = bus, stream
        self._queue: SimpleQueue[_QueuedEntry | None] = SimpleQueue()
        self._error: BaseException | None = None
        self._closing = self._has_ended = False
        self._tickets = count(1)
        self._lock = threading.Lock()
        self.confirmed = 0
        """The ticket of the last entry that the broker has, with all before it."""
        self._thread = threading.Thread(target=self._main, name="writer of logs", daemon=True)
        self._thread.start()

    def write(self, partition: int, data: bytes, done: Done | None = None) -> int:
        """Append an entry; return its ticket, which is higher than those before.

        `done(None, None)` is called once the broker has it, or with FrontierClosed after the end. Raises BusError if an
        entry was refused.
        """
        if self._error is not None:
            raise self._error
        with self._lock:
            ticket = next(self._tickets)
            self._queue.put(_QueuedEntry(ticket, partition, data, done))
        if self._has_ended:
            self._refuse()
        return ticket

    def close(self) -> None:
        """Append the remaining entries, and end the thread; entries that a broker does not take soon are given up."""
        self._closing = True
        self._queue.put(None)
        self._thread.join()

    def _main(self) -> None:
        try:
            producer = self._bus.producer(self._stream)
            while batch := self._next():
                self._append(producer, batch)
            producer.close()
        except BusError as e:
            self._error = e
        self._has_ended = True
        self._refuse()

    def _next(self) -> list[_QueuedEntry]:
        """Return the entries that wait, at least one; none at the end."""
        taken = [self._queue.get()]
        while not self._queue.empty():
            taken.append(self._queue.get())
        if None in taken:
            self._queue.put(None)  # for the next time
        return [entry for entry in taken if entry is not None]

    def _append(self, producer: Producer, batch: list[_QueuedEntry]) -> None:
        error: BusError | None = None
        try:
            for entry in batch:
                self._patiently(partial(producer.send, entry.data, partition=entry.partition))
            self._patiently(partial(producer.flush, PATIENCE))
            self.confirmed = batch[-1].ticket
        except BusError as e:
            self._error = error = e
            raise
        finally:
            _answer(batch, error)

    def _patiently(self, action: Callable[[], None]) -> None:
        """Repeat an action while the broker is away. Raises BusError if it refuses, and at the end."""
        since: float | None = None
        while True:
            try:
                action()
            except BusAway as e:
                if self._closing:
                    raise
                if since is None:
                    since = monotonic()
                    log.warning("%s; nothing is lost, and all calls wait", e, extra={"event": "broker_away"})
                sleep(_PAUSE)
            else:
                break
        if since is not None:
            log.info("Kafka answers again after %.0f s", monotonic() - since + PATIENCE, extra={"event": "broker_back"})

    def _refuse(self) -> None:
        """Answer the entries left in the queue: they are not appended."""
        with suppress(Empty):
            while True:
                left = self._queue.get_nowait()
                _answer([] if left is None else [left], self._error or FrontierClosed("this worker is being stopped"))


def _answer(entries: Iterable[_QueuedEntry], error: BaseException | None) -> None:
    for entry in entries:
        if entry.done is not None:
            entry.done(None, error)
