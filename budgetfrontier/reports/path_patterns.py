"""Patterns of paths that the URLs of a queue have in common, most frequent first."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from budgetfrontier.core import uris

_ESCAPE = "%[0-9a-fA-F]{2}"
_LONG = rf"[0-9a-fA-F]{{12,}}|(?:{_ESCAPE}|%(?![0-9a-fA-F]{{2}})|[^/&=%]){{40,}}"
_VARYING = re.compile(rf"(?P<long>{_LONG})|(?P<escape>{_ESCAPE})|(?P<digits>[0-9]+)")
_SEGMENTS = 4  # of a path, that count
_ARGUMENTS = 6  # of a query, that count


class PathPattern(NamedTuple):
    """A pattern, how many URLs fit it, and one of them."""

    pattern: str
    urls: int
    example: str


def path_patterns(urls: Iterable[str], most: int | None = 20) -> list[PathPattern]:
    """Return the `most` frequent patterns of URLs, None: all. O(URLs), about 5 us each.

    In a pattern, N stands for digits, * for long or random parts, and ... for more of the path. An escape, such as
    those of letters that are not Latin, counts as one character and stays as it is.

    >>> path_patterns(["http://a.test/day/2026-11?d=1", "http://a.test/day/2025-02?d=28", "http://a.test/"])[0][:2]
    ('/day/N-N?d', 2)
    """
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for url in urls:
        pattern = _pattern(url)
        counts[pattern] += 1
        examples.setdefault(pattern, url)
    return [PathPattern(pattern, count, examples[pattern]) for pattern, count in counts.most_common(most)]


def _pattern(url: str) -> str:
    path, query = uris.split(url)[1][:1000], url[:4000].partition("?")[2]
    segments = path.split("/")
    shown = [_VARYING.sub(_name_of, segment) for segment in segments[1 : _SEGMENTS + 1]]
    rest = ["..."] if len(segments) > _SEGMENTS + 1 else []
    arguments = query.split("&", _ARGUMENTS)[:_ARGUMENTS]
    names = sorted({_VARYING.sub(_name_of_argument, argument.partition("=")[0]) for argument in arguments})
    return "/" + "/".join([*shown, *rest]) + (f"?{'&'.join(names)}" if query else "")


def _name_of(found: re.Match[str]) -> str:
    return {"long": "*", "digits": "N"}.get(found.lastgroup or "", found[0])


def _name_of_argument(found: re.Match[str]) -> str:
    return "*" if found.lastgroup == "long" else found[0]
