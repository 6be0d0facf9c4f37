"""Queues in memory have the fields of their records, and are stored as these are."""

from __future__ import annotations

import msgspec

from budgetfrontier.engine.live_queue import encode_live, live, record_of
from budgetfrontier.model import QueueRecord, QueueState
from budgetfrontier.store.records import decode_queue, encode


def test_every_field_comes_and_goes() -> None:
    record = QueueRecord("a.test", 1)
    for number, field in enumerate(msgspec.structs.fields(QueueRecord)):
        value = getattr(record, field.name)
        other = {str: f"text {number}", bool: True, QueueState: QueueState.RETIRED}.get(type(value), number + 7)
        setattr(record, field.name, other)
    queue = live(record)
    assert record_of(queue) == record
    assert encode_live(queue) == encode(record)
    assert decode_queue(encode_live(queue)) == record


def test_a_copy_does_not_follow_the_queue() -> None:
    queue = live(QueueRecord("a.test", 1))
    before = record_of(queue)
    queue.queued += 1
    assert (before.queued, record_of(queue).queued) == (0, 1)
