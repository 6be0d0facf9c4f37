"""Partitions go on by themselves: leases expire and long commands end, whether anything else comes or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from budgetfrontier import Settings
from budgetfrontier.cluster.client import ClusterFrontier
from budgetfrontier.cluster.operators.crawl_owners import CrawlOwners
from budgetfrontier.cluster.partitions import partition
from budgetfrontier.cluster.workers import worker
from budgetfrontier.reports.operators import OperatorCommand
from tests.cluster.workers import running
from tests.support import PATIENCE, until

PARTITIONS = 2


def test_leases_expire_and_long_commands_end_although_nobody_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition, "COMMIT_EVERY", 0.02)
    settings = Settings.from_dict({"crawl": "test"})
    with (
        running(tmp_path, settings, [(0,), (1,)], PARTITIONS) as cluster,
        ClusterFrontier("test", cluster.directory) as frontier,
    ):
        until(lambda: len(cluster.directory.read()) == PARTITIONS)
        for host in range(8):
            frontier.schedule_many(f"https://h{host}.test/{page}" for page in range(700))
        out = frontier.lease(8, ttl=0.01)
        assert len(out) == 8
        until(lambda: frontier.summary().in_process == 0)
        assert {lease.id for lease in frontier.finish_many(out)} == {lease.id for lease in out}
        operator = CrawlOwners(frontier, job="kafka://nowhere/test", patience=PATIENCE)
        name = operator.give(OperatorCommand("delete", {"pattern": "/[1-9]"}, "me"))
        until(lambda: frontier.summary().queued == 8)
        until(lambda: len(operator.applied(name)) == PARTITIONS)
        assert sum(entry.effect["deleted"] for entry in operator.applied(name).values()) == 8 * 699
    assert max(map(len, cluster.logs.entries)) < 99  # a step an entry


def test_workers_say_again_what_they_own_although_nothing_changes_hands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "PUBLISH_EVERY", 0.0)
    with running(tmp_path, Settings.from_dict({"crawl": "test"}), [(0,), (1,)], PARTITIONS) as cluster:
        until(lambda: len(cluster.directory.read()) == PARTITIONS)
        before = cluster.directory.read()
        cluster.directory.forget_owners()
        until(lambda: cluster.directory.read() == before)
