"""Queues in memory have the fields of their records, and are stored as these are."""

from __future__ import annotations

import gc

import msgspec
import pytest

from budgetfrontier.core.model import QueueRecord, QueueState
from budgetfrontier.engine.live_queue import LiveQueue, decode_live, record_of, set_plainly
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.records import Counters, decode_queue


@pytest.fixture
def changed() -> QueueRecord:
    """A record of which every field differs from its default."""
    record = QueueRecord("a.test", 1)
    for number, field in enumerate(msgspec.structs.fields(QueueRecord)):
        value = getattr(record, field.name)
        other = {str: f"text {number}", bool: True, QueueState: QueueState.RETIRED}.get(type(value), number + 7)
        setattr(record, field.name, other)
    return record


def test_every_field_comes_and_goes(changed: QueueRecord) -> None:
    queue = decode_live(encode(changed))
    assert record_of(queue) == changed
    assert encode(queue) == encode(decode_queue(encode(changed)))


def test_every_field_can_be_set_and_the_garbage_collector_knows_nothing_of_it(changed: QueueRecord) -> None:
    queue = LiveQueue("a.test", 1)
    for field in msgspec.structs.fields(QueueRecord):
        setattr(queue, field.name, getattr(changed, field.name))
    assert record_of(queue) == changed
    assert not gc.is_tracked(queue)


def test_queues_and_totals_are_set_by_the_code_of_object() -> None:
    assert vars(LiveQueue)["__setattr__"] is vars(Counters)["__setattr__"] is object.__setattr__


def test_a_class_whose_fields_object_cannot_set_keeps_its_own_code() -> None:
    class Kind:
        """One of which `object` cannot set the fields."""

        @property
        def id(self) -> int:
            return 0

        @id.setter
        def id(self, value: int) -> None:
            raise TypeError("can't apply this __setattr__")

    set_plainly(Kind(), "id")
    assert "__setattr__" not in vars(Kind)


def test_a_copy_does_not_follow_the_queue() -> None:
    queue = LiveQueue("a.test", 1)
    before = record_of(queue)
    queue.queued += 1
    assert (before.queued, record_of(queue).queued) == (0, 1)
