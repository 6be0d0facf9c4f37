"""Ids of sessions in URLs: the same pages come again under new ids, in an argument or in the path."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from budgetfrontier.core import uris
from budgetfrontier.rules.trap_samples import (
    ALTERNATIVES,
    LEAST,
    HostUrls,
    Url,
    UrlSign,
    ahead,
    any_of,
    common_beginning,
    first_segments,
    segments_of,
)

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
_KINDS = "0-9", "a-f", "g-z", "A-F", "G-Z", "_", "~", "-"
_REPEATED = 0.1  # the share of contents from which on they count as the same pages again


class _Token(NamedTuple):
    """A possible id of a session, and the URL without it."""

    url: Url
    place: tuple[str, str]
    """Where it is: "argument" or "inline" and a name, "below" and a segment, or "at" and a number of segments."""
    token: str
    rest: str
    random: bool
    renewed: bool | None = None
    """Whether the page that it was found on has another id there; None if that is unknown."""


def session_ids(sample: HostUrls) -> UrlSign | None:
    """Return the sign of session ids: the same pages under new ids."""
    places: defaultdict[tuple[str, str], list[_Token]] = defaultdict(list)
    for url in sample.urls:
        for token in _tokens(url):
            places[token.place].append(token)
    for place, tokens in sorted(places.items(), key=lambda item: -len(item[1])):
        found = _below_folders(tokens) if place[0] == "at" else tokens
        if len(found) >= max(LEAST, len(sample.urls) // 2) and _are_sessions(place[0], found, sample.repeated):
            shown = f"`{place[1]}`" if place[0] != "at" else "their paths"
            text = f"have ids of sessions in {shown}, the same pages under others"
            pattern, members = sample.head + _pattern_at(*place, found), _of_pages(sample.urls, found)
            sign = sample.sign("session-ids", text, pattern, least_share=0.5, members=members)
            if sign is not None:
                return sign
    return None


def _of_pages(urls: Sequence[Url], tokens: Sequence[_Token]) -> list[Url]:
    """Return the URLs with the ids, and those of the same pages with ids that look less random."""
    hrefs, pages = {one.url.href for one in tokens}, {one.rest for one in tokens}
    return [url for url in urls if url.href in hrefs or any(_without(url.href, one) in pages for one in url.segments)]


def _below_folders(tokens: Sequence[_Token]) -> list[_Token]:
    """Return the tokens that are below first segments at which pages come again under new ids, if these are few."""
    folders: defaultdict[str, list[_Token]] = defaultdict(list)
    for one in tokens:
        folders["" if one.place[1] == "0" else one.url.first].append(one)
    if len(folders) > ALTERNATIVES:
        return list(tokens)
    return [
        one
        for several in folders.values()
        if len(several) >= 2 * len({one.rest for one in several}) and not _are_permanent(several)
        for one in several
    ]


def _are_permanent(tokens: Sequence[_Token]) -> bool:
    """Return whether most ids, as far as that is known, were found on pages without any, or with the same one."""
    known = [one.renewed for one in tokens if one.renewed is not None]
    return 2 * len(known) >= len(tokens) and 2 * sum(known) < len(known)


def _are_sessions(kind: str, tokens: Sequence[_Token], repeated: float | None) -> bool:
    """Return whether ids are those of sessions, if a share of the contents was `repeated`, None: unknown.

    By a name that sessions have, if three pages or more have ids that look random; an argument of numbers has to come
    with the same pages again. Without a name, half a dozen pages have to come three times each on average, half of them
    found on pages with other ids; a dozen, where the pages that they were found on are unknown. They are none if
    `_are_of_things`.
    """
    ids, pages = {one.token for one in tokens}, {one.rest for one in tokens}
    if len(ids) < 8 or len(pages) < 3:
        return False
    if kind == "at":
        if len(tokens) < 3 * len(pages) or _are_permanent(tokens) or _are_of_things(tokens, repeated):
            return False
        known = sum(one.renewed is not None for one in tokens)
        return len(pages) >= (6 if 2 * known >= len(tokens) else 12)
    if sum(one.random for one in tokens) >= 0.9 * len(tokens):
        return True
    return kind == "argument" and len(tokens) >= 2 * len(pages)


def _are_of_things(tokens: Sequence[_Token], repeated: float | None) -> bool:
    """Return whether ids are of things that pages are about, such as products.

    Those come on several pages, those of a session on the page that it was made for. Nearly all contents differ then;
    but they do, too, where the links of each page have its id. Where contents differ, ids have to be seen to come on
    one page; where contents come again, it does not matter.
    """
    if repeated is not None and repeated >= _REPEATED:
        return False
    pages: defaultdict[str, list[str]] = defaultdict(list)
    for one in tokens:
        if one.renewed:
            pages[one.token].append(one.url.via)
    several = [len(set(vias)) > 1 for vias in pages.values() if len(vias) > 1]
    if len(several) < LEAST // 2:
        return repeated is not None
    return 2 * sum(several) >= len(several)


def _tokens(url: Url) -> Iterator[_Token]:
    """Yield what may be ids of sessions in a URL, by their names, or because they look random."""
    for name, value in url.arguments:
        if _SESSION.search(name) and _HAS_DIGIT.fullmatch(value):
            yield _Token(url, ("argument", name), value, _without(url.href, value), _is_random(value))
    before = ""
    for number, segment in enumerate(url.segments):
        inline = _INLINE.match(segment)
        if inline and _SESSION.search(inline["name"]):
            place = "inline", segment[inline.start("name") : inline.start("id")]
            yield _Token(url, place, inline["id"], _without(url.href, inline["id"]), _is_random(inline["id"]))
        elif _is_random(segment):
            place = ("below", before) if _SESSION.search(before) else ("at", str(number))
            rest = _without(url.href, segment)
            yield _Token(url, place, segment, rest, random=True, renewed=_is_renewed(url.via, number, segment))
        before = segment


def _is_renewed(via: str, number: int, token: str) -> bool | None:
    """Return whether a page has another id in its path at the place of one; None if the page is unknown."""
    if not via:
        return None
    segments = segments_of(uris.split(via)[1])
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


def _pattern_at(kind: str, name: str, tokens: Sequence[_Token]) -> str:
    """Return the regular expression of ids where they were seen, of the characters and the length that they have."""
    if kind == "argument":
        return rf"{first_segments(one.url for one in tokens)}.*[?&]{re.escape(name)}="
    random = [one for one in tokens if one.random]
    if kind == "at":
        folders = zip(*(one.url.segments[: int(name)] for one in random), strict=True)
        rests = (one.url.href.partition(one.token)[2] for one in random)
        before = "/".join(["", *map(_segment, folders), ""])
        return before + _shape(random) + re.escape(re.split(r"\d", common_beginning(list(rests)))[0])
    before = "[^?]*/" if kind == "below" else "[^?]*[/;(~,]"
    behind = "/" if kind == "below" else ""
    seen = ahead(one.url for one in random)
    return rf"{seen}/(?:{before})?{re.escape(name)}{behind}{_shape(random)}"


def _segment(texts: Sequence[str]) -> str:
    """Return the regular expression of a segment: one of few, or what begins as all."""
    return any_of(texts) if len(set(texts)) <= ALTERNATIVES else re.escape(common_beginning(texts)) + "[^/?]*"


def _shape(tokens: Sequence[_Token]) -> str:
    """Return the regular expression of ids: as many digits, of three, and characters of the same kinds as all have.

    Of their length if that is always the same, else as long as the shortest, or longer.
    """
    texts = {one.token for one in tokens}
    kinds = "".join(one for one in _KINDS if any(re.search(f"[{one}]", text) for text in texts))
    least, most = min(map(len, texts)), max(map(len, texts))
    digits = r"[^/?]*\d" * min(*(sum(map(str.isdigit, text)) for text in texts), 3)
    return f"(?={digits})[{kinds}]{{{least}{'' if least == most else ','}}}(?![\\w~-])"
