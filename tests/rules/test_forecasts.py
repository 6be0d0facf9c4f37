"""When each bound would end a crawl."""

from __future__ import annotations

import pytest

from budgetfrontier.core.model import QueueRecord, QueueState
from budgetfrontier.rules.forecasts import (
    Forecast,
    Held,
    Holdings,
    Limit,
    binding,
    forecasts,
    latest_of,
    least_delay,
)
from budgetfrontier.rules.rates import Window, window
from budgetfrontier.storage.series import SeriesRow


def queue(name: str, state: QueueState, queued: int, budget: int = -1, spent: int = 0, charges: int = 0) -> QueueRecord:
    return QueueRecord(name, 1, state, queued=queued, total_budget=budget, expenditure=spent, charges=charges)


def held(*queues: tuple[QueueRecord, float], reached: bool = True) -> Held:
    """What these queues hold, each given with its shortest delay."""
    holdings, delays = Holdings(), {queue.queue: delay for queue, delay in queues}
    passing = holdings.through((queue for queue, _ in queues), lambda queue: (delays[queue.queue], reached, 0.0))
    assert [*passing] == [q for q, _ in queues]
    return holdings.held


@pytest.mark.parametrize(
    ("budget", "spent", "charges", "reached", "spendable"),
    [
        (3, 1, 1, True, 2),
        (3, 1, 1, False, 3),  # at 3 it is not over its budget, and goes on
        (3, 3, 3, True, 0),
        (3, 3, 3, False, 1),
        (3, 4, 4, False, 0),
        (10, 4, 2, True, 6),
        (9, 4, 2, True, 6),  # the last URI goes beyond
        (10, 4, 2, False, 8),
        (10, 0, 0, False, 10),  # what its URIs cost is not known
    ],
)
def test_what_may_be_spent_is_what_queues_spend_before_they_retire(
    budget: int, spent: int, charges: int, reached: bool, spendable: int
) -> None:
    one = queue("a.test", QueueState.READY, 50, budget, spent, charges)
    assert held((one, 0.0), reached=reached).spendable == spendable


NOTHING = Held(0, 0, 0.0, "")


def an_hour(*, scheduled: int = 0, step: int = 10, expenditure: int = 20) -> Window:
    """Sixty minutes with `step` pages each."""
    rows = [
        SeriesRow(60.0 * i, succeeded=step * i, scheduled=scheduled * i, expenditure=expenditure * i) for i in range(61)
    ]
    return window(rows, 0, 3600)


def by_bound(last: Window, waiting: int, holds: Held = NOTHING, **limits: Limit) -> dict[str, Forecast]:
    return {found.bound: found for found in forecasts(last, waiting=waiting, holds=holds, limits=limits)}


def test_what_waits_ends_at_the_rate_less_what_is_scheduled() -> None:
    found = by_bound(an_hour(scheduled=4), 720)["rate"]
    assert (found.seconds, found.sure) == (7200, "likely")
    grows = by_bound(an_hour(scheduled=15), 720)["rate"]
    assert grows.seconds is None
    assert "300 an hour more are scheduled than end" in grows.why
    assert by_bound(an_hour(scheduled=10), 720)["rate"].seconds is None
    assert by_bound(an_hour(), 0)["rate"].seconds == 0


def test_without_rates_nothing_is_said() -> None:
    found = by_bound(window([], 0, 3600), 5, Held(9, 0, 0.0, ""))
    assert {(forecast.seconds, forecast.sure) for forecast in found.values()} == {(None, "unknown")}


def test_budgets_end_a_crawl_when_they_are_spent() -> None:
    found = by_bound(an_hour(), 5, Held(2400, 0, 0.0, ""))["budgets"]
    assert (found.seconds, found.earliest, found.latest) == (7200, 7200, 7200)
    unlimited = by_bound(an_hour(), 5, Held(2400, 3, 0.0, ""))["budgets"]
    assert (unlimited.seconds, unlimited.sure) == (None, "exact")


def test_the_longest_queue_at_its_delay_is_the_tail() -> None:
    found = held(
        (queue("a", QueueState.INACTIVE, 10), 3.0),
        (queue("b", QueueState.SNOOZED, 4, 100, 30), 10.0),
        (queue("c", QueueState.RETIRED, 1000, 5, 6), 10.0),
        (queue("d", QueueState.EXHAUSTED, 0, 50), 10.0),
    )
    assert found == Held(70, 10, 30.0, "b")
    tail = by_bound(an_hour(), 5, found)["politeness"]
    assert (tail.seconds, tail.sure) == (30, "at least")


def test_a_queue_is_not_crawled_beyond_its_budget() -> None:
    costly = queue("a", QueueState.READY, 1_000_000, budget=100, spent=40, charges=20)
    assert held((costly, 10.0)) == Held(60, 0, 290.0, "a"), "30 URIs of cost 2"
    spent = queue("a", QueueState.READY, 1_000_000, budget=30, spent=40, charges=20)
    assert held((spent, 10.0)) == Held(0, 0, 0.0, "")


