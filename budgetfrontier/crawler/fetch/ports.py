"""Ports that browsers refuse to open for a URL: behind them are mail, name and file servers, not the web.

A link to http://mail.example:25/ would make the crawler send lines that the link's author chose to a mail server.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from budgetfrontier.core import uris
from budgetfrontier.core.vocabulary import BAD_PORT

# https://fetch.spec.whatwg.org/#bad-port, of 2025
BLOCKED = frozenset(
    (
        0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109,
        110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530,
        531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190,
        5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
    )
)  # fmt: skip

_PORT = re.compile(r"https?://(?:[^/]*@)?[^/@]*:([0-9]+)/")


class BlockedPortError(OSError):
    """A URL names a port that browsers do not open, and no seed names it."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(f"{host}:{port} {BAD_PORT}, and no seed names it")


def check_port(href: str, allowed: Collection[tuple[str, int]]) -> None:
    """Raise BlockedPortError if a normalized href has a blocked port and its host and port are not `allowed`.

    About 1 us.
    """
    if (found := _PORT.match(href)) and (port := int(found[1])) in BLOCKED:
        host = uris.host(href).strip("[]")
        if (host, port) not in allowed:
            raise BlockedPortError(host, port)
