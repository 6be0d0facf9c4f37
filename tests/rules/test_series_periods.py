from __future__ import annotations

from budgetfrontier.rules import series_periods
from budgetfrontier.rules.series_periods import Resolution

DAY = 86_400
NOON = 20_000 * DAY + 12 * 3600


def test_a_row_is_due_at_the_next_full_minute() -> None:
    assert series_periods.next_row(NOON) == NOON + 60
    assert series_periods.next_row(NOON + 59.9) == NOON + 60


def test_rows_of_a_minute_are_thinned_to_their_hour_when_all_are_25_hours_old() -> None:
    oldest, due = NOON + 90, NOON + 3600 + 25 * 3600
    assert series_periods.coarser(Resolution.MINUTE, oldest, due - 1) is None
    assert series_periods.coarser(Resolution.MINUTE, oldest, due) == (Resolution.HOUR, NOON, NOON + 3600)


def test_rows_of_an_hour_are_thinned_to_their_day_after_thirty_days() -> None:
    midnight = NOON - 12 * 3600
    for resolution, to in [
        (Resolution.HOUR, Resolution.DAY),
        (Resolution.BUSIEST_OF_HOUR, Resolution.BUSIEST_OF_DAY),
    ]:
        assert series_periods.coarser(resolution, NOON, midnight + 31 * DAY - 1) is None
        assert series_periods.coarser(resolution, NOON, midnight + 31 * DAY) == (to, midnight, midnight + DAY)


def test_rows_of_a_day_stay() -> None:
    assert Resolution.DAY not in series_periods.THINNED
    assert Resolution.BUSIEST_OF_DAY not in series_periods.THINNED


def test_the_hour_of_a_time_begins_with_it() -> None:
    assert series_periods.hour_of(NOON + 3599) == NOON
