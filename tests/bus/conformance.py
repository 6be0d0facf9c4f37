"""The rules of a bus, as checks that every transport has to pass."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import count

import pytest

from budgetfrontier.bus.interface import LATER, Bus, BusError, Consumer, Received, Start
from budgetfrontier.bus.streams import Stream
from tests.support import PATIENCE, until

PARTITIONS = 4
"""Of every stream: topics that a mock broker of Kafka creates have as many."""

_names = count()


@dataclass
class Transport:
    """A broker that runs, and what is particular about it."""

    name: str
    bus: Callable[..., Bus]
    """Makes a connection, whose consumers count as dead after `session` seconds without a poll; unless that is given,
    after so many that no machine is that busy.
    """
    ends_with_its_connection: bool = True
    """Whether a consumer is dead once its connection is closed; Kafka's have their own, which live on."""
    joins_slowly: bool = False
    """Whether consumers are bound wherever nothing depends on sharing, because joining a group takes seconds."""
    drops: bool = True
    """Whether streams keep a number of messages only, rather than by retention."""


def consumer_of(transport: Transport, bus: Bus, to: Stream, group: str, start: Start | None = None) -> Consumer:
    """A consumer of all partitions, the only one of its group."""
    return bus.consumer(to, group, partitions=tuple(range(PARTITIONS)) if transport.joins_slowly else (), start=start)


def stream(*groups: str, keep: int | None = None) -> Stream:
    """A new stream."""
    return Stream(f"stream-{next(_names)}-{time.time_ns()}", PARTITIONS, groups or ("g",), keep)


def messages(count: int, *, first: int = 0) -> list[bytes]:
    return [f"message {number}".encode() for number in range(first, first + count)]


def send(bus: Bus, to: Stream, sent: Iterable[bytes], partition: int | None = None) -> None:
    """Send messages, to one partition or to all in turn."""
    producer = bus.producer(to)
    for number, message in enumerate(sent):
        producer.send(message, partition=number % PARTITIONS if partition is None else partition)
    producer.close()


def receive(consumer: Consumer, number: int, *, others: Iterable[Consumer] = ()) -> list[Received]:
    """Poll until a number of different messages were received, by this consumer and others."""
    received: dict[tuple[int, int], Received] = {}
    deadline = time.monotonic() + PATIENCE
    while len(received) < number:
        assert time.monotonic() < deadline, f"{len(received)} of {number} messages have arrived"
        for one in (consumer, *others):
            received |= {(message.partition, message.offset): message for message in one.poll(1000, 0.05)}
    return list(received.values())


def data(received: Iterable[Received]) -> list[bytes]:
    return sorted(message.data for message in received)


def finish(bus: Bus, to: Stream, *consumers: Consumer) -> None:
    """Commit until nothing is left; a commit has no effect while a busy machine has consumers taken for dead."""
    deadline = time.monotonic() + PATIENCE
    while sum(bus.lag(to, "g")):
        assert time.monotonic() < deadline, bus.lag(to, "g")
        for consumer in consumers:
            consumer.commit()
            consumer.poll(100, 0.05)


def owned(*consumers: Consumer) -> list[frozenset[int]]:
    """Poll until all partitions belong to these consumers, each of which has one."""
    deadline = time.monotonic() + PATIENCE
    while True:
        for consumer in consumers:
            assert consumer.poll(1, 0.02) == []
        parts = [consumer.partitions for consumer in consumers]
        if all(parts) and sorted(partition for part in parts for partition in part) == list(range(PARTITIONS)):
            return parts
        assert time.monotonic() < deadline, parts


def check_messages_arrive_once_in_the_order_of_their_partition(transport: Transport) -> None:
    bus, to = transport.bus(), stream()
    sent = [*messages(1000), b"", b"\x00\xff" * 100, b"x" * 700_000]
    send(bus, to, sent)
    consumer = consumer_of(transport, bus, to, "g")
    received = receive(consumer, len(sent))
    assert len(received) == len(sent)
    by_partition: dict[int, list[Received]] = defaultdict(list)
    for message in received:
        by_partition[message.partition].append(message)
    for partition, arrived in by_partition.items():
        assert [message.data for message in arrived] == sent[partition::PARTITIONS]
        first = arrived[0].offset
        assert [message.offset for message in arrived] == list(range(first, first + len(arrived)))
    consumer.commit()
    assert consumer.poll(10, 0.05) == []
    consumer.close()
    bus.close()


