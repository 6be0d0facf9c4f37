"""Dead letters: messages that could not be decoded go to a stream of their own, and their consumer goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import msgspec

from budgetfrontier.bus.interface import TIMEOUT, Bus, Received
from budgetfrontier.bus.messages import BadMessage
from budgetfrontier.bus.streams import Stream

MAX_DATA = 256 << 10
"""Bytes of a message that are kept in its dead letter."""

T = TypeVar("T")


class RejectedMessage(msgspec.Struct):
    """A message that could not be decoded: where it was, why, and when it was rejected (epoch seconds)."""

    stream: str
    partition: int
    offset: int
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

    def __init__(self, bus: Bus, stream: Stream) -> None:
        self._producer = bus.producer(stream)

    def decoded(
        self, received: Iterable[Received], source: Stream, decode: Callable[[bytes], T]
    ) -> Iterator[tuple[Received, T]]:
        """Yield the messages that were received with what they decode to; those that are malformed become dead letters.

        Call `flush` before you commit what was received. Raises BusError if the bus takes no dead letters.
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
        partition, offset, data = message
        letter = RejectedMessage(source.name, partition, offset, reason, time.time(), len(data), data[:MAX_DATA])
        self._producer.send(_encode(letter))

    def flush(self, timeout: float = TIMEOUT) -> None:
        """Return once the broker has all dead letters. Raises BusError if that takes longer than `timeout` seconds."""
        self._producer.flush(timeout)

    def close(self) -> None:
        """Flush and close."""
        self._producer.close()


def read_dead_letter(data: bytes) -> RejectedMessage:
    """Return the dead letter in a message of the stream. Raises BadMessage if it is none."""
    try:
        return _decode(data)
    except ValueError as error:  # msgspec's errors are ValueErrors
        raise BadMessage(f"no dead letter: {error}") from error
