"""Signs of a crawler trap in URLs: in a sample of the pending URIs of one queue, and the pages they were found on.

Each sign has a regular expression of its host, bound to the paths and the arguments that were seen, and counts the URLs
of the sample in which that is found: the rule that an operator is offered rejects just the URLs that the sign names.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from budgetfrontier.core.model import CrawlUri
from budgetfrontier.rules import trap_dates
from budgetfrontier.rules.trap_samples import (
    LEAST,
    HostUrls,
    Url,
    UrlSign,
    ahead,
    any_of,
    common_beginning,
    first_segments,
    masked,
)
from budgetfrontier.rules.trap_sessions import session_ids

CHAIN = 12
"""Links from a seed on after which a chain is long."""
_LETTER = re.compile(r"[^\W\d_]")
_WORDS = 60  # segments, or names of arguments, that a regular expression names


def url_signs(found: Sequence[CrawlUri], now: float, repeated: float | None = None) -> list[UrlSign]:
    """Return the signs in a sample of URIs, those of the host with the most of them. O(URIs), 20 to 60 us each.

    `repeated` is the share of the last contents that were the same as another one; None if too few are known.

    >>> found = [CrawlUri(f"http://a.test/calendar/{year}/04") for year in range(2027, 2057)]
    >>> [sign.code for sign in url_signs(found, 1.7e9)]
    ['future-dates']
    """
    hosts: defaultdict[str, list[Url]] = defaultdict(list)
    for url in map(Url.of, found):
        hosts[url.host].append(url)
    few = len(found) < LEAST
    samples = (
        HostUrls(f"^https?://{re.escape(host)}", urls, few, repeated)
        for host, urls in hosts.items()
        if (max(url.hops for url in urls) >= CHAIN if few else len(urls) >= LEAST)
    )
    signs = ([sign for look in (_OF_FEW if few else _LOOKS) for sign in look(sample, now)] for sample in samples)
    return max(signs, key=lambda several: sum(sign.share for sign in several), default=[])


# -- segments


def _repeated(sample: HostUrls, now: float) -> Iterator[UrlSign]:
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


def _permuted(sample: HostUrls, now: float) -> Iterator[UrlSign]:
    """Yield the sign of the same segments in different orders, such as /red/large and /large/red: facets in paths.

    Segments without a letter do not count: days, months and numbers of pages come in any order in an honest archive.
    """
    orders: defaultdict[tuple[str, ...], set[tuple[str, ...]]] = defaultdict(set)
    urls: defaultdict[tuple[str, ...], list[Url]] = defaultdict(list)
    for url in sample.urls:
        order = tuple(filter(_LETTER.search, url.segments))
        key = tuple(sorted(order))
        orders[key].add(order)
        urls[key].append(url)
    found = [url for key, several in orders.items() if len(several) > 1 for url in urls[key]]
    share = len(found) / len(sample.urls)
    if len(found) < LEAST or share < 0.2:
        return
    below = common_beginning([url.segments for url in found])
    count = max(min(min(len(url.segments) for url in found) - len(below), 8), 2)
    words = {masked(segment): segment for url in found for segment in url.segments[len(below) :]}
    pattern = ""
    if below and len(words) <= _WORDS:
        root = "".join(f"/{re.escape(segment)}" for segment in below)
        pattern = f"{sample.head}{root}" + f"/{any_of(words.values())}" * count + "(?![^/?])"
    text, members = "combine the same segments in different orders", None if pattern else found
    sign = sample.sign("permuted-segments", text, pattern, least_share=0.2, members=members)
    yield from _some(sign and sign._replace(share=share))


def _deep(sample: HostUrls, now: float) -> Iterator[UrlSign]:
    """Yield the sign of long paths."""
    depths = sorted(len(url.segments) for url in sample.urls)
    middle = depths[len(depths) // 2]
    if middle > 12:
        example = max(sample.urls, key=lambda url: len(url.segments)).href
        yield UrlSign("depth", 1.0, f"half of the URLs have {middle} segments or more", example)


# -- arguments


def _combined(sample: HostUrls, now: float) -> Iterator[UrlSign]:
    """Yield the sign of many combinations of few arguments: facets of a shop, and the options of a list."""
    urls = [url for url in sample.urls if len(url.arguments) > 2]
    if len(urls) < LEAST:
        return
    values: defaultdict[str, set[str]] = defaultdict(set)
    for url in urls:
        for name, value in url.arguments:
            values[masked(name)].add(value)
    few = {name for name, several in values.items() if 2 <= len(several) <= max(len(urls) // 8, 2)}
    urls = [url for several in _by_first(urls) if _vary(several, few) for url in several if _chosen(url, few)]
    chosen = {tuple(sorted(masked(name) for name, _ in url.arguments)) for url in urls}
    words = [name for name in few if any(_LETTER.search(value) for value in values[name])]
    optional, many = few and len(chosen) >= 4, len(few) >= 4 and len(words) >= 2
    if len(urls) < LEAST or not _vary(urls, few) or not (optional or many):
        return
    seen = {masked(name): name for url in urls for name, _ in url.arguments}
    names = any_of(seen.values())
    three = f"{names}(?:=[^&]*)?&{names}(?:=[^&]*)?&{names}(?![^=&])"
    pattern = f"{sample.head}{first_segments(urls)}[^?]*\\?{three}" if len(seen) <= _WORDS else ""
    text = f"are combinations of {', '.join(sorted(few)[:5])}{', ...' * (len(few) > 5)}, with three or more each"
    yield from _some(sample.sign("combined-arguments", text, pattern, least_share=0.3, members=urls))


def _by_first(urls: Iterable[Url]) -> Iterable[list[Url]]:
    """Return URLs by their first segments."""
    found: defaultdict[str, list[Url]] = defaultdict(list)
    for url in urls:
        found[url.first].append(url)
    return found.values()


def _chosen(url: Url, names: set[str]) -> tuple[tuple[str, str], ...]:
    """Return the arguments of a URL that have some names, sorted."""
    return tuple(sorted(pair for pair in url.arguments if masked(pair[0]) in names))


def _vary(urls: Sequence[Url], names: set[str]) -> bool:
    """Return whether arguments come in ever new combinations: half of the URLs have one of their own."""
    return 2 * len({_chosen(url, names) for url in urls}) >= len(urls)


def _sessions(sample: HostUrls, now: float) -> Iterator[UrlSign]:
    """Yield the sign of session ids."""
    yield from _some(session_ids(sample))


# -- dates

_LEAST_DATES = 5  # in the future: few pages link to any, and a calendar holds few at a time


def _future(sample: HostUrls, now: float) -> Iterator[UrlSign]:
    """Yield the sign of dates after the end of next year, where each leads to the next: a calendar without end.

    An archive of forecasts has such dates as well, but leads to them from its index.
    """
    limit, has_one = trap_dates.first_far_year(now), trap_dates.far_years(now).search
    far = [url for url in sample.urls if has_one(url.href, 8) is not None]
    if len(far) < (1 if sample.few else _LEAST_DATES) or _are_of_an_index(far, limit):
        return
    led_to = [url for several in _by_first(far) if not _are_of_one_page(several, limit) for url in several]
    places = trap_dates.slots((url.href for url in sample.urls), limit)
    if places and led_to:
        pattern = f"{sample.head}{ahead(led_to)}(?:{'|'.join(places)}){trap_dates.far_year(limit)}"
        text = f"are of {limit} or later"
        yield from _some(
            sample.sign("future-dates", text, pattern, least_share=0.15, least=_LEAST_DATES, members=led_to)
        )


def _are_of_one_page(urls: Sequence[Url], limit: int) -> bool:
    """Return whether URLs, all but one of fifty, were found on pages without a far date, where these are known."""
    known = [bool(trap_dates.far_date(url.via, limit)) for url in urls if url.via]
    return len(known) > 0 and 2 * len(known) >= len(urls) and sum(known) <= 0.02 * len(known)


def _are_of_an_index(urls: Sequence[Url], limit: int) -> bool:
    """Return whether URLs of far dates, all but one of fifty, were found on other pages than those of such dates.

    Pages of days are found on that of their month: they count where a long chain of links led there. Where the pages
    that most were found on are unknown, the answer is no.
    """
    dates = [(url, far) for url in urls if (far := trap_dates.far_date(url.href, limit))]
    known = [_is_led_to(url, far, limit) for url, far in dates if url.via]
    return len(known) > 0 and 2 * len(known) >= len(dates) and sum(known) <= 0.02 * len(known)


def _is_led_to(url: Url, far: Sequence[str], limit: int) -> bool:
    """Return whether a URL was found on the page of another far date, or on one of its own after a long chain."""
    before = trap_dates.far_date(url.via, limit)
    return bool(before) and (url.hops >= CHAIN or any(one != other for one, other in zip(before, far, strict=False)))


def _some(sign: UrlSign | None) -> list[UrlSign]:
    return [] if sign is None else [sign]


_LOOKS: tuple[Callable[[HostUrls, float], Iterator[UrlSign]], ...] = (
    _repeated,
    _permuted,
    _combined,
    _sessions,
    _future,
    _deep,
)
_OF_FEW: tuple[Callable[[HostUrls, float], Iterator[UrlSign]], ...] = (_repeated, _future)
"""Those that one URL shows, at the end of a long chain of links."""
