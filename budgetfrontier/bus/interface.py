"""The interface of a bus, which each transport implements: producers, consumers, lag.

The rules are the same for every transport. A message is delivered to each group at least once, again if it was not
committed before its consumer closed or died. The messages of a producer in a partition keep their order. A partition
is read by one consumer of a group at a time; while partitions move between consumers, two may for a moment work on
messages of one. Bus, producers and consumers belong to the thread that made them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from budgetfrontier.bus.streams import Stream
from budgetfrontier.errors import FrontierError

TIMEOUT = 30.0
"""Seconds to wait for a broker that does not answer."""
SESSION = 30.0
"""Seconds after which a consumer that has not polled is taken for dead."""

Start = Callable[[int], int | None]
"""Returns the offset from which to read a partition that a consumer is given; None: where its group has committed."""
LATER = 1 << 62
"""The offset at which to start with a partition until `seek` says where; only new messages may be delivered before."""


class BusError(FrontierError):
    """The message bus has refused a call, and would refuse it again; or it does not answer (BusAway)."""


class BusAway(BusError):
    """The message bus does not answer; unsent messages are kept until it does. Check that its broker runs."""


class TooLarge(NamedTuple):
    """A message that the broker will never take."""

    partition: int
    data: bytes
    reason: str


class MessagesTooLarge(BusError):
    """The broker takes no messages that are as large as some that were sent."""

    def __init__(self, messages: Iterable[TooLarge]) -> None:
        self.messages = list(messages)
        longest = max((len(each.data) for each in self.messages), default=0)
        reason = self.messages[-1].reason if self.messages else ""
        super().__init__(f"the broker takes no messages of {longest:,} bytes: {reason}")


class Received(NamedTuple):
    """A message that was received. Offsets of a partition increase; see `Bus.begins` for gaps."""

    partition: int
    offset: int
    data: bytes
    time: float = 0.0
    """When the broker has appended it (epoch seconds); 0.0: the transport does not say."""


class Producer(Protocol):
    """Sends messages to one stream."""

    def send(self, *messages: bytes, partition: int = 0) -> None:
        """Hand messages over for sending; waits while the buffer is full. Raises BusError.

        After an error, the message that failed and those after it are not in the buffer: with BusAway, send them again.
        """

    def flush(self, timeout: float = TIMEOUT) -> None:
        """Return once the broker has all messages. Raises BusAway if that takes longer than `timeout` seconds.

        The messages stay in the buffer then: call it again. Raises MessagesTooLarge with the messages that the broker
        will never take: they are removed from the buffer, and it has all others. After another error but BusAway,
        messages may be missing at the broker, and all later calls raise it, too.
        """

    def close(self) -> None:
        """Flush and close. Raises BusError if that fails."""


class Consumer(Protocol):
    """Receives the messages of one stream for a group."""

    @property
    def partitions(self) -> frozenset[int]:
        """The partitions that belong to this consumer as of its last poll."""

    def poll(self, count: int = 512, timeout: float = 0.1) -> list[Received]:
        """Return up to `count` messages, waiting up to `timeout` seconds for the first. Raises BusError."""

    def commit(self, offsets: Mapping[int, int] | None = None) -> None:
        """Record that messages were processed: all that were polled, or those before an offset of each partition.

        Commits for partitions that now belong to another consumer have no effect. Raises BusError.
        """

    def seek(self, partition: int, offset: int) -> None:
        """Go on with the message of an offset, or with the first after it that is still there. Raises BusError."""

    def close(self) -> None:
        """Leave the group: uncommitted messages go to another consumer."""


class Bus(Protocol):
    """A connection to the broker of a bus."""

    def producer(self, stream: Stream) -> Producer:
        """Return a new producer. Raises BusError if the stream has another number of partitions at the broker."""

    def consumer(
        self, stream: Stream, group: str, *, partitions: tuple[int, ...] = (), start: Start | None = None
    ) -> Consumer:
        """Return a new consumer of a group, bound to `partitions`, or sharing partitions without a bound consumer."""

    def lag(self, stream: Stream, group: str) -> list[int]:
        """Return the number of messages in each partition that the group has not committed, for back pressure."""

    def begins(self, stream: Stream, partition: int) -> int | None:
        """Return the offset from which on a partition still has all its messages, to explain a gap in offsets.

        None if offsets have no gaps: each message has the next number, and missing ones are lost. In other logs,
        missing offsets are no messages, such as the control records of transactions. Raises BusError.
        """

    def log_id(self, stream: Stream) -> bytes | None:
        """Return an identity of a stream's log, other than a later log's of the same name, b"" if it is not known yet.

        None if offsets are never given twice: a lower one is a message that is delivered again. In other logs,
        partitions that a consumer is bound to come to a lower offset only if the log is another one, or has lost its
        end. Never waits.
        """

    def close(self) -> None:
        """Close the connection; close producers and consumers before."""
