"""Patterns of paths that the URLs of a queue have in common, most frequent first."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from budgetfrontier.core import uris

_ESCAPE = "%[0-9a-fA-F]{2}"
_LONG = rf"[0-9a-fA-F]{{12,}}|(?:{_ESCAPE}|%(?![0-9a-fA-F]{{2}})|[^/&=%]){{40,}}"
_VARYING = re.compile(rf"(?P<long>{_LONG})|(?P<escape>{_ESCAPE})|(?P<digits>[0-9]+)")
_LETTER = re.compile(r"[^\W\d_]")
_NUMBER = "\0"
_MORE = "..."
_SEGMENTS = 4  # of a path, that count
_LOOKED_AT = 40  # segments of a path, in which repeated ones are looked for
_ARGUMENTS = 6  # of a query, that count


class PathPattern(NamedTuple):
    """A pattern, how many URLs fit it, and one of them."""

    pattern: str
    urls: int
    example: str


class _Fitting:
    """The URLs that fit a pattern: their number, the first one and the form of its path, and whether others differ."""

    __slots__ = ("example", "form", "is_folded", "urls")

    def __init__(self, example: str, form: tuple[str, ...]) -> None:
        self.example, self.form, self.is_folded, self.urls = example, form, False, 0

    def shown(self) -> str:
        """Return the pattern of their paths."""
        if not self.is_folded:
            return "/" + "/".join(self.form).replace(_NUMBER, "N")
        segments = [segment for segment in dict.fromkeys(self.form) if segment not in ("", _MORE)]
        end = f"/{_MORE}" if _MORE in self.form else "/" if self.form[-1] == "" else ""
        return f"/{{{','.join(segments)}}}{end}".replace(_NUMBER, "N")


def path_patterns(urls: Iterable[str], most: int | None = 20) -> list[PathPattern]:
    """Return the `most` frequent patterns of URLs, None: all. O(URLs), about 10 us each.

    In a pattern, N stands for digits, * for long or random parts, and ... for more of the path. An escape, such as
    those of letters that are not Latin, counts as one character and stays as it is. Segments in braces are repeated, or
    come in several orders, as links that are relative to their page and facets make them without end. Segments without
    a letter do not count for that: days, months and numbers of pages come in any order in an honest archive.

    >>> path_patterns(["http://a.test/day/2026-11?d=1", "http://a.test/day/2025-02?d=28", "http://a.test/"])[0][:2]
    ('/day/N-N?d', 2)
    >>> path_patterns(["http://a.test/a/b/a/b", "http://a.test/b/a", "http://a.test/a/b/c"])[0][:2]
    ('/{a,b}', 2)
    """
    found: dict[tuple[object, str], _Fitting] = {}
    for url in urls:
        path, query = uris.split(url)[1][:1000], url[:4000].partition("?")[2]
        segments = [_VARYING.sub(_name_of, segment) for segment in path.split("/", _LOOKED_AT)[1:]]
        words = [segment for segment in segments if _LETTER.search(segment)]
        kept = _without_repeats(segments) if len(set(words)) < len(words) else segments
        form = (*kept[:_SEGMENTS], _MORE) if len(kept) > _SEGMENTS else tuple(kept)
        are_words = len(set(words).intersection(form)) > 1
        one = found.setdefault((frozenset(form) if are_words else form, _names_in(query)), _Fitting(url, form))
        one.urls += 1
        one.is_folded = one.is_folded or form != one.form or len(kept) < len(segments)
    rows = sorted(found.items(), key=lambda item: -item[1].urls)[:most]
    return [PathPattern(one.shown() + names, one.urls, one.example) for (_, names), one in rows]


def _without_repeats(segments: list[str]) -> list[str]:
    """Return segments without those that repeat the ones before them, some of which has a letter."""
    kept = segments
    for length in range(1, len(segments) // 2 + 1):
        begin = 0
        while begin + 2 * length <= len(kept):
            unit = kept[begin : begin + length]
            if unit == kept[begin + length : begin + 2 * length] and any(map(_LETTER.search, unit)):
                kept = kept[:begin] + kept[begin + length :]
            else:
                begin += 1
    return kept


def _names_in(query: str) -> str:
    arguments = query.split("&", _ARGUMENTS)[:_ARGUMENTS]
    names = sorted({_VARYING.sub(_name_of_argument, argument.partition("=")[0]) for argument in arguments})
    return f"?{'&'.join(names)}" if query else ""


def _name_of(found: re.Match[str]) -> str:
    return {"long": "*", "digits": _NUMBER}.get(found.lastgroup or "", found[0])


def _name_of_argument(found: re.Match[str]) -> str:
    return "*" if found.lastgroup == "long" else found[0]
