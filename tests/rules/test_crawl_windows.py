"""Crawl windows against plain arithmetic with the local time, minute by minute, over all changes of the clock."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis.strategies import integers, lists, sampled_from, tuples

from budgetfrontier.rules import crawl_windows
from budgetfrontier.rules.crawl_windows import LONGEST, Hours
from budgetfrontier.settings.windows import DAYS, read, window
from tests.examples import few

ZONES = (
    "UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia",
    "America/St_Johns", "Africa/Casablanca", "Pacific/Kwajalein", "Asia/Pyongyang",
)  # fmt: skip
CHANGES = tuple(
    int(datetime.fromisoformat(f"{day}T00:00+00:00").timestamp())
    for day in (
        "2026-03-29", "2026-10-25",  # Berlin, Casablanca's month without summer time near by
        "2026-03-08", "2026-11-01",  # New York, St. John's
        "2026-04-04", "2026-10-03",  # Lord Howe: half an hour
        "2011-12-30",  # Apia skips a day
        "1993-08-21",  # Kwajalein does
        "2026-02-15", "2026-03-22",  # Casablanca
        "2015-08-14", "2018-05-04",  # Pyongyang: half an hour, for good
        "2026-07-01",
    )
)  # fmt: skip
MINUTES = (*range(0, 1440, 30), 1, 119, 121, 149, 179, 181, 1439)


def open_by_the_clock(text: str, when: float) -> bool:
    """Whether a window is open: the local time is between its edges, as a calendar has them."""
    one = window(text)
    local = datetime.fromtimestamp(when, UTC).astimezone(one.zone).replace(tzinfo=None)
    for day in (local.date(), local.date() - timedelta(days=1)):
        if day.weekday() in one.days:
            begins = datetime.combine(day, time()) + timedelta(minutes=one.start)
            ends = datetime.combine(day, time()) + timedelta(minutes=one.end)
            if begins <= local < (ends if ends > begins else ends + timedelta(days=1)):
                return True
    return False


def text_of(days: set[int], start: int, length: int, zone: str) -> str:
    end = (start + length) % 1440
    hours = f"{start // 60:02d}:{start % 60:02d}-{end // 60:02d}:{end % 60:02d}"
    return read(f"{','.join(DAYS[day] for day in sorted(days))} {hours} {zone}")


windows = tuples(
    lists(integers(0, 6), min_size=1, max_size=7).map(set),
    sampled_from(MINUTES), sampled_from([one for one in MINUTES if one]), sampled_from(ZONES),
).map(lambda given: text_of(*given))  # fmt: skip
times = tuples(sampled_from(CHANGES), integers(-3 * 1440, 3 * 1440), sampled_from((0, 0.5, 59.999))).map(
    lambda given: given[0] + 60 * given[1] + given[2]
)


@few(200)
@given(windows, times)
@example("sun 02:00-03:00 Europe/Berlin", CHANGES[0] + 0.5)
@example("sun 01:30-02:30 Europe/Berlin", CHANGES[1] - 1.0)
@example("fri 00:00-24:00 Pacific/Apia", CHANGES[6] - 86400.0)
@example("sat 22:00-06:00 Australia/Lord_Howe", float(CHANGES[4]))
def test_a_window_is_open_by_the_clock_of_its_zone_and_changes_when_it_says(text: str, when: float) -> None:
    one = window(text)
    was_open = crawl_windows.is_open(one, when)
    assert was_open is open_by_the_clock(text, when)
    changes = crawl_windows.changes_at(one, when)
    assert when < changes <= when + LONGEST, "no wait is endless"
    assert crawl_windows.is_open(one, changes) is open_by_the_clock(text, changes) is not was_open
    minute = when // 60 * 60
    while minute < changes:
        assert open_by_the_clock(text, minute) is was_open
        minute += 60


@few(200)
@given(lists(windows, max_size=4).map(tuple), times, lists(integers(0, 90_000), max_size=20))
def test_several_windows_open_as_the_first_of_them_does(texts: tuple[str, ...], when: float, steps: list[int]) -> None:
    hours, now = Hours(), when
    for step in (0, *steps):
        now += step
        opens = hours.opens_at(texts, now)
        if not texts or any(open_by_the_clock(text, now) for text in texts):
            assert opens == 0.0
        else:
            assert opens > now
            assert any(open_by_the_clock(text, opens) for text in texts)
            assert not any(open_by_the_clock(text, opens - 1) for text in texts)


def at(day: str, zone: str) -> float:
    return datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(zone)).timestamp()


@pytest.mark.parametrize(
    ("text", "now", "opens", "open_for"),
    [
        ("daily 22:00-06:00 Europe/Berlin", "2026-03-28 12:00", "2026-03-28 22:00", 7),  # the night that is shorter
        ("daily 22:00-06:00 Europe/Berlin", "2026-10-24 12:00", "2026-10-24 22:00", 9),  # the night that is longer
        ("daily 02:00-03:00 Europe/Berlin", "2026-03-28 12:00", "2026-03-30 02:00", 1),  # 29 March has no such hour
        ("daily 02:00-03:00 Europe/Berlin", "2026-10-24 12:00", "2026-10-25 02:00", 2),  # it comes twice
        ("sun 00:00-24:00 Europe/Berlin", "2026-03-28 12:00", "2026-03-29 00:00", 23),
        ("fri 22:00-06:00 Europe/Berlin", "2026-07-01 12:00", "2026-07-03 22:00", 8),  # to Saturday
        ("fri 00:00-24:00 Pacific/Apia", "2011-12-29 12:00", "2012-01-06 00:00", 24),  # 30 December was skipped
        ("daily 01:00-02:30 Australia/Lord_Howe", "2026-04-04 12:00", "2026-04-05 01:00", 2),  # half an hour more
        ("daily 01:00-03:00 Australia/Lord_Howe", "2026-10-03 12:00", "2026-10-04 01:00", 1.5),
    ],
)
def test_over_changes_of_summer_time(text: str, now: str, opens: str, open_for: float) -> None:
    zone = text.rpartition(" ")[2]
    found = crawl_windows.opens_at((text,), at(now, zone))
    assert found == at(opens, zone)
    assert crawl_windows.state((text,), found) == (0.0, found + open_for * 3600)
