"""Redis Streams: what is no longer needed is removed, and a server that restarts, or has lost all, stops nobody."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis

from budgetfrontier.bus import redis_streams
from budgetfrontier.bus.interface import BusAway, BusError
from tests.bus.conformance import Transport, data, messages, receive, send, stream
from tests.tools.importers.redis.server import needs_server, started

pytestmark = needs_server


def server_of(transport: Transport) -> Any:
    return transport.bus()._server.client  # type: ignore[attr-defined]


def test_what_all_groups_have_committed_is_removed(redis_transport: Transport) -> None:
    bus, to = redis_transport.bus(), stream("a", "b")
    send(bus, to, messages(40), partition=1)
    server = server_of(redis_transport)
    for group, left in (("a", 40), ("b", 0)):
        consumer = bus.consumer(to, group, partitions=(1,))
        receive(consumer, 40)
        consumer.commit()
        assert server.xlen(f"{to.name}:1") == left
        consumer.close()
    server.close()
    bus.close()


def test_what_is_pending_is_kept(redis_transport: Transport) -> None:
    bus, to = redis_transport.bus(), stream()
    send(bus, to, messages(40), partition=1)
    consumer = bus.consumer(to, "g")
    first = receive(consumer, 40)[0].offset
    consumer.commit({1: first + 10})
    server = server_of(redis_transport)
    assert server.xlen(f"{to.name}:1") == 30
    consumer.close()
    assert bus.lag(to, "g") == [0, 30, 0, 0]
    server.close()
    bus.close()


def test_consumers_that_are_gone_are_forgotten(redis_transport: Transport) -> None:
    to = stream()
    names = set()
    for _ in range(3):
        bus = redis_streams.connect(unix(redis_transport), session=0.01)
        consumer = bus.consumer(to, "g")
        names.add(consumer._name)
        consumer.poll()
        consumer.close()
        bus.close()
        time.sleep(0.05)
    server = server_of(redis_transport)
    there = {info["name"].decode() for info in server.xinfo_consumers(f"{to.name}:0", "g")}
    assert len(there) < 3 and there < names
    server.close()


def unix(transport: Transport) -> str:
    server = server_of(transport)
    path = server.connection_pool.connection_kwargs["path"]
    server.close()
    return f"unix://{path}"


def test_clients_may_be_started_before_the_server_and_outlive_it(tmp_path: Path) -> None:
    to = stream()
    bus = redis_streams.connect(f"unix://{tmp_path}/s", session=1.0)
    producer = bus.producer(to)
    producer.send(*messages(10))
    with pytest.raises(BusAway, match="Redis"):
        producer.flush(0.1)
    received: list[bytes] = []
    consuming = bus.consumer(to, "g")

    def consume() -> None:
        received.extend(data(receive(consuming, 10)))

    thread = threading.Thread(target=consume)
    thread.start()
    with started(tmp_path):
        other = redis_streams.connect(f"unix://{tmp_path}/s")
        send(other, to, messages(10))
        thread.join()
        other.close()
    (tmp_path / "s").unlink(missing_ok=True)
    assert received == messages(10)
    with started(tmp_path):  # which keeps nothing
        producer.close()  # what was not sent is sent to it
        stored = dict.fromkeys(range(4), 1 << 50)  # from what the server has lost
        again = bus.consumer(to, "g", start=stored.get)
        assert data(receive(again, 10)) == messages(10)
        again.close()
    bus.close()


def test_messages_in_an_answer_that_was_lost_are_received_in_order(
    redis_transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus, to = redis_transport.bus(), stream()
    send(bus, to, messages(40), partition=1)
    consumer = bus.consumer(to, "g")
    client = bus._server.client  # type: ignore[attr-defined]
    real = client.xreadgroup
    lost: list[Any] = []

    def lose_once(*arguments: Any, **options: Any) -> Any:
        answer = real(*arguments, **options)
        if answer and not lost:
            lost.append(answer)
            raise redis.ConnectionError("the answer was lost")
        return answer

    monkeypatch.setattr(client, "xreadgroup", lose_once)
    received = receive(consumer, 40)
    assert lost and [message.data for message in received] == messages(40)
    consumer.commit()
    assert sum(bus.lag(to, "g")) == 0
    consumer.close()
    bus.close()


def test_after_an_answer_that_was_lost_only_what_is_its_own_is_received(redis_transport: Transport) -> None:
    """What a consumer has before and after messages that another has is its own, and those are not."""
    bus, to = redis_transport.bus(), stream("g", "other")  # which keeps the messages that are committed
    consumer: Any = bus.consumer(to, "g", partitions=(1,))
    server = server_of(redis_transport)
    for number in range(3):
        send(bus, to, messages(1, first=number), partition=1)
        if number == 1:
            server.xreadgroup("g", "another", {f"{to.name}:1": ">"})
        else:
            assert data(receive(consumer, 1)) == messages(1, first=number)
    consumer._pending[1].clear()  # as if no answer had arrived
    consumer._in_doubt = True
    received = consumer.poll(10, 0.05)
    assert data(received) == [messages(3)[0], messages(3)[2]]
    consumer.close()
    server.close()
    bus.close()


def test_what_does_not_pass_is_not_waited_for(redis_transport: Transport) -> None:
    """A wrong password, and a key that is another program's."""
    with closing(redis_streams.connect(unix(redis_transport).replace("unix://", "unix://nobody:secret@"))) as bus:
        with pytest.raises(BusError, match="refuses this client") as refused:
            bus.lag(stream(), "g")
        assert refused.type is BusError
    to = stream()
    with closing(server_of(redis_transport)) as server:
        server.set(f"{to.name}:0", "of another program")
    with closing(redis_transport.bus()) as bus, pytest.raises(BusError, match="WRONGTYPE") as refused:
        bus.consumer(to, "g").poll()
    assert refused.type is BusError


def test_a_server_without_memory_makes_producers_wait(tmp_path: Path) -> None:
    with started(tmp_path, "--maxmemory", "1mb", "--maxmemory-policy", "noeviction") as server:
        bus, to = redis_streams.connect(server.url), stream()
        producer = bus.producer(to)
        with pytest.raises(BusAway, match=r"(?i)memory"):
            for _ in range(4):
                producer.send(b"x" * 300_000)
                producer.flush(0.2)
        with redis.Redis(unix_socket_path=str(server.socket)) as client:
            client.config_set("maxmemory", "0")
        producer.close()
        consumer = bus.consumer(to, "g")
        assert set(data(receive(consumer, 1))) == {b"x" * 300_000}
        consumer.close()
        bus.close()
