"""Snapshots: a partition is rebuilt from one and the rest of its log, whatever happens meanwhile."""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from threading import Event
from typing import Any
from urllib.request import Request, urlopen

import pytest
from moto.server import ThreadedMotoServer

from budgetfrontier.bus.interface import BusAway, BusError
from budgetfrontier.cluster.directory import topics
from budgetfrontier.cluster.log import state
from budgetfrontier.cluster.log.log_reading import LogGap
from budgetfrontier.cluster.log.state import LogPlace, place_in
from budgetfrontier.cluster.partitions import partition
from budgetfrontier.cluster.partitions.partition_copy import PartitionCopy
from budgetfrontier.cluster.snapshots import snapshot_archive, snapshot_process, snapshot_restore
from budgetfrontier.cluster.snapshots.snapshot_process import SnapshotTask, Taken, take
from budgetfrontier.cluster.snapshots.snapshot_restore import Restorer
from budgetfrontier.cluster.snapshots.snapshot_store import (
    DamagedSnapshot,
    SnapshotError,
    SnapshotStore,
    StoreAway,
    name_of,
    newest_first,
    store_of,
)
from budgetfrontier.cluster.workers.partition_opening import set_aside
from budgetfrontier.errors import CorruptFrontier, FrontierError, NewerSchema, SettingsError, StorageFull
from budgetfrontier.settings.schema import ClusterSettings
from budgetfrontier.storage import keys, meta
from budgetfrontier.storage.environment import Environment
from budgetfrontier.storage.lmdb_env import opened_lmdb
from budgetfrontier.storage.repair.repair_steps import repair
from tests.cluster.log import CRAWL, PARTITIONS, Contents, Log, Owner, rows
from tests.cluster.test_partition import random_log
from tests.support import PATIENCE, free_port, until


