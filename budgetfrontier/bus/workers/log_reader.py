"""Readers of a log that store its offsets with the effects of its messages, so that each is applied once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

from budgetfrontier.bus.dead_letters import DeadLetters
from budgetfrontier.bus.interface import Bus, Received
from budgetfrontier.bus.streams import Stream
from budgetfrontier.errors import FrontierError

T = TypeVar("T")

log = logging.getLogger("budgetfrontier.workers")


class LogReader(Generic[T]):
    """A consumer bound to partitions.

    `read` returns the same messages until `applied` says that their effects are stored with `next_offsets` and
    `next_log_id`, however often the bus fails in between. A message that the bus delivers again is left out. A log that
    was made anew is read from its beginning.
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
        log_id: bytes = b"",
    ) -> None:
        """Read on from the offsets that are stored, by partition; a partition without one from its beginning.

        `log_id` is stored, too: the identity of the log with these offsets.
        """
        self.offsets = dict(offsets)
        """The offset after the last message whose effects are stored, of each partition."""
        self.next_offsets = dict(offsets)
        """The same, with the messages that `read` has returned."""
        self.log_id = self.next_log_id = log_id
        """The id of the log, as stored, and as found."""
        self._bus = bus
        self._stream, self._letters, self._decode = stream, letters, decode
        self._partitions = frozenset(partitions)
        self._consumer = bus.consumer(
            stream, group, partitions=tuple(sorted(self._partitions)), start=lambda each: self.offsets.get(each, 0)
        )
        self.messages: list[T] = []
        """The messages that `read` has returned, and whose effects are not stored yet."""
        self._uncommitted = False

    def read(self, count: int, timeout: float) -> list[T]:
        """Return up to `count` messages, waiting up to `timeout` seconds for the first.

        Raises BusError, and FrontierError if another consumer was bound to a partition.
        """
        if not self.messages:
            received = self._consumer.poll(count, timeout)
            self._check_partitions()
            log_id = self._bus.log_id(self._stream)
            if log_id and log_id != self.next_log_id and self._another_log(log_id):
                received = []
            fresh = [message for message in received if self._is_next(message, repeats=log_id is None)]
            self.messages = [content for _, content in self._letters.decoded(fresh, self._stream, self._decode)]
        self._letters.flush()
        return self.messages

    def _another_log(self, log_id: bytes) -> bool:
        """Note which log this is; return whether it is another than before, which is read from its beginning."""
        is_new = bool(self.next_log_id)
        if is_new:
            log.warning(
                "%s: the log begins again: it was removed, and made anew. Messages that were not read yet are lost",
                self._stream.name,
            )
            for partition in self._consumer.partitions:
                self._consumer.seek(partition, 0)
            self.next_offsets = {}
        self.next_log_id = log_id
        return is_new

    def _is_next(self, message: Received, *, repeats: bool) -> bool:
        """Return whether a message was not read yet, and note its offset. Some were if the bus `repeats` messages."""
        expected = self.next_offsets.get(message.partition, 0)
        if message.offset < expected:
            if repeats:
                return False
            what = "the log begins again, or has lost its end: messages may be missing, or come twice:"
        elif self._is_complete(message.partition, expected, message.offset):
            what = ""
        else:
            what = "messages are missing, which the bus has lost:"
        if what and expected > 0:
            gap = expected - 1, message.partition, message.offset
            log.warning("%s: %s after offset %d of partition %d comes %d", self._stream.name, what, *gap)
        self.next_offsets[message.partition] = message.offset + 1
        return True

    def _is_complete(self, partition: int, expected: int, offset: int) -> bool:
        """Return whether no message was lost between an offset and the next one: the log may have left offsets out."""
        if offset == expected or not expected:
            return True
        begins = self._bus.begins(self._stream, partition)
        return begins is not None and begins <= expected

    @property
    def is_ahead(self) -> bool:
        """Whether there are messages read without stored offsets, or the id of their log is not stored."""
        return (self.next_offsets, self.next_log_id) != (self.offsets, self.log_id)

    def applied(self) -> None:
        """Go on: the effects of all messages that were read are stored, with `next_offsets` and `next_log_id`."""
        if self.is_ahead:
            self.offsets, self._uncommitted = dict(self.next_offsets), True
            self.log_id = self.next_log_id
        self.messages = []

    def commit(self) -> None:
        """Let the bus drop messages that are no longer needed."""
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
