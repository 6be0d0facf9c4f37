"""Summaries that owners publish, and what operators are told of partitions that do not answer."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from math import inf
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from budgetfrontier.cluster.calls import cluster_transport
from budgetfrontier.cluster.client import ClusterFrontier
from budgetfrontier.cluster.directory import summaries
from budgetfrontier.cluster.directory.compacted_topic import CompactedTopic
from budgetfrontier.cluster.directory.copy_offers import CopyNotice
from budgetfrontier.cluster.directory.kafka import KafkaDirectory, Place
from budgetfrontier.cluster.directory.owners import Owner
from budgetfrontier.cluster.directory.summaries import PartitionSummary, SummaryPublisher
from budgetfrontier.cluster.operators import crawl_owners, owner_calls
from budgetfrontier.cluster.operators.cluster_operator import ClusterOperator
from budgetfrontier.cluster.operators.crawl_owners import CrawlOwners
from budgetfrontier.cluster.operators.worker_disks import disk_sentences, limits_of_disks
from budgetfrontier.core import protocol
from budgetfrontier.core.model import CrawlState, QueueState, Summary
from budgetfrontier.errors import ConnectionLost
from budgetfrontier.remote import RemoteFrontier
from budgetfrontier.reports.operators import OperatorCommand
from budgetfrontier.rules.forecasts import BYTES, Limit
from budgetfrontier.rules.rates import FIGURES, Rate, Window
from budgetfrontier.rules.verdict import process_line
from budgetfrontier.settings import Settings
from budgetfrontier.storage.disks import FolderDisk
from budgetfrontier.storage.report import Report
from budgetfrontier.tools.cli import clusters, main
from tests.cluster.memory_directory import MemoryDirectory
from tests.cluster.workers import Cluster, running
from tests.support import PATIENCE, until

PARTITIONS = 2
EMPTY: dict[str, Any] = {name: 0 for name, kind in Summary.__annotations__.items() if kind == "int"} | {
    "state": CrawlState.RUNNING,
    "pause_reason": None,
    "queues": {each.value: 0 for each in QueueState},
    "full_reasons": {},
    "invalid_reasons": {},
}


class Table:
    """A table of summaries that notes each record."""

    def __init__(self) -> None:
        self.records: list[PartitionSummary] = []

    def publish_summaries(self, found: Sequence[PartitionSummary]) -> None:
        for one in found:
            self.records.append(protocol.decoder(PartitionSummary)(protocol.encode(one)))
            self.records[-1].at = time.time()

    def summaries(self) -> Mapping[int, PartitionSummary]:
        return {one.standing.partition: one for one in self.records}


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setattr(owner_calls, "SIGN_OF_LIFE", 0.5)
    monkeypatch.setattr(cluster_transport, "JUST_NOW", 0.0)
    with running(tmp_path, Settings(crawl="test"), [[0], [1]], PARTITIONS) as cluster:
        yield cluster


@pytest.fixture
def frontier(cluster: Cluster) -> Iterator[ClusterFrontier]:
    with ClusterFrontier("test", cluster.directory) as frontier:
        frontier.schedule_many([f"https://h{number}.test/" for number in range(40)])
        yield frontier


@pytest.fixture
def table(frontier: ClusterFrontier) -> Table:
    """A table with a summary of each partition, published as by its worker."""
    table = Table()
    wait_for_commits(frontier, 40)
    with_owners(frontier, table).turn()
    return table


def wait_for_commits(frontier: ClusterFrontier, queued: int) -> None:
    """Wait until the last commits have so many URIs: owners are looked at as of these."""
    owners = CrawlOwners(frontier, job="test", patience=PATIENCE)
    until(lambda: sum(one.totals.queued for one in owners.ask("head", Report).values()) == queued)


def with_owners(
    frontier: ClusterFrontier,
    table: Table,
    folder: Path = Path("/nowhere"),
    carry: Callable[[Collection[str]], None] = lambda logs: None,
) -> SummaryPublisher:
    owners = CrawlOwners(frontier, job="test", patience=PATIENCE)

    def look(number: int, name: str, named: dict[str, Any]) -> bytes:
        return protocol.encode(owners.ask_one(number, name, Any, **named))

    publisher = SummaryPublisher(table, lambda: [*owners.standings().values()], look, folder, carry)
    publisher.close()  # its thread: turns are taken here
    return publisher


def operator(frontier: ClusterFrontier, table: Table) -> ClusterOperator:
    return ClusterOperator(CrawlOwners(frontier, job="test", summaries=table.summaries, patience=0.2))


def lose(cluster: Cluster, number: int) -> None:
    """Let the owner of a partition be one that does not answer."""
    known = cluster.directory.read()[number]
    gone = Owner(number, known.epoch + 1, "gone", "unix:/nowhere", known.since, PARTITIONS)
    cluster.directory.publish(gone)


def test_figures_of_a_partition_without_an_answer_are_the_last_ones_and_say_how_old_they_are(
    cluster: Cluster, frontier: ClusterFrontier, table: Table
) -> None:
    whole = operator(frontier, table).overview(10)
    lose(cluster, 1)
    found = operator(frontier, table)
    made = found.overview(10)
    assert made.head.totals.queued == 40 and made.head.state is CrawlState.RUNNING
    assert made.overview.longest(10) == whole.overview.longest(10)
    rows = operator(frontier, table).current()[1]
    assert [row.age is None for row in rows] == [True, False]
    assert sum(row.queued or 0 for row in rows) == 40
    assert not found.missing
    assert found.owners.told_late().startswith("the figures of partition 1 are those that its owner published ")


def test_the_disks_of_workers_are_forecast_from_their_summaries(
    cluster: Cluster,
    frontier: ClusterFrontier,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    table = Table()
    wait_for_commits(frontier, 40)
    owners = CrawlOwners(frontier, job="test", patience=PATIENCE)
    publisher = with_owners(frontier, table, tmp_path)
    first, second = sorted({one.owner for one in owners.standings().values()})
    monkeypatch.setattr(summaries, "folder_disk", lambda folder: FolderDisk("one disk", 1 << 30, 40_000))
    publisher.turn()
    (found,) = (one for one in operator(frontier, table).forecasts(time.time(), 3600.0) if one.bound[:4] == "disk")
    assert found.bound == f"disk of {first}, {second}" and found.why.startswith("1.0 GiB left")
    assert {row.free for row in operator(frontier, table).current()[1]} == {1 << 30}
    monkeypatch.setattr(clusters, "connected", lambda job, **options: nullcontext(operator(frontier, table).owners))
    assert main(["partitions", "--cluster", "kafka://nowhere/test", "--wide"]) == 0
    out, err = capsys.readouterr()
    assert out.count("1.0 GiB") == PARTITIONS and f"disk of {first}, {second}: 1.0 GiB left" in err


def test_a_disk_of_workers_fills_by_its_part_of_what_the_crawl_schedules() -> None:
    disks = {
        "b": FolderDisk("one", 5 << 20, 100_000),
        "a": FolderDisk("one", 4 << 20, 300_000),
        "c": FolderDisk("other", 0, 0),
    }
    limits = limits_of_disks(disks, 1000)
    assert limits == {
        "disk of a, b": Limit(4 << 20, ("discovered",), BYTES, (400.0,)),
        "disk of c": Limit(0, ("discovered",), BYTES, (0.0,)),
    }
    many = limits_of_disks({name: FolderDisk("one", 1, 1) for name in "edcba"}, 0)
    assert [*many] == ["disk of a, b, c and 2 more"]
    totals = msgspec.convert(EMPTY | {"scheduled": 1000}, Summary)
    rates = {name: Rate(1000, 2000.0 if name == "discovered" else 0.0, None, None) for name in FIGURES}
    told = [*disk_sentences(disks, lambda since, until: Window(3600.0, 60, rates), totals, 1e9)]
    assert told[0] == "disk of a, b: 4.0 MiB left, 781.2 KiB an hour; full after 5h14m (rough)"
    assert told[1] == "disk of c: 0 B left"


def test_the_totals_alone_are_told_without_a_look_at_the_ends_of_the_logs(
    cluster: Cluster, frontier: ClusterFrontier, table: Table
) -> None:
    asked = list[int]()

    def ends(count: int) -> dict[int, int]:
        asked.append(count)
        return {}

    found = operator(frontier, table)
    found.owners.ends = ends
    assert found.head().totals.queued == 40 and asked == []
    assert len(found.current()[1]) == PARTITIONS and asked == [PARTITIONS]


def test_an_idle_worker_that_answers_late_is_not_gone_as_long_as_it_publishes_anything(
    cluster: Cluster, frontier: ClusterFrontier, table: Table
) -> None:
    lose(cluster, 1)
    for number, one in table.summaries().items():
        one.standing.owner = "idle#7"
        one.at -= crawl_owners.GONE + 60 if number else 3
    found = operator(frontier, table)
    head, rows = found.current()
    assert head.state is CrawlState.RUNNING and not found.missing and rows[1].age is not None
    assert "worker" in process_line(head.standing) and found.owners.told_late() != ""


@pytest.mark.parametrize("behind", [0.0, 7.0])
def test_figures_are_as_old_as_the_last_sign_that_they_are_the_latest(
    cluster: Cluster, frontier: ClusterFrontier, table: Table, behind: float
) -> None:
    """An idle worker publishes those of one of its partitions at a time; aggregates may be older than the others."""
    lose(cluster, 1)
    for number, one in table.summaries().items():
        one.standing.owner, one.gathered_before = "idle#7", behind
        one.at = time.time() - (600 if number else 3)
    for of_aggregates in (False, True):
        found = operator(frontier, table)
        assert (found.overview(5).head if of_aggregates else found.head()).totals.queued == 40
        age = 600 + behind if of_aggregates and behind else 3.0
        assert age <= found.owners.ages[1] < age + 300


def test_the_last_summary_of_an_idle_partition_has_aggregates_that_are_not_old(
    frontier: ClusterFrontier, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summaries, "BEAT", inf)
    publisher = with_owners(frontier, table)
    settle(publisher, table)
    for one in publisher._published.values():
        one.due = 0.0
    settle(publisher, table)
    before = len(table.records)
    for _ in range(PARTITIONS):
        publisher._beat_at = 0.0
        publisher.turn()
    assert [one.gathered_before for one in table.records[before:]] == [0.0] * PARTITIONS


def test_the_partitions_that_do_not_answer_are_all_of_them_once_any_is_lost(
    cluster: Cluster, frontier: ClusterFrontier, table: Table
) -> None:
    lose(cluster, 0)
    lose(cluster, 1)
    table.summaries()[1].at -= crawl_owners.GONE + 60
    for one in table.records:
        one.report.standing.rate = 2.5
        assert one.report.standing.process.last_commit is not None
        one.report.standing.process.last_commit -= 60
    found = operator(frontier, table)
    head = found.head()
    assert set(found.missing) == {0, 1} and head.state is CrawlState.UNKNOWN
    assert "partitions 0-1 of 2 do not answer" in head.verdict.text
    assert process_line(head.standing).startswith("none answers; last commit ")
    assert head.standing.rate is None, "of a minute that is long over"


def test_a_partition_that_has_published_nothing_for_long_counts_as_missing(
    cluster: Cluster, frontier: ClusterFrontier, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner_calls, "SOON", PATIENCE)  # for the other one
    lose(cluster, 1)
    table.summaries()[1].at -= crawl_owners.GONE + 60
    found = operator(frontier, table)
    head, rows = found.current()
    assert set(found.missing) == {1} and head.state is CrawlState.UNKNOWN
    assert head.standing.process.program == "1 worker", "of which one knows that it works"
    assert head.totals.queued == 40
    assert rows[1].age is not None and rows[1].age >= crawl_owners.GONE + 60
    assert "does not answer" in found.unanswered()
    assert "the figures of partition 1 are those that its owner published 1m" in found.unanswered()


def test_the_stamp_of_the_broker_is_the_time_of_a_summary_whatever_its_worker_takes_for_the_time(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = [replace(one, at=time.time() + 3600) for one in table.records]
    monkeypatch.setattr(CompactedTopic, "read", lambda topic: ((one, 5.0) for one in late))
    with closing(KafkaDirectory(Place("localhost:1", "test", {}))) as directory:
        assert {one.at for one in directory.summaries().values()} == {5.0}


def test_what_an_owner_says_that_has_lost_its_partition_counts_no_more(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was stopped, and publishes its place and its figures before it reads that another one has claimed."""
    first = table.summaries()[1]

    def summary(epoch: int, log: str = "") -> PartitionSummary:
        return replace(first, standing=replace(first.standing, epoch=epoch, log=log))

    def claimed(epoch: int, name: str, since: float, address: str = "a", log: str = "") -> Owner:
        return Owner(1, epoch, name, address, since, PARTITIONS, log)

    rows: list[Any] = []
    monkeypatch.setattr(CompactedTopic, "read", lambda topic: ((row, 5.0) for row in rows))
    with closing(KafkaDirectory(Place("localhost:1", "test", {}))) as directory:

        def known(*read: Any) -> list[int]:
            rows[:] = read
            found = directory.summaries() if isinstance(read[0], PartitionSummary) else directory.read()
            return [one.standing.epoch if isinstance(one, PartitionSummary) else one.epoch for one in found.values()]

        assert known(claimed(7, "one", 1.0), claimed(9, "two", 2.0)) == [9]
        assert known(claimed(7, "one", 1.0)) == [9] and known(claimed(7, "one", 1.0, address="")) == [9]
        assert known(claimed(9, "two", 2.0, address="")) == [9] and not directory.read()[1].address
        assert known(claimed(3, "three", 3.0, log="anew")) == [3], "epochs begin again in a log that was made anew"
        assert known(claimed(9, "two", 2.0)) == [3]
        assert known(summary(7), summary(9), summary(7)) == [9] and known(summary(7)) == [9]
        assert known(summary(3, "anew")) == [3]


