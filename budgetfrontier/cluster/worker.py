"""A worker: it shares the partitions of a crawl with others, applies their logs, and answers the calls of clients.

Two threads: this one reads the log and owns the frontiers; the writer appends the calls of clients to it. A call is
answered once it was read back from the log and applied, so that it is never lost, and no worker that has lost a
partition to another can answer for it: its entries have no effect.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from time import monotonic, time
from typing import Any, Final

from budgetfrontier.bus.interface import LATER, SESSION, Bus, BusError, Consumer, Received
from budgetfrontier.bus.streams import Stream
from budgetfrontier.cluster import entries
from budgetfrontier.cluster.entries import Called, Claimed, Ticked
from budgetfrontier.cluster.log_continuity import LogGap, begun_again, other_log
from budgetfrontier.cluster.owners import Directory, Owner
from budgetfrontier.cluster.partition import AHEAD, Partition
from budgetfrontier.cluster.partition_opening import Opener, Restore
from budgetfrontier.cluster.read_queue import ReadQueue
from budgetfrontier.cluster.routing import Router
from budgetfrontier.cluster.snapshot_taking import Taker
from budgetfrontier.cluster.writer import Writer
from budgetfrontier.errors import CorruptFrontier, FrontierError, NotOwner, SettingsError
from budgetfrontier.server.tasks import Done
from budgetfrontier.settings import Settings, policy_factory

GROUP: Final = "workers"
POLL: Final = 0.02
"""Seconds for which entries are waited for, before other work is looked at."""
MOST_ENTRIES: Final = 512
COMMIT_EVERY: Final = 0.5
"""Seconds between two commits."""
AGAIN: Final = 60.0
"""Seconds after which a partition is tried again whose log did not fit its copy."""
AWAY: Final = 1.0
"""Seconds for which a commit waits for the broker, before other work is looked at."""

log = logging.getLogger("budgetfrontier.cluster")


def log_stream(crawl: str, partitions: int) -> Stream:
    """Return the stream that has the logs of a crawl's partitions."""
    return Stream(f"{crawl}-log", partitions, (GROUP,))


