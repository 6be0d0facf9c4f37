"""When each bound would end a crawl."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec import structs

from budgetfrontier.core.model import QueueRecord, QueueState
from budgetfrontier.rules.forecasts import (
    BYTES,
    Forecast,
    Held,
    Holdings,
    Limit,
    binding,
    first_full,
    forecasts,
    full_now,
    is_of_rates,
    lasting_delay,
    latest_of,
    least_delay,
)
from budgetfrontier.rules.rates import Rate, Window, window
from budgetfrontier.settings import Settings
from budgetfrontier.settings.sheets import effective
from budgetfrontier.storage.series import SeriesRow


def queue(
    name: str, state: QueueState, queued: int, budget: int = -1, spent: int = 0, charges: int = 0, **fields: int
) -> QueueRecord:
    counts = {"queued": queued, "total_budget": budget, "expenditure": spent, "charges": charges}
    return structs.replace(QueueRecord(name, 1, state, balance_replenish_amount=9), **counts, **fields)


def held(
    *queues: tuple[QueueRecord, float],
    reached: bool = True,
    wait: float = 0.0,
    quota_used: bool | None = None,
    rests: Callable[[int], float] | None = None,
    due: float = 0.0,
) -> Held:
    """What these queues hold, each given with its shortest delay."""
    holdings, delays = Holdings(), {queue.queue: delay for queue, delay in queues}
    terms = reached, wait, quota_used, rests, due
    passing = holdings.through((queue for queue, _ in queues), lambda queue: (delays[queue.queue], *terms))
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
        (10, 0, 0, False, 11),  # what its URIs cost is not known
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
        SeriesRow(
            60.0 * i, succeeded=step * i, scheduled=scheduled * i, found=scheduled * i, expenditure=expenditure * i
        )
        for i in range(61)
    ]
    return window(rows, 0, 3600)


def by_bound(last: Window, waiting: int, holds: Held = NOTHING, **limits: Limit) -> dict[str, Forecast]:
    return {found.bound: found for found in forecasts(last, waiting=waiting, holds=holds, limits=limits)}


def test_what_waits_ends_at_the_rate_less_what_is_scheduled() -> None:
    found = by_bound(an_hour(scheduled=4), 720)["rate"]
    assert (found.seconds, found.sure) == (7200, "likely")
    grows = by_bound(an_hour(scheduled=15), 720)["rate"]
    assert grows.seconds is None
    assert "300 an hour more are found than end" in grows.why
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
    later = queue("a", QueueState.EXHAUSTED, 0, future=3)
    both = queue("b", QueueState.READY, 1, 50, 20, future=1)
    assert held((later, 10.0), (both, 1.0)) == Held(30, 3, 20.0, "a")
    found = by_bound(an_hour(), 5, held((later, 10.0)))
    assert (found["budgets"].seconds, found["budgets"].sure) == (None, "exact")
    assert "3 URIs are in queues without a total budget" in found["budgets"].why


def test_quotas_end_queues_before_and_what_is_over_one_does_not_wait() -> None:
    one = queue("a", QueueState.READY, 4, 100, 30), 10.0
    over = held(one, quota_used=True)
    assert over == Held(0, 0, 0.0, "", 0, 4)
    by_rate = by_bound(an_hour(), 10, over)["rate"]
    assert (
        by_rate.seconds == by_bound(an_hour(), 6)["rate"].seconds and "6 wait, 4 more are over a quota" in by_rate.why
    )
    none = by_bound(an_hour(), 4, over)["rate"]
    assert (none.seconds, none.why) == (0, "nothing waits, 4 more are over a quota")
    under = held(one, quota_used=False)
    assert under == Held(70, 0, 0.0, "", 4, 0), "no tail: the quota may end it before"
    found = by_bound(an_hour(), 4, under)["quotas"]
    assert (found.seconds, found.sure) == (None, "unknown")
    assert found.why == "4 URIs are in queues with quotas, which may end these before: not considered"


def test_a_limit_is_used_up_at_the_rate_of_its_figure() -> None:
    found = by_bound(an_hour(), 5, max_uris=Limit(1200, ("succeeded", "failed")), max_time=Limit(50, ()))
    assert (found["max_uris"].seconds, found["max_time"].seconds) == (7200, 50)
    assert by_bound(an_hour(), 5, max_uris=Limit(-3, ("succeeded", "failed")))["max_uris"].seconds == 0
    assert by_bound(an_hour(), 5, max_time=Limit(-3, ()))["max_time"].seconds == 0
    assert by_bound(an_hour(step=0), 5, max_uris=Limit(3, ("finished",)))["max_uris"].seconds is None
    unknown = by_bound(an_hour(), 5, max_time=Limit(None, ()))["max_time"]
    assert (unknown.seconds, unknown.sure) == (None, "unknown")


def test_a_disk_fills_by_what_each_figure_uses_and_ends_nothing() -> None:
    disk = Limit(36_000, ("discovered", "fetched"), BYTES, (10.0, 2.0))
    found = by_bound(an_hour(), 5, disk=disk)
    rates = an_hour().rates
    used = 10 * rates["discovered"].per_hour + 2 * rates["fetched"].per_hour
    assert found["disk"].seconds == pytest.approx(36_000 / used * 3600)
    assert (found["disk"].sure, found["disk"].why.partition(",")[0]) == ("rough", "35.2 KiB left")
    assert binding([found["disk"]]) is None
    assert first_full([*found.values()]) is found["disk"]
    assert first_full([*by_bound(an_hour(), 5, max_uris=Limit(5, ("succeeded",), "URIs")).values()]) is None


def test_a_file_that_was_just_created_is_no_rate_and_a_full_disk_needs_none() -> None:
    found = by_bound(an_hour(), 5, disk=Limit(1 << 30, ("discovered", "fetched"), BYTES, (0.0, 0.0)))["disk"]
    assert (found.seconds, found.sure) == (None, "unknown")
    assert found.why == "1.0 GiB left; how fast the crawl's files grow is not known yet"
    assert full_now([found]) is None
    full = by_bound(an_hour(), 5, disk=Limit(0, ("discovered", "fetched"), BYTES, (0.0, 0.0)))
    assert full_now([*full.values()]) is full["disk"]
    assert full["disk"].sure == "exact"
    assert binding([full["rate"], full["disk"]]) is full["rate"]


def test_what_queues_hold_may_not_be_known_yet() -> None:
    assert {found.bound for found in forecasts(an_hour(), waiting=5, holds=None, limits={})} == {"rate", "queues"}


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
        ({"wake_time": 1006.0, "last_lease_time": 1000}, 5.0),
        ({}, 5.0),
        ({"wake_time": 1900.0}, 5.0),  # it has leased nothing
        ({"wake_time": 1900.0, "last_lease_time": 1000, "failed_at": 1000.5}, 5.0),  # a retry
        ({"wake_time": 1900.0, "last_lease_time": 1000, "delayed": 1900.0}, 5.0),
        ({"wake_time": 1900.0, "last_lease_time": 1000, "block": 1900.0, "rest": 1030.0}, 29.0),
    ],
)
def test_the_delay_of_a_queue_is_that_of_its_last_lease(fields: dict[str, float], delay: float) -> None:
    one = QueueRecord("a", 1, **fields)  # type: ignore[arg-type]
    assert least_delay(one, 5.0) == delay


@pytest.mark.parametrize(
    ("kept", "seconds", "delay"),
    [
        (33.0, 0.8, 4.0),  # the last fetch was slow by chance
        (3.5, 0.8, 3.5),
        (3.5, 0.1, 3.0),
        (36.0, 6.0, 30.0),  # a slow host
        (8.0, 0.1, 7.0),  # a Crawl-delay
        (45.0, 0.5, 40.0),
        (44.0, 0.0, 44.0),
    ],
)
def test_a_fetch_that_was_slow_by_chance_lengthens_no_further_delays(kept: float, seconds: float, delay: float) -> None:
    """The shortest delay is 3 s, the longest 30 s, and five times as long as the fetch."""
    assert lasting_delay(kept, seconds, effective(Settings(), []).base) == delay


def paced(seconds: float, pace: float) -> tuple[float, Window]:
    """A stretch of time in which URIs ended at a pace an hour."""
    return seconds, Window(seconds, 60, {"finished": Rate(pace * seconds / 3600, pace, None, None)})


def test_the_last_minutes_count_if_the_pace_has_changed() -> None:
    hour, slow = (3600.0, an_hour()), (600.0, window([SeriesRow(0), SeriesRow(300, succeeded=1)], 0, 600))
    same = 600.0, an_hour(step=9)
    assert latest_of(hour, [slow]) is slow and latest_of(hour, [same]) is hour and latest_of(hour, []) is hour
    assert latest_of(hour, [(600.0, window([], 0, 600))]) is hour
    moment = window([SeriesRow(0), SeriesRow(59, succeeded=1)], 0, 600)
    assert latest_of(hour, [(600.0, moment)]) is hour
    assert latest_of(hour, [(600.0, Window(600.0, 0, {}))]) is hour, "nothing is known of the last minutes"
    unknown = 3600.0, Window(3600.0, 0, {})
    assert latest_of(unknown, [slow]) is unknown


@pytest.mark.parametrize(("then", "now", "changed"), [
    (100.0, 150.0, False), (100.0, 151.0, True), (150.0, 100.0, False), (151.0, 100.0, True), (0.0, 10.0, True),
])  # fmt: skip
def test_a_pace_has_changed_by_more_than_a_half(then: float, now: float, changed: bool) -> None:
    hour, lately = paced(3600.0, then), paced(3600.0, now)
    assert latest_of(hour, [lately]) is (lately if changed else hour)


@pytest.mark.parametrize(
    ("whole", "lately", "changed"),
    [
        (108_000.0, 1620.0, True),  # one slow host is left: 0.45 URIs end in a second, after 30
        (108_000.0, 0.0, True),
        (60.0, 480.0, True),  # sixteen where there would be two
        (60.0, 150.0, False),
        (60.0, 0.0, False),
        (300.0, 90.0, False),  # three where there would be ten
        (500.0, 90.0, True),
    ],
)
def test_a_few_minutes_show_a_change_unless_it_may_be_chance(whole: float, lately: float, changed: bool) -> None:
    hour, minutes = paced(3600.0, whole), paced(120.0, lately)
    assert latest_of(hour, [minutes]) is (minutes if changed else hour)


def test_the_longest_stretch_at_the_new_pace_counts_if_little_ends_in_a_shorter_one() -> None:
    hour = paced(3600.0, 5000.0)
    two, four, eight, with_the_burst = paced(120, 0.0), paced(240, 30.0), paced(480, 15.0), paced(960, 18_000.0)
    assert latest_of(hour, [two, four, eight, with_the_burst]) is with_the_burst, "that is no chance either"
    assert latest_of(hour, [two, four, eight, paced(960, 5000.0)]) is eight
    assert latest_of(hour, [two, paced(240, 5100.0), eight]) is two
    enough = paced(480, 3000.0)
    assert latest_of(hour, [two, four, enough, paced(960, 1.0)]) is enough


# -- the words and figures of each forecast

PER_HOUR = {"succeeded": 90.0, "failed": 6.0, "disregarded": 3.0, "buried": 1.0, "found": 20.0, "spent": 50.0}
PER_HOUR["bytes"] = 2048.0


def rates(intervals: int = 30, *, low: float | None = 0.5, high: float | None = 2.0, **changed: float) -> Window:
    """An hour with these rates; `low` and `high` are factors."""
    found = {
        name: Rate(each, each, None if low is None else each * low, None if high is None else each * high)
        for name, each in (PER_HOUR | changed).items()
    }
    return Window(3600.0, intervals, found)


UNKNOWN = Window(0.0, 0, {})
LATER = "rates are known after a minute of crawling"


@pytest.mark.parametrize(
    ("last", "waiting", "expected"),
    [
        (rates(), 0, Forecast("rate", 0.0, 0.0, 0.0, "exact", "nothing waits")),
        (UNKNOWN, 5, Forecast("rate", None, None, None, "unknown", LATER)),
        (
            rates(),
            1600,
            Forecast("rate", 72_000.0, None, None, "likely", "1,600 wait, and 80 an hour more end than are found"),
        ),
        (
            rates(29, found=99.5),
            1,
            Forecast("rate", None, None, None, "unknown", "1 waits, and about as many are found as end"),
        ),
        (
            rates(29, succeeded=0.5, failed=0.0, disregarded=0.0, buried=0.0, found=0.0),
            1,
            Forecast("rate", 7200.0, None, None, "rough", "1 waits, and 0.5 an hour more end than are found"),
        ),
        (rates(found=100.0), 5, Forecast("rate", None, None, None, "likely", "as many are found as end")),
        (
            rates(29, found=1300.0),
            5,
            Forecast("rate", None, None, None, "rough", "1,200 an hour more are found than end"),
        ),
        (  # a crawl that was only filled, or fetches nothing
            rates(succeeded=0.0, failed=0.0, disregarded=0.0, buried=0.0),
            200,
            Forecast("rate", None, None, None, "unknown", "200 wait, and nothing has ended lately"),
        ),
    ],
)
def test_the_forecast_by_rate(last: Window, waiting: int, expected: Forecast) -> None:
    assert by_bound(last, waiting)["rate"] == expected


SPENDABLE = "1,000 may still be spent by queues that are not retired"


@pytest.mark.parametrize(
    ("last", "holds", "expected"),
    [
        (
            rates(),
            Held(1000, 0, 0.0, ""),
            Forecast("budgets", 72_000.0, 36_000.0, 144_000.0, "likely", f"{SPENDABLE}, 50 an hour"),
        ),
        (
            rates(29, low=0.0, high=None),
            Held(1000, 0, 0.0, ""),
            Forecast("budgets", 72_000.0, None, None, "rough", f"{SPENDABLE}, 50 an hour"),
        ),
        (
            rates(29, spent=5000.0, low=None),
            Held(1000, 0, 0.0, ""),
            Forecast("budgets", 720.0, 360.0, None, "rough", f"{SPENDABLE}, 5,000 an hour"),
        ),
        (
            rates(29, spent=0.0),
            Held(1000, 0, 0.0, ""),
            Forecast("budgets", None, None, None, "rough", f"{SPENDABLE}, and nothing is used at present"),
        ),
        (UNKNOWN, Held(1000, 0, 0.0, ""), Forecast("budgets", None, None, None, "unknown", f"{SPENDABLE}; {LATER}")),
        (
            rates(),
            Held(0, 0, 0.0, ""),
            Forecast("budgets", 0.0, 0.0, 0.0, "exact", "0 may still be spent by queues that are not retired"),
        ),
        (
            rates(),
            Held(1, 0, 0.0, ""),
            Forecast(
                "budgets",
                72.0,
                36.0,
                144.0,
                "likely",
                "1 may still be spent by queues that are not retired, 50 an hour",
            ),
        ),
        (
            rates(),
            Held(1000, 1200, 0.0, ""),
            Forecast("budgets", None, None, None, "exact", "1,200 URIs are in queues without a total budget"),
        ),
    ],
)
def test_the_forecast_by_budgets(last: Window, holds: Held, expected: Forecast) -> None:
    assert by_bound(last, 5, holds)["budgets"] == expected


def test_a_crawl_does_not_end_before_its_last_uri_for_later_is_due() -> None:
    later = queue("a.test", QueueState.EXHAUSTED, 0, 50, future=3)
    found = held((later, 10.0), wait=60.0, due=3600.0)
    assert (found.tail, found.is_due) == (3600.0, True)
    assert by_bound(rates(), 5, found)["politeness"].why == (
        "a.test, whose last URI for later is not due before, if nothing more is found there"
    )
    assert held((later, 10.0), wait=60.0, due=70.0) == Held(50, 0, 80.0, "a.test"), "its delays take longer"
    poor = queue("a.test", QueueState.EXHAUSTED, 0, 2, future=3)
    assert held((poor, 10.0), wait=60.0, due=3600.0).tail == 70.0, "its budget may end it before"


def test_the_forecast_by_politeness() -> None:
    assert by_bound(rates(), 5, Held(0, 0, 90.0, "a.test"))["politeness"] == Forecast(
        "politeness", 90.0, 90.0, None, "at least", "a.test at its shortest delay, if nothing more is found there"
    )
    assert "politeness" not in by_bound(rates(), 5, Held(0, 0, 0.0, ""))


ENDED = ("succeeded", "failed")


@pytest.mark.parametrize(
    ("last", "limit", "expected"),
    [
        (
            rates(),
            Limit(9600, ENDED, "URIs"),
            Forecast("it", 360_000.0, 180_000.0, 720_000.0, "likely", "9,600 URIs left, 96 an hour"),
        ),
        (
            rates(),
            Limit(96, ENDED, "URIs"),
            Forecast("it", 3600.0, 1800.0, 7200.0, "likely", "96 URIs left, 96 an hour"),
        ),
        (
            rates(low=None, high=None),
            Limit(96, ENDED, "URIs"),
            Forecast("it", 3600.0, None, None, "likely", "96 URIs left, 96 an hour"),
        ),
        (
            rates(),
            Limit(96, ("none", "failed"), "URIs"),
            Forecast("it", 57_600.0, 28_800.0, 115_200.0, "likely", "96 URIs left, 6 an hour"),
        ),
        (rates(), Limit(96, ("none",), "URIs"), Forecast("it", None, None, None, "unknown", f"96 URIs left; {LATER}")),
        (rates(), Limit(0, ENDED, "URIs"), Forecast("it", 0.0, 0.0, 0.0, "exact", "0 URIs left")),
        (UNKNOWN, Limit(-5, ENDED, "URIs"), Forecast("it", 0.0, 0.0, 0.0, "exact", "0 URIs left")),
        (
            rates(),
            Limit(4096, ("bytes",), BYTES),
            Forecast("it", 7200.0, 3600.0, 14_400.0, "likely", "4.0 KiB left, 2.0 KiB an hour"),
        ),
        (rates(), Limit(-5, ("bytes",), BYTES), Forecast("it", 0.0, 0.0, 0.0, "exact", "0 B left")),
        (
            UNKNOWN,
            Limit(4096, ("bytes",), BYTES),
            Forecast("it", None, None, None, "unknown", f"4.0 KiB left; {LATER}"),
        ),
        (
            rates(),
            Limit(None, ENDED),
            Forecast("it", None, None, None, "unknown", "only `budgetfrontier crawl` counts what is used of it"),
        ),
        (UNKNOWN, Limit(50, ()), Forecast("it", 50, 50, 50, "exact", "while a process runs it, without pauses")),
        (UNKNOWN, Limit(-1, ()), Forecast("it", 0.0, 0.0, 0.0, "exact", "while a process runs it, without pauses")),
    ],
)
def test_the_forecast_by_a_limit(last: Window, limit: Limit, expected: Forecast) -> None:
    assert by_bound(last, 5, it=limit)["it"] == expected


def test_a_crawl_in_which_nothing_waits_is_over_whatever_politeness_was() -> None:
    found = binding([*forecasts(rates(), waiting=0, holds=Held(0, 0, 90.0, "a.test"), limits={})])
    assert found is not None and found.bound == "rate"


@pytest.mark.parametrize(("tail", "bound"), [(3600.0, "rate"), (3601.0, "politeness")])
def test_politeness_binds_if_it_takes_longer_than_the_rate(tail: float, bound: str) -> None:
    found = binding([*forecasts(rates(), waiting=80, holds=Held(0, 3, tail, "a.test"), limits={})])
    assert found is not None and (found.bound, found.seconds) == (bound, tail)


# -- the holdings of queues


def test_the_holdings_of_all_queues_are_added_up() -> None:
    found = held(
        (queue("a", QueueState.READY, 3), 1.0),
        (queue("b", QueueState.READY, 4), 1.0),
        (queue("c", QueueState.READY, 50, 10, 4, 2), 1.0),
        (queue("d", QueueState.READY, 50, 7), 1.0),
    )
    assert found == Held(6 + 7, 3 + 4, 6.0, "d")


def test_as_long_as_the_cost_is_not_known_a_uri_costs_one() -> None:
    one = queue("a", QueueState.READY, 50, 10)
    assert (held((one, 2.0)).tail, held((one, 2.0), reached=False).tail) == (18.0, 20.0)


@pytest.mark.parametrize(("budget", "spent", "reached"), [(0, 0, True), (3, 3, True), (3, 4, False)])
def test_a_queue_that_has_spent_its_budget_holds_nothing_up(budget: int, spent: int, reached: bool) -> None:
    one = queue("a", QueueState.READY, 50, budget, spent, spent)
    assert held((one, 10.0), reached=reached, wait=50.0) == Held(0, 0, 0.0, "")


@pytest.mark.parametrize("fields", [{"balance_replenish_amount": 0}, {"max_completed": 2, "completed": 2}])
def test_a_queue_that_retires_in_its_turn_holds_nothing(fields: dict[str, int]) -> None:
    """Its URIs are never leased, whatever its total budget."""
    found = held(*((queue("a", QueueState.READY, 50, budget, **fields), 10.0) for budget in (-1, 7)), wait=50.0)
    assert found == Held(0, 0, 0.0, "")


def test_a_queue_holds_no_more_than_may_be_completed_before_it_retires() -> None:
    held_up = held((queue("a", QueueState.READY, 50, -1, max_completed=12, completed=2), 10.0))
    assert (held_up.unlimited, held_up.tail) == (10, 90.0)


def test_the_last_uri_of_a_queue_comes_after_its_wait_and_a_delay_for_each_further_one() -> None:
    assert held((queue("a", QueueState.SNOOZED, 1), 10.0), wait=50.0) == Held(0, 1, 50.0, "a")
    assert held((queue("a", QueueState.SNOOZED, 3), 10.0), wait=50.0) == Held(0, 3, 70.0, "a")


def test_a_host_that_backs_off_ends_the_crawl_later_than_its_pace_says() -> None:
    asked: list[int] = []

    def ahead(urls: int) -> float:
        asked.append(urls)
        return 5000.0

    found = held((queue("a", QueueState.SNOOZED, 9, 4, 1, 1), 10.0), wait=60.0, rests=ahead)
    assert (found.resting, found.rest_end, found.rest_queue, found.tail) == (3, 5080.0, "a", 80.0)
    assert asked == [3], "no more than its budget lets it fetch"
    told = list(forecasts(an_hour(), waiting=9, holds=found, limits={"max_time": Limit(9000, ())}))
    rests = next(one for one in told if one.bound == "back-off")
    assert binding(told) is rests and not is_of_rates(rests) and "3 URIs wait for such hosts" in rests.why
    assert binding([one for one in told if one.bound != "back-off"]) is not None
    sooner = list(forecasts(an_hour(), waiting=9, holds=found, limits={"max_time": Limit(600, ())}))
    first = binding(sooner)
    assert first is not None and first.bound == "max_time"
    none = held((queue("a", QueueState.SNOOZED, 9), 10.0), rests=lambda urls: 0.0)
    assert (none.resting, none.rest_end) == (0, 0.0)
