"""The bus over Kafka (the extra "kafka"): a topic for each stream, and Kafka's own consumer groups and offsets."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from budgetfrontier.bus.interface import LATER, SESSION, TIMEOUT, BusError, Received, Start
from budgetfrontier.bus.kafka_errors import LOST, REFUSED, Heard, error_of, explained, repeated, result_of
from budgetfrontier.bus.kafka_producer import LONGEST, KafkaProducer
from budgetfrontier.bus.kafka_topics import TopicIds
from budgetfrontier.bus.patience import Patience, Wait
from budgetfrontier.bus.streams import Stream
from budgetfrontier.core.endpoints import addresses
from budgetfrontier.errors import MissingExtra, SettingsError

try:
    import confluent_kafka
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic
except ModuleNotFoundError as error:
    raise MissingExtra("kafka") from error

log = logging.getLogger(__name__)

_CODES = confluent_kafka.KafkaError
_ASSIGNOR = "cooperative-sticky"
_STEP = 0.05  # seconds that one wait for messages takes at the most


def connect(
    brokers: str,
    options: Mapping[str, str] | None = None,
    *,
    session: float = SESSION,
    patience: Patience | None = None,
) -> KafkaBus:
    """Return a bus on the brokers "HOST:PORT,...", which may be started later.

    `options` are properties of librdkafka, such as {"security.protocol": "ssl"}, and two more: "replication" (default:
    1) is the replication factor of topics that are created; with "create": "no", topics are left to the brokers.
    Raises WrongAddress, and SettingsError for a property that a bus cannot have.
    """
    return KafkaBus(
        {"bootstrap.servers": addresses.brokers(brokers), **(options or {})}, session=session, patience=patience
    )


class KafkaBus:
    """A bus on a Kafka cluster."""

    def __init__(self, settings: dict[str, Any], *, session: float = SESSION, patience: Patience | None = None) -> None:
        self.patience = patience or Patience()
        """That of all operations."""
        assignor = settings.get("partition.assignment.strategy", _ASSIGNOR)
        if assignor != _ASSIGNOR:
            raise SettingsError(
                f"partition.assignment.strategy={assignor}: consumers of a bus share partitions by {_ASSIGNOR} alone; "
                "leave the property out"
            )
        replication = settings.pop("replication", 1)
        if not str(replication).isdecimal():
            raise SettingsError(f"replication={replication}: expected a number of replicas")
        self._replication = int(replication)
        self.creates = settings.pop("create", "yes") != "no"
        """Whether topics that are not there are created."""
        self._settings = {"log_level": 2, **settings}
        self._session = session
        self._declared: set[str] = set()
        self._readers: dict[str, Any] = {}
        """By group: the client that reads its offsets."""
        self._admin: Any = None
        """The client of `delete_before`, kept until its answers are there."""
        self._ids = TopicIds(self._settings, changed=self._declared.clear)

    def producer(self, stream: Stream) -> KafkaProducer:
        """Return a new producer."""
        return KafkaProducer(stream, self._settings, declare=self.declare, patience=self.patience)

    def consumer(
        self, stream: Stream, group: str, *, partitions: tuple[int, ...] = (), start: Start | None = None
    ) -> KafkaConsumer:
        """Return a new consumer of a group."""
        return KafkaConsumer(self, stream, group, partitions=partitions, start=start, session=self._session)

    def lag(self, stream: Stream, group: str) -> list[int]:
        """Return the number of messages in each partition that the group has not committed."""
        self.declare(stream)
        client = self._reader(_group(stream, group))
        asked = [TopicPartition(stream.name, partition) for partition in range(stream.partitions)]

        def ask(seconds: float) -> list[int]:
            lags = []
            for one in client.committed(asked, timeout=seconds):
                first, end = client.get_watermark_offsets(one, timeout=seconds)
                lags.append(end - max(first, one.offset))
            return lags

        return repeated(ask, self.patience)

    def begins(self, stream: Stream, partition: int) -> int:
        """Return the offset of the first message that a partition still has; gaps after it are no messages."""
        return self.bounds(stream, partition)[0]

    def bounds(self, stream: Stream, partition: int) -> tuple[int, int]:
        """Return the offsets of the first message that a partition still has, and of the next one. Raises BusError."""
        self.declare(stream)
        client, place = self._reader(f"{stream.name}-readers"), TopicPartition(stream.name, partition)
        first, end = repeated(lambda seconds: client.get_watermark_offsets(place, timeout=seconds), self.patience)
        return int(first), int(end)

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """Ask the broker to delete the messages of a partition before an offset. Does not wait; a refusal is logged."""
        if self._admin is None:
            with explained():
                self._admin = AdminClient(self._settings)
        place = TopicPartition(topic, partition, offset)
        [asked] = self._admin.delete_records([place], request_timeout=TIMEOUT).values()
        asked.add_done_callback(partial(_note_deletion, place))

    def _reader(self, group: str) -> Any:
        """Return a client that reads the offsets of a group, or of a log: one for all calls, for each connects."""
        found = self._readers.get(group)
        if found is None:
            with explained():
                found = confluent_kafka.Consumer(self._settings | {"group.id": group})
            found = self._readers.setdefault(group, found)  # another thread may have been faster
        return found

    def close(self) -> None:
        """Close the connection of `lag` and `begins`: producers and consumers have connections of their own."""
        while self._readers:
            self._readers.popitem()[1].close()

    def log_id(self, stream: Stream) -> bytes:
        """Return the id of a topic, b"" if it is not known, or not yet."""
        return self._ids.of(stream.name)

    def settings(self) -> dict[str, Any]:
        """Return the properties of a client."""
        return dict(self._settings)

    def create(self, topic: str, partitions: int, settings: Mapping[str, str], timeout: float = TIMEOUT) -> int:
        """Create a topic unless it is there, and return the number of its partitions. Raises BusError."""
        with explained():
            heard, wait = Heard(), self.patience.wait(timeout)
            admin = AdminClient({**self._settings, "error_cb": heard})
            there = partial(self._listed, admin, heard, wait, None if self.creates else topic)
            topics = there()
            if topic not in topics and self.creates:
                new = NewTopic(
                    topic, num_partitions=partitions, replication_factor=self._replication, config=dict(settings)
                )
                future = admin.create_topics([new], request_timeout=timeout)[topic]
                try:
                    result_of(future, wait)
                except confluent_kafka.KafkaException as error:
                    if error.args[0].code() != _CODES.TOPIC_ALREADY_EXISTS:
                        raise
                topics = there()
            return topics.get(topic, partitions)

    def topics(self, timeout: float = TIMEOUT) -> dict[str, int]:
        """Return the number of partitions of each topic that is there; none is created. Raises BusError."""
        with explained():
            heard = Heard()
            admin = AdminClient({**self._settings, "error_cb": heard})
            return self._listed(admin, heard, self.patience.wait(timeout), None)

    def _listed(self, admin: Any, heard: Heard, wait: Wait, topic: str | None) -> dict[str, int]:
        """Return the number of partitions of all topics, or of one, which a broker may create then."""
        look, left = partial(admin.list_topics, topic), max(0.0, wait.left())
        found = heard.first(admin, lambda seconds: look(timeout=seconds), left, patience=self.patience).topics
        return {name: len(one.partitions) for name, one in found.items()}

    def topic_settings(self, topic: str) -> dict[str, str]:
        """Return the settings of a topic, such as "retention.ms". Raises BusError."""
        asked = ConfigResource(ConfigResource.Type.TOPIC, topic)
        with explained():
            admin = AdminClient(self._settings)  # kept until the answer is there
            found = result_of(
                admin.describe_configs([asked], request_timeout=TIMEOUT)[asked], self.patience.wait(TIMEOUT)
            )
        return {name: str(entry.value) for name, entry in found.items()}

    def topic_id(self, topic: str, timeout: float = TIMEOUT) -> str:
        """Return the id of a topic, which is another one once the topic was deleted and made anew; "" without ids.

        Raises BusError.
        """
        with explained():
            return self._ids.ask(topic, timeout)

    def declare(self, stream: Stream, timeout: float = TIMEOUT) -> None:
        """Create a topic, once. Raises BusError if no broker answers, or the number of its partitions is another."""
        if stream.name in self._declared:
            return
        there = self.create(stream.name, stream.partitions, {"max.message.bytes": str(LONGEST)}, timeout)
        if there != stream.partitions:
            raise BusError(
                f"stream {stream.name} has {there} partitions at the broker, not {stream.partitions}; use the same "
                "settings everywhere"
            )
        self._declared.add(stream.name)


class KafkaConsumer:
    """A consumer of a consumer group, or of partitions that it was bound to."""

    def __init__(
        self,
        bus: KafkaBus,
        stream: Stream,
        group: str,
        *,
        partitions: tuple[int, ...],
        start: Start | None,
        session: float,
    ) -> None:
        self._bus, self._stream = bus, stream
        self._bound, self._start = partitions, start
        self._settings = {
            "group.id": _group(stream, group),
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": int(session * 1000),
            "heartbeat.interval.ms": max(100, int(session * 100)),
            "max.poll.interval.ms": max(int(session * 1000), 300_000),
            "topic.metadata.refresh.interval.ms": 10_000,  # a new topic may not be known everywhere yet
        }
        self._consumer: Any = None
        self._positions: dict[int, int | None] = {}
        self._received: list[Received] = []
        """What the poll that is under way has received."""
        self._log_id = b""
        self._not_read: set[int] = set()
        """Partitions that belong to this consumer, and are read once `seek` says from where."""

    @property
    def partitions(self) -> frozenset[int]:
        """The partitions that belong to this consumer as of its last poll."""
        return frozenset(self._positions)

    def poll(self, count: int = 512, timeout: float = 0.1) -> list[Received]:
        """Return up to `count` messages, waiting up to `timeout` seconds for the first."""
        self._join()
        self._bus.declare(self._stream)  # again, if it was removed
        self._follow()
        received = self._received = []
        deadline = time.monotonic() + timeout
        with explained():
            while len(received) < count:
                message = self._consumer.poll(0.0 if received else max(0.0, deadline - time.monotonic()))
                if message is None:
                    break
                if (error := message.error()) is not None:
                    if error.fatal() or error.code() in REFUSED:
                        raise error_of(confluent_kafka.KafkaException(error))
                    continue  # it passes by itself, when brokers are back
                data, appended = message.value() or b"", message.timestamp()[1] / 1000
                received.append(Received(message.partition(), message.offset(), data, appended))
        for message in received:
            self._positions[message.partition] = message.offset + 1
        return received

    def commit(self, offsets: Mapping[int, int] | None = None) -> None:
        """Record that messages were processed."""
        wanted = self._positions if offsets is None else offsets
        places = [
            TopicPartition(self._stream.name, partition, offset)
            for partition, offset in wanted.items()
            if offset is not None and partition in self._positions and (offsets is not None or offset != LATER)
        ]
        if not places:
            return

        def commit(_: float) -> None:
            try:
                self._consumer.commit(offsets=places, asynchronous=False)
            except confluent_kafka.KafkaException as error:
                if error.args[0].code() not in LOST:
                    raise

        repeated(commit, self._bus.patience)

    def seek(self, partition: int, offset: int) -> None:
        """Go on with the message of an offset."""
        if partition not in self._positions:
            raise BusError(f"partition {partition} of {self._stream.name} belongs to another consumer now")
        place = TopicPartition(self._stream.name, partition, offset)
        with explained():
            # A seek is refused as long as the partition is not being read yet; assigning it anew is not.
            if partition not in self._not_read:
                self._consumer.incremental_unassign([TopicPartition(self._stream.name, partition)])
            self._consumer.incremental_assign([place])
        self._not_read.discard(partition)
        self._positions[partition] = offset

    def close(self) -> None:
        """Leave the group."""
        if self._consumer is not None:
            with explained():
                if not self._positions and not self._bound:
                    with suppress(confluent_kafka.KafkaException):  # of a consumer that was refused
                        self._consumer.unsubscribe()  # without partitions, close alone would stay in the group
                self._consumer.close()
        self._consumer, self._positions = None, {}

    def _join(self) -> None:
        if self._consumer is not None:
            return
        self._bus.declare(self._stream)
        settings = self._settings | self._bus.settings()
        if settings.get("group.protocol") == "consumer":  # with it, these belong to the broker
            settings = {name: value for name, value in settings.items() if name not in _BROKERS_OWN}
        else:
            settings = {"partition.assignment.strategy": _ASSIGNOR} | settings
        with explained():
            consumer = confluent_kafka.Consumer(settings)
            if self._bound:
                self._assigned(consumer, self._committed(consumer))
            else:
                consumer.subscribe([self._stream.name], on_assign=self._assigned, on_revoke=self._revoked)
        self._consumer = consumer  # not one to which brokers did not say where to read

    def _follow(self) -> None:
        """Begin with the first message of a topic that was made anew; callers that store offsets check it."""
        if self._start is not None:
            return
        log_id = self._bus.log_id(self._stream)
        if log_id and log_id != self._log_id:
            if self._log_id:
                log.warning("%s: the log begins again: it was removed, and made anew", self._stream.name)
                for partition in self._positions:
                    self.seek(partition, 0)
            self._log_id = log_id

    def _committed(self, consumer: Any) -> list[Any]:
        """Return where to read the partitions that this consumer is bound to, as the group has committed.

        librdkafka looks that up by itself, but was seen to wait for ever on a broker that has just started.
        """
        asked = [TopicPartition(self._stream.name, partition) for partition in self._bound]
        found = repeated(lambda seconds: consumer.committed(asked, timeout=seconds), self._bus.patience)
        for place in found:
            if place.offset < 0:
                place.offset = confluent_kafka.OFFSET_BEGINNING
        return list(found)

    def _assigned(self, consumer: Any, places: list[Any]) -> None:
        for place in places:
            offset = self._start(place.partition) if self._start is not None else None
            if offset == LATER:
                self._not_read.add(place.partition)
            elif offset is not None:
                place.offset = offset
            self._positions[place.partition] = offset
        consumer.incremental_assign([place for place in places if place.partition not in self._not_read])

    def _revoked(self, consumer: Any, places: list[Any]) -> None:
        revoked = {place.partition for place in places}
        for partition in revoked:
            self._positions.pop(partition, None)
        # Their next reader may be this consumer again: it begins where it was.
        self._received[:] = [message for message in self._received if message.partition not in revoked]
        consumer.incremental_unassign([place for place in places if place.partition not in self._not_read])
        self._not_read.difference_update(place.partition for place in places)


_BROKERS_OWN = {"session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy"}


def _note_deletion(place: Any, asked: Any) -> None:
    if (error := asked.exception()) is not None:
        log.warning("messages of %s before %d are not deleted: %s", place.topic, place.offset, error)


def _group(stream: Stream, group: str) -> str:
    """Return the group's ID, which has the stream's name in it, as Kafka's groups span all topics."""
    return f"{group}-{stream.name}"
