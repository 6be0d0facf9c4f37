"""The rebuild of queues: their records, the indexes, and the totals, after the URIs have been rebuilt.

State and position of a record are kept as far as they are consistent with the URIs that were counted.
"""

from __future__ import annotations

from math import inf
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from budgetfrontier.core.model import CrawlState, QueueRecord, QueueState
from budgetfrontier.core.vocabulary import ANSWERS
from budgetfrontier.rules import crawl_states, queue_keys, queue_states, queued_totals
from budgetfrontier.rules.queue_states import EXHAUSTED, IN_PROCESS, INACTIVE, INELIGIBLE, READY, RETIRED, SNOOZED
from budgetfrontier.storage import keys
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.records import Counters, salvage_queue, times_of
from budgetfrontier.storage.repair.findings import LAST_ID, LAST_ORDINAL, Findings
from budgetfrontier.storage.repair.group_rebuild import GroupRebuild
from budgetfrontier.storage.repair.record_copies import RecordCopies
from budgetfrontier.storage.turn_order import INDEXED

FIRST_POSITION, LAST_POSITION = 1 << 24, 1 << 61  # with room for later ones among the values of a `KeyPosition`


class QueueRebuild:
    """The rebuild of all queues and the totals."""

    def __init__(self, copies: RecordCopies, found: Findings, *, now: float) -> None:
        self._source, self._tables, self._notes = copies.source, copies.tables, copies.notes
        self._findings = found
        self._now = now
        self._to_append: list[QueueRecord] = []
        """Queues to append at the back of their FIFO, the ring or the list of retired queues."""
        self._totals = Counters()
        self._groups = GroupRebuild(copies)

    def run(self) -> None:
        """Write all queues and their groups, then the totals."""
        self._begin_totals()
        self._groups.read()
        self._write_queues()
        self._write_totals()

    def _write_queues(self) -> None:
        for key, value in self._source.records(keys.QUEUES):
            queue = decode_readable(key, value)
            number = keys.u32.unpack(key)[0] if queue is not None else 0
            if queue is None or self._findings.names.get(number) != queue.queue or number in self._findings.made:
                continue  # set aside already
            if self._tables.get(keys.QUEUES, key) is not None:
                self._notes.set_aside(keys.QUEUES, key, value, "there is another one with the same key")
                continue
            if lost := salvage_queue(value)[1]:
                self._notes.note_change(f"queue {queue.queue}: {', '.join(lost)} cannot be read, set to default")
            before = replace(queue)
            self._count(queue, number)
            self._put(queue, known=queue.state is before.state)
            self._report(before, queue)
        made = self._from_indexes()
        for number in sorted(self._findings.made):
            found = made.get(number)
            queue = found or QueueRecord(self._findings.names[number], number, INACTIVE)
            if len(self._findings.made) == 1 and self._findings.stored is not None:  # the rest of the expenditure
                queue.expenditure = max(self._findings.stored.expenditure - self._totals.expenditure, 0)
            if found is None and self._findings.out[number]:
                queue.state = IN_PROCESS
            self._count(queue, number)
            self._put(queue, known=found is not None and queue.state is not EXHAUSTED)
            queued = f"{queue.queued} URI{'' if queue.queued == 1 else 's'}"
            self._notes.note_change(f"queue {queue.queue}: {queue.state}, with {queued}, {queue.expenditure} spent")
        for queue in self._to_append:
            self._append(queue)
        self._groups.write(self._totals)
        self._compare_indexes()

    def _compare_indexes(self) -> None:
        for table in _INDEXES:
            kept = wrong = 0
            for key, value in self._source.records(table):
                if self._tables.get(table, key) == value:
                    kept += 1
                else:
                    wrong += 1
            made = self._tables.entries(table) - kept
            if wrong or made:
                self._notes.note_change(f"{table}: {made:,} row{'' if made == 1 else 's'} added, {wrong:,} dropped")

    def _count(self, queue: QueueRecord, number: int) -> None:
        """Store the counts in a record, and correct fields that contradict them."""
        queue.id = number
        queue.queued, queue.future = self._findings.queued[number], self._findings.future[number]
        queue.out, queue.reserved = self._findings.out[number], self._findings.reserved[number]
        queue.landed = self._findings.landed[number]
        queue.urls, queue.completed = self._findings.urls[number], self._findings.completed[number]
        queue.bytes = max(queue.bytes, self._findings.fetched_bytes.get(queue.queue, 0))
        queue.charges = max(queue.charges, self._findings.attempts.get(number, 0))
        correct(queue, self._now)
        if queue.state in (INACTIVE, INELIGIBLE):
            floor = self._findings.settings.frontier.precedence_floor
            queue.state = queue_states.while_waiting(queue.precedence, floor)
        self._groups.check(queue)

    def _from_indexes(self) -> dict[int, QueueRecord]:
        """Return records for queues that lost their own, made from their entries in the indexes."""
        found: dict[int, QueueRecord] = {}

        def add(number: int, state: QueueState, **known: Any) -> None:
            if number in self._findings.made:
                found[number] = QueueRecord(self._findings.names[number], number, state, **known)

        if self._findings.made:
            for key, value in self._source.records(keys.ACTIVE):
                if (len(key), len(value)) == (8, 4):
                    add(keys.u32.unpack(value)[0], READY, position=keys.u64.unpack(key)[0])
            for key, value in self._source.records(keys.INACTIVE):
                if (len(key), len(value)) == (10, 4):
                    precedence, position = keys.fifo.unpack(key)
                    add(keys.u32.unpack(value)[0], INACTIVE, precedence=precedence, position=position)
            for state in INELIGIBLE, RETIRED:
                for key, value in self._source.records(INDEXED[state]):
                    if (len(key), len(value)) == (8, 4):
                        add(keys.u32.unpack(value)[0], state, position=keys.u64.unpack(key)[0])
            for key, value in self._source.records(keys.PARKED):
                if (len(key), len(value)) == (keys.parked.size, keys.u32.size):
                    group, position = keys.parked.unpack(key)
                    add(keys.u32.unpack(value)[0], SNOOZED, group=group, parked=position)
            for key, _ in self._source.records(keys.SNOOZED):
                if len(key) == keys.timed.size:
                    wake_time, number = keys.timed.unpack(key)
                    add(number, SNOOZED, wake_time=wake_time, block=wake_time)  # it may have been a block
        return found

    def _put(self, queue: QueueRecord, *, known: bool) -> None:
        """Put a queue at its old position, if that is known and free; otherwise it is appended later."""
        if queue.parked:
            self._groups.park(queue)
        elif queue.state is SNOOZED:
            self._tables.put(keys.SNOOZED, keys.timed.pack(queue.wake_time, queue.id), b"")
        elif queue.state in _BACK_OF:
            lowest = FIRST_POSITION if queue.state is READY else 0
            if not known or not lowest < queue.position < LAST_POSITION or not self._tables.put(*_index_row(queue)):
                self._to_append.append(queue)
                self._tables.put(keys.QUEUES, keys.u32.pack(queue.id), b"")  # reserves the key
                return
        self._write(queue)

    def _append(self, queue: QueueRecord) -> None:
        back = _BACK_OF[queue.state]
        queue.position = getattr(self._totals, back) + 1
        self._tables.put(*_index_row(queue))
        self._write(queue)
        self._notes.note_change(f"queue {queue.queue}: {queue.state}, at the back")

    def _write(self, queue: QueueRecord) -> None:
        """Write the record of a queue, and add it to the totals."""
        totals, state = self._totals, queue.state
        queue.row = queue.position if state is READY else 0
        self._tables.put(keys.QUEUES, keys.u32.pack(queue.id), encode(queue), overwrite=True)
        self._tables.put(keys.QUEUE_IDS, queue.queue.encode(), keys.u32.pack(queue.id))
        totals.queues += 1
        totals.expenditure += queue.expenditure
        totals.penalties += queue.penalties
        totals.bytes += queue.bytes
        totals.future += queue.future
        totals.urls += queue.urls
        totals.completed += queue.completed
        totals.url_queues += queue.urls > 0
        totals.active_url_queues += queue.urls > queue.completed
        totals.settings_revision = max(totals.settings_revision, queue.revision)
        if state is not EXHAUSTED:
            name = state.lower()
            setattr(totals, name, getattr(totals, name) + 1)
        queued, future_retired = queued_totals.share(queue, state)
        totals.queued += queued
        totals.future_retired += future_retired
        if state is RETIRED:
            totals.retired_by_name += queue.by_name
        if state in _BACK_OF:
            back = _BACK_OF[state]
            setattr(totals, back, max(getattr(totals, back), queue.position))
        if state is READY:
            totals.ring_front = min(totals.ring_front, queue.position)
        self._groups.count(queue)

    def _report(self, before: QueueRecord, after: QueueRecord) -> None:
        if changes := _changes(before, after):
            self._notes.note_change(f"queue {after.queue}: {', '.join(changes)}")

    # -- totals

    def _begin_totals(self) -> None:
        stored = self._findings.stored
        if stored is None:
            return
        self._totals = totals = replace(stored, **dict.fromkeys(_COUNTED, 0))
        if not FIRST_POSITION < totals.ring_front <= totals.ring_back < LAST_POSITION:
            totals.ring_front, totals.ring_back = Counters().ring_front, Counters().ring_back
        for name in "fifo_back", "ineligible_back", "retired_back":
            if not 0 <= getattr(totals, name) < LAST_POSITION:
                setattr(totals, name, 0)

    def _write_totals(self) -> None:
        totals, stored = self._totals, self._findings.stored
        totals.leases = sum(self._findings.out.values())
        totals.ordinal = max(totals.ordinal if 0 <= totals.ordinal <= LAST_ORDINAL else 0, self._findings.ordinal)
        totals.queue_id = max(totals.queue_id, max(self._findings.names, default=0))
        totals.epoch = max(totals.epoch, self._findings.last_lease >> keys.EPOCH_SHIFT)
        totals.removed = self._findings.removed
        totals.dead_prerequisites = self._findings.dead_prerequisites
        totals.audit = max(totals.audit, self._findings.last_audit)
        totals.command = max(totals.command, self._findings.last_command)
        totals.seeds = max(totals.seeds if 0 <= totals.seeds <= LAST_ORDINAL else 0, self._findings.last_seed)
        _correct_times(totals)
        totals.rankings = max(totals.rankings, self._findings.rankings)
        totals.highest_degree = max(totals.highest_degree, totals.lowest_degree)
        totals.seed_fates = dict.fromkeys(totals.seed_fates, 0) | dict(self._findings.seed_fates)
        for name in ANSWERS:
            setattr(totals, name, self._findings.answers[name])
        if stored is None and self._findings.names:
            totals.scheduled = self._tables.entries(keys.SEEN)
            totals.other_expenditure = totals.expenditure
            totals.epoch = max(totals.epoch, int(self._now) >> 8)  # more than the runs so far: one each four minutes
            totals.settings_revision += 1
            totals.state, totals.pause_reason = CrawlState.PAUSED, "repair"
            self._notes.note_change(
                "totals: lost, and counted again, except for the outcomes of attempts; the crawl may have been "
                "paused, so it is paused now: `budgetfrontier resume JOB` continues it"
            )
        elif stored is not None:
            _divide_expenditure(totals, stored.expenditure)
        totals.found = min(totals.found, totals.scheduled)
        of_prerequisites = totals.prerequisites_succeeded + totals.prerequisites_disregarded
        totals.prerequisites = max(totals.prerequisites, of_prerequisites)
        parts = totals.prerequisites_succeeded + sum(totals.error_answers.values())
        totals.succeeded = max(totals.succeeded, parts, *self._findings.successes.values())
        totals.failed = max(totals.failed, max(self._findings.errors.values(), default=0) - totals.given_up)
        for name in "revived_upto", "revive_upto":
            setattr(totals, name, min(getattr(totals, name), totals.retired_back))
        for name in "lifted_upto", "lift_upto":
            setattr(totals, name, min(getattr(totals, name), totals.ineligible_back))
        totals.regrade_position = min(totals.regrade_position, totals.fifo_back)
        totals.regrade_upto = min(totals.regrade_upto, max(totals.fifo_back, min(totals.lift_upto, 1)))
        totals.regrade_precedence = min(totals.regrade_precedence, queue_states.WORST_PRECEDENCE)
        self._settle()
        for change in () if stored is None else _changes(stored, totals):
            self._notes.note_change(f"totals: {change}")
        totals.unranked |= bool(self._findings.degrees)
        self._tables.put(keys.META, b"counters", encode(totals))

    def _settle(self) -> None:
        """Set the crawl's state by the same rules as the engine."""
        totals = self._totals
        before = totals.state
        empty = not totals.rolls_out and crawl_states.is_empty(
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
            pause_at_finish=self._findings.settings.frontier.pause_at_finish,
        )
        if totals.state is CrawlState.PAUSED and before not in (CrawlState.PAUSED, CrawlState.PAUSING):
            totals.pause_reason = crawl_states.FINISH


