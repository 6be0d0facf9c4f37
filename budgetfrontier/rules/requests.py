"""Checks of requests and hops that another program has written: whether they can be sent, and stored in a line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from budgetfrontier.settings.credentials import TOKEN, UNSENDABLE
from budgetfrontier.settings.values import brief

if TYPE_CHECKING:
    from budgetfrontier.core.model import CrawlUri

_OF_CONNECTION = re.compile(
    "connection|content-length|expect|host|keep-alive|proxy-connection|te|trailer|transfer-encoding|upgrade",
    re.IGNORECASE,
)
"""Headers that belong to a connection, or say where a request ends: only the sender knows them (RFC 9110, 7.6.1)."""
_HOPS = re.compile(r"(?:[0-9]{1,9}\+)?[A-Z]*")


def request_objection(uri: CrawlUri) -> str | None:
    """Return why the request of a URI cannot be sent as it was given; None if it can."""
    if not TOKEN.fullmatch(uri.method):
        return f'method: "{brief(uri.method)}" is no HTTP method'
    for name, value in (uri.headers or {}).items():
        if not TOKEN.fullmatch(name):
            return f'headers: "{brief(name)}" cannot be a name in a header'
        if _OF_CONNECTION.fullmatch(name):
            return f"headers: {name} is set by the crawler, from the URL, the body and the connection; leave it out"
        if UNSENDABLE.search(value):
            return f"headers: the value of {name} contains a line break or another control character"
    return None


def are_hops(hops: str) -> bool:
    """Return whether a text is the path from a seed: letters A-Z, after "12+" if Heritrix has shortened it."""
    return _HOPS.fullmatch(hops) is not None
