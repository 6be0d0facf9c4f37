"""Kafka: a real broker keeps the rules of the bus, also when consumers are killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from budgetfrontier.bus import kafka, kafka_topics
from budgetfrontier.bus.codecs.codec import MAX_SIZE
from budgetfrontier.bus.dead_letters import DeadLetters
from budgetfrontier.bus.interface import BusAway, BusError, MessagesTooLarge
from budgetfrontier.bus.memory import MemoryBroker
from budgetfrontier.bus.streams import Stream, streams
from budgetfrontier.bus.workers.log_reader import LogReader
from tests.bus.conformance import (
    CHECKS,
    PARTITIONS,
    Transport,
    check_a_consumer_can_be_bound_to_partitions,
    check_a_consumer_can_start_where_it_has_stored,
    check_consumers_of_a_group_share_the_partitions,
    check_what_was_not_committed_is_delivered_again,
    data,
    finish,
    messages,
    receive,
    send,
    stream,
)
from tests.bus.kafka_server import jars, running
from tests.installed import NotInstalled
from tests.support import PATIENCE, child_process, until

pytestmark = pytest.mark.waits

CONSUME = """
import sys
from budgetfrontier.bus import kafka
from budgetfrontier.bus.streams import Stream
bus = kafka.connect(sys.argv[1], session=2.0)
consumer = bus.consumer(Stream(sys.argv[2], 4, ("g",)), "g")
while True:
    for message in consumer.poll():
        print(message.data.decode(), flush=True)