_BACK_OF = {READY: "ring_back", INACTIVE: "fifo_back", INELIGIBLE: "ineligible_back", RETIRED: "retired_back"}
"""The states in which queues wait in an order, each with the field of the totals that has its last position."""

_TIMES = {kind: times_of(kind) for kind in (QueueRecord, Counters)}
_COUNTED = (
    "queued", "expenditure", "penalties", "bytes", "future", "future_retired", "queues", "ready", "in_process",
    "snoozed", "inactive", "ineligible", "retired", "retired_by_name", "leases", "urls", "completed", "url_queues",
    "active_url_queues", "groups", "parked", "dead_prerequisites",
)  # fmt: skip
_INDEXES = (
    keys.QUEUE_IDS, keys.ACTIVE, keys.SNOOZED, keys.INACTIVE, keys.INELIGIBLE, keys.RETIRED, keys.PARKED,
    keys.GROUP_IDS, keys.GROUP_WAKES, keys.DEGREES,
)  # fmt: skip


def _changes(before: Struct, after: Struct) -> list[str]:
    """Return the fields of a record that a repair has changed."""
    return [
        f"{name} {getattr(before, name)} is {getattr(after, name)}"
        for name in after.__struct_fields__
        if getattr(before, name) != getattr(after, name)
    ]


