"""A crawl's place on Kafka: the URL that names it, the topics of its logs and its owners (the extra "kafka")."""

from __future__ import annotations

import time
import zlib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from budgetfrontier.bus import kafka
from budgetfrontier.bus.interface import TIMEOUT, BusAway, BusError
from budgetfrontier.bus.kafka_errors import Heard, error_of
from budgetfrontier.cluster import owners
from budgetfrontier.cluster.owners import Owner, Owners
from budgetfrontier.core.endpoints import addresses
from budgetfrontier.errors import FrontierError, MissingExtra, WrongAddress
from budgetfrontier.settings.checks import topics_objection

try:
    import confluent_kafka
    from confluent_kafka import TopicPartition
except ModuleNotFoundError as error:
    raise MissingExtra("kafka") from error

_CODES = confluent_kafka.KafkaError
_NO_TOPIC: Final = (_CODES._UNKNOWN_PARTITION, _CODES._UNKNOWN_TOPIC, _CODES.UNKNOWN_TOPIC_OR_PART)
_TELLS_END: Final = {"enable.partition.eof": True}
_STEP: Final = 0.05
CLOSING: Final = 5.0
"""Seconds for which a broker is waited for at the end."""
FIRST_LOOK: Final = 3.0
"""Seconds to wait for a broker that was not reached yet, before the reason is logged."""


class Place(NamedTuple):
    """Where a crawl is: brokers, its name, and properties of librdkafka."""

    brokers: str
    crawl: str
    options: dict[str, str]


def place(url: str) -> Place:
    """Return the place that `kafka://HOST:PORT,.../CRAWL?property=value` names. Raises WrongAddress."""
    wrong = WrongAddress(f"{url.partition('?')[0]!r:.200} names no crawl: give kafka://HOST:PORT/CRAWL")
    try:
        parts = urlsplit(url)
    except ValueError:  # a bracket without its other one
        raise wrong from None
    crawl = unquote(parts.path.strip("/"))
    if parts.scheme != "kafka" or not parts.netloc or not crawl or "/" in crawl:
        raise wrong
    if objection := topics_objection(crawl):
        raise WrongAddress(objection)
    return Place(addresses.brokers(parts.netloc), crawl, dict(parse_qsl(parts.query)))


def place_for_clients(url: str) -> Place:
    """Return the place that a URL names, for clients: a misspelt name must not create topics."""
    where = place(url)
    return where._replace(options={**where.options, "create": "no"})


def place_of(crawl: str, kafka: str) -> Place:
    """Return the place of a crawl of this name with the brokers of the setting `cluster.kafka`."""
    brokers, _, options = kafka.partition("?")
    return Place(brokers, crawl, dict(parse_qsl(options)))


def log_ends(where: Place, partitions: int) -> dict[int, int]:
    """Return the offset that comes next in the log of each partition. Raises BusError."""
    client = confluent_kafka.Consumer({**_properties(where), "group.id": f"{where.crawl}-readers"})
    try:
        return {
            number: client.get_watermark_offsets(TopicPartition(f"{where.crawl}-log", number), timeout=TIMEOUT)[1]
            for number in range(partitions)
        }
    except confluent_kafka.KafkaException as e:
        raise BusError(f"Kafka: {e.args[0].str()}") from e
    finally:
        client.close()


def _properties(where: Place) -> dict[str, Any]:
    options = {name: value for name, value in where.options.items() if name not in ("replication", "create")}
    return {"bootstrap.servers": where.brokers, "log_level": 2, **options}


def _end_of_log(event: Any) -> int | None:
    """Return the offset at which a consumer has come to the end of a log; None for another error, or a message."""
    error = event.error()
    return int(event.offset()) if error is not None and error.code() == _CODES._PARTITION_EOF else None


