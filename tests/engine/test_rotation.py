"""Whose turn it is: the ring of the READY, the FIFOs of the INACTIVE, the SNOOZED, the RETIRED."""

from __future__ import annotations

from pathlib import Path

from budgetfrontier.clock import ManualClock
from tests.support import START, crawl, memory, on_disk, pages, state


def test_ready_queues_take_turns() -> None:
    with memory(hold_queues=False) as f:
        f.schedule_many(pages("ABC", 2))
        assert crawl(f) == "ABCABC"


def test_inactive_queues_wait_until_none_is_ready() -> None:
    with memory() as f:
        f.schedule_many(pages("AB", 3))
        assert crawl(f) == "AAABBB"


def test_the_best_precedence_is_activated_first() -> None:
    overrides = [
        {"match": "queue:b.test", "set": {"precedence": 1}},
        {"match": "queue:c.test", "set": {"precedence": 2}},
    ]
    with memory(overrides=overrides) as f:
        f.schedule_many(pages("ABC", 2))
        assert crawl(f) == "BBCCAA"


def test_snoozed_queues_come_back_by_wake_time_and_behind_the_ready() -> None:
    clock = ManualClock(START)
    with memory(clock, hold_queues=False) as f:
        f.schedule_many(pages("ABCD", 1))
        f.snooze("a.test", until=START + 20)
        f.snooze("b.test", until=START + 10)
        f.snooze("d.test", until=START + 20)
        clock.advance(30)
        assert crawl(f) == "CBAD"


def test_a_change_revives_in_the_order_of_retirement() -> None:
    with memory(queue_total_budget=0) as f:
        f.schedule_many(pages("ABC", 2))
        f.retire("b.test")
        assert crawl(f) == "AC"
        f.schedule_many(pages("D", 2))
        f.unretire("b.test")
        f.adjust(queue_total_budget=5)
        assert crawl(f) == "DDBBAC"


def test_a_change_exhausts_the_empty_retired() -> None:
    with memory(queue_total_budget=0) as f:
        f.schedule_many(pages("A", 1))
        assert crawl(f) == "A"
        assert state(f, "A") == "RETIRED"
        f.adjust(queue_total_budget=5)
        assert state(f, "A") == "EXHAUSTED"


def test_the_order_of_the_ring_survives_a_restart(tmp_path: Path) -> None:
    with on_disk(tmp_path, hold_queues=False) as f:
        f.schedule_many(pages("ABCD", 3))
        assert crawl(f, 2) == "AB"
    with on_disk(tmp_path) as f:
        assert [state(f, host) for host in "ABCD"] == ["READY"] * 4
        assert crawl(f) == "CDABCDABCD"


def test_the_order_of_the_fifos_survives_a_restart(tmp_path: Path) -> None:
    with on_disk(tmp_path, balance_replenish_amount=2) as f:
        f.schedule_many(pages("ABCD", 3))
        assert crawl(f, 4) == "AABB"
    with on_disk(tmp_path) as f:
        assert crawl(f) == "CCDDABCD"
