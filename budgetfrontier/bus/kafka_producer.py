"""The producer of the bus over Kafka: no message that a broker has refused counts as sent (the extra "kafka")."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from budgetfrontier.bus.interface import TIMEOUT, BusAway, BusError, MessagesTooLarge, TooLarge
from budgetfrontier.bus.kafka_errors import TOO_LARGE, error_of, explained
from budgetfrontier.bus.patience import STEP, Patience, Wait
from budgetfrontier.bus.streams import Stream
from budgetfrontier.errors import MissingExtra

try:
    from confluent_kafka import KafkaException, Producer
except ModuleNotFoundError as error:
    raise MissingExtra("kafka") from error

LONGEST = 17 << 20
"""Bytes of a message with Kafka's overhead: more than those of any codec."""
_STEP = 0.05  # seconds that one wait for room takes at the most


class KafkaProducer:
    """An idempotent producer with acks of all replicas."""

    def __init__(
        self, stream: Stream, settings: Mapping[str, Any], *, declare: Callable[[Stream], None], patience: Patience
    ) -> None:
        """Prepare to send with properties of librdkafka; `declare` makes the topic unless it is there."""
        self._stream, self._declare, self._patience = stream, declare, patience
        defaults = {"enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": 0, "message.max.bytes": LONGEST}
        with explained():
            self._producer = Producer({**defaults, **settings})
        self._failed: str | None = None
        """Why a message was not taken, other than for its size: then none may count as sent any more."""
        self._in_doubt: deque[tuple[int, bytes]] = deque()
        """Messages that were refused with their batch, which was too large."""
        self._too_large: list[TooLarge] = []
        self._is_alone = False
        """Whether the message on its way is a batch of its own."""

    def send(self, *messages: bytes, partition: int = 0) -> None:
        """Hand messages over; waits while the buffer is full."""
        if not 0 <= partition < self._stream.partitions:
            raise BusError(f"stream {self._stream.name} has partitions 0 to {self._stream.partitions - 1}")
        self._declare(self._stream)
        self._check()
        wait = self._patience.wait(TIMEOUT)
        for message in messages:
            self._produce(partition, message, wait)
        self._producer.poll(0)

    def flush(self, timeout: float = TIMEOUT) -> None:
        """Return once the brokers have all that was sent."""
        wait = self._patience.wait(timeout)
        self._flush(wait)
        while self._in_doubt:
            self._is_alone = True
            try:
                self._produce(*self._in_doubt.popleft(), wait)
                self._flush(wait)
            finally:
                self._is_alone = False
        if self._too_large:
            found, self._too_large = self._too_large, []
            raise MessagesTooLarge(found)

    def close(self) -> None:
        """Flush."""
        self.flush()

    def _produce(self, partition: int, message: bytes, wait: Wait) -> None:
        while True:
            try:
                self._producer.produce(self._stream.name, message, partition=partition, on_delivery=self._on_delivery)
                return
            except BufferError:
                if wait.left() <= 0:
                    raise BusAway(f"Kafka takes no messages: the buffer was full for {wait.waited:.0f} s") from None
                self._producer.poll(_STEP)
            except KafkaException as error:
                if error.args[0].code() not in TOO_LARGE:
                    raise error_of(error) from error
                self._too_large.append(TooLarge(partition, message, error.args[0].str()))
                return

    def _flush(self, wait: Wait) -> None:
        while True:
            left = self._producer.flush(max(0.0, min(STEP, wait.left())))
            self._check()
            if not left:
                return
            if wait.left() <= 0:
                silence = f"Kafka has not answered for {wait.waited:.0f} s; {left} messages wait"
                raise BusAway(f"{silence}; look whether it runs")

    def _check(self) -> None:
        if self._failed is not None:
            raise BusError(f"Kafka has refused messages of {self._stream.name}: {self._failed}")

    def _on_delivery(self, error: Any, message: Any) -> None:
        if error is None:
            return
        if error.code() not in TOO_LARGE:
            self._failed = self._failed or error.str()
        elif self._is_alone:
            reason = f"{error.str()} (max.message.bytes of the topic {self._stream.name})"
            self._too_large.append(TooLarge(message.partition(), message.value(), reason))
        else:
            self._in_doubt.append((message.partition(), message.value()))
