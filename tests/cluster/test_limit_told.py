"""A crawl in partitions that has used up a total: operators are told which, and what helps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from budgetfrontier import Lease, Settings
from budgetfrontier.cluster.client import ClusterFrontier
from budgetfrontier.cluster.directory import kafka
from budgetfrontier.cluster.operators.cluster_operator import ClusterOperator
from budgetfrontier.cluster.operators.crawl_owners import CrawlOwners
from budgetfrontier.cluster.partitions import partition
from budgetfrontier.core.model import QueueState
from budgetfrontier.reports.trap_list import Suspect
from budgetfrontier.rules.trap_evidence import Evidence
from budgetfrontier.tools.cli import clusters, main, trap_holding
from tests.cluster.workers import running
from tests.steering_commands import STEERING, has_option, parsers
from tests.support import until

URL = "kafka://nowhere/test"
TOLD = "cluster.max_uris is used up, so that nothing is leased: raise it in the file of all workers, and restart them"
URLS = [f"https://h{number}.test/" for number in range(9)]
SETTINGS = {
    "crawl": "test",
    "cluster": {"max_uris": 3},
    "frontier": {"keep_urls": True, "politeness": {"min_delay": 0.0, "delay_factor": 0.0}},
}


def test_each_command_names_the_total_that_is_used_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(partition, "COMMIT_EVERY", 0.02)
    with running(tmp_path, Settings.from_dict(SETTINGS), [(0, 1)], 2) as cluster:
        monkeypatch.setattr(kafka, "KafkaDirectory", lambda where: cluster.directory)
        monkeypatch.setattr(kafka, "log_ends", lambda where, partitions: {})

        def cli(command: str, *arguments: str) -> tuple[str, str]:
            main([command, "--cluster", URL, *arguments])
            return capsys.readouterr()

        with ClusterFrontier("test", cluster.directory) as frontier:
            until(lambda: len(cluster.directory.read()) == 2)
            frontier.schedule_many(URLS)
            leased = _leased(frontier, 3)
            until(lambda: json.loads(cli("report", "--format", "json")[0])["pause_reason"] == "limit")
            assert f"{TOLD}; 3 URIs are still out." in cli("report")[0]
            frontier.finish_many(leased)
            assert not frontier.lease()
        until(lambda: f"{TOLD}.\n" in cli("report")[0])
        assert json.loads(cli("report", "--format", "json")[0])["state"] == "PAUSED"
        assert TOLD in cli("partitions")[1]
        out, told = cli("resume")
        assert out == "PAUSED -> PAUSED\n" and TOLD in told, "no command lets it go on"
        assert cli("pause")[0] == "PAUSED -> PAUSED\n"
        assert cli("resume")[0] == "PAUSED -> PAUSED\n"
        left = next(url for url in URLS if url not in {lease.uri.url for lease in leased})
        for target in (left, left.split("/")[2]):
            assert f"{TOLD}.\nWhen: once the reasons above no longer hold.\n" in cli("explain", target)[0]
            explained = json.loads(cli("explain", target, "--format", "json")[0])
            assert explained["verdict"] == "blocked", "for programs, and the API, too"
            assert explained["reasons"][-1]["code"] == "limit"
        states = {row["state"] for row in json.loads(cli("partitions", "--format", "json")[0])}
        assert states == {"PAUSED"}, "as the report has it"
        cli("pause")
        cli("undo", str(json.loads(cli("audit", "--format", "json", "--limit", "1")[0])[0]["id"]))
        with ClusterFrontier("test", cluster.directory) as frontier:
            preview = ClusterOperator(CrawlOwners(frontier, job=URL)).dry_run("terminate", {})
        assert (preview["before"]["state"], preview["after"]["state"]) == ("PAUSED", "TERMINATED")
        assert cli("terminate", "--yes")[0] == "PAUSED -> TERMINATED\n"
        audit = cli("audit")[0]
        assert "state PAUSED -> TERMINATED" in audit and "RUNNING" not in audit, "as the crawl was"
        until(lambda: json.loads(cli("report", "--format", "json")[0])["state"] == "TERMINATED")
        commands: list[tuple[str, ...]] = [("partitions",), ("explain", "https://h1.test/"), ("report",)]
        for command in commands:
            assert "used up" not in "".join(cli(*command)), "nothing that is raised helps any more"
        assert {row["state"] for row in json.loads(cli("partitions", "--format", "json")[0])} == {"TERMINATED"}
        (tmp_path / "urls").write_text("https://new.test/\n")
        cli("snooze", "h2.test", "--for", "1h")
        entry = str(json.loads(cli("audit", "--format", "json", "--limit", "1")[0])[0]["id"])
        named = {"FILE": str(tmp_path / "urls"), "AUDIT_ID": entry, "b.test": "h1.test"}
        suspect = Suspect("h1.test", QueueState.READY, 1.0, 1, 1, 1, [Evidence("links", 1.0, "finds many")], [], 3)
        monkeypatch.setattr(trap_holding, "_suspect", lambda args, operator: suspect)
        for name, words in STEERING.items():
            if name in clusters.COMMANDS:
                given = [named.get(word, word) for word in words]
                for dry in [["--dry-run"]] * has_option(parsers()[name], "--dry-run") + [[]]:
                    told = "".join(cli(name, *given, *dry))
                    assert told.count("crawl was terminated, for good: ") == 1, (name, dry, told)


def _leased(frontier: ClusterFrontier, count: int) -> list[Lease]:
    found: list[Lease] = []

    def have_come() -> bool:
        found.extend(frontier.lease(count - len(found)))
        return len(found) == count

    until(have_come)
    return found
