"""A partition with its owner: a frontier that applies calls and requests, and what its log is to say of them.

The owner is ahead of its log: it applies a call, appends the rows that have changed, and answers once it has read them
back, with no other worker's claim before them. Until then nothing is committed, so that all of it can be thrown away:
`drop` aborts the open transaction of the tables, and the calls whose replies were held get an error. At most
`MOST_AHEAD` entries are on their way at a time; calls that come meanwhile are applied together in the next one. No
threads, no network.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import monotonic
from typing import Any, Final, NamedTuple

import msgspec

from budgetfrontier.bus.interface import Received
from budgetfrontier.cluster.log import entries, state
from budgetfrontier.cluster.log.entries import (
    Changes,
    Claimed,
    Found,
    Given,
    Message,
    Request,
    SliceRecalled,
    Steered,
)
from budgetfrontier.cluster.log.log_reading import Begins, LogReading, OwnerChanges, ReadEntry
from budgetfrontier.cluster.log.partition_clock import PartitionClock
from budgetfrontier.cluster.log.state import FRONTIER, LogPlace
from budgetfrontier.cluster.partitions.fixed_settings import in_partition, refusal
from budgetfrontier.cluster.partitions.held_replies import HeldReplies
from budgetfrontier.cluster.partitions.link_forwarding import LinkForwarding
from budgetfrontier.cluster.partitions.message_forwarding import MessageForwarding
from budgetfrontier.cluster.partitions.operator_commands import Commands
from budgetfrontier.cluster.partitions.quota_spending import QuotaSpending
from budgetfrontier.cluster.partitions.routing import Router
from budgetfrontier.core import protocol
from budgetfrontier.engine.bulk_finish import is_closed
from budgetfrontier.engine.disk_guard import LOOK_EVERY
from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.errors import NotOwner, SettingsError
from budgetfrontier.rules.run_history import WORKER
from budgetfrontier.server import frontier_calls
from budgetfrontier.server.tasks import Done
from budgetfrontier.settings import Settings
from budgetfrontier.storage import meta
from budgetfrontier.storage.reader import Reader

COMMIT_EVERY: Final = 0.5
"""Seconds between two commits."""
MOST_AHEAD: Final = 2
"""Entries with changes that may be on their way to the log and back."""
TOGETHER: Final = 4 << 20
"""Bytes of calls and requests from which on their changes are appended before more are applied."""
MOST_WAITING: Final = 16 << 20
"""Bytes of requests that were read and not applied: more of them are read again."""
PLACE_EVERY: Final = 64
"""Entries of the log after which its place is stored, if nothing was asked in them, and nothing committed."""
EXPIRY: Final = 5.0
"""Seconds after which a partition that may lease nothing more looks again for leases that have expired."""


class Overtaken(NotOwner):
    """Another worker has claimed the partition, before the offset `end` of its log."""

    def __init__(self, message: str, end: int) -> None:
        super().__init__(message)
        self.end = end


class WaitingCall(NamedTuple):
    """Work for the thread of a partition, and whom to tell its result or its error; the size is in bytes."""

    work: Callable[[Partition], Any]
    done: Done
    size: int


class Partition:
    """A partition of a crawl, owned by this worker since its claim at the offset `epoch`, open in this thread.

    `read` takes entries of its log, from `wanted` on; `add` takes calls. Each `step` applies what may be applied, and
    returns the entries that are to be appended to the log, in order; `forwarding` has those for other logs.
    """

    def __init__(
        self,
        folder: Path,
        place: LogPlace,
        epoch: int,
        settings: Settings,
        clock: PartitionClock,
        *,
        suffix_list: str | None = None,
        foreign: list[int] | None = None,
    ) -> None:
        """Open the frontier of a copy that has all changes before the claim. Raises what `Frontier.open` raises.

        Raises SettingsError for settings that cannot take the place of those with which the crawl was begun.
        `suffix_list` is the public suffix list of the crawl, if its queue assignment needs one; `foreign` is that of
        the reading of the copy.
        """
        self.folder, self.number, self.epoch, self.place = folder, place.partition, epoch, place
        self.since = clock.time()
        """When it was claimed, by the clock of the broker."""
        self.elsewhere = LinkForwarding(place.partition)
        self._clock, self._suffix_list = clock, suffix_list
        self._reading = LogReading(place, foreign)
        self._ahead = self._reading.at(epoch + 1, epoch)
        """The log from the place on, and from the own claim on, where the own entries are: the latter alone is read
        while the former has to wait for them."""
        self._is_ahead = False
        self.wanted: int | None = place.position
        """The offset from which the log has to be read now; None: it goes on as it does."""
        self._calls: deque[WaitingCall] = deque()
        self._requests: deque[ReadEntry] = deque()
        self._waiting_bytes = 0
        self._held = HeldReplies()
        self._taken = self._read_back = self._committed = 0
        """The numbers of the changes that were taken, that were read back, and that are in the last commit."""
        self._next_commit = 0.0
        self._next_look = monotonic() + LOOK_EVERY
        """When to look at the disk again: the opening has."""
        self._messages: list[tuple[int, msgspec.Raw]] = []
        self._is_place_due = True
        """Whether the place is to be stored with the next changes."""
        self.ready_at: float | None = None
        """When something may be leased, as of the last step (`time.monotonic`); None: never. For any thread."""
        self._router: Router | None = None
        self._decoders = {method.name: frontier_calls.decode(method) for method in protocol.METHODS}
        settings, path = in_partition(settings), folder / FRONTIER
        is_new = not (path / "data.mdb").is_file()
        if not is_new:
            with Reader(path) as reader:
                if (reason := refusal(reader.settings, settings)) is not None:
                    raise SettingsError(reason)
        self.frontier = Frontier.open(
            path, settings, clock=clock, keep_leases=True, program=WORKER, partition=self.number,
            suffix_list=suffix_list if is_new else None,
        )  # fmt: skip
        try:
            self._log = self.frontier.internals.changelog
            self.forwarding = MessageForwarding(place.partition, place.crawl, self._log.peers)
            self._commands = Commands(self.frontier)
            self.spending = QuotaSpending(self.frontier, place, self._send, is_new=is_new)
        except BaseException:  # one of its rows is damaged
            self.frontier.close()
            raise

    def __repr__(self) -> str:
        return f"<Partition {self.number} of {self.place.crawl!r} since {self.epoch} at {self.position}>"

    @property
    def position(self) -> int:
        """The offset of the next entry of the log, as far as it was read in order."""
        return self._reading.position

    def now(self) -> float:
        """Return the time of the broker, for any thread."""
        return self._clock.estimate()

    @property
    def _current(self) -> LogReading:
        """The reading with which `read` goes on."""
        return self._ahead if self._is_ahead else self._reading

    def heard(self, partition: int) -> tuple[int, int]:
        """Return the origin of the last message that has come from a partition; (-1, 0): none has."""
        return self._log.peers.heard(partition)

    def told(self, partition: int) -> tuple[int, int]:
        """Return the origin of the last message that was sent to a partition; (-1, 0): none was."""
        return self.forwarding.told(partition)

    @property
    def partitions(self) -> int:
        """The number of partitions of the crawl."""
        return self.place.partitions

    @property
    def is_settled(self) -> bool:
        """Whether all that was applied is in the log and on the disk."""
        return self._committed == self._taken and not self._log.has_changes

    @property
    def has_more(self) -> bool:
        """Whether `step` has left something that it may apply."""
        return bool(self._calls or self._requests) and not self._is_blocked()

    @property
    def is_stored(self) -> bool:
        """Whether readers find it on the disk, as this owner has opened it."""
        return self._committed > 0

    def ready_in(self) -> float | None:
        """Return the seconds until something may be leased; None: never, as things stand."""
        if self.spending.is_limited and self.spending.is_waiting:
            return EXPIRY if self.frontier.summary().in_process else None
        return self.frontier.internals.ready_in()

    # -- calls

    def add(self, call: WaitingCall) -> None:
        """Let a call be applied, after those before it."""
        self._calls.append(call)

    def call(self, method: str, arguments: bytes) -> bytes:
        """Apply a call of a client now; return its encoded reply. A call that is refused changes nothing."""
        decoded = self._decoders[method](msgspec.Raw(arguments))
        if method == protocol.LEASE.name:
            result: Any = self.spending.lease(decoded)
        else:
            if method == protocol.FINISH_MANY.name:
                parts = self.elsewhere.take(decoded, self._routes(), self.frontier.internals.leased)
                for number, found in parts:
                    self._send(number, Found(found))
            result = frontier_calls.CALLS[method](self.frontier, decoded)
        self.spending.applied(leased=method == protocol.LEASE.name)
        return protocol.encode(result)

    # -- the log

    def read(self, batch: Sequence[Received], begins: Begins = lambda: None) -> None:
        """Take entries of the log. Raises Overtaken, LogGap and OtherVersion."""
        if self.wanted is not None:
            return  # of before the seek
        self._clock.observe(batch[-1].time)
        for entry in self._current.read(batch, begins):
            if isinstance(entry.body, Claimed):
                if entry.offset > self.epoch:
                    raise Overtaken(f"partition {self.number} was claimed by {entry.body.worker}", entry.offset + 1)
            elif isinstance(entry.body, OwnerChanges):
                if entry.body.epoch == self.epoch:
                    self._read_back = max(self._read_back, entry.body.number)
                if not self._is_ahead:
                    self.forwarding.forward(entry.offset, entry.epoch, entry.body.changes)
            elif not self._is_ahead:
                if self._waiting_bytes > MOST_WAITING:
                    self._look_ahead(entry)
                    return
                self._requests.append(entry)
                self._waiting_bytes += entry.size

    def step(self) -> list[bytes]:
        """Apply what may be applied; return the entries with the changes of that. Commits when it is time."""
        if self._is_blocked():
            if not self._is_ahead and self._reading.position < self._ahead.position:
                self._look_ahead()
            self._release()
            return []
        if self._is_ahead:
            self._is_ahead, self._reading = False, self._reading.again()
            self.wanted = self._reading.position
        if self._is_commit_due():
            self._log.commit()
            self._committed, self._is_place_due = self._taken, True
            self._next_commit = monotonic() + COMMIT_EVERY
        self._apply_requests()
        if monotonic() >= self._next_look:
            self._next_look = monotonic() + LOOK_EVERY
            self.frontier.internals.look_at_disks()
        if self._commands.goes_on_at() <= self._clock.time() and not self._log.is_full:
            self._commands.go_on()
            self.spending.applied()
        self._apply_calls()
        taken = self._take()
        self._release()
        return taken

    def finish(self, reason: str) -> list[bytes]:
        """End the run of this owner, and return the last entries; once they were read back, `step` commits."""
        self._log.end(reason)
        self._next_commit = 0.0
        return self._take()

    def drop(self, why: str) -> None:
        """Throw away what is not committed, and refuse the calls that wait for it; the copy is as of the last commit.

        After an error that has closed the frontier, too.
        """
        if not is_closed(self.frontier):
            self._log.drop(why)
        error = NotOwner(why)
        self._held.refuse(error)
        while self._calls:
            self._calls.popleft().done(None, error)

    # -- their parts

    def _is_blocked(self) -> bool:
        """Return whether nothing may be applied before own entries were read back."""
        ahead = self._taken - self._read_back
        is_due = self._log.is_full or monotonic() >= self._next_commit
        return ahead >= MOST_AHEAD or (ahead > 0 and is_due)

    def _is_commit_due(self) -> bool:
        is_time = self._log.is_full or monotonic() >= self._next_commit
        return self._committed < self._taken == self._read_back and is_time and not self._log.has_changes

    def _look_ahead(self, entry: ReadEntry | None = None) -> None:
        """Read on where the own entries are; the log from here on, or from an entry on, is read later."""
        if entry is not None:
            self._reading = self._reading.at(entry.offset, entry.epoch)
        later = self._ahead if self._ahead.begins > self._reading.begins else self._reading
        self._is_ahead, self._ahead = True, later.again()
        self.wanted = self._ahead.position

    def _release(self) -> None:
        """Give the replies that hold: all, if there is nothing that they could wait for."""
        is_all = self._taken == self._read_back and not self._log.has_changes
        self._held.release(self._taken + 1 if is_all else self._read_back)

    def _apply_requests(self) -> None:
        size = 0
        while self._requests and size < TOGETHER and not self._log.is_full:
            entry = self._requests[0]
            assert not isinstance(entry.body, Claimed | OwnerChanges)
            size += entry.size
            self._apply(entry.body)
            self._requests.popleft()
            self._waiting_bytes -= entry.size
            self._is_place_due = True

    def _apply_calls(self) -> None:
        size = 0
        while self._calls and size < TOGETHER and not self._log.is_full:
            work, done, bytes_ = self._calls.popleft()
            size += bytes_
            try:
                reply, error = work(self), None
            except Exception as e:  # a call that is refused changes nothing
                if is_closed(self.frontier):
                    self._held.hold(self._taken + 1, done, None, NotOwner(f"partition {self.number} was closed"))
                    raise
                reply, error = None, e
            self._held.hold(self._taken + 1, done, reply, error)

    def _apply(self, request: Request) -> None:
        """Apply a request of another partition, or of an operator."""
        everything = False
        if isinstance(request, Steered):
            self._commands.take(request)
        elif isinstance(request, Given):
            for number, steered in request.steered(self.partitions).items():
                if number == self.number:
                    self._commands.take(steered)
                else:
                    self._send(number, steered)
        elif request.origin <= self._log.peers.heard(request.source):
            return  # it came before
        else:
            self._log.peers.hear(request.source, request.origin)
            everything = isinstance(request.message, SliceRecalled) and request.message.everything
            self._hear(request.source, request.message)
        self.spending.applied(everything=everything)

    def _hear(self, source: int, message: Message) -> None:
        if isinstance(message, Found):
            self.frontier.internals.admit(message.uris, found=True)
        elif isinstance(message, Steered):
            self._commands.take(message)
        else:
            self.spending.heard(source, message)

    def _send(self, partition: int, message: Message) -> None:
        self._messages.append((partition, entries.encode_message(message)))

    def _take(self) -> list[bytes]:
        """Return the entries with all changes since the last time."""
        self._commands.write()
        if not (self._log.has_changes or self._messages):
            return []
        self.spending.write()
        place = self._place_now()
        if self._is_place_due or place.position >= self.place.position + PLACE_EVERY:
            self.place, self._is_place_due = place, False
            self._log.write(meta.PLACE, state.encode(place))
        self.forwarding.store()
        changes, self._messages = Changes(self._log.take(), self._messages), []
        self._taken += 1
        return list(self._encoded(changes))

    def _encoded(self, changes: Changes) -> Iterator[bytes]:
        return entries.encode_changes(changes, epoch=self.epoch, number=self._taken, crawl=self.place.crawl)

    def _place_now(self) -> LogPlace:
        """Return from where a copy has to read the log: from what is not applied, or may not be in the others' logs."""
        candidates = [(self._reading.begins, self._reading.epoch)]
        if self._requests:
            candidates.append((self._requests[0].offset, self._requests[0].epoch))
        if (first := self.forwarding.first()) is not None:
            candidates.append(first)
        position, epoch = min(candidates)
        return msgspec.structs.replace(self.place, position=position, epoch=epoch)

    def _routes(self) -> Router:
        if self._router is None:
            self._router = Router(self.frontier.settings, self.partitions, suffix_list=self._suffix_list)
        return self._router
