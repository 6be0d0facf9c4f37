"""A compacted topic of Kafka as a table with rows of one type: the last row of each key counts (the extra "kafka")."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec

from budgetfrontier.bus.interface import TIMEOUT, BusAway, BusError
from budgetfrontier.bus.kafka import KafkaBus
from budgetfrontier.bus.kafka_errors import Heard
from budgetfrontier.cluster.directory import retention
from budgetfrontier.core import protocol
from budgetfrontier.errors import FrontierError, MissingExtra

try:
    import confluent_kafka
    from confluent_kafka import TopicPartition
except ModuleNotFoundError as error:
    raise MissingExtra("kafka") from error

_CODES = confluent_kafka.KafkaError
_NO_TOPIC: Final = (_CODES._UNKNOWN_PARTITION, _CODES._UNKNOWN_TOPIC, _CODES.UNKNOWN_TOPIC_OR_PART)
_STEP: Final = 0.05
CLOSING: Final = 5.0
"""Seconds for which a broker is waited for at the end."""
FIRST_LOOK: Final = 3.0
"""Seconds to wait for a broker that was not reached yet, before the reason is logged."""

log = logging.getLogger("budgetfrontier.cluster")

_Row = TypeVar("_Row")


class CompactedTopic(Generic[_Row]):
    """A topic with one partition. `read` yields the rows since the last call. Not for several threads at a time."""

    def __init__(self, topic: str, kind: type[_Row], bus: KafkaBus) -> None:
        """Prepare for a topic with rows of a type, which is made unless it is there, if the bus `creates` topics."""
        self._decode: Callable[[bytes], _Row] = protocol.decoder(kind)
        self.name, self._bus, self._settings = topic, bus, bus.settings()
        self._producer: Any = None
        self._consumer: Any = None
        self._heard = Heard()
        self._is_reached = self._has_told = False
        self._ended = 0
        """The end of the topic at which the consumer was last: control records may come after the last record."""

    def __repr__(self) -> str:
        return f"<CompactedTopic {self.name}>"

    def create(self) -> None:
        """Create the topic, unless it is there. Raises BusError."""
        if self._bus.creates:
            self._bus.create(self.name, 1, retention.settings_of_table())

    def publish(self, rows: Mapping[int, _Row] | Mapping[str, _Row]) -> None:
        """Send rows by key to the topic, which `create` has made; they are there soon, once the broker answers."""
        if self._producer is None:
            self._producer = confluent_kafka.Producer({"linger.ms": 0, "message.timeout.ms": 0, **self._settings})
        for key, row in rows.items():
            self._producer.produce(self.name, protocol.encode(row), key=str(key), partition=0)
        self._producer.poll(0)

    def flush(self) -> None:
        """Return once the published rows are there. Raises BusAway."""
        if self._producer is not None and self._producer.flush(TIMEOUT):
            raise BusAway(f"Kafka has not answered for {TIMEOUT:.0f} s; look whether it runs")

    def read(self) -> Iterator[tuple[_Row, float]]:
        """Yield the rows that are new as of now, in order, each with its time-stamp. Raises BusError.

        Other data, such as rows of another release, are left out, with a line in the log on the first of them.
        """
        if self._consumer is None:
            self.create()
            self._consumer = self._new_consumer()
        deadline = time.monotonic() + TIMEOUT
        try:
            if self._is_reached:
                end = self._end(TIMEOUT)
            else:
                end = self._heard.first(self._consumer, self._end, FIRST_LOOK)
                self._consumer.assign([TopicPartition(self.name, 0, 0)])
                self._is_reached = True
        except confluent_kafka.KafkaException as e:
            raise BusError(f"Kafka: {e.args[0].str()}") from e
        while self._position() < end:
            message = self._consumer.poll(_STEP)
            if message is None:
                if time.monotonic() > deadline:
                    raise BusError(f"Kafka has not answered for {TIMEOUT:.0f} s; look whether it runs")
            elif message.error() is None:
                _, milliseconds = message.timestamp()
                try:
                    row = self._decode(message.value() or b"")
                except (msgspec.DecodeError, UnicodeDecodeError) as e:
                    self._tell(message, e)
                else:
                    yield row, milliseconds / 1000
            elif message.error().code() == _CODES._PARTITION_EOF:
                self._ended = max(self._ended, message.offset())

    def _tell(self, message: Any, why: Exception) -> None:
        if message.value() and not self._has_told:  # and not deleted
            self._has_told = True
            log.warning(
                "the row at offset %d of the topic %s is left out, as all others that this release cannot read: %s",
                message.offset(), self.name, why, extra={"event": "bad_row"},
            )  # fmt: skip

    def close(self) -> None:
        """Close the connections, once the broker has the published rows, if it answers soon."""
        if self._producer is not None:
            self._producer.flush(CLOSING)
        if self._consumer is not None:
            self._consumer.close()
        self._consumer = self._producer = None
        self._is_reached, self._ended = False, 0

    def _new_consumer(self) -> Any:
        group = {
            "group.id": f"{self.name}-readers",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 10,  # it reads what is there, and waits for nothing
            "enable.partition.eof": True,
        }
        try:
            return confluent_kafka.Consumer({**self._settings, **group, "error_cb": self._heard})
        except confluent_kafka.KafkaException as e:  # a repetition would not help
            raise FrontierError(f"the properties for Kafka are wrong: {e.args[0].str()}") from e

    def _end(self, timeout: float) -> int:
        """Return the offset that comes next in the topic. Raises BusError if there is none, and KafkaException.

        Raises BusAway if the topic is created here: a broker may list it late, or may have listed one that was being
        deleted.
        """
        try:
            return int(self._consumer.get_watermark_offsets(TopicPartition(self.name, 0), timeout=timeout)[1])
        except confluent_kafka.KafkaException as e:
            if e.args[0].code() in _NO_TOPIC:
                if self._bus.creates:
                    self.create()
                    raise BusAway(f"Kafka does not list the topic {self.name} yet; try again") from e
                raise BusError(f"there is no topic {self.name} at the broker: no worker has begun this crawl") from e
            raise

    def _position(self) -> int:
        found = self._consumer.position([TopicPartition(self.name, 0)])[0].offset
        return max(self._ended, int(found))
