"""A small run of `make cluster`: a crawl in partitions on a real broker, whose workers and crawlers are killed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.bus.kafka_server import jars
from tests.cluster import chaos
from tests.installed import NotInstalled

pytestmark = pytest.mark.waits


def test_a_crawl_in_partitions_survives_kills(tmp_path: Path) -> None:
    try:
        jars()
    except NotInstalled as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"a crawl on a real Kafka broker was NOT tested: {error}")
    run = chaos.run(
        tmp_path, hosts=8, partitions=2, seconds=2.0, seed=5, brokers_too=False, processes=(2, 1), between=(0.8, 1.5)
    )
    assert chaos.check(run, tmp_path) == []
    assert run.kills
