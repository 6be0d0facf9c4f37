"""What holds RETIRED queues besides their own budgets, and the commands that revive them."""

from __future__ import annotations

from pathlib import Path

from budgetfrontier import Reader
from budgetfrontier.reports.suggested_commands import revival_commands
from budgetfrontier.storage.holds import holds
from tests.support import crawl, on_disk, pages


def commands(job: Path) -> list[list[str]]:
    with Reader(job / "frontier") as reader, reader.view() as view:
        queues = list(reader.queues())
        return [
            revival_commands(queue, "news", replenish=3000, reached=True, held=held)
            for queue, held in zip(queues, holds(view, queues), strict=True)
        ]


def test_the_command_for_a_queue_that_a_quota_holds_raises_the_quota(tmp_path: Path) -> None:
    with on_disk(tmp_path, quotas={"host": {"urls": 2, "bytes": 1000}}) as f:
        f.schedule_many(pages("ab", 3))
        f.retire("b.test")
        assert crawl(f) == "AA"
    with Reader(tmp_path / "frontier") as reader, reader.view() as view:
        found = [list(held.texts()) for held in holds(view, reader.queues())]
    assert found == [["the quota of host a.test, urls 2, is used up, with 2"], []]
    assert commands(tmp_path) == [
        ["budgetfrontier adjust news --match host:a.test --set 'quotas.host={urls: 4, bytes: 1000}'"],
        ["budgetfrontier unretire news b.test"],
    ]


def test_the_commands_for_a_queue_that_its_group_and_a_quota_hold_revive_it(tmp_path: Path) -> None:
    group = {"name": "site", "by": "registered-domain", "total_budget": 2}
    with on_disk(tmp_path, retire_when="reached", quotas={"host": {"urls": 2}}, groups=[group]) as f:
        f.schedule_many(pages("a", 5))
        assert crawl(f) == "AA"
        assert f.verdict().text.startswith(
            "The crawl is finished: only retired queues are left (1, with 3 URIs); the group site/a.test has spent 2 "
            "of its total budget of 2: `adjust` it or a budget to revive them."
        )
    [found] = commands(tmp_path)
    assert found == [
        "budgetfrontier adjust news --match group:site/a.test --set group.total_budget=4",
        "budgetfrontier adjust news --match host:a.test --set 'quotas.host={urls: 4}'",
    ]
    with on_disk(tmp_path) as f:
        f.adjust(match="group:site/a.test", **{"group.total_budget": 4})  # type: ignore[arg-type]
        f.adjust(match="host:a.test", **{"quotas.host": {"urls": 4}})  # type: ignore[arg-type]
        assert crawl(f) == "AA"
