"""The processes that take snapshots."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from budgetfrontier.cluster.snapshots import snapshot_process
from budgetfrontier.cluster.snapshots.snapshot_taking import Taker, clear_up
from budgetfrontier.settings.schema import ClusterSettings
from budgetfrontier.storage import keys
from budgetfrontier.storage.lmdb_env import opened_lmdb
from tests.cluster.log import CRAWL, Log, Owner
from tests.support import until


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    (tmp_path / "store").mkdir()
    with closing(Owner(tmp_path / "partition-0000", Log())) as owner:
        owner.commit()
        yield owner


def process(taker: Taker) -> subprocess.Popen[bytes]:
    assert taker._process is not None
    return taker._process


def wait(taker: Taker) -> None:
    until(lambda: process(taker).poll() is not None)


def test_a_process_that_dies_is_a_snapshot_that_has_failed(
    owner: Owner, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = ClusterSettings(snapshots=(tmp_path / "store").as_uri(), snapshot_every=100.0)
    taker, folders = Taker(CRAWL, settings), {0: owner.partition.folder}
    assert taker.step({0: 1}, folders, 0.0) is None
    process(taker).kill()
    wait(taker)
    assert taker.step({0: 1}, folders, 1.0) is None
    assert "no snapshot of partition 0: its process has ended with -9" in caplog.text
    assert taker.step({0: 1}, folders, 25.0) is None  # it waits a little
    (owner.partition.folder / "snapshot").mkdir()  # what it has left
    assert taker.step({0: 1}, folders, 26.0) is None
    wait(taker)
    number, taken = taker.step({0: 1}, folders, 27.0) or (None, None)
    assert taken is not None and (number, taken.position, taken.oldest, taken.error) == (0, 1, 1, None)
    assert [path.name for path in (tmp_path / "store" / "test-0000").iterdir()] == ["00000000000000000001.snapshot"]
    shutil.rmtree(tmp_path / "store")
    assert taker.step({0: 2}, folders, 327.0) is None
    wait(taker)
    assert taker.step({0: 2}, folders, 328.0) is None
    assert "no snapshot of partition 0 (its last one is 5m2s old): there is no folder" in caplog.text
    taker.close()


def test_a_snapshot_beside_which_older_ones_stay_is_taken_and_the_next_is_due_in_its_time(
    owner: Owner, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ClusterSettings(snapshots=(tmp_path / "store").as_uri(), snapshot_every=100.0)
    taker, folders = Taker(CRAWL, settings), {0: owner.partition.folder}
    result = snapshot_process.result
    monkeypatch.setattr(snapshot_process, "result", lambda process: replace(result(process), left="403 Forbidden"))
    assert taker.step({0: 1}, folders, 0.0) is None
    wait(taker)
    assert taker.step({0: 1}, folders, 1.0) is not None
    assert "partition 0 beyond the 3 that are kept stay in the store: 403 Forbidden" in caplog.text
    assert "no snapshot" not in caplog.text
    taker.step({0: 2}, folders, 100.0)
    assert taker._process is None
    taker.step({0: 2}, folders, 101.0)
    process(taker)
    taker.close()


def test_damage_of_a_partition_is_told_and_not_stored(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    with closing(Owner(tmp_path / "partition-0000", Log())) as owner:
        owner.schedule("https://a.test/")
        owner.commit()
    folder = owner.partition.folder
    with opened_lmdb(folder / "frontier") as env, env.begin(write=True) as txn:
        table = env.open_db(keys.QUEUES.encode(), txn=txn)
        [*_, key] = [key for key, _ in txn.cursor(table)]
        txn.put(key, b"nonsense", db=table)
    taker = Taker(CRAWL, ClusterSettings(snapshots=(tmp_path / "store").as_uri()))
    assert taker.step({0: 2}, {0: folder}, 0.0) is None
    assert taker.step({0: 2}, {0: folder}, 600.0) is None
    wait(taker)
    number, taken = taker.step({0: 2}, {0: folder}, 601.0) or (None, None)
    assert taken is not None and number == 0
    assert taken.is_damaged and "a record cannot be read" in str(taken.error)
    assert not [*(tmp_path / "store").iterdir()]


def test_the_end_of_a_worker_ends_the_process(owner: Owner, tmp_path: Path) -> None:
    settings = ClusterSettings(snapshots=(tmp_path / "store").as_uri())
    taker = Taker(CRAWL, settings)
    taker.step({0: 1}, {0: owner.partition.folder}, 0.0)
    begun = process(taker)
    taker.close()
    assert begun.poll() is not None
    (owner.partition.folder / "snapshot").mkdir(exist_ok=True)
    clear_up(tmp_path)
    assert not (owner.partition.folder / "snapshot").exists()
