"""`target_active`: how many queues are kept active."""

from __future__ import annotations

from typing import Any

import pytest

from budgetfrontier import Frontier, Lease, Outcome, QueueState
from budgetfrontier.engine import turns
from budgetfrontier.testing import ManualClock
from tests.settings.files import problems
from tests.support import START, make_settings


def opened(hosts: int, pages: int = 3, *, clock: ManualClock | None = None, **options: Any) -> Frontier:
    frontier = Frontier.open(":memory:", make_settings(**options), clock=clock or ManualClock(START))
    frontier.schedule_many([f"https://{chr(97 + host)}.test/{page}" for host in range(hosts) for page in range(pages)])
    return frontier


def active(frontier: Frontier) -> int:
    count = frontier.summary().queues
    return sum(count[state] for state in (QueueState.READY, QueueState.IN_PROCESS, QueueState.SNOOZED))


def order(frontier: Frontier) -> str:
    """One worker; the first letter of each host in the order of the crawl."""
    found = ""
    while leases := frontier.lease(1):
        found += leases[0].queue[0]
        frontier.finish(leases[0], Outcome.SUCCESS)
    return found


def test_auto_activates_one_when_none_is_ready() -> None:
    with opened(4) as frontier:
        frontier.lease(1)
        assert active(frontier) == 1
        frontier.lease(2)
        assert active(frontier) == 3
    with opened(3, balance_replenish_amount=2) as frontier:
        assert order(frontier) == "aabbccabc"


def test_a_number_keeps_as_many_active_and_those_take_turns() -> None:
    with opened(4, target_active=3) as frontier:
        assert active(frontier) == 0, "until something is asked for"
        frontier.lease(1)
        assert active(frontier) == 3
    with opened(3, target_active=2, balance_replenish_amount=2) as frontier:
        assert order(frontier) == "ababcacbc"
    with opened(3, target_active=9) as frontier:
        assert order(frontier) == "abcabcabc"


def test_snoozed_queues_are_active() -> None:
    clock = ManualClock(START)
    with opened(5, target_active=2, polite=True, clock=clock) as frontier:
        leases: list[Lease] = frontier.lease(2)
        for lease in leases:
            frontier.finish(lease, Outcome.SUCCESS, fetch_seconds=1.0)
        assert active(frontier) == 2
        assert [lease.queue for lease in frontier.lease(1)] == ["c.test"], (
            "none is READY, so that one more is activated"
        )
        assert active(frontier) == 3


def test_better_precedences_first_and_those_over_budget_are_retired() -> None:
    overrides = [
        {"match": "host:d.test", "set": {"precedence": 1}},
        {"match": "host:a.test", "set": {"queue_total_budget": 0, "retire_when": "reached"}},
    ]
    with opened(5, target_active=3, overrides=overrides) as frontier:
        frontier.lease(1)
        queues = {name: frontier.queue(f"{name}.test") for name in "abcde"}
        assert [name for name, queue in queues.items() if queue and queue.state is QueueState.RETIRED] == ["a"]
        assert [name for name, queue in queues.items() if queue and queue.state is QueueState.INACTIVE] == ["e"]


def test_a_call_activates_some_and_the_next_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "MAX_TURNS", 2)
    with opened(5, target_active=5) as frontier:
        assert len(frontier.lease(1)) == 1
        assert active(frontier) == 2
        frontier.lease(1)
        assert active(frontier) == 4


@pytest.mark.parametrize("value", [0, -1, "many", True, 1.5])
def test_it_is_auto_or_a_number(value: object) -> None:
    (problem,) = problems({"frontier": {"target_active": value}})
    assert "expected auto, or a whole number of at least 1" in problem
