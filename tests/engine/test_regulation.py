"""What crawlers ask for queues: it holds, survives, and gives way to operators; nothing of it is audited."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Frontier, FrontierError, QueueState, Reader
from budgetfrontier.clock import ManualClock
from budgetfrontier.reports.sources import setting_sources
from tests.support import START, crawl, memory, on_disk, pages, whole

HOST = "a.test"


def fetched(f: Frontier, count: int) -> int:
    """The number of URIs that can be fetched of so many."""
    return len(crawl(f, count))


def test_a_budget_holds_at_once_and_after_a_restart(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with on_disk(tmp_path, clock, polite=False) as f:
        f.schedule_many(pages("A", 20))
        assert f.internals.regulate(HOST, total_budget=4) and not f.internals.regulate("b.test", total_budget=4)
        assert fetched(f, 20) == 5  # it is exceeded then
        assert (q := f.queue(HOST)) and (q.state, q.total_budget) == (QueueState.RETIRED, 4)
        assert f.internals.regulate(HOST, total_budget=7)
        assert fetched(f, 20) == 3
        whole(f)
    with on_disk(tmp_path, clock) as f:
        f.schedule_many([f"https://{HOST}/more"])
        assert (q := f.queue(HOST)) and q.total_budget == 7
        assert fetched(f, 20) == 0
        assert f.internals.regulate(HOST, total_budget=-1)
        assert fetched(f, 20) == 13
        assert f.audit() == []
        whole(f)


def test_an_adjustment_of_an_operator_replaces_what_crawlers_ask_for() -> None:
    with memory() as f:
        f.schedule_many(pages("A", 20))
        f.internals.regulate(HOST, total_budget=2)
        number = f.adjust(match=f"queue:{HOST}", queue_total_budget=5).id
        f.internals.regulate(HOST, total_budget=1)
        assert fetched(f, 20) == 6
        assert (q := f.queue(HOST)) and q.total_budget == 5
        f.undo(number)
        assert (q := f.queue(HOST)) and q.total_budget == 1
        assert f.lease(1) == []
        preview = f.adjust(match="*", queue_total_budget=9, dry_run=True)
        assert preview.revived == [HOST]
        preview = f.adjust(match="*", balance_replenish_amount=9, dry_run=True)
        assert preview.revived == []  # the budget that crawlers have asked for holds
        f.internals.regulate(HOST, total_budget=100)
        f.adjust(match="host:other.test", queue_total_budget=1)
        assert fetched(f, 20) == 14
        whole(f)


def test_reports_tell_the_budget_that_crawlers_have_asked_for(tmp_path: Path) -> None:
    with on_disk(tmp_path, polite=False) as f:
        f.schedule_many(pages("A", 5))
        f.internals.regulate(HOST, total_budget=2)
        f.commit()
        with Reader(tmp_path / "frontier") as reader, reader.view() as view:
            [found] = [
                one for one in setting_sources(view, f"https://{HOST}/0", HOST) if one["name"] == "queue_total_budget"
            ]
            assert found["value"] == 2 and found["sources"][-1] == {"kind": "crawlers", "value": 2}
        f.adjust(match="*", precedence=2)  # the record has older settings then
        f.commit()
        with Reader(tmp_path / "frontier") as reader:
            assert [queue.total_budget for queue in reader.queues()] == [2]


def test_a_block_ends_when_it_is_told_to_and_rests_stay() -> None:
    clock = ManualClock(START)
    with memory(clock, keep_urls=True, hold_queues=False) as f:
        f.schedule_many(pages("A", 5))
        f.internals.regulate(HOST, interval=10.0)
        assert fetched(f, 1) == 1
        f.internals.regulate(HOST, blocked_until=START + 3600)
        clock.advance(11)
        assert f.lease(1) == []
        f.internals.regulate(HOST, blocked_until=START + 15)  # earlier than it was
        clock.advance(5)
        assert fetched(f, 1) == 1
        f.internals.regulate(HOST, blocked_until=START + 3600)
        f.internals.regulate(HOST, blocked_until=0)
        assert f.lease(1) == []  # the interval is not over
        clock.advance(10)
        assert fetched(f, 1) == 1
        assert f.audit() == []
        whole(f)


@pytest.mark.parametrize(
    "asked",
    [
        {"interval": -1},
        {"max_completed": -1},
        {"total_budget": -2},
        {"total_budget": 1 << 60},
        {"blocked_until": float("nan")},
    ],
)
def test_what_cannot_be_is_refused(asked: dict[str, Any]) -> None:
    with memory(keep_urls=True) as f:
        f.schedule_many(pages("A", 1))
        with pytest.raises(FrontierError):
            f.internals.regulate(HOST, **asked)
        assert fetched(f, 1) == 1


def test_intervals_and_limits_need_kept_urls() -> None:
    with memory() as f:
        f.schedule_many(pages("A", 1))
        for asked in ({"interval": 1.0}, {"max_completed": 1}):
            with pytest.raises(FrontierError, match="keep_urls"):
                f.internals.regulate(HOST, **asked)
