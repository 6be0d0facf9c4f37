"""A partition: a frontier that applies the entries of its log, in order, each exactly once.

Nothing else changes it, so that the same entries give the same frontier in any process. It is committed now and then,
with the position in the log in the same transaction; after a kill, the entries since then are applied again. No
threads, no network.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from hashlib import blake2b
from math import inf
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from budgetfrontier.clock import ManualClock
from budgetfrontier.cluster import entries, state
from budgetfrontier.cluster.entries import (
    BadEntry,
    Called,
    Claimed,
    Found,
    Given,
    NewerEntry,
    Sent,
    SliceRecalled,
    Steered,
    Ticked,
    Told,
)
from budgetfrontier.cluster.fixed_settings import in_partition, refusal
from budgetfrontier.cluster.link_forwarding import LinkForwarding
from budgetfrontier.cluster.log_continuity import LogGap, gap
from budgetfrontier.cluster.operator_commands import Commands
from budgetfrontier.cluster.quota_spending import QuotaSpending
from budgetfrontier.cluster.routing import Router
from budgetfrontier.cluster.state import PartitionState
from budgetfrontier.core import protocol
from budgetfrontier.engine.atomic import AtomicBatch
from budgetfrontier.engine.bulk_finish import is_closed
from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.errors import FrontierError, SettingsError
from budgetfrontier.rules.run_history import WORKER
from budgetfrontier.server import frontier_calls
from budgetfrontier.settings import Settings
from budgetfrontier.storage.keys import RANDOM_BITS
from budgetfrontier.storage.reader import Reader

_PARTITION_BITS: Final = 12
_ENTRY_BITS: Final = 24
_AFTER_FOUND: Final = 1 << 16
"""More than the entries with URIs that one entry can cause."""
AHEAD: Final = 5.0
"""Seconds by which the time of a partition may be ahead of its owner's clock; a claim sets it back if it is by more."""
EXPIRY: Final = 5.0
"""Seconds after which a partition that may lease nothing more looks again for leases that have expired."""


def first_entry(nonce: bytes) -> int:
    """Return the number added to the offsets of a log in the ids of leases, from the nonce of its first claim."""
    return int.from_bytes(blake2b(nonce, digest_size=8).digest()) >> 64 - RANDOM_BITS


def first_lease(partition: int, offset: int) -> int:
    """Return the id of the first lease that an entry gives: no other entry of the crawl gives it."""
    return offset << _ENTRY_BITS | partition << _PARTITION_BITS


def partition_of_lease(lease_id: int) -> int:
    """Return the partition that has given a lease."""
    return lease_id >> _PARTITION_BITS & (1 << _ENTRY_BITS - _PARTITION_BITS) - 1


class AppliedCall(NamedTuple):
    """A call of this worker that was applied: its number, and its encoded reply, or the error that it has raised."""

    number: int
    reply: Any
    error: Exception | None


class Outgoing(NamedTuple):
    """An entry for the log of a partition, which may be the one that sends it."""

    partition: int
    body: Told


_T = TypeVar("_T")


