"""References made into URLs: absolute, http or https, each once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import can_ada

from budgetfrontier import uris

_REMEMBERED = 16 * 1024 * 1024
_OVERHEAD = 100  # about what Python needs for a short string and its place in a set
_LONGEST_SIMPLE = 1000
# What is only appended to a base: no scheme, no host, no dot segment, nothing that would be encoded; and short.
_SIMPLE = re.compile(
    rf"(?=.{{,{_LONGEST_SIMPLE}}}\Z)(/?+)[A-Za-z0-9_~-][A-Za-z0-9_.~-]*+(?:/[A-Za-z0-9_~-][A-Za-z0-9_.~-]*+)*+/?+"
    r"(?:\?[A-Za-z0-9_.~=&%+:/;-]*+)?+"
).fullmatch


def resolve(base: can_ada.URL, reference: str | None) -> str | None:
    """Return a reference as an absolute href without fragment; None if it is no http or https URL, or is longer than
    `uris.MAX_LENGTH`. Raises nothing; about 0.7 us.
    """
    if not reference or len(reference) > uris.MAX_LENGTH:
        return None
    try:
        href: str = (base + reference).href
    except (ValueError, TypeError):  # not a URL; or lone surrogates, which the binding cannot take
        return None
    if not href.startswith(("http://", "https://")) or len(href) > uris.MAX_LENGTH:
        return None
    return href[: href.index("#")] if "#" in href else href


def unique(base: can_ada.URL, references: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield (reference, hop) resolved, in order, each URL once, by its first hop; fragments alone are no links.

    When those that were seen take 16 MiB, which about 65,000 do, they are forgotten: they may come again.
    """
    seen: set[str] = set()
    size = 0
    whole = base.href
    origin, folder = whole[: whole.index("/", 8)], whole[: whole.rindex("/", 0, f"{whole}?".index("?")) + 1]
    short = len(folder) + _LONGEST_SIMPLE <= uris.MAX_LENGTH
    for reference, hop in references:
        if "#" in reference:
            reference = reference[: reference.index("#")]
        if not reference or reference in seen:
            continue
        if size > _REMEMBERED:
            seen.clear()
            size = 0
        seen.add(reference)
        simple = _SIMPLE(reference) if short else None
        href = resolve(base, reference) if simple is None else (origin if simple[1] else folder) + reference
        # A href resolves to itself, so that one set serves for both.
        size += len(reference) + 2 * _OVERHEAD
        if href is not None and (href == reference or href not in seen):
            seen.add(href)
            size += len(href)
            yield href, hop