"""
"""A consumer that commits nothing."""


def check_a_consumer_that_is_killed_is_replaced(brokers: str) -> None:
    bus, to = kafka.connect(brokers, session=2.0), stream()
    send(bus, to, messages(40))
    command = [sys.executable, "-c", CONSUME, brokers, to.name]
    with child_process(command, stdout=subprocess.PIPE, text=True) as doomed:
        assert doomed.stdout is not None
        seen = [doomed.stdout.readline().strip() for _ in range(40)]
        doomed.kill()
    assert sorted(seen) == sorted(message.decode() for message in messages(40))
    other = bus.consumer(to, "g")
    assert data(receive(other, 40)) == sorted(messages(40))
    finish(bus, to, other)
    other.close()


def check_a_consumer_without_partitions_leaves_its_group(brokers: str) -> None:
    """The next consumer would wait for the end of its session before it had any."""
    bus = kafka.connect(brokers, {"heartbeat.interval.ms": "300"}, session=2 * PATIENCE)
    to = Stream(stream().name, 1, ("g",))
    consumers = [bus.consumer(to, "g") for _ in range(2)]
    until(lambda: [consumer.poll() for consumer in consumers] and sum(len(one.partitions) for one in consumers) == 1)
    admin, group = AdminClient({"bootstrap.servers": brokers}), f"g-{to.name}"

    def members() -> int:
        [found] = admin.describe_consumer_groups([group]).values()
        for consumer in consumers:
            consumer.poll()
        return len(found.result().members) if found.result().state is ConsumerGroupState.STABLE else 0

    consumers.sort(key=lambda one: not one.partitions)
    until(lambda: members() == 2)
    consumers.pop().close()
    until(lambda: members() == 1)
    consumers.pop().close()


def check_a_topic_that_was_made_anew_is_another_log(brokers: str) -> None:
    bus, to, kept = kafka.connect(brokers), stream(), MemoryBroker().bus()
    admin = AdminClient({"bootstrap.servers": brokers})
    letters = DeadLetters(kept, streams().dead_letters)
    offsets, log_id = dict[int, int](), b""
    for first in (0, 100):  # more in the second, so that no offset of the first is beyond its end
        send(bus, to, messages(10 + first, first=first), partition=1)
        reader = LogReader(
            bus, to, "g", letters=letters, decode=bytes, partitions=range(4), offsets=offsets, log_id=log_id
        )
        found: list[bytes] = []
        deadline = time.monotonic() + PATIENCE
        while reader.next_log_id == log_id or len(found) < 10 + first:
            assert time.monotonic() < deadline, found
            found += reader.read(1000, 0.05)
            reader.applied()
        assert set(found) == set(messages(10 + first, first=first))
        offsets, log_id = reader.offsets, reader.log_id
        reader.close()
        admin.delete_topics([to.name])[to.name].result(PATIENCE)
        until(lambda: to.name not in admin.list_topics(timeout=PATIENCE).topics)
        bus = kafka.connect(brokers)


def check_a_topic_that_is_made_anew_is_read_from_its_beginning(brokers: str) -> None:
    """By a consumer that goes on meanwhile, and whose offsets are in the new topic, too."""
    bus, to, admin = kafka.connect(brokers), stream(), AdminClient({"bootstrap.servers": brokers})
    consumer, found = bus.consumer(to, "g"), list[bytes]()
    for first in (0, 100):
        send(bus, to, messages(10 + first, first=first), partition=1)
        deadline = time.monotonic() + PATIENCE
        while set(found) != set(messages(10 + first, first=first)) or not consumer._log_id:
            assert time.monotonic() < deadline, found
            found += data(consumer.poll(1000, 0.05))
        found = []
        if not first:
            admin.delete_topics([to.name])[to.name].result(PATIENCE)
            until(lambda: to.name not in admin.list_topics(timeout=PATIENCE).topics)
            bus = kafka.connect(brokers)
    consumer.close()


def check_no_message_that_is_refused_counts_as_sent(brokers: str) -> None:
    """What is too large is given back; what was refused because it was in one batch with it is sent."""
    bus, to = kafka.connect(brokers), stream()
    bus.create(to.name, PARTITIONS, {"max.message.bytes": "2000"})
    producer = bus.producer(to)
    producer.send(*messages(60), b"x" * 3000, b"y" * (18 << 20), *messages(60, first=60))
    with pytest.raises(MessagesTooLarge, match="18,874,368 bytes") as refused:
        producer.flush(PATIENCE)
    assert sorted((each.partition, len(each.data)) for each in refused.value.messages) == [(0, 3000), (0, 18 << 20)]
    producer.flush(PATIENCE)
    consumer = bus.consumer(to, "g")
    assert data(receive(consumer, 120)) == sorted(messages(120))
    consumer.close()


def check_large_messages_arrive(brokers: str) -> None:
    """Topics are made for the longest that a codec makes."""
    bus, to = kafka.connect(brokers), stream()
    send(bus, to, [b"x" * MAX_SIZE, b"small"], partition=2)
    consumer = bus.consumer(to, "g")
    assert [len(each) for each in data(receive(consumer, 2))] == [5, MAX_SIZE]
    consumer.close()


def check_what_never_passes_is_not_waited_for(brokers: str) -> None:
    """Settings of groups that the broker refuses, and names that it gives no topic."""
    to, deadline = stream(), time.monotonic() + PATIENCE
    for options in (
        {"session.timeout.ms": "100"},
        {"group.protocol": "consumer", "group.remote.assignor": "no_such"},
    ):
        consumer = kafka.connect(brokers, options).consumer(to, "g")
        with pytest.raises(BusError, match=r"session timeout|assignor") as refused:
            while time.monotonic() < deadline:
                consumer.poll()
        assert refused.type is BusError
        consumer.close()
    for name in ("n\u00f6", "two words"):
        with pytest.raises(BusError, match=r"(?i)topic") as refused:
            kafka.connect(brokers).consumer(Stream(name, 1, ("g",)), "g").poll()
        assert refused.type is BusError


def test_a_real_broker_keeps_the_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All checks at once, because each of them mostly waits."""
    try:
        jars()
    except NotInstalled as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"a real Kafka broker was NOT tested: {error}")
    monkeypatch.setattr(kafka_topics, "LOOK_AGAIN", 0.5)
    with running(tmp_path) as brokers, ThreadPoolExecutor() as threads:
        check_a_consumer_can_be_bound_to_partitions(transport(brokers))  # which has no groups yet
        runs = [threads.submit(check, transport(brokers)) for check in CHECKS]
        runs.append(threads.submit(check_a_consumer_that_is_killed_is_replaced, brokers))
        runs.append(threads.submit(check_a_consumer_without_partitions_leaves_its_group, brokers))
        runs.append(threads.submit(check_a_topic_that_was_made_anew_is_another_log, brokers))
        runs.append(threads.submit(check_a_topic_that_is_made_anew_is_read_from_its_beginning, brokers))
        runs.append(threads.submit(check_no_message_that_is_refused_counts_as_sent, brokers))
        runs.append(threads.submit(check_large_messages_arrive, brokers))
        runs.append(threads.submit(check_what_never_passes_is_not_waited_for, brokers))
        for check in (
            check_consumers_of_a_group_share_the_partitions,
            check_what_was_not_committed_is_delivered_again,
            check_a_consumer_can_start_where_it_has_stored,
        ):  # which depend on the protocol of groups
            runs.append(threads.submit(check, transport(brokers, **{"group.protocol": "consumer"})))
        for run in runs:
            run.result()


