"""The budgets that queues have by the settings in force, as a reader shows them before their next turn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from budgetfrontier import Reader
from budgetfrontier.reports import over_time, text
from budgetfrontier.reports.overview import Overview
from budgetfrontier.settings.overrides import Effective
from budgetfrontier.storage.budgets_in_force import BudgetsInForce
from budgetfrontier.storage.queue_listing import queues
from tests.support import crawl, on_disk, pages


def test_budgets_are_those_of_the_first_uri_that_is_not_out(tmp_path: Path) -> None:
    with on_disk(tmp_path, concurrency=2) as f:
        f.schedule_many(["https://a.test/out", "https://a.test/next", "https://a.test/last", "https://b.test/out"])
        f.lease(1)
        f.adjust(match="regex:/out$", queue_total_budget=1)
        f.adjust(match="regex:/next$", queue_total_budget=2)
        with Reader(tmp_path / "frontier") as reader:
            f.commit()
            assert [row.total_budget for row in reader.queues()] == [2, 1]
            f.lease(2)
            f.commit()
            assert f.summary().in_process == 3
            assert [row.total_budget for row in reader.queues()] == [row.total_budget for row in f.report().queues]


def test_budgets_of_an_empty_queue_are_those_of_the_uri_placed_on_it_last(tmp_path: Path) -> None:
    with on_disk(tmp_path, queue_total_budget=8) as f:
        f.schedule_many(["https://a.test/old", "https://a.test/last", "https://b.test/", "https://c.test/"])
        while leases := f.lease(1):
            f.finish(leases[0])
        f.retire("c.test")
        f.commit()
        with Reader(tmp_path / "frontier") as reader:

            def shown() -> list[int]:
                f.commit()
                rows = [row.total_budget for row in reader.queues()]
                assert rows == [row.total_budget for row in f.report().queues]
                assert rows == [row.total_budget for row in map(reader.queue, ["a.test", "b.test", "c.test"]) if row]
                return rows

            f.adjust(match="*", queue_total_budget=1)
            assert shown() == [1, 1, 1]
            f.adjust(match="regex:/last$", queue_total_budget=3)
            f.adjust(match="regex:/old$", queue_total_budget=4)
            f.adjust(match="queue:c.test", balance_replenish_amount=0)
            assert shown() == [3, 1, 1]
            assert [row.balance_replenish_amount for row in reader.queues()] == [3000, 3000, 0]


def test_a_queue_is_over_budget_while_it_is_retired_and_while_it_waits_to_retire_again(tmp_path: Path) -> None:
    def over() -> set[str]:
        f.commit()
        with Reader(tmp_path / "frontier") as reader, reader.view() as view:
            return set(map(str, (queue.queue for queue in filter(BudgetsInForce(view).over_budget, queues(view)))))

    with on_disk(tmp_path, queue_total_budget=1, pause_at_finish=True) as f:
        f.schedule_many(pages("AB", 5))
        f.schedule_many(pages("C", 1))
        crawl(f)
        f.retire("b.test")
        assert over() == {"a.test"}, "b.test is retired by name, and c.test is empty"
        f.adjust(match="queue:nobody.test", precedence=2)
        assert over() == {"a.test"}, "all others are INACTIVE now"
        f.adjust(match="queue:a.test", queue_total_budget=50)
        assert over() == set()
        f.adjust(match="queue:a.test", balance_replenish_amount=0)
        assert over() == {"a.test"}


def test_a_report_looks_up_the_budgets_of_the_queues_that_it_lists_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up = list[str]()
    for_one: Callable[..., object] = Effective.for_one

    def noted(effective: Effective, href: str, queue: str, label: str | None) -> object:
        looked_up.append(queue)
        return for_one(effective, href, queue, label)

    with on_disk(tmp_path) as f:
        f.schedule_many(f"https://a{n}.test/{page}" for n in range(50) for page in range(1 + n % 3))
        while leases := f.lease(10):
            f.finish_many(leases[:5])
            if f.summary().queued < 60:
                break
        f.commit()
        f.adjust(match="regex:/[01]$", queue_total_budget=7)
        f.adjust(match="host:a47.test", balance_replenish_amount=9, politeness={"min_delay": 4})
        f.commit()
        with Reader(tmp_path / "frontier") as reader:
            shown = {queue.queue: queue for queue in reader.queues()}
            monkeypatch.setattr(Effective, "for_one", noted)
            overview = Overview(3)
            head = overview.read(reader)
            assert 0 < len(looked_up) == len(set(looked_up)) <= 3 * 5 + 2 * 10
            whole = Overview(3).gather(shown.values())
            assert text.render(head, overview=overview, now=1.0) == text.render(head, overview=whole, now=1.0)
            looked_up.clear()
            with reader.view() as view:
                held = over_time.held(view)
            holding = {name for name, queue in shown.items() if queue.queued}
            assert looked_up == [name for name in shown if name in holding], "an empty queue holds nothing"
            assert held.unlimited == sum(q.queued for q in shown.values() if q.total_budget < 0)
