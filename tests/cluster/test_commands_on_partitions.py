"""Commands on a crawl in partitions: what its owners tell is told of one crawl, and a command counts once in each."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Never

import pytest
from aiohttp.test_utils import TestClient, TestServer
from msgspec.structs import replace

from budgetfrontier import CrawlUri, Outcome, Settings
from budgetfrontier.cluster.calls import cluster_transport, partition_router
from budgetfrontier.cluster.client import ClusterFrontier
from budgetfrontier.cluster.directory.owners import Owner
from budgetfrontier.cluster.operators import cluster_operator, crawl_owners, owner_calls, steering_plan
from budgetfrontier.cluster.operators.cluster_operator import ClusterOperator
from budgetfrontier.cluster.operators.crawl_owners import CrawlOwners
from budgetfrontier.cluster.partitions import partition
from budgetfrontier.cluster.partitions.routing import partition_of_queue
from budgetfrontier.engine.commands import adjustment
from budgetfrontier.errors import FrontierError
from budgetfrontier.reports.audit_sentences import sentence
from budgetfrontier.reports.operators import AuditRow, OperatorCommand
from budgetfrontier.tools.cli import clusters, main, submission
from budgetfrontier.tools.console import partitioned_job
from budgetfrontier.tools.console.access import Access
from budgetfrontier.tools.console.app import Console
from budgetfrontier.tools.console.pages.partitioned import PAGES
from budgetfrontier.tools.console.partitioned_job import PartitionedJob
from tests.cluster.memory_directory import MemoryDirectory
from tests.cluster.workers import Cluster, running
from tests.support import PATIENCE, until

PARTITIONS = 4
URL = "kafka://nowhere/test"
HOSTS = [f"h{number}.test" for number in range(12)]
SETTINGS = {
    "crawl": "test",
    "frontier": {
        "queue_total_budget": 1,
        "balance_replenish_amount": 9,
        "politeness": {"min_delay": 0.0, "delay_factor": 0.0},
    },
}
Answer = tuple[int, str, str]
Cli = Callable[..., Answer]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Twelve hosts, each of which has spent its total budget of 1, and has one URI more left than its number says."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partition, "COMMIT_EVERY", 0.02)
        folder = tmp_path_factory.mktemp("cluster")
        with running(folder, Settings.from_dict(SETTINGS), [(0, 1, 2), (3,)], PARTITIONS) as cluster:
            with ClusterFrontier("test", cluster.directory) as frontier:
                until(lambda: len(cluster.directory.read()) == PARTITIONS)
                for number, host in enumerate(HOSTS):
                    frontier.schedule_many(f"https://{host}/{page}" for page in range(number + 3))
                while leases := frontier.lease(100, wait=0.2):
                    for lease in leases:
                        frontier.finish(lease, Outcome.SUCCESS)
            yield cluster


@pytest.fixture
def directory(cluster: Cluster) -> MemoryDirectory:
    """The owners, of which a test may change what it sees of them."""
    seen = MemoryDirectory()
    seen.publish(*cluster.directory.read().values())
    return seen


@pytest.fixture
def cli(
    directory: MemoryDirectory, cluster: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Cli:
    """Run a command on the crawl."""

    @contextmanager
    def connected(job: str, **options: Any) -> Iterator[CrawlOwners]:
        with ClusterFrontier("test", directory) as frontier:
            yield CrawlOwners(
                frontier,
                job=URL,
                ends=lambda count: {number: len(cluster.logs.entries[number]) for number in range(count)},
            )

    monkeypatch.setattr(clusters, "connected", connected)
    monkeypatch.setattr(crawl_owners, "WAIT", PATIENCE)

    def run(command: str, *arguments: str) -> Answer:
        capsys.readouterr()
        code = main([command, *arguments, "--cluster", URL])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def operator(directory: MemoryDirectory) -> Iterator[CrawlOwners]:
    with ClusterFrontier("test", directory) as frontier:
        yield CrawlOwners(frontier, job=URL, patience=PATIENCE)


@pytest.fixture
def at_rest(cluster: Cluster) -> Iterator[None]:
    """Leave the crawl as it was: what is over budget retires on its turn."""
    yield
    with ClusterFrontier("test", cluster.directory) as frontier:

        def is_over() -> bool:
            assert frontier.lease(1) == []
            return frontier.state == "FINISHED"

        until(is_over)


def lose(directory: MemoryDirectory, number: int) -> None:
    """Let the owner of a partition be one that does not answer."""
    directory.publish(Owner(number, 1 << 40, "lost#1", "unix:/nowhere", 0.0, PARTITIONS))


def test_the_report_is_that_of_one_crawl(cli: Cli) -> None:
    code, text, err = cli("report", "--limit", "3")
    assert (code, err) == (0, "")
    assert " Successfully: 24\n" in text
    assert "            Retired queues: 12\n" in text
    assert " Stranded: 78 URIs in 12 retired queues\n  12 h11.test\n  11 h10.test\n" in text
    assert "only retired queues are left (12, with 78 URIs)" in text
    assert text.count("Process: 2 workers") == 1
    _, whole, _ = cli("report", "--all")
    assert whole.count("totalSpend/totalBudget share") == 1
    assert sum(line.startswith("h7.test ") for line in whole.splitlines()) == 2  # among the longest, and the RETIRED
    code, found, _ = cli("report", "--format", "json")
    report = json.loads(found)
    assert (report["totals"]["succeeded"], report["missing_partitions"]) == (24, [])
    assert sorted(row["queue"] for row in report["queues"]) == sorted(HOSTS)
    assert cli("report", "--format", "html")[1].count("<h1>") == 1
    assert len(list(csv.reader(io.StringIO(cli("report", "--format", "csv")[1])))) == 13


def test_queues_are_sorted_and_chosen_over_all_partitions(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = json.loads(cli("queues", "--format", "json")[1])
    assert [row["queued"] for row in whole] == [*range(12, 0, -1)]
    assert json.loads(cli("queues", "--format", "json", "--limit", "4", "--offset", "2")[1]) == whole[2:6]
    monkeypatch.setattr(cluster_operator, "MOST_ROWS", 2)  # so that owners are asked for more than one page
    assert json.loads(cli("queues", "--format", "json", "--limit", "9")[1]) == whole[:9]
    (row,) = json.loads(cli("queues", "--match", "h9*", "--over-budget", "--format", "json")[1])
    assert (row["queue"], row["raise_to"], row["floor"]) == ("h9.test", 3, 2)
    assert cli("queues", "--state", "READY")[2] == "no queue matches the state READY\n"


def test_one_queue_and_one_url_are_told_by_their_owner(cli: Cli) -> None:
    assert "https://h5.test/2" in cli("queue", "h5.test")[1]
    code, out, err = cli("queue", "H5.test.", "--format", "json")
    assert (json.loads(out)["queue"], err) == ("h5.test", "H5.test. is in queue h5.test\n")
    assert "did you mean h5.test?" in cli("queue", "h5tst")[2]
    for target in ("h5.test", "H5.TEST", "https://h5.test/4"):
        code, out, _ = cli("explain", target)
        assert code == 0
        assert f"$ budgetfrontier adjust {URL} --match queue:h5.test --total-budget 3" in out
    assert "Its partition is FINISHED" in out


def test_partitions_without_an_answer_are_named(cli: Cli, directory: MemoryDirectory, monkeypatch: Any) -> None:
    rows = json.loads(cli("partitions", "--format", "json")[1])
    assert [(row["partition"], row["lag"], row["state"]) for row in rows] == [
        (number, 0, "FINISHED") for number in range(PARTITIONS)
    ]
    assert sum(row["succeeded"] for row in rows) == 24
    monkeypatch.setattr(owner_calls, "PATIENCE", 0.0)
    lose(directory, 3)
    why = (
        "unix:/nowhere has not answered for 1 s (connect failed: addr: unix:/nowhere error: No such file or directory)"
    )
    told = f"partition 3 of 4 does not answer (last with lost#1): {why}; look whether enough workers run\n"
    code, out, err = cli("report", "--format", "json")
    assert (code, err, json.loads(out)["missing_partitions"]) == (1, told, [3])
    assert (json.loads(out)["state"], json.loads(out)["verdict"]["slug"]) == ("UNKNOWN", "missing_partitions")
    out = cli("report")[1]
    assert " Crawl state: UNKNOWN\n" in out
    assert f" Verdict: The state of the crawl is not known: {told.rstrip()}.\n" in out
    assert "finished" not in out
    assert cli("report", "--format", "html")[1].count("does not answer") == 1
    code, out, err = cli("partitions", "--format", "json")
    assert (code, err, [row["state"] is None for row in json.loads(out)]) == (1, told, [False] * 3 + [True])
    other = next(row for row in HOSTS if partition_of_queue(row, PARTITIONS) != 3)
    code, out, err = cli("explain", f"https://{other}/none")
    assert (code, err, "It was never scheduled where partitions answer: " in out) == (1, told, True)
    code, _, err = cli("queue", next(row for row in HOSTS if partition_of_queue(row, PARTITIONS) == 3))
    assert (code, err) == (1, f"budgetfrontier: {told}")
    for listing in (["leases"], ["dead-letters", "--match", "*nosuch"], ["queues", "--match", "*nosuch"]):
        code, _, err = cli(*listing)
        assert (code, err) == (1, told), "whether there are any is not known"


@pytest.mark.parametrize("command", [
    ("pause",), ("adjust", "--total-budget", "5"), ("adjust", "--total-budget", "5", "--format", "json"),
    ("delete", "--queue", "h*"),
])  # fmt: skip
def test_a_command_that_waits_for_all_partitions_has_no_effect_to_tell(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setattr(CrawlOwners, "give", lambda *_, **__: b"command1")
    monkeypatch.setattr(CrawlOwners, "applied", lambda *_, **__: {})
    code, out, err = cli(*command, "--reason", "why")
    assert (code, "do not give it again" in err) == (1, True)
    assert json.loads(out)["missing_partitions"] == [] if "json" in command else out == ""


@pytest.mark.usefixtures("at_rest")
def test_an_adjustment_counts_once_in_each_partition_and_can_be_withdrawn(cli: Cli, operator: CrawlOwners) -> None:
    asked = ("adjust", "--total-budget", "6", "--reason", "worth it")
    _, out, err = cli(*asked, "--dry-run")
    assert "matches 12 queues\nwould revive 12 queues: " in out
    assert err == "dry run: nothing was changed\n"
    code, out, err = cli(*asked)
    assert (code, err) == (0, "")
    assert out == "*: queue_total_budget 1 -> 6\nmatches 12 queues\n12 retired queues are reconsidered\n"
    name = operator.give(OperatorCommand("adjust", {"match": "*", "set": {"queue_total_budget": 7}}, "me"))
    order = ["adjust", {"match": "*", "set": {"queue_total_budget": 7}}, "me", "", ""]
    operator.frontier.transport.remote(operator.frontier.owners()[3].address).plain("give_command", name, order)
    assert len(operator.applied(name)) == PARTITIONS
    marker = operator.give(OperatorCommand("pause", {}, "me"))
    assert len(operator.applied(marker)) == PARTITIONS
    operator.applied(operator.give(OperatorCommand("resume", {}, "me")))
    for rows in operator.ask("audit", list[AuditRow], count=99).values():
        assert [one.entry.args["set"] for one in rows if one.id == name.hex()] == [{"queue_total_budget": 7}]
    (row,) = json.loads(cli("audit", "--who", "me", "--operation", "adjust", "--format", "json")[1])
    assert (row["id"], row["partitions"], row["effect"]["matched"]) == (name.hex(), "0-3", 12)
    (row,) = json.loads(cli("adjust", "--list", "--format", "json")[1])
    assert f"  from adjustment {name.hex()} (*) by me, " in cli("explain", "h1.test")[1]
    assert (row["id"], row["set"]) == (name.hex(), {"queue_total_budget": 7})
    planned = steering_plan.plan(operator, "withdraw", {"id": name.hex()})  # of another operator, at the same time
    code, out, _ = cli("adjust", "--remove", name.hex())
    assert (code, out.splitlines()[0]) == (0, "*: queue_total_budget 7 -> 1")
    late = operator.give(OperatorCommand("withdraw", planned.args, "me"), planned.more, to=planned.to)
    assert {entry.error for entry in operator.applied(late).values()} == {
        f"adjustment {name.hex()} is not in force; `adjust --list` lists those that are"
    }
    assert json.loads(cli("adjust", "--list", "--format", "json")[1]) == []
    assert "is not in force" in cli("adjust", "--remove", name.hex())[2]
    assert json.loads(cli("queues", "--format", "json", "--limit", "1")[1])[0]["total_budget"] == 1


@pytest.mark.usefixtures("at_rest")
def test_adjustments_of_a_file_are_looked_at_and_waited_for_together(
    cli: Cli, operator: CrawlOwners, tmp_path: Path
) -> None:
    steps: list[str] = []
    file = tmp_path / "many.adjust.yaml"
    file.write_text("".join(f"- {{match: 'queue:{host}', set: {{queue_total_budget: 2}}}}\n" for host in HOSTS[:3]))
    with pytest.MonkeyPatch.context() as patch:
        for name in ("ask", "give", "applied"):
            plain = getattr(CrawlOwners, name)

            def noted(self: CrawlOwners, *given: Any, name: str = name, plain: Any = plain, **named: Any) -> Any:
                steps.append(str(given[0]) if name == "ask" else name)
                return plain(self, *given, **named)

            patch.setattr(CrawlOwners, name, noted)
        code, out, _ = cli("adjust", "--file", str(file), "--format", "json")
    done = json.loads(out)["adjustments"]
    assert code == 0 and [one["match"] for one in done] == [f"queue:{host}" for host in HOSTS[:3]]
    assert [one["matched"] for one in done] == [1, 1, 1]
    assert [one["promised"]["revived_count"] for one in done] == [1, 1, 1]
    assert steps.count("figures") == 1 and steps[steps.index("give") :].index("applied") == 3, steps
    bad = [{"match": f"queue:{HOSTS[0]}", "set": {"queue_total_budget": 3}}, {"match": "nonsense:x", "set": {}}]
    commands = [OperatorCommand("adjust", args, "you") for args in bad]
    found = ClusterOperator(operator).apply_all(commands)
    assert [bool(one.entry) for one in found] == [True, False] and "nonsense" in found[1].refused
    names = [*(one["id"] for one in done), str(found[0].entry.id if found[0].entry else "")]
    assert [cli("undo", name)[0] for name in reversed(names)] == [0, 0, 0, 0]
    assert json.loads(cli("adjust", "--list", "--format", "json")[1]) == []


@pytest.mark.usefixtures("at_rest")
def test_an_adjustment_that_matches_no_queue_says_so(cli: Cli) -> None:
    code, _, err = cli("adjust", "--match", "queue:nosuch.test", "--total-budget", "3")
    assert (code, err) == (
        0,
        "queue:nosuch.test matches no queue yet; it will count for queues that come later; check its spelling\n",
    )
    (row,) = json.loads(cli("adjust", "--list", "--format", "json")[1])
    assert cli("adjust", "--remove", row["id"])[::2] == (0, "")


@pytest.mark.usefixtures("at_rest")
def test_an_adjustment_as_json_has_the_id_by_which_it_is_withdrawn(cli: Cli) -> None:
    made = json.loads(cli("adjust", "--total-budget", "3", "--format", "json")[1])
    assert (made["matched"], made["missing_partitions"]) == (12, [])
    assert cli("adjust", "--remove", made["id"])[::2] == (0, "")


def test_a_command_that_no_partition_could_apply_is_in_no_log(cluster: Cluster, operator: CrawlOwners) -> None:
    before = list(map(len, cluster.logs.entries))
    for command, why in (
        (OperatorCommand("mark_seen", {"uris": []}, "me"), "no command to partitions"),
        (OperatorCommand("delete", {"pattern": "(a"}, "me"), "is not a valid regular expression"),
        (OperatorCommand("adjust", {"match": "nonsense:x", "set": {}}, "me"), "nonsense"),
        (OperatorCommand("pause", {}, "me", "x" * 600_000), "in smaller parts"),
    ):
        with pytest.raises(FrontierError, match=why):
            operator.give(command)
    assert list(map(len, cluster.logs.entries)) == before


@pytest.mark.usefixtures("at_rest")
def test_a_command_has_the_figures_of_the_crawl_whatever_the_audit_is_asked_for(
    cli: Cli, directory: MemoryDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a queue, and of the newest entries of each partition, only some partitions tell it at first."""
    urls = [f"https://{host}/{page}" for host in HOSTS[:8] for page in range(3)]
    for arguments in (["snooze", "--match", "*", "--for", "1m"], ["forget", *urls]):
        assert cli(*arguments, "--reason", "many")[0] == 0
    many, forget = json.loads(cli("audit", "--limit", "2", "--format", "json")[1])
    assert (many["effect"]["changed"], many["partitions"]) == (12, "0-3")
    assert (forget["args"]["uris"], forget["partitions"]) == (24, "0-3")
    for host in HOSTS[:8]:
        found = json.loads(cli("audit", "--queue", host, "--format", "json")[1])[-2:]
        assert [one.pop("covers") for one in found] == ["yes", "perhaps"]
        assert found == [{name: value for name, value in one.items() if name != "covers"} for one in (many, forget)]
    assert cli("snooze", HOSTS[0], "--for", "1h")[0] == 0
    assert json.loads(cli("audit", "--limit", "2", "--format", "json")[1])[0] == forget
    assert cli("undo", forget["id"])[0] == 0  # other tests are of the same crawl
    monkeypatch.setattr(owner_calls, "PATIENCE", 0.0)
    of_another = next(number for number in range(PARTITIONS) if number != partition_of_queue(HOSTS[0], PARTITIONS))
    lose(directory, of_another)
    code, out, err = cli("audit", "--queue", HOSTS[0], "--operation", "snooze", "--format", "json")
    row = next(one for one in json.loads(out) if "match" in one["args"])
    assert row["effect"]["changed"] < 12 and f"partition {of_another} of 4 does not answer" in err and code == 1


