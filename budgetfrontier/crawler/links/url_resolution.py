"""Resolution of references to absolute http and https URLs, without duplicates."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import can_ada

from budgetfrontier.core import uris

_MOST_SEEN = 16 * 1024 * 1024
_OVERHEAD = 100  # bytes that a short string and its entry in a set take in Python, about
_LONGEST_SIMPLE = 1000
# References that are a href already, or become one when they are appended to the origin or the folder of the base: they
# have no dot segments, and no characters that are encoded or mean something else.
_PATH = r"[A-Za-z0-9_~-][A-Za-z0-9_.~-]*+(?:/[A-Za-z0-9_~-][A-Za-z0-9_.~-]*+)*+/?+"
_HOST = r"(?:[a-z0-9]++(?:-[a-z0-9]++)*+\.){1,20}+[a-z]{2,20}+"  # no IP address, no Punycode
_PORT = r":(?:[1-9][0-9]{3}|[1-5][0-9]{4})"  # no default port
_SIMPLE = re.compile(
    rf"(?:(https?://{_HOST}(?:{_PORT})?+/)(?:{_PATH})?+|/(?:{_PATH})?+|{_PATH})(?:\?[A-Za-z0-9_.~=&%+:/;-]*+)?+"
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
    seen = {""}
    size = 0
    base_href = base.href
    origin, folder = (
        base_href[: base_href.index("/", 8)],
        base_href[: base_href.rindex("/", 0, f"{base_href}?".index("?")) + 1],
    )
    longest = _LONGEST_SIMPLE if len(folder) + _LONGEST_SIMPLE <= uris.MAX_LENGTH else 0
    for reference, hop in references:
        if "#" in reference:
            reference = reference[: reference.index("#")]
        if reference in seen:
            continue
        if size > _MOST_SEEN:
            seen = {""}
            size = 0
        seen.add(reference)
        length = len(reference)
        if length <= longest and (simple := _SIMPLE(reference)):
            href = reference if simple.lastindex else (origin if reference[0] == "/" else folder) + reference
        elif (resolved := resolve(base, reference)) is not None:
            href = resolved
        else:
            size += length + _OVERHEAD
            continue
        # A href resolves to itself, so that one set is enough for references and hrefs.
        size += length + len(href) + 2 * _OVERHEAD
        if href == reference or href not in seen:
            seen.add(href)
            yield href, hop
