"""Leases by queue: several URIs in one turn, intervals, limits, and queues that are asked for by key."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from budgetfrontier import CrawlUri, Frontier, Outcome, QueueState
from budgetfrontier.clock import ManualClock
from budgetfrontier.core.model import Lease
from budgetfrontier.engine import lease_by_queue
from budgetfrontier.errors import FrontierError
from budgetfrontier.testing import crash
from tests.engine.test_url_table import NONE, START, kept

MANY = {**NONE, "per_queue_concurrency": 100}


def numbers(leases: list[Lease]) -> dict[str, int]:
    return dict(Counter(lease.queue for lease in leases))


def test_each_queue_hands_out_as_many_as_may_be_out() -> None:
    with kept(politeness=MANY) as f:
        f.schedule_many([f"http://{host}.test/{n}" for n in range(5) for host in "abc"])
        assert numbers(f.internals.lease_queues(2, 3)) == {"a.test": 3, "b.test": 3}
        assert numbers(f.internals.lease_queues(9, 3)) == {"c.test": 3}
        assert f.internals.lease_queues(9, 3) == []
        assert numbers(f.internals.lease_queues(9, 0)) == {"a.test": 2, "b.test": 2, "c.test": 2}
        f.check()


def test_the_setting_of_concurrency_holds() -> None:
    with kept() as f:
        f.schedule_many([f"http://a.test/{n}" for n in range(5)])
        assert numbers(f.internals.lease_queues(1, 3)) == {"a.test": 1}


def test_a_queue_rests_for_its_interval_exactly() -> None:
    clock = ManualClock(START)
    with kept(clock, politeness={**MANY, "min_interval": 2}) as f:
        f.schedule_many([f"http://a.test/{n}" for n in range(9)])
        assert len(f.internals.lease_queues(1, 2)) == 2
        clock.advance(1.999)
        assert f.internals.lease_queues(1, 9) == []
        clock.advance(0.001)
        assert len(f.internals.lease_queues(1, 4)) == 2
        assert f.lease(9) == []
        clock.advance(2)
        assert len(f.lease(9)) == 1, "a plain lease takes one URI of a queue, and then it rests as well"


def test_an_interval_by_name_replaces_that_of_the_settings_at_once() -> None:
    clock = ManualClock(START)
    with kept(clock, politeness={**MANY, "min_interval": 100}) as f:
        f.schedule_many([f"http://a.test/{n}" for n in range(9)])
        f.internals.lease_queues(1, 1)
        assert f.set_queue("a.test", interval=5)
        clock.advance(4.9)
        assert f.internals.lease_queues(1, 9) == []
        clock.advance(0.1)
        assert len(f.internals.lease_queues(1, 2)) == 1
        f.set_queue("a.test", interval=0)
        assert len(f.internals.lease_queues(1, 3)) == 1
        assert not f.set_queue("b.test", interval=0)


def test_a_queue_with_its_limit_of_completed_urls_is_retired_until_it_is_raised() -> None:
    with kept() as f:
        f.schedule_many([f"http://a.test/{n}" for n in range(5)])
        f.set_queue("a.test", max_completed=2)
        for _ in range(2):
            f.finish_many(f.internals.lease_queues(1))
            f.commit()
        assert f.internals.lease_queues(1) == []
        record = f.queue("a.test")
        assert record is not None
        assert (record.state, record.completed) == (QueueState.RETIRED, 2)
        f.set_queue("a.test", max_completed=0)
        assert numbers(f.internals.lease_queues(1)) == {"a.test": 1}


def test_a_queue_may_be_asked_for_by_key() -> None:
    with kept(hold_queues=True) as f:
        f.schedule_many([f"http://{host}.test/{n}" for n in range(2) for host in "abc"])
        assert numbers(f.internals.lease_queues(1, 2, queue="b.test")) == {"b.test": 1}
        assert f.internals.lease_queues(1, 2, queue="b.test") == []
        assert f.internals.lease_queues(1, 2, queue="none.test") == []
        f.check()


def test_a_limit_counts_what_is_completed_as_of_now() -> None:
    """Not as of the last commit, at which finished URIs are deleted."""
    for by_queue in True, False:
        with kept() as f:
            hand_out = partial(f.internals.lease_queues, 1) if by_queue else partial(f.lease, 1)
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
        f.internals.lease_queues(1, 1)
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
    f.finish_many(f.internals.lease_queues(2))
    f.commit()
    crash(f)
    with Frontier.open(tmp_path / "frontier", clock=clock) as f:
        assert f.lease(9) == []
        clock.advance(60)
        assert numbers(f.internals.lease_queues(9, 2)) == {"a.test": 2}


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
        with pytest.raises(FrontierError, match="its interval is 7s, and was 5s"):
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
        found = f.internals.lease_queues(9, 6, limit=8)
        assert Counter(lease.queue for lease in found) == {"a.test": 6, "b.test": 6}
        assert Counter(lease.queue for lease in f.internals.lease_queues(9, 0, limit=3)) == {"c.test": 3}


def test_leases_by_queue_are_leases_with_ids_in_a_row() -> None:
    with kept(politeness=MANY) as f:
        f.schedule_many([CrawlUri(f"http://a.test/{n}", priority=n) for n in range(4)])
        first, second, third = f.internals.lease_queues(1, 3)
        assert [lease.uri.url for lease in (first, second, third)] == [f"http://a.test/{n}" for n in (3, 2, 1)]
        assert second.id == first.id + 1 and third.id == second.id + 1
        assert (first.queue, first.delivery, first.attempt, first.cost) == ("a.test", 1, 1, 1)
        f.finish(first, Outcome.RETRY, delay=0.0)
        f.give_back([second])
        f.schedule(CrawlUri("http://a.test/new", priority=9))
        taken = f.internals.lease_queues(1, 9)
        assert [lease.uri.url for lease in taken] == [f"http://a.test/{n}" for n in ("new", 3, 2, 0)]
        assert [(lease.delivery, lease.attempt) for lease in taken] == [(1, 1), (1, 2), (1, 1), (1, 1)]
        assert taken[0].id > third.id
        f.check()


def test_a_delivery_that_expired_is_counted() -> None:
    clock = ManualClock(START)
    with kept(clock, politeness=MANY) as f:
        f.schedule("http://a.test/")
        f.internals.lease_queues(1, 1, ttl=5)
        clock.advance(6)
        (again,) = f.internals.lease_queues(1, 1)
        assert (again.delivery, again.attempt) == (2, 1)


def test_so_many_queues_are_served_and_no_more_than_the_limit() -> None:
    def hosts(frontier: Frontier) -> Frontier:
        frontier.schedule_many([f"http://{host}.test/{n}" for host in "abcde" for n in range(3)])
        return frontier

    for asked, limit, given in ((2, 99, 2), (0, 99, 0), (9, 3, 3), (9, 2, 2), (9, 1, 1), (5, 99, 5)):
        for hold in (True, False):  # INACTIVE, or READY at once
            with kept(politeness=MANY, hold_queues=hold) as f:
                assert len(numbers(hosts(f).internals.lease_queues(asked, 1, limit=limit))) == given, (
                    asked,
                    limit,
                    hold,
                )
                f.check()


def test_a_queue_takes_the_settings_in_force_in_its_turn() -> None:
    with kept(politeness=MANY) as f:
        f.schedule_many([f"http://{host}.test/{n}" for host in "abc" for n in range(6)])
        assert numbers(f.internals.lease_queues(9, 1)) == {"a.test": 1, "b.test": 1, "c.test": 1}
        f.adjust(match="queue:a.test", queue_total_budget=0)
        f.adjust(match="queue:b.test", politeness={"per_queue_concurrency": 2})
        f.adjust(match="surt:http://(test,c,)/", balance_replenish_amount=77, politeness={"per_queue_concurrency": 3})
        assert numbers(f.internals.lease_queues(9, 4)) == {"b.test": 1, "c.test": 2}
        a, b, c = (f.queue(f"{host}.test") for host in "abc")
        assert a is not None and b is not None and c is not None
        assert (a.total_budget, b.total_budget, c.balance_replenish_amount) == (0, -1, 77)
        assert (a.revision, b.revision) == (c.revision, c.revision)
        f.check()


def test_queues_that_retire_in_their_turn_are_bounded_for_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_by_queue, "MAX_TURNS", 2)
    for hold in (True, False):
        with kept(politeness=MANY, hold_queues=hold, retire_when="reached") as f:
            f.schedule_many([f"http://{host}.test/" for host in "abcde"])
            f.adjust(queue_total_budget=0)
            found = []
            for _ in range(4):
                assert f.internals.lease_queues(9, 1) == []
                found.append(f.summary().queues[QueueState.RETIRED])
            assert found == [2, 4, 5, 5], hold
            f.check()


def state_of(f: Frontier, key: str = "a.test") -> QueueState:
    record = f.queue(key)
    assert record is not None
    return record.state


def test_a_queue_at_its_limit_comes_back_when_a_completed_url_is_forgotten() -> None:
    with kept() as f:
        f.schedule_many([f"http://a.test/{n}" for n in range(6)])
        f.set_queue("a.test", max_completed=2)
        for _ in range(2):
            f.finish_many(f.internals.lease_queues(1))
            f.commit()
        assert f.internals.lease_queues(1) == [] and state_of(f) is QueueState.RETIRED
        completed = [url.fingerprint for url in f.internals.kept_urls() if url.due is None]
        assert f.internals.forget_urls(completed[:1]) == 1
        assert state_of(f) is not QueueState.RETIRED
        f.finish_many(f.internals.lease_queues(1))
        assert f.internals.lease_queues(1) == [] and state_of(f) is QueueState.RETIRED
        f.retire("a.test")
        assert f.internals.forget_urls(completed[1:]) == 1
        assert state_of(f) is QueueState.RETIRED, "an operator has retired it by name"
        f.check()


def test_a_queue_that_its_budget_has_retired_stays_so_when_a_url_is_forgotten() -> None:
    with kept(queue_total_budget=0) as f:
        f.schedule_many([f"http://a.test/{n}" for n in range(3)])
        f.finish_many(f.internals.lease_queues(1))
        assert f.internals.lease_queues(1) == [] and state_of(f) is QueueState.RETIRED
        f.commit()
        (completed,) = [url.fingerprint for url in f.internals.kept_urls() if url.due is None]
        for limit in (0, 5):
            record = f.queue("a.test")
            assert record is not None and record.completed == (1 if limit == 0 else 0)
            f.internals.forget_urls([completed])
            assert state_of(f) is QueueState.RETIRED


def test_an_interval_below_a_second_counts_and_ends_the_rest_before_it() -> None:
    clock = ManualClock(START)
    with kept(clock, politeness={**MANY, "min_interval": 0.5}) as f:
        f.schedule_many([f"http://a.test/{n}" for n in range(9)])
        assert len(f.internals.lease_queues(1, 1)) == 1
        record = f.queue("a.test")
        assert record is not None and (record.wake_time, record.rest) == (START + 0.5, 0)
        clock.advance(0.4)
        assert f.internals.lease_queues(1, 9) == []
        clock.advance(0.1)
        assert len(f.internals.lease_queues(1, 9)) == 8


def test_a_budget_of_crawlers_gives_way_to_that_of_the_adjusted_host() -> None:
    with kept() as f:
        f.schedule_many([f"http://{host}.test/{n}" for host in "ab" for n in range(3)])
        f.adjust(match="surt:http://(test,a,)/", queue_total_budget=7)
        for key in ("a.test", "b.test"):
            f.internals.regulate(key, total_budget=4)
        assert [record.total_budget for key in ("a.test", "b.test") if (record := f.queue(key))] == [7, 4]
        while leases := f.internals.lease_queues(9, 1):
            f.finish_many(leases)
        f.commit()
        for key in ("a.test", "b.test"):  # by its last URL, now that it holds none
            f.internals.regulate(key, total_budget=5)
        assert [record.total_budget for key in ("a.test", "b.test") if (record := f.queue(key))] == [7, 5]
        f.retire("b.test")
        f.internals.regulate("b.test", total_budget=6)
        assert state_of(f, "b.test") is QueueState.RETIRED, "an operator has retired it by name"