@pytest.mark.usefixtures("at_rest")
def test_the_crawl_and_its_queues_are_steered(cli: Cli) -> None:
    told = "h5.test: retired by name now, so that no change of settings revives it\n"
    assert cli("retire", "h5.test", "--reason", "a trap") == (0, told, "")
    audit = ("audit", "--queue", "h5.test", "--operation", "retire", "--format", "json")
    until(lambda: cli(*audit)[1] != "[]\n")  # owners tell what they have committed
    (row,) = json.loads(cli(*audit)[1])
    assert (row["reason"], row["line"]) == (
        "a trap",
        f"budgetfrontier retire h5.test --reason 'a trap' --cluster {URL}",
    )
    assert cli("unretire", "h5.test")[0] == 0
    assert "there is no queue 'h5.tst'; did you mean h5.test?" in cli("retire", "h5.tst")[2]
    counted = cli("delete", "--queue", "h5.test", "--dry-run")
    assert counted[0] == 0 and "would delete 0 URIs" not in counted[1]
    assert cli("delete", "--queue", "h5.test:80", "--dry-run") == counted
    assert cli("set-queue", "h5.test", "--limit", "3")[0] == 1
    code, out, _ = cli("pause", "--reason", "maintenance")
    assert (code, "RUNNING -> PAUSED" in out) == (0, True)
    assert "paused by " in cli("report")[1]
    assert cli("resume")[0] == 0


