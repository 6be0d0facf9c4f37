"""Dead letters: messages that could not be decoded, or sent, go to a stream of their own, and others go on.

The first of a process is said in its log, then their number once a minute: a wrong codec makes one of every message.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import msgspec

from budgetfrontier.bus.interface import TIMEOUT, Bus, MessagesTooLarge, Received, TooLarge
from budgetfrontier.bus.messages import BadMessage
from budgetfrontier.bus.streams import Stream
from budgetfrontier.core.units import counted

MAX_DATA = 256 << 10
"""Bytes of a message that are kept in its dead letter."""
CUT_DATA = 1 << 10
"""The same in a topic that takes no more."""
MAX_REASON = 2000
"""Characters of a reason that are kept."""
NOT_SENT = -1
"""The offset of a message that could not be sent."""
SAY_EVERY = 60.0
"""Seconds between two lines in the log, at least."""

log = logging.getLogger(__name__)

T = TypeVar("T")


class RejectedMessage(msgspec.Struct):
    """A message that could not be decoded, or sent: where it was, why, and when it was rejected (epoch seconds)."""

    stream: str
    partition: int
    offset: int
    """NOT_SENT if the message is too large to be sent."""
    reason: str
    when: float
    size: int
    """Bytes that the message had."""
    data: bytes
    """The first 256 KiB of them."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(RejectedMessage).decode


class DeadLetters:
    """The sender of dead letters to a stream of a bus."""

    def __init__(self, bus: Bus, stream: Stream, *, now: Callable[[], float] = time.monotonic) -> None:
        self._producer = bus.producer(stream)
        self._stream, self._now = stream, now
        self._unsaid = 0
        self._said: float | None = None
        self._last = ""

    def decoded(
        self, received: Iterable[Received], source: Stream, decode: Callable[[bytes], T]
    ) -> Iterator[tuple[Received, T]]:
        """Yield received messages with their decoded contents; malformed ones become dead letters.

        Call `flush` before you commit these messages. Raises BusError if the bus takes no dead letters.
        """
        for message in received:
            try:
                content = decode(message.data)
            except BadMessage as error:
                self.reject(message, source, str(error))
            else:
                yield message, content

    def reject(self, message: Received, source: Stream, reason: str) -> None:
        """Make a dead letter of a message. Raises BusError if the bus takes none."""
        partition, offset, data = message.partition, message.offset, message.data
        reason = reason[:MAX_REASON]
        letter = RejectedMessage(source.name, partition, offset, reason, time.time(), len(data), data[:MAX_DATA])
        self._producer.send(_encode(letter))
        self._unsaid += 1
        self._last = f"{source.name}, partition {partition}, offset {offset}: {reason:.300}"
        self._say()

    def flush(self, timeout: float = TIMEOUT) -> None:
        """Return once the broker has all dead letters. Raises BusError if that takes longer than `timeout` seconds."""
        while True:
            try:
                self._producer.flush(timeout)
                break
            except MessagesTooLarge as error:
                for each in error.messages:
                    self._send_cut(each)
        self._say()

    def close(self) -> None:
        """Flush and close."""
        self._say(at_once=True)
        self.flush()
        self._producer.close()

    def _send_cut(self, refused: TooLarge) -> None:
        """Send a dead letter again with less of its message; give it up if there is no less."""
        letter = _decode(refused.data)
        if len(letter.data) > CUT_DATA:
            self._producer.send(_encode(msgspec.structs.replace(letter, data=letter.data[:CUT_DATA])))
        else:
            log.error("a dead letter is lost: %s; it said: %s", refused.reason, letter.reason)

    def _say(self, *, at_once: bool = False) -> None:
        """Log the dead letters since the last line, unless that was a moment ago."""
        if not self._unsaid:
            return
        if self._said is None:
            log.warning("a message is set apart in %s: %s", self._stream.name, self._last)
        elif at_once or self._now() - self._said >= SAY_EVERY:
            more = counted(self._unsaid, "more message")
            log.warning("%s set apart in %s; the last: %s", more, self._stream.name, self._last)
        else:
            return
        self._unsaid, self._said = 0, self._now()


def read_dead_letter(data: bytes) -> RejectedMessage:
    """Return the dead letter in a message of the stream. Raises BadMessage if it is none."""
    try:
        return _decode(data)
    except ValueError as error:  # msgspec's errors are ValueErrors
        raise BadMessage(f"no dead letter: {error}") from error
