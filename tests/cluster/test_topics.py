"""The topics of a crawl at the start of a worker: created, or left to their operator and checked, all at once."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier.bus import kafka
from budgetfrontier.bus.interface import BusError
from budgetfrontier.cluster.directory import retention
from budgetfrontier.cluster.directory.kafka import KafkaDirectory, Place
from budgetfrontier.cluster.directory.topics import prepare
from budgetfrontier.errors import SettingsError
from budgetfrontier.settings.schema import ClusterSettings
from budgetfrontier.tools.cli.exits import CONFIGURATION, exit_code

TABLES = ["test-owners", "test-summaries", "test-copies", "test-suffixes"]
TOPICS = ["test-log", *TABLES]


class Broker:
    """A broker that lists topics with their settings, and creates some; `forbidden` are those it does not describe."""

    def __init__(self) -> None:
        self.topics: dict[str, tuple[int, dict[str, str]]] = {}
        self.forbidden: set[str] = set()

    def create(self, topic: str, partitions: int, settings: dict[str, str]) -> int:
        return self.topics.setdefault(topic, (partitions, {"message.timestamp.type": "CreateTime", **settings}))[0]

    def describe(self, topic: str) -> dict[str, str]:
        if topic in self.forbidden:
            raise BusError("Kafka: Broker: Topic authorization failed")
        return self.topics[topic][1]


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    broker = Broker()
    bus = kafka.KafkaBus
    monkeypatch.setattr(bus, "create", lambda _, *words, **__: broker.create(*words))
    monkeypatch.setattr(bus, "topics", lambda *_: {name: number for name, (number, _) in broker.topics.items()})
    monkeypatch.setattr(bus, "topic_settings", lambda _, topic: broker.describe(topic))
    monkeypatch.setattr(KafkaDirectory, "read", lambda _: {})
    return broker


def start(**options: Any) -> list[str]:
    """Prepare the topics of a crawl; return what is wrong with them."""
    where = Place("localhost:1", "test", options)
    bus, directory = kafka.connect(where.brokers, where.options), KafkaDirectory(where)
    try:
        assert prepare(bus, directory, "test", ClusterSettings(partitions=4), stopping=lambda: False)
    except SettingsError as error:
        assert exit_code(error) == CONFIGURATION  # which systemd is told not to restart
        return error.problems
    return []


def test_a_worker_creates_all_topics_as_they_must_be(broker: Broker) -> None:
    assert start() == []
    assert list(broker.topics) == TOPICS
    assert start(create="no") == []


def test_topics_that_are_left_to_the_operator_are_named_with_their_settings_if_they_are_missing(broker: Broker) -> None:
    said = start(create="no")
    assert broker.topics == {}
    assert [text.split(",")[0] for text in said] == [f"there is no topic {name}" for name in TOPICS]
    assert "--partitions 4 --config cleanup.policy=delete --config retention.ms=-1 " in said[0]
    assert all(
        text.endswith("--partitions 1 --config cleanup.policy=compact --config message.timestamp.type=LogAppendTime")
        for text in said[1:]
    )


def test_the_manual_creates_topics_with_these_settings() -> None:
    text = (Path(__file__).parents[2] / "docs" / "howto" / "partitions.md").read_text()
    commands = re.findall(r"--create (?:.*\\\n)*.*\n", text)
    log, table = (dict(re.findall(r"--config (\S+)=([\w-]+)", command)) for command in commands)
    assert (log, table) == (retention.settings_of_topic(), retention.settings_of_table())


def test_topics_that_a_broker_has_made_by_itself_are_all_refused_at_once(broker: Broker) -> None:
    for name in TOPICS:
        broker.create(name, 8, {"cleanup.policy": "delete"})
    for options in {}, {"create": "no"}:
        said = start(**options)
        assert [sum(name in text for text in said) for name in TOPICS] == [2, 3, 3, 3, 3]


def test_a_topic_that_may_not_be_looked_at_is_doubted(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    start()
    broker.forbidden.add("test-owners")
    with caplog.at_level(logging.WARNING, "budgetfrontier.cluster"):
        assert start() == []
    assert [record.getMessage() for record in caplog.records] == [
        "the settings of the topic test-owners cannot be looked at: Kafka: Broker: Topic authorization failed"
    ]


@pytest.mark.parametrize(
    ("partitions", "found", "wrong"),
    [
        (1, retention.settings_of_table(), []),
        (1, {}, []),
        (1, {"cleanup.policy": "compact,delete"}, ["cleanup.policy=compact,delete"]),
        (8, {"message.timestamp.type": "CreateTime"}, ["has 8 partitions", "the age of its rows"]),
    ],
)
def test_a_table_that_would_lose_rows_or_their_ages_is_refused(
    partitions: int, found: dict[str, str], wrong: list[str]
) -> None:
    said = retention.table_objections("t", partitions, found)
    assert len(said) == len(wrong) and all(word in text for word, text in zip(wrong, said, strict=True))