def test_what_waits_for_its_time_is_held_too() -> None:
    later = QueueRecord("a", 1, QueueState.EXHAUSTED, future=3, total_budget=-1)
    both = QueueRecord("b", 2, QueueState.READY, queued=1, future=1, total_budget=50, expenditure=20)
    assert held((later, 10.0), (both, 1.0)) == Held(30, 3, 20.0, "a")
    found = by_bound(an_hour(), 5, held((later, 10.0)))
    assert (found["budgets"].seconds, found["budgets"].sure) == (None, "exact")
    assert "3 URIs are in queues without a total budget" in found["budgets"].why


def test_a_limit_is_used_up_at_the_rate_of_its_figure() -> None:
    found = by_bound(an_hour(), 5, max_uris=Limit(1200, ("succeeded", "failed")), max_time=Limit(50, ()))
    assert (found["max_uris"].seconds, found["max_time"].seconds) == (7200, 50)
    assert by_bound(an_hour(), 5, max_uris=Limit(-3, ("succeeded", "failed")))["max_uris"].seconds == 0
    assert by_bound(an_hour(), 5, max_time=Limit(-3, ()))["max_time"].seconds == 0
    assert by_bound(an_hour(step=0), 5, max_uris=Limit(3, ("finished",)))["max_uris"].seconds is None
    unknown = by_bound(an_hour(), 5, max_time=Limit(None, ()))["max_time"]
    assert (unknown.seconds, unknown.sure) == (None, "unknown")


def test_what_queues_hold_may_not_be_known_yet() -> None:
    assert {found.bound for found in forecasts(an_hour(), waiting=5, holds=None, limits={})} == {"rate"}


def test_the_bound_that_comes_first_binds() -> None:
    def first(last: Window, waiting: int, holds: Held = NOTHING, **limits: Limit) -> str:
        found = binding([*by_bound(last, waiting, holds, **limits).values()])
        return found.bound if found else ""

    budgets, tail = Held(1200, 0, 0.0, ""), Held(0, 3, 9000.0, "slow")
    assert first(an_hour(), 720, Held(0, 1, 0.0, "")) == "rate"
    assert first(an_hour(), 7200, budgets) == "budgets"
    assert first(an_hour(), 720, tail) == "politeness", "the rate of many queues is not that of the last one"
    assert first(an_hour(), 7200, tail) == "rate"
    assert first(an_hour(), 7200, tail, max_time=Limit(60, ())) == "max_time"
    assert first(an_hour(), 0, NOTHING, max_time=Limit(60, ())) == "rate", "nothing waits"
    assert first(an_hour(scheduled=90), 5, tail) == "", "it grows"
    assert first(window([], 0, 3600), 5, tail) == "politeness", "no rate is known"
    assert first(an_hour(), 7200, Held(20, 0, 9000.0, "slow")) == "politeness", "budgets are not used up before"


def test_the_rates_of_a_moment_say_nothing_of_hours() -> None:
    moment = window([SeriesRow(time=1000), SeriesRow(time=1030, succeeded=9, expenditure=9)], 0, 2000)
    assert moment.rates["succeeded"].per_hour == 1080
    limits = {"max_urls": Limit(100, ("succeeded",), "URIs"), "max_fetched": Limit(0, ("succeeded",), "URIs")}
    found = {one.bound: one for one in forecasts(moment, waiting=50, holds=None, limits=limits)}
    assert (found["rate"].seconds, found["rate"].sure) == (None, "unknown")
    assert found["max_urls"].sure == "unknown" and found["max_urls"].why.endswith("after a minute of crawling")
    assert (found["max_fetched"].seconds, found["max_fetched"].sure) == (0.0, "exact")


@pytest.mark.parametrize(
    ("fields", "delay"),
    [
        ({"wake_time": 1045.5, "last_lease_time": 1000}, 44.5),  # its Crawl-delay
        ({"wake_time": 1003.0, "last_lease_time": 1000}, 5.0),
        ({}, 5.0),
        ({"wake_time": 1900.0, "last_lease_time": 1000, "failed_at": 1000.5}, 5.0),  # a retry
        ({"wake_time": 1900.0, "last_lease_time": 1000, "delayed": 1900.0}, 5.0),
        ({"wake_time": 1900.0, "last_lease_time": 1000, "block": 1900.0, "rest": 1030.0}, 29.0),
    ],
)
def test_the_delay_of_a_queue_is_that_of_its_last_lease(fields: dict[str, float], delay: float) -> None:
    one = QueueRecord("a", 1, **fields)  # type: ignore[arg-type]
    assert least_delay(one, 5.0) == delay


def test_the_last_minutes_count_if_the_pace_has_changed() -> None:
    hour, slow, same = an_hour(), window([SeriesRow(0), SeriesRow(300, succeeded=1)], 0, 600), an_hour(step=9)
    assert latest_of(hour, slow) is slow and latest_of(hour, same) is hour
    assert latest_of(hour, window([], 0, 600)) is hour