def transport(brokers: str, **options: str) -> Transport:
    return Transport(
        "kafka",
        lambda: kafka.connect(brokers, options, session=30.0),
        ends_with_its_connection=False,
        drops=False,
    )


def test_a_broker_that_is_away_is_a_clear_error() -> None:
    bus, to = kafka.connect("127.0.0.1:1", session=6.0), stream()
    with pytest.raises(BusAway, match="Kafka"):
        bus.declare(to, timeout=0.2)


def test_a_refusal_is_never_forgotten() -> None:
    """Nothing says which messages were lost with it, so that none counts as sent any more."""
    bus, to = kafka.connect("127.0.0.1:1"), stream()
    producer = bus.producer(to)
    producer._on_delivery(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), None)
    for _ in range(2):
        with pytest.raises(BusError, match=f"refused messages of {to.name}: .*[Aa]uthorization") as refused:
            producer.flush(0.0)
        assert refused.type is BusError


def test_an_invalid_option_is_a_clear_error() -> None:
    bus = kafka.connect("127.0.0.1:1", {"no.such.option": "1"})
    with pytest.raises(BusError, match=r"no\.such\.option"):
        bus.producer(stream())


def test_the_lag_of_a_group_is_asked_by_one_client(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []

    def consumer(settings: object) -> Idle:
        made.append(settings)
        return Idle()

    monkeypatch.setattr("confluent_kafka.Consumer", consumer)
    bus = kafka.connect("127.0.0.1:1")
    monkeypatch.setattr(bus, "declare", lambda to: None)
    to = stream("g", "h")
    assert [bus.lag(to, group) for group in ("g", "g", "h")] == [[0] * 4] * 3
    assert len(made) == 2
    bus.close()


def test_a_consumer_that_was_not_told_where_to_read_asks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forgetful(Idle):
        """A client that gets no answer to its first request."""

        def committed(self, places: list[object], timeout: float) -> list[object]:
            if answers.pop(0):
                return places
            raise KafkaException(KafkaError(KafkaError._RESOLVE))

        def incremental_assign(self, places: object) -> None: ...

        def poll(self, timeout: float) -> None: ...

    answers = [False, True]
    monkeypatch.setattr("confluent_kafka.Consumer", lambda settings: Forgetful())
    bus = kafka.connect("127.0.0.1:1")
    monkeypatch.setattr(bus, "declare", lambda to: None)
    monkeypatch.setattr(bus, "log_id", lambda to: None)
    consumer = bus.consumer(stream(), "g", partitions=(1,))
    with pytest.raises(BusAway):
        consumer.poll()
    assert consumer.poll() == [] and consumer.partitions == {1}


class Idle:
    """A client of a broker where nothing waits."""

    def committed(self, places: list[object], timeout: float) -> list[object]:
        """Return what a group has committed."""
        return places

    def get_watermark_offsets(self, place: object, timeout: float) -> tuple[int, int]:
        """Return the first offset of a partition, and its end."""
        return 0, 0

    def close(self) -> None:
        """Do nothing."""


def test_a_partition_that_is_revoked_during_a_poll_is_gone_with_what_was_received_of_it() -> None:
    class Message:
        def __init__(self, partition: int, offset: int) -> None:
            self.partition, self.offset = (lambda: partition), (lambda: offset)
            self.error, self.value, self.timestamp = (lambda: None), (lambda: b"x"), (lambda: (2, 1000))

    class Client:
        """What librdkafka does: it calls back while it is polled."""

        def __init__(self) -> None:
            self.steps: list[object] = [Message(7, 1740), Message(1, 20), "revoke", Message(1, 21)]

        def poll(self, timeout: float) -> object:
            step = self.steps.pop(0) if self.steps else None
            if step == "revoke":
                consumer._revoked(self, [TopicPartition("s", 7)])
                return self.poll(timeout)
            return step

        def incremental_unassign(self, places: object) -> None: ...

        def incremental_assign(self, places: object) -> None: ...

    bus = kafka.connect("127.0.0.1:1", {"create": "no"})
    bus._declared.add("s")
    consumer = bus.consumer(Stream("s", 8, ("g",)), "g", start=lambda partition: 0)
    assert isinstance(consumer, kafka.KafkaConsumer)
    consumer._consumer = Client()
    consumer._assigned(consumer._consumer, [TopicPartition("s", 1), TopicPartition("s", 7)])
    found = consumer.poll()
    assert [(one.partition, one.offset, one.time) for one in found] == [(1, 20, 1.0), (1, 21, 1.0)]
    assert consumer.partitions == {1}
