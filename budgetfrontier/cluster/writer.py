"""The writer of logs: a thread that appends entries, in order, as fast as the broker takes them."""

from __future__ import annotations

import threading
from queue import SimpleQueue

from budgetfrontier.bus.interface import Bus, BusError
from budgetfrontier.bus.streams import Stream
from budgetfrontier.service.tasks import Done

_Item = tuple[int, bytes, Done | None]


class Writer:
    """Appends entries to the logs of partitions. All methods may be called in any thread."""

    def __init__(self, bus: Bus, stream: Stream) -> None:
        self._bus, self._stream = bus, stream
        self._queue: SimpleQueue[_Item | threading.Event | None] = SimpleQueue()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._main, name="writer of logs", daemon=True)
        self._thread.start()

    def write(self, partition: int, data: bytes, done: Done | None = None) -> None:
        """Append an entry; `done(None, None)` is called once the broker has it. Raises BusError if one has failed."""
        if self._error is not None:
            raise self._error
        self._queue.put((partition, data, done))

    def flush(self) -> None:
        """Return once the broker has all that was written before. Raises BusError."""
        reached = threading.Event()
        self._queue.put(reached)
        while not reached.wait(0.5) and self._thread.is_alive():
            pass
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Append what is left, and end the thread."""
        self._queue.put(None)
        self._thread.join()

    def _main(self) -> None:
        producer = self._bus.producer(self._stream)
        ended = False
        while not ended:
            items = [self._queue.get()]
            while not self._queue.empty():
                items.append(self._queue.get())
            reached: list[Done | threading.Event] = []
            try:
                for item in items:
                    if item is None:
                        ended = True
                    elif isinstance(item, threading.Event):
                        reached.append(item)
                    else:
                        partition, data, done = item
                        producer.send(data, partition=partition)
                        if done is not None:
                            reached.append(done)
                producer.flush()
            except BusError as e:
                self._error = e
                ended = True
            for each in reached:
                if isinstance(each, threading.Event):
                    each.set()
                else:
                    each(None, self._error)
        try:
            producer.close()
        except BusError as e:
            self._error = self._error or e
