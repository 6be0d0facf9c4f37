"""The budgets that queues have by the settings in force, as a reader shows them before their next turn."""

from __future__ import annotations

from pathlib import Path

from budgetfrontier import Reader
from budgetfrontier.store.budgets_in_force import BudgetsInForce
from budgetfrontier.store.queue_listing import queues
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
