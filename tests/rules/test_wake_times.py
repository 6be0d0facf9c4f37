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
    assert wake_times.blocked(resting, NOW + 9, NOW).wake_time == NOW + 9
    assert wake_times.blocked(resting, NOW + 1, NOW).wake_time == NOW + 5
    assert wake_times.blocked(resting, NOW, NOW) == Waits.of(resting), "nothing is blocked until a time that is past"


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
    after = wake_times.blocked(resting, NOW + 100, NOW)
    assert after == Waits(NOW + 100, NOW + 100, NOW + 3, NOW + 5)
    covered = queue(SNOOZED, **after._asdict())
    assert wake_times.restored(covered, before, after)[:3] == before[:3]
    assert wake_times.blocked(covered, NOW + 200, NOW).rest == NOW + 5
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
    blocked = queue(SNOOZED, served=NOW - 4, **wake_times.blocked(served, NOW + 50, NOW)._asdict())
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


def test_a_block_is_set_anew_or_ended_and_leaves_the_rest_under_it() -> None:
    resting = queue(SNOOZED, wake_time=NOW + 5, delayed=NOW + 3)
    for until in (NOW + 2, NOW + 5, NOW + 9):
        assert wake_times.blocked_until(resting, until, NOW) == (max(NOW + 5, until), until, NOW + 3, NOW + 5, 0, 0)
    for over in (0.0, NOW - 1, NOW):
        assert wake_times.blocked_until(resting, over, NOW) == Waits(NOW + 5, 0, NOW + 3, NOW + 5)
    blocked = queue(SNOOZED, **wake_times.blocked(resting, NOW + 100, NOW)._asdict())
    assert wake_times.blocked_until(blocked, NOW + 50, NOW) == Waits(NOW + 50, NOW + 50, NOW + 3, NOW + 5), "shorter"
    assert wake_times.blocked_until(blocked, 0.0, NOW) == Waits(NOW + 5, 0, NOW + 3, NOW + 5), "ended"
    paced = queue(SNOOZED, wake_time=NOW + 8, rest=NOW + 5, paced_until=NOW + 8)
    assert wake_times.blocked_until(paced, NOW + 7, NOW) == Waits(NOW + 8, NOW + 7, 0, NOW + 5, NOW + 8)


def test_the_waits_of_the_audit_are_those_of_the_record() -> None:
    record = queue(SNOOZED, wake_time=NOW + 1, block=NOW + 2, delayed=NOW + 3, rest=NOW + 4)
    assert Waits.told(Waits.of(record)._asdict()) == Waits.of(record) == (NOW + 1, NOW + 2, NOW + 3, NOW + 4, 0, 0)


def test_a_wait_under_a_block_or_an_interval_was_earned_before() -> None:
    assert Waits(NOW, NOW, 0, NOW - 5).earned == NOW - 5, "a block to the same time hides it"
    assert Waits(NOW, 0, 0, NOW - 5, NOW).earned == NOW - 5
    assert Waits(NOW, NOW - 1, 0, NOW - 5, NOW - 1).earned == NOW, "it is longer than both"
    assert Waits(0, 0, 0, NOW - 5).earned == 0, "it waits for nothing"
    assert Waits(1, 1, 0, 7).earned == 7
    assert Waits(NOW, NOW, 0, NOW - 5, NOW - 3).unblocked == NOW - 3


def test_the_longest_wait_is_by_the_longest_of_all_delays() -> None:
    chosen = {
        "max_delay": 10.0, "respect_crawl_delay_up_to": 0.0, "min_delay": 0.0, "jitter": 0.5, "retry_delay": 0.0,
        "min_interval": 0.0,
    }  # fmt: skip
    assert wake_times.longest_delay(settings(**chosen)) == 10.5
    for name in ("max_delay", "respect_crawl_delay_up_to", "min_delay"):
        assert wake_times.longest_delay(settings(**{**chosen, name: 90.0})) == 90.5
    for name in ("retry_delay", "min_interval"):
        assert wake_times.longest_delay(settings(**{**chosen, name: 90.0})) == 90.0


def test_a_wake_by_name_ends_each_of_the_waits() -> None:
    later = queue(SNOOZED, wake_time=NOW + 1, block=NOW + 1, delayed=NOW + 1, rest=NOW + 1, paced_until=NOW + 1)
    assert wake_times.woken(later, NOW) == Waits(NOW, 0, NOW, NOW, NOW)
    over = queue(READY, wake_time=NOW - 1, delayed=NOW - 2, rest=NOW - 3, paced_until=NOW - 4)
    assert wake_times.woken(over, NOW) == Waits(NOW - 1, 0, NOW - 2, NOW - 3, NOW - 4)


