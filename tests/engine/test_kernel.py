"""When a crawl is over, and its other states: NEW, RUNNING, PAUSED, FINISHED, TERMINATED."""

from __future__ import annotations

import pytest

from budgetfrontier import CrawlState, CrawlUri, Outcome
from budgetfrontier.clock import ManualClock
from budgetfrontier.engine.lease_table import Leases
from tests.support import START, crawl, crawl_state, memory, one, pages, state


def test_a_crawl_is_new_then_running_then_finished_then_running() -> None:
    with memory() as f:
        assert crawl_state(f) == "NEW"
        assert f.lease(1) == []
        f.schedule("no url")
        assert crawl_state(f) == "NEW"
        f.schedule_many(pages("A", 1))
        assert crawl_state(f) == "RUNNING"
        assert crawl(f) == "A"
        assert crawl_state(f) == "FINISHED"
        assert f.next_ready_in() is None
        f.schedule_many(pages("A", 1, first=1))
        assert crawl_state(f) == "RUNNING"


def test_pausing_waits_for_the_leases_that_are_out() -> None:
    with memory() as f:
        f.schedule_many(pages("AB", 2))
        lease = one(f)
        assert str(f.pause()) == "PAUSING"
        assert f.lease(1) == []
        f.finish(lease, Outcome.SUCCESS)
        assert crawl_state(f) == "PAUSED"
        f.schedule_many(pages("C", 1))
        f.adjust(queue_total_budget=50)
        assert (f.state, f.lease(1)) == (CrawlState.PAUSED, [])
        assert f.summary().pause_reason == "operator"
        assert str(f.resume()) == "RUNNING"
        assert f.summary().pause_reason is None
        assert crawl(f) == "ABBC"


def test_terminated_is_for_good() -> None:
    with memory() as f:
        f.schedule_many(pages("A", 2))
        lease = one(f)
        assert str(f.terminate()) == "TERMINATED"
        assert f.lease(1) == []
        f.finish(lease, Outcome.SUCCESS, discovered=["https://b.test/found"])
        assert str(f.resume()) == "TERMINATED"
        tally = f.schedule_many(["https://a.test/late", "https://a.test/1"])
        assert (tally.added, tally.duplicate) == (1, 1)
        assert f.lease(1) == []
        assert (f.summary().queued, f.summary().scheduled) == (3, 4), "it is there, for an export"


def test_what_is_scheduled_for_later_keeps_a_crawl_running() -> None:
    clock = ManualClock(START)
    with memory(clock) as f:
        f.schedule(CrawlUri("https://a.test/", not_before=START + 50))
        assert (f.state, f.summary().future, f.summary().queued) == (CrawlState.RUNNING, 1, 0)
        assert f.lease(1) == []
        assert f.next_ready_in() == pytest.approx(50)
        clock.advance(50)
        assert crawl(f) == "A"
        assert crawl_state(f) == "FINISHED"


def test_what_is_scheduled_later_for_a_retired_queue_does_not() -> None:
    with memory() as f:
        f.schedule("https://a.test/1")
        f.schedule(CrawlUri("https://a.test/2", not_before=START + 50))
        f.retire("a.test")
        assert crawl_state(f) == "FINISHED"
        assert f.lease(1) == []
        assert f.next_ready_in() is None


@pytest.mark.parametrize("call", ["schedule", "schedule_many", "schedule_each"])
@pytest.mark.parametrize("pause", [False, True])
def test_an_arrival_that_retires_its_queue_may_leave_nothing_to_do(call: str, pause: bool) -> None:
    with memory(hold_queues=False, balance_replenish_amount=0, pause_at_finish=pause) as f:
        f.schedule(CrawlUri("https://a.test/2", not_before=START + 50))
        assert crawl_state(f) == "RUNNING"
        getattr(f, call)("https://a.test/1" if call == "schedule" else ["https://a.test/1"])
        assert crawl_state(f) == ("PAUSED" if pause else "FINISHED")
        assert state(f, "A") == "RETIRED"


def test_the_leases_are_looked_at_only_if_one_may_expire_first(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, looked = ManualClock(START), []

    def counted(leases: Leases) -> float:
        looked.append(len(leases.out))
        return min(lease.expires for lease in leases.out.values())

    monkeypatch.setattr(Leases, "first_expiry", counted)
    with memory(clock, politeness={"min_delay": 3, "delay_factor": 0}) as f:
        f.schedule_many(pages("ABC", 2))
        first, *_ = f.lease(3, ttl=60)
        f.finish(first)
        assert (f.next_ready_in(), looked) == (3.0, [])
        f.snooze("a.test", until=START + 100)
        assert (f.next_ready_in(), looked) == (60.0, [2])
