"""Crawl windows as they are written: `mon-fri 22:00-06:00 Europe/Berlin`, or a mapping of days, from, to and zone."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from budgetfrontier.core.spelling import did_you_mean
from budgetfrontier.settings.values import brief, show

NAME = "guards.windows"
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAILY, WHOLE_DAY, UTC = "daily", "00:00-24:00", "UTC"
FORM = "{days: mon-fri, from: 22:00, to: 06:00, zone: Europe/Berlin}"
_TIME = re.compile(r"([01]\d|2[0-3]):([0-5]\d)|24:00", re.ASCII)
_HOURS = re.compile(r"(\d\d:\d\d)-(\d\d:\d\d)", re.ASCII)

_DASH = re.compile("[\N{HYPHEN}-\N{HORIZONTAL BAR}\N{MINUS SIGN}]")


class CrawlWindow(NamedTuple):
    """A window: open while the clock of its zone shows a time in it.

    From `start` to `end`, in minutes of a day that is one of `days` (0: Monday); if `end` is not later, to that of the
    next day.
    """

    days: frozenset[int]
    start: int
    end: int
    zone: datetime.tzinfo


@lru_cache(1000)
def window(text: str) -> CrawlWindow:
    """Return the window of a text that `read` has returned."""
    days, hours, zone = text.split()
    start, _, end = hours.partition("-")
    return CrawlWindow(_days(days), _minutes(start), _minutes(end), _zone(zone))


def read(value: object) -> str:
    """Return a window in its one spelling, from a text or a mapping. Raises ValueError, which says what is wrong."""
    if isinstance(value, Mapping):
        days, hours, zone = _of_mapping(value)
        _check_dashes(days)
    elif isinstance(value, str) and value.strip():
        _check_dashes(value)
        days, hours, zone = _of_text(value)
    else:
        raise ValueError(f"expected a window such as {FORM}, got {show(value)}")
    chosen = _days(days)
    start, _, end = hours.partition("-")
    if start == "24:00" or _minutes(start) == _minutes(end):
        raise ValueError(f'a window from {start} to {end} is empty; leave "from" and "to" out for whole days')
    zone = UTC if zone.upper() == UTC else zone
    _zone(zone)
    named = DAILY if len(chosen) == len(DAYS) else ",".join(DAYS[day] for day in sorted(chosen))
    return f"{_shortened(named)} {hours} {zone}"


def _check_dashes(text: str) -> None:
    if dash := _DASH.search(text):
        raise ValueError(f'expected "-" for "{dash[0]}" in the window {show(text)}')


def _of_mapping(given: Mapping[Any, Any]) -> tuple[str, str, str]:
    if unknown := [key for key in given if key not in ("days", "from", "to", "zone")]:
        raise ValueError(f'unknown key "{brief(str(unknown[0]))}" in a window; known here: days, from, to, zone')
    days = given.get("days", DAILY)
    if isinstance(days, list | tuple):
        days = ",".join(map(str, days))
    if not isinstance(days, str):
        raise ValueError(f"expected days such as mon-fri or sat,sun, got {show(days)}")
    times = given.get("from", "00:00"), given.get("to", "24:00")
    for time in times:
        if not isinstance(time, str) or not _TIME.fullmatch(time):
            raise ValueError(f"expected a time of day such as 06:00, got {show(time)}")
    zone = given.get("zone", UTC)
    if not isinstance(zone, str) or not zone.strip():
        raise ValueError(f"expected a time zone such as Europe/Berlin, got {show(zone)}")
    return days.replace(" ", ""), "-".join(times), zone.strip()


def _of_text(text: str) -> tuple[str, str, str]:
    """Return days, hours and zone of a text: each may be left out, but the order stays."""
    words = re.sub(r"\s*([,-])\s*", r"\1", text.strip()).split()
    days = words.pop(0) if _is_days(words[0]) else None
    hours = words.pop(0) if words and _HOURS.fullmatch(words[0]) else None
    if hours is None and words and words[0][0].isdigit():
        raise ValueError(f"expected times of day such as 22:00-06:00, got {show(words[0])}")
    zone = words.pop(0) if words else UTC
    if words or (days is None and hours is None):
        raise ValueError(f'expected a window such as "mon-fri 22:00-06:00 Europe/Berlin", got {show(text)}')
    return days or DAILY, hours or WHOLE_DAY, zone


def _is_days(word: str) -> bool:
    try:
        return bool(_days(word))
    except ValueError:
        return False


def _days(text: str) -> frozenset[int]:
    """Return the days of "mon-fri", "sat,sun", "fri-mon" or "daily"; full names count as well."""
    if text.lower() == DAILY:
        return frozenset(range(len(DAYS)))
    found: set[int] = set()
    for part in text.split(","):
        first, to, last = part.partition("-")
        begin = _day(first)
        span = (_day(last) - begin) % len(DAYS) if to else 0
        found.update((begin + n) % len(DAYS) for n in range(span + 1))
    return frozenset(found)


def _day(name: str) -> int:
    short = name.strip().lower()
    for number, day in enumerate(DAYS):
        if short.startswith(day) and _LONG[number].startswith(short):
            return number
    raise ValueError(f"expected days such as mon-fri or sat,sun, got {show(name)}{did_you_mean(short, DAYS)}")


_LONG = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def _shortened(days: str) -> str:
    """Return a list of days with a range instead of three or more in a row."""
    numbers = [] if days == DAILY else [DAYS.index(day) for day in days.split(",")]
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{DAYS[numbers[0]]}-{DAYS[numbers[-1]]}"
    return days


def _minutes(text: str) -> int:
    if not _TIME.fullmatch(text):
        raise ValueError(f"expected a time of day such as 06:00, got {show(text)}")
    return int(text[:2]) * 60 + int(text[3:])


@lru_cache(100)
def _zone(name: str) -> datetime.tzinfo:
    if name == UTC:
        return datetime.UTC
    import zoneinfo  # loads much else

    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        known = zoneinfo.available_timezones()
        if not known:
            raise ValueError(
                f"this system has no time zones for {show(name)}: install its package tzdata, or `pip install tzdata`"
            ) from None
        raise ValueError(f"there is no time zone {show(name)}{did_you_mean(name, known)}") from None
