"""Signs of a crawler trap in URLs: in a sample of the pending URIs of one queue, and the pages they were found on.

Each sign is a regular expression of its host, and counts the URLs of the sample in which that is found: the rule that
an operator is offered rejects just the URLs that the sign names.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from budgetfrontier.core import uris
from budgetfrontier.core.model import CrawlUri
from budgetfrontier.core.patterns import Pattern
from budgetfrontier.rules import trap_dates

LEAST = 10
"""A sign needs so many URLs: fewer may be chance, unless they are at the end of a long chain of links."""
CHAIN = 12
"""Links from a seed on after which a chain is long."""
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
    via: str
    """The page that it was found on; "" if that is unknown."""
    hops: int


class _HostUrls(NamedTuple):
    """URLs of one host, and the beginning of a regular expression of them."""

    head: str
    urls: list[_Url]
    few: bool
    """Whether they are less than LEAST, all that the queue holds, and at the end of a long chain of links."""

    def sign(self, code: str, text: str, pattern: str, *, least_share: float, least: int = LEAST) -> UrlSign | None:
        """Return the sign of the URLs that a pattern matches, if they are enough: of few, half."""
        if self.few:
            text += f", after a chain of {max(url.hops for url in self.urls):,} links"
            least, least_share = 1, 0.5
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


def url_signs(found: Sequence[CrawlUri], now: float) -> list[UrlSign]:
    """Return the signs in a sample of URIs, those of the host with the most of them. O(URIs), 20 to 60 us each.

    >>> found = [CrawlUri(f"http://a.test/calendar/{year}/04") for year in range(2027, 2057)]
    >>> [sign.code for sign in url_signs(found, 1.7e9)]
    ['future-dates']
    """
    hosts: defaultdict[str, list[_Url]] = defaultdict(list)
    for uri in found:
        href = uri.url[:_LONGEST]
        site, path, query = uris.split(href)
        pairs = [] if not query else [argument.partition("=") for argument in query.split("&", _SEGMENTS)]
        arguments = [(name, value) for name, _, value in pairs]
        via = (uri.via or "")[:_LONGEST]
        hosts[site.partition("://")[2]].append(_Url(href, path, _split(path), arguments, via, len(uri.hops)))
    few = len(found) < LEAST
    samples = (
        _HostUrls(f"^https?://{re.escape(host)}", urls, few)
        for host, urls in hosts.items()
        if (max(url.hops for url in urls) >= CHAIN if few else len(urls) >= LEAST)
    )
    signs = ([sign for look in (_OF_FEW if few else _LOOKS) for sign in look(sample, now)] for sample in samples)
    return max(signs, key=lambda several: sum(sign.share for sign in several), default=[])


def _split(path: str) -> tuple[str, ...]:
    return tuple(filter(None, path.split("/", _SEGMENTS)))


# -- segments


def _repeated(sample: _HostUrls, now: float) -> Iterator[UrlSign]:
    """Yield the sign of paths such as /a/b/a/b, or with the same segment three times: links relative to their page."""
    if sum(_repeats(one.segments) for one in sample.urls) < (1 if sample.few else LEAST):
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
    renewed: bool | None = None
    """Whether the page that it was found on has another id there; None if that is unknown."""


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
    with the same pages again. Without a name, half a dozen pages have to come three times each on average, half of them
    found on pages with other ids; a dozen, where the pages that they were found on are unknown.
    """
    ids, pages = {one.token for one in tokens}, {one.rest for one in tokens}
    if len(ids) < 8 or len(pages) < 3:
        return False
    if kind == "at":
        known = [one.renewed for one in tokens if one.renewed is not None]
        are_known = len(known) >= len(tokens) / 2
        if len(tokens) < 3 * len(pages) or (are_known and sum(known) < len(known) / 2):
            return False
        return len(pages) >= (6 if are_known else 12)
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
            rest = _without(url.href, segment)
            yield _Token(place, segment, rest, random=True, renewed=_is_renewed(url.via, number, segment))
        before = segment


def _is_renewed(via: str, number: int, token: str) -> bool | None:
    """Return whether a page has another id in its path at the place of one; None if the page is unknown."""
    if not via:
        return None
    segments = _split(uris.split(via)[1])
    return number < len(segments) and segments[number] != token and _is_random(segments[number])


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

_LEAST_DATES = 5  # in the future: few pages link to any, and a calendar holds few at a time


def _future(sample: _HostUrls, now: float) -> Iterator[UrlSign]:
    """Yield the sign of dates after the end of next year, where each leads to the next: a calendar without end.

    An archive of forecasts has such dates as well, but leads to them from its index.
    """
    limit, has_one = trap_dates.first_far_year(now), trap_dates.far_years(now).search
    ahead = [url for url in sample.urls if has_one(url.href, 8) is not None]
    if len(ahead) < (1 if sample.few else _LEAST_DATES) or _are_of_an_index(ahead, limit):
        return
    places = trap_dates.slots((url.href for url in sample.urls), limit)
    if places:
        pattern = f"{sample.head}(?:{'|'.join(places)}){trap_dates.far_year(limit)}"
        text = f"are of {limit} or later"
        yield from _some(sample.sign("future-dates", text, pattern, least_share=0.15, least=_LEAST_DATES))


def _are_of_an_index(urls: Sequence[_Url], limit: int) -> bool:
    """Return whether URLs of far dates, all but one of fifty, were found on other pages than those of such dates.

    Pages of days are found on that of their month: they count where a long chain of links led there. Where the pages
    that most were found on are unknown, the answer is no.
    """
    dates = [(url, far) for url in urls if (far := trap_dates.far_date(url.href, limit))]
    known = [_is_led_to(url, far, limit) for url, far in dates if url.via]
    return len(known) > 0 and 2 * len(known) >= len(dates) and sum(known) <= 0.02 * len(known)


def _is_led_to(url: _Url, far: Sequence[str], limit: int) -> bool:
    """Return whether a URL was found on the page of another far date, or on one of its own after a long chain."""
    before = trap_dates.far_date(url.via, limit)
    return bool(before) and (url.hops >= CHAIN or any(one != other for one, other in zip(before, far, strict=False)))


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
_OF_FEW: tuple[Callable[[_HostUrls, float], Iterator[UrlSign]], ...] = (_repeated, _future)
"""Those that one URL shows, at the end of a long chain of links."""
