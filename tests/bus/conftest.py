"""Brokers for the tests: one of each kind for all tests of a process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue

import pytest
from confluent_kafka import Producer

from budgetfrontier.bus import kafka, redis_streams
from budgetfrontier.bus.memory import MemoryBroker
from budgetfrontier.bus.zeromq import broker_client, broker_server
from tests import process_state
from tests.bus.conformance import Transport
from tests.support import PATIENCE
from tests.tools.importers.redis.server import started

SESSION = PATIENCE
"""Seconds after which a consumer counts as dead."""


@contextmanager
def zeromq_broker(journal: Path, *, address: str = "tcp://127.0.0.1:*", **options: int) -> Iterator[str]:
    """A broker in a thread; its address."""
    stop, addresses = threading.Event(), Queue[str]()
    run = threading.Thread(
        target=broker_server.serve,
        args=(address, journal),
        kwargs={"stop": stop, "started": lambda where, dropped: addresses.put(where), **options},
    )
    run.start()
    try:
        yield addresses.get(timeout=PATIENCE)
    finally:
        stop.set()
        run.join()


@pytest.fixture(scope="session")
def memory_transport() -> Transport:
    broker = MemoryBroker()
    return Transport("memory", lambda session=SESSION: broker.bus(session=session))


@pytest.fixture(scope="session")
def zmq_transport(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Transport]:
    with zeromq_broker(tmp_path_factory.mktemp("zmq") / "journal") as address:
        process_state.lasting.update(threading.enumerate())
        yield Transport("zmq", lambda session=SESSION: broker_client.connect(address, session=session))


@pytest.fixture(scope="session")
def redis_transport(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Transport]:
    with started(tmp_path_factory.mktemp("redis")) as redis:
        yield Transport("redis", lambda session=SESSION: redis_streams.connect(redis.url, session=session))


@pytest.fixture(scope="session")
def kafka_transport() -> Iterator[Transport]:
    """The mock broker of librdkafka, which lives in a client."""
    host = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock", "log_level": 2})
    brokers = ",".join(f"{one.host}:{one.port}" for one in host.list_topics(timeout=PATIENCE).brokers.values())
    options = {"create": "no", "topic.metadata.refresh.interval.ms": "500", "heartbeat.interval.ms": "300"}
    yield Transport(
        "kafka",
        lambda: kafka.connect(brokers, options, session=30.0),
        ends_with_its_connection=False,
        joins_slowly=True,
        drops=False,
    )
    del host
