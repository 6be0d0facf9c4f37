"""Adoption of partitions: by the worker with the latest copy, if the one that its group has given it to has none.

An adopted partition is read besides those of the group, until another worker claims it, or the group gives it to this
one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from time import monotonic

from budgetfrontier.bus.interface import Bus, BusError, Consumer, Received, Start
from budgetfrontier.bus.streams import Stream
from budgetfrontier.cluster.directory import copy_offers
from budgetfrontier.cluster.directory.copy_offers import CopyNotice, CopyOffers
from budgetfrontier.cluster.directory.owners import WorkerDirectory
from budgetfrontier.cluster.log.log_reading import begun_again, gap, other_log
from budgetfrontier.cluster.log.state import FRONTIER, LogPlace, place_in
from budgetfrontier.errors import FrontierError

log = logging.getLogger("budgetfrontier.cluster")


class AdoptingConsumer:
    """A consumer of a group, and one for each adopted partition: together they are one consumer."""

    def __init__(self, bus: Bus, stream: Stream, group: str, start: Start) -> None:
        self._bus, self._stream, self._group_name, self._start = bus, stream, group, start
        self._group = bus.consumer(stream, group, start=start)
        self._adopted: dict[int, Consumer] = {}

    def __repr__(self) -> str:
        return f"<AdoptingConsumer of {sorted(self.partitions)}, with {sorted(self._adopted)} adopted>"

    @property
    def partitions(self) -> frozenset[int]:
        """The partitions that belong to this consumer as of its last poll, and those that it has adopted."""
        return self._group.partitions | self._adopted.keys()

    def adopt(self, partition: int) -> bool:
        """Read a partition from the next poll on, unless it belongs to this consumer; return whether it does now."""
        if partition in self.partitions:
            return False
        self._adopted[partition] = self._bus.consumer(
            self._stream, self._group_name, partitions=(partition,), start=self._start
        )
        return True

    def release(self, partition: int) -> bool:
        """Read an adopted partition no more; return False for one that was not adopted."""
        consumer = self._adopted.pop(partition, None)
        if consumer is not None:
            with suppress(BusError):
                consumer.close()
        return consumer is not None

    def poll(self, count: int, timeout: float) -> list[Received]:
        """Return up to `count` messages of each consumer. Raises BusError."""
        received = self._group.poll(count, timeout)
        for partition in self._group.partitions & self._adopted.keys():
            self.release(partition)
        for consumer in self._adopted.values():
            received += consumer.poll(count, 0.0)
        return received

    def seek(self, partition: int, offset: int) -> None:
        """Go on with the message of an offset. Raises BusError."""
        self._adopted.get(partition, self._group).seek(partition, offset)

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Commit offsets of the group; those of adopted partitions are its next worker's to commit. Raises BusError."""
        own = {number: offset for number, offset in offsets.items() if number not in self._adopted}
        if own:
            self._group.commit(own)

    def close(self) -> None:
        """Leave the group, and read nothing more. Raises BusError."""
        for partition in [*self._adopted]:
            self.release(partition)
        self._group.close()


class Adoption:
    """Searches for copies that this worker lacks, and offers those that it has, by the rules of `copy_offers`.

    A thread reads and publishes notices until it is closed, since a broker may be slow to answer.
    """

    def __init__(
        self,
        worker: str,
        bus: Bus,
        stream: Stream,
        directory: WorkerDirectory,
        log_id: Callable[[], str | None],
        folder: Callable[[int], Path],
    ) -> None:
        """`log_id` returns the identity of the logs, `folder` that of a partition in this worker's folder."""
        self._bus, self._stream, self._directory = bus, stream, directory
        self._log_id, self._folder = log_id, folder
        self._offers = CopyOffers(worker)
        self._found: Collection[CopyNotice] | None = None
        """The notices that were read last, until a step has looked at them."""
        self._said: SimpleQueue[CopyNotice] = SimpleQueue()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._main, name="copies", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"<Adoption: {self._offers!r}>"

    def objection(self, place: LogPlace, end: int | None = None) -> str | None:
        """Return why a copy does not fit the log of its partition, which ends at `end`; None if it seems to."""
        log_id = self._log_id()
        if log_id and place.log and log_id != place.log:
            return other_log(place, log_id)
        if end is not None and end < place.position:
            return begun_again(place, place.position, f"ends at {end}")
        try:
            begins = self._bus.begins(self._stream, place.partition)
        except BusError:  # what is missing is found when the log is read
            return None
        return None if begins is None or begins <= place.position else gap(place, place.position, begins)

    def step(
        self,
        consumer: AdoptingConsumer,
        lacking: Mapping[int, str],
        waiting: Mapping[int, str],
        owned: Mapping[int, int],
        opened: Collection[int],
    ) -> None:
        """Search for copies of the partitions that are `lacking`, offer others, and adopt those that are best here.

        Operators are told why they are lacking, and why this worker is `waiting` for others.
        `owned` are the positions of partitions that this worker owns; those that are `opened` may become its own.
        """
        found, self._found = self._found, None
        if found is None:
            return

        def position(number: int) -> int | None:
            if number in owned:
                return owned[number]
            return None if number in lacking or number in opened else self._position(number)

        said, taken = self._offers.step(monotonic(), lacking, found, position, waiting)
        for notice in said:
            self._said.put(notice)
        for number in taken:
            if consumer.adopt(number):
                log.warning(
                    "partition %d is adopted: the worker that it was given to has no copy that fits its log, and this "
                    "one has the latest", number, extra={"event": "partition_adopted", "partition": number},
                )  # fmt: skip

    def close(self) -> None:
        """End the thread."""
        self._closed.set()
        self._thread.join()

    def _main(self) -> None:
        while not self._closed.wait(copy_offers.EVERY):
            with suppress(BusError):
                while not self._said.empty():
                    self._directory.publish_copies(self._said.get())
                self._found = [*self._directory.copies()]

    def _position(self, number: int) -> int | None:
        """Return the position of the copy in this worker's folder; None if there is none, or none that fits the log."""
        try:
            place = place_in(self._folder(number) / FRONTIER)
        except FrontierError:
            return None
        return None if place is None or self.objection(place) is not None else place.position