@pytest.mark.parametrize("ahead", [-3600.0, 3600.0])
def test_the_clock_of_a_machine_that_is_wrong_makes_no_figure_older(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: float
) -> None:
    """Of a worker, of a command or of the console: the brokers' clocks decide, which are `ahead` of all of these."""
    monkeypatch.setattr(cluster_transport, "JUST_NOW", 0.0)

    def broker() -> float:
        return time.time() + ahead

    table = Table()
    with (
        running(tmp_path, Settings(crawl="test"), [[0], [1]], PARTITIONS, broker=broker) as cluster,
        ClusterFrontier("test", cluster.directory) as frontier,
    ):
        frontier.schedule_many([f"https://h{number}.test/" for number in range(40)])
        wait_for_commits(frontier, 40)
        with_owners(frontier, table).turn()
        for one in table.records:
            assert abs(one.report.generated - broker()) < 600 and one.standing.time == 0.0
            one.at = broker() - 7
        [key] = [queue.queue for queue in operator(frontier, table).overview(1).overview.longest(1)]
        operator(frontier, table).apply(OperatorCommand("snooze", {"queue": key, "until": broker() + 900}, "me"))
        explained = operator(frontier, table).explain(key)
        assert explained.when is not None and 0 < explained.when - broker() < 900.1, explained
        lose(cluster, 1)
        found = operator(frontier, table)
        head, rows = found.current()
        assert head.state is CrawlState.RUNNING and not found.missing
        assert abs(head.generated - broker()) < 600 and abs(head.standing.now - broker()) < 600
        assert rows[1].age is not None and 6 < rows[1].age < 600