@pytest.mark.usefixtures("at_rest")
def test_explain_names_the_command_on_many_queues_that_retired_one(cli: Cli) -> None:
    assert cli("retire", "--match", "regex:h[12].test", "--who", "alice", "--reason", "by hand")[0] == 0
    for host in ("h1.test", "h2.test"):
        told = cli("explain", host)[1]
        assert "RETIRED: an operator retired it (alice, 20" in told
        assert ": by hand) with all queues that match regex:h[12].test.\n" in told
    assert cli("unretire", "--match", "regex:h[12].test")[0] == 0


@pytest.mark.usefixtures("at_rest")
def test_a_deletion_in_all_partitions_is_listed_taken_back_and_discarded(cli: Cli, cluster: Cluster) -> None:
    def removed(*arguments: str) -> list[dict[str, Any]]:
        return list(json.loads(cli("removed", "--format", "json", *arguments)[1]))

    cli("removed", "--discard")  # what the other tests have left
    before = json.loads(cli("queues", "--format", "json")[1])
    code, out, err = cli("delete", "--pattern", "/[0-4]$", "--reason", "a trap")
    assert (code, out) == (0, "deleted 33 URIs from 12 queues\n")
    (row,) = removed()
    assert (row["command"], row["uris"], row["reason"]) == ("delete", 33, "a trap") and row["bytes"] > 300
    take_back = f"to take it back: budgetfrontier undo {URL} {row['id']} (until then {row['bytes']:,} bytes are kept"
    assert take_back in err
    found = cli("explain", "h0.test")[1]
    assert f"Its URIs were deleted by entry {row['id']} of the audit (" in found
    assert ": a trap): pattern /[0-4]$, which the command undoes.\n" in found
    assert f"     $ budgetfrontier undo {URL} {row['id']}\n" in found
    assert f"Kept for undo: {row['bytes']} bytes" in cli("report")[1]
    shown = cli("undo", row["id"], "--dry-run")[1].splitlines()
    assert shown[1].startswith("would return 33 URIs to 12 queues: ")
    with ClusterFrontier("test", cluster.directory) as frontier:
        assert frontier.schedule("https://h0.test/since") == "ADDED"
    refused = cli("undo", row["id"])
    assert refused[0] == 1 and "queue h0.test has changed since: 1 URI has come; `undo --force`" in refused[2]
    assert cli("undo", row["id"], "--force")[:2] == (0, f"undone {row['id']}, delete: returned 33 URIs to 12 queues\n")
    assert cli("delete", "--pattern", "/since$", "--for-good")[:2] == (0, "deleted 1 URI from 1 queue\n")
    assert removed() == [] and "is undone already" in cli("undo", row["id"])[2]
    until(lambda: [row["queued"] for row in json.loads(cli("queues", "--format", "json")[1])] == [
        row["queued"] for row in before
    ])  # fmt: skip
    urls = ["https://h1.test/0", "https://h2.test/1"]
    assert cli("forget", *urls)[0] == 0
    (row,) = removed()
    told = cli("undo", row["id"], "--discard", "--dry-run")
    assert told[:2] == (0, f"would discard {row['bytes']:,} bytes that {row['id']}, forget, has kept\n")
    assert cli("removed", "--older-than", "1h", "--discard")[1] == "discarded 0 bytes of 0 commands\n"
    assert cli("removed", "--discard")[1] == f"discarded {row['bytes']:,} bytes of 1 command\n"
    assert removed() == []
    refused = cli("undo", row["id"])
    assert refused[0] == 1 and f"{row['id']}, forget, cannot be undone: " in refused[2]
    (discard,) = json.loads(cli("audit", "--operation", "discard", "--limit", "1", "--format", "json")[1])
    assert f"cannot be undone: {discard['id']} has discarded what was kept of it" in refused[2]
    assert "was discarded already" in cli("undo", row["id"], "--discard")[2]
    assert cli("import", "--seen", *urls)[1].endswith("marked as seen 2\n")  # the other tests know them


