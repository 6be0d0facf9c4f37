"""The mock broker of Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from tests.bus.conftest import kafka_transport
from tests.support import PATIENCE

__all__ = ["kafka_transport"]


@pytest.fixture
def brokers() -> Iterator[str]:
    """The mock broker of librdkafka, which takes no orders to create topics."""
    host = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock", "log_level": 2})
    yield ",".join(f"{one.host}:{one.port}" for one in host.list_topics(timeout=PATIENCE).brokers.values())
    del host
