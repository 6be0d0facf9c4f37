"""Whatever is told of a crawl in partitions says which of them did not answer, and nothing is told of no answer."""

from __future__ import annotations

import asyncio
import html
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from budgetfrontier import Frontier, Outcome, Settings
from budgetfrontier.cluster.calls import cluster_transport
from budgetfrontier.cluster.client import ClusterFrontier
from budgetfrontier.cluster.directory.owners import Owner
from budgetfrontier.cluster.directory.summaries import PartitionSummary, SummaryPublisher
from budgetfrontier.cluster.operators import owner_calls, steering_plan
from budgetfrontier.cluster.operators.cluster_operator import ClusterOperator
from budgetfrontier.cluster.operators.crawl_owners import GONE, CrawlOwners
from budgetfrontier.cluster.partitions import partition
from budgetfrontier.cluster.partitions.routing import partition_of_queue
from budgetfrontier.core import protocol
from budgetfrontier.core.endpoints.tokens import TokenFile
from budgetfrontier.reports.operators import Selection
from budgetfrontier.tools.cli import clusters, main
from budgetfrontier.tools.console import partitioned_job
from budgetfrontier.tools.console.access import Access
from budgetfrontier.tools.console.api import PREFIX
from budgetfrontier.tools.console.api.resource_table import RESOURCES
from budgetfrontier.tools.console.app import Console
from budgetfrontier.tools.console.missing_partitions import OF_OTHERS
from budgetfrontier.tools.console.pages.partitioned import PAGES
from budgetfrontier.tools.console.partitioned_job import PartitionedJob
from tests.cluster.memory_directory import MemoryDirectory
from tests.cluster.workers import Cluster, running
from tests.support import PATIENCE, token_file, until

pytestmark = pytest.mark.waits

PARTITIONS = 2
URL = "kafka://nowhere/test"
TOKEN = "a token of sixteen"
SETTINGS = {"crawl": "test", "frontier": {"politeness": {"min_delay": 0, "delay_factor": 0}}}
HOSTS = [f"h{number}.test" for number in range(8)]
ONE = next(host for host in HOSTS if partition_of_queue(host, PARTITIONS) == 0)
OTHER = next(host for host in HOSTS if partition_of_queue(host, PARTITIONS) == 1)
OF_ONE = {"/queue": f"key={ONE}", "/uris": f"queue={ONE}", "/explain": f"target={ONE}"}
"""The resources on one queue, which its owner alone knows."""
QUERIES = {"/compare-runs": "run=1&run2=1", "/report": "kind=hosts", **OF_ONE}
OF_SUMMARIES = {"/jobs", ""}
"""Those whose figures owners publish."""
WITHOUT_OWNERS = {"/report", "/alerts", "/groups"}
"""Those that owners are not asked for: the first asks a command for its rows, which names the partitions itself."""
Answers = dict[str, tuple[int, str]]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A crawl of eight hosts, half of which have answered with an error, with a lease out in each partition."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partition, "COMMIT_EVERY", 0.02)
        folder = tmp_path_factory.mktemp("cluster")
        with (
            running(folder, Settings.from_dict(SETTINGS), [(0,), (1,)], PARTITIONS) as cluster,
            ClusterFrontier("test", cluster.directory) as frontier,
        ):
            until(lambda: len(cluster.directory.read()) == PARTITIONS)
            frontier.schedule_many(f"https://{host}/{page}" for host in HOSTS for page in range(3))
            ended = 0
            while ended < len(HOSTS):
                for lease in frontier.lease(1):
                    ill = HOSTS.index(lease.queue) % 2
                    outcome = Outcome.DEAD if ill else Outcome.SUCCESS
                    frontier.finish(lease, outcome, status=404 if ill else 200, reason="x" * ill)
                    ended += 1
            owners = CrawlOwners(frontier, job=URL, patience=PATIENCE)
            until(lambda: sum(ClusterOperator(owners).statuses(Selection()).classes) == ended)
            publisher = SummaryPublisher(
                cluster.directory,
                lambda: [*owners.standings().values()],
                lambda number, name, named: protocol.encode(owners.ask_one(number, name, Any, **named)),
                folder,
                lambda logs: None,
            )
            publisher.close()  # its thread: this turn is taken here
            publisher.turn()
            yield cluster


