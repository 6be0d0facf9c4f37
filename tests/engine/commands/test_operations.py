"""Commands that change the state of a queue or of the crawl: retire, snooze, wake, pause, terminate."""

from __future__ import annotations

import pytest

from budgetfrontier import CrawlState
from budgetfrontier.clock import ManualClock
from tests.support import START, crawl, crawl_state, memory, pages, state


def test_retiring_by_name_outlives_a_change_of_settings() -> None:
    with memory() as f:
        f.schedule_many(pages("AB", 2))
        assert f.retire("a.test", reason="a trap", who="me")
        assert not f.retire("unknown.test")
        f.adjust(queue_total_budget=1000)
        assert state(f, "A") == "RETIRED"
        assert crawl(f) == "BB"
        assert crawl_state(f) == "FINISHED"
        assert f.unretire("a.test")
        assert (state(f, "A"), f.state) == ("INACTIVE", CrawlState.RUNNING)
        assert crawl(f) == "AA"


def test_an_empty_queue_is_unretired_to_exhausted() -> None:
    with memory() as f:
        f.schedule_many(pages("A", 1))
        assert crawl(f) == "A"
        f.retire("a.test")
        assert state(f, "A") == "RETIRED"
        f.unretire("a.test")
        assert state(f, "A") == "EXHAUSTED"


def test_snooze_and_wake() -> None:
    clock = ManualClock(START)
    with memory(clock) as f:
        f.schedule_many(pages("AB", 2))
        assert f.snooze("a.test", until=START + 100)
        assert not f.snooze("unknown.test", until=START + 100)
        assert crawl(f) == "BB"
        assert state(f, "A") == "SNOOZED"
        assert f.next_ready_in() == pytest.approx(100)
        assert f.wake("a.test")
        assert crawl(f) == "AA"
