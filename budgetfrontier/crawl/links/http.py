"""Links in the header of an HTTP answer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from budgetfrontier.crawl.links.html import NOFOLLOW, link_hop, refresh

# https://www.rfc-editor.org/rfc/rfc8288#section-3
_LINK = re.compile(r"""[\s,]*+<([^>]*+)>((?:[^,"]++|"(?:[^"\\]++|\\.)*+(?:"|\Z))*+)""", re.DOTALL)
_REL = re.compile(r""";\s*+rel\s*+=\s*+(?:"([^"]*+)|([^\s;,"]++))""", re.IGNORECASE)

_NOT_UTF8 = re.compile("[\udc80-\udcff]")


def references(headers: Mapping[str, str], *, nofollow: bool = True) -> Iterator[tuple[str, str]]:
    """Yield (reference as written, hop) of the Link (RFC 8288) and Refresh header fields, in order.

    A link is L or E by its rel, as a link element is. Other than Location, which is the fetch's, a Refresh is R as a
    redirect is, which Heritrix does too.
    """
    for value in values(headers, "Link"):
        for match in _LINK.finditer(value):
            rel = _REL.search(match[2])
            words = (rel[1] or rel[2] or "") if rel else ""
            hop = link_hop(words)
            if hop and (nofollow or NOFOLLOW.isdisjoint(words.lower().split())):
                yield match[1].strip(), hop
    for value in values(headers, "Refresh"):
        if target := refresh(value):
            yield target, "R"


def location(reference: str | None) -> str | None:
    """Return a Location with those bytes percent-encoded that are no UTF-8, as browsers do."""
    if reference is None or reference.isascii():
        return reference
    return _NOT_UTF8.sub(lambda match: f"%{ord(match[0]) - 0xDC00:02X}", reference)


def values(headers: Mapping[str, str], name: str) -> list[str]:
    """Return each line of a header field, in order."""
    every = getattr(headers, "getall", None)  # of a multidict; a plain dict has one line for each name
    if every is not None:
        return list(every(name, ()))
    return [headers[name]] if name in headers else []