class KafkaDirectory:
    """The owners of a crawl's partitions, in a compacted topic with one record for each partition."""

    def __init__(self, where: Place) -> None:
        self._topic, self._suffixes = f"{where.crawl}-owners", f"{where.crawl}-suffixes"
        self._settings = _properties(where)
        self._creates = where.options.get("create") != "no"
        self._bus = kafka.connect(where.brokers, where.options)
        self._producer: Any = None
        self._consumer: Any = None
        self._heard = Heard()
        self._is_reached = False
        self._ended = 0
        """The end of the topic at which the consumer was last: control records may come after the last owner."""
        self._owners = Owners()

    def publish(self, *owners_: Owner) -> None:
        """Send owners to the topic, which `create` has made; they are there soon, once the broker answers."""
        producer = self._connected_producer()
        for owner in owners_:
            producer.produce(self._topic, owners.encode(owner), key=str(owner.partition), partition=0)
        producer.poll(0)

    def read(self) -> Mapping[int, Owner]:
        """Return the owners as of now."""
        if self._consumer is None:
            self.create()
            self._consumer = self._new_consumer()
        deadline = time.monotonic() + TIMEOUT
        try:
            if self._is_reached:
                end = self._end(TIMEOUT)
            else:
                end = self._heard.first(self._consumer, self._end, FIRST_LOOK)
                self._consumer.assign([TopicPartition(self._topic, 0, 0)])
                self._is_reached = True
        except confluent_kafka.KafkaException as e:
            raise BusError(f"Kafka: {e.args[0].str()}") from e
        while self._position() < end:
            message = self._consumer.poll(_STEP)
            if message is None:
                if time.monotonic() > deadline:
                    raise BusError(f"Kafka has not answered for {TIMEOUT:.0f} s; look whether it runs")
            elif message.error() is not None:
                self._ended = max(self._ended, _end_of_log(message) or 0)
            elif (owner := owners.decode(message.value() or b"")) is not None:
                self._owners.note(owner)
        return self._owners

    def _new_consumer(self) -> Any:
        group = {"group.id": f"{self._topic}-readers", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        try:
            return confluent_kafka.Consumer({**self._settings, **group, **_TELLS_END, "error_cb": self._heard})
        except confluent_kafka.KafkaException as e:  # a repetition would not help
            raise FrontierError(f"the properties for Kafka are wrong: {e.args[0].str()}") from e

    def _end(self, timeout: float) -> int:
        """Return the offset that comes next in the topic. Raises BusError if there is none, and KafkaException.

        Raises BusAway if the topic is created here: a broker may list it late, or may have listed one that was being
        deleted.
        """
        try:
            return int(self._consumer.get_watermark_offsets(TopicPartition(self._topic, 0), timeout=timeout)[1])
        except confluent_kafka.KafkaException as e:
            if e.args[0].code() in _NO_TOPIC:
                if self._creates:
                    self.create()
                    raise BusAway(f"Kafka does not list the topic {self._topic} yet; try again") from e
                raise BusError(f"there is no topic {self._topic} at the broker: no worker has begun this crawl") from e
            raise

    def suffix_list(self, own: str | None = None) -> str | None:
        """Return the list in the first record of its topic; append `own` if there is none."""
        if own is not None and self._creates:
            self._bus.create(self._suffixes, 1, {"retention.ms": "-1", "retention.bytes": "-1"})
        found = self._first_record(self._suffixes)
        if found is None and own is not None:
            producer = self._connected_producer()
            producer.produce(self._suffixes, zlib.compress(own.encode()), partition=0)
            if producer.flush(TIMEOUT):
                raise BusAway(f"Kafka has not answered for {TIMEOUT:.0f} s; look whether it runs")
            found = self._first_record(self._suffixes)
        return None if found is None else zlib.decompress(found).decode()

    def _first_record(self, topic: str) -> bytes | None:
        """Return the first record of a topic; None if it has none, or there is no such topic. Raises BusError."""
        consumer = confluent_kafka.Consumer({**self._settings, **_TELLS_END, "group.id": f"{topic}-readers"})
        place = TopicPartition(topic, 0, confluent_kafka.OFFSET_BEGINNING)
        deadline = time.monotonic() + TIMEOUT
        try:
            first, end = consumer.get_watermark_offsets(place, timeout=TIMEOUT)
            if first == end:
                return None
            consumer.assign([place])
            while time.monotonic() < deadline:
                message = consumer.poll(_STEP)
                if message is not None and message.error() is None:
                    return bytes(message.value())
                if message is not None and _end_of_log(message) is not None:  # it has control records alone
                    return None
            raise BusAway(f"Kafka has not answered for {TIMEOUT:.0f} s; look whether it runs")
        except confluent_kafka.KafkaException as e:
            if e.args[0].code() in _NO_TOPIC:
                return None
            raise error_of(e) from e
        finally:
            consumer.close()

    def _connected_producer(self) -> Any:
        if self._producer is None:
            self._producer = confluent_kafka.Producer({"linger.ms": 0, "message.timeout.ms": 0, **self._settings})
        return self._producer

    def _position(self) -> int:
        found = self._consumer.position([TopicPartition(self._topic, 0)])[0].offset
        return max(self._ended, int(found))

    def close(self) -> None:
        """Close the connections, once the broker has the published entries, if it answers soon."""
        if self._producer is not None:
            self._producer.flush(CLOSING)
        if self._consumer is not None:
            self._consumer.close()
        self._consumer = self._producer = None
        self._is_reached, self._ended = False, 0

    def create(self) -> None:
        """Create the topic, unless it is there. Raises BusError."""
        if self._creates:
            self._bus.create(self._topic, 1, {"cleanup.policy": "compact"})