def lacking(cluster: Cluster, *lost: int) -> MemoryDirectory:
    """Return a directory in which the owners of some partitions are gone, and all have published summaries."""
    seen = MemoryDirectory()
    seen.publish(*cluster.directory.read().values())
    seen.publish(*(Owner(number, 1 << 40, f"lost#{number}", "unix:/nowhere", 0.0, PARTITIONS) for number in lost))
    seen.publish_summaries([*cluster.directory.summaries().values()])
    return seen


def asked(directory: MemoryDirectory, paths: list[str], body: Any = None, token: TokenFile | None = None) -> Answers:
    """Return the answers of a console to all paths, or to commands with a body and a token."""
    headers = {"Authorization": f"Bearer {TOKEN}"} if token else {}

    async def all_of_them(job: PartitionedJob) -> Answers:
        found: Answers = {}
        app = Console([job], Access(token), pages=PAGES).application()
        async with TestClient(TestServer(app)) as client:
            for path in paths:
                method = "GET" if body is None else "POST"
                async with client.request(method, path, json=body, headers=headers) as answer:
                    found[path] = answer.status, await answer.text()
        return found

    with ClusterFrontier("test", directory) as frontier:
        owners = CrawlOwners(frontier, job=URL, summaries=directory.summaries)
        return asyncio.run(all_of_them(PartitionedJob(URL, owners, words=["--cluster", URL])))


def resources() -> dict[str, str]:
    """Return by path below the job that of each resource that shows something, as the OpenAPI document lists them."""
    found = {}
    for one in RESOURCES:
        name = one.path.removeprefix("/jobs/{job}")
        if one.method == "GET" and one.of_partitions and "{" not in name:
            place = PREFIX + one.path.format(job="test")
            found[name] = f"{place}?{QUERIES[name]}" if name in QUERIES else place
    return found


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner_calls, "PATIENCE", 0.0)
    monkeypatch.setattr(owner_calls, "SOON", PATIENCE)  # those that are lost refuse at once
    monkeypatch.setattr(partitioned_job, "FRESH", 0.0)


def test_each_answer_of_the_api_can_have_a_note() -> None:
    shown = [one for one in RESOURCES if one.method == "GET"]
    assert [
        one.path for one in shown if "note" not in getattr(one.result, "__origin__", one.result).__struct_fields__
    ] == []


def test_each_answer_of_the_api_names_the_partitions_that_are_missing_from_it(cluster: Cluster) -> None:
    found = asked(lacking(cluster, 1), [*resources().values()])
    for name, path in resources().items():
        status, text = found[path]
        if name in OF_ONE or name in WITHOUT_OWNERS or name == "/settings":
            continue
        if name in OF_SUMMARIES:
            assert "The figures of partition 1 are those that its owner published " in json.loads(text)["note"], name
            continue
        told = json.loads(text)["detail" if name == "/compare-runs" else "note"]
        assert "artition 1 of 2 does not answer (last with lost#1)" in told, (name, status, text)
        assert status == (503 if name == "/compare-runs" else 200), (name, text)


def test_no_answer_of_the_api_is_made_of_nothing(cluster: Cluster) -> None:
    """Without any owner, there are figures that were published, and what is not known is no empty list."""
    of_summaries = OF_SUMMARIES | {"/curves", "/forecast"}
    found = asked(lacking(cluster, 0, 1), [*resources().values()])
    for name, path in resources().items():
        status, text = found[path]
        if name in WITHOUT_OWNERS:
            continue
        told = json.loads(text)["note" if name in of_summaries else "detail"]
        assert status == (200 if name in of_summaries else 503), (name, text)
        words = "not answer", "no worker", "The figures of partitions 0-1 are those that their owners published "
        assert any(each in told for each in words) and OF_OTHERS not in told, (name, text)
    rows = json.loads(found[resources()["/curves"]][1])["figures"]
    assert all(point is None for row in rows for point in row["points"])


