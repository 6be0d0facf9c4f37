"""The wake times of a queue."""

from __future__ import annotations

import pytest

from budgetfrontier import Outcome
from budgetfrontier.rules import wake_times
from budgetfrontier.rules.wake_times import Waits
from tests.rules.queues import NOW, READY, SNOOZED, queue, settings


def test_a_retry_lengthens_the_wait_of_its_queue_unless_only_its_uri_waits() -> None:
    queues, uris = settings(max_retries=2, retry_delay=60.0, retry_uri=False), settings(retry_uri=True)
    assert wake_times.wait_after(Outcome.RETRY, 1, queues, 5.0, None) == (60.0, False)
    assert wake_times.wait_after(Outcome.RETRY, 1, queues, 5.0, 90.0) == (90.0, True)
    assert wake_times.wait_after(Outcome.RETRY, 3, queues, 5.0, None) == (5.0, False)
    assert wake_times.wait_after(Outcome.RETRY, 1, uris, 5.0, None) == (5.0, False)
    assert wake_times.wait_after(Outcome.SUCCESS, 1, queues, 5.0, 7.0) == (7.0, True)


@pytest.mark.parametrize(
    ("status", "given", "delay"),
    [(0, None, 900.0), (429, None, 900.0), (503, None, 900.0), (500, None, 1800.0), (500, 5.0, 5.0), (0, 0.0, 0.0)],
)
def test_a_page_that_was_answered_with_an_error_has_a_retry_delay_of_its_own(
    status: int, given: float | None, delay: float
) -> None:
    assert wake_times.retry_delay(settings(), given, status) == delay


def test_a_host_that_was_asked_rests_and_no_rest_ends_earlier_than_it_would_have() -> None:
    asked = {outcome for outcome in Outcome if wake_times.calls_for_rest(outcome)}
    assert asked == set(Outcome) - {Outcome.DEFERRED, Outcome.DISREGARDED}
    resting = queue(SNOOZED, wake_time=NOW + 5)
    assert wake_times.extended(resting, NOW + 9) == NOW + 9
    assert wake_times.extended(resting, NOW + 1) == NOW + 5


def test_a_wake_time_is_clipped_unless_somebody_asked_for_it() -> None:
    ahead, asked_for = queue(SNOOZED, wake_time=NOW + 1e9), queue(SNOOZED, wake_time=NOW + 1e9, block=NOW + 1e9)
    assert wake_times.clipped_wake_time(ahead, NOW + 60) == NOW + 60
    assert wake_times.clipped_wake_time(asked_for, NOW + 60) == NOW + 1e9
    assert wake_times.clipped_wake_time(queue(SNOOZED, wake_time=NOW + 5), NOW + 60) == NOW + 5
    named = queue(SNOOZED, wake_time=NOW + 1e9, delayed=NOW + 1e8)
    assert wake_times.clipped_wake_time(named, NOW + 60) == NOW + 1e8


def test_an_operator_covers_the_rests_of_a_queue_and_uncovers_them() -> None:
    resting = queue(SNOOZED, wake_time=NOW + 5, delayed=NOW + 3)
    before = Waits.of(resting)
    after = wake_times.blocked(resting, NOW + 100)
    assert after == Waits(NOW + 100, NOW + 100, NOW + 3, NOW + 5)
    covered = queue(SNOOZED, **after._asdict())
    assert wake_times.restored(covered, before, after)[:3] == before[:3]
    assert wake_times.blocked(covered, NOW + 200).rest == NOW + 5
    assert wake_times.woken(covered, NOW) == Waits(NOW, 0, NOW, NOW)
    covered.rest = NOW + 50
    assert wake_times.restored(covered, before, after).wake_time == NOW + 50
    covered.wake_time = NOW + 110  # a rest beyond the block
    assert wake_times.restored(covered, before, after).wake_time == NOW + 110


def test_another_interval_counts_from_the_last_lease_and_leaves_other_waits_alone() -> None:
    served = queue(SNOOZED, served=NOW - 4, wake_time=NOW + 6, paced_until=NOW + 6, rest=NOW + 2)
    assert wake_times.paced(served, 20, NOW)[0] == NOW + 16
    assert wake_times.paced(served, 5, NOW) == Waits(NOW + 2, 0, 0, NOW + 2, NOW + 1), "politeness holds"
    assert wake_times.paced(served, 0, NOW) == Waits(NOW + 2, 0, 0, NOW + 2, NOW)
    blocked = queue(SNOOZED, served=NOW - 4, **wake_times.blocked(served, NOW + 50)._asdict())
    assert wake_times.paced(blocked, 0, NOW)[:2] == (NOW + 50, NOW + 50)
    assert Waits.of(blocked).unblocked == NOW + 6 and Waits.of(blocked).earned == NOW + 2


def test_an_interval_that_is_over_changes_no_wait() -> None:
    rested = queue(READY, served=NOW - 9, wake_time=NOW - 3, paced_until=NOW - 3)
    assert wake_times.paced(rested, 5, NOW) == Waits.of(rested)
    assert wake_times.paced(queue(READY), 50, NOW) == Waits.of(queue(READY)), "it was never leased from"
    assert wake_times.paced(rested, 50, NOW).wake_time == NOW + 41


def test_the_last_lease_of_a_clock_that_was_ahead_does_not_hold_a_queue_up() -> None:
    ahead = queue(SNOOZED, served=NOW + 1e6, interval=10.0, wake_time=NOW + 1e6 + 10, paced_until=NOW + 1e6 + 10)
    assert wake_times.clipped_wake_time(ahead, NOW + 30) == NOW + 40
    assert wake_times.paced(ahead, 5, NOW).wake_time == NOW + 5


def test_an_undo_leaves_the_interval_after_the_last_lease() -> None:
    leased = queue(SNOOZED, wake_time=NOW + 2, rest=NOW, paced_until=NOW + 2)
    over = Waits(NOW, 0, 0, NOW)
    assert wake_times.restored(leased, over, Waits(NOW + 2, 0, 0, NOW + 2)).wake_time == NOW + 2
