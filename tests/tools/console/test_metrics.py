"""The metrics of the console, as Prometheus reads them; and those that rules and dashboard ask for."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse

from budgetfrontier import Frontier, FrontierError, Outcome, Reader, Settings
from budgetfrontier.core.model import Summary
from budgetfrontier.reports import metrics
from budgetfrontier.tools.console.app import Console
from tests.support import PATIENCE, make_settings
from tests.tools.console.conftest import TOKEN, Client, get, visit

MONITORING = Path(__file__).parents[3] / "config" / "monitoring"


def samples(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """The samples of a scrape, by name and labels without those of the job."""
    return {
        (s.name, frozenset((k, v) for k, v in s.labels.items() if k not in ("crawl", "folder"))): s.value
        for family in parse(text)
        for s in family.samples
    }


def test_a_scrape_has_the_totals_of_the_frontier(job: Path) -> None:
    status, text = get(job, "/metrics")
    assert status == 200
    found = samples(text)
    with Reader(job / "frontier") as reader:
        totals, slug = reader.summary(), reader.verdict().slug
    none: frozenset[tuple[str, str]] = frozenset()
    for field, (name, _) in metrics.COUNTERS.items():
        assert found[f"budgetfrontier_{name}_total", none] == totals[field]
    for field, (name, _) in metrics.GAUGES.items():
        assert found[f"budgetfrontier_{name}", none] == totals[field]
    for state, count in totals.queues.items():
        assert found["budgetfrontier_queues", frozenset({("state", state)})] == count
    assert found["budgetfrontier_urls_retired", none] == 5
    assert found["budgetfrontier_process_alive", none] == 0
    assert found["budgetfrontier_store_used_bytes", none] > 0
    assert found["budgetfrontier_readable", none] == 1
    assert any(name == "budgetfrontier_verdict_info" and ("slug", slug) in labels for name, labels in found)


def test_refusals_have_a_metric_by_reason(tmp_path: Path) -> None:
    with Frontier.open(tmp_path / "frontier", make_settings(max_queued=3, max_queue_size=2)) as f:
        f.schedule_many([*(f"http://{host}.test/{n}" for host in "abc" for n in range(3)), "ftp://a.test/"])
    body, _ = metrics.of_job(tmp_path).answer()
    found = {labels: n for (name, labels), n in samples(body.decode()).items() if "urls_refused_total" in name}
    assert {tuple(sorted(dict(labels).values())): n for labels, n in found.items()} == {
        ("FULL", "max_queue_size"): 1, ("FULL", "max_queued"): 5, ("INVALID", "scheme"): 1,
    }  # fmt: skip


def test_each_total_has_a_metric() -> None:
    others = {"state", "pause_reason", "queues", "full_reasons", "invalid_reasons", "error_answers"}
    assert set(metrics.COUNTERS) | set(metrics.GAUGES) | others == set(Summary.__struct_fields__)


def test_openmetrics_is_given_to_those_who_ask_for_it(job: Path) -> None:
    _, text = get(job, "/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert text.endswith("# EOF\n")
    families = parse_openmetrics(text)  # type: ignore[no-untyped-call]
    assert "budgetfrontier_queues" in {family.name for family in families}


@pytest.mark.parametrize("version", ["x", "99.x", "0.0.1", "", "1.0.0=1"])
def test_a_version_that_does_not_exist_is_answered_with_the_plain_format(job: Path, version: str) -> None:
    status, text = get(job, "/metrics", headers={"Accept": f"application/openmetrics-text;version={version},*/*"})
    assert status == 200 and "# EOF" not in text and samples(text)


def test_the_frontiers_are_read_once_for_all_scrapes_of_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[int] = []

    def reading() -> metrics.MetricsReading:
        read.append(1)
        raise FrontierError("not now")

    clock = [100.0]
    monkeypatch.setattr("budgetfrontier.reports.metrics.time.monotonic", lambda: clock[0])
    exposition = metrics.Exposition(metrics.of_sources({"job": reading}))
    answers = {
        exposition.answer(accepts) for accepts in ("", metrics.OPENMETRICS, "*/*", f"a/b, {metrics.OPENMETRICS}")
    }
    assert len(answers) == 2 and len(read) == 2
    clock[0] += metrics.FRESH
    assert exposition.answer() in answers and len(read) == 3


def test_several_jobs_are_told_apart_and_one_that_is_gone_is_named(job: Path, tmp_path: Path) -> None:
    other = tmp_path / "else" / "job"
    shutil.copytree(job, other)

    async def act(client: Client, console: Console) -> str:
        other.rename(tmp_path / "gone")  # at once, whatever the console writes there meanwhile
        return await (await client.get("/metrics")).text()

    families = {family.name: family for family in parse(visit((job, other), act))}
    readable = {s.labels["folder"]: s.value for s in families["budgetfrontier_readable"].samples}
    assert readable == {"job": 1, "job-2": 0}
    assert [s.labels for s in families["budgetfrontier_leases"].samples] == [{"crawl": "resting", "folder": "job"}]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer of nothing"}, 401),
        ({"Authorization": f"Bearer {TOKEN}"}, 200),
        ({"Host": "evil.test"}, 421),
    ],
)
def test_metrics_need_the_token_of_a_console_that_has_one(job: Path, headers: dict[str, str], status: int) -> None:
    async def act(client: Client, console: Console) -> int:
        return (await client.get("/metrics", headers=headers, allow_redirects=False)).status

    assert visit(job, act, token=TOKEN) == status


def test_rules_and_dashboard_ask_for_metrics_that_exist(job: Path) -> None:
    names = {name for name, _ in samples(get(job, "/metrics")[1])}
    rules = yaml.safe_load((MONITORING / "prometheus-alerts.yaml").read_text(encoding="utf-8"))
    dashboard = json.loads((MONITORING / "grafana-dashboard.json").read_text(encoding="utf-8"))
    asked = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    asked += [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(asked) > 10
    for expression in asked:
        used = set(re.findall(r"budgetfrontier_\w+", expression))
        assert used and used <= names, expression


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool; .ci/system-packages installs it")
def test_the_alerts_fire_when_they_should_and_not_otherwise(tmp_path: Path) -> None:
    cases = Path(__file__).with_name("alerts.yaml").read_text(encoding="utf-8")
    rules = MONITORING / "prometheus-alerts.yaml"
    (tmp_path / "alerts.yaml").write_text(cases.replace("RULES", json.dumps(str(rules))), encoding="utf-8")
    command = ["promtool", "test", "rules", str(tmp_path / "alerts.yaml")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def test_every_metric_is_documented(job: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "howto" / "monitoring.md").read_text(encoding="utf-8")
    told = {name.partition("{")[0] for name in re.findall(r"`([^`\n]+)`", page)}
    names = {name.removeprefix(metrics.PREFIX) for name, _ in samples(get(job, "/metrics")[1])}
    assert names and names <= told


def test_groups_are_a_bounded_number_of_metrics(tmp_path: Path) -> None:
    groups = [
        {"name": "museum", "match": "host:a*.test", "total_budget": 9, "max_in_flight": 1},
        {"name": "empty", "match": "host:none.test", "total_budget": 5},
        {"name": "host", "by": "host", "total_budget": 9},
    ]
    with Frontier.open(tmp_path / "frontier", Settings.from_dict({"groups": groups})) as frontier:
        frontier.schedule_many([f"http://{name}{n}.test/" for name in "ab" for n in range(3)])
        frontier.finish(frontier.lease(1)[0], Outcome.SUCCESS)
        assert len(frontier.lease(9)) == 4
        frontier.commit()
        found = samples(get(tmp_path, "/metrics")[1])
    names = {name.removeprefix(metrics.PREFIX): value for (name, _), value in found.items() if "group" in name}
    assert names == {"groups": 4, "group_spend": 1, "group_budget": 9, "group_parked": 1, "group_leases": 1}
    assert {dict(labels).get("group") for name, labels in found if "group_" in name} == {"museum"}
