"""URIs that reach their queues: which state a queue gets by one, and what it may hand out then."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support import crawl, memory, pages, record, state


def test_a_held_queue_starts_inactive() -> None:
    with memory() as f:
        f.schedule_many(pages("A", 1))
        assert state(f, "A") == "INACTIVE"


def test_a_queue_not_held_is_active_at_once() -> None:
    with memory(hold_queues=False, balance_replenish_amount=7) as f:
        f.schedule_many(pages("A", 1))
        assert (state(f, "A"), record(f, "A").balance) == ("READY", 7)


@pytest.mark.parametrize(
    "budget", [{"balance_replenish_amount": 0}, {"queue_total_budget": 0, "retire_when": "reached"}]
)
def test_a_queue_not_held_and_without_means_is_retired_at_once(budget: dict[str, Any]) -> None:
    with memory(hold_queues=False, **budget) as f:
        f.schedule_many(pages("A", 1))
        assert state(f, "A") == "RETIRED"


def test_an_exhausted_queue_comes_back_with_its_history() -> None:
    with memory() as f:
        f.schedule_many(pages("A", 2))
        assert crawl(f) == "AA"
        assert state(f, "A") == "EXHAUSTED"
        f.schedule("https://a.test/new")
        assert (state(f, "A"), record(f, "A").expenditure) == ("INACTIVE", 2)


def test_a_queue_may_hand_out_more_when_a_uri_arrives() -> None:
    with memory(concurrency=2) as f:
        f.schedule_many(pages("A", 1))
        assert len(f.lease(5)) == 1
        assert state(f, "A") == "IN_PROCESS"
        f.schedule("https://a.test/new")
        assert state(f, "A") == "READY"
        assert len(f.lease(5)) == 1