def test_a_dry_run_tells_no_age_of_figures_that_are_not_in_it(
    cluster: Cluster, frontier: ClusterFrontier, table: Table
) -> None:
    whole = operator(frontier, table).dry_run("snooze", {"match": "*", "until": time.time() + 3600})
    lose(cluster, 1)
    found = operator(frontier, table)
    assert 0 < found.dry_run("snooze", {"match": "*", "until": time.time() + 3600})["changed"] < whole["changed"]
    assert not found.is_terminated()  # as commands and their dry runs ask after that
    assert "partition 1 of 2 does not answer" in found.unanswered() and "published" not in found.unanswered()


def test_a_partition_without_a_summary_is_missing(cluster: Cluster, frontier: ClusterFrontier, table: Table) -> None:
    lose(cluster, 1)
    table.records = [one for one in table.records if one.standing.partition == 0]
    found = operator(frontier, table)
    assert found.head().totals.queued < 40
    assert set(found.missing) == {1} and found.owners.told_late() == ""


def test_a_partition_in_which_nothing_happens_publishes_nothing(
    frontier: ClusterFrontier, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summaries, "SHARE", 1e-9)  # aggregates are not gathered again
    monkeypatch.setattr(summaries, "BEAT", inf)
    publisher = with_owners(frontier, table)
    settle(publisher, table)
    before = len(table.records)
    frontier.schedule("https://h0.test/another")
    publisher.turn()
    wait_for_commits(frontier, 41)
    settle(publisher, table)
    new = table.records[before:]
    assert len({one.standing.partition for one in new}) == 1 and len(new) == 2
    assert new[-1].report.totals.queued == new[-1].standing.summary.queued
    assert new[-1].gathered_before > 0
    for one in publisher._published.values():
        one.due = 0.0
    settle(publisher, table)
    last = table.summaries()[new[-1].standing.partition]
    queued = last.report.totals.queued
    assert sum(queue.queued for queue in last.gathered.longest) == queued, "gathered once more when nothing happens"


