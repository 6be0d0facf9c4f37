"""Faults of workers on a real broker of Kafka: kills, pauses, a full disk, a broker that is away, unfit topics.

All in one test, because the broker takes seconds to start.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from budgetfrontier import Reader
from budgetfrontier.bus import kafka
from budgetfrontier.cluster.client import ClusterFrontier
from budgetfrontier.cluster.directory.kafka import KafkaDirectory, place
from budgetfrontier.cluster.directory.topics import prepare
from budgetfrontier.cluster.log import state
from budgetfrontier.cluster.log.state import LogPlace
from budgetfrontier.cluster.snapshots.snapshot_store import newest_first
from budgetfrontier.errors import FrontierError
from budgetfrontier.settings.schema import ClusterSettings
from budgetfrontier.storage import meta
from budgetfrontier.tools.cli.exits import CONFIGURATION, DISK_FULL
from tests.bus.kafka_server import jars, started
from tests.crash.disks import disk
from tests.crash.figures import Unavailable
from tests.crawler.process import forked_main
from tests.forked import ForkedProcess
from tests.installed import NotInstalled
from tests.support import PATIENCE, until

CRAWL = "faults"
PARTITIONS = 3


class Crawl:
    """A crawl whose workers are processes."""

    def __init__(self, folder: Path, brokers: str) -> None:
        self.folder, self.brokers = folder, brokers
        self.store = folder / "store"
        self.store.mkdir()
        self.config = folder / "crawl.yaml"
        self.config.write_text(f"""\
crawl: {CRAWL}
frontier: {{politeness: {{min_delay: 0, max_delay: 0, delay_factor: 0}}}}
cluster:
  kafka: "{brokers}?session.timeout.ms=3000&heartbeat.interval.ms=300"
  partitions: {PARTITIONS}
  snapshots: {self.store.as_uri()}
  snapshot_every: 1s