def _correct_times(record: QueueRecord | Counters) -> None:
    for name in _TIMES[type(record)]:
        if not 0 <= getattr(record, name) < inf:
            setattr(record, name, 0)


def _divide_expenditure(totals: Counters, before: int) -> None:
    """Make the parts of the expenditure add up to the expenditure of the queues; `before` is the stored sum.

    A surplus is in no outcome's part. A shortage is taken from SUCCESS, then from the other outcomes.
    """
    totals.other_expenditure += max(totals.expenditure - before, 0)
    rest = totals.expenditure
    for name in "failed_expenditure", "retried_expenditure", "given_up_expenditure", "other_expenditure":
        part = min(max(getattr(totals, name), 0), rest)
        setattr(totals, name, part)
        rest -= part


def _index_row(queue: QueueRecord) -> tuple[str, bytes, bytes]:
    number = keys.u32.pack(queue.id)
    if queue.state is INACTIVE:
        return keys.INACTIVE, keys.fifo.pack(queue.precedence, queue.position), number
    return INDEXED[queue.state], keys.u64.pack(queue.position), number


def correct(queue: QueueRecord, now: float) -> None:
    """Correct impossible values in a record: numbers, and a state that contradicts its URIs."""
    queue.penalties = max(queue.penalties, 0)
    queue.expenditure = max(queue.expenditure, queue.penalties)
    queue.charges, queue.errors = max(queue.charges, 0), max(queue.errors, 0)
    queue.errors = min(queue.errors, queue.charges + max(queue.error_answers, 0))
    queue.error_answers = min(max(queue.error_answers, 0), queue.errors)
    queue.precedence = min(max(queue.precedence, 0), queue_states.WORST_PRECEDENCE)
    _correct_times(queue)
    if queue.interval is not None and not 0 <= queue.interval < inf:
        queue.interval = None
    queue.max_completed, queue.dead_prerequisite = max(queue.max_completed, 0), max(queue.dead_prerequisite, 0)
    if queue.own_budget is not None:
        queue.own_budget = max(queue.own_budget, -1)
    queue.state = queue_states.nearest_possible(queue, now)


def decode_readable(key: bytes, value: bytes) -> QueueRecord | None:
    """Return the record of a queue, with defaults for unreadable fields; None if it is not a record of a queue."""
    try:
        queue, _ = salvage_queue(value)
        name = queue.queue.encode()
    except ValueError:
        return None
    known = queue_keys.queue_key_of(name) is not None
    return queue if known and len(key) == keys.u32.size and 0 < keys.u32.unpack(key)[0] <= LAST_ID else None
