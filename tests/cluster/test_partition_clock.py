"""The time of a partition: that of the broker, whatever clocks its owners have, and whenever they are stopped."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from budgetfrontier.cluster.log.partition_clock import WINDOW, PartitionClock
from tests.cluster.log import Log, Owner
from tests.cluster.test_partition import OWN
from tests.support import START


class Steady:
    """A clock that begins anywhere, and may run too fast."""

    def __init__(self) -> None:
        self.now = 500.0

    def __call__(self) -> float:
        return self.now


def test_the_entry_that_came_fastest_says_how_late_it_is() -> None:
    steady = Steady()
    clock = PartitionClock(START, steady)  # it was under way for a second
    assert clock.time() == START
    steady.now += 10.0
    assert clock.time() == START + 10.0
    clock.observe(START + 11.0)
    assert clock.time() == START + 11.0
    clock.observe(START + 5.0)  # it was read late: the worker was stopped, or replays the log
    assert clock.time() == START + 11.0
    steady.now += 1.0
    assert clock.time() == START + 12.0


def test_a_steady_clock_that_is_too_fast_is_corrected_without_going_backwards() -> None:
    steady = Steady()
    clock, broker, before = PartitionClock(START, steady), START, 0.0
    for _ in range(10 * int(WINDOW)):
        steady.now += 1.01
        broker += 1.0
        clock.observe(broker)
        assert before <= clock.time() < broker + 0.011 * 2 * WINDOW
        before = clock.time()


def test_a_broker_whose_clock_was_set_back_is_followed() -> None:
    steady = Steady()
    clock = PartitionClock(START, steady)
    for seconds in range(3 * int(WINDOW)):
        steady.now += 1.0
        clock.observe(START - 3600.0 + seconds)
    assert clock.time() == pytest.approx(START - 3600.0 + 3 * WINDOW - 1.0)


def test_links_that_waited_in_the_log_do_not_hold_up_the_time(tmp_path: Path) -> None:
    log = Log()
    log.find(1, f"https://{OWN[0]}/")
    log.time += 600
    with closing(Owner(tmp_path / "one", log)) as owner:
        (lease,) = owner.lease(1, ttl=300.0)
        assert lease.expires == START + 900


def test_an_owner_goes_on_with_the_time_of_the_one_before(tmp_path: Path) -> None:
    """It had other clocks, which nobody asks."""
    log = Log()
    with closing(Owner(tmp_path / "one", log)) as one:
        one.schedule(f"https://{OWN[0]}/1", f"https://{OWN[0]}/2")
        (lease,) = one.lease(1, ttl=300.0)
    log.time += 299.0
    with closing(Owner(tmp_path / "two", log)) as two:
        assert two.finish(lease.id) == []
        assert two.lease() == []  # the host rests
        log.time += 3.0
        assert len(two.lease()) == 1
