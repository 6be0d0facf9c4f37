"""Queues in memory have the fields of their records, and are stored as these are."""

from __future__ import annotations

import gc
from typing import Any
from unittest import mock

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetfrontier.core.model import QueueRecord, QueueState
from budgetfrontier.engine import native
from budgetfrontier.engine.live_queue import _TIMES as times
from budgetfrontier.engine.live_queue import (
    LiveQueue,
    StructQueue,
    decode_live,
    decode_struct,
    encode_live,
    record_of,
    set_plainly,
)
from budgetfrontier.engine.queue_cache import QueueCache
from budgetfrontier.storage.damage import Damage
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.records import Counters, decode_queue
from budgetfrontier.storage.uri_values import LONGEST_SHOWN

needs_kernel = pytest.mark.skipif(native.kernel is None, reason=native.described())


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
    assert encode_live(queue) == encode(decode_queue(encode(changed)))


def test_every_field_can_be_set(changed: QueueRecord) -> None:
    queue = LiveQueue("a.test", 1)
    assert record_of(queue) == QueueRecord("a.test", 1)
    for field in msgspec.structs.fields(QueueRecord):
        setattr(queue, field.name, getattr(changed, field.name))
    assert record_of(queue) == changed
    assert (queue.succeeded, queue.average_cost) == (changed.succeeded, changed.average_cost)


def test_the_garbage_collector_knows_nothing_of_queues_without_the_kernel() -> None:
    assert not gc.is_tracked(StructQueue("a.test", 1))


numbers = st.one_of(st.integers(-(1 << 62), 1 << 62), st.integers(-200, 70_000))
values = {
    str: st.one_of(st.text(st.characters(codec="utf-8"), max_size=40), st.text("a", min_size=250, max_size=300)),
    int: numbers,
    float: st.one_of(st.just(0), st.just(0.0), st.integers(0, 1 << 40), st.floats(allow_nan=False)),
    bool: st.booleans(),
    QueueState: st.sampled_from(QueueState),
}
short = {"id": 32, "group": 32, "precedence": 16, "position": 62, "row": 62, "parked": 62}
fields = st.tuples(
    *[
        st.integers(0, (1 << short[name]) - 1) if name in short
        else st.none() | values[type(first)] if name in ("interval", "own_budget")
        else values[type(first)]
        for name, first in msgspec.structs.asdict(
            QueueRecord("", 0, **dict.fromkeys(times, 0.0), interval=0.0, own_budget=0)  # type: ignore[arg-type]
        ).items()
    ]
)  # fmt: skip


@needs_kernel
@given(fields)
def test_the_kernel_stores_the_same_bytes_and_reads_them(drawn: tuple[Any, ...]) -> None:
    assert native.kernel is not None
    stored = encode(StructQueue(*drawn))
    assert encode_live(LiveQueue(*drawn)) == stored
    read = native.kernel.LiveQueue.decode(stored)
    assert encode_live(read) == encode(decode_struct(stored))
    for end in range(0, len(stored), 7):
        assert native.kernel.LiveQueue.decode(stored[:end]) is None
    assert native.kernel.LiveQueue.decode(stored + b"\0") is None


URLS = ["", "http://a.test/x", "https://a.test/", "https://a.test", "https://a.test:8/x", "https://b.test/\u00e4" * 99]
URLS += ["https://a.test/" + "\u00e4b" * 600, "http://\u00e4.test/" + "b" * 1030, "\1/x", "\0\1x"]
leased = st.lists(
    st.tuples(
        st.sampled_from(["a.test", "b.test", "\u00e4.test"]),
        st.sampled_from(QueueState),
        st.sampled_from([0, 3, 1 << 31, 5]),
        st.sampled_from([0, 3, 4, 1 << 40]),
        st.sampled_from(URLS),
    ),
    max_size=6,
)


@needs_kernel
@given(leased)
def test_the_kernel_writes_the_queues_that_have_changed_as_python_does(
    drawn: list[tuple[str, QueueState, int, int, str]],
) -> None:
    assert native.kernel is not None
    written: list[object] = []
    for by_kernel in (False, True):
        queues = QueueCache(mock.MagicMock(), Counters())
        for number, (key, state, position, row, url) in enumerate(drawn):
            queue = queues.cache[7 * number % 5 + 1] = LiveQueue(key, 7 * number % 5 + 1)
            queue.state, queue.position, queue.row, queue.last_leased = state, position, row, url
            queues.dirty.add(queue.id)
        if by_kernel:
            written.append(native.kernel.changed_records(queues.cache, queues.dirty, LONGEST_SHOWN))
        else:
            written.append(queues._changed())
    assert written[0] == written[1]


@needs_kernel
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", 1 << 32),
        ("id", -1),
        ("precedence", 1 << 16),
        ("row", -1),
        ("queued", 1 << 63),
        ("queued", "1"),
        ("state", "X"),
    ],
)
def test_what_is_no_record_is_damage_with_the_kernel_too(field: str, value: Any) -> None:
    record = dict(zip(QueueRecord.__struct_fields__, msgspec.structs.astuple(QueueRecord("a.test", 1)), strict=True))
    with pytest.raises(Damage):
        decode_live(encode(tuple((record | {field: value}).values())))


def test_a_shorter_record_gets_the_defaults_of_the_fields_that_it_lacks() -> None:
    assert record_of(decode_live(encode(("a.test", 1)))) == QueueRecord("a.test", 1)


def test_queues_and_totals_are_set_by_the_code_of_object() -> None:
    assert vars(StructQueue)["__setattr__"] is vars(Counters)["__setattr__"] is object.__setattr__


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