def test_the_console_shows_the_partitions_and_the_queues(
    directory: MemoryDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def pages(job: PartitionedJob) -> list[tuple[int, str]]:
        console = Console([job], Access(None), pages=PAGES)
        async with TestClient(TestServer(console.application())) as client:
            found = []
            for path in (
                "/",
                "/queues?q=h1*&sort=expenditure",
                "/queues?start=10",
                "/leases",
                "/metrics",
                "/queues?sort=x",
                "/queues?q=regex:(",
            ):
                async with client.get(path) as answer:
                    found.append((answer.status, await answer.text()))
            async with client.post("/steer") as answer:
                found.append((answer.status, await answer.text()))
            return found

    monkeypatch.setattr(owner_calls, "PATIENCE", 0.0)
    monkeypatch.setattr(partitioned_job, "FRESH", 1e9)
    lose(directory, 3)
    with ClusterFrontier("test", directory) as frontier:
        job = PartitionedJob(URL, CrawlOwners(frontier, job=URL))
        (_, first), (_, some), (_, page), *others = asyncio.run(pages(job))
    assert "The state of the crawl is not known: partition 3 of 4 does not answer (last with lost#1)" in first
    assert "The crawl is finished" not in first
    assert first.count("does not answer</b>") == 1
    assert "Partition 3 of 4 does not answer (last with lost#1)" in some
    here = [host for host in HOSTS if partition_of_queue(host, PARTITIONS) != 3]
    assert {host for host in HOSTS if f">{host}<" in some} == {host for host in here if host.startswith("h1")}
    assert page.count("<th scope") == max(len(here) - 10, 0)
    assert [status for status, _ in others] == [200, 200, 400, 400, 400]


@pytest.mark.parametrize("command", ["compact", "verify"])
def test_what_cannot_be_done_says_what_to_do(cli: Cli, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, URL]) == 2
    assert f"{command} does not work on a crawl in partitions: " in capsys.readouterr().err