class Partition:
    """One partition of a crawl, in a folder of its own, open in this thread.

    `apply` takes entries, `commit` makes them durable. `outgoing` has entries for partitions since it was taken last:
    they have to be in those partitions' logs before `commit` is called, and may then be there twice.
    """

    def __init__(
        self, folder: Path, crawl: str, partition: int, partitions: int, *, suffix_list: str | None = None
    ) -> None:
        """Open the partition as of its last commit; the first claim creates it. Raises what `Frontier.open` raises.

        `suffix_list` is the public suffix list of the crawl, if its queue assignment needs one.
        """
        self.folder = folder
        self._suffix_list = suffix_list
        self.number = partition
        self.outgoing: list[Outgoing] = []
        self.claims: dict[bytes, int] = {}
        """The claims that were applied since it was opened: the epoch of each by its nonce."""
        self.refused: dict[bytes, str] = {}
        """Those that had no effect, because of their settings: why, by the nonce."""
        self.ticks = 0
        """The entries that let it go on by itself, since it was opened."""
        self.elsewhere = LinkForwarding(partition)
        self._frontier: Frontier | None = None
        self._batch: AtomicBatch | None = None
        self._router: Router | None = None
        self._decoders = {method.name: frontier_calls.decode(method) for method in protocol.METHODS}
        self._clock = ManualClock()
        self.state = PartitionState(crawl, partition, partitions)
        self._offset = self._sent = 0
        """The entry that is applied, and how many messages of the spending it has sent."""
        self._is_waiting = False
        self._looked_at = self._committed = 0
        """The offsets after the last entry in which a first claim was looked for, and after the last commit."""
        shutil.rmtree(self._new, ignore_errors=True)  # left by a kill during its creation
        if (self._path / "data.mdb").is_file():
            with Reader(self._path) as reader:
                note = reader.note()
            if note is not None:
                self.state = _checked(state.decode(note), self.state, folder)
            self._clock.set(self.state.time)
            self._committed = self.state.position
            self._open(None)
        self.spending = QuotaSpending(self.state, self._send)
        self._commands = Commands(self.state)

    def __repr__(self) -> str:
        return f"<Partition {self.number} of {self.state.crawl!r} at {self.state.position}>"

    @property
    def _path(self) -> Path:
        return self.folder / "frontier"

    @property
    def _new(self) -> Path:
        return self.folder / "frontier.new"

    @property
    def frontier(self) -> Frontier:
        """The frontier, to be read only. There is none before the first claim."""
        assert self._frontier is not None
        return self._frontier

    @property
    def exists(self) -> bool:
        """Whether the partition was ever claimed."""
        return self._frontier is not None

    @property
    def next_offset(self) -> int:
        """The offset of the entry that `apply` takes next; once it has found the first claim, that is the first one."""
        return self._looked_at if self._frontier is None else self.state.position

    @property
    def is_commit_due(self) -> bool:
        """Whether `apply` waits for a commit, or as much is in memory as is usually committed at a time."""
        return self._batch is not None and (self._batch.full or self._is_waiting)

    def ready_at(self) -> float | None:
        """Return the time from which something may be leased; None: never, as things stand."""
        if self._frontier is None:
            return None
        now = self._clock.time()
        if self.spending.is_limited and self.spending.is_waiting(self._frontier):
            return now + EXPIRY if self._frontier.summary().in_process else None
        ready_in = self._frontier.next_ready_in()
        return None if ready_in is None else now + ready_in

    def goes_on_at(self) -> float:
        """Return the time from which it has something to do by itself, with a `Ticked` entry; infinity: never."""
        if self._frontier is None:
            return inf
        return 0.0 if self._commands.has_work() else self._frontier.internals.goes_on_at()

    # -- the log

    def apply(
        self, batch: Sequence[tuple[int, bytes]], *, epoch: int | None = None, begins: int | None = None
    ) -> list[AppliedCall]:
        """Apply entries with their offsets; return the results of the calls of an epoch, this worker's.

        Entries that were applied before are passed over, and nothing of those after `next_offset` is: before the
        first claim, entries are only searched for it, since it has the settings that those before it need. It stops
        before a claim with other settings or an earlier time, with which the frontier is opened anew, until what was
        applied before is committed. Offsets may be left out, as those of a transaction's control records are, if the
        log has all entries from `begins` on. Raises NewerEntry before anything of such an entry is applied, LogGap if
        entries are missing, and what closes a frontier: then the partition is to be opened again.
        """
        applied: list[AppliedCall] = []
        if self._frontier is None and (not self._find_claim(batch, begins) or batch[0][0] > self.state.position):
            return applied
        for offset, data in batch:
            if offset < self.state.position:
                continue
            if offset > self.state.position:
                self._check_gap(self.state.position, offset, begins)
            try:
                time, body = entries.decode(data, crawl=self.state.crawl)
            except BadEntry:
                self.state.rejected += 1
            else:
                if self._batch is not None and self._opens_anew(offset, time, body):
                    self._is_waiting = True
                    break
                self._apply(offset, time, body, applied if epoch is not None and _is_of(body, epoch) else None)
            self.state.position = offset + 1
            if self.is_commit_due:
                break
        return applied

    def commit(self) -> None:
        """Commit the applied entries with the position; without new ones, nothing is written."""
        if self._frontier is None or self._committed == self.state.position:
            return
        batch = self._begun()
        batch.note = state.encode(self.state)
        self._batch, self._is_waiting = None, False
        batch.__exit__(None, None, None)
        self._committed = self.state.position

    def close(self) -> None:
        """Close the frontier as of its last commit; entries applied since are dropped, and applied again later."""
        frontier, self._frontier, self._batch = self._frontier, None, None
        if frontier is not None:
            frontier.close()

    def take_outgoing(self) -> list[Outgoing]:
        """Return the entries for partitions since the last call."""
        taken, self.outgoing = self.outgoing, []
        return taken

    # -- entries

    def _find_claim(self, batch: Sequence[tuple[int, bytes]], begins: int | None) -> bool:
        """Look for the first claim, and create the frontier with its settings; return whether it was found."""
        for offset, data in batch:
            if offset < self._looked_at:
                continue
            if offset > self._looked_at:
                self._check_gap(self._looked_at, offset, begins)
            try:
                time, body = entries.decode(data, crawl=self.state.crawl)
            except BadEntry:
                pass  # counted when it is applied
            else:
                if isinstance(body, Claimed):
                    self._create(time, body, self._settings_of(offset, body))
                    return True
            self._looked_at = offset + 1
        return False

    def _check_gap(self, position: int, offset: int, begins: int | None) -> None:
        """Raise LogGap if the offsets between those of two entries were some of entries that the log has lost."""
        if begins is None or begins > position:
            raise LogGap(gap(self.state, offset))

    def _apply(self, offset: int, time: float, body: entries.Body, applied: list[AppliedCall] | None) -> None:
        self._offset, self._sent = offset, 0
        if isinstance(body, Claimed):
            self._claim(offset, time, body)
        else:
            if self._advances_time(body):
                self._set_time(max(self.state.time, time))
            self._take(offset, body, applied)

    def _advances_time(self, body: entries.Body) -> bool:
        """Return whether an entry advances the time: those of the owner and of operators do."""
        is_owners = isinstance(body, Called | Ticked) and body.epoch == self.state.epoch
        return is_owners or isinstance(body, Steered | Given | Sent)

    def _set_time(self, time: float) -> None:
        self.state.time = time
        self._clock.set(time)

    def _take(
        self, offset: int, body: Called | Steered | Given | Ticked | Told, applied: list[AppliedCall] | None = None
    ) -> None:
        self._begun()
        self.frontier.internals.replica.begin_entry(first_lease(self.number, self.state.first_entry + offset))
        leased = everything = False
        if isinstance(body, Called):
            leased = body.method == protocol.LEASE.name and body.epoch == self.state.epoch
            self._call(offset, body, applied)
        elif isinstance(body, Steered):
            self._commands.take(self.frontier, body)
        elif isinstance(body, Given):
            self._send_command(body)
        elif isinstance(body, Ticked):
            self.ticks += 1
            self._commands.go_on(self.frontier)
        elif body.origin <= self.state.heard.get(body.source, (-1, 0)):
            self.state.repeated += len(body.uris) if isinstance(body, Found) else 0
            return
        else:
            self.state.heard[body.source] = body.origin
            if isinstance(body, Found):
                self.frontier.schedule_many(body.uris)  # type: ignore[arg-type]  # None is INVALID
            elif isinstance(body, Sent):
                self._commands.take(self.frontier, body.steered)
            else:
                self.spending.heard(body)
                everything = isinstance(body, SliceRecalled) and body.everything
        self.spending.applied(self.frontier, leased=leased, everything=everything)

    def _opens_anew(self, offset: int, time: float, body: entries.Body) -> bool:
        return isinstance(body, Claimed) and (
            self._settings_of(offset, body) != self.frontier.settings or self._is_earlier(time)
        )

    def _is_earlier(self, time: float) -> bool:
        """Return whether a claim sets the time back, since the clock of an owner before was ahead."""
        return time < self.state.time - AHEAD

    def _settings_of(self, offset: int, claim: Claimed) -> Settings:
        try:
            return in_partition(Settings.from_dict(claim.settings))
        except SettingsError as e:
            raise NewerEntry(
                f"partition {self.number} of {self.state.crawl!r}: the worker {claim.worker} has claimed it at offset "
                f"{offset} with settings that this worker cannot take ({e}): give this one the release and the "
                "modules of the other"
            ) from e

    def _claim(self, offset: int, time: float, claim: Claimed) -> None:
        settings = self._settings_of(offset, claim)
        reason = refusal(self.frontier.settings, settings)
        if reason is not None:
            self.refused[claim.nonce] = reason
            return
        if settings != self.frontier.settings or self._is_earlier(time):
            self.frontier.close()
            self._set_time(time if self._is_earlier(time) else max(self.state.time, time))
            self._open(settings)
        else:
            self._set_time(max(self.state.time, time))
        self._begun()
        self.spending.claimed(self.frontier)
        self.state.epoch, self.state.owner = offset, claim.worker
        self.state.log = claim.log or self.state.log
        self.claims[claim.nonce] = offset

    def _call(self, offset: int, call: Called, applied: list[AppliedCall] | None) -> None:
        if call.epoch != self.state.epoch:
            self.state.void += 1
            return
        try:
            result = self._result(offset, call)
            reply = None if applied is None else protocol.encode(result)  # as it is now, before other entries change it
        except Exception as e:  # a call that is refused changes nothing
            if self._frontier is None or is_closed(self._frontier):
                raise
            if applied is not None:
                applied.append(AppliedCall(call.number, None, e))
        else:
            if applied is not None:
                applied.append(AppliedCall(call.number, reply, None))

    def _result(self, offset: int, call: Called) -> Any:
        frontier = self.frontier
        arguments = self._decoders[call.method](msgspec.Raw(call.arguments))
        if call.method == protocol.FINISH_MANY.name:
            parts = self.elsewhere.take(arguments, self._routes(), frontier.internals.leased)
            for place, (number, part) in enumerate(parts):
                self._add_outgoing(number, Found(self.number, (offset, place), part))
        elif call.method == protocol.LEASE.name:
            return self.spending.lease(frontier, arguments)
        return frontier_calls.CALLS[call.method](frontier, arguments)

    def _send_command(self, given: Given) -> None:
        """Apply a command to several partitions here, and send it to the others."""
        for number, steered in given.steered(self.state.partitions).items():
            if number == self.number:
                self._commands.take(self.frontier, steered)
            else:
                self._send(number, Sent, steered)

    def _send(self, partition: int, kind: Callable[..., Told], *fields: Any) -> None:
        """Send an entry of the treasurer or to it, after the URIs that the same entry has found for the partition."""
        origin = self._offset, _AFTER_FOUND + self._sent
        self._sent += 1
        self._add_outgoing(partition, kind(self.number, origin, *fields))

    def _add_outgoing(self, partition: int, body: Told) -> None:
        self.outgoing.append(Outgoing(partition, body))
        self.state.told[partition] = body.origin

    # -- the frontier

    def _begun(self) -> AtomicBatch:
        """Return the batch in progress, begun if need be."""
        if self._batch is None:
            self._batch = self.frontier.atomic().__enter__()
        return self._batch

    def _open(self, settings: Settings | None) -> None:
        self._frontier = Frontier.open(
            self._path, settings, clock=self._clock, keep_leases=True, program=WORKER, replicated=True
        )
        self._router = None

    def _create(self, time: float, claim: Claimed, settings: Settings) -> None:
        """Create the frontier as of before its first entry, with its note, in one atomic step."""
        self._set_time(time)
        self.state.log, self.state.first_entry = claim.log, first_entry(claim.nonce)
        self._new.mkdir(parents=True)
        new = Frontier.open(
            self._new, settings, clock=self._clock, keep_leases=True, program=WORKER, replicated=True,
            suffix_list=self._suffix_list,
        )  # fmt: skip
        self.spending.claimed(new)
        with new.atomic(note=state.encode(self.state)):
            pass
        new.close()
        self._new.rename(self._path)
        self._open(None)

    def _routes(self) -> Router:
        if self._router is None:
            self._router = Router(self.frontier.settings, self.state.partitions, suffix_list=self._suffix_list)
        return self._router


def _is_of(body: entries.Body, epoch: int) -> bool:
    return isinstance(body, Called) and body.epoch == epoch


def _checked(found: PartitionState, wanted: PartitionState, folder: Path) -> PartitionState:
    """Return the state found in a folder. Raises FrontierError if it is that of another partition."""
    have, want = ((s.crawl, s.partition, s.partitions) for s in (found, wanted))
    if have == want:
        return found
    if have[:2] == want[:2]:
        advice = f"the number is fixed when a crawl begins: set cluster.partitions to {have[2]}, or name another crawl"
    else:
        advice = "give another folder, or the crawl's own name"
    raise FrontierError(
        f"{folder} is partition {have[1]} of {have[2]} of the crawl {have[0]!r}, not {want[1]} of {want[2]} of "
        f"{want[0]!r}: {advice}"
    )
