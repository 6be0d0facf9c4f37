"""A crawl's place on Kafka: the URL that names it, the topics of its logs and its owners (the extra "kafka")."""

from __future__ import annotations

import time
import zlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from budgetfrontier.bus import kafka
from budgetfrontier.bus.interface import TIMEOUT, BusAway, BusError
from budgetfrontier.bus.kafka_errors import error_of
from budgetfrontier.cluster.directory import copy_offers, owners, summaries
from budgetfrontier.cluster.directory.compacted_topic import NO_TOPIC, STEP, TELLS_END, CompactedTopic, end_of_log
from budgetfrontier.cluster.directory.copy_offers import CopyNotice
from budgetfrontier.cluster.directory.owners import Owner, Owners
from budgetfrontier.cluster.directory.summaries import PartitionSummary
from budgetfrontier.core.endpoints import addresses
from budgetfrontier.errors import MissingExtra, WrongAddress
from budgetfrontier.settings.checks import topics_objection

try:
    import confluent_kafka
    from confluent_kafka import TopicPartition
except ModuleNotFoundError as error:
    raise MissingExtra("kafka") from error


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


class KafkaDirectory:
    """The owners of a crawl's partitions, their summaries, and offers of copies: each a compacted topic."""

    def __init__(self, where: Place) -> None:
        self._suffixes = f"{where.crawl}-suffixes"
        self._settings = _properties(where)
        self._creates = where.options.get("create") != "no"
        self._bus = kafka.connect(where.brokers, where.options)
        self._owners_topic, self._summaries_topic, self._copies_topic = (
            CompactedTopic(f"{where.crawl}-{name}", self._bus, self._settings, creates=self._creates)
            for name in ("owners", "summaries", "copies")
        )
        self._copies = dict[str, CopyNotice]()
        self._owners, self._summaries = Owners(), dict[int, PartitionSummary]()

    def create(self) -> None:
        """Create the topics, unless they are there. Raises BusError."""
        self._owners_topic.create()
        self._summaries_topic.create()
        self._copies_topic.create()

    def publish(self, *owners_: Owner) -> None:
        """Send owners to their topic; they are there soon, once the broker answers."""
        self._owners_topic.publish({owner.partition: owners.encode(owner) for owner in owners_})

    def read(self) -> Mapping[int, Owner]:
        """Return the owners as of now."""
        for record, _ in self._owners_topic.read():
            if (owner := owners.decode(record)) is not None:
                self._owners.note(owner)
        return self._owners

    def publish_summaries(self, found: Sequence[PartitionSummary]) -> None:
        """Send summaries to their topic; they are there soon, once the broker answers."""
        self._summaries_topic.publish({one.standing.partition: summaries.encode(one) for one in found})

    def summaries(self) -> Mapping[int, PartitionSummary]:
        """Return the last summary of each partition that has one."""
        for record, at in self._summaries_topic.read():
            if (found := summaries.decode(record, at)) is not None:
                self._summaries[found.standing.partition] = found
        return self._summaries

    def publish_copies(self, *notices: CopyNotice) -> None:
        """Send searches for copies, and offers, to their topic; they are there soon, once the broker answers."""
        self._copies_topic.publish({notice.key: copy_offers.encode(notice) for notice in notices})

    def copies(self) -> Collection[CopyNotice]:
        """Return the last search and the last offer of each worker for each partition."""
        for record, _ in self._copies_topic.read():
            if (notice := copy_offers.decode(record)) is not None:
                self._copies[notice.key] = notice
        return self._copies.values()

    def suffix_list(self, own: str | None = None) -> str | None:
        """Return the list in the first record of its topic; append `own` if there is none."""
        if own is not None and self._creates:
            self._bus.create(self._suffixes, 1, {"retention.ms": "-1", "retention.bytes": "-1"})
        found = self._first_record(self._suffixes)
        if found is None and own is not None:
            producer = self._owners_topic.connected_producer()
            producer.produce(self._suffixes, zlib.compress(own.encode()), partition=0)
            if producer.flush(TIMEOUT):
                raise BusAway(f"Kafka has not answered for {TIMEOUT:.0f} s; look whether it runs")
            found = self._first_record(self._suffixes)
        return None if found is None else zlib.decompress(found).decode()

    def _first_record(self, topic: str) -> bytes | None:
        """Return the first record of a topic; None if it has none, or there is no such topic. Raises BusError."""
        consumer = confluent_kafka.Consumer({**self._settings, **TELLS_END, "group.id": f"{topic}-readers"})
        place = TopicPartition(topic, 0, confluent_kafka.OFFSET_BEGINNING)
        deadline = time.monotonic() + TIMEOUT
        try:
            first, end = consumer.get_watermark_offsets(place, timeout=TIMEOUT)
            if first == end:
                return None
            consumer.assign([place])
            while time.monotonic() < deadline:
                message = consumer.poll(STEP)
                if message is not None and message.error() is None:
                    return bytes(message.value())
                if message is not None and end_of_log(message) is not None:  # it has control records alone
                    return None
            raise BusAway(f"Kafka has not answered for {TIMEOUT:.0f} s; look whether it runs")
        except confluent_kafka.KafkaException as e:
            if e.args[0].code() in NO_TOPIC:
                return None
            raise error_of(e) from e
        finally:
            consumer.close()

    def close(self) -> None:
        """Close the connections, once the broker has what was published, if it answers soon."""
        for topic in self._owners_topic, self._summaries_topic, self._copies_topic:
            topic.close()