def test_uris_are_imported(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "seen.txt").write_text("https://h3.test/seen\nhttps://h4.test/seen\nnonsense\n")
    code, out, _ = cli("import", str(tmp_path / "seen.txt"), "--seen")
    assert (code, out) == (0, "added 0, duplicate 0, full 0, invalid 1 (scheme 1), marked as seen 2\n")
    code, out, err = cli("import", "https://h3.test/seen")
    assert (code, out[:20], err) == (0, "added 0, duplicate 1", "https://h3.test/seen: duplicate\n")


def test_an_import_that_ends_early_counts_what_was_answered(
    cli: Cli, directory: MemoryDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose(directory, 3)
    lost = [host for host in HOSTS if partition_of_queue(host, PARTITIONS) == 3]
    known = [f"https://{host}/0" for host in sorted(HOSTS, key=lost.__contains__)]
    (tmp_path / "known.txt").write_text("\n".join(known))
    rest = (
        "not counted: {} sent last, which may have been added, or may still be; importing the same again adds nothing"
    )
    monkeypatch.setattr(partition_router, "PATIENCE", PATIENCE)
    monkeypatch.setattr(cluster_transport, "SHORT", 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(submission, "RETRY_FOR", 0.0)
        code, out, err = cli("import", str(tmp_path / "known.txt"))
    assert (code, out) == (1, f"added 0, duplicate {12 - len(lost)}, full 0, invalid 0\n")
    assert rest.format(f"{len(lost)} URIs") in err and "partitions 3 of 'test' have had no owner that answers" in err

    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(submission, "CHUNK", 1)
    monkeypatch.setattr(cluster_transport, "sleep", interrupt)  # in which it is while a partition is without an owner
    code, out, err = cli("import", str(tmp_path / "known.txt"))
    assert (code, out) == (130, f"added 0, duplicate {12 - len(lost)}, full 0, invalid 0\n")
    assert rest.format("1 URI") in err


def test_leases_and_dead_letters_are_listed(cli: Cli) -> None:
    assert cli("leases")[2] == "no URI is leased\n"
    assert cli("dead-letters", "--format", "json") == (0, "[]\n", "")
    assert cli("dead-letters", "--drop", "all")[:2] == (0, "dropped 0\n")


def test_a_folder_has_no_partitions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["partitions", str(tmp_path)]) == 2
    assert "give --cluster kafka://" in capsys.readouterr().err


def test_queues_of_all_partitions_are_selected_by_one_command(cli: Cli, at_rest: None) -> None:
    code, shown, err = cli("snooze", "--match", "*.test", "--state", "RETIRED", "--for", "1h", "--dry-run")
    assert (code, err) == (0, "dry run: nothing was changed\n")
    assert shown.startswith("12 of 12 queues in state RETIRED that match queue:*.test would be blocked until ")
    assert ": 12 RETIRED, with 78 URIs\n12 queues: h" in shown
    unknown = cli("snooze", "--queues", "nowhere.test,h1.test,H3.test,none", "--for", "1h", "--dry-run")
    assert unknown[0] == 0 and "no queue: nowhere.test, none; check the spelling" in unknown[2]
    code, out, err = cli("snooze", "--match", "*.test", "--state", "RETIRED", "--for", "1h")
    assert code == 0 and out.startswith("12 of 12 queues in state RETIRED that match queue:*.test were")
    assert f"to take it back: budgetfrontier undo {URL} " in err
    (row,) = json.loads(cli("audit", "--limit", "1", "--format", "json")[1])
    assert row["args"].keys() == {"match", "states", "until"} and row["effect"]["states"] == {"RETIRED": 12}
    assert cli("undo", str(row["id"]), "--dry-run")[1].splitlines()[1].startswith("would restore 12 queues: h")
    assert cli("undo", str(row["id"]))[::2] == (0, "")
    assert row["id"] not in cli("removed", "--format", "json")[1]
    assert cli("snooze", "--match", "*.test", "--for", "1h")[0] == 0
    assert cli("wake", "--match", r"regex:^https://h[0-5]\.", "--state", "RETIRED")[1].startswith("6 of 6 queues")
    assert cli("wake", "--match", "*")[1].startswith("6 of 12 queues were woken: 6 RETIRED, with ")
    assert "no queue is selected by regex:(a+)+$" in cli("wake", "--match", "regex:(a+)+$")[2]


@pytest.mark.usefixtures("at_rest")
def test_a_command_on_many_queues_tells_no_age_of_figures_that_it_does_not_show(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told_late(*_: object) -> Never:
        raise AssertionError("owners are too busy to answer at once: the figures are from their summaries")

    monkeypatch.setattr(ClusterOperator, "head", told_late)
    assert cli("snooze", "--match", "domain:test", "--for", "1m")[0] == 0


def test_what_followed_an_adjustment_is_told_of_all_partitions(cli: Cli, at_rest: None) -> None:
    assert cli("adjust", "--match", "domain:test", "--total-budget", "-1", "--reason", "all of it")[0] == 0
    (row,) = json.loads(cli("audit", "--limit", "1", "--outcome", "--format", "json")[1])
    assert row["effect"]["promised"]["revived_count"] == 12 and row["effect"]["promised"]["uris"] == 78
    assert (row["outcome"]["queues"], row["outcome"]["spent"], row["outcome"]["retired_before"]) == (12, 0, 12)
    code, out, _ = cli("audit", row["id"], "--outcome")
    assert code == 0 and "fetched 0 of the 78 promised, spent 0 of 78 (without a maximum), " in out
    assert cli("undo", row["id"])[0] == 0
    (row,) = json.loads(cli("audit", "--limit", "1", "--outcome", "--format", "json")[1])
    assert (row["command"], row["effect"]["promised"]["retired_count"]) == ("undo", 12)
    assert (row["outcome"]["queues"], row["outcome"]["spent"], row["outcome"]["ended"]) == (12, 0, "")


def test_what_followed_an_adjustment_until_it_was_undone_is_known_of_many_queues(
    cli: Cli, at_rest: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adjustment, "COUNTED", 1)  # as in partitions of more than a thousand queues
    assert cli("adjust", "--match", "domain:test", "--total-budget", "900")[0] == 0
    (row,) = json.loads(cli("audit", "--limit", "1", "--format", "json")[1])
    assert cli("undo", row["id"])[0] == 0
    undo, adjusted = cli("audit", "--limit", "1", "--outcome")[1], cli("audit", row["id"], "--outcome")[1]
    assert "unknown" not in undo + adjusted and "until it was undone, fetched 0 " in adjusted


def test_a_replay_leaves_the_dead_letters_whose_urls_wait_already(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(partition, "COMMIT_EVERY", 0.02)
    urls = [f"https://h{number}.test/" for number in range(4)]
    settings = {"crawl": "test", "frontier": {"keep_urls": True}}
    with (
        running(tmp_path, Settings.from_dict(settings), [(0, 1)], 2) as cluster,
        ClusterFrontier("test", cluster.directory) as frontier,
    ):
        until(lambda: len(cluster.directory.read()) == 2)
        frontier.schedule_many(urls)
        for lease in frontier.lease(4):
            frontier.finish(lease, Outcome.DEAD, reason="gone")
        frontier.schedule_many(CrawlUri(url, force=True) for url in urls[:3])
        operator = ClusterOperator(CrawlOwners(frontier, job=URL, patience=PATIENCE))
        until(lambda: operator.head().totals.dead == 4 and operator.head().totals.queued == 3)
        shown = operator.dry_run("replay", {"ids": None})
        assert (shown["replayed"], shown["waiting"]) == (1, 3)
        entry = operator.apply(OperatorCommand("replay", {"ids": None}, "me")).entry
        assert entry is not None and (entry.effect["replayed"], entry.effect["waiting"]) == (1, 3)
        assert sentence(entry) == "Replayed 1 dead letter; not 3, whose URLs wait already."
        until(lambda: (operator.head().totals.dead, operator.head().totals.queued) == (3, 4))


def test_urls_are_forgotten_by_the_partitions_that_have_them(cli: Cli) -> None:
    code, out, err = cli("forget", "--match", "*")
    assert code == 1 and "knows no URLs by a pattern: give URLs" in err
    urls = ["https://h1.test/0", "https://h2.test/1", "https://h3.test/99"]
    assert cli("forget", *urls, "--dry-run")[1] == "would forget 2 URLs; 1 was not known\n"
    code, out, err = cli("forget", *urls)
    assert (code, out) == (0, "forgot 2 URLs; 1 was not known\n") and "to take it back: " in err
    (row,) = json.loads(cli("audit", "--limit", "1", "--format", "json")[1])
    assert row["effect"] == {"forgotten": 2, "waiting": 0, "unknown": 1, "kept": {"bytes": 58}}
    assert cli("undo", row["id"], "--dry-run")[1].endswith("\nwould make 2 URLs known again\n")
    assert cli("undo", row["id"])[1] == f"undone {row['id']}, forget: 2 URLs known again\n"
    again = cli("undo", row["id"])
    assert again[0] == 1 and f"{row['id']}, forget, is undone already" in again[2]  # others have forgotten nothing
    assert cli("forget", *urls, "--dry-run")[1] == "would forget 2 URLs; 1 was not known\n"


def test_alerts_of_partitions_are_kept_in_a_file(
    cli: Cli, cluster: Cluster, directory: MemoryDirectory, tmp_path: Path
) -> None:
    config, state, got = tmp_path / "worker.yaml", tmp_path / "alerts.json", tmp_path / "got"
    sinks = [{"name": "file", "command": ["sh", "-c", f"cat >>{got}"]}]
    config.write_text(json.dumps({"crawl": "test", "alerts": {"sinks": sinks, "log": True, "no_process": 0}}))
    options = ("--config", str(config), "--state", str(state))
    assert cli("alerts", *options, "--test")[:2] == (0, "file: delivered\n")
    assert "nobody has watched this crawl" in cli("alerts", *options)[2]
    code, out, err = cli("alerts", *options, "--once")
    assert code == 0 and out.split()[1:4] == ["RAISED", "finished", "warn"] and err == ""
    lose(directory, 3)
    assert cli("alerts", *options, "--once")[1] == ""  # the crawl is over: its workers may end
    (row,) = json.loads(cli("alerts", *options, "--format", "json")[1])
    assert (row["condition"], row["told"]) == ("finished", "file")
    told = [json.loads(line) for line in got.read_text().splitlines()]
    assert [(one["condition"], one["job"]) for one in told] == [("test", URL), ("finished", URL)]
    assert (tmp_path / "alerts.json.log").read_text().split()[1:3] == ["RAISED", "finished"]

    state.unlink()  # of a crawl that was never seen whole it is not known
    assert "RAISED no_process bad Partition 3 of 4 does not answer" in cli("alerts", *options, "--once")[1]
    assert cli("alerts", *options, "--once")[1] == ""
    directory.publish(replace(cluster.directory.read()[3], epoch=1 << 41))
    assert [line.split()[1:3] for line in cli("alerts", *options, "--once")[1].splitlines()] == [
        ["OVER", "no_process"], ["RAISED", "finished"],
    ]  # fmt: skip


def test_alerts_of_partitions_need_a_file_and_the_settings_of_the_workers(cli: Cli, tmp_path: Path) -> None:
    assert "give --state a file\n" in cli("alerts")[2]
    assert "give --state a file, which . is not" in cli("alerts", "--state", ".")[2]
    assert "give --config FILE" in cli("alerts", "--once")[2]
    (tmp_path / "other.yaml").write_text("crawl: other")
    code, _, err = cli("alerts", "--once", "--config", str(tmp_path / "other.yaml"), "--state", str(tmp_path / "a"))
    assert code == 1 and "is the crawl 'test', not 'other'" in err
