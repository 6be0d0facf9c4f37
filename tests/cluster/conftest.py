"""The mock broker of Kafka, which the tests of the bus use, too."""

from __future__ import annotations

from tests.bus.conftest import kafka_transport

__all__ = ["kafka_transport"]
