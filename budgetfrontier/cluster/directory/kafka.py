"""A crawl's place on Kafka: the URL that names it, the topics of its logs and its owners (the extra "kafka")."""

from __future__ import annotations

import os
import zlib
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from msgspec.structs import replace

from budgetfrontier.bus import kafka
from budgetfrontier.bus.interface import TIMEOUT, BusError
from budgetfrontier.cluster.directory.compacted_topic import CompactedTopic
from budgetfrontier.cluster.directory.copy_offers import CopyNotice
from budgetfrontier.cluster.directory.owners import Owner, Owners
from budgetfrontier.cluster.directory.summaries import PartitionSummary, Summaries
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
    settings = kafka.connect(where.brokers, where.options).settings()
    client = confluent_kafka.Consumer({**settings, "group.id": f"{where.crawl}-readers"})
    try:
        return {
            number: client.get_watermark_offsets(TopicPartition(f"{where.crawl}-log", number), timeout=TIMEOUT)[1]
            for number in range(partitions)
        }
    except confluent_kafka.KafkaException as e:
        raise BusError(f"Kafka: {e.args[0].str()}") from e
    finally:
        client.close()


class KafkaDirectory:
    """The owners of a crawl's partitions, their summaries, offers of copies, and its suffix list: compacted topics."""

    def __init__(self, where: Place) -> None:
        bus, crawl = kafka.connect(where.brokers, where.options), where.crawl
        self._owners_topic = CompactedTopic(f"{crawl}-owners", Owner, bus)
        self._summaries_topic = CompactedTopic(f"{crawl}-summaries", PartitionSummary, bus)
        self._copies_topic = CompactedTopic(f"{crawl}-copies", CopyNotice, bus)
        self._suffixes_topic = CompactedTopic(f"{crawl}-suffixes", bytes, bus)
        self._tables = self._owners_topic, self._summaries_topic, self._copies_topic, self._suffixes_topic
        self._owners, self._summaries = Owners(), Summaries()
        self._copies = dict[str, CopyNotice]()
        self._suffix_list: str | None = None

    @property
    def topics(self) -> list[str]:
        """The names of its topics."""
        return [topic.name for topic in self._tables]

    def create(self) -> None:
        """Create the topics, unless they are there, or `create` is "no". Raises BusError."""
        for topic in self._tables:
            topic.create()

    def publish(self, *owners: Owner) -> None:
        """Send owners to their topic; they are there soon, once the broker answers."""
        self._owners_topic.publish({owner.partition: owner for owner in owners})

    def read(self) -> Mapping[int, Owner]:
        """Return the owners as of now."""
        for owner, _ in self._owners_topic.read():
            self._owners.note(owner)
        return self._owners

    def publish_summaries(self, found: Sequence[PartitionSummary]) -> None:
        """Send summaries to their topic; they are there soon, once the broker answers."""
        self._summaries_topic.publish({one.standing.partition: one for one in found})

    def summaries(self) -> Mapping[int, PartitionSummary]:
        """Return the last summary of each partition that has one, with the time at which the broker has stored it."""
        for found, at in self._summaries_topic.read():
            found.at = at
            self._summaries.note(found)
        return self._summaries

    def publish_copies(self, *notices: CopyNotice) -> None:
        """Send searches for copies, and offers, to their topic; they are there soon, once the broker answers."""
        self._copies_topic.publish({notice.key: notice for notice in notices})

    def copies(self) -> Collection[CopyNotice]:
        """Return the last search and the last offer of each worker for each partition, with the broker's time."""
        for notice, at in self._copies_topic.read():
            self._copies[notice.key] = replace(notice, at=at)
        return self._copies.values()

    def suffix_list(self, own: str | None = None) -> str | None:
        """Return the list that was stored first, each under a key of its own; store `own` if there is none."""
        found = self._first_list()
        if found is None and own is not None:
            self._suffixes_topic.publish({os.urandom(8).hex(): zlib.compress(own.encode())})
            self._suffixes_topic.flush()
            found = self._first_list()
        return found

    def _first_list(self) -> str | None:
        for row, _ in self._suffixes_topic.read():
            if self._suffix_list is None:
                self._suffix_list = zlib.decompress(row).decode()
        return self._suffix_list

    def close(self) -> None:
        """Close the connections, once the broker has what was published, if it answers soon."""
        for topic in self._tables:
            topic.close()
