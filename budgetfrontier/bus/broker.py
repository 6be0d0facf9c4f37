"""A broker around the log: operations of clients, each journaled before it is answered."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from budgetfrontier.bus.log import Change, Log
from budgetfrontier.bus.streams import Stream

Journal = Callable[[Iterable[Change]], None]
"""Writes changes down before they are made. Raises BusError if it cannot."""


class Append(msgspec.Struct, array_like=True, tag=True):
    """A batch of a producer: messages with their partitions. Repeated, it is appended once."""

    stream: Stream
    producer: str
    sequence: int
    messages: list[tuple[int, bytes]]


class Fetch(msgspec.Struct, array_like=True, tag=True):
    """A consumer's request for messages, and its sign of life for `session` seconds."""

    stream: Stream
    group: str
    member: str
    bound: tuple[int, ...]
    positions: dict[int, tuple[int, int]]
    count: int
    wait: float
    """Seconds to wait for a message if there is none."""
    session: float


class Commit(msgspec.Struct, array_like=True, tag=True):
    """A consumer has processed the messages before these offsets of its partitions."""

    stream: Stream
    group: str
    member: str
    offsets: dict[int, int]


class Seek(msgspec.Struct, array_like=True, tag=True):
    """A group is to go on at an offset of a partition."""

    stream: Stream
    group: str
    partition: int
    offset: int


class Leave(msgspec.Struct, array_like=True, tag=True):
    """A consumer leaves its group."""

    stream: Stream
    group: str
    member: str


class Lag(msgspec.Struct, array_like=True, tag=True):
    """A request for the number of messages in each partition that a group has not committed."""

    stream: Stream
    group: str


Operation = Append | Fetch | Commit | Seek | Leave | Lag


class Broker:
    """Performs the operations of clients on a log. A journal makes its changes last."""

    def __init__(self, log: Log, journal: Journal | None = None) -> None:
        self._log, self._journal = log, journal

    def perform(self, operation: Operation, now: float) -> tuple[bool, Any]:
        """Return whether the operation is complete, and its result. Raises BusError; nothing has changed then.

        An append is not complete, and has no effect, while a partition is full; nor is a fetch that found nothing.
        `now` is in epoch seconds.
        """
        stream = operation.stream
        self._make(self._log.declare(stream, now))
        match operation:
            case Append(_, producer, sequence, messages):
                changes = self._log.append(stream.name, producer, sequence, messages)
                if changes and self._log.is_full(stream.name, messages):
                    return False, None
                self._make(changes)
            case Fetch(_, group, member, bound, positions, count, _, session):
                fetched = self._log.fetch(
                    stream.name, group, member,
                    bound=bound, positions=positions, count=count, now=now, session=session,
                )  # fmt: skip
                return bool(fetched.messages), fetched
            case Commit(_, group, member, offsets):
                self._make(self._log.commit(stream.name, group, member, offsets))
            case Seek(_, group, partition, offset):
                self._make(self._log.seek(stream.name, group, partition, offset))
            case Leave(_, group, member):
                self._log.leave(stream.name, group, member, now)
            case Lag(_, group):
                return True, self._log.lag(stream.name, group)
        return True, None

    def _make(self, changes: list[Change]) -> None:
        if changes and self._journal is not None:
            self._journal(changes)
        for change in changes:
            self._log.apply(change)


class BrokerReply(msgspec.Struct, array_like=True):
    """The answer to an operation: an error or a result."""

    request: int
    error: str | None
    result: msgspec.Raw = msgspec.Raw(b"\xc0")
    passes: bool = False
    """Whether the operation is worth repeating after the error."""
