"""Brokers that cannot be reached: clients and workers are told why."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from budgetfrontier.bus import kafka as bus_kafka
from budgetfrontier.bus.interface import BusAway, BusError
from budgetfrontier.bus.kafka_errors import Heard
from budgetfrontier.cluster.directory import compacted_topic, kafka
from budgetfrontier.cluster.directory.kafka import KafkaDirectory
from budgetfrontier.errors import FrontierError
from tests.support import PATIENCE

TIMED_OUT = KafkaError._TIMED_OUT
DOWN = KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"
RESET = KafkaError._TRANSPORT, "broker1: Disconnected"
REFUSED = KafkaError._AUTHENTICATION, "broker1: Invalid username or password"


class Client:
    """A client of librdkafka, which hears errors when it is polled; `answers` are codes of errors, or an answer."""

    def __init__(self, heard: Heard, errors: list[tuple[int, str]], answers: list[Any]) -> None:
        self._heard, self._errors, self._answers = heard, errors, answers
        self.waits: list[float] = []

    def poll(self, _: float) -> None:
        for code, reason in self._errors:
            self._heard(KafkaError(code, reason))

    def request(self, seconds: float) -> str:
        self.waits.append(seconds)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, int):
            raise KafkaException(KafkaError(answer))
        return str(answer)


@pytest.mark.parametrize(
    ("errors", "answers", "timeout", "expected"),
    [
        ([DOWN, RESET], [TIMED_OUT, TIMED_OUT, "found"], PATIENCE, "found"),
        ([DOWN, RESET], [TIMED_OUT], 0.0, (BusAway, "Kafka: broker1: Disconnected; look whether it runs")),
        ([DOWN], [TIMED_OUT], 0.0, (BusAway, "Kafka: Local: Timed out; look whether it runs")),
        ([RESET, REFUSED, RESET], [TIMED_OUT], 9.0, (FrontierError, f"Kafka refuses the credentials: {REFUSED[1]}")),
        ([], [KafkaError.TOPIC_AUTHORIZATION_FAILED], 9.0, (BusError, "Kafka: Broker: Topic authorization failed")),
    ],
)
def test_a_first_request_ends_with_the_reason(
    errors: list[tuple[int, str]], answers: list[Any], timeout: float, expected: Any
) -> None:
    heard = Heard()
    client = Client(heard, errors, answers)
    if isinstance(expected, str):
        assert heard.first(client, client.request, timeout) == expected
        assert client.waits == [0.5, 1.0, 2.0]
        return
    with pytest.raises(FrontierError) as caught:
        heard.first(client, client.request, timeout)
    assert (type(caught.value), str(caught.value)) == expected


@pytest.mark.parametrize("reaches", [
    lambda brokers: KafkaDirectory(kafka.place_for_clients(f"kafka://{brokers}/test")).read(),
    lambda brokers: bus_kafka.connect(brokers).create("test-log", 1, {}, 0.1),
])  # fmt: skip
def test_a_broker_that_is_away_is_named_with_the_reason(
    reaches: Callable[[str], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compacted_topic, "FIRST_LOOK", 0.1)
    with socket.socket() as plain:
        plain.bind(("127.0.0.1", 0))  # and nobody listens
        brokers = f"127.0.0.1:{plain.getsockname()[1]}"
        with pytest.raises(BusAway, match=rf"Kafka: {brokers}/.*Connection refused.*; look whether it runs"):
            reaches(brokers)


class Consumer:
    """A consumer of a broker that lists a topic, or says why not: `answers` are ends, or codes of errors."""

    def __init__(self, answers: list[int]) -> None:
        self._answers = answers

    def get_watermark_offsets(self, *_: object, timeout: float) -> tuple[int, int]:
        answer = self._answers.pop(0)
        if answer < 0:
            raise KafkaException(KafkaError(answer))
        return 0, answer

    def assign(self, _: object) -> None: ...

    def poll(self, _: float) -> None: ...

    def position(self, places: list[TopicPartition]) -> list[TopicPartition]:
        return places

    def close(self) -> None: ...


def test_a_topic_that_was_being_deleted_is_created_again(monkeypatch: pytest.MonkeyPatch) -> None:
    created: list[str] = []
    consumer = Consumer([KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC, 0])
    monkeypatch.setattr("confluent_kafka.Consumer", lambda _: consumer)
    monkeypatch.setattr(bus_kafka.KafkaBus, "create", lambda _, topic, *given: created.append(topic))
    directory = KafkaDirectory(kafka.place("kafka://localhost:1/test"))
    assert dict(directory.read()) == {}
    assert created == 3 * ["test-owners"]
    directory.close()


def test_nobody_who_looks_at_a_crawl_creates_its_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("confluent_kafka.Consumer", lambda _: Consumer([KafkaError._UNKNOWN_PARTITION]))
    directory = KafkaDirectory(kafka.place_for_clients("kafka://localhost:1/test"))
    with pytest.raises(BusError, match="no worker has begun this crawl"):
        directory.read()
