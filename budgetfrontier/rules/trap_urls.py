"""Signs of a crawler trap in URLs: in a sample of the pending URIs of one queue.

Each sign is a regular expression of its host, and counts the URLs of the sample in which that is found: the rule that
an operator is offered rejects just the URLs that the sign names.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from budgetfrontier.core import uris
from budgetfrontier.core.patterns import Pattern

LEAST = 10
"""A sign needs so many URLs: fewer may be chance."""
_LONGEST = 1000  # characters of a URL that are looked at
_GIVEN_UP = 3  # searches that took too long, after which a sign is not looked for: hostile URLs make them
_SEGMENTS = 40  # of a path
_LETTER = re.compile(r"[^\W\d_]")
_DIGITS = re.compile(r"\d+")


class UrlSign(NamedTuple):
    """A sign of a trap: what it is, the share of the sample that has it, and a regular expression of those URLs."""

    code: str
    share: float
    text: str
    example: str
    pattern: str = ""
    """The regular expression, which names the host; "" if none is known that leaves the rest of the host alone."""


class _Url(NamedTuple):
    href: str
    path: str
    segments: tuple[str, ...]
    arguments: list[tuple[str, str]]


class _HostUrls(NamedTuple):
    """URLs of one host, and the beginning of a regular expression of them."""

    head: str
    urls: list[_Url]

    def sign(self, code: str, text: str, pattern: str, *, least_share: float, least: int = LEAST) -> UrlSign | None:
        """Return the sign of the URLs that a pattern matches, if they are enough."""
        compiled, found = Pattern(pattern), list[str]()
        for one in self.urls:
            if compiled.search(one.href):
                found.append(one.href)
            elif compiled.given_up >= _GIVEN_UP:
                return None
        share = len(found) / len(self.urls)
        if len(found) < least or share < least_share:
            return None
        return UrlSign(code, share, f"{len(found):,} of {len(self.urls):,} URLs {text}", found[-1], pattern)


def url_signs(urls: Iterable[str], now: float) -> list[UrlSign]:
    """Return the signs in a sample of hrefs, those of the host with the most of them. O(URLs), about 30 us each.

    >>> [sign.code for sign in url_signs([f"http://a.test/calendar/{y}/04" for y in range(2027, 2057)], 1.7e9)]
    ['future-dates']
    """
    hosts: defaultdict[str, list[_Url]] = defaultdict(list)
    for href in urls:
        site, path, query = uris.split(href[:_LONGEST])
        segments = tuple(filter(None, path.split("/", _SEGMENTS)))
        pairs = [] if not query else [argument.partition("=") for argument in query.split("&", _SEGMENTS)]
        url = _Url(href[:_LONGEST], path, segments, [(name, value) for name, _, value in pairs])
        hosts[site.partition("://")[2]].append(url)
    samples = (_HostUrls(f"^https?://{re.escape(host)}", found) for host, found in hosts.items() if len(found) >= LEAST)
    found = ([sign for look in _LOOKS for sign in look(sample, now)] for sample in samples)
    return max(found, key=lambda signs: sum(sign.share for sign in signs), default=[])


# -- segments


def _repeated(sample: _HostUrls, now: float) -> Iterator[UrlSign]:
    """Yield the sign of paths such as /a/b/a/b, or with the same segment three times: links relative to their page."""
    if sum(_repeats(one.segments) for one in sample.urls) < LEAST:
        return
    twice = r"(/[^/?]*[A-Za-z%][^/?]*/[^?]*?[^/?])\1(?:[/?]|$)"
    thrice = r"(/[^/?]*[A-Za-z%][^/?]*)(?=/)[^?]*?\2(?=/)[^?]*?\2(?:[/?]|$)"
    pattern = f"{sample.head}[^?]*?(?:{twice}|{thrice})"
    yield from _some(sample.sign("repeated-segments", "repeat segments of their paths", pattern, least_share=0.1))


def _repeats(segments: Sequence[str]) -> bool:
    """Return whether a sequence of two or more segments comes twice in a row, or one of letters three times."""
    counts = Counter(filter(_LETTER.search, segments))
    if not counts or max(counts.values()) < 2:
        return False
    if max(counts.values()) > 2:
        return True
    return any(
        segments[begin : begin + length] == segments[begin + length : begin + 2 * length]
        for length in range(2, len(segments) // 2 + 1)
        for begin in range(len(segments) - 2 * length + 1)
    )


def _permuted(sample: _HostUrls, now: float) -> Iterator[UrlSign]:
    """Yield the sign of the same segments in different orders, such as /red/large and /large/red: facets in paths.

    Segments without a letter do not count: days, months and numbers of pages come in any order in an honest archive.
    """
    orders: defaultdict[tuple[str, ...], set[tuple[str, ...]]] = defaultdict(set)
    urls: defaultdict[tuple[str, ...], list[_Url]] = defaultdict(list)
    for url in sample.urls:
        order = tuple(filter(_LETTER.search, url.segments))
        key = tuple(sorted(order))
        orders[key].add(order)
        urls[key].append(url)
    found = [url for key, several in orders.items() if len(several) > 1 for url in urls[key]]
    share = len(found) / len(sample.urls)
    if len(found) < LEAST or share < 0.2:
        return
    below = _common([url.segments for url in found])
    count = min(len(url.segments) for url in found) - len(below)
    root = "".join(f"/{re.escape(segment)}" for segment in below)
    pattern = f"{sample.head}{root}" + "/[^/?]+" * max(min(count, 8), 2) if below else ""
    text = f"{len(found):,} of {len(sample.urls):,} URLs have the segments of another one in a different order"
    yield UrlSign("permuted-segments", share, text, found[-1].href, pattern)


def _common(several: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the beginning that sequences have in common."""
    least, most = min(several), max(several)
    length = next((n for n, pair in enumerate(zip(least, most, strict=False)) if pair[0] != pair[1]), len(least))
    return least[:length]


