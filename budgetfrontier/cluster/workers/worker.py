"""A worker: it shares the partitions of a crawl with others, and answers the calls of clients for those that it owns.

Two threads: this one reads the logs, and has the partitions' tables; the writer appends to the logs. Of a partition
that another worker claims, this one has a copy, until it is given away.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, Final

from msgspec.structs import replace

from budgetfrontier.bus.interface import LATER, SESSION, Bus, BusError, Received
from budgetfrontier.bus.streams import Stream
from budgetfrontier.cluster.directory.owners import Owner, WorkerDirectory
from budgetfrontier.cluster.log import entries
from budgetfrontier.cluster.log.entries import Claimed
from budgetfrontier.cluster.log.log_reading import LogGap
from budgetfrontier.cluster.log.partition_clock import PartitionClock
from budgetfrontier.cluster.log.state import FRONTIER
from budgetfrontier.cluster.log.writer import Writer
from budgetfrontier.cluster.partitions.fixed_settings import in_partition, refusal
from budgetfrontier.cluster.partitions.partition import Overtaken, Partition, WaitingCall
from budgetfrontier.cluster.partitions.partition_copy import PartitionCopy
from budgetfrontier.cluster.partitions.routing import Router
from budgetfrontier.cluster.snapshots.snapshot_taking import Taker
from budgetfrontier.cluster.workers.adopted_partitions import AdoptingConsumer, Adoption
from budgetfrontier.cluster.workers.call_queue import CallQueue
from budgetfrontier.cluster.workers.partition_opening import Opener, Restore
from budgetfrontier.errors import CorruptFrontier, FrontierError, NotOwner, SettingsError
from budgetfrontier.rules.run_history import SHARED_ANEW
from budgetfrontier.server.tasks import Done
from budgetfrontier.settings import Settings, policy_factory

GROUP: Final = "workers"
POLL: Final = 0.01
"""Seconds for which entries are waited for while nothing is going on, and after which each partition has its turn."""
POLL_SOON: Final = 0.002  # librdkafka waits for whole milliseconds, less than that: not at all below two
"""The same while clients call: calls that come meanwhile have to wait as long."""
CALM: Final = 0.5
"""Seconds after the last call from which on nothing is going on."""
MOST_ENTRIES: Final = 512
LOOK_EVERY: Final = 0.5
"""Seconds between two looks at what is not due in each turn: copies are committed, snapshots taken."""
AGAIN: Final = 60.0
"""Seconds after which a partition is tried again whose log did not fit its copy."""
PUBLISH_EVERY: Final = 600.0
"""Seconds after which the places of partitions are published again, for rows of a topic may be lost."""
AT_THE_END: Final = 2.0
"""Seconds for which a worker that stops waits until its last entries are in the logs."""

log = logging.getLogger("budgetfrontier.cluster")


def log_stream(crawl: str, partitions: int) -> Stream:
    """Return the stream that has the logs of a crawl's partitions."""
    return Stream(f"{crawl}-log", partitions, (GROUP,))