def test_a_worker_in_which_nothing_happens_publishes_one_of_its_summaries_from_time_to_time(
    frontier: ClusterFrontier, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summaries, "SHARE", 1e-9)
    monkeypatch.setattr(summaries, "BEAT", inf)
    publisher = with_owners(frontier, table)
    settle(publisher, table)
    before = len(table.records)
    for _ in range(PARTITIONS):
        publisher._beat_at = 0.0
        publisher.turn()
    again = table.records[before:]
    assert sorted(one.standing.partition for one in again) == [*range(PARTITIONS)]
    known = {one.standing.partition: one for one in table.records[:before]}
    for one in again:
        was = known[one.standing.partition]
        assert one == replace(was, at=one.at, gathered_before=one.gathered_before, disk=one.disk)
        assert one.gathered_before > was.gathered_before


def settle(publisher: SummaryPublisher, table: Table) -> None:
    """Take turns until one publishes nothing."""

    def is_settled() -> bool:
        before = len(table.records)
        publisher.turn()
        return len(table.records) == before

    until(is_settled)


def test_a_worker_that_was_silent_is_not_asked_by_the_next_look(
    cluster: Cluster, frontier: ClusterFrontier, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose(cluster, 1)
    owners = CrawlOwners(frontier, job="test", summaries=table.summaries, patience=0.2)
    assert owners.ask("head", Report).keys() == {0}
    asked: list[str] = []
    remote = frontier.transport.remote

    def noted(address: str) -> RemoteFrontier:
        asked.append(address)
        return remote(address)

    monkeypatch.setattr(frontier.transport, "remote", noted)
    other = owners.again()
    assert not other.missing
    assert other.ask("head", Report).keys() == {0} and other.missing == {1}
    assert "unix:/nowhere" not in asked and len(asked) == 1
    assert "unix:/nowhere" in other.without_owner([1]), "with the reason"
    monkeypatch.setattr(owner_calls, "AGAIN", -1.0)
    owners.calls._lose("unix:/nowhere", "silent")
    owners.again().ask("head", Report)
    assert "unix:/nowhere" in asked, "it may be there again some seconds later"


@pytest.fixture
def hung(cluster: Cluster, table: Table, tmp_path: Path) -> Iterator[str]:
    """The address of a worker that has stopped: the system takes connections, and nobody answers."""
    address = f"unix:{tmp_path}/hung"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address.removeprefix("unix:"))
        listening.listen()
        known = cluster.directory.read()[1]
        cluster.directory.publish(Owner(1, known.epoch + 1, "hung", address, known.since, PARTITIONS))
        yield address