def _deep(sample: _HostUrls, now: float) -> Iterator[UrlSign]:
    """Yield the sign of long paths."""
    depths = sorted(len(url.segments) for url in sample.urls)
    middle = depths[len(depths) // 2]
    if middle > 12:
        example = max(sample.urls, key=lambda url: len(url.segments)).href
        yield UrlSign("depth", 1.0, f"half of the URLs have {middle} segments or more", example)


# -- arguments


def _combined(sample: _HostUrls, now: float) -> Iterator[UrlSign]:
    """Yield the sign of many combinations of few arguments: facets of a shop, and the options of a list."""
    urls = [url for url in sample.urls if len(url.arguments) > 2]
    if len(urls) < LEAST:
        return
    values: defaultdict[str, set[str]] = defaultdict(set)
    for url in urls:
        for name, value in url.arguments:
            values[_masked(name)].add(value)
    few = {name for name, several in values.items() if 2 <= len(several) <= max(len(urls) // 8, 2)}
    combinations = {tuple(sorted(pair for pair in url.arguments if _masked(pair[0]) in few)) for url in urls}
    chosen = {tuple(sorted(_masked(name) for name, _ in url.arguments)) for url in urls}
    words = [name for name in few if any(_LETTER.search(value) for value in values[name])]
    optional, many = few and len(chosen) >= 4, len(few) >= 4 and len(words) >= 2
    if len(combinations) < len(urls) / 2 or not (optional or many):
        return
    root = "/" + "".join(f"{segment}/" for segment in _common([url.segments[:-1] for url in urls]))
    pattern = f"{sample.head}{re.escape(root)}[^?]*\\?[^&]+&[^&]+&[^&]"
    text = f"are combinations of {', '.join(sorted(few)[:5])}{', ...' * (len(few) > 5)}, with three or more each"
    yield from _some(sample.sign("combined-arguments", text, pattern, least_share=0.3))


def _masked(text: str) -> str:
    return _DIGITS.sub("N", text)


# -- session ids

_SESSION = re.compile(
    r"(?:^|[^a-z])(?:sid|s|sess|session[_-]?(?:id)?|visit(?:or)?[_-]?(?:id)?|jsessionid|phpsessid|oscsid|zenid|cfid|"
    r"cftoken)$",
    re.IGNORECASE,
)
_INLINE = re.compile(r"(?:^|.*?[;(~,])(?P<name>[A-Za-z_-]{1,20}?)[=:(~-](?P<id>[0-9A-Za-z_-]{6,})")
_RUNS = re.compile(r"\d+|[^\W\d_]+")
_HAS_DIGIT = re.compile(r"[\w-]*\d[\w-]*", re.ASCII)
_LONG_NUMBER = re.compile(r"[\d-]{15,}")
_UUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_TOKEN = r"(?=[^/?]*\d[^/?]*\d[^/?]*\d)[0-9A-Za-z_~-]{10}"


class _Token(NamedTuple):
    """A possible id of a session, and the URL without it."""

    place: tuple[str, str]
    """Where it is: "argument" or "inline" and a name, "below" and a segment, or "at" and a number of segments."""
    token: str
    rest: str
    random: bool


def _sessions(sample: _HostUrls, now: float) -> Iterator[UrlSign]:
    """Yield the sign of session ids: the same pages under new ids."""
    places: defaultdict[tuple[str, str], list[_Token]] = defaultdict(list)
    for url in sample.urls:
        for token in _tokens(url):
            places[token.place].append(token)
    for place, tokens in sorted(places.items(), key=lambda item: -len(item[1])):
        if len(tokens) >= max(LEAST, len(sample.urls) // 2) and _are_sessions(place[0], tokens):
            shown = f"`{place[1]}`" if place[0] != "at" else "their paths"
            text = f"have ids of sessions in {shown}, the same pages under others"
            sign = sample.sign("session-ids", text, sample.head + _pattern_at(*place), least_share=0.5)
            if sign is not None:
                yield sign
                return


def _are_sessions(kind: str, tokens: Sequence[_Token]) -> bool:
    """Return whether ids are those of sessions.

    By a name that sessions have, if three pages or more have ids that look random; an argument of numbers has to come
    with the same pages again. Without a name, a dozen pages have to come three times each on average.
    """
    ids, pages = {one.token for one in tokens}, {one.rest for one in tokens}
    if len(ids) < 8 or len(pages) < 3:
        return False
    if kind == "at":
        return len(pages) >= 12 and len(tokens) >= 3 * len(pages)
    if sum(one.random for one in tokens) >= 0.9 * len(tokens):
        return True
    return kind == "argument" and len(tokens) >= 2 * len(pages)


def _tokens(url: _Url) -> Iterator[_Token]:
    """Yield what may be ids of sessions in a URL, by their names, or because they look random."""
    for name, value in url.arguments:
        if _SESSION.search(name) and _HAS_DIGIT.fullmatch(value):
            yield _Token(("argument", name), value, _without(url.href, value), _is_random(value))
    before = ""
    for number, segment in enumerate(url.segments):
        inline = _INLINE.match(segment)
        if inline and _SESSION.search(inline["name"]):
            place = "inline", segment[inline.start("name") : inline.start("id")]
            yield _Token(place, inline["id"], _without(url.href, inline["id"]), _is_random(inline["id"]))
        elif _is_random(segment):
            place = ("below", before) if _SESSION.search(before) else ("at", str(number))
            yield _Token(place, segment, _without(url.href, segment), random=True)
        before = segment


def _without(href: str, token: str) -> str:
    return href.replace(token, "*")


def _is_random(text: str) -> bool:
    """Return whether text looks random: letters and digits take turns, as in words and numbers they do not.

    >>> [_is_random(text) for text in ("4f9a1c77be20", "102-9462875-3834564", "iphone-15-pro-256gb", "20241128")]
    [True, True, False, False]
    """
    if not 10 <= len(text) <= 200 or _HAS_DIGIT.fullmatch(text) is None:
        return False
    if _LONG_NUMBER.fullmatch(text) or _UUID.fullmatch(text):
        return True
    for part in re.split(r"[_-]", text):
        runs = _RUNS.findall(part)
        if len(part) >= 10 and len(runs) >= 4 and len(part) < 4 * len(runs):
            return True
    return False


def _pattern_at(kind: str, name: str) -> str:
    if kind == "argument":
        return rf"/.*[?&]{re.escape(name)}="
    if kind == "below":
        return rf"/(?:[^?]*/)?{re.escape(name)}/[^/?]*\d"
    if kind == "inline":
        return rf"/[^?]*{re.escape(name)}[0-9A-Za-z_-]{{6}}"
    return "/[^/?]+" * int(name) + "/" + _TOKEN


# -- dates

_YEAR_NAME = re.compile(r"(?:year|yr|jahr|annee|ano|anno|y)=$", re.IGNORECASE)
_CALENDAR = re.compile(r"calend|kalender|agenda|event|month|week|year|date", re.IGNORECASE)
_MONTH = re.compile(r"[-_./](?:0?[1-9]|1[0-2])(?!\d)")
_COMPACT = re.compile(r"[12]\d{3}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])?")
_DELIMITERS = "/?&="
_NUMBER = "\0"
_MOST_SLOTS = 3
_LEAST_DATES = 5  # in the future: few pages link to any, and a calendar holds few at a time
_NUMBERS = 6  # of one URL


def _future(sample: _HostUrls, now: float) -> Iterator[UrlSign]:
    """Yield the sign of dates after the end of next year, which an archive has none of, and a calendar without end.

    A number is the year of a date if the text before it, without the digits, has dates in nine of ten URLs: ids of four
    digits go on beyond the years.
    """
    limit = datetime.fromtimestamp(now, UTC).year + 2
    year = f"{_years_from(limit)}(?:\\d\\d)?(?:\\d\\d)?(?!\\d)"
    has_one = re.compile(rf"(?<!\d){year}").search
    if sum(has_one(url.href, 8) is not None for url in sample.urls) < _LEAST_DATES:
        return
    totals, dates, far = Counter[str](), Counter[str](), Counter[str]()
    for url in sample.urls:
        start = url.href.find("/", 8)
        for found in list(_DIGITS.finditer(url.href, start))[:_NUMBERS]:
            slot = _slot(url.href, start, found.start())
            totals[slot] += 1
            if _is_date(url.href, found):
                dates[slot] += 1
                far[slot] += int(found[0][:4]) >= limit
    slots = [slot for slot, count in far.most_common(_MOST_SLOTS) if count and dates[slot] >= 0.9 * totals[slot]]
    if not slots:
        return
    places = "|".join(_place(slot) for slot in slots)
    pattern = f"{sample.head}(?:{places}){year}"
    text = f"are of {limit} or later"
    yield from _some(sample.sign("future-dates", text, pattern, least_share=0.15, least=_LEAST_DATES))


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
    """Return whether a number is the year of a date, or a date."""
    digits, before = found[0], href[: found.start()]
    if len(digits) == 4 and "1000" <= digits <= "2999":
        if _MONTH.match(href, found.end()) or _YEAR_NAME.search(before):
            return True
        return _CALENDAR.search(before, before.find("/", 8)) is not None
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


def _some(sign: UrlSign | None) -> list[UrlSign]:
    return [] if sign is None else [sign]


_LOOKS: tuple[Callable[[_HostUrls, float], Iterator[UrlSign]], ...] = (
    _repeated,
    _permuted,
    _combined,
    _sessions,
    _future,
    _deep,
)