class ClusterWorker:
    """A worker of a crawl. `run` is to be called once, in any thread, and so are the other methods.

    `folder` has a folder for each partition that it ever had; `restore(partition, folder)` is called in a thread before
    one is opened, to bring a copy there if it has a later one, and so is `log_end(partition)`, for the offset after the
    last entry of its log. `snapshots` are taken of those that it owns. An error of a partition ends the worker: others
    take over; if its log has a gap, it alone is left closed. `session` is that of the bus; `log_id` returns the
    identity of the logs, None while it is not known, "" if they have none; `delete_before(partition, offset)` lets a
    broker delete the entries before an offset, if it does not delete those that are committed anyway.
    """

    def __init__(
        self,
        bus: Bus,
        directory: WorkerDirectory,
        settings: Settings,
        folder: Path,
        *,
        partitions: int,
        address: str,
        log_end: Callable[[int], int],
        restore: Restore | None = None,
        snapshots: Taker | None = None,
        session: float = SESSION,
        log_id: Callable[[], str | None] = str,
        delete_before: Callable[[int, int], None] = lambda partition, offset: None,
    ) -> None:
        self.crawl = settings.crawl
        self.partitions = partitions
        self.settings = settings
        self.folder = folder
        self.name = f"{address}#{os.getpid()}"
        self.address = address
        """Where clients reach this worker."""
        self._directory = directory
        self._bus = bus
        self._snapshots = snapshots
        self._session, self._log_id, self._delete_before = session, log_id, delete_before
        self._given = deque[int]()
        """Partitions that this worker was given just now."""
        self._copies: dict[int, PartitionCopy] = {}
        """The partitions that this worker has and does not own, or not yet."""
        self._owned: dict[int, Partition] = {}
        self._unusable: dict[int, str] = {}
        """By partition whose log does not fit its copy: why. They are tried again."""
        self._calls = CallQueue()
        self._stopping = threading.Event()
        self._opener = Opener(folder, settings.crawl, partitions, log_end, restore, self._stopping)
        self._suffix_list: str | None = None
        """The public suffix list of the crawl, if its queue assignment needs one."""
        self._called = self._next_round = self._again_at = 0.0
        """When a client has called last, and when each partition has its turn, whether anything has come or not."""
        self._publish_at = monotonic() + PUBLISH_EVERY
        self.on_applied: Callable[[], None] = lambda: None
        """Called when something was applied, after which there may be something to lease."""
        self._stream = log_stream(self.crawl, partitions)
        self._writer = Writer(bus, self._stream)
        self._adoption = Adoption(self.name, bus, self._stream, directory, self._log_id, self._opener.folder)
        self._router: Router | None = None

    def __repr__(self) -> str:
        return f"<ClusterWorker {self.name} of {self.crawl!r}: partitions {self.owned}>"

    # -- in any thread

    @property
    def owned(self) -> list[int]:
        """The partitions of which this is the owner, which answers calls."""
        return sorted(self._owned.copy())

    @property
    def ready_at(self) -> dict[int, float | None]:
        """By partition of which this is the owner: when something may be leased (`time.monotonic`); None: never."""
        return {number: one.ready_at for number, one in self._owned.copy().items()}

    def call(self, partition: int, method: str, arguments: bytes, done: Done) -> None:
        """Apply a call to a partition; `done(reply, error)` is called once its effect is in the log.

        The error is NotOwner if another worker has the partition, or gets it meanwhile: then it has none.
        """
        self._add(partition, WaitingCall(lambda owner: owner.call(method, arguments), done, len(arguments)))

    def append(self, partition: int, body: entries.Body, done: Done | None = None) -> None:
        """Append an entry to the log of any partition; `done(None, error)` is called once it is there."""
        self._writer.write(partition, entries.encode(body, crawl=self.crawl), done)

    def look(self, partition: int, work: Callable[[Partition], Any], done: Done) -> None:
        """Call `work(partition)` in the thread of the frontiers; `done` gets its result, once it is true, or its error.

        NotOwner if this is not the owner.
        """
        self._add(partition, WaitingCall(work, done, 0))

    def frontier_of(self, number: int) -> tuple[Path, float]:
        """Return the folder of the frontier of a partition, and the time of its broker. Raises NotOwner."""
        if (owner := self._owned.get(number)) is None:
            raise self._not_owner(number)
        return owner.folder / FRONTIER, owner.now()

    @property
    def router(self) -> Router:
        """The partitions of URIs, as all workers find them. Raises NotOwner before this has any partition."""
        if self._router is None:
            if not self._owned:
                raise NotOwner(f"the worker {self.name} has no partition of {self.crawl!r} yet")
            self._router = Router(self.settings, self.partitions, suffix_list=self._suffix_list)
        return self._router

    def check_owned(self, number: int) -> None:
        """Raise NotOwner unless this is the owner of a partition."""
        if number not in self._owned:
            raise self._not_owner(number)

    def stop(self) -> None:
        """Let `run` commit, give the partitions up, and return."""
        self._stopping.set()

    def close(self) -> None:
        """End a worker that was never run."""
        self._writer.close()
        self._adoption.close()

    @property
    def is_stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._stopping.is_set()

    # -- in the thread of the frontiers

    def run(self) -> None:
        """Apply entries and calls until `stop` is called. Raises what has closed a frontier, and BusError."""
        if (own := policy_factory.suffix_list(self.settings.frontier)) is not None:
            self._suffix_list = self._directory.suffix_list(own)
        next_look = monotonic() + LOOK_EVERY
        consumer = AdoptingConsumer(self._bus, self._stream, GROUP, self._assigned)
        try:
            while not self._stopping.is_set():
                self._turn(consumer)
                self._open_restored(consumer)
                if monotonic() >= next_look:
                    for copy in [*self._copies.values()]:
                        with self._damage(copy):
                            copy.commit()
                            self._claim(copy)
                    self._try_again(consumer)
                    self._publish_again()
                    positions = {number: one.position for number, one in self._owned.items()}
                    self._adoption.step(consumer, self._unusable, self._opener.waiting.copy(), positions, self._copies)
                    self._take_snapshots(consumer)
                    next_look = monotonic() + LOOK_EVERY
            self._end_runs(consumer)
        finally:
            self._close(consumer)

    def _turn(self, consumer: AdoptingConsumer) -> None:
        """Read entries, apply what may be applied, and append the changes of that."""
        is_calm = monotonic() > self._called + CALM
        received = consumer.poll(MOST_ENTRIES, POLL if is_calm else POLL_SOON)
        self._keep(consumer.partitions)
        while self._given:
            self._begin(self._given.popleft())
        by_partition: dict[int, list[Received]] = {}
        for entry in received:
            by_partition.setdefault(entry.partition, []).append(entry)
        for number, batch in by_partition.items():
            self._read(consumer, number, batch)
        concerned = by_partition.keys() | self._take_calls()
        is_round = monotonic() >= self._next_round
        if is_round:
            self._next_round = monotonic() + POLL
        for number, one in [*self._owned.items()]:
            if is_round or number in concerned or one.has_more:
                self._step(consumer, one)
        if concerned:
            self.on_applied()

    def _assigned(self, number: int) -> int:
        """Take note of a partition that this worker is given; it is read once its copy is open."""
        self._given.append(number)
        return LATER

    def _begin(self, number: int) -> None:
        """Let the copy of a partition be restored if need be; one that this worker had is opened again."""
        self._close_copy(number, "it was assigned anew")
        self._opener.begin(number)

    def _open_restored(self, consumer: AdoptingConsumer) -> None:
        for number, end in self._opener.restored():
            if number in consumer.partitions and number not in self._copies and number not in self._owned:
                self._open(consumer, number, end)

    def _open(self, consumer: AdoptingConsumer, number: int, end: int, *, claims_at: float = 0.0) -> None:
        """Open the copy of a partition, and read its log from the copy's place on.

        It is claimed once the log was read up to `end`, and it is time (`time.monotonic`).
        """
        copy = self._opener.open(number)
        if copy is None:  # it was damaged, and is restored
            return
        self._copies[number] = copy
        if (objection := self._adoption.objection(copy.place, end)) is not None:
            self._close_unusable(number, LogGap(objection))
            return
        copy.claims_at, copy.claims_behind, position = claims_at, end, copy.reading.position
        consumer.seek(number, position)
        self._claim(copy)
        log.info(
            "partition %d was opened at %d", number, position,
            extra={"event": "partition_opened", "partition": number, "position": position},
        )  # fmt: skip

    def _claim(self, copy: PartitionCopy) -> None:
        """Claim a partition that is not claimed, if it may be, unless this worker is being stopped.

        Raises SettingsError if it was begun with other settings, which are fixed.
        """
        if self.is_stopping or not copy.may_be_claimed():
            return
        begun_with = copy.settings
        if begun_with is not None and (reason := refusal(begun_with, in_partition(self.settings))) is not None:
            raise SettingsError(reason)
        if copy.claims_at:
            log.warning("partition %d is claimed again: its last claim was of a worker that has lost it", copy.number)
        copy.nonce = os.urandom(8)
        self.append(copy.number, Claimed(self.name, copy.nonce, self._log_id() or ""))

    def _keep(self, mine: Iterable[int]) -> None:
        """Close the partitions that belong to another worker now."""
        for number in (self._copies.keys() | self._owned.keys()) - set(mine):
            self._close_copy(number, f"partition {number} of {self.crawl!r} went to another worker")
            log.info(
                "partition %d went to another worker", number, extra={"event": "partition_lost", "partition": number}
            )

    def _close_copy(self, number: int, why: str) -> None:
        """Close a partition, if it is open: as of its last commit if this is its owner, whose run ends in the log."""
        if (owner := self._owned.get(number)) is not None:
            self._write(owner, owner.finish(SHARED_ANEW))
        self._lose(number, why)
        copy = self._copies.get(number)
        if copy is not None:
            with self._damage(copy):
                copy.commit()
            copy.close()
            self._copies.pop(number, None)

    def _lose(self, number: int, why: str) -> None:
        """Answer no calls for a partition any more, and drop what is not committed."""
        owner = self._owned.pop(number, None)
        if owner is not None:
            owner.drop(why)

    def _read(self, consumer: AdoptingConsumer, number: int, batch: list[Received]) -> None:
        copy, owner = self._copies.get(number), self._owned.get(number)
        try:
            if owner is not None:
                with self._damage(owner):
                    owner.read(batch, partial(self._bus.begins, self._stream, number))
            elif copy is not None:
                with self._damage(copy):
                    self._read_copy(copy, batch)
        except LogGap as e:
            self._close_unusable(number, e)
        except Overtaken as e:
            log.warning("%s", e, extra={"event": "partition_overtaken", "partition": number})
            self._lose(number, str(self._not_owner(number)))
            if not consumer.release(number):
                self._open(consumer, number, e.end, claims_at=monotonic() + self._session)

    def _read_copy(self, copy: PartitionCopy, batch: list[Received]) -> None:
        """Write the changes of entries; own the partition once this worker's claim was read."""
        number = copy.number
        epoch = copy.apply(batch, begins=partial(self._bus.begins, self._stream, number))
        if epoch is None:
            self._claim(copy)
            return
        place = copy.place
        copy.commit()
        copy.close()
        del self._copies[number]
        stamp = next(one.time for one in batch if one.offset == epoch)
        if log_id := self._log_id():
            place = replace(place, log=log_id)
        self._owned[number] = Partition(
            copy.folder, place, epoch, self.settings, PartitionClock(stamp), suffix_list=self._suffix_list,
            foreign=copy.reading.foreign,
        )  # fmt: skip

    def _step(self, consumer: AdoptingConsumer, owner: Partition) -> None:
        """Let a partition apply what it may, append what has changed, and read its log where it has to."""
        number, was_stored = owner.number, owner.is_stored
        owner.forwarding.confirm(self._writer.confirmed)
        with self._damage(owner):
            changed = owner.step()
        self._write(owner, changed)
        if owner.wanted is not None:
            consumer.seek(number, owner.wanted)
            owner.wanted = None
        if owner.is_stored and not was_stored:
            self._directory.publish(self._owner(owner, self.address))
            log.info("partition %d is claimed", number, extra={"event": "partition_claimed", "partition": number})
        ready_in = owner.ready_in()
        owner.ready_at = None if ready_in is None else monotonic() + ready_in

    def _write(self, owner: Partition, changed: Iterable[bytes]) -> None:
        for data in changed:
            self._writer.write(owner.number, data)
        owner.forwarding.send(self._writer.write)

    def _take_calls(self) -> set[int]:
        """Give the calls that have come to their partitions; return these."""
        called = set[int]()
        for number, call in self._calls.take():
            called.add(number)
            if (owner := self._owned.get(number)) is None:
                call.done(None, self._not_owner(number))
            else:
                owner.add(call)
        if called:
            self._called = monotonic()
        return called

    def _close_unusable(self, number: int, why: LogGap) -> None:
        """Leave a partition closed whose log does not fit its copy."""
        if number not in self._unusable:  # it is tried again, in vain: others are told in a notice
            log.error("%s; it is tried again every minute", why, extra={"event": "log_gap", "partition": number})
        self._lose(number, str(self._not_owner(number)))
        copy = self._copies.pop(number, None)
        if copy is not None:
            copy.close()
        self._unusable[number] = str(why)

    def _try_again(self, consumer: AdoptingConsumer) -> None:
        """Open partitions again whose log did not fit their copy: there may be another copy, or a later snapshot."""
        is_due = monotonic() >= self._again_at
        if is_due:
            self._again_at = monotonic() + AGAIN
        for number in [*self._unusable]:
            if number not in consumer.partitions or number in self._owned:
                del self._unusable[number]
            elif is_due and number not in self._copies:
                self._opener.begin(number)

    def _publish_again(self) -> None:
        """Say again from time to time which partitions this worker owns: what is read of it may have been deleted."""
        if monotonic() >= self._publish_at:
            self._publish_at = monotonic() + PUBLISH_EVERY
            self._directory.publish(*(self._owner(one, self.address) for one in self._owned.values() if one.is_stored))

    @contextmanager
    def _damage(self, part: Partition | PartitionCopy) -> Iterator[None]:
        """Set the copy of a partition aside if it is found to be damaged; it is rebuilt.

        By the next worker if this is its owner, which has answered calls with it: that raises the error.
        """
        try:
            yield
        except CorruptFrontier as e:
            self._lose(part.number, str(self._not_owner(part.number)))
            is_copy = self._copies.pop(part.number, None) is part
            if isinstance(part, PartitionCopy):
                part.close()
            self._opener.set_aside(part.number, e)
            if not is_copy:
                raise
            self._opener.begin(part.number)

    def _take_snapshots(self, consumer: AdoptingConsumer) -> None:
        """Take the snapshots that are due, and delete the log before the oldest one that is kept of each partition.

        The group's offset is where the log begins then. Raises CorruptFrontier if a copy was found to be damaged.
        """
        if self._snapshots is None:
            return
        positions = {number: one.place.position for number, one in self._owned.items()}
        folders = {number: one.folder for number, one in self._owned.items()}
        number, taken = self._snapshots.step(positions, folders, monotonic()) or (-1, None)
        if taken is None or number not in self._owned:
            return
        if taken.is_damaged:
            with self._damage(self._owned[number]):
                raise CorruptFrontier(taken.error)
        if number in consumer.partitions:
            try:
                consumer.commit({number: taken.oldest})
                self._delete_before(number, taken.oldest)
            except BusError as e:
                log.warning("the log before a snapshot is not deleted: %s", e)

    def _end_runs(self, consumer: AdoptingConsumer) -> None:
        """End the runs of the owned partitions, and commit them, if their last entries are in the logs soon."""
        deadline = monotonic() + AT_THE_END
        for one in self._owned.values():
            self._write(one, one.finish(f"the worker {self.name} was stopped"))
        while monotonic() < deadline and not all(one.is_settled for one in self._owned.values()):
            self._turn(consumer)

    def _close(self, consumer: AdoptingConsumer) -> None:
        given_up = [self._owner(one, "") for one in self._owned.values()]
        if self._snapshots is not None:
            self._snapshots.close()
        for number in [*self._owned]:
            with suppress(FrontierError, OSError):  # on a full disk: the others are to be given up all the same
                self._lose(number, f"the worker {self.name} is being stopped")
        for copy in self._copies.values():
            with suppress(FrontierError, OSError):
                copy.close()
        self._copies.clear()
        self._calls.end(f"the worker {self.name} is being stopped")
        try:
            consumer.close()
            self._directory.publish(*given_up)
        finally:
            self._writer.close()
            self._adoption.close()
            self._directory.close()

    # -- their parts

    def _add(self, number: int, call: WaitingCall) -> None:
        if number in self._owned:
            self._calls.put(number, call)
        else:
            call.done(None, self._not_owner(number))

    def _owner(self, one: Partition, address: str) -> Owner:
        return Owner(one.number, one.epoch, self.name, address, one.since, self.partitions, one.place.log)

    def _not_owner(self, number: int) -> NotOwner:
        return NotOwner(f"partition {number} of {self.crawl!r} is not with the worker at {self.address}, or no longer")