def test_a_worker_that_has_published_nothing_for_a_while_is_not_waited_for(
    hung: str, frontier: ClusterFrontier, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner_calls, "SIGN_OF_LIFE", PATIENCE)
    table.summaries()[1].at -= crawl_owners.QUIET + 1
    found = ClusterOperator(CrawlOwners(frontier, job="test", summaries=table.summaries))
    assert [*found.dead_letters().rows] == [] and set(found.missing) == {1}
    assert f"{hung} has not answered for {owner_calls.SOON:g} s" in found.unanswered()


def test_what_is_asked_of_owners_alone_leaves_the_state_known(
    hung: str, frontier: ClusterFrontier, table: Table
) -> None:
    found = operator(frontier, table)
    assert found.series(0.0, time.time()) and set(found.missing) == {1}
    head, rows = found.current()
    assert head.state is CrawlState.RUNNING and head.standing.unanswered == ""
    assert rows[1].age is not None
    assert "partition 1 of 2 does not answer" in found.unanswered()
    (unknown,) = found.forecasts(time.time(), 3600.0)
    assert (unknown.sure, unknown.why) == ("unknown", "no worker answers for partition 1")


def test_why_a_partition_is_closed_is_told_at_once(
    cluster: Cluster, frontier: ClusterFrontier, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner_calls, "SOON", PATIENCE)  # for the other one
    gap = CopyNotice(1, "a:7171#9", b"search", 1, None, "the log has a gap")
    cluster.directory.publish_copies(gap)

    def closed(**known: Any) -> ClusterOperator:
        return ClusterOperator(
            CrawlOwners(frontier, job="test", notices=cluster.directory.copies, patience=0.2, **known)
        )

    found = closed(summaries=table.summaries)
    assert found.current()[0].state is CrawlState.RUNNING and found.unanswered() == "", "another worker serves it"
    lose(cluster, 1)
    found = closed(summaries=table.summaries)
    head, rows = found.current()
    told = "partition 1 of 2 is closed by the worker at a:7171#9: the log has a gap"
    assert head.state is CrawlState.UNKNOWN and head.standing.unanswered.startswith(told)
    assert [row.closed for row in rows] == ["", "a:7171#9: the log has a gap"]
    found = closed()
    assert found.current()[1][1].closed and found.unanswered() == told
    cluster.directory.publish_copies(replace(gap, partition=0, why="no store"))
    both = (
        "partitions 0-1 of 2 are closed (`budgetfrontier partitions test --wide` says why), 0 by the worker at a:7171#9"
    )
    assert closed().owners.without_owner([0, 1]) == f"{both}: no store"
    cluster.directory.publish_copies(replace(gap, why=""))
    assert "closed" not in closed().owners.without_owner([1])


