"""Workers on a mock broker of Kafka: they share partitions, take over those of others, and refuse what does not fit."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from itertools import count
from pathlib import Path
from queue import Queue
from time import monotonic, sleep, time_ns
from typing import Any

import pytest

from budgetfrontier import Reader, Settings
from budgetfrontier.bus import kafka
from budgetfrontier.bus.interface import BusError
from budgetfrontier.bus.kafka import KafkaBus
from budgetfrontier.cluster.log import entries
from budgetfrontier.cluster.log.entries import Claimed, Found, Told
from budgetfrontier.cluster.operators.merging import merged_runs
from budgetfrontier.cluster.snapshots.snapshot_process import Taken
from budgetfrontier.cluster.snapshots.snapshot_restore import Restorer
from budgetfrontier.cluster.snapshots.snapshot_store import SnapshotStore
from budgetfrontier.cluster.snapshots.snapshot_taking import Taker
from budgetfrontier.cluster.workers import worker
from budgetfrontier.cluster.workers.worker import ClusterWorker
from budgetfrontier.core import protocol
from budgetfrontier.core.model import Run, RunEnd
from budgetfrontier.core.protocol import Method, Uris, Wanted
from budgetfrontier.errors import CorruptFrontier, NotOwner, SettingsError
from budgetfrontier.rules.run_history import SHARED_ANEW
from budgetfrontier.settings.schema import ClusterSettings
from budgetfrontier.storage import keys
from budgetfrontier.storage.environment import Environment
from budgetfrontier.storage.repair.repair_steps import repair
from tests.bus.conformance import PARTITIONS, Transport
from tests.cluster.log import CRAWL, Log, Owner
from tests.cluster.memory_directory import MemoryDirectory
from tests.support import PATIENCE, until

pytestmark = pytest.mark.waits

_names = count()


@pytest.fixture
def bus(kafka_transport: Transport) -> KafkaBus:
    """A bus whose groups are formed within seconds."""
    host = kafka_transport.bus()
    assert isinstance(host, KafkaBus)
    return kafka.connect(host.settings()["bootstrap.servers"], {"create": "no"}, session=6.0)


@pytest.fixture
def crawl() -> str:
    return f"crawl-{next(_names)}-{time_ns()}"


class Running:
    """A worker in a thread."""

    def __init__(self, bus: KafkaBus, crawl: str, folder: Path, directory: MemoryDirectory, **more: Any) -> None:
        settings = Settings.from_dict({"crawl": crawl, "frontier": more.pop("frontier", {})})
        stream = worker.log_stream(crawl, PARTITIONS)
        self.worker = ClusterWorker(
            bus, directory, settings, folder, partitions=PARTITIONS, address=folder.name,
            log_end=lambda number: bus.bounds(stream, number)[1], **more,
        )  # fmt: skip
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.worker.run()
        except BaseException as e:
            self.error = e

    def join(self) -> None:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    def stop(self) -> None:
        self.worker.stop()
        self.join()

    def call(self, partition: int, method: Method, arguments: Any) -> Any:
        answers = Queue[tuple[Any, BaseException | None]]()
        self.worker.call(partition, method.name, protocol.encode(arguments), lambda *answer: answers.put(answer))
        reply, error = answers.get(timeout=PATIENCE)
        if error is not None:
            raise error
        return protocol.decoder(method.reply)(reply)


@contextmanager
def running(bus: KafkaBus, crawl: str, folder: Path, directory: MemoryDirectory, **more: Any) -> Iterator[Running]:
    one = Running(bus, crawl, folder, directory, **more)
    try:
        yield one
    finally:
        one.stop()


def answer(workers: Sequence[Running], partition: int, method: Method, arguments: Any) -> Any:
    """The reply of the owner of a partition, whichever worker that is now."""
    deadline = monotonic() + PATIENCE
    while True:
        for one in workers:
            with suppress(NotOwner):
                return one.call(partition, method, arguments)
        assert monotonic() < deadline
        sleep(0.05)


def test_partitions_of_a_worker_that_stops_are_restored_and_go_on(bus: KafkaBus, tmp_path: Path, crawl: str) -> None:
    directory, store = MemoryDirectory(), tmp_path / "store"
    store.mkdir()
    cluster = ClusterSettings(snapshots=store.as_uri(), snapshot_every=0.2, snapshots_kept=1)
    deleted: dict[int, int] = {}

    def start(name: str) -> AbstractContextManager[Running]:
        restore = Restorer(SnapshotStore(store.as_uri(), timeout=10.0), crawl, PARTITIONS)
        taker = Taker(crawl, cluster)
        return running(
            bus, crawl, tmp_path / name, directory, restore=restore, snapshots=taker, delete_before=deleted.__setitem__
        )

    with start("one") as one, start("two") as two:
        until(lambda: one.worker.owned and two.worker.owned and len(one.worker.owned + two.worker.owned) == PARTITIONS)
        both = (one, two)
        for number in range(PARTITIONS):
            answer(both, number, protocol.SCHEDULE_MANY, Uris([f"https://a{number}.test/", f"https://b{number}.test/"]))
        leases = {number: answer(both, number, protocol.LEASE, Wanted(1, 300.0)) for number in range(PARTITIONS)}
        until(lambda: len(deleted) == PARTITIONS)
        one.stop()
        with pytest.raises(NotOwner, match="is not with the worker at one, or no longer"):
            one.call(0, protocol.LEASE, Wanted(1, 300.0))
        for number, [lease] in leases.items():
            assert answer([two], number, protocol.FINISH_MANY, [lease.id]) == []
            assert lease.uri.url not in {
                other.uri.url for other in answer([two], number, protocol.LEASE, Wanted(5, 300.0))
            }
        assert {owner.address for owner in directory.read().values()} == {"two"}
    assert one.error is two.error is None
    kept = {int(_partition(path)): int(path.stem) for path in sorted(store.glob("*/*.snapshot"), reverse=True)}
    assert all(deleted[number] <= kept[number] for number in deleted)


def test_workers_that_share_partitions_anew_make_one_run(bus: KafkaBus, tmp_path: Path, crawl: str) -> None:
    """One that gives a partition away has not been killed, and the crawl has not stood still."""
    directory = MemoryDirectory()
    with running(bus, crawl, tmp_path / "one", directory) as one:
        until(lambda: len(one.worker.owned) == PARTITIONS and len(directory.read()) == PARTITIONS)
        with running(bus, crawl, tmp_path / "two", directory) as two:

            def are_shared() -> bool:
                owned = {number: each.worker.address for each in (one, two) for number in each.worker.owned}
                stored = {number: owner.address for number, owner in directory.read().items()}
                return owned == stored and {*owned.values()} == {"one", "two"}

            until(are_shared)
            runs = {number: _runs(tmp_path, owner.address, number) for number, owner in directory.read().items()}
    [run] = merged_runs(runs.values())
    assert (run.number, run.end) == (1, None)
    ended = [each for of_partition in runs.values() for each in of_partition if each.end is not None]
    assert ended and {(each.end, each.reason) for each in ended} == {(RunEnd.EXIT, SHARED_ANEW)}


def _runs(folder: Path, worker: str, partition: int) -> list[Run]:
    with Reader(folder / worker / f"partition-{partition:04}" / "frontier") as reader:
        return list(reader.runs())


def _partition(snapshot: Path) -> str:
    return snapshot.parent.name.rpartition("-")[2]


def test_damage_that_a_snapshot_finds_ends_the_worker_and_the_next_one_rebuilds(
    bus: KafkaBus, tmp_path: Path, crawl: str
) -> None:
    directory = MemoryDirectory()
    with running(bus, crawl, tmp_path / "one", directory, snapshots=FindsDamage()) as one:
        one.join()
    assert isinstance(one.error, CorruptFrontier) and "in page 7" in str(one.error)
    assert len([*(tmp_path / "one").glob("partition-*/frontier.damaged-1")]) == 1
    with running(bus, crawl, tmp_path / "one", directory) as again:
        until(lambda: len(again.worker.owned) == PARTITIONS)
    assert again.error is None


def test_a_copy_with_another_row_than_the_log_is_rebuilt_beside_the_others(
    bus: KafkaBus, tmp_path: Path, crawl: str
) -> None:
    directory, number = MemoryDirectory(), 0
    frontier = tmp_path / "two" / f"partition-{number:04}" / "frontier"
    with running(bus, crawl, tmp_path / "two", directory) as owner:
        answer([owner], number, protocol.SCHEDULE_MANY, Uris(["https://a.test/0"]))
        until((frontier / "data.mdb").is_file)
        with closing(Reader(frontier)) as reader:
            until(lambda: reader.summary().queued == 1)
            reader.backup(tmp_path / "one" / f"partition-{number:04}" / "frontier")
        answer([owner], number, protocol.SCHEDULE_MANY, Uris(["https://a.test/1"]))
    assert owner.error is None
    with closing(Environment(tmp_path / "one" / f"partition-{number:04}" / "frontier")) as env:
        [(key, value)] = [row for row in env.txn.cursor(env.db[keys.QUEUES]) if row[0] != keys.SENTINEL]
        assert value.count(b"a.test") == 1
        env.txn.put(key, value.replace(b"a.test", b"b.test"), db=env.db[keys.QUEUES])
        env.commit()
    with running(bus, crawl, tmp_path / "one", directory) as damaged:
        until(lambda: len(damaged.worker.owned) == PARTITIONS)
        [lease] = answer([damaged], number, protocol.LEASE, Wanted(1, 300.0))
    assert damaged.error is None and lease.uri.url == "https://a.test/0"
    assert [*(tmp_path / "one").glob("partition-*/frontier.*")] == [
        tmp_path / "one" / f"partition-{number:04}" / "frontier.damaged-1"
    ]


def test_a_copy_that_was_repaired_is_rebuilt_beside_the_others(bus: KafkaBus, tmp_path: Path, crawl: str) -> None:
    directory, number = MemoryDirectory(), 0
    frontier = tmp_path / "one" / f"partition-{number:04}" / "frontier"
    with running(bus, crawl, tmp_path / "one", directory) as one:
        answer([one], number, protocol.SCHEDULE_MANY, Uris(["https://a.test/0"]))
        until((frontier / "data.mdb").is_file)
    repair(frontier)
    with running(bus, crawl, tmp_path / "one", directory) as again:
        until(lambda: len(again.worker.owned) == PARTITIONS)
        [lease] = answer([again], number, protocol.LEASE, Wanted(1, 300.0))
    assert again.error is None and lease.uri.url == "https://a.test/0"
    assert frontier.with_name("frontier.damaged-1").is_dir()


class FindsDamage:
    """A taker of snapshots that finds damage in the first partition that a worker has."""

    def step(self, positions: dict[int, int], folders: dict[int, Path], now: float) -> tuple[int, Taken] | None:
        return (min(positions), Taken(error="damage in page 7", is_damaged=True)) if positions else None

    def close(self) -> None:
        pass


def test_a_log_that_begins_again_is_refused_until_there_is_a_copy_that_fits(
    bus: KafkaBus, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "AGAIN", 0.1)
    with closing(Owner(tmp_path / "one" / "partition-0000", Log())) as owner:
        owner.schedule("https://a.test/", "https://b.test/")
        owner.commit()
    operator = threading.Event()

    def restore(number: int, folder: Path) -> None:
        if operator.is_set() and number == 0:
            (folder / "frontier").rename(folder / "other")
            operator.clear()

    with running(bus, CRAWL, tmp_path / "one", MemoryDirectory(), restore=restore) as one:
        until(lambda: "and the log ends at 0" in caplog.text)
        until(lambda: one.worker.owned == [1, 2, 3])  # which are served
        operator.set()
        until(lambda: one.worker.owned == [0, 1, 2, 3])
    assert one.error is None
    with closing(Reader(tmp_path / "one" / "partition-0000" / "other")) as kept:
        assert kept.summary().queued == 2


def test_a_worker_that_stops_or_cannot_write_sends_its_clients_to_others(
    bus: KafkaBus, tmp_path: Path, crawl: str
) -> None:
    with running(bus, crawl, tmp_path / "one", MemoryDirectory()) as one:
        until(lambda: len(one.worker.owned) == PARTITIONS)
        one.worker._writer._error = BusError("refused")
        with pytest.raises(NotOwner):
            one.call(0, protocol.SCHEDULE_MANY, Uris(["https://a.test/"]))
        one.join()
    assert str(one.error) == "refused"
    told = Queue[tuple[Any, BaseException | None]]()
    one.worker.look(0, repr, lambda *answer: told.put(answer))
    assert isinstance(told.get(timeout=PATIENCE)[1], NotOwner)


def test_a_worker_with_other_fixed_settings_has_no_claim(bus: KafkaBus, tmp_path: Path, crawl: str) -> None:
    directory = MemoryDirectory()
    with running(bus, crawl, tmp_path / "one", directory) as one:
        until(lambda: len(one.worker.owned) == PARTITIONS)
    other = {"queue_assignment_policy": "registered-domain", "queue_total_budget": 5}
    two = Running(bus, crawl, tmp_path / "two", directory, frontier=other)
    two.join()
    assert isinstance(two.error, SettingsError)
    assert "fixed: frontier.queue_assignment_policy: hostname -> registered-domain. Start all" in str(two.error)


def test_the_late_claim_of_a_worker_that_was_paused_is_overruled(bus: KafkaBus, tmp_path: Path, crawl: str) -> None:
    """It had written its claim, lost the partition, and sent the claim when it went on."""
    with running(bus, crawl, tmp_path / "one", MemoryDirectory(), session=0.1) as one:
        until(lambda: len(one.worker.owned) == PARTITIONS)
        one.call(2, protocol.SCHEDULE_MANY, Uris(["https://a.test/"]))
        one.worker.append(2, Claimed("ghost", b"ghost"))
        until(lambda: 2 not in one.worker.owned)
        until(lambda: 2 in one.worker.owned)
        assert len(one.call(2, protocol.LEASE, Wanted(1, 300.0))) == 1


def test_links_that_come_before_a_first_claim_are_applied_by_who_claims(
    bus: KafkaBus, tmp_path: Path, crawl: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In several polls of the log, which is read again from its beginning once the claim was found."""
    monkeypatch.setattr(worker, "MOST_ENTRIES", 3)
    stream = worker.log_stream(crawl, PARTITIONS)
    with closing(bus.producer(stream)) as producer:
        for origin in range(10):
            found = Told(1, (origin, 0), Found([f"https://a.test/{origin}"]))
            producer.send(entries.encode(found, crawl=crawl), partition=2)
        producer.flush(PATIENCE)
    with running(bus, crawl, tmp_path / "one", MemoryDirectory()) as one:
        until(lambda: len(one.worker.owned) == PARTITIONS)
        until(lambda: one.worker._owned[2].position >= 12)
        assert answer([one], 2, protocol.LEASE, Wanted(1, 300.0))[0].uri.url == "https://a.test/0"
        told = Queue[tuple[Any, BaseException | None]]()
        one.worker.look(2, lambda owner: owner.heard(1), lambda *answer: told.put(answer))
        assert told.get(timeout=PATIENCE) == ((9, 0), None)
    assert one.error is None
