"""Seeds with settings of their own in a crawl in partitions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Settings
from budgetfrontier.cluster.client import ClusterFrontier
from budgetfrontier.cluster.operators import crawl_owners
from budgetfrontier.cluster.operators.crawl_owners import CrawlOwners
from budgetfrontier.cluster.partitions import partition
from budgetfrontier.settings.seed_settings import with_seed_settings
from budgetfrontier.tools.cli import clusters, main
from tests.cluster.workers import running
from tests.support import PATIENCE, until

URL = "kafka://nowhere/test"


def test_budgets_of_imported_seeds_are_adjustments_in_their_partitions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition, "COMMIT_EVERY", 0.02)
    monkeypatch.setattr(crawl_owners, "WAIT", PATIENCE)
    settings = Settings.from_dict({"crawl": "test", "seeds": [{"url": "https://first.test/", "budget": 5}]})
    with running(tmp_path, with_seed_settings(settings), [(0,), (1,)], 2) as cluster:
        until(lambda: len(cluster.directory.read()) == 2)

        @contextmanager
        def connected(job: str, **options: Any) -> Iterator[CrawlOwners]:
            with ClusterFrontier("test", cluster.directory) as frontier:
                yield CrawlOwners(frontier, job=URL, patience=PATIENCE)

        def cli(command: str, *arguments: str) -> tuple[int, str, str]:
            capsys.readouterr()
            return main([command, *arguments, "--cluster", URL]), *capsys.readouterr()

        monkeypatch.setattr(clusters, "connected", connected)
        import_seeds(cli)
        with ClusterFrontier("test", cluster.directory) as frontier:
            while not frontier.lease(9):
                assert frontier.summary().queued
            before = frontier.summary()
            cli("import", *(f"https://{host}.test/{page}" for host in "abcdef" for page in range(4)))
            after = frontier.summary()
        assert (after.scheduled - before.scheduled, after.found) == (24, 0), "an import is no growth"
        adjust_by_file(cli, tmp_path / "more.adjust.yaml")


def adjust_by_file(cli: Callable[..., tuple[int, str, str]], file: Path) -> None:
    good = (
        "- {match: 'queue:fresh.test', set: {queue_total_budget: 9}, reason: a}\n- {match: '*', set: {precedence: 5}}\n"
    )
    file.write_text(f"{good}- {{match: '*', set: {{sheet: x}}}}\n")
    code, out, err = cli("adjust", "--file", str(file))
    assert (code, out) == (4, "") and f'{file}:3: there is no sheet "x"' in err
    file.write_text(good)
    code, out, _ = cli("adjust", "--file", str(file), "--format", "json", "--reason", "b")
    told = json.loads(out)
    assert (code, told["missing_partitions"]) == (0, [])
    listed = json.loads(cli("adjust", "--list", "--format", "json")[1])
    named = {one["id"]: (one["match"], one["set"], one["reason"]) for one in listed}
    assert [named[one["id"]] for one in told["adjustments"]] == [
        ("queue:fresh.test", {"queue_total_budget": 9}, "a"), ("*", {"precedence": 5}, "b"),
    ]  # fmt: skip


def import_seeds(cli: Callable[..., tuple[int, str, str]]) -> None:
    def rows(*command: str) -> Any:
        code, out, _ = cli(*command, "--format", "json")
        return json.loads(out) if code == 0 else {"total_budget": None, "rows": []}

    def until_total(queue: str, budget: int) -> None:
        """Wait until the owner of a queue has committed what it was given."""
        until(lambda: rows("queue", queue)["total_budget"] == budget)

    line = "https://fresh.test/\tbudget=77\tlabel=new\tpriority=2"
    assert "would adjust: a total budget of 77 for 1 queue" in cli("import", "--seeds", "--dry-run", line)[2]
    code, out, err = cli("import", "--seeds", line, "--reason", "partners")
    assert (code, out) == (0, "added 1, duplicate 0, full 0, invalid 0\n") and ": a total budget of 77 for 1 q" in err
    until_total("fresh.test", 77)
    last = rows("adjust", "--list")[-1]
    assert (last["match"], last["set"], last["reason"]) == ("queue:fresh.test", {"queue_total_budget": 77}, "partners")
    assert cli("undo", last["id"])[0] == 0
    until_total("fresh.test", -1)
    assert cli("import", "--seeds", "https://first.test/\tpriority=2\tlabel=new")[0] == 0
    until_total("first.test", 5)
    until(lambda: [(row["label"], row["seeds"]) for row in rows("report", "--kind", "labels")["rows"]] == [("new", 2)])
    assert 'there is no sheet "x"' in cli("import", "--seeds", "https://fresh.test/2\tsheet=x")[2]
