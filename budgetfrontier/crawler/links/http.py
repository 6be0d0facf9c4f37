"""Links in the header of an HTTP response."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from budgetfrontier.crawler.links.html import NOFOLLOW, link_hop, refresh

# https://www.rfc-editor.org/rfc/rfc8288#section-3
_LINK = re.compile(r"""<([^<>]*+)>((?:[^,"<]++|"(?:[^"\\]++|\\.)*+(?:"|\Z))*+)""", re.DOTALL)
_PARAMETER = re.compile(r""";\s*+([^\s=;"]++)\s*+(?:=\s*+(?:"((?:[^"\\]++|\\.)*+)|([^\s;"]*+)))?+""", re.DOTALL)


def references(headers: Mapping[str, str], *, nofollow: bool = True) -> Iterator[tuple[str, str]]:
    """Yield (reference as written, hop) of the Link (RFC 8288) and Refresh header fields, in order.

    The rel of a Link determines its hop, as for a link element. A Refresh has the hop R, like a redirect, as in
    Heritrix. Location is not yielded here: `discover` handles redirects.
    """
    for value in values(headers, "Link"):
        for match in _LINK.finditer(value):
            rels = (quoted or bare for name, quoted, bare in _PARAMETER.findall(match[2]) if name.lower() == "rel")
            rel = next(rels, "")
            hop = link_hop(rel)
            if hop and (nofollow or NOFOLLOW.isdisjoint(rel.lower().split())):
                yield match[1].strip(), hop
    for value in values(headers, "Refresh"):
        if target := refresh(value):
            yield target, "R"


def values(headers: Mapping[str, str], name: str) -> list[str]:
    """Return the values of all lines of a header field, in order."""
    every = getattr(headers, "getall", None)  # a multidict; a plain dict has one value per name
    if every is not None:
        return list(every(name, ()))
    return [headers[name]] if name in headers else []
