"""Why a URL is not being crawled that is in another partition than its host."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from budgetfrontier import CrawlUri, Outcome, Settings
from budgetfrontier.cluster.client import ClusterFrontier
from budgetfrontier.cluster.operators.cluster_operator import ClusterOperator
from budgetfrontier.cluster.operators.crawl_owners import CrawlOwners
from budgetfrontier.cluster.partitions import partition
from budgetfrontier.cluster.partitions.routing import partition_of_queue
from budgetfrontier.reports.operators import OperatorCommand
from budgetfrontier.tools.cli import clusters, main
from tests.cluster.workers import running
from tests.support import PATIENCE, until

PARTITIONS = 4
URL = "kafka://nowhere/test"
HOST = "a.test"
HOME = partition_of_queue(HOST, PARTITIONS)
APART, ALSO = (
    next(key for key in map("queue-{}".format, range(99)) if partition_of_queue(key, PARTITIONS) == number)
    for number in [number for number in range(PARTITIONS) if number != HOME][:2]
)

Steered: TypeAlias = tuple[ClusterFrontier, ClusterOperator]


def test_a_url_with_a_queue_of_its_own_is_explained_by_the_partition_that_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(partition, "COMMIT_EVERY", 0.02)
    settings = Settings.from_dict({"crawl": "test", "frontier": {"politeness": {"min_delay": 0.0}}})
    with running(tmp_path, settings, [range(PARTITIONS)], PARTITIONS) as cluster:
        until(lambda: len(cluster.directory.read()) == PARTITIONS)

        @contextmanager
        def connected(job: str, **options: Any) -> Iterator[CrawlOwners]:
            with ClusterFrontier("test", cluster.directory) as frontier:
                yield CrawlOwners(frontier, job=URL, patience=PATIENCE)

        def explained(page: str) -> str:
            main(["explain", f"https://{HOST}/{page}", "--cluster", URL])
            return capsys.readouterr().out

        monkeypatch.setattr(clusters, "connected", connected)
        with ClusterFrontier("test", cluster.directory) as frontier:
            frontier.schedule(CrawlUri(f"https://{HOST}/dead", queue=ALSO))
            [lease] = frontier.lease(1, wait=60.0)
            frontier.finish(lease, Outcome.DEAD, reason="poison")
            frontier.schedule_many(CrawlUri(f"https://{HOST}/{page}", queue=APART) for page in range(2))
        until(lambda: "never scheduled" not in explained("1"))
        where = (
            f"It is in partition {{}}, and not in partition {HOME}, where its host is: it was scheduled with a `queue`"
        )
        told = explained("1")
        assert where.format(partition_of_queue(APART, PARTITIONS)) in told
        assert f"It is queued in {APART}. URIs before it: 1; " in told and "import" not in told
        number = partition_of_queue(ALSO, PARTITIONS)
        until(lambda: "dead letter" in explained("dead"))
        assert where.format(number) in explained("dead")
        assert f"$ budgetfrontier dead-letters {URL} --replay {number}/" in explained("dead")
        assert "It was never scheduled: " in explained("none")


@pytest.fixture
def steered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Steered]:
    """A client and an operator of a crawl whose one worker has all partitions, and commits often."""
    monkeypatch.setattr(partition, "COMMIT_EVERY", 0.02)
    with running(tmp_path, Settings.from_dict({"crawl": "test"}), [range(PARTITIONS)], PARTITIONS) as cluster:
        until(lambda: len(cluster.directory.read()) == PARTITIONS)
        with ClusterFrontier("test", cluster.directory) as frontier:
            yield frontier, ClusterOperator(CrawlOwners(frontier, job=URL, patience=PATIENCE))


def test_a_worker_tells_when_crawlers_asked_it_last(steered: Steered) -> None:
    frontier, operator = steered

    def asked() -> float:
        return operator.head().standing.asked

    frontier.schedule(f"https://{HOST}/")
    until(lambda: operator.head().totals.queued == 1)
    until(lambda: asked() == max(asked() for _ in range(3)))
    began = asked()
    frontier.next_ready_in()
    assert asked() > began
    [lease] = frontier.lease(1, wait=60.0)
    frontier.give_back([lease])
    before = asked()
    operator.apply(OperatorCommand("snooze", {"match": "*", "until": time.time() + 3600}, "me", ""))
    until(lambda: operator.head().totals.queues.get("SNOOZED") == 1)
    assert asked() == pytest.approx(before, abs=0.5)  # which is told as an age: clocks are read twice
    assert frontier.lease(1) == []
    assert asked() > before


def test_whether_crawlers_ask_is_said_of_the_whole_crawl(steered: Steered, monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition whose leases were given back knows no end after its claim, while others were used since."""
    frontier, operator = steered
    frontier.schedule(f"https://{HOST}/")
    until(lambda: operator.head().totals.queued == 1)
    found = operator.head()
    found.standing.asked = found.standing.now - 163.0
    monkeypatch.setattr(operator, "head", lambda: found)
    explained = operator.explain(HOST)
    assert found.verdict.text == "1 queue is inactive, but no crawler has asked 1 worker for a URI for 2m43s."
    assert (explained.reasons[-1].code, explained.reasons[-1].text) == ("not-asked", found.verdict.text)


def test_the_leases_that_are_out_in_a_pause_are_those_of_the_whole_crawl(
    steered: Steered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were those of the partition of the queue, of which there may be none."""
    frontier, operator = steered
    frontier.schedule_many(CrawlUri(f"https://{HOST}/{key}", queue=key) for key in (APART, ALSO))
    until(lambda: operator.head().totals.queued == 2)
    until(lambda: frontier.lease(2) and operator.head().totals.in_process == 2)
    frontier.schedule(f"https://{HOST}/")
    operator.apply(OperatorCommand("pause", {}, "me", "tea"))
    until(lambda: operator.head().totals.in_process == 2 and operator.head().totals.queued == 3)
    found = operator.head()
    found.standing.first_lease, found.standing.first_url = found.standing.now - 3e3, "https://oldest.test/"
    monkeypatch.setattr(operator, "head", lambda: found)
    told = [operator.explain(key).reasons[-1].text for key in (HOST, APART, ALSO)]
    out = "; 2 leases are still out, the oldest for 50m"
    assert [f"{out}: https://oldest.test/. Nothing is handed out." in text for text in told] == [True] * 3, told


def test_the_crawl_is_finished_if_all_of_its_partitions_are(steered: Steered) -> None:
    frontier, operator = steered

    def is_finished() -> bool:
        return "finished" in {one.code for one in operator.explain(HOST).reasons}

    frontier.schedule(f"https://{HOST}/")
    [lease] = frontier.lease(1, wait=60.0)
    frontier.finish(lease)
    until(is_finished)
    frontier.schedule(CrawlUri(f"https://{HOST}/apart", queue=APART))
    until(lambda: operator.head().totals.queued == 1)
    assert not is_finished()
