"""Leases by queue: several URIs in one turn, intervals, limits, and queues that are asked for by key."""

from __future__ import annotations

from collections import Counter

from budgetfrontier import QueueState
from budgetfrontier.clock import ManualClock
from budgetfrontier.model import Lease
from tests.engine.test_url_table import NONE, START, kept

MANY = {**NONE, "per_queue_concurrency": 100}


def numbers(leases: list[Lease]) -> dict[str, int]:
    return dict(Counter(lease.queue for lease in leases))


def test_each_queue_hands_out_as_many_as_may_be_out() -> None:
    with kept(politeness=MANY) as f:
        f.schedule_many([f"http://{host}.test/{n}" for n in range(5) for host in "abc"])
        assert numbers(f.lease_queues(2, 3)) == {"a.test": 3, "b.test": 3}
        assert numbers(f.lease_queues(9, 3)) == {"c.test": 3}
        assert f.lease_queues(9, 3) == []
        assert numbers(f.lease_queues(9, 0)) == {"a.test": 2, "b.test": 2, "c.test": 2}
        f.check()


def test_the_setting_of_concurrency_holds() -> None:
    with kept() as f:
        f.schedule_many([f"http://a.test/{n}" for n in range(5)])
        assert numbers(f.lease_queues(1, 3)) == {"a.test": 1}


def test_a_queue_rests_for_its_interval_exactly() -> None:
    clock = ManualClock(START)
    with kept(clock, politeness={**MANY, "min_interval": 2}) as f:
        f.schedule_many([f"http://a.test/{n}" for n in range(9)])
        assert len(f.lease_queues(1, 2)) == 2
        clock.advance(1.999)
        assert f.lease_queues(1, 9) == []
        clock.advance(0.001)
        assert len(f.lease_queues(1, 4)) == 2
        assert f.lease(9) == []
        clock.advance(2)
        assert len(f.lease(9)) == 1, "a plain lease takes one URI of a queue, and then it rests as well"


def test_an_interval_by_name_replaces_that_of_the_settings_at_once() -> None:
    clock = ManualClock(START)
    with kept(clock, politeness={**MANY, "min_interval": 100}) as f:
        f.schedule_many([f"http://a.test/{n}" for n in range(9)])
        f.lease_queues(1, 1)
        assert f.set_queue("a.test", interval=5)
        clock.advance(4.9)
        assert f.lease_queues(1, 9) == []
        clock.advance(0.1)
        assert len(f.lease_queues(1, 2)) == 1
        f.set_queue("a.test", interval=0)
        assert len(f.lease_queues(1, 3)) == 1
        assert not f.set_queue("b.test", interval=0)


def test_a_queue_with_its_limit_of_completed_urls_is_retired_until_it_is_raised() -> None:
    with kept() as f:
        f.schedule_many([f"http://a.test/{n}" for n in range(5)])
        f.set_queue("a.test", max_completed=2)
        for _ in range(2):
            f.finish_many(f.lease_queues(1))
            f.commit()
        assert f.lease_queues(1) == []
        record = f.queue("a.test")
        assert record is not None
        assert (record.state, record.completed) == (QueueState.RETIRED, 2)
        f.set_queue("a.test", max_completed=0)
        assert numbers(f.lease_queues(1)) == {"a.test": 1}


def test_a_queue_may_be_asked_for_by_key() -> None:
    with kept(hold_queues=True) as f:
        f.schedule_many([f"http://{host}.test/{n}" for n in range(2) for host in "abc"])
        assert numbers(f.lease_queues(1, 2, queue="b.test")) == {"b.test": 1}
        assert f.lease_queues(1, 2, queue="b.test") == []
        assert f.lease_queues(1, 2, queue="none.test") == []
        f.check()
