"""Groups of queues in reports and listings."""

from __future__ import annotations

import csv
import io
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Frontier, Settings
from budgetfrontier.storage.group_listing import GROUP_FIELDS
from tests.tools.cli.conftest import SETTINGS, Cli

GROUPS = [
    {"name": "capped", "match": "domain:capped.test", "total_budget": 1, "max_in_flight": 4},
    {"name": "domain", "by": "registered-domain", "politeness": True},
]


@pytest.fixture
def grouped(tmp_path: Path) -> Path:
    """A job with one group over its budget, and one whose clock is ahead, for which a queue waits."""
    job = tmp_path / "job"
    settings = Settings.from_dict(SETTINGS | {"groups": GROUPS, "overrides": []})
    with Frontier.open(job / "frontier", settings) as f:
        f.schedule_many(f"http://{host}/{page}" for host in ("capped.test", "b.capped.test") for page in range(2))
        f.schedule_many(["http://a.example.org/", "http://b.example.org/"])
        while leases := f.lease(10):
            for lease in leases:
                f.finish(lease, size=1000)
    return job


def test_the_report_has_a_section_of_groups(grouped: Path, cli: Cli) -> None:
    out = cli("report", grouped).out
    section = out[out.index("===== GROUPS") :].splitlines()
    assert section[1] == " 2 groups: 1 over_budget, 1 waits"
    assert section[2] == "group state queues parked inFlight/max totalSpend/totalBudget bytes wakeTime"
    assert section[3] == "capped over_budget 2 0 0/4 2/1 2000 -"
    assert section[4].startswith("domain/example.org waits 2 1 0/1 1/-1 1000 ")
    assert "...and 1 more" in cli("report", grouped, "--limit", 1).out.partition("GROUPS")[2]
    page = cli("report", grouped, "--format", "html").out
    assert "<h2>Groups: 2<small>2 groups: 1 over_budget, 1 waits</small></h2>" in page
    assert "domain/example.org" in page
    groups = json.loads(cli("report", grouped, "--format", "json").out)["groups"]
    assert groups["states"] == {"over_budget": 1, "waits": 1}
    assert [group["group"] for group in groups["fullest"]] == ["capped", "domain/example.org"]


def test_groups_are_a_kind_of_report(grouped: Path, cli: Cli) -> None:
    out = cli("report", grouped, "--kind", "groups").out.splitlines()
    assert out[0] == "2 groups: 1 over_budget, 1 waits."
    assert out[2].split() == [*GROUP_FIELDS[:-1], "wake_in"]
    assert out[3].split() == ["capped", "over_budget", "2", "0", "0", "4", "2", "1", "2000", "-", "-", "-"]
    rows = json.loads(cli("report", grouped, "--kind", "groups", "--format", "json").out)["rows"]
    assert [tuple(row) for row in rows] == [GROUP_FIELDS] * 2 and rows[1]["max_in_flight"] == 1
    table = list(csv.DictReader(io.StringIO(cli("report", grouped, "--kind", "groups", "--format", "csv").out)))
    assert [row["group"] for row in table] == ["capped", "domain/example.org"]


def test_queues_are_listed_by_group(grouped: Path, cli: Cli) -> None:
    def chosen(*options: str) -> list[str]:
        found = json.loads(cli("queues", grouped, "--format", "json", *options).out)
        return sorted(f"{row['queue']} {row['group']}" for row in found)

    assert chosen("--group", "domain/*") == [f"{name}.example.org domain/example.org" for name in "ab"]
    assert len(chosen()) == 4 and len(chosen("--group", "capped", "--state", "SNOOZED", "--limit", "1")) == 1
    assert "group" in cli("queues", grouped).out.splitlines()[0].split()
    raised = cli("queues", grouped, "--over-budget", "--format", "csv").out.splitlines()[0].split(",")
    assert raised.index("group") < raised.index("raise_to")
    assert cli("queues", grouped, "--group", "none").err == "no queue matches the group none\n"