def test_dry_runs_name_the_partitions_that_are_missing_from_them(cluster: Cluster, tmp_path: Path) -> None:
    token = TokenFile(token_file(tmp_path, TOKEN))
    bodies: dict[str, dict[str, Any]] = {
        "pause": {}, "retire": {"match": "*"}, "delete": {"queue": "*"}, "drop": {"ids": None},
        "adjust": {"match": "*", "set": {"queue_total_budget": 5}},
    }  # fmt: skip
    for name, body in bodies.items():
        path = f"{PREFIX}/jobs/test/{name}"
        command = {"reason": "x", "dry_run": True} | body
        status, text = asked(lacking(cluster, 1), [path], command, token)[path]
        assert status == 200 and json.loads(text)["note"].startswith("Without partition 1, which does not answer: "), (
            text
        )
        status, text = asked(lacking(cluster, 0, 1), [path], command, token)[path]
        assert status == 409 and "partitions 0-1 of 2 do not answer" in json.loads(text)["detail"], text


def test_each_page_names_the_partitions_that_are_missing_from_it(cluster: Cluster) -> None:
    paths = [page.path or "/" for page in PAGES if "{" not in page.path]
    found = {path: (status, html.unescape(text)) for path, (status, text) in asked(lacking(cluster, 1), paths).items()}
    for path in paths:
        status, text = found[path]
        if path in ("/queue", "/compare", "/settings", "/simulate", "/alerts"):
            continue
        assert status == 200, (path, text)
        assert text.count("artition 1 of 2 does not answer (last with lost#1)") == 1, (path, text[-3000:])
        assert text.count(OF_OTHERS) == 1, path


def test_a_page_without_any_answer_says_so_and_the_overview_has_what_was_published(cluster: Cluster) -> None:
    paths = [page.path or "/" for page in PAGES if "{" not in page.path]
    found = {
        path: (status, html.unescape(text)) for path, (status, text) in asked(lacking(cluster, 0, 1), paths).items()
    }
    for path in paths:
        status, text = found[path]
        if path in ("/queue", "/compare", "/simulate", "/alerts"):
            continue
        assert status == (200 if path == "/" else 503), (path, text[-3000:])
        assert "not answer" in text or "no worker" in text, (path, text[-3000:])
        assert OF_OTHERS not in text, path
    assert "artitions 0-1 of 2 do not answer (last with lost#0, lost#1)" in found["/"][1]
    assert "partitions that do not answer have it." in found["/"][1]
    assert "kept from the first minute" not in found["/"][1]


def test_metrics_are_those_of_all_partitions_or_none(cluster: Cluster) -> None:
    directory, old = lacking(cluster, 1), lacking(cluster, 1)
    for one in old.summaries().values():
        one.at -= GONE + 60
    for seen, missing in ((lacking(cluster), 0), (directory, 1), (old, 1)):
        _, text = asked(seen, ["/metrics"])["/metrics"]
        for sample in (
            'readable{folder="test"} 1.0', 'urls_succeeded_total{crawl="test",folder="test"} 4.0',
            'answers_4xx_total{crawl="test",folder="test"} 4.0', 'dead_letters{crawl="test",folder="test"} 4.0',
            'urls_queued{crawl="test",folder="test"} 16.0', 'process_alive{crawl="test",folder="test"} 1.0',
        ):  # fmt: skip
            assert f"\nbudgetfrontier_{sample}\n" in text, (sample, text)
        assert f'budgetfrontier_partitions_missing{{crawl="test",folder="test"}} {missing}.0' in text
        assert ('slug="missing_partitions"' in text) is (seen is old)
        assert "budgetfrontier_store_used_bytes{" not in text
    directory.forget_summaries()
    _, text = asked(directory, ["/metrics"])["/metrics"]
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    assert samples == ['budgetfrontier_readable{folder="test"} 0.0']


def test_no_counter_falls_when_a_partition_does_not_answer(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_transport, "JUST_NOW", 0.0)  # the directory is read again
    directory = lacking(cluster)
    with ClusterFrontier("test", directory) as frontier:
        owners = CrawlOwners(frontier, job=URL, summaries=directory.summaries)
        job = PartitionedJob(URL, owners)
        seen = job.metrics_reading()
        for one in directory.summaries().values():
            earlier: PartitionSummary = protocol.decoder(PartitionSummary)(protocol.encode(one))
            earlier.report.totals.succeeded -= 1
            earlier.report.totals.queued += 5
            directory.publish_summaries([earlier])
        directory.publish(*lacking(cluster, 1).read().values())
        now = job.metrics_reading()
        assert (seen.partitions_missing, now.partitions_missing) == (0, 1)
        assert now.standing.totals.succeeded == seen.standing.totals.succeeded == 4
        assert now.standing.totals.queued == seen.standing.totals.queued + 5


