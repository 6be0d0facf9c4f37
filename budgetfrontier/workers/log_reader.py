"""Readers of a log whose offsets are stored together with the effects of its messages, so that each has them once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

from budgetfrontier.bus.dead_letters import DeadLetters
from budgetfrontier.bus.interface import Bus
from budgetfrontier.bus.streams import Stream
from budgetfrontier.errors import FrontierError

T = TypeVar("T")

log = logging.getLogger(__name__)


class LogReader(Generic[T]):
    """A consumer bound to partitions.

    `read` returns the same messages until `applied` says that their effects are stored with `next_offsets`, however
    often the bus fails in between. A message that the bus delivers again is left out.
    """

    def __init__(
        self,
        bus: Bus,
        stream: Stream,
        group: str,
        *,
        letters: DeadLetters,
        decode: Callable[[bytes], T],
        partitions: Iterable[int],
        offsets: Mapping[int, int],
    ) -> None:
        """Read on from the offsets that are stored, by partition; a partition without one from its beginning."""
        self.offsets = dict(offsets)
        """The offset after the last message whose effects are stored, of each partition."""
        self.next_offsets = dict(offsets)
        """The same, with the messages that `read` has returned."""
        self._stream, self._letters, self._decode = stream, letters, decode
        self._partitions = frozenset(partitions)
        self._consumer = bus.consumer(
            stream, group, partitions=tuple(sorted(self._partitions)), start=lambda each: self.offsets.get(each, 0)
        )
        self.messages: list[T] = []
        """The messages that `read` has returned, and whose effects are not stored yet."""
        self._uncommitted = False

    def __repr__(self) -> str:
        return f"<LogReader of {self._stream.name}: {self.offsets}>"

    def read(self, count: int, timeout: float) -> list[T]:
        """Return up to `count` messages, waiting up to `timeout` seconds for the first.

        Raises BusError, and FrontierError if another consumer was bound to a partition.
        """
        if not self.messages:
            received = self._consumer.poll(count, timeout)
            self._check_partitions()
            fresh = []
            for message in received:
                expected = self.next_offsets.get(message.partition, 0)
                if message.offset < expected:
                    continue  # delivered again
                if message.offset > expected > 0:
                    log.warning(
                        "%s: messages are missing: after offset %d of partition %d comes %d; the bus has lost them",
                        self._stream.name,
                        expected - 1,
                        message.partition,
                        message.offset,
                    )
                self.next_offsets[message.partition] = message.offset + 1
                fresh.append(message)
            self.messages = [content for _, content in self._letters.decoded(fresh, self._stream, self._decode)]
        self._letters.flush()
        return self.messages

    @property
    def is_ahead(self) -> bool:
        """Whether messages were read whose offsets are not stored yet."""
        return self.next_offsets != self.offsets

    def applied(self) -> None:
        """Go on: the effects of all messages that were read are stored, with `next_offsets`."""
        if self.is_ahead:
            self.offsets, self._uncommitted = dict(self.next_offsets), True
        self.messages = []

    def commit(self) -> None:
        """Tell the bus what need not be kept any more."""
        if self._uncommitted:
            self._consumer.commit(self.offsets)
            self._uncommitted = False

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()

    def _check_partitions(self) -> None:
        if lost := self._partitions - self._consumer.partitions:
            raise FrontierError(
                f"partition {min(lost)} of {self._stream.name} belongs to another worker now, which was started later "
                "with the same --partition; give each worker partitions of its own"
            )