def test_a_quota_of_a_group_is_shown_wherever_quotas_and_groups_are(tmp_path: Path, cli: Cli) -> None:
    settings = SETTINGS | {
        "groups": [{"name": "site", "by": "registered-domain", "quotas": {"urls": 2, "bytes": 10**6}}]
    }
    with Frontier.open(tmp_path / "frontier", Settings.from_dict(settings | {"overrides": []})) as f:
        f.schedule_many(f"http://{host}.a.test/{page}" for host in "xy" for page in range(3))
        f.schedule("http://b.test/")
        while leases := f.lease(1):
            f.finish(leases[0], size=500)
        f.wake("x.a.test")
        f.wake("y.a.test")
        assert f.lease(1) == []
    uses = json.loads(cli("report", tmp_path, "--kind", "quotas", "--format", "json").out)["rows"]
    assert [(use["kind"], use["name"], use["amount"], use["used"], use["limit"]) for use in uses] == [
        ("group", "site/a.test", "urls", 2, 2),
        ("group", "site/b.test", "urls", 1, 2),
        ("group", "site/a.test", "bytes", 1000, 10**6),
        ("group", "site/b.test", "bytes", 500, 10**6),
    ]
    groups = json.loads(cli("report", tmp_path, "--kind", "groups", "--format", "json").out)["rows"]
    assert [(row["group"], row["state"], row["quota_share"]) for row in groups] == [
        ("site/a.test", "over_quota", 1.0),
        ("site/b.test", "open", 0.5),
    ]
    out = cli("report", tmp_path, "--kind", "groups").out
    assert "1 over_quota, 1 open" in out
    assert "quotas.group.urls: 2 of 2 (site/a.test)" in " ".join(cli("queue", tmp_path, "x.a.test").out.split())
    verdict = " ".join(cli("report", tmp_path).out.split())
    assert "the quota of group site/a.test, urls 2, is used up, with 2: `adjust` it or a budget" in verdict


def test_a_queue_shows_its_group(grouped: Path, cli: Cli) -> None:
    out = cli("queue", grouped, "b.capped.test").out
    found = dict(line.split(":", 1) for line in out.splitlines() if line.startswith("group"))
    assert {name: value.strip() for name, value in found.items()} == {
        "group": "capped", "group.state": "over_budget", "group.queues": "2", "group.parked": "0",
        "group.in_flight": "0", "group.max_in_flight": "4", "group.expenditure": "2", "group.total_budget": "1",
        "group.bytes": "2000", "group.in_degree": "-", "group.quota_share": "-",
        "group.wake_time": "-",
    }  # fmt: skip
    assert json.loads(cli("queue", grouped, "a.example.org", "--format", "json").out)["group"]["state"] == "waits"


def test_the_command_of_explain_raises_the_budget_of_a_group_and_undo_takes_it_back(grouped: Path, cli: Cli) -> None:
    def explained() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(cli("explain", grouped, "http://b.capped.test/1", "--format", "json").out)
        return found

    found = next(reason for reason in explained()["reasons"] if reason["code"] == "over-budget")
    assert found["command"] == f"budgetfrontier adjust {grouped} --match group:capped --set group.total_budget=3"
    assert "total budget is 1. The command raises it to 3." in found["text"]
    command = shlex.split(found["command"])[1:]
    dry = cli(*command, "--dry-run").out
    assert "2 queues" in dry and "group.total_budget" in dry
    cli(*command)
    groups = json.loads(cli("report", grouped, "--format", "json").out)["groups"]["fullest"]
    assert [group["total_budget"] for group in groups if group["group"] == "capped"] == [3]
    rows = [row for row in explained()["settings"] if row["name"] == "group.total_budget"]
    assert [(row["value"], row["sources"][-1]["match"]) for row in rows] == [(3, "group:capped")]
    assert "group:capped" in cli("audit", grouped).out
    number = json.loads(cli("audit", grouped, "--format", "json").out)[-1]["id"]
    cli("undo", grouped, number)
    assert cli("queue", grouped, "b.capped.test").out.count("over_budget") == 1
    refused = cli("adjust", grouped, "--match", "group:caped", "--set", "group.total_budget=3")
    assert 'no group is defined as "caped"; did you mean capped?' in refused.err


def test_a_crawl_without_groups_shows_none(stopped: Path, cli: Cli) -> None:
    assert "GROUPS" not in cli("report", stopped).out
    assert cli("report", stopped, "--kind", "groups").out.startswith("No queue is in a group: ")
    assert "group" not in cli("queues", stopped).out
    assert json.loads(cli("queue", stopped, "snoozed.test", "--format", "json").out)["group"] is None


def test_a_dry_run_counts_queues_that_a_quota_retires_and_says_what_it_leaves_out(tmp_path: Path, cli: Cli) -> None:
    groups = [{"name": "site", "by": "registered-domain", "quotas": {"urls": 1}}]
    with Frontier.open(tmp_path / "frontier", Settings.from_dict({"groups": groups})) as f:
        f.schedule_many(f"http://{host}.a.test/{page}" for host in "xy" for page in range(3))
        f.finish(f.lease(1)[0])
        f.wake("x.a.test")
        assert f.lease(1) == []
    out = cli("adjust", tmp_path, "--match", "group:site", "--set", "group.quotas={urls: 3}", "--dry-run").out
    assert "would revive 2 queues" in out and "would fetch 5 of the URIs" in out
    assert "what is left of quotas is not considered: they may end queues before these have spent that" in out
    out = cli("adjust", tmp_path, "--match", "group:site", "--set", "group.quotas={bytes: 0}", "--dry-run").out
    assert "over budget or quota before and after: 2 queues" in out and "what is left" not in out
