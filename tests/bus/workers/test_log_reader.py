"""The reader of a log: each message once, also where a log that was made anew has the same offsets again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from budgetfrontier.bus.dead_letters import DeadLetters
from budgetfrontier.bus.interface import Received, Start
from budgetfrontier.bus.memory import MemoryBroker
from budgetfrontier.bus.streams import Stream, streams
from budgetfrontier.bus.workers.log_reader import LogReader
from tests.support import logged


class Topic:
    """A log with offsets from 0, as Kafka's, and its only consumer, which begins anew when its offset is not there."""

    def __init__(self, log_id: bytes | None) -> None:
        self.id, self.messages, self.position = log_id, list[bytes](), 0
        self.first: int | None = None
        self.partitions = frozenset((0,))

    def log_id(self, stream: Stream) -> bytes | None:
        return self.id

    def begins(self, stream: Stream, partition: int) -> int | None:
        return self.first

    def consumer(self, stream: Stream, group: str, *, partitions: tuple[int, ...], start: Start) -> Topic:
        self.position = start(0) or 0
        return self

    def poll(self, count: int, timeout: float) -> list[Received]:
        if self.position > len(self.messages):
            self.position = 0
        first = self.position
        self.position = min(first + count, len(self.messages))
        return [Received(0, place, self.messages[place]) for place in range(first, self.position)]

    def seek(self, partition: int, offset: int) -> None:
        self.position = offset

    def commit(self, offsets: Mapping[int, int]) -> None: ...


def reader(topic: Any, **stored: Any) -> LogReader[bytes]:
    bus, names = MemoryBroker().bus(), streams()
    letters = DeadLetters(bus, names.dead_letters)
    return LogReader(topic, names.spider_log, "g", letters=letters, decode=bytes, partitions=[0], **stored)


def read(one: LogReader[bytes]) -> list[bytes]:
    """Read until nothing comes, and store the offsets."""
    found = []
    for _ in range(3):
        found += one.read(10, 0.0)
        one.applied()
    return found


OLD, NEW = [b"%d" % number for number in range(6)], [b"new %d" % number for number in range(9)]


@pytest.mark.parametrize("count", [3, 6, 9])
@pytest.mark.parametrize("restarted", [True, False])
def test_a_log_that_was_made_anew_is_read_from_its_beginning(
    count: int, restarted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """It has fewer messages than were read of the old one, as many, or more."""
    topic = Topic(b"first")
    topic.messages = list(OLD)
    one = reader(topic, offsets={})
    assert read(one) == OLD and (one.offsets, one.log_id) == ({0: 6}, b"first")
    topic.id, topic.messages = b"second", NEW[:count]
    if restarted:
        one = reader(topic, offsets=one.offsets, log_id=one.log_id)
    assert read(one) == NEW[:count] and (one.offsets, one.log_id) == ({0: count}, b"second")
    [line] = logged(caplog, "budgetfrontier.workers")
    assert "the log begins again" in line


def test_a_lower_offset_is_a_repeat_only_where_offsets_are_never_given_twice(caplog: pytest.LogCaptureFixture) -> None:
    for log_id, expected in ((None, []), (b"", OLD), (b"the same", OLD)):
        topic = Topic(log_id)
        topic.messages = list(OLD)
        one = reader(topic, offsets={0: 6}, log_id=log_id or b"")
        topic.position = 0
        assert read(one) == expected
        lines = logged(caplog, "budgetfrontier.workers")
        assert len(lines) == bool(expected) and all("begins again, or has lost its end" in line for line in lines)
        caplog.clear()


@pytest.mark.parametrize(("first", "is_lost"), [(None, True), (4, True), (3, True), (2, False), (0, False)])
def test_messages_that_are_missing_are_said(first: int | None, is_lost: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Not what a log leaves out that has all from the next offset on, such as the control records of transactions."""
    topic = Topic(b"")
    topic.messages, topic.first = list(OLD), first
    one = reader(topic, offsets={0: 2})
    topic.position = 4
    assert read(one) == OLD[4:]
    lines = logged(caplog, "budgetfrontier.workers")
    assert len(lines) == is_lost
    for line in lines:
        assert "messages are missing" in line and "after offset 1 of partition 0 comes 4" in line
