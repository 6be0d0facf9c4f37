"""Dates in URLs: numbers that are years by what is around them, and which are far ahead."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime

_YEAR_NAME = re.compile(r"(?:year|yr|jahr|annee|ano|anno|y)=$", re.IGNORECASE)
_CALENDAR = re.compile(
    r"calend|kalend|agenda|event|month|week|year|date|termin|schedul|program|archiv|diary|"
    r"(?<![a-z])(?:cal|ev|days?|tage?|dates?|jahr|monat|mois|mes|anno)(?![a-z])",
    re.IGNORECASE,
)
_MONTH = re.compile(r"[-_./](?:0?[1-9]|1[0-2])(?!\d)")
_DAY = re.compile(_MONTH.pattern + r"[-_./](?:0?[1-9]|[12]\d|3[01])(?!\d)")
_COMPACT = re.compile(r"[12]\d{3}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])?")
_DELIMITERS = "/?&="
_NUMBER = "\0"
_MOST_SLOTS = 3
_NUMBERS = 6  # of one URL
_DIGITS = re.compile(r"\d+")


def far_years(now: float) -> re.Pattern[str]:
    """Return the regular expression of a year, or a date of digits, after the end of next year."""
    return re.compile(rf"(?<!\d){far_year(first_far_year(now))}")


def first_far_year(now: float) -> int:
    """Return the year after the next one."""
    return datetime.fromtimestamp(now, UTC).year + 2


def slots(hrefs: Iterable[str], limit: int) -> list[str]:
    """Return the slots with most years from `limit` on, as a regular expression each; [] if none is sure.

    A number is the year of a date if the text before it, without the digits, has dates in nine of ten URLs: ids of four
    digits go on beyond the years.
    """
    totals, dates, far = Counter[str](), Counter[str](), Counter[str]()
    for href in hrefs:
        start = href.find("/", 8)
        for found in list(_DIGITS.finditer(href, start))[:_NUMBERS]:
            slot = _slot(href, start, found.start())
            totals[slot] += 1
            if _is_date(href, found):
                dates[slot] += 1
                far[slot] += int(found[0][:4]) >= limit
    return [_place(slot) for slot, count in far.most_common(_MOST_SLOTS) if count and dates[slot] >= 0.9 * totals[slot]]


def far_year(limit: int) -> str:
    """Return the regular expression of a year from `limit` on, or of a date of digits, where no digits follow."""
    return rf"{_years_from(limit)}(?:\d\d)?(?:\d\d)?(?!\d)"


def far_date(href: str, limit: int) -> list[str]:
    """Return the first date of a URL in a year or later: year, month and day as far as they are known, [] if none is.

    >>> far_date("http://a.test/cal/2031/04/", 2028), far_date("http://a.test/cal?m=4&y=2031", 2028)
    (['2031', '4'], ['2031', '4'])
    """
    numbers = list(_DIGITS.finditer(href, max(href.find("/", 8), 0)))[:_NUMBERS]
    for place, found in enumerate(numbers):
        if _is_date(href, found) and int(found[0][:4]) >= limit:
            near = numbers[place + 1 : place + 3] or numbers[max(place - 2, 0) : place][::-1]
            parts = re.findall(r"\d\d", found[0][4:]) or [one[0] for one in near]
            return [found[0][:4], *(part.lstrip("0") for part in parts)]
    return []


def _slot(href: str, start: int, end: int) -> str:
    """Return what is before a number, without digits: the last segment, or the name of the argument."""
    text = href[start:end]
    if text[-1:] not in _DELIMITERS:
        return ""
    begin = max(text.rfind(one, 0, -1) for one in _DELIMITERS) + 1
    return _DIGITS.sub(_NUMBER, text[begin:]) if begin else "^/"


def _place(slot: str) -> str:
    """Return the regular expression of a slot, behind the host."""
    if slot == "^/":
        return "/"
    words = r"\d+".join(map(re.escape, slot.split(_NUMBER)))
    return f"/(?:.*[/?&])?{words}"


def _is_date(href: str, found: re.Match[str]) -> bool:
    """Return whether a number is the year of a date, or a date.

    With a month behind it at the beginning of the path, with a month and a day, or after a word of calendars: the
    second number of /line/2069/01 may be that of a stop.
    """
    digits, before = found[0], href[: found.start()]
    if len(digits) == 4 and "1000" <= digits <= "2999":
        start = before.find("/", 8)
        is_first = start == len(before) - 1 and _MONTH.match(href, found.end())
        if is_first or _DAY.match(href, found.end()) or _YEAR_NAME.search(before):
            return True
        return _CALENDAR.search(before, start) is not None
    return len(digits) in (6, 8) and _COMPACT.fullmatch(digits) is not None


def _years_from(year: int) -> str:
    """Return a regular expression of the years from one on, to 9999.

    >>> _years_from(2028)
    '(?:202[8-9]|20[3-9]\\\\d|2[1-9]\\\\d\\\\d|[3-9]\\\\d\\\\d\\\\d)'
    """
    text, parts = str(year), list[str]()
    for place in range(3, -1, -1):
        least = int(text[place]) + (place < 3)
        if least <= 9:
            digit = f"[{least}-9]" if least < 9 else "9"
            parts.append(text[:place] + digit + r"\d" * (3 - place))
    return f"(?:{'|'.join(parts)})"
