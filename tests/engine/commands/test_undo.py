"""The undoing of commands: everything is as before them, and what has changed since is refused unless forced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from budgetfrontier import Frontier
from budgetfrontier.errors import FrontierError
from tests.support import START, crawl, crawl_state, memory, pages, record, state


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
        with pytest.raises(FrontierError, match="not in force any more"):
            f.undo(2, force=True)


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


def test_what_cannot_be_undone_says_why() -> None:
    with memory() as f:
        f.schedule_many(pages("A", 3))
        f.delete(queue="a.test")
        f.pause()
        f.pause()
        f.terminate()
        for number, why in [
            (1, "in memory"),
            (2, "TERMINATED"),
            (3, "changed nothing"),
            (4, "cannot"),
            (99, "no"),
        ]:
            with pytest.raises(FrontierError, match=why):
                f.undo(number)
