"""Partitions go on by themselves: leases expire and long commands end, whether anything else comes or not."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from budgetfrontier import Settings
from budgetfrontier.bus.interface import Received
from budgetfrontier.cluster.client import ClusterFrontier
from budgetfrontier.cluster.operators.crawl_owners import CrawlOwners
from budgetfrontier.cluster.partitions import partition
from budgetfrontier.cluster.snapshots.snapshot_store import SnapshotError
from budgetfrontier.cluster.workers import worker
from budgetfrontier.cluster.workers.worker import ClusterWorker
from budgetfrontier.reports.operators import OperatorCommand
from tests.cluster.memory_directory import MemoryDirectory
from tests.cluster.workers import LogBus, LogConsumer, Logs, running
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


@pytest.mark.parametrize("is_away", [True, False])
def test_a_worker_that_is_being_stopped_claims_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_away: bool
) -> None:
    """Neither a partition that waits for its snapshot, nor one whose copy is there at that moment."""
    logs, poll, may_end = Logs(PARTITIONS), LogConsumer.poll, threading.Event()

    def restore(number: int, folder: Path) -> None:
        if is_away:
            raise SnapshotError("the store is away")
        may_end.wait()

    one = ClusterWorker(
        LogBus(logs, range(PARTITIONS)), MemoryDirectory(), Settings.from_dict({"crawl": "test"}), tmp_path,
        partitions=PARTITIONS, address="here", log_end=lambda number: 0, restore=restore,
    )  # fmt: skip

    def stopped_meanwhile(consumer: LogConsumer, count: int = 512, timeout: float = 0.1) -> list[Received]:
        restoring = [thread for thread in threading.enumerate() if thread.name.startswith("restore ")]
        if restoring:
            one.stop()
            may_end.set()
            for thread in restoring:
                thread.join()
        return poll(consumer, count, timeout)

    monkeypatch.setattr(LogConsumer, "poll", stopped_meanwhile)
    with caplog.at_level("INFO", "budgetfrontier.cluster"):
        one.run()
    assert one.is_stopping and logs.entries == [[] for _ in range(PARTITIONS)]
    said = [record.getMessage() for record in caplog.records if "was opened" in record.getMessage()]
    assert len(said) == (0 if is_away else PARTITIONS)
