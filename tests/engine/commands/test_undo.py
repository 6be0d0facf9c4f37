"""The undoing of commands: everything is as before them, and what has changed since is refused unless forced."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Frontier, Outcome
from budgetfrontier.clock import ManualClock
from budgetfrontier.errors import FrontierError
from tests.support import START, crawl, crawl_state, memory, on_disk, pages, record, state


def last(f: Frontier) -> int:
    """The id of the newest audit entry."""
    return f.audit(limit=1)[0].id


def in_force(f: Frontier) -> list[tuple[int, str, dict[str, Any]]]:
    """The adjustments, in their order."""
    adjustments = f._tables.in_force.adjustments
    return [(one.id, one.match, one.set) for one in adjustments]


def test_an_adjustment_that_was_replaced_returns_to_its_place() -> None:
    with memory(queue_total_budget=20000) as f:
        f.schedule_many(pages("A", 2))
        for match, budget in (("queue:a.test", 5), ("queue:*.test", 7), ("queue:a.test", 500)):
            f.adjust(match=match, queue_total_budget=budget)
        assert [number for number, *_ in in_force(f)] == [2, 3]
        f.undo(3)
        assert in_force(f) == [
            (1, "queue:a.test", {"queue_total_budget": 5}),
            (2, "queue:*.test", {"queue_total_budget": 7}),
        ]
        f.undo(4)  # the undo
        assert [number for number, *_ in in_force(f)] == [2, 3] and record(f, "A").total_budget == 500
        f.undo(3)
        assert [number for number, *_ in in_force(f)] == [1, 2]
        with pytest.raises(FrontierError, match="undone already"):
            f.undo(3)
        f.check()


def test_a_withdrawal_is_undone() -> None:
    with memory() as f:
        f.adjust(queue_total_budget=5)
        f.withdraw(1)
        f.undo(2)
        assert in_force(f) == [(1, "*", {"queue_total_budget": 5})]
        f.undo(1)
        assert in_force(f) == []


def test_a_setting_that_was_changed_since_is_refused() -> None:
    with memory() as f:
        f.adjust(queue_total_budget=5)
        f.adjust(match="queue:a.test", queue_total_budget=6)
        with pytest.raises(FrontierError, match="adjustment 2 sets the same settings since"):
            f.undo(1)
        assert len(in_force(f)) == 2
        f.undo(1, force=True)
        assert [number for number, *_ in in_force(f)] == [2]
        f.adjust(match="queue:a.test", queue_total_budget=8)
        with pytest.raises(FrontierError, match=r"not in force any more: .*undo these first, the newest first"):
            f.undo(2, force=True)


def test_what_was_changed_since_for_other_queues_alone_hinders_no_undo() -> None:
    with memory() as f:
        f.adjust(match="host:a.test", queue_total_budget=5)
        f.adjust(match="domain:b.test", queue_total_budget=6, balance_replenish_amount=7)
        f.adjust(match="host:c.test", queue_total_budget=8)
        f.adjust(match="queue:b.test", queue_total_budget=9)
        with pytest.raises(FrontierError, match=r'adjustment 4 sets .* since, and "queue:b.test" may match the same'):
            f.undo(2)
        with pytest.raises(FrontierError, match="adjustment 4"):
            f.undo(1)  # a URI of any host may have been scheduled on any queue
        f.undo(4)
        f.undo(1)
        f.undo(3)
        f.undo(2)
        assert in_force(f) == []


@pytest.mark.parametrize(
    ("first", "command", "since"),
    [
        (None, lambda f: f.retire("a.test"), lambda f: f.unretire("a.test")),
        (lambda f: f.retire("a.test"), lambda f: f.unretire("a.test"), lambda f: f.retire("a.test")),
        (None, lambda f: f.snooze("a.test", until=START + 99), lambda f: f.wake("a.test")),
        (
            lambda f: f.snooze("a.test", until=START + 99),
            lambda f: f.wake("a.test"),
            lambda f: f.snooze("a.test", until=START + 9),
        ),
        (None, lambda f: f.pause(), None),
        (lambda f: f.pause(), lambda f: f.resume(), None),
    ],
)
def test_a_queue_and_the_crawl_are_as_before(
    first: Callable[[Frontier], Any] | None, command: Callable[[Frontier], Any], since: Callable[[Frontier], Any] | None
) -> None:
    with memory() as f:
        f.schedule_many(pages("AB", 3))
        crawl(f, 1)
        if first is not None:
            first(f)

        def look() -> tuple[Any, ...]:
            queue = record(f, "A")
            retired = queue.state == "RETIRED"
            return retired, queue.by_name, queue.block, queue.wake_time, crawl_state(f), f.summary().queued

        before = look()
        command(f)
        number = last(f)
        after = look()
        assert after != before
        f.undo(number)
        assert look() == before
        f.check()
        f.undo(last(f))
        assert look() == after
        if since is not None:
            f.undo(number)
            command(f)
            number = last(f)
            since(f)
            with pytest.raises(FrontierError, match="changed since"):
                f.undo(number)
            f.undo(number, force=True)
        f.check()
        f.resume()
        f.unretire("a.test")
        f.wake("a.test")
        assert sorted(crawl(f)) == list("AABBB")


@pytest.mark.parametrize("force", [False, True])
def test_an_adjustment_that_a_newer_one_would_replace_does_not_come_back(force: bool) -> None:
    with memory() as f:
        f.adjust(match="queue:a.test", queue_total_budget=5)
        f.withdraw(1)
        f.adjust(match="queue:a.test", queue_total_budget=7)
        with pytest.raises(FrontierError, match="not in force any more"):
            f.undo(2, force=force)
        f.undo(3)
        f.undo(2)
        assert in_force(f) == [(1, "queue:a.test", {"queue_total_budget": 5})]


def test_a_limit_that_was_given_since_does_not_hinder_the_undo_of_an_interval() -> None:
    with memory(keep_urls=True) as f:
        f.schedule_many(pages("A", 2))
        f.set_queue("a.test", interval=90.0)
        f.set_queue("a.test", max_completed=5)
        f.undo(1)
        assert (record(f, "A").interval, record(f, "A").max_completed) == (None, 5)
        f.set_queue("a.test", interval=9.0)
        f.set_queue("a.test", interval=5.0, max_completed=7)
        with pytest.raises(FrontierError, match=r"its interval is 5s, and was 9s; `undo"):
            f.undo(4)
        with pytest.raises(FrontierError, match=r"its limit of completed URLs is 7, and was 5; `undo"):
            f.undo(2)


def test_a_queue_over_budget_that_was_retired_by_name_is_over_budget_again() -> None:
    with memory(queue_total_budget=1) as f:
        f.schedule_many(pages("A", 4))
        crawl(f)
        f.retire("a.test")
        f.undo(last(f))
        assert (state(f, "A"), record(f, "A").by_name) == ("RETIRED", False)
        f.unretire("a.test")
        f.undo(last(f))
        assert (state(f, "A"), record(f, "A").by_name) == ("RETIRED", False)
        f.check()
        f.adjust(queue_total_budget=9)
        assert crawl(f) == "AA"


@pytest.mark.parametrize("ended", ["finish", "finish_many", "landed", "delayed"])
def test_a_rest_that_was_earned_under_a_block_stays(ended: str) -> None:
    clock = ManualClock(START)
    with memory(clock, politeness={"min_delay": "60s", "max_delay": "60s"}) as f:
        f.schedule_many(pages("A", 3))
        (lease,) = f.lease(1)
        f.snooze("a.test", until=START + 5000)
        f.snooze("a.test", until=START + 9000)
        clock.advance(10)
        until = START + 70
        if ended == "finish":
            f.finish(lease)
        elif ended == "finish_many":
            f.finish_many([lease])
        elif ended == "landed":
            f.landed(lease)
            f.finish(lease)
        else:
            f.finish(lease, Outcome.RETRY, delay=2000.0)
            until = START + 2010
        assert record(f, "A").wake_time == START + 9000
        f.undo(2)
        assert record(f, "A").wake_time == START + 5000
        f.undo(1)
        assert (record(f, "A").wake_time, record(f, "A").block) == (until, 0)
        f.undo(4)  # blocked again, and taken back again
        f.undo(1)
        assert record(f, "A").wake_time == until
        clock.set(until - 1)
        assert f.lease(1) == []
        clock.set(until)
        assert len(f.lease(1)) == 1
        f.check()


def test_a_block_that_comes_back_covers_the_rests_earned_without_it() -> None:
    clock = ManualClock(START)
    with memory(clock, politeness={"min_delay": "60s", "max_delay": "60s"}) as f:
        f.schedule_many(pages("A", 5))
        f.snooze("a.test", until=START + 5000)
        f.wake("a.test")
        f.finish(f.lease(1)[0])
        f.undo(2, force=True)
        assert record(f, "A").wake_time == START + 5000
        f.undo(1)
        assert record(f, "A").wake_time == START + 60


def test_a_wait_that_its_operator_has_ended_is_ended_again() -> None:
    with memory(politeness={"min_delay": "60s", "max_delay": "60s"}) as f:
        f.schedule_many(pages("A", 5))
        (lease,) = f.lease(1)
        f.snooze("a.test", until=START + 5000)
        f.finish(lease)
        f.wake("a.test")
        f.undo(2)
        assert record(f, "A").wake_time == START + 5000
        f.undo(3)
        assert record(f, "A").wake_time == START


def test_a_delay_given_by_name_is_not_clipped_once_the_block_over_it_is_undone(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with on_disk(tmp_path, clock) as f:
        f.schedule_many(pages("A", 2))
        (lease,) = f.lease(1)
        f.snooze("a.test", until=START + 90_000)
        f.finish(lease, Outcome.RETRY, delay=80_000.0)
        f.undo(1)
    with on_disk(tmp_path, clock) as f:
        assert record(f, "A").wake_time == START + 80_000


def test_an_operators_pause_holds_a_crawl_that_is_paused_at_its_finish_and_its_undo_ends_that() -> None:
    with memory(pause_at_finish=True) as f:
        f.schedule_many(pages("A", 1))
        crawl(f, 1)

        def look() -> tuple[str, str | None]:
            return crawl_state(f), f.summary().pause_reason

        assert look() == ("PAUSED", "finish")
        f.pause(reason="night")
        number = last(f)
        f.pause(reason="scope")
        assert look() == ("PAUSED", "night"), "the first pause of an operator's stays"
        f.undo(number)
        assert look() == ("PAUSED", "finish")
        f.undo(last(f))
        assert look() == ("PAUSED", "night")
        f.pause()
        with pytest.raises(FrontierError, match="changed nothing"):
            f.undo(last(f))


def test_what_cannot_be_undone_says_why() -> None:
    with memory() as f:
        f.schedule_many(pages("A", 3))
        f.delete(queue="a.test", for_good=True)
        f.pause()
        f.pause()
        f.terminate()
        for number, why in [
            (1, "was for good"),
            (2, "TERMINATED"),
            (3, "changed nothing"),
            (4, "cannot"),
            (99, "no"),
        ]:
            with pytest.raises(FrontierError, match=why):
                f.undo(number)


def test_what_a_sheet_is_associated_with_is_undone_pattern_by_pattern() -> None:
    """Each association stands alone, although both patterns may match the same queue."""
    with memory() as f:
        f.schedule_many(pages("A", 2))
        f.adjust(match="sheet:small", queue_total_budget=9)
        f.adjust(match="host:a.test", sheet="small")
        f.adjust(match="surt:(test,a,", sheet="small")
        f.undo(2)
        assert [number for number, *_ in in_force(f)] == [1, 3] and record(f, "A").total_budget == 9
        f.adjust(match="surt:(test,a,", without_sheet="small")
        with pytest.raises(FrontierError, match="replaced"):
            f.undo(3)