def check_a_poll_returns_no_more_than_it_was_asked_for(transport: Transport) -> None:
    bus, to = transport.bus(), stream()
    send(bus, to, messages(20))
    consumer = consumer_of(transport, bus, to, "g")
    received: list[Received] = []
    deadline = time.monotonic() + PATIENCE
    while len(received) < 20:
        assert time.monotonic() < deadline
        polled = consumer.poll(3, 0.05)
        assert len(polled) <= 3
        received += polled
    assert data(received) == sorted(messages(20))
    consumer.commit()
    assert sum(bus.lag(to, "g")) == 0
    consumer.close()
    bus.close()


def check_what_was_polled_is_committed_and_no_more(transport: Transport) -> None:
    bus, to = transport.bus(), stream()
    send(bus, to, messages(40))
    consumer = consumer_of(transport, bus, to, "g")
    seen: list[bytes] = []
    deadline = time.monotonic() + PATIENCE
    while len(seen) < 10:
        assert time.monotonic() < deadline
        seen += data(consumer.poll(2, 0.05))
    consumer.commit()
    consumer.close()
    again = consumer_of(transport, bus, to, "g")
    assert sorted(seen + data(receive(again, 40 - len(seen)))) == sorted(messages(40))
    again.close()
    bus.close()


def check_each_group_gets_all_even_if_it_starts_later(transport: Transport) -> None:
    bus, to = transport.bus(), stream("a", "b")
    first = consumer_of(transport, bus, to, "a")
    first.poll(1, 0.01)
    send(bus, to, messages(50))
    assert data(receive(first, 50)) == sorted(messages(50))
    first.commit()
    first.close()
    late = consumer_of(transport, bus, to, "b")
    assert data(receive(late, 50)) == sorted(messages(50))
    late.close()
    bus.close()


def check_what_was_not_committed_is_delivered_again(transport: Transport) -> None:
    bus, to = transport.bus(), stream()
    send(bus, to, messages(10), partition=1)
    consumer = consumer_of(transport, bus, to, "g")
    first = receive(consumer, 10)[0].offset
    consumer.commit({1: first + 6})
    consumer.close()
    again = consumer_of(transport, bus, to, "g")
    assert data(receive(again, 4)) == messages(10)[6:]
    again.commit()
    again.close()
    send(bus, to, messages(5, first=10), partition=1)
    last = consumer_of(transport, bus, to, "g")
    assert data(receive(last, 5)) == sorted(messages(5, first=10))
    last.close()
    bus.close()


def check_consumers_of_a_group_share_the_partitions(transport: Transport) -> None:
    if transport.joins_slowly:
        return
    bus, to = transport.bus(), stream()
    one, other = bus.consumer(to, "g"), bus.consumer(to, "g")
    parts = owned(one, other)
    assert sorted(map(len, parts)) == [2, 2]
    send(bus, to, messages(40))
    received: dict[int, list[Received]] = {0: [], 1: []}
    deadline = time.monotonic() + PATIENCE
    while sum(map(len, received.values())) < 40:
        assert time.monotonic() < deadline
        for number, consumer in enumerate((one, other)):
            received[number] += consumer.poll(100, 0.05)
    assert [{message.partition for message in received[number]} for number in (0, 1)] == [set(part) for part in parts]
    assert data(received[0] + received[1]) == sorted(messages(40))
    finish(bus, to, one, other)
    one.close()
    assert owned(other) == [frozenset(range(PARTITIONS))]
    other.close()
    bus.close()


def check_a_consumer_that_dies_is_replaced(transport: Transport) -> None:
    if not transport.ends_with_its_connection:
        return
    doomed_bus, bus, to = transport.bus(session=0.5), transport.bus(session=0.5), stream()
    send(bus, to, messages(40))
    doomed = doomed_bus.consumer(to, "g")
    received = receive(doomed, 40)
    done = {message.partition: message.offset + 1 for message in received if message.partition != 2}
    doomed.commit(done)
    doomed_bus.close()  # without leaving the group
    other = bus.consumer(to, "g")
    assert data(receive(other, 10)) == sorted(messages(40)[2::PARTITIONS])
    finish(bus, to, other)
    other.close()
    bus.close()


def check_a_consumer_can_be_bound_to_partitions(transport: Transport) -> None:
    bus, to = transport.bus(), stream()
    send(bus, to, messages(40))
    bound = bus.consumer(to, "g", partitions=(1, 3))
    received = receive(bound, 20)
    assert {message.partition for message in received} == {1, 3} == bound.partitions
    bound.commit()
    assert bus.lag(to, "g") == [10, 0, 10, 0]
    bound.close()
    bus.close()


