"""Leases by queue: several URIs in one turn, intervals, limits, and queues that are asked for by key."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from budgetfrontier import CrawlUri, Frontier, QueueState
from budgetfrontier.clock import ManualClock
from budgetfrontier.core.model import Lease
from budgetfrontier.errors import FrontierError
from budgetfrontier.testing import crash
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


def test_a_limit_counts_what_is_completed_as_of_now() -> None:
    """Not as of the last commit, at which finished URIs are deleted."""
    for by_queue in True, False:
        with kept() as f:
            hand_out = partial(f.lease_queues, 1) if by_queue else partial(f.lease, 1)
            f.schedule_many([f"http://a.test/{n}" for n in range(9)])
            f.set_queue("a.test", max_completed=3)
            for _ in range(3):
                f.finish_many(hand_out())
            assert hand_out() == []
            record = f.queue("a.test")
            assert record is not None
            assert (record.state, record.completed) == (QueueState.RETIRED, 3)
            f.check()


def test_a_queue_that_held_nothing_is_not_retired_for_a_url_that_is_not_completed_any_more() -> None:
    with kept() as f:
        f.schedule("http://a.test/")
        f.set_queue("a.test", max_completed=1)
        f.finish_many(f.lease())
        f.schedule_many([CrawlUri("http://a.test/", force=True)])
        assert numbers(f.lease()) == {"a.test": 1}
        f.check()


def test_a_longer_interval_counts_from_the_last_lease_even_if_there_was_none_then() -> None:
    clock = ManualClock(START)
    with kept(clock, politeness=MANY) as f:
        f.schedule_many([f"http://a.test/{n}" for n in range(9)])
        f.lease_queues(1, 1)
        clock.advance(1)
        f.set_queue("a.test", interval=5)
        clock.advance(3.9)
        assert f.lease(9) == []
        clock.advance(0.1)
        assert len(f.lease(9)) == 1
        f.check()


def test_an_interval_that_ends_leaves_politeness_and_blocks_alone() -> None:
    clock = ManualClock(START)
    polite = {"delay_factor": 0, "min_delay": 10, "max_delay": 10, "min_interval": 100}
    with kept(clock, politeness=polite) as f:
        f.schedule_many([f"http://a.test/{n}" for n in range(9)])
        f.finish_many(f.lease())
        f.set_queue("a.test", interval=0)
        clock.advance(9.9)
        assert f.lease() == [], "its host rests"
        clock.advance(0.1)
        f.finish_many(f.lease())
        f.snooze("a.test", until=START + 500)
        f.set_queue("a.test", interval=50)
        f.set_queue("a.test", interval=0)
        clock.advance(489.9)
        assert f.lease() == [], "an operator blocks it"
        clock.advance(0.1)
        assert len(f.lease()) == 1
        f.check()


def test_intervals_and_limits_survive_a_crash(tmp_path: Path) -> None:
    clock = ManualClock(START)
    f = kept(clock, tmp_path / "frontier", politeness=MANY)
    f.schedule_many([f"http://{host}.test/{n}" for n in range(9) for host in "ab"])
    f.set_queue("a.test", interval=60)
    f.set_queue("b.test", max_completed=1)
    f.finish_many(f.lease_queues(2))
    f.commit()
    crash(f)
    with Frontier.open(tmp_path / "frontier", clock=clock) as f:
        assert f.lease(9) == []
        clock.advance(60)
        assert numbers(f.lease_queues(9, 2)) == {"a.test": 2}


def test_the_last_lease_of_a_clock_that_was_ahead_holds_no_queue_up(tmp_path: Path) -> None:
    clock = ManualClock(START + 1e7)
    f = kept(clock, tmp_path / "frontier")
    f.schedule_many([f"http://a.test/{n}" for n in range(9)])
    f.set_queue("a.test", interval=60)
    f.finish_many(f.lease())
    f.commit()
    crash(f)
    clock.set(START)
    with Frontier.open(tmp_path / "frontier", clock=clock) as f:
        clock.advance(60 + 900)
        assert len(f.lease()) == 1


def test_what_was_set_is_undone_and_that_as_well() -> None:
    clock = ManualClock(START)
    with kept(clock, politeness={**MANY, "min_interval": 100}) as f:
        f.schedule_many([f"http://a.test/{n}" for n in range(9)])
        f.finish_many(f.lease())
        f.set_queue("a.test", interval=5, max_completed=1)
        number = f.audit(limit=1)[0].id
        clock.advance(5)
        assert f.lease() == [] and (record := f.queue("a.test")) is not None
        assert record.state is QueueState.RETIRED
        f.undo(number)
        assert (record := f.queue("a.test")) is not None
        assert (record.state, record.interval, record.max_completed) == (QueueState.INACTIVE, None, 0)
        assert f.lease() == [], "the interval of the settings holds again"
        clock.advance(95)
        assert len(f.lease()) == 1
        f.undo(f.audit(limit=1)[0].id)
        assert (record := f.queue("a.test")) is not None
        assert (record.interval, record.max_completed) == (5, 1)
        number = f.audit(limit=1)[0].id
        f.set_queue("a.test", interval=7)
        with pytest.raises(FrontierError, match="its interval is 7, and was 5"):
            f.undo(number)
        f.check()


def test_queues_of_a_frontier_that_keeps_no_urls_have_no_interval_of_their_own() -> None:
    """A plain `lease` does not look for one there."""
    with kept(keep_urls=False) as f:
        f.schedule("http://a.test/")
        for chosen in {"interval": 5.0}, {"max_completed": 5}:
            with pytest.raises(FrontierError, match="keep_urls"):
                f.set_queue("a.test", **chosen)
        assert (record := f.queue("a.test")) is not None
        assert (record.interval, record.max_completed) == (None, 0)


def test_a_turn_is_not_cut_short_by_the_limit_of_the_call() -> None:
    with kept(politeness={**NONE, "min_interval": 10.0, "per_queue_concurrency": 65535}) as f:
        f.schedule_many([f"http://{host}.test/{n}" for host in "abc" for n in range(8)])
        found = f.lease_queues(9, 6, limit=8)
        assert Counter(lease.queue for lease in found) == {"a.test": 6, "b.test": 6}
        assert Counter(lease.queue for lease in f.lease_queues(9, 0, limit=3)) == {"c.test": 3}