""")
        self.added = 0

    @contextmanager
    def worker(self, name: str, config: Path | None = None) -> Iterator[ForkedProcess]:
        words = ["worker", "--config", str(config or self.config), "--folder", str(self.folder / name)]
        words += ["--listen", f"unix:{self.folder / name}.sock"]
        with (
            (self.folder / f"{name}.log").open("ab") as log,
            ForkedProcess(forked_main, *words, log=log) as process,
        ):
            try:
                yield process
            finally:
                process.send_signal(signal.SIGCONT)
                process.kill()

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def claimed(self, name: str) -> set[int]:
        """The partitions that a worker has claimed since it began."""
        return {int(number) for number in re.findall(r"partition (\d+) is claimed", self.log(name))}

    @contextmanager
    def client(self) -> Iterator[ClusterFrontier]:
        where = place(f"kafka://{self.brokers}/{CRAWL}")
        with ClusterFrontier(where.crawl, KafkaDirectory(where), retry_for=PATIENCE) as frontier:
            yield frontier

    def schedule(self, frontier: ClusterFrontier, count: int = 30) -> None:
        """Schedule URIs, and see that none is lost, and none counted twice."""
        frontier.schedule_many([f"https://h{number}.test/" for number in range(self.added, self.added + count)])
        self.added += count
        assert frontier.summary().queued == self.added

    def positions(self) -> dict[int, int]:
        """Those of the newest snapshots."""
        names = [str(path.relative_to(self.store)) for path in self.store.glob("*/*.snapshot")]
        found = {number: newest_first(names, CRAWL, number) for number in range(PARTITIONS)}
        return {number: snapshots[0].position for number, snapshots in found.items() if snapshots}

    def has_snapshots(self) -> bool:
        """Whether each partition has one from now on."""
        before, enough = self.positions(), len(self.positions()) == PARTITIONS
        return enough and all(position > 1 for position in before.values())


def test_nothing_is_lost_whatever_happens_to_workers_and_broker(tmp_path: Path) -> None:
    try:
        jars()
    except NotInstalled as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"faults of workers on a real Kafka broker were NOT tested: {error}")
    with started(tmp_path / "kafka") as (brokers, broker):
        crawl = Crawl(tmp_path, brokers)
        with crawl.worker("one") as one, crawl.client() as frontier:
            crawl.schedule(frontier)
            with crawl.worker("two"):
                a_worker_is_paused(crawl, frontier, one)
                a_broker_is_away(crawl, frontier, broker)
                transactions_leave_control_records(crawl, frontier)
                going_on(crawl, frontier, crawl.has_snapshots)
                logs_are_cut(crawl, frontier)
            one.kill()
        partitions_are_rebuilt_from_snapshots(crawl)
        topics_do_not_fit(crawl)
        topics_are_made_anew(crawl)


def a_worker_is_paused(crawl: Crawl, frontier: ClusterFrontier, one: ForkedProcess) -> None:
    one.send_signal(signal.SIGSTOP)
    until(lambda: crawl.claimed("two") == set(range(PARTITIONS)))
    with crawl.client() as other:  # a call to a process that is stopped would wait for a minute
        crawl.schedule(other)
    one.send_signal(signal.SIGCONT)
    until(lambda: "partition 0 went to another worker" in crawl.log("one"))
    crawl.schedule(frontier)


def a_broker_is_away(crawl: Crawl, frontier: ClusterFrontier, broker: subprocess.Popen[bytes]) -> None:
    broker.send_signal(signal.SIGSTOP)
    try:
        with ThreadPoolExecutor(1) as thread:
            call = thread.submit(crawl.schedule, frontier)
            until(lambda: "nothing is lost, and all calls wait" in crawl.log("one") + crawl.log("two"))
            assert not call.done()
            broker.send_signal(signal.SIGCONT)
            call.result()
    finally:
        broker.send_signal(signal.SIGCONT)
    until(lambda: "Kafka answers again after" in crawl.log("one") + crawl.log("two"))


def transactions_leave_control_records(crawl: Crawl, frontier: ClusterFrontier) -> None:
    """In each log, and at the end of the topic of owners. They have offsets, and are no messages."""
    producer = Producer({"bootstrap.servers": crawl.brokers, "transactional.id": "mirror"})
    producer.init_transactions(PATIENCE)
    producer.begin_transaction()
    for number in range(PARTITIONS):
        producer.produce(f"{CRAWL}-log", b"no entry", partition=number)
    producer.produce(f"{CRAWL}-owners", b"no owner", key=b"other", partition=0)
    producer.commit_transaction(PATIENCE)
    crawl.schedule(frontier)
    assert "are missing" not in crawl.log("one") + crawl.log("two")
    for _ in range(2):
        assert len(frontier.transport._directory.read()) == PARTITIONS


def going_on(crawl: Crawl, frontier: ClusterFrontier, condition: Callable[[], bool]) -> None:
    """Wait for what happens while entries come: a snapshot of what has not changed since is not taken again."""

    def is_so() -> bool:
        crawl.schedule(frontier, 3 * PARTITIONS)
        return condition()

    until(is_so)


def logs_are_cut(crawl: Crawl, frontier: ClusterFrontier) -> None:
    """The broker deletes what the oldest snapshots that are kept have."""
    consumer = Consumer({"bootstrap.servers": crawl.brokers, "group.id": "looks"})
    try:
        for number in range(PARTITIONS):
            place = TopicPartition(f"{CRAWL}-log", number)
            begins = partial(consumer.get_watermark_offsets, place, timeout=PATIENCE)
            going_on(crawl, frontier, partial(_is_cut, begins))
            first, _ = begins()
            assert first <= min(int(path.stem[:20]) for path in crawl.store.glob(f"*-{number:04}/*.snapshot"))
    finally:
        consumer.close()


def _is_cut(begins: Callable[[], tuple[int, int]]) -> bool:
    first, _ = begins()
    return first > 0


def partitions_are_rebuilt_from_snapshots(crawl: Crawl) -> None:
    """The folders of all workers are lost, and the log before the snapshots; then a disk is full."""
    shutil.rmtree(crawl.folder / "one")
    shutil.rmtree(crawl.folder / "two")
    before = {TopicPartition(f"{CRAWL}-log", number, position) for number, position in crawl.positions().items()}
    admin = AdminClient({"bootstrap.servers": crawl.brokers})
    for gone in admin.delete_records([*before]).values():
        gone.result()
    with crawl.worker("three"), crawl.client() as frontier:
        crawl.schedule(frontier)
        assert crawl.log("three").count("was restored from") == PARTITIONS
        a_disk_is_full(crawl, frontier)
    empty = crawl.folder / "empty"  # where no process of a worker that was killed still puts a snapshot
    empty.mkdir()
    crawl.config.write_text(crawl.config.read_text().replace(str(crawl.store), str(empty)))
    with crawl.worker("four"):
        until(lambda: crawl.log("four").count("the first that the log still has is") >= PARTITIONS)
        assert not crawl.claimed("four")


def a_disk_is_full(crawl: Crawl, frontier: ClusterFrontier) -> None:
    """The worker gives its partitions up; its copies can be used."""
    try:
        with disk(crawl.folder, "tmpfs", size=16 << 20) as small, crawl.worker("tmpfs") as full:
            until(lambda: crawl.claimed("tmpfs"))
            small.fill(0)
            crawl.schedule(frontier, 5000)
            assert full.wait(PATIENCE) == DISK_FULL
            assert "is full; free some space" in crawl.log("tmpfs")
            small.clear()
            for copy in small.folder.glob("partition-*/frontier"):
                with Reader(copy) as reader:
                    reader.check()
            crawl.schedule(frontier)
    except Unavailable as reason:
        print(f"a full disk was NOT tested: {reason}")


def topics_do_not_fit(crawl: Crawl) -> None:
    where = place(f"kafka://{crawl.brokers}/{CRAWL}")
    bus, directory = kafka.connect(crawl.brokers), KafkaDirectory(where)

    def start(**cluster: Any) -> None:
        prepare(bus, directory, CRAWL, ClusterSettings(**cluster), stopping=lambda: False)

    start(partitions=PARTITIONS)
    with pytest.raises(FrontierError, match=r"has 3 partitions, with which .*, and cluster\.partitions says 8: set it"):
        start(partitions=8)
    admin = AdminClient({"bootstrap.servers": crawl.brokers})
    admin.create_partitions([NewPartitions(f"{CRAWL}-log", 4)])[f"{CRAWL}-log"].result()
    for partitions in (PARTITIONS, 4):
        with pytest.raises(FrontierError, match=r"has 4 partitions, and the crawl was begun with 3, which is fixed"):
            start(partitions=partitions)
    topics_are_left_to_the_operator(crawl, admin)


def topics_are_left_to_the_operator(crawl: Crawl, admin: AdminClient) -> None:
    """A worker makes none, by itself or by asking for it, and refuses what the broker makes by itself."""
    config = crawl.folder / "by_hand.yaml"
    config.write_text(f"crawl: hand\ncluster: {{kafka: '{crawl.brokers}?create=no', partitions: 3}}\n")
    names = {f"hand-{name}" for name in ("log", "owners", "summaries", "copies", "suffixes")}

    def refused() -> str:
        with crawl.worker("hand", config) as process:
            assert process.wait(PATIENCE) == CONFIGURATION
        return crawl.log("hand")

    assert all(f"there is no topic {name}, " in refused() for name in names)
    assert not names & admin.list_topics().topics.keys()
    producer = Producer({"bootstrap.servers": crawl.brokers})
    producer.produce("hand-owners", b"")
    assert producer.flush(PATIENCE) == 0
    assert "the topic hand-owners has cleanup.policy=delete, " in refused()


def topics_are_made_anew(crawl: Crawl) -> None:
    """A copy of the log before is not used, although the new log is longer."""
    admin = AdminClient({"bootstrap.servers": crawl.brokers})
    for gone in admin.delete_topics([f"{CRAWL}-log", f"{CRAWL}-owners"]).values():
        gone.result()
    crawl.config.write_text(crawl.config.read_text().replace(str(crawl.folder / "empty"), str(crawl.folder / "none")))
    (crawl.folder / "none").mkdir()
    with Reader(crawl.folder / "three" / "partition-0000" / "frontier") as reader:
        before = state.decode(reader.row(meta.PLACE) or b"", LogPlace).position
    with crawl.worker("five"), crawl.client() as frontier:
        while not (found := frontier.standings()[0]) or found[0].position <= before:
            frontier.schedule_many([f"https://h{number}.test/" for number in range(30)])
    for snapshot in (crawl.folder / "none").glob("*/*.snapshot"):
        snapshot.unlink()
    with crawl.worker("three"):
        until(lambda: "its copy was made from another log than the topic" in crawl.log("three"))