def test_forecasts_name_the_partitions_that_are_missing_now(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_transport, "JUST_NOW", 0.0)
    directory = lacking(cluster, 1)
    for one in directory.summaries().values():
        one.at -= GONE + 60
    with ClusterFrontier("test", directory) as frontier:
        job = PartitionedJob(URL, CrawlOwners(frontier, job=URL, summaries=directory.summaries))
        job.current()
        assert [one.why for one in job.whole().forecasts] == ["no worker answers for partition 1"]
        directory.publish(*lacking(cluster, 0, 1).read().values())
        job.current()
        assert [one.why for one in job.whole().forecasts] == ["no worker answers for partitions 0-1"]


def connect(directory: MemoryDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands find the owners in a directory."""

    @contextmanager
    def connected(job: str, **options: Any) -> Iterator[CrawlOwners]:
        with ClusterFrontier("test", directory) as frontier:
            yield CrawlOwners(frontier, job=URL, summaries=directory.summaries)

    monkeypatch.setattr(clusters, "connected", connected)


def test_runs_have_the_numbers_by_which_they_are_compared(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    connect(lacking(cluster), monkeypatch)
    assert main(["runs", "--cluster", URL, "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["number"], row["end"]) == (1, None)
    assert main(["compare", "--cluster", URL, "--runs", "1", "1"]) == 0
    assert main(["runs", "--cluster", URL]) == 0
    whole = capsys.readouterr().err
    assert "process: 2 workers, " in whole and "partitions that answer" not in whole
    connect(lacking(cluster, 1), monkeypatch)
    assert main(["runs", "--cluster", URL]) == 1
    told = capsys.readouterr().err
    assert "partition 1 of 2 does not answer" in told
    assert "these runs are those of the partitions that answer: with the others, there may be fewer" in told
    assert "process: 1 worker, " in told and "published" not in told, "no figure is of the other"


def test_a_crawl_that_is_compared_with_partitions_that_do_not_answer_says_so(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Frontier.open(tmp_path / "job" / "frontier") as frontier:
        frontier.schedule("https://a.test/")
    for lost, code in (((), 0), ((1,), 1)):
        connect(lacking(cluster, *lost), monkeypatch)
        assert main(["compare", str(tmp_path / "job"), URL, "--format", "json"]) == code
        out, err = capsys.readouterr()
        assert json.loads(out)["missing_partitions_2"] == [*lost], "the columns of the second end so, too"
        assert ("partition 1 of 2 does not answer" in err) is bool(lost)


def test_a_command_without_any_answer_prints_nothing_that_is_made_of_none(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    connect(lacking(cluster, 0, 1), monkeypatch)
    for command in (
        ["statuses"], ["audit"], ["leases"], ["dead-letters"], ["traps"], ["removed"], ["queues"], ["runs"],
        ["adjust", "--list"], ["compare", "--runs", "1", "1"], ["report", "--kind", "rates"],
        ["report", "--kind", "busiest"], ["report", "--kind", "hosts"], ["report", "--kind", "seeds"],
        ["queues", "--sort", "queued", "--limit", "3"], ["report", "--kind", "quotas"], ["report", "--kind", "labels"],
    ):  # fmt: skip
        capsys.readouterr()
        code = main([*command, "--cluster", URL])
        out, err = capsys.readouterr()
        assert (code, out) == (1, ""), command
        assert "partitions 0-1 of 2 do not answer" in err or "no worker of this crawl answers" in err, (command, err)


def test_an_adjustment_promises_nothing_for_partitions_that_have_not_told_what_it_would_do(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    change = {"match": "*", "set": {"queue_total_budget": 5}}
    for lost in ((), (1,)):
        with ClusterFrontier("test", lacking(cluster, *lost)) as frontier:
            plan = steering_plan.plan(CrawlOwners(frontier, job=URL), "adjust", change)
        assert ("promised" in plan.args) is (not lost)
    connect(lacking(cluster, 1), monkeypatch)
    assert main(["adjust", "--cluster", URL, "--match", f"queue:{OTHER}", "--total-budget", "5", "--dry-run"]) == 1
    out = capsys.readouterr().out
    assert "matches 0 queues of the partitions that answer\n" in out and "yet" not in out
