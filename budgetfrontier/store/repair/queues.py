"""The rebuild of queues: their records, each in its place among the indexes, and the totals; it follows the URIs.

The state and place that a record gives are kept as far as they agree with the URIs that were counted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import inf
from typing import Any

from msgspec.structs import replace

from budgetfrontier.model import CrawlState, QueueRecord, QueueState
from budgetfrontier.rules import crawl_states, queue_keys, queue_states
from budgetfrontier.rules.queue_states import EXHAUSTED, IN_PROCESS, INACTIVE, READY, RETIRED, SNOOZED
from budgetfrontier.settings import Settings
from budgetfrontier.store import keys
from budgetfrontier.store.records import Counters, encode, save_queue
from budgetfrontier.store.repair.new_tables import NewTables
from budgetfrontier.store.repair.notes import Notes
from budgetfrontier.store.repair.pages import Salvage

LAST_ORDINAL = 1 << 48  # more than any frontier gives out; a higher one is damage, and so are positions beyond these:
FIRST_POSITION, LAST_POSITION = 1 << 24, 3 << 62
LAST_EPOCH = (1 << 24) - (1 << 16)  # as the engine numbers its leases, with room for those to come


@dataclass
class Found:
    """What the rebuild of the other tables has found, by queue id."""

    settings: Settings = field(default_factory=Settings)
    stored: Counters | None = None
    """The totals as they were, None if they are lost."""
    names: dict[int, str] = field(default_factory=dict)
    made: set[int] = field(default_factory=set)
    """Queues whose record is lost, or never was."""
    queued: Counter[int] = field(default_factory=Counter)
    future: Counter[int] = field(default_factory=Counter)
    out: Counter[int] = field(default_factory=Counter)
    reserved: Counter[int] = field(default_factory=Counter)
    landed: Counter[int] = field(default_factory=Counter)
    ordinal: int = 0
    last_lease: int = 0
    last_audit: int = 0
    last_command: int = 0


class QueueRebuild:
    """One rebuild of all queues and the totals."""

    def __init__(self, source: Salvage, tables: NewTables, found: Found, notes: Notes, *, now: float) -> None:
        self._source = source
        self._tables = tables
        self._found = found
        self._notes = notes
        self._now = now
        self._late: list[QueueRecord] = []
        """Queues that go to the back of where they belong."""
        self._totals = Counters()

    def run(self) -> None:
        """Write all queues, then the totals."""
        self._begin_totals()
        self._write_queues()
        self._write_totals()

    def _write_queues(self) -> None:
        for key, value in self._source.records(keys.QUEUES):
            queue = readable(key, value)
            number = keys.u32.unpack(key)[0] if queue is not None else 0
            if queue is None or self._found.names.get(number) != queue.queue or number in self._found.made:
                continue  # set aside before
            if self._tables.get(keys.QUEUES, key) is not None:
                self._notes.set_aside(keys.QUEUES, key, value, "there is another one of the same key")
                continue
            if lost := save_queue(value)[1]:
                self._notes.say(f"queue {queue.queue}: {', '.join(lost)} cannot be read, and begin anew")
            before = replace(queue)
            self._count(queue, number)
            self._put(queue, known=queue.state is before.state)
            self._report(before, queue)
        made = self._from_indexes()
        for number in sorted(self._found.made):
            found = made.get(number)
            queue = found or QueueRecord(self._found.names[number], number, INACTIVE)
            if len(self._found.made) == 1 and self._found.stored is not None:  # the others have not spent it
                queue.expenditure = max(self._found.stored.expenditure - self._totals.expenditure, 0)
            if found is None and self._found.out[number]:
                queue.state = IN_PROCESS
            self._count(queue, number)
            self._put(queue, known=found is not None and queue.state is not EXHAUSTED)
            queued = f"{queue.queued} URI{'' if queue.queued == 1 else 's'}"
            self._notes.say(f"queue {queue.queue}: {queue.state}, with {queued}, {queue.expenditure} spent")
        for queue in self._late:
            self._put_last(queue)
        self._compare_indexes()

    def _compare_indexes(self) -> None:
        """Note how the indexes differ from what they were."""
        for table in _INDEXES:
            kept = wrong = 0
            for key, value in self._source.records(table):
                if self._tables.get(table, key) == value:
                    kept += 1
                else:
                    wrong += 1
            made = self._tables.entries(table) - kept
            if wrong or made:
                self._notes.say(f"{table}: {made:,} row{'' if made == 1 else 's'} made anew, {wrong:,} left out")

    def _count(self, queue: QueueRecord, number: int) -> None:
        """Put into a record what was counted, and correct what contradicts it."""
        queue.id = number
        queue.queued, queue.future = self._found.queued[number], self._found.future[number]
        queue.out, queue.reserved = self._found.out[number], self._found.reserved[number]
        queue.landed = self._found.landed[number]
        mend(queue, self._now)

    def _from_indexes(self) -> dict[int, QueueRecord]:
        """Return records for the queues whose own is lost, from what the indexes say of them."""
        found: dict[int, QueueRecord] = {}

        def add(number: int, state: QueueState, **known: Any) -> None:
            if number in self._found.made:
                found[number] = QueueRecord(self._found.names[number], number, state, **known)

        if self._found.made:
            for key, value in self._source.records(keys.ACTIVE):
                if (len(key), len(value)) == (8, 4):
                    add(keys.u32.unpack(value)[0], READY, position=keys.u64.unpack(key)[0])
            for key, value in self._source.records(keys.INACTIVE):
                if (len(key), len(value)) == (10, 4):
                    precedence, position = keys.fifo.unpack(key)
                    add(keys.u32.unpack(value)[0], INACTIVE, precedence=precedence, position=position)
            for key, value in self._source.records(keys.RETIRED):
                if (len(key), len(value)) == (8, 4):
                    add(keys.u32.unpack(value)[0], RETIRED, position=keys.u64.unpack(key)[0])
            for key, _ in self._source.records(keys.SNOOZED):
                if len(key) == keys.timed.size:
                    wake_time, number = keys.timed.unpack(key)
                    add(number, SNOOZED, wake_time=wake_time, block=wake_time)  # nobody knows whether it is a block
        return found

    def _put(self, queue: QueueRecord, *, known: bool) -> None:
        """Put a queue where it was, if that is known and free, else note it for the back."""
        if queue.state is SNOOZED:
            self._tables.put(keys.SNOOZED, keys.timed.pack(queue.wake_time, queue.id), b"")
        elif queue.state in _BACK_OF:
            lowest = FIRST_POSITION if queue.state is READY else 0
            if not known or not lowest < queue.position < LAST_POSITION or not self._tables.put(*_index_row(queue)):
                self._late.append(queue)
                self._tables.put(keys.QUEUES, keys.u32.pack(queue.id), b"")  # until then, for there may be another one
                return
        self._write(queue)

    def _put_last(self, queue: QueueRecord) -> None:
        back = _BACK_OF[queue.state]
        queue.position = getattr(self._totals, back) + 1
        self._tables.put(*_index_row(queue))
        self._write(queue)
        self._notes.say(f"queue {queue.queue}: {queue.state}, at the back")

    def _write(self, queue: QueueRecord) -> None:
        """Write the record of a queue, and count it."""
        totals, state = self._totals, queue.state
        queue.row = queue.position if state is READY else 0
        self._tables.put(keys.QUEUES, keys.u32.pack(queue.id), encode(queue), overwrite=True)
        self._tables.put(keys.QUEUE_IDS, queue.queue.encode(), keys.u32.pack(queue.id))
        totals.queues += 1
        totals.expenditure += queue.expenditure
        totals.future += queue.future
        totals.settings_revision = max(totals.settings_revision, queue.revision)
        if state is not EXHAUSTED:
            name = state.lower()
            setattr(totals, name, getattr(totals, name) + 1)
        if state is RETIRED:
            totals.future_retired += queue.future
            totals.retired_by_name += queue.by_name
        else:
            totals.queued += queue.queued
        if state in _BACK_OF:
            back = _BACK_OF[state]
            setattr(totals, back, max(getattr(totals, back), queue.position))
        if state is READY:
            totals.ring_front = min(totals.ring_front, queue.position)

    def _report(self, before: QueueRecord, after: QueueRecord) -> None:
        changes = [
            f"{name} {getattr(before, name)} is {getattr(after, name)}"
            for name in _REPORTED_FIELDS
            if getattr(before, name) != getattr(after, name)
        ]
        if changes:
            self._notes.say(f"queue {after.queue}: {', '.join(changes)}")

    # -- totals

    def _begin_totals(self) -> None:
        stored = self._found.stored
        if stored is None:
            return
        self._totals = totals = replace(stored, **dict.fromkeys(_COUNTED, 0))
        if not FIRST_POSITION < totals.ring_front <= totals.ring_back < LAST_POSITION:
            totals.ring_front, totals.ring_back = Counters().ring_front, Counters().ring_back
        for name in "fifo_back", "retired_back":
            if not 0 <= getattr(totals, name) < LAST_POSITION:
                setattr(totals, name, 0)

    def _write_totals(self) -> None:
        totals, stored = self._totals, self._found.stored
        totals.leases = sum(self._found.out.values())
        totals.ordinal = max(totals.ordinal if 0 <= totals.ordinal <= LAST_ORDINAL else 0, self._found.ordinal)
        totals.queue_id = max(totals.queue_id, max(self._found.names, default=0))
        totals.epoch = max(totals.epoch, self._found.last_lease >> keys.EPOCH_SHIFT)
        totals.audit = max(totals.audit, self._found.last_audit)
        totals.command = max(totals.command, self._found.last_command)
        if stored is None and self._found.names:
            totals.scheduled = self._tables.entries(keys.SEEN)
            totals.epoch = max(totals.epoch, int(self._now) >> 8)  # more runs than there were: one each four minutes
            totals.settings_revision += 1
            totals.state, totals.pause_reason = CrawlState.PAUSED, "repair"
            self._notes.say(
                "totals: lost, and made anew but for how attempts ended; nobody knows whether the crawl was paused, so "
                "now it is: `budgetfrontier resume JOB`"
            )
        for name in "revived_upto", "revive_upto":
            setattr(totals, name, min(getattr(totals, name), totals.retired_back))
        for name in "regrade_position", "regrade_upto":
            setattr(totals, name, min(getattr(totals, name), totals.fifo_back))
        totals.regrade_precedence = min(totals.regrade_precedence, queue_states.WORST_PRECEDENCE)
        self._settle()
        for name in (*_COUNTED, *_GIVEN_OUT, "state") if stored else ():
            if getattr(totals, name) != getattr(stored, name):
                self._notes.say(f"totals: {name} {getattr(stored, name)} is {getattr(totals, name)}")
        self._tables.put(keys.META, b"counters", encode(totals))

    def _settle(self) -> None:
        """Set the crawl's state to what follows from the totals, by the engine's rules."""
        totals = self._totals
        before = totals.state
        changing = totals.revive_upto > 0 or totals.regrade_upto > 0  # queues have yet to learn of other settings
        empty = not changing and crawl_states.is_empty(
            queued=totals.queued,
            leases=totals.leases,
            future=totals.future,
            future_retired=totals.future_retired,
        )
        totals.state = crawl_states.next_crawl_state(
            before,
            scheduled=totals.scheduled,
            leases=totals.leases,
            empty=empty,
            busy=self._tables.get(keys.META, b"command") is not None,
            pause_at_finish=self._found.settings.frontier.pause_at_finish,
        )
        if totals.state is CrawlState.PAUSED and before not in (CrawlState.PAUSED, CrawlState.PAUSING):
            totals.pause_reason = crawl_states.FINISH


_BACK_OF = {READY: "ring_back", INACTIVE: "fifo_back", RETIRED: "retired_back"}
"""The states in which queues wait in an order, and which of the totals numbers the last of it."""

_REPORTED_FIELDS = (
    "id", "state", "queued", "out", "reserved", "landed", "future", "precedence", "expenditure", "penalties", "charges",
    "errors", "wake_time", "block", "position",
)  # fmt: skip
_COUNTED = (
    "queued", "expenditure", "future", "future_retired", "queues", "ready", "in_process", "snoozed", "inactive",
    "retired", "retired_by_name", "leases",
)  # fmt: skip
_GIVEN_OUT = (
    "epoch", "ordinal", "queue_id", "ring_front", "ring_back", "fifo_back", "retired_back", "audit", "command",
    "settings_revision",
)  # fmt: skip
_INDEXES = (keys.QUEUE_IDS, keys.ACTIVE, keys.SNOOZED, keys.INACTIVE, keys.RETIRED)


def _index_row(queue: QueueRecord) -> tuple[str, bytes, bytes]:
    """Return the index row of a queue that waits: table, key, value."""
    number = keys.u32.pack(queue.id)
    if queue.state is INACTIVE:
        return keys.INACTIVE, keys.fifo.pack(queue.precedence, queue.position), number
    return keys.ACTIVE if queue.state is READY else keys.RETIRED, keys.u64.pack(queue.position), number


def mend(queue: QueueRecord, now: float) -> None:
    """Correct what is impossible in a record: its numbers, and its state with the URIs that were counted."""
    queue.penalties = max(queue.penalties, 0)
    queue.expenditure = max(queue.expenditure, queue.penalties)
    queue.charges, queue.errors = max(queue.charges, 0), max(queue.errors, 0)
    queue.precedence = min(max(queue.precedence, 0), queue_states.WORST_PRECEDENCE)
    if not 0 <= queue.wake_time < inf:
        queue.wake_time = 0
    if not 0 <= queue.block < inf:
        queue.block = 0
    queue.state = queue_states.nearest_possible(queue, now)


def readable(key: bytes, value: bytes) -> QueueRecord | None:
    """Return the record of a queue, None if it is none. Fields that cannot be read have their defaults."""
    try:
        queue, _ = save_queue(value)
        name = queue.queue.encode()
    except ValueError:
        return None
    return queue if len(key) == keys.u32.size and queue_keys.queue_key_of(name) is not None else None
