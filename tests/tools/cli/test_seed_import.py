"""`import --seeds` of seeds with settings: adjustments of their queues come before them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlUri, Frontier, Reader, Settings
from budgetfrontier.settings import seed_settings
from tests.support import adjusted, make_settings
from tests.tools.cli.conftest import Cli

LINES = (
    "http://plain.test/\n"
    "http://a.test/\tbudget=5\tpriority=2\tlabel=blogs\n"
    "http://b.test/\tsheet=small\tbudget=5\n"
    "http://a.test/2\tbudget=6\n"
    "http://c.test/\tsheet=smal\n"
    "http://d.test/\tbudget=x\n"
    "http://a.test/3\tbudget=5\ttopic=x\n"
)


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    path = tmp_path / "more.seeds"
    path.write_text(LINES)
    return path


@pytest.fixture
def job(tmp_path: Path) -> Path:
    settings = {"sheets": {"small": {"queue_total_budget": 20, "precedence": 5}}}
    with Frontier.open(tmp_path / "job" / "frontier", Settings.from_dict(settings)) as frontier:
        frontier.schedule("http://known.test/")
    return tmp_path / "job"


def test_budgets_and_sheets_become_adjustments(job: Path, listed: Path, cli: Cli) -> None:
    answer = cli("import", job, "--seeds", listed, "--reason", "new customers")
    assert answer.code == 0
    assert answer.out == "added 4, duplicate 0, full 0, invalid 3 (setting 3)\n"
    assert answer.err.splitlines()[:6] == [
        f"{listed}:4:17: a budget of 6 for the queue a.test, which is one queue with one budget: {listed}:2 has 5",
        f'{listed}:5:16: there is no sheet "smal"; did you mean "small"?',
        f'{listed}:6:16: budget: expected a whole number of at least -1, got "x"',
        f"{listed}: the metadata behind URLs (topic) is stored with them, as their meta, and changes nothing in the "
        "crawl",
        "adjustment 2: a total budget of 5 for 2 queues",
        "adjustment 3: the sheet small for 1 queue",
    ]
    assert adjusted(job) == [
        ("queues:a.test,b.test", {"queue_total_budget": 5}),
        ("queue:b.test", {"sheet": "small"}),
    ]
    with Reader(job / "frontier") as reader:
        assert [(one.command, one.reason) for one in reader.audit()] == [
            ("schedule", "new customers"), ("adjust", "new customers"), ("adjust", "new customers"),
            ("schedule", "new customers"),
        ]  # fmt: skip
        found = {queue.queue: queue for queue in reader.queues()}
        assert (found["a.test"].total_budget, found["b.test"].total_budget, found["b.test"].precedence) == (5, 5, 5)
    told = cli("explain", job, "http://a.test/").out
    assert "queue_total_budget 5  from adjustment 2 (queues:a.test,b.test)" in told
    assert cli("undo", job, "2").code == 0
    assert adjusted(job) == [("queue:b.test", {"sheet": "small"})]
    assert cli("verify", job).code == 0


def test_a_dry_run_adjusts_nothing(job: Path, listed: Path, cli: Cli) -> None:
    answer = cli("import", job, "--seeds", listed, "--dry-run")
    assert answer.out == "dry run, nothing was changed: 4 can be imported, invalid 3 (setting 3)\n"
    assert answer.err.splitlines()[-3:-1] == [
        "would adjust: a total budget of 5 for 2 queues",
        "would adjust: the sheet small for 1 queue",
    ]
    assert "not looked for in a dry run: URIs that are known already, and limits" in answer.err.splitlines()[-1]
    assert adjusted(job) == []


def test_without_seeds_they_are_metadata_and_the_option_is_named(job: Path, tmp_path: Path, cli: Cli) -> None:
    path = tmp_path / "list"
    path.write_text("http://a.test/\tbudget=5\tpriority=2\n")
    assert "with --seeds, budget, priority would be settings of seeds" in cli("import", job, path).err
    assert adjusted(job) == []


def test_sheets_that_operators_have_made_count(job: Path, tmp_path: Path, cli: Cli) -> None:
    assert cli("sheet", job, "set", "new", "--set", "precedence=7").code == 0
    assert cli("import", job, "--seeds", "http://a.test/\tsheet=new").code == 0
    assert adjusted(job)[-1] == ("queue:a.test", {"sheet": "new"})


def test_many_queues_are_in_several_patterns(
    job: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seed_settings, "MOST_IN_PATTERN", 50)
    path = tmp_path / "seeds"
    path.write_text("".join(f"http://h{n}.test/\tbudget=3\n" for n in range(7)))
    assert cli("import", job, "--seeds", path).code == 0
    found = [match.removeprefix("queues:").removeprefix("queue:").split(",") for match, _ in adjusted(job)]
    assert [name for names in found for name in names] == [f"h{n}.test" for n in range(7)] and len(found) > 2


def test_a_budget_that_its_queue_has_spent_before_is_warned_of(job: Path, cli: Cli) -> None:
    with Frontier.open(job / "frontier") as frontier:
        frontier.schedule_many(CrawlUri(f"http://{host}.test/", cost=3) for host in "ab")
        while leases := frontier.lease(2):
            frontier.finish_many(leases)
    told = cli("import", job, "--seeds", "http://a.test/new\tbudget=2").err
    assert "its queue has spent 3 already: it is retired on its turn, with its seeds, and fetches none of them" in told
    assert "already" not in cli("import", job, "--seeds", "http://a.test/newer\tbudget=3").err
    told = cli("import", job, "--seeds", "http://b.test/more\tbudget=2").err
    assert "warning: its queue has spent 3 already" in told


def test_into_a_running_crawl(running: Path, tmp_path: Path, cli: Cli) -> None:
    assert cli("import", running, "--seeds", "http://new.test/\tbudget=3\tlabel=late").code == 0
    assert adjusted(running) == [("queue:new.test", {"queue_total_budget": 3})]


def test_the_queue_of_a_seed_has_to_be_known(tmp_path: Path, cli: Cli) -> None:
    settings = make_settings(queue_assignment_policy="ip")
    with Frontier.open(tmp_path / "job" / "frontier", settings):
        pass
    answer = cli("import", tmp_path / "job", "--seeds", "http://a.test/\tbudget=3")
    assert answer.code == 1 and "the queue of a seed depends on the address of its host here" in answer.err
    assert cli("import", tmp_path / "job", "--seeds", "http://a.test/\tbudget=3\tqueue=q").code == 0
    assert cli("import", tmp_path / "job", "--seeds", "http://192.0.2.1:80/\tbudget=4").code == 0
    assert adjusted(tmp_path / "job") == [
        ("queue:q", {"queue_total_budget": 3}), ("queue:192.0.2.1", {"queue_total_budget": 4}),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "limits",
    [
        {"max_queued": 1},
        {"max_queue_size": 1},
        {"duplicates": "bloom", "bloom": {"expected": 1, "error": 1e-9}},
    ],
)
def test_seeds_without_room_are_told_with_their_adjustments(tmp_path: Path, cli: Cli, limits: dict[str, Any]) -> None:
    with Frontier.open(tmp_path / "frontier", Settings.from_dict({"frontier": limits})) as frontier:
        frontier.schedule("http://a.test/")
    (tmp_path / "seeds").write_text("http://a.test/2\tbudget=3\n")
    dry = cli("import", tmp_path, "--seeds", tmp_path / "seeds", "--dry-run")
    assert all(limit in dry.err for limit in ("max_queued", "max_queue_size", "bloom.expected"))
    answer = cli("import", tmp_path, "--seeds", tmp_path / "seeds")
    assert "added 0, duplicate 0, full 1" in answer.out
    assert "they are not in the crawl. The adjustments are in force for their queues all the same" in answer.err
    assert adjusted(tmp_path) == [("queue:a.test", {"queue_total_budget": 3})]


def test_a_budget_for_one_of_parallel_queues_is_told(tmp_path: Path, cli: Cli) -> None:
    """An override with `host:` is for each of them, as the message says."""
    policy = {"hostname": {"parallel_queues": 4}}
    host = [{"match": "host:b.test", "set": {"queue_total_budget": 7}}]
    settings = {"frontier": {"queue_assignment_policy": policy}, "overrides": host}
    urls = [f"http://{name}.test/part{n}/x" for name in "ab" for n in range(40)]
    with Frontier.open(tmp_path / "frontier", Settings.from_dict(settings)) as frontier:
        frontier.schedule_many(urls)
    answer = cli("import", tmp_path, "--seeds", "http://a.test/\tbudget=3")
    assert "with parallel_queues, the budget or sheet of a seed is for one of its host's queues" in answer.err
    assert "parallel" not in cli("import", tmp_path, "--seeds", "http://c.test/\tbudget=3\tqueue=c").err
    with Reader(tmp_path / "frontier") as reader:
        queues = [(queue.queue[0], queue.total_budget) for queue in reader.queues() if queue.queue != "c"]
    assert sorted(queues) == [("a", -1)] * 3 + [("a", 3)] + [("b", 7)] * 4
    config = tmp_path / "crawl.yaml"
    for seed, told in (("budget: 3", True), ("priority: 3", False), ("budget: 3, queue: own", False)):
        config.write_text(
            "crawl: news\nfrontier: {queue_assignment_policy: {hostname: {parallel_queues: 4}}}\n"
            f"seeds: [{{url: 'http://a.test/', {seed}}}]\n"
        )
        assert ("with parallel_queues" in cli("check-config", config).err) is told