def test_an_interval_that_ends_now_changes_no_wait() -> None:
    due = queue(SNOOZED, served=NOW - 5, wake_time=NOW, rest=NOW - 2, paced_until=NOW)
    assert wake_times.paced(due, 5, NOW) == Waits.of(due)
    assert wake_times.paced(due, 5, NOW - 1) == Waits(NOW, 0, 0, NOW - 2, NOW)
    early = queue(SNOOZED, served=0.5, wake_time=1.0, paced_until=9.0)
    assert wake_times.paced(early, 2.0, 1.0).paced_until == 2.5, "leased in the first second of a clock"
    held = queue(SNOOZED, wake_time=NOW + 40, delayed=NOW + 40, served=NOW - 1)
    assert wake_times.paced(held, 20, NOW) == Waits(NOW + 40, 0, NOW + 40, NOW + 40, NOW + 19)


def test_an_undo_gives_back_each_of_the_waits_and_keeps_what_has_begun_since() -> None:
    before = Waits(NOW + 8, NOW + 6, NOW + 4, NOW + 2)
    after = Waits(NOW + 30, NOW + 30, NOW + 4, NOW + 2)
    unchanged = queue(SNOOZED, **after._asdict())
    assert wake_times.restored(unchanged, before, after) == Waits(NOW + 8, NOW + 6, NOW + 4, NOW + 8)
    resting = queue(SNOOZED, **after._replace(rest=NOW + 20, delayed=NOW + 20)._asdict())
    assert wake_times.restored(resting, before, after) == Waits(NOW + 20, NOW + 6, NOW + 20, NOW + 20)
    earlier = queue(SNOOZED, **after._replace(rest=NOW + 1, delayed=NOW + 3)._asdict())
    assert wake_times.restored(earlier, before, after) == Waits(NOW + 8, NOW + 6, NOW + 4, NOW + 8)
    paced = queue(SNOOZED, **after._replace(paced_until=NOW + 25)._asdict())
    assert wake_times.restored(paced, before, after)[0] == NOW + 25
    idle = Waits(0, 0, 0, 0)
    assert wake_times.restored(queue(READY), idle, Waits(0, 0, 0, 0)) == idle
    assert wake_times.restored(queue(READY), idle, Waits(NOW, 0, NOW, 0)) == idle, "0 is no wait"


def test_a_back_off_of_the_host_lengthens_the_wait_in_any_case() -> None:
    uris = settings(retry_uri=True, max_retries=2)
    assert wake_times.wait_after(Outcome.RETRY, 1, uris, 5.0, 90.0, 503) == (90.0, True)
    assert wake_times.wait_after(Outcome.RETRY, 3, uris, 5.0, 90.0, 429) == (90.0, True)
    assert wake_times.wait_after(Outcome.RETRY, 1, uris, 5.0, 90.0, 500) == (5.0, False)
    queues = settings(max_retries=2, retry_delay=60.0, retry_uri=False)
    assert wake_times.wait_after(Outcome.RETRY, 1, queues, 5.0, None, 503) == (60.0, False)
    assert wake_times.wait_after(Outcome.RETRY, 1, queues, 5.0, 0.0) == (5.0, False), "a delay of 0 was given"
    assert wake_times.wait_after(Outcome.RETRY, 1, queues, 90.0, None) == (90.0, False)
    assert wake_times.wait_after(Outcome.SUCCESS, 1, queues, 5.0, None) == (5.0, False)
    assert wake_times.wait_after(Outcome.FAILURE, 1, queues, 5.0, 0.0) == (5.0, False)
    assert wake_times.wait_after(Outcome.SUCCESS, 1, queues, 0.0, None) == (0.0, False)


def test_a_wait_for_crawl_windows_leaves_all_others() -> None:
    ready = queue(READY, wake_time=NOW - 1)
    assert wake_times.closed(ready, NOW + 90) == Waits(NOW + 90, 0, 0, NOW - 1, 0, NOW + 90)
    closed = queue(SNOOZED, wake_time=NOW + 90, rest=NOW + 5, block=NOW + 8, closed_until=NOW + 90)
    assert Waits.of(closed).unblocked == NOW + 5
    assert wake_times.reopened(closed) == Waits(NOW + 8, NOW + 8, 0, NOW + 5)
    assert wake_times.blocked(closed, NOW + 20, NOW) == Waits(NOW + 90, NOW + 20, 0, NOW + 5, 0, NOW + 90)
    assert wake_times.blocked(closed, NOW + 99, NOW).wake_time == NOW + 99
    assert wake_times.woken(closed, NOW) == Waits(NOW, 0, 0, NOW, 0, NOW)
    assert wake_times.joined(queue(READY), closed) == Waits(NOW + 8, NOW + 8, 0, NOW + 5), "they are of one queue alone"
    assert wake_times.host_waits(closed, NOW + 7) and not wake_times.host_waits(closed, NOW + 8)
    later = queue(SNOOZED, wake_time=NOW + 100, closed_until=NOW + 90)
    assert wake_times.reopened(later) == Waits(NOW + 100, 0, 0, NOW + 100)
    assert wake_times.closed(later, NOW + 95).wake_time == NOW + 100


def test_the_end_of_a_block_of_a_queue_that_never_waited_is_now_and_not_long_ago() -> None:
    blocked = queue(SNOOZED, wake_time=NOW + 100, block=NOW + 100)
    assert wake_times.blocked_until(blocked, 0.0, NOW) == Waits(NOW, 0, 0, 0)