class ClusterWorker:
    """A worker of a crawl. `run` is to be called once, in any thread, and so are the other methods.

    `folder` has a folder for each partition that it ever had; `restore(partition, folder)` is called in a thread before
    one is opened, to bring a copy there if it has a later one. `snapshots` are taken of those that it owns. An error of
    a partition ends the worker: others take over; if its log has a gap, it alone is left closed. `session` is that of
    the bus; `log_id` returns the identity of the logs, "" if it is not known; `delete_before(partition, offset)` lets
    a broker delete the entries before an offset, if it does not delete those that are committed anyway.
    """

    def __init__(
        self,
        bus: Bus,
        directory: Directory,
        settings: Settings,
        folder: Path,
        *,
        partitions: int,
        address: str,
        restore: Restore | None = None,
        snapshots: Taker | None = None,
        session: float = SESSION,
        log_id: Callable[[], str] = str,
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
        self._open: dict[int, Partition] = {}
        self._claims: dict[int, bytes] = {}
        self._epochs: dict[int, int] = {}
        self._lock = threading.Lock()
        self._waiting: dict[int, dict[int, Done]] = {}
        """The calls that were appended and not applied yet, by partition and number."""
        self._numbers = count(1)
        self._looks = ReadQueue()
        self._failure: BaseException | None = None
        self._stopping = threading.Event()
        self._opener = Opener(folder, settings.crawl, partitions, restore, self._stopping)
        self._overtaken: dict[int, float] = {}
        """When the claims of other workers were read, by the partitions that this one has nevertheless."""
        self._ticked: dict[int, int] = {}
        """By partition: its `ticks` when it was last let go on by itself; as long as they are the same, that is due."""
        self._unusable: dict[int, float] = {}
        """By partition whose log has a gap: when it is tried again."""
        self.ready_at: dict[int, float | None] = {}
        """By partition of which this is the owner: the time from which something may be leased; None: never."""
        self.on_applied: Callable[[], None] = lambda: None
        """Called when entries were applied, after which there may be something to lease."""
        self._stream = log_stream(self.crawl, partitions)
        self._writer = Writer(bus, self._stream)
        self._router: Router | None = None

    def __repr__(self) -> str:
        return f"<ClusterWorker {self.name} of {self.crawl!r}: partitions {sorted(self._epochs)}>"

    # -- in any thread

    @property
    def owned(self) -> list[int]:
        """The partitions of which this is the owner, which answers calls."""
        return sorted(self._epochs)

    def call(self, partition: int, method: str, arguments: bytes, done: Done) -> None:
        """Append a call to the log of a partition; `done(reply, error)` is called once it was applied.

        The error is NotOwner if another worker has the partition, or gets it meanwhile.
        """
        with self._lock:
            epoch = self._epochs.get(partition)
            if epoch is not None:
                number = next(self._numbers)
                self._waiting.setdefault(partition, {})[number] = done
        if epoch is None:
            done(None, self._not_owner(partition))
            return
        try:
            self._append(partition, Called(epoch, number, method, arguments))
        except BusError:  # which ends this worker: others take its partitions over
            with self._lock:
                waits = self._waiting.get(partition, {}).pop(number, None) is not None
            if waits:
                done(None, self._not_owner(partition))

    def append(self, partition: int, body: entries.Body, done: Done | None = None) -> None:
        """Append an entry to the log of any partition; `done(None, error)` is called once it is there."""
        self._append(partition, body, done)

    def look(self, work: Callable[[], Any], done: Done) -> None:
        """Call `work()` in the thread of the frontiers, between two entries; `done` gets its result or its error."""
        self._looks.add(work, done)

    def partition(self, number: int) -> Partition:
        """Return a partition that is open here, for a look. Raises NotOwner."""
        self.check_owned(number)
        return self._open[number]

    @property
    def router(self) -> Router:
        """The partitions of URIs, as all workers find them. Raises NotOwner before this has any partition."""
        if self._router is None:
            if not self._epochs:
                raise NotOwner(f"the worker {self.name} has no partition of {self.crawl!r} yet")
            self._router = Router(self.settings, self.partitions, suffix_list=self._opener.suffix_list)
        return self._router

    def check_owned(self, number: int) -> None:
        """Raise NotOwner unless this is the owner of a partition."""
        if number not in self._epochs:
            raise self._not_owner(number)

    def stop(self) -> None:
        """Let `run` commit, give the partitions up, and return."""
        self._stopping.set()

    def close(self) -> None:
        """End a worker that was never run."""
        self._writer.close()

    @property
    def is_stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._stopping.is_set()

    # -- in the thread of the frontiers

    def run(self) -> None:
        """Apply entries until `stop` is called. Raises the error that has closed a frontier, and BusError."""
        if (own := policy_factory.suffix_list(self.settings.frontier)) is not None:
            self._opener.suffix_list = self._directory.suffix_list(own)
        next_commit = monotonic() + COMMIT_EVERY
        consumer = self._bus.consumer(self._stream, GROUP, start=self._assigned)
        try:
            while not self._stopping.is_set():
                received = consumer.poll(MOST_ENTRIES, POLL)
                if self._failure is not None:
                    raise self._failure
                self._keep(consumer.partitions)
                self._take(consumer, received)
                self._open_restored(consumer)
                self._looks.take()
                self._let_go_on()
                if monotonic() >= next_commit:
                    self._commit(self._open.values(), AWAY)
                    self._claim_again()
                    self._set_clocks()
                    self._try_again(consumer)
                    self._take_snapshots(consumer)
                    next_commit = monotonic() + COMMIT_EVERY
            self._commit(self._open.values(), AWAY)
        finally:
            self._close(consumer)

    def _assigned(self, number: int) -> int | None:
        """Open a partition that this worker is given, claim it, and return where to read its log from."""
        if self._failure is not None:
            return None
        try:
            partition = self._open.get(number) or self._opener.begin(number)
            return LATER if partition is None else self._begin(partition)
        except BaseException as e:  # which must not be raised in a callback of the consumer
            self._failure = e
            return None

    def _begin(self, partition: Partition) -> int:
        """Claim a partition that was opened; return where to read its log from, LATER if its copy is of another log."""
        number, position = partition.number, partition.state.position
        log_id = self._log_id()
        if log_id and partition.state.log and log_id != partition.state.log:
            self._close_unusable(partition, LogGap(other_log(partition.state, log_id)))
            return LATER
        self._open[number] = partition
        self._ticked.pop(number, None)
        self._claim(number)
        log.info(
            "partition %d was opened at %d", number, position,
            extra={"event": "partition_opened", "partition": number, "position": position},
        )  # fmt: skip
        return position

    def _open_restored(self, consumer: Consumer) -> None:
        for number in self._opener.restored():
            if number in consumer.partitions and number not in self._open:
                self._begin_reading(consumer, self._opener.open(number))

    def _begin_reading(self, consumer: Consumer, partition: Partition | None) -> None:
        if partition is not None and (position := self._begin(partition)) != LATER:
            consumer.seek(partition.number, position)

    def _claim(self, number: int) -> None:
        self._overtaken.pop(number, None)
        self._claims[number] = nonce = os.urandom(8)
        self._append(number, Claimed(self.name, nonce, self.settings.to_dict(), self._log_id()))

    def _set_clocks(self) -> None:
        """Claim partitions anew whose time is ahead of this worker's clock: they would wait for it to catch up."""
        now = time()
        for number in [*self._epochs]:
            if (ahead := self._open[number].state.time - now) > AHEAD:
                log.warning(
                    "the time of partition %d was %.0f s ahead of this worker's clock, and is set back: look at the "
                    "clocks of all workers",
                    number, ahead, extra={"event": "clock_ahead", "partition": number},
                )  # fmt: skip
                self._lose(number)
                self._claim(number)

    def _claim_again(self) -> None:
        """Claim partitions again whose last claim is that of a worker that has lost them, after a pause."""
        for number, since in [*self._overtaken.items()]:
            if monotonic() - since > self._session:
                log.warning("partition %d is claimed again: its last claim was of a worker that has lost it", number)
                self._claim(number)

    def _keep(self, mine: Iterable[int]) -> None:
        """Close the partitions that belong to another worker now."""
        for number in self._open.keys() - set(mine):
            self._lose(number)
            self._overtaken.pop(number, None)
            self._commit([self._open[number]], AWAY)
            self._open.pop(number).close()
            log.info(
                "partition %d went to another worker", number, extra={"event": "partition_lost", "partition": number}
            )

    def _lose(self, number: int) -> None:
        """Answer no calls for a partition any more."""
        with self._lock:
            self._epochs.pop(number, None)
            waiting = self._waiting.pop(number, {})
        self._claims.pop(number, None)
        self.ready_at.pop(number, None)
        for done in waiting.values():
            done(None, self._not_owner(number))

    def _take(self, consumer: Consumer, received: list[Received]) -> None:
        by_partition: dict[int, list[tuple[int, bytes]]] = {}
        for number, offset, data in received:
            by_partition.setdefault(number, []).append((offset, data))
        for number, batch in by_partition.items():
            if (partition := self._open.get(number)) is not None:
                self._apply(consumer, partition, batch)
        if received:
            self.on_applied()

    def _apply(self, consumer: Consumer, partition: Partition, batch: list[tuple[int, bytes]]) -> None:
        try:
            with self._damage(partition):
                self._apply_all(partition, batch)
            if partition.next_offset < batch[0][0]:  # the first claim was found: those before it are applied now
                consumer.seek(partition.number, partition.next_offset)
        except LogGap as e:
            self._close_unusable(partition, e)

    def _close_unusable(self, partition: Partition, gap: LogGap) -> None:
        """Leave a partition closed whose log does not fit its copy."""
        number = partition.number
        log.error("%s; it is tried again every minute", gap, extra={"event": "log_gap", "partition": number})
        self._lose(number)
        self._open.pop(number, None)
        partition.close()
        self._unusable[number] = monotonic() + AGAIN

    def _try_again(self, consumer: Consumer) -> None:
        """Open partitions again whose log did not fit their copy: there may be another copy, or a later snapshot."""
        for number, at in [*self._unusable.items()]:
            if number not in consumer.partitions or number in self._open:
                del self._unusable[number]
            elif monotonic() >= at:
                del self._unusable[number]
                self._begin_reading(consumer, self._opener.begin(number))

    def _let_go_on(self) -> None:
        """Append a `Ticked` entry for each partition with work of its own, one at a time."""
        now = time()
        for number in self._epochs:
            partition = self._open[number]
            if partition.goes_on_at() <= now and self._ticked.get(number) != partition.ticks:
                self._ticked[number] = partition.ticks
                self._append(number, Ticked(self._epochs[number]))

    def _apply_all(self, partition: Partition, batch: list[tuple[int, bytes]]) -> None:
        number = partition.number
        first, end, begins = batch[0][0], batch[-1][0] + 1, None
        if first < partition.next_offset:
            raise LogGap(begun_again(partition.state, first))
        if end - partition.next_offset != len(batch):  # some are missing, or are none
            begins = self._bus.begins(self._stream, number)
        while partition.next_offset < end:
            applied = partition.apply(batch, epoch=self._epochs.get(number), begins=begins)
            for each in applied:
                with self._lock:
                    done = self._waiting.get(number, {}).pop(each.number, None)
                if done is not None:
                    done(each.reply, each.error)
            for outgoing in partition.take_outgoing():
                self._append(outgoing.partition, outgoing.body)
            while partition.is_commit_due and not self._commit([partition], AWAY):
                if self._stopping.is_set():
                    return  # what was not committed is applied again
            if partition.next_offset < first:
                break
        self._look_at_claims(partition)
        if number in self._epochs:
            self.ready_at[number] = partition.ready_at()

    def _look_at_claims(self, partition: Partition) -> None:
        """Become the owner once this worker's own claim was applied; cease to be once another's was."""
        number, epoch = partition.number, partition.state.epoch
        nonce = self._claims.get(number, b"")
        if nonce in partition.refused:
            raise SettingsError(partition.refused[nonce])
        mine = partition.claims.get(nonce)
        if mine is not None and mine != epoch:
            self._lose(number)
            self._overtaken[number] = monotonic()
        elif mine is not None and self._epochs.get(number) != epoch:
            with self._lock:
                self._epochs[number] = epoch
            self._directory.publish(self._owner(number, epoch, self.address))
            log.info("partition %d is claimed", number, extra={"event": "partition_claimed", "partition": number})

    def _commit(self, partitions: Iterable[Partition], patience: float) -> bool:
        """Commit partitions, once their entries for others are in the logs of those; return whether they are."""
        partitions = list(partitions)
        if not self._writer.flush(patience):
            return False
        for partition in partitions:
            with self._damage(partition):
                partition.commit()
        return True

    @contextmanager
    def _damage(self, partition: Partition) -> Iterator[None]:
        """Set the copy of a partition aside if it is found to be damaged, so that the next worker rebuilds it."""
        try:
            yield
        except CorruptFrontier as e:
            partition.close()
            self._opener.set_aside(partition.number, e)
            raise

    def _take_snapshots(self, consumer: Consumer) -> None:
        """Take the snapshots that are due, and delete the log before the oldest one that is kept of each partition.

        The group's offset is where the log begins then. Raises CorruptFrontier if a copy was found to be damaged.
        """
        if self._snapshots is None:
            return
        positions = {number: self._open[number].state.position for number in self._epochs}
        folders = {number: self._open[number].folder for number in self._epochs}
        taken = self._snapshots.step(positions, folders, monotonic())
        if taken is None or taken.partition not in self._open:
            return
        if taken.damage is not None:
            with self._damage(self._open[taken.partition]):
                raise CorruptFrontier(taken.damage)
        if taken.partition in consumer.partitions:
            try:
                consumer.commit({taken.partition: taken.oldest})
                self._delete_before(taken.partition, taken.oldest)
            except BusError as e:
                log.warning("the log before a snapshot is not deleted: %s", e)

    def _close(self, consumer: Consumer) -> None:
        owned = self._epochs.copy()
        if self._snapshots is not None:
            self._snapshots.close()
        for number in [*self._open]:
            self._lose(number)
        for partition in self._open.values():
            with suppress(FrontierError, OSError):  # on a full disk: the others are to be given up all the same
                partition.close()
        self._open.clear()
        self._looks.end(f"the worker {self.name} is being stopped")
        try:
            consumer.close()
            self._directory.publish(*(self._owner(number, epoch, "") for number, epoch in owned.items()))
        finally:
            self._writer.close()
            self._directory.close()

    # -- their parts

    def _append(self, partition: int, body: entries.Body, done: Done | None = None) -> None:
        self._writer.write(partition, entries.encode(body, crawl=self.crawl, time=time()), done)

    def _owner(self, number: int, epoch: int, address: str) -> Owner:
        return Owner(number, epoch, self.name, address, time(), self.partitions)

    def _not_owner(self, number: int) -> NotOwner:
        return NotOwner(f"partition {number} of {self.crawl!r} is not with the worker at {self.address}, or no longer")
