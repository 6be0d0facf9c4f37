"""The public suffix list of a crawl in partitions: that of the first worker, for all workers and clients, for good."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from budgetfrontier import Settings
from budgetfrontier.cluster.client import ClusterFrontier
from budgetfrontier.cluster.directory.kafka import KafkaDirectory, Place
from budgetfrontier.cluster.partitions import partition
from budgetfrontier.settings import policy_factory
from tests.cluster.workers import running
from tests.support import PATIENCE, until

FIRST, SECOND = "test\nblog.test\n*\n", "test\n*\n"


def test_the_list_that_is_stored_first_stays(brokers: str) -> None:
    operator = Producer({"bootstrap.servers": brokers})
    operator.produce("lists-suffixes", b"\xc1")  # which creates it
    assert operator.flush(PATIENCE) == 0
    where = Place(brokers, "lists", {"create": "no"})
    one, two = KafkaDirectory(where), KafkaDirectory(where)
    assert two.suffix_list() is None
    assert one.suffix_list(FIRST) == FIRST
    assert two.suffix_list(SECOND) == FIRST
    assert two.suffix_list() == FIRST


def test_workers_and_clients_with_other_lists_find_the_same_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition, "COMMIT_EVERY", 0.02)
    own = iter([FIRST, SECOND])
    monkeypatch.setattr(policy_factory, "suffix_list", lambda frontier: next(own))
    settings = Settings.from_dict(
        {"crawl": "test", "frontier": {"queue_assignment_policy": "registered-domain", "politeness": {"min_delay": 0}}}
    )
    hosts = [f"{letter}.blog.test" for letter in "abcdefgh"]
    with running(tmp_path, settings, [(0, 1), (2, 3)], 4) as cluster:
        until(lambda: len(cluster.directory.read()) == 4)
        with ClusterFrontier("test", cluster.directory) as frontier:
            frontier.schedule_many([f"https://{hosts[0]}/"])
            (lease,) = frontier.lease(1, wait=PATIENCE)
            frontier.finish(lease, discovered=[f"https://sub.{host}/" for host in hosts])
            until(lambda: frontier.summary().queued == len(hosts))
            found = {host: frontier.queue(host) for host in hosts}
    assert all(record is not None and record.queued == 1 for record in found.values()), found
