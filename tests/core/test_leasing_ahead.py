"""What a process that leases ahead knows: its leases with their deadlines, its last look, and its open calls."""

from __future__ import annotations

from typing import Any

from budgetfrontier.core.leasing_ahead import LastSummary, LeaseTable, OpenCalls
from budgetfrontier.core.model import CrawlUri, Lease


def leases(count: int) -> list[Lease]:
    return [Lease(number, "a.test", CrawlUri("http://a.test/"), 1, 0.0, 1) for number in range(count)]


def test_a_lease_that_expires_while_it_waits_is_dropped() -> None:
    held = LeaseTable(10.0, ahead=4)
    first, second, third = leases(3)
    held.add([first, second], 0.0)
    held.add([third], 10.0)
    held.renew([first], [], 20.0)
    held.renew([third], [third], 20.0)
    assert held.take(3, 15.0) == ([first], [second, third])
    assert held.all() == [first] and held.ready == 0


def test_a_lease_has_time_for_a_request_until_a_quarter_of_it_is_left() -> None:
    held, [lease] = LeaseTable(100.0, ahead=4), leases(1)
    held.add([lease], 0.0)
    assert held.has_time(lease, 75.0) and not held.has_time(lease, 75.1)
    held.renew([lease], [], 33.0)
    assert held.has_time(lease, 108.0)
    held.drop(lease)
    held.renew([lease], [], 200.0)
    assert not held.has_time(lease, 0.0)


def test_more_is_leased_once_half_of_what_was_leased_ahead_is_taken() -> None:
    for ready, low in ((4, False), (3, False), (2, True), (1, True)):
        held = LeaseTable(60.0, ahead=4)
        held.add(leases(ready), 0.0)
        assert held.is_low is low and held.room == 4 - ready
    held.add(leases(4)[1:], 0.0)
    held.take(2, 0.0)
    assert [lease.id for lease in held.take_back()] == [2, 3] and len(held) == 2


def test_a_process_waits_for_leases_for_a_quarter_of_their_time_at_the_most() -> None:
    assert LeaseTable(300.0, ahead=4).lease_wait == 2.0 and LeaseTable(4.0, ahead=4).lease_wait == 1.0
    assert LeaseTable(300.0, ahead=4).renew_every == 100.0


def test_counters_are_current_until_more_is_sent() -> None:
    last, total = LastSummary(), object()
    summary: Any = total
    assert last.summary is None and last.current is None
    last.put(last.sent, summary)
    assert (last.summary, last.current) == (total, total)
    sent = last.sent
    last.note_sent()
    assert last.summary is total and last.current is None
    last.put(sent, summary)  # looked at before that was sent
    assert last.current is None


def test_the_first_answer_that_is_due_says_how_long_the_server_is_silent() -> None:
    now = 0.0
    calls = OpenCalls(lambda: now)
    assert calls.silent_for() == 0.0
    leasing, other = calls.begin(5.0), calls.begin(0.0)
    now = 3.0
    assert calls.silent_for() == 3.0 and calls.due(leasing) == 5.0
    calls.end(other)
    assert calls.silent_for() == 0.0
    now = 6.0
    assert calls.silent_for() == 1.0