@pytest.fixture(params=["folder", "s3"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ClusterSettings]:
    """Return the settings of a store: a folder, and a bucket of an S3 server on loopback."""
    folder = tmp_path / "snap shots"
    folder.mkdir()
    if request.param == "folder":
        yield ClusterSettings(snapshots=folder.as_uri(), snapshots_kept=2)
    else:
        with s3_server():
            yield ClusterSettings(snapshots="s3://bucket/some/crawls", snapshots_kept=2)


def use_s3(patched: pytest.MonkeyPatch, endpoint: str) -> None:
    """Let this process use a server of S3, as the environment of a worker would."""
    patched.setenv("AWS_ENDPOINT_URL", endpoint)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        patched.setenv(name, "x")


@contextmanager
def s3_server() -> Iterator[None]:
    """Serve S3 with an empty bucket, and let this process use it."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    place = f"http://127.0.0.1:{port}"
    with pytest.MonkeyPatch.context() as patched:
        use_s3(patched, place)
        try:
            for request in (
                Request(f"{place}/moto-api/reset", method="POST"),
                Request(f"{place}/bucket", method="PUT"),
            ):
                urlopen(request).close()
            yield
        finally:
            server.stop()


def snapshot(owner: Owner, settings: ClusterSettings) -> Taken:
    folder = owner.partition.folder
    owner.commit()
    return take(SnapshotTask(str(folder / "frontier"), str(folder / "snapshot"), CRAWL, 0, settings))


def store(settings: ClusterSettings) -> SnapshotStore:
    found = store_of(settings)
    assert found is not None
    return found


def names(settings: ClusterSettings) -> list[int]:
    return [one.position for one in newest_first(store(settings).names(f"{CRAWL}-0000"), CRAWL, 0)]


def rebuilt(folder: Path, log: Log, first: int = 0) -> Contents:
    """What a worker has that reads what is left of a log."""
    with closing(PartitionCopy(folder, CRAWL, 0, PARTITIONS)) as copy:
        copy.apply(log.entries[max(first, copy.reading.position) :])
        copy.commit()
        assert copy._env is not None
        return rows(copy._env)


def test_a_partition_is_rebuilt_from_a_snapshot_and_the_rest_of_the_log(
    tmp_path: Path, settings: ClusterSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition, "PLACE_EVERY", 1)
    log = Log()
    restore = Restorer(store(settings), CRAWL, PARTITIONS)
    with closing(Owner(tmp_path / "one", log)) as owner:
        for part in range(4):
            random_log(owner, Random(part), 10)
            taken = snapshot(owner, settings)
            assert taken.error is None and taken.size > 0 and taken.position == owner.partition.place.position
            assert taken.oldest == min(names(settings))
        assert snapshot(owner, settings).size == 0  # there is one of this position
        assert len(names(settings)) == 2
        random_log(owner, Random(5), 10)
        for damage in (False, True):
            folder = tmp_path / f"other-{damage}"
            at = names(settings)[damage]
            restore(0, folder)
            place = place_in(folder / "frontier")
            assert place is not None and place.position == at
            assert os.listdir(folder) == ["frontier"]
            assert rebuilt(folder, log, first=at) == owner.contents()
            restore(0, folder)  # which has a later one now
            place = place_in(folder / "frontier")
            assert place is not None and place.position == owner.partition.place.position
            if not damage:
                newest = name_of(CRAWL, 0, names(settings)[0])
                store(settings).get(newest, tmp_path / "file")
                (tmp_path / "file").write_bytes((tmp_path / "file").read_bytes()[:-100])
                store(settings).put(newest, tmp_path / "file")
        with pytest.raises(LogGap, match=rf"from offset 0 on, and the first that the log still has is {at}\. "):
            rebuilt(tmp_path / "without", log, first=at)


@pytest.mark.parametrize("settings", ["folder"], indirect=True)
def test_a_restore_that_is_killed_anywhere_loses_nothing(
    tmp_path: Path, settings: ClusterSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log()
    restore = Restorer(store(settings), CRAWL, PARTITIONS)
    folder = tmp_path / "other"
    with closing(Owner(tmp_path / "one", log)) as owner:
        owner.schedule("https://a.test/")
        snapshot(owner, settings)
        restore(0, folder)
        monkeypatch.setattr(partition, "PLACE_EVERY", 1)
        random_log(owner, Random(1), 5)
        snapshot(owner, settings)
        expected = owner.contents()
    before, after = sorted(names(settings))

    class Killed(BaseException):
        pass

    left = 0

    def step(real: Any) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed
            return real(*args, **options)

        return call

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", step(Path.rename))
        patched.setattr(shutil, "rmtree", step(shutil.rmtree))
        patched.setattr(os, "fsync", step(os.fsync))
        for steps in range(100):
            left = steps
            try:
                restore(0, folder)
                break
            except Killed:
                left = 1000
                snapshot_restore.clear_up(folder)
                place = place_in(folder / "frontier")
                assert place is not None and place.position in (before, after)
    assert steps > 5
    assert rebuilt(folder, log) == expected


@pytest.mark.parametrize("settings", ["folder"], indirect=True)
def test_damaged_and_foreign_copies_are_kept(tmp_path: Path, settings: ClusterSettings) -> None:
    restore = Restorer(store(settings), CRAWL, PARTITIONS)
    with closing(Owner(tmp_path / "one", Log())) as owner:
        owner.schedule("https://a.test/")
        snapshot(owner, settings)
    folder = owner.partition.folder
    (folder / "frontier" / "data.mdb").write_bytes(b"nonsense" * 10_000)
    with pytest.raises(CorruptFrontier) as damage:
        restore(0, folder)
    set_aside(folder, damage.value)
    restore(0, folder)
    assert (folder / "frontier.damaged-1" / "data.mdb").read_bytes().startswith(b"nonsense")
    place = place_in(folder / "frontier")
    assert place is not None and place.position == 2
    store(settings).get(name_of(CRAWL, 0, 2), tmp_path / "file")
    store(settings).put(name_of(CRAWL, 0, 9), tmp_path / "file")
    Restorer(store(settings), CRAWL, PARTITIONS)(0, tmp_path / "another")  # the name lies: the one before is used
    place = place_in(tmp_path / "another" / "frontier")
    assert place is not None and place.position == 2
    assert name_of(CRAWL, 0, 9) + ".damaged" in store(settings).names(f"{CRAWL}-0000")
    repair(tmp_path / "another" / "frontier")
    snapshot_archive.pack(tmp_path / "another" / "frontier", tmp_path / "repaired")
    store(settings).put(name_of(CRAWL, 0, 11), tmp_path / "repaired")
    Restorer(store(settings), CRAWL, PARTITIONS)(0, tmp_path / "third")  # it has no place: the one before is used
    place = place_in(tmp_path / "third" / "frontier")
    assert place is not None and place.position == 2
    assert name_of(CRAWL, 0, 11) + ".damaged" in store(settings).names(f"{CRAWL}-0000")


@pytest.mark.parametrize("settings", ["folder"], indirect=True)
@pytest.mark.parametrize("wanted", [("other", 0, PARTITIONS), (CRAWL, 1, PARTITIONS), (CRAWL, 0, PARTITIONS + 1)])
def test_a_snapshot_of_another_crawl_is_a_mistake_of_the_configuration_and_stays(
    tmp_path: Path, settings: ClusterSettings, wanted: tuple[str, int, int]
) -> None:
    crawl, number, partitions = wanted
    with closing(Owner(tmp_path / "one", Log())) as owner:
        owner.schedule("https://a.test/")
        snapshot(owner, settings)
    store(settings).get(name_of(CRAWL, 0, 2), tmp_path / "file")
    store(settings).put(name_of(crawl, number, 2), tmp_path / "file")
    for _ in range(2):
        with pytest.raises(SettingsError, match=f"is a snapshot of partition 0 of {PARTITIONS} of 'test', and .* set"):
            Restorer(store(settings), crawl, partitions)(number, tmp_path / "two")
    assert not (tmp_path / "two" / "frontier").exists()
    assert store(settings).names(f"{crawl}-{number:04}") == [name_of(crawl, number, 2)]


@pytest.mark.parametrize("settings", ["folder"], indirect=True)
def test_a_snapshot_and_a_copy_of_another_schema_are_refused_and_stay(
    tmp_path: Path, settings: ClusterSettings
) -> None:
    restore = Restorer(store(settings), CRAWL, PARTITIONS)
    with closing(Owner(tmp_path / "one", Log())) as owner:
        owner.schedule("https://a.test/")
        snapshot(owner, settings)
    frontier = owner.partition.folder / "frontier"
    with opened_lmdb(frontier) as env, env.begin(write=True) as txn:
        txn.put(b"schema", b"99", db=env.open_db(keys.META.encode(), txn=txn))
    snapshot_archive.pack(frontier, tmp_path / "file")
    store(settings).put(name_of(CRAWL, 0, 9), tmp_path / "file")
    before = (frontier / "data.mdb").read_bytes()
    for folder, words in (
        (owner.partition.folder, "frontier has schema 99"),
        (tmp_path / "two", "the snapshot test-0000/"),
    ):
        with pytest.raises(NewerSchema, match=f"{words}.*open it with the version that wrote it"):
            restore(0, folder)
    assert (frontier / "data.mdb").read_bytes() == before
    assert not (tmp_path / "two" / "frontier").exists()


def test_a_store_that_does_not_answer_is_an_error_only_if_it_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Owner(tmp_path / "one", Log())) as owner:
        owner.commit()
    endpoint = f"http://127.0.0.1:{free_port()}"
    use_s3(monkeypatch, endpoint)
    for url, error in (
        ((tmp_path / "none").as_uri(), "there is no folder .*none for snapshots: mount it"),
        ("s3://bucket/x", f"test-0000 cannot be listed in s3://bucket/x: .*{endpoint}"),
    ):
        restore = Restorer(SnapshotStore(url, timeout=1.0), CRAWL, PARTITIONS)
        restore(0, tmp_path / "one")
        with pytest.raises(SnapshotError, match=error):
            restore(0, tmp_path / "two")


@pytest.mark.parametrize("settings", ["s3"], indirect=True)
def test_the_code_of_an_error_of_a_store_is_told_and_not_the_page_that_has_it(settings: ClusterSettings) -> None:
    with pytest.raises(SnapshotError, match=r"cannot be listed in s3://none/x: .*404.*NoSuchBucket") as refused:
        SnapshotStore("s3://none/x", timeout=10.0).names("test-0000")
    assert "<?xml" not in str(refused.value)


def test_a_store_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # which takes connections, and says nothing
        use_s3(monkeypatch, f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(StoreAway, match="test-0000 cannot be listed"):
            SnapshotStore("s3://bucket", timeout=0.2).names("test-0000")


def test_snapshots_of_another_log_are_named_once_and_neither_restored_nor_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A position in the log of a topic that was deleted and made anew says nothing of the one before."""
    (tmp_path / "store").mkdir()
    settings = ClusterSettings(snapshots=(tmp_path / "store").as_uri())
    with closing(Owner(tmp_path / "one", Log())) as owner:
        owner.schedule("https://a.test/")
        mine = snapshot(owner, settings)
    (tmp_path / "file").write_bytes(b"of another log, and later")
    for log in ("", "before"):
        other = name_of(CRAWL, 0, 10_000, log) if log else name_of(CRAWL, 1, 10_000)
        store(settings).put(other, tmp_path / "file")
    assert [one.position for one in newest_first(store(settings).names(f"{CRAWL}-0000"), CRAWL, 0, "")] == [
        mine.position
    ]
    with closing(Owner(tmp_path / "one", owner.log)) as again:
        again.schedule("https://b.test/")
        taken = snapshot(again, settings)
    assert taken.size and taken.oldest == mine.position < taken.position < 10_000
    restore = Restorer(store(settings), CRAWL, PARTITIONS, log_id=str)
    restore(0, tmp_path / "two")
    restore(0, tmp_path / "three")
    told = [record.getMessage() for record in caplog.records if "is not used" in record.getMessage()]
    assert told == [
        f"{name_of(CRAWL, 0, 10_000, 'before')} is not used: it is of another topic than {CRAWL}-log is now. Bring "
        "that topic back to go on from it, or move it away"
    ]
    state = place_in(tmp_path / "two" / "frontier")
    assert state is not None and state.position == taken.position
    for name in ("one", "new"):  # an old copy, and none
        with pytest.raises(SnapshotError, match=f"no broker says which topic {CRAWL}-log is"):
            Restorer(store(settings), CRAWL, PARTITIONS, log_id=lambda: None)(0, tmp_path / name)
    assert place_in(tmp_path / "one" / "frontier") is not None


def test_a_snapshot_of_after_the_end_of_its_log_is_named_and_not_restored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As when a broker has lost what it had acknowledged: an older snapshot would go on as if nothing was lost."""
    (tmp_path / "store").mkdir()
    settings = ClusterSettings(snapshots=(tmp_path / "store").as_uri())
    with closing(Owner(tmp_path / "one", Log())) as owner:
        owner.schedule("https://a.test/")
        before = snapshot(owner, settings).position
        owner.schedule("https://b.test/")
        after = snapshot(owner, settings).position
    name, ends = name_of(CRAWL, 0, after), [after - 1]
    restore = Restorer(store(settings), CRAWL, PARTITIONS, log_id=str, log_end=lambda partition: ends[partition])
    why = f"{name} has the entries before offset {after}, and the log ends at {after - 1}: .* Bring the topic back, or"
    with pytest.raises(SnapshotError, match=why):
        restore(0, tmp_path / "two")
    assert place_in(tmp_path / "two" / "frontier") is None
    old = Restorer(store(settings), CRAWL, PARTITIONS)
    old._store.rename(name, "away")
    old(0, tmp_path / "two")  # the older one, which a worker has
    old._store.rename("away", name)
    restore(0, tmp_path / "two")
    assert re.search(f"partition 0 goes on from the worker's own copy: {why}", caplog.text)
    place = place_in(tmp_path / "two" / "frontier")
    assert place is not None and place.position == before
    ends[0] = after
    restore(0, tmp_path / "three")
    place = place_in(tmp_path / "three" / "frontier")
    assert place is not None and place.position == after


def test_where_no_broker_says_the_end_of_a_log_no_snapshot_is_restored(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    settings = ClusterSettings(snapshots=(tmp_path / "store").as_uri())
    with closing(Owner(tmp_path / "one", Log())) as owner:
        snapshot(owner, settings)

    def away(partition: int) -> int:
        raise BusAway("away")

    with pytest.raises(BusAway):  # after which a worker tries again
        Restorer(store(settings), CRAWL, PARTITIONS, log_end=away)(0, tmp_path / "two")
    assert not (tmp_path / "two" / "frontier").exists()


def test_two_partitions_that_are_opened_together_hear_of_one_log() -> None:
    """The identity is asked for once: whoever comes meanwhile waits for the answer, and takes none for an answer."""
    asked, answer, calls = Event(), Event(), list[str]()

    class Bus:
        def topic_id(self, topic: str, timeout: float) -> str:
            calls.append(topic)
            asked.set()
            assert answer.wait(PATIENCE)
            return "Fb0lNWW8SSqhy1o4qqgrGQ"

    bus: Any = Bus()
    look = topics.log_identity(bus, CRAWL)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(look)
        assert asked.wait(PATIENCE)
        second = threads.submit(look)
        wait([second], timeout=0.05)
        answer.set()
        assert first.result() == second.result() == look() == "Fb0lNWW8SSqhy1o4qqgrGQ"
    assert calls == [f"{CRAWL}-log"]


def test_an_identity_that_no_broker_tells_is_not_known() -> None:
    class Bus:
        def topic_id(self, topic: str, timeout: float) -> str:
            raise BusError("away")

    bus: Any = Bus()
    assert topics.log_identity(bus, CRAWL)() is None


def test_a_snapshot_whose_copy_was_set_aside_is_not_the_next_one(tmp_path: Path) -> None:
    """Its rows may be others than those of the log, which nobody sees before the log is read."""
    (tmp_path / "store").mkdir()
    settings, log = ClusterSettings(snapshots=(tmp_path / "store").as_uri()), Log()
    positions = [-1]
    for number in range(3):
        with closing(Owner(tmp_path / "one", log)) as owner:
            owner.schedule(f"https://a.test/{number}")
            positions.append(snapshot(owner, settings).position)
    restore, frontier = Restorer(store(settings), CRAWL, PARTITIONS), tmp_path / "two" / "frontier"
    found = list[int]()
    for _ in range(6):
        restore(0, frontier.parent)
        place = place_in(frontier)
        found.append(-1 if place is None else place.position)
        if place is not None:
            restore(0, frontier.parent)  # as when the partition is given to this worker again
            assert place_in(frontier) == place
            set_aside(frontier.parent, CorruptFrontier("another checksum"))
    first, second, third = positions[1:]
    assert found == [third, second, first, -1, third, second]


def test_a_bit_that_has_changed_anywhere_in_a_snapshot_is_noticed(tmp_path: Path) -> None:
    folder, draw = tmp_path / "folder", Random(1)
    folder.mkdir()
    (folder / "data.mdb").write_bytes(draw.randbytes(100_000))  # which gzip stores as it is
    snapshot_archive.pack(folder, tmp_path / "file")
    whole = (tmp_path / "file").read_bytes()
    header = 10 + len("file\0")  # of gzip: its time and name are not what is stored
    for trial in range(50):
        at, bit = draw.randrange(header, len(whole)), 1 << draw.randrange(8)
        (tmp_path / "file").write_bytes(whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :])
        with pytest.raises(DamagedSnapshot):
            snapshot_archive.unpack(tmp_path / "file", tmp_path / f"out-{trial}")
    (tmp_path / "file").write_bytes(whole)
    snapshot_archive.unpack(tmp_path / "file", tmp_path / "out")
    assert (tmp_path / "out" / "data.mdb").read_bytes() == (folder / "data.mdb").read_bytes()


def test_a_snapshot_that_is_damaged_within_is_not_trusted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "store").mkdir()
    settings = ClusterSettings(snapshots=(tmp_path / "store").as_uri())
    with closing(Owner(tmp_path / "one", Log())) as owner:
        owner.schedule("https://a.test/")
        snapshot(owner, settings)
        owner.schedule("https://b.test/")
        owner.commit()
    frontier = owner.partition.folder / "frontier"
    later = place_in(frontier)
    assert later is not None and later.position > 2
    with opened_lmdb(frontier) as env, env.begin(write=True) as txn:
        table = env.open_db(keys.QUEUE_IDS.encode(), txn=txn)
        for key in [bytes(key) for key, _ in txn.cursor(table)]:
            if key != keys.SENTINEL:
                txn.delete(key, db=table)
    snapshot_archive.pack(frontier, tmp_path / "file")
    store(settings).put(name_of(CRAWL, 0, later.position), tmp_path / "file")
    Restorer(store(settings), CRAWL, PARTITIONS)(0, tmp_path / "two")
    [told] = [record.getMessage() for record in caplog.records if "is not used" in record.getMessage()]
    assert (
        f"{later.position:020}.snapshot is not used, and is now {name_of(CRAWL, 0, later.position)}.damaged: " in told
    )
    assert "\n" not in told
    assert re.search(r", and \d+ more$", told), "the first finding, and how many more"
    place = place_in(tmp_path / "two" / "frontier")
    assert place is not None and place.position == 2
    damaged = f"{name_of(CRAWL, 0, later.position)}.damaged"
    assert sorted(store(settings).names(f"{CRAWL}-0000")) == [name_of(CRAWL, 0, 2), damaged]


def test_a_damaged_snapshot_is_none_of_those_that_are_kept(tmp_path: Path, settings: ClusterSettings) -> None:
    """Else the good one before it is removed in its favour, and the log that follows that."""
    log, positions, kept = Log(), list[int](), store(settings)
    for number in range(3):
        if number == 2:
            damaged = name_of(CRAWL, 0, positions[1])
            kept.get(damaged, tmp_path / "file")
            data = bytearray((tmp_path / "file").read_bytes())
            data[len(data) // 2] ^= 1
            (tmp_path / "file").write_bytes(data)
            kept.put(damaged, tmp_path / "file")
            Restorer(kept, CRAWL, PARTITIONS)(0, tmp_path / "two")
            place = place_in(tmp_path / "two" / "frontier")
            assert place is not None and place.position == positions[0]
        with closing(Owner(tmp_path / "one", log)) as owner:
            owner.schedule(f"https://a.test/{number}")
            taken = snapshot(owner, settings)
            positions.append(taken.position)
    assert taken.oldest == positions[0]
    found = newest_first(kept.names(f"{CRAWL}-0000"), CRAWL, 0)
    assert [one.position for one in found] == [positions[2], positions[0]]


@pytest.mark.parametrize("settings", ["folder"], indirect=True)
def test_a_store_from_which_nothing_may_be_removed_has_the_snapshots_all_the_same(
    tmp_path: Path, settings: ClusterSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: SnapshotStore, name: str) -> None:
        raise SnapshotError(f"{name} cannot be removed: 403")

    monkeypatch.setattr(SnapshotStore, "remove", refuse)
    found: list[Taken] = []
    with closing(Owner(tmp_path / "one", Log())) as owner:
        for number in range(4):
            owner.schedule(f"https://a.test/{number}")
            found.append(snapshot(owner, settings))
    assert [one.oldest for one in found[2:]] == [one.position for one in found[1:3]], "the log is cut"
    assert [one.left is None for one in found] == [True, True, False, False]
    assert names(settings) == sorted((one.position for one in found), reverse=True)


def test_no_snapshot_is_taken_that_might_fill_the_disk(
    tmp_path: Path, settings: ClusterSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Owner(tmp_path / "one", Log())) as owner:
        monkeypatch.setattr(snapshot_process, "SPARE", 1 << 60)
        with pytest.raises(StorageFull, match=r"a snapshot of .* may need .*, and its disk has"):
            snapshot(owner, settings)
    assert names(settings) == []
    assert not (owner.partition.folder / "snapshot").exists()


@pytest.mark.parametrize("settings", ["folder"], indirect=True)
def test_the_copy_of_another_crawl_is_never_replaced(tmp_path: Path, settings: ClusterSettings) -> None:
    with closing(Owner(tmp_path / "one", Log())) as owner:
        random_log(owner, Random(1), 5)
        snapshot(owner, settings)
    with closing(Environment(tmp_path / "two" / "frontier")) as env:
        meta.write_row(env.txn, env.db[keys.META], meta.PLACE, state.encode(LogPlace("other", 0, PARTITIONS)))
        env.commit()
    Restorer(store(settings), CRAWL, PARTITIONS)(0, tmp_path / "two")
    with pytest.raises(FrontierError, match=r"is partition 0 of 4 of the crawl 'other', not 0 of 4 of 'test'"):
        PartitionCopy(tmp_path / "two", CRAWL, 0, PARTITIONS)


def test_a_frontier_that_is_no_copy_is_left_alone(tmp_path: Path) -> None:
    from budgetfrontier import Frontier

    with Frontier.open(tmp_path / "own" / "frontier") as frontier:
        frontier.schedule("https://a.test/")
    (tmp_path / "store").mkdir()
    restore = Restorer(SnapshotStore((tmp_path / "store").as_uri(), timeout=10.0), CRAWL, PARTITIONS)
    with pytest.raises(FrontierError, match="a frontier of its own"):
        restore(0, tmp_path / "own")


def test_a_copy_that_is_there_waits_for_no_snapshot_that_others_fetch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many partitions a worker lacks, and however long the store takes: the log may be all that is needed."""
    folder = tmp_path / "store"
    folder.mkdir()
    settings = ClusterSettings(snapshots=folder.as_uri())
    with closing(Owner(tmp_path / "partition-0000", Log())) as owner:
        owner.commit()
        snapshot(owner, settings)
    [name] = folder.glob("*/*.snapshot")
    lacking = range(1, snapshot_restore.AT_ONCE + 2)
    for number in lacking:
        other = folder / f"{CRAWL}-{number:04}"
        other.mkdir()
        shutil.copy(name, other)
    store_answers, fetched = Event(), list[str]()

    def hang(self: SnapshotStore, name: str, file: Path) -> None:
        fetched.append(name)
        store_answers.wait(PATIENCE)
        raise StoreAway("not now")

    monkeypatch.setattr(SnapshotStore, "get", hang)
    restore = Restorer(store(settings), CRAWL, PARTITIONS)
    with ThreadPoolExecutor() as threads:
        try:
            waiting = [threads.submit(restore, number, tmp_path / f"partition-{number:04}") for number in lacking]
            until(lambda: len(fetched) == snapshot_restore.AT_ONCE)
            restore(0, tmp_path / "partition-0000")
        finally:
            store_answers.set()
        for one in waiting:
            with pytest.raises(StoreAway):
                one.result()