def check_a_consumer_can_seek(transport: Transport) -> None:
    bus, to = transport.bus(), stream("g", "other")  # which keeps the messages that are committed
    send(bus, to, messages(10), partition=1)
    consumer = bus.consumer(to, "g", partitions=(1,))
    received = receive(consumer, 10)
    first = received[0].offset
    consumer.commit()
    consumer.seek(1, first + 7)
    assert data(receive(consumer, 3)) == messages(10)[7:]
    consumer.seek(1, first + 2)
    assert data(receive(consumer, 8)) == messages(10)[2:]
    consumer.seek(1, first + 9)
    assert data(receive(consumer, 1)) == messages(10)[9:]
    consumer.close()
    bus.close()


def check_a_consumer_can_start_where_it_has_stored(transport: Transport) -> None:
    """A worker that has stored its offsets with their effects goes on there, whatever was committed."""
    bus, to = transport.bus(), stream("g", "other")
    send(bus, to, messages(10), partition=1)
    send(bus, to, messages(3, first=10), partition=2)
    consumer = consumer_of(transport, bus, to, "g")
    first = min(message.offset for message in receive(consumer, 13) if message.partition == 1)
    consumer.commit()
    consumer.close()
    stored = {1: first + 4}
    again = consumer_of(transport, bus, to, "g", start=stored.get)
    assert data(receive(again, 6)) == messages(10)[4:]
    again.close()
    bus.close()


def check_a_consumer_can_be_told_later_where_to_start(transport: Transport) -> None:
    """A worker that fetches its copy of a partition first."""
    bus, to = transport.bus(), stream("g", "other")
    send(bus, to, messages(10), partition=1)
    reader = consumer_of(transport, bus, to, "other")
    first = receive(reader, 10)[0].offset
    reader.close()
    consumer = consumer_of(transport, bus, to, "g", start=lambda partition: LATER)
    until(lambda: consumer.poll(timeout=0.01) or len(consumer.partitions) == PARTITIONS)
    assert consumer.poll() == []
    consumer.seek(1, first + 4)
    assert data(receive(consumer, 6)) == messages(10)[4:]
    consumer.close()
    bus.close()


def check_lag_is_what_was_not_committed(transport: Transport) -> None:
    bus, to = transport.bus(), stream()
    assert bus.lag(to, "g") == [0] * PARTITIONS
    send(bus, to, messages(10), partition=2)
    assert bus.lag(to, "g") == [0, 0, 10, 0]
    consumer = bus.consumer(to, "g", partitions=(2,))
    first = receive(consumer, 10)[0].offset
    assert bus.lag(to, "g") == [0, 0, 10, 0]
    consumer.commit({2: first + 4})
    assert bus.lag(to, "g") == [0, 0, 6, 0]
    consumer.commit()
    assert bus.lag(to, "g") == [0] * PARTITIONS
    consumer.close()
    bus.close()


def check_another_number_of_partitions_is_refused(transport: Transport) -> None:
    bus, to = transport.bus(), stream()
    send(bus, to, messages(1))
    wrong = Stream(to.name, PARTITIONS + 1, to.groups)
    other = transport.bus()
    refused: list[Callable[[], object]] = [
        lambda: send(other, wrong, messages(1)),
        lambda: other.lag(wrong, "g"),
        lambda: other.consumer(wrong, "g").poll(),
    ]
    for call in refused:
        with pytest.raises(BusError, match="4 partitions") as error:
            call()
        assert error.type is BusError, "a worker would wait for that to pass"
    with pytest.raises(BusError, match="partition"):
        send(other, to, messages(1), partition=PARTITIONS)
    with suppress(BusError):
        other.close()
    bus.close()


def check_a_stream_that_nobody_reads_keeps_its_newest_messages(transport: Transport) -> None:
    if not transport.drops:
        return
    bus, to = transport.bus(), stream(keep=300)
    send(bus, to, messages(2000), partition=0)
    kept = bus.lag(to, "g")[0]
    assert 300 <= kept < 700
    consumer = consumer_of(transport, bus, to, "g")
    assert data(receive(consumer, kept)) == sorted(messages(2000)[-kept:])
    consumer.close()
    bus.close()


CHECKS = [check for name, check in sorted(globals().items()) if name.startswith("check_")]
"""All checks."""
