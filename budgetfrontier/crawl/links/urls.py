"""Resolution of references to absolute http and https URLs, without duplicates."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import can_ada

from budgetfrontier import uris

_MOST_SEEN = 16 * 1024 * 1024
_OVERHEAD = 100  # bytes that a short string and its entry in a set take in Python, about
_LONGEST_SIMPLE = 1000
# Short references that can be appended to the base: no scheme, host, dot segment, or character that is encoded.
_SIMPLE = re.compile(
    rf"(?=.{{,{_LONGEST_SIMPLE}}}\Z)(/?+)[A-Za-z0-9_~-][A-Za-z0-9_.~-]*+(?:/[A-Za-z0-9_~-][A-Za-z0-9_.~-]*+)*+/?+"
    r"(?:\?[A-Za-z0-9_.~=&%+:/;-]*+)?+"
).fullmatch


def resolve(base: can_ada.URL, reference: str | None) -> str | None:
    """Return a reference as an absolute href without fragment. Raises nothing; about 0.7 us.

    None if it is not an http or https URL, or is longer than `uris.MAX_LENGTH`.
    """
    if not reference or len(reference) > uris.MAX_LENGTH:
        return None
    try:
        href: str = (base + reference).href
    except (ValueError, TypeError):  # not a URL; or lone surrogates, which the binding does not accept
        return None
    if not href.startswith(("http://", "https://")) or len(href) > uris.MAX_LENGTH:
        return None
    return href[: href.index("#")] if "#" in href else href


def unique(base: can_ada.URL, references: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield (href, hop) for each reference, in order, each URL once, with its first hop; skip mere fragments.

    The URLs seen are dropped when they take 16 MiB, which is about 65,000 of them: after that, some may be repeated.
    """
    seen: set[str] = set()
    size = 0
    base_href = base.href
    origin, folder = (
        base_href[: base_href.index("/", 8)],
        base_href[: base_href.rindex("/", 0, f"{base_href}?".index("?")) + 1],
    )
    short = len(folder) + _LONGEST_SIMPLE <= uris.MAX_LENGTH
    for reference, hop in references:
        if "#" in reference:
            reference = reference[: reference.index("#")]
        if not reference or reference in seen:
            continue
        if size > _MOST_SEEN:
            seen.clear()
            size = 0
        seen.add(reference)
        simple = _SIMPLE(reference) if short else None
        href = resolve(base, reference) if simple is None else (origin if simple[1] else folder) + reference
        # A href resolves to itself, so that one set is enough for references and hrefs.
        size += len(reference) + 2 * _OVERHEAD
        if href is not None and (href == reference or href not in seen):
            seen.add(href)
            size += len(href)
            yield href, hop
