"""The wake times of a queue."""

from __future__ import annotations

from budgetfrontier import Outcome
from budgetfrontier.rules import wake_times
from budgetfrontier.rules.wake_times import Waits
from tests.rules.queues import NOW, SNOOZED, queue, settings


def test_a_retry_lengthens_the_wait_of_its_queue_unless_only_its_uri_waits() -> None:
    queues, uris = settings(max_retries=2, retry_delay=60.0, retry_uri=False), settings(retry_uri=True)
    assert wake_times.wait_after(Outcome.RETRY, 1, queues, 5.0, None) == (60.0, False)
    assert wake_times.wait_after(Outcome.RETRY, 1, queues, 5.0, 90.0) == (90.0, True)
    assert wake_times.wait_after(Outcome.RETRY, 3, queues, 5.0, None) == (5.0, False)
    assert wake_times.wait_after(Outcome.RETRY, 1, uris, 5.0, None) == (5.0, False)
    assert wake_times.wait_after(Outcome.SUCCESS, 1, queues, 5.0, 7.0) == (7.0, True)


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
    told = {"wake_time": NOW + 100, "block": NOW + 100}  # by an older version
    assert wake_times.restored(covered, Waits.told(told), after).block == NOW + 100
