"""The records of queues in memory, where every URI changes a dozen of their fields."""

from __future__ import annotations

from operator import attrgetter
from typing import cast

from budgetfrontier.model import QueueRecord
from budgetfrontier.store.records import encode


class LiveQueue:
    """A QueueRecord whose fields can be set cheaply: setting those of a Struct takes more instructions.

    It has the fields of the record, under the same names, so that rules accept either; the engine uses it under that
    type.
    """

    __slots__ = QueueRecord.__struct_fields__

    def __init__(self, record: QueueRecord) -> None:
        self.queue = record.queue
        self.id = record.id
        self.state = record.state
        self.precedence = record.precedence
        self.queued = record.queued
        self.enqueued = record.enqueued
        self.balance = record.balance
        self.balance_replenish_amount = record.balance_replenish_amount
        self.total_budget = record.total_budget
        self.expenditure = record.expenditure
        self.last_cost = record.last_cost
        self.charges = record.charges
        self.penalties = record.penalties
        self.wake_time = record.wake_time
        self.errors = record.errors
        self.last_enqueued = record.last_enqueued
        self.last_leased = record.last_leased
        self.future = record.future
        self.out = record.out
        self.reserved = record.reserved
        self.position = record.position
        self.row = record.row
        self.by_name = record.by_name
        self.block = record.block
        self.revision = record.revision
        self.landed = record.landed


_fields = attrgetter(*QueueRecord.__struct_fields__)


def live(record: QueueRecord) -> QueueRecord:
    """Return a record as it is kept in memory. A test compares its fields with those of the record."""
    return cast(QueueRecord, LiveQueue(record))


def record_of(queue: QueueRecord) -> QueueRecord:
    """Return a copy of a queue in memory for use outside the engine."""
    return QueueRecord(*_fields(queue))


def encode_live(queue: QueueRecord) -> bytes:
    """Encode a queue in memory as its record is."""
    return encode(_fields(queue))
