"""The opening of partitions: damaged copies are set aside, and restored ones are opened later."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path
from time import sleep

import pytest

from budgetfrontier.cluster.log.state import FRONTIER, place_in
from budgetfrontier.cluster.partitions.partition_copy import PartitionCopy
from budgetfrontier.cluster.snapshots.snapshot_restore import Restorer
from budgetfrontier.cluster.snapshots.snapshot_store import SnapshotError, SnapshotStore
from budgetfrontier.cluster.workers import partition_opening
from budgetfrontier.cluster.workers.partition_opening import Opener
from budgetfrontier.errors import FrontierError, StorageFull
from budgetfrontier.storage.reader import Reader
from budgetfrontier.storage.repair.repair_steps import repair
from tests.cluster.log import CRAWL, PARTITIONS, Log, Owner
from tests.support import PATIENCE, logged, until


def opener(folder: Path, restore: partition_opening.Restore | None) -> Opener:
    return Opener(folder, CRAWL, PARTITIONS, {0: 7}.__getitem__, restore, threading.Event())


def restored(one: Opener) -> int:
    """The number of the partition that is restored next."""
    while not (found := [*one.restored()]):
        sleep(0.001)
    [(number, end)] = found
    assert end == 7
    return number


def damaged(folder: Path) -> None:
    with closing(Owner(folder, Log())) as owner:
        owner.commit()
    (folder / "frontier" / "data.mdb").write_bytes(b"nonsense" * 10_000)


def test_a_damaged_copy_is_set_aside_and_the_partition_begins_anew(tmp_path: Path) -> None:
    damaged(tmp_path / "partition-0000")
    one = opener(tmp_path, None)
    one.begin(0)
    before, partition = [one.open(restored(one)) for _ in range(2)]
    assert before is None and isinstance(partition, PartitionCopy)
    assert partition.reading.position == 0
    partition.close()
    assert (tmp_path / "partition-0000" / "frontier.damaged-1" / "data.mdb").read_bytes().startswith(b"nonsense")


@pytest.mark.parametrize("with_store", [True, False])
def test_a_copy_that_was_repaired_is_set_aside_and_the_partition_begins_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, with_store: bool
) -> None:
    folder = tmp_path / "partition-0000"
    with closing(Owner(folder, Log())) as owner:
        owner.schedule("https://a.test/")
        owner.commit()
    repair(folder / FRONTIER)
    (tmp_path / "store").mkdir()
    store = SnapshotStore((tmp_path / "store").as_uri(), timeout=10.0)
    one = opener(tmp_path, Restorer(store, CRAWL, PARTITIONS) if with_store else None)
    one.begin(0)
    found = one.open(restored(one)) or one.open(restored(one))
    assert found is not None and found.reading.position == 0
    found.close()
    with Reader(folder / "frontier.damaged-1") as reader:
        assert reader.summary().queued == 1
    [line] = logged(caplog, "budgetfrontier.cluster")
    assert "cannot be used, is now frontier.damaged-1, and is rebuilt" in line and "`verify --repair`" in line


def test_a_store_that_does_not_answer_is_asked_again_and_a_damaged_copy_is_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_opening, "RETRY", 0.001)
    damaged(tmp_path / "partition-0000")
    calls = 0

    def restore(number: int, folder: Path) -> None:
        nonlocal calls
        calls += 1
        place_in(folder / "frontier")
        if calls < 4:
            raise SnapshotError("away")

    one = opener(tmp_path, restore)
    one.begin(0)
    one.begin(0)
    assert (restored(one), calls) == (0, 4)
    partition = one.open(0)
    assert partition is not None and partition.reading.position == 0
    partition.close()


def test_a_worker_that_ends_while_it_waits_for_a_snapshot_opens_nothing(tmp_path: Path) -> None:
    """It has no copy: it would begin the log anew, and claim the partition at the last moment."""
    stopping, asked = threading.Event(), threading.Event()

    def restore(number: int, folder: Path) -> None:
        asked.set()
        raise SnapshotError("away")

    one = Opener(tmp_path, CRAWL, PARTITIONS, {0: 7}.__getitem__, restore, stopping)
    one.begin(0)
    assert asked.wait(PATIENCE)
    stopping.set()
    for thread in threading.enumerate():
        if thread.name == "restore 0":
            thread.join(PATIENCE)
    assert [*one.restored()] == []


def test_an_error_of_a_restore_reaches_the_worker(tmp_path: Path) -> None:
    def restore(number: int, folder: Path) -> None:
        raise StorageFull

    one = opener(tmp_path, restore)
    one.begin(0)
    with pytest.raises(StorageFull):
        until(lambda: list(one.restored()))


def test_a_log_with_more_partitions_than_the_crawl_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FrontierError, match=r"has a partition 4, and cluster\.partitions says 4: .* another name"):
        opener(tmp_path, None).begin(PARTITIONS)
