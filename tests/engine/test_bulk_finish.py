"""Leases that end together: one that fails affects no other."""

from __future__ import annotations

from typing import Any

import pytest

from budgetfrontier import Finish, Frontier, Lease, Outcome, Settings
from budgetfrontier.clock import ManualClock
from budgetfrontier.engine.bulk_finish import Failure, end_leases, is_closed
from budgetfrontier.errors import FrontierClosed, LeaseExpired, PolicyError, StorageFull
from budgetfrontier.testing import fail_commit

UNLUCKY = 13.0
"""The policy of this module fails after a fetch of so many seconds."""


def rest(settings: Any, fetch_seconds: float | None, **_: Any) -> Any:
    return "long" if fetch_seconds == UNLUCKY else 0.0


SETTINGS = Settings.from_dict({"frontier": {"politeness_policy": f"{__name__}:rest", "hold_queues": False}})


def url(number: int) -> str:
    return f"http://host{number}.test/"


def leased(clock: ManualClock, count: int, **options: Any) -> tuple[Frontier, list[Lease]]:
    frontier = Frontier.open(":memory:", SETTINGS, clock=clock, **options)
    frontier.schedule_many([url(number) for number in range(count)])
    return frontier, frontier.lease(count, ttl=60.0)


def told(failures: list[Failure]) -> list[tuple[str, type[Exception]]]:
    return [(lease.uri.url, type(error)) for lease, error in failures]


@pytest.mark.parametrize("count", [1, 3])
def test_what_can_be_ended_is_not_returned(count: int) -> None:
    clock = ManualClock(1e9)
    frontier, leases = leased(clock, count)
    with frontier:
        assert end_leases(frontier, leases, clock.time()) == []
        assert frontier.summary().succeeded == count
        failures = end_leases(frontier, leases, clock.time())
        assert told(failures) == [(lease.uri.url, LeaseExpired) for lease in leases]
        assert str(failures[0][1]).startswith(f"lease {leases[0].id} of {url(0)} has ended; drop the result")


def test_a_policy_that_fails_for_one_affects_no_other_and_hides_no_late_one() -> None:
    clock = ManualClock(1e9)
    frontier, leases = leased(clock, 6)
    with frontier:
        for number in (0, 2, 4, 5):
            frontier.renew(leases[number], 1000.0)
        clock.advance(61.0)  # 1 and 3 have expired
        endings = [Finish(lease, fetch_seconds=UNLUCKY if lease is leases[2] else 1.0) for lease in leases]
        failures = end_leases(frontier, endings, clock.time())
        assert told(failures) == [(url(1), LeaseExpired), (url(2), PolicyError), (url(3), LeaseExpired)]
        summary = frontier.summary()
        assert (summary.succeeded, summary.in_process, summary.queued) == (3, 1, 3)
        frontier.check()


def test_those_after_the_one_that_fails_are_late_whatever_ended_them() -> None:
    clock = ManualClock(1e9)
    frontier, leases = leased(clock, 4)
    with frontier:
        frontier.finish(leases[3])
        endings: list[Lease | Finish] = [leases[0], Finish(leases[1], fetch_seconds=UNLUCKY), *leases[2:]]
        assert told(end_leases(frontier, endings, clock.time())) == [(url(1), PolicyError), (url(3), LeaseExpired)]


def test_an_argument_that_is_wrong_affects_no_other() -> None:
    clock = ManualClock(1e9)
    frontier, leases = leased(clock, 4)
    with frontier:
        frontier.finish(leases[0])
        endings: list[Lease | Finish] = [*leases[:2]]
        endings += [Finish(leases[2], fetch_seconds=-1.0), Finish(leases[3], Outcome.FAILURE)]
        assert told(end_leases(frontier, endings, clock.time())) == [(url(0), LeaseExpired), (url(2), ValueError)]
        summary = frontier.summary()
        assert (summary.succeeded, summary.failed, summary.in_process) == (2, 1, 1)


@pytest.mark.parametrize("count", [1, 3])
def test_what_closes_the_frontier_is_raised(count: int) -> None:
    clock = ManualClock(1e9)
    frontier, leases = leased(clock, count)
    assert not is_closed(frontier)
    fail_commit(frontier)
    with pytest.raises(StorageFull):
        frontier.commit()
    assert is_closed(frontier)
    with pytest.raises(FrontierClosed):
        end_leases(frontier, leases, clock.time())
