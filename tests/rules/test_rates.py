"""Rates between rows of totals."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from budgetfrontier.rules.rates import (
    Rate,
    ToldRate,
    Window,
    curves,
    lasts,
    successive,
    together,
    told_rates,
    window,
)
from budgetfrontier.storage.series import SeriesRow


def row(minute: float, succeeded: int, *, begins: bool = False, **totals: int) -> SeriesRow:
    """The totals of a minute."""
    return SeriesRow(minute * 60, begins, succeeded=succeeded, **totals)


def test_a_rate_is_the_change_of_the_totals_by_the_hour() -> None:
    rows = [row(0, 10), row(1, 16, failed=1, expenditure=9), row(2, 20, failed=1, retried=2, expenditure=9)]
    found = window(rows, 0, 120)
    assert (found.seconds, found.intervals) == (120, 2)
    assert (found.rates["fetched"].count, found.rates["fetched"].per_hour) == (13, 390)
    assert (found.rates["spent"].count, found.rates["discovered"].count) == (9, 0)
    assert found.rates["fetched"].low is None, "two minutes are no spread"


def test_time_in_which_no_process_ran_does_not_count() -> None:
    rows = [row(0, 0, begins=True), row(1, 60), row(100, 60, begins=True, run=1), row(101, 90, run=1)]
    found = window(rows, 0, 101 * 60)
    assert (found.seconds, found.rates["fetched"].per_hour) == (120, 2700)


def test_of_rows_that_reach_beyond_the_time_their_part_counts() -> None:
    found = window([row(0, 0), row(10, 100)], 300, 10_000)
    assert (found.seconds, found.rates["succeeded"].count) == (300, 50)


def test_the_spread_is_that_of_the_slower_and_the_faster_quarter() -> None:
    rows = [row(0, 0), row(1, 1), row(2, 3), row(3, 6), row(4, 10)]
    rate = window(rows, 0, 240).rates["fetched"]
    assert (rate.low, rate.per_hour, rate.high) == (105, 150, 195)


def test_a_spread_that_does_not_contain_the_rate_is_left_out() -> None:
    short = [row(0, 0), row(1, 60), row(2, 120), row(3, 180), row(4, 240), row(4.1, 1240)]
    uneven = window(short, 0, 600)
    assert uneven.rates["fetched"].per_hour > 3600
    assert (uneven.rates["fetched"].low, uneven.rates["fetched"].high) == (None, None)
    even = [row(minute, 60 * minute) for minute in range(10)]
    both = together([window(even, 0, 540), window(even[:5], 0, 540)])  # the second one ran for less of the time
    assert both.rates["fetched"].per_hour < 7200 and both.rates["fetched"].low is None


def test_a_moment_between_two_idle_times_is_no_part_of_the_spread() -> None:
    """A URI every 34 to 46 seconds, with rows before and after each."""
    times = [42.0 * done + (done % 3 - 1) * 4 for done in range(31)]
    rows = [SeriesRow(time, succeeded=done) for done, at in enumerate(times) for time in (at, at + 33)]
    found = window(rows, times[0], times[-1])
    rate = found.rates["succeeded"]
    assert found.intervals == 30 and rate.low is not None and rate.high is not None
    assert 75 <= rate.low < rate.per_hour < rate.high <= 110


@pytest.mark.parametrize("rows", [[], [row(1, 5)], [row(5, 5), row(5, 9)], [row(5, 5), row(4, 9)]])
def test_without_two_rows_in_order_nothing_is_known(rows: list[SeriesRow]) -> None:
    assert window(rows, 0, 1000) == Window(0.0, 0, {})


def test_dead_letters_that_were_replayed_count_as_no_change() -> None:
    assert window([row(0, 9, dead=9), row(1, 9, dead=5)], 0, 60).rates["buried"].count == 0


def test_nothing_is_known_between_totals_that_fall() -> None:
    rows = [row(0, 900), row(1, 5, run=1), row(2, 7, run=1)]
    assert (window(rows, 0, 120).seconds, window(rows, 0, 120).rates["fetched"].count) == (60, 2)


def test_rows_that_alternate_because_the_clock_was_set_back_count_once() -> None:
    first = [row(minute, 100 * minute, begins=not minute, run=1) for minute in range(10)]
    second = [row(minute + 0.5, 900 + 100 * minute, begins=not minute, run=2) for minute in range(10)]
    rows = sorted(first + second, key=lambda row: row.time)
    assert window(rows[1:], 0, 600).rates["succeeded"].count == 1700
    assert (window(rows, 0, 600).seconds, window(rows, 0, 600).rates["succeeded"].per_hour) == (18 * 60, 6000)


def test_totals_that_a_repair_has_let_fall_are_not_counted_again() -> None:
    """Also if they reach what they were before."""
    before = [row(minute, 100 * minute, begins=not minute, run=1) for minute in range(10)]
    after = [row(20 + minute, 500 + 100 * minute, begins=not minute, run=2) for minute in range(10)]
    found = window(before + after, 0, 3600)
    assert (found.seconds, found.intervals, found.rates["succeeded"].count) == (18 * 60, 18, 1800)


@pytest.mark.parametrize("seed", range(50))
def test_no_interval_is_lost_or_made_up_whatever_clocks_and_repairs_do(seed: int) -> None:
    """Runs whose rows alternate, as the clock was set back; a repair lets totals fall."""
    draw = random.Random(seed)
    times = random.Random(seed).sample(range(10_000), 200)
    rows: list[SeriesRow] = []
    expected: set[tuple[float, float]] = set()
    done = 0
    for number in range(1, draw.randint(2, 6)):
        done = max(done - draw.choice((0, 0, 3, 40)), 0)
        mine = []
        for place, time in enumerate(sorted(times.pop() for _ in range(draw.randint(2, 8)))):
            mine.append(row(time, done, begins=not place, run=number))
            done += draw.choice((0, 1, 5, 20))
        expected |= {(before.time, after.time) for before, after in pairwise(mine)}
        rows += mine
    found = successive(sorted(rows, key=lambda row: row.time))
    assert {(before.time, after.time) for before, after in found} == expected


def test_what_was_done_between_two_totals_of_which_one_is_not_in_a_time_is_an_estimate() -> None:
    rows = [row(0, 0), row(10, 100), row(60, 100), row(61, 130)]
    assert window(rows, 0, 61 * 60).cut == 0
    assert window(rows, 300, 61 * 60).cut == 600
    assert window(rows, 1200, 61 * 60).cut == 0, "nothing was done in what is cut"
    assert window(rows, 1200, 60.5 * 60).cut == 60
    assert together([window(rows, 300, 3600), window(rows, 1200, 3660)]).cut == 600


def test_a_curve_has_the_rate_of_each_part_of_a_time() -> None:
    rows = [row(0, 0), row(1, 10), row(2, 10), row(3, 40), row(5, 40, begins=True, run=1), row(6, 41, run=1)]
    assert curves(rows, 0, 360, 6)["fetched"] == [600, 0, 1800, None, None, 60]
    assert curves(rows, 0, 360, 3)["fetched"] == [300, 1800, 60]
    assert curves([], 0, 360, 2)["fetched"] == [None, None]
    rows = [row(0, 0), row(1, 60), row(3, 60)]
    assert curves(rows, 0, 180, 1)["fetched"] == [1200], "a mean over time, not over intervals"


def test_a_curve_may_begin_within_an_interval_and_end_within_another() -> None:
    rows = [row(60, 0), row(62, 120), row(66, 120), row(67, 240)]
    assert curves(rows, 61 * 60, 67 * 60, 3)["fetched"] == [1800, 0, 3600]
    assert curves(rows, 50 * 60, 62 * 60, 2)["fetched"] == [None, 3600]
    assert curves(rows, 30 * 60, 50 * 60, 2)["fetched"] == [None, None]


def test_the_smallest_part_of_an_interval_counts_as_what_it_is() -> None:
    short = [SeriesRow(0.0), SeriesRow(10.5, succeeded=21), SeriesRow(20.0, succeeded=21)]
    assert curves(short, 0, 20, 2)["fetched"] == [7200, 360]


@pytest.mark.parametrize(("seconds", "long"), [(59.9, False), (60.0, True)])
def test_rates_are_sure_after_a_minute_of_crawling(seconds: float, long: bool) -> None:
    assert lasts(seconds) is long


def test_a_run_of_less_than_a_second_counts() -> None:
    rows = [SeriesRow(0.0), SeriesRow(0.5, succeeded=2)]
    assert (window(rows, 0, 10).seconds, window(rows, 0, 10).rates["succeeded"].per_hour) == (0.5, 14_400)


def test_short_stops_that_were_added_up_do_not_count() -> None:
    found = window([row(0, 0), row(10, 60, stopped=480)], 0, 600)
    assert (found.seconds, found.rates["succeeded"].per_hour) == (120, 1800)


def test_of_a_time_in_which_it_crawled_throughout_the_stops_are_elsewhere() -> None:
    rows = [row(0, 0), row(10, 60, stopped=480)]
    found = window(rows, 60, 120, throughout=True)
    assert (found.seconds, found.rates["succeeded"].count, found.cut) == (60, 30, 600)
    assert window(rows, 60, 540, throughout=True).rates["succeeded"].count == 60, "not more than all"
    assert window(rows, 0, 600, throughout=True) == window(rows, 0, 600)


def test_only_the_intervals_within_a_time_count() -> None:
    rows = [row(minute, minute) for minute in range(6)]
    found = window(rows, 120, 240)
    assert (found.seconds, found.intervals, found.rates["succeeded"].count) == (120, 2, 2)


def test_figures_may_be_others() -> None:
    rows = [row(0, 0, failed=1), row(1, 3, failed=2)]
    assert window(rows, 0, 60, figures={"ended": ("succeeded", "failed")}).rates == {
        "ended": Rate(count=4, per_hour=240, low=None, high=None)
    }


# -- several frontiers


def test_the_rates_of_partitions_are_added_up() -> None:
    quick = Window(3600.0, 60, {"spent": Rate(count=100, per_hour=100, low=50, high=150)})
    slow = Window(1800.0, 30, {"spent": Rate(count=20, per_hour=40, low=10, high=20)})
    nothing = Window(0.0, 0, {})
    assert together([quick, slow]) == Window(3600.0, 60, {"spent": Rate(count=120, per_hour=120, low=60, high=170)})
    assert together([nothing, quick, nothing]) == quick
    assert together([slow]) is slow
    assert together([nothing, nothing]) == together([]) == Window(0.0, 0, {})


@pytest.mark.parametrize(("low", "high"), [(None, None), (None, 30.0), (10.0, None)])
def test_a_spread_that_is_known_of_some_partitions_only_is_left_out(low: float | None, high: float | None) -> None:
    known = Window(3600.0, 60, {"spent": Rate(count=100, per_hour=100, low=50, high=150)})
    other = Window(3600.0, 3, {"spent": Rate(count=20, per_hour=20, low=low, high=high)})
    assert together([known, other]).rates == {"spent": Rate(count=120, per_hour=120, low=None, high=None)}


@pytest.mark.parametrize(("seconds", "told"), [(59.0, (None, None, None)), (60.0, (2000.5, 1000.0, 3000.0))])
def test_counts_are_told_as_whole_numbers_and_no_rate_an_hour_of_a_moment(
    seconds: float, told: tuple[float | None, ...]
) -> None:
    fetched = Rate(count=1454.9998962932787, per_hour=2000.5, low=1000.0, high=3000.0)
    assert told_rates(Window(seconds, 3, {"fetched": fetched})) == {"fetched": ToldRate(1455, *told)}