def test_why_a_crawl_has_no_owner_at_its_first_start_is_told() -> None:
    """Its workers run, and wait: to start others is no advice."""
    directory = MemoryDirectory()
    with ClusterFrontier("test", directory, retry_for=0.0) as frontier:
        owners = CrawlOwners(frontier, job="test", notices=directory.copies, patience=0.0)
        looks = (lambda: owners.partitions, lambda: owners.settings, lambda: ClusterOperator(owners).current())
        for look in looks:
            with pytest.raises(ConnectionLost, match=r"start `budgetfrontier worker`|look whether one runs"):
                look()
        for number in range(2):
            directory.publish_copies(CopyNotice(number, "a:7171#9", b"", 0, None, "it waits for its snapshot: away"))
        told = "no partition has an owner: partitions 0-1 are closed, 0 by the worker at a:7171#9: it waits for its sna"
        for look in looks:
            with pytest.raises(ConnectionLost, match=told):
                look()


def test_requests_for_uris_are_known_after_their_worker_has_gone(
    cluster: Cluster, frontier: ClusterFrontier, table: Table
) -> None:
    """Also of those that found nothing, which no log has."""
    owners = CrawlOwners(frontier, job="test", patience=PATIENCE)
    known = ClusterOperator(owners)
    frontier.give_back(frontier.lease(1, wait=60.0))
    frontier.next_ready_in()
    asked = known.head().standing.asked
    with_owners(frontier, table).turn()
    assert max(one.standing.asked for one in table.summaries().values()) == pytest.approx(asked, abs=0.5)
    for number, one in table.summaries().items():
        one.standing.asked = asked - 500.0 - number
    before = {one.owner for one in owners.standings().values()}
    for number in range(PARTITIONS):
        cluster.take_over(number)
    new = [crawls.get("test") for crawls in cluster.crawls[PARTITIONS:]]
    until(lambda: not before & {one.owner for one in owners.standings().values()})
    assert [one.asked for one in owners.standings().values()] == [0.0, 0.0]
    looks: list[set[str]] = []

    def carry(logs: Collection[str]) -> None:
        looks.append(set(logs))
        for crawl in new:
            crawl.carry_requests(table.summaries().values(), logs)

    publisher = with_owners(frontier, table, carry=carry)
    publisher.turn()
    publisher.turn()
    assert looks == [{""}]
    assert known.head().standing.asked == asked - 500.0
    assert [one.standing.asked for one in table.summaries().values()] == [asked - 500.0] * PARTITIONS
    new[0].carry_requests(table.summaries().values(), {"of a log that was made anew"})
    assert new[0].asked_before == 0.0
    frontier.next_ready_in()
    with_owners(frontier, table, carry=carry).turn()
    assert len(looks) == 1, "crawlers ask this one"
