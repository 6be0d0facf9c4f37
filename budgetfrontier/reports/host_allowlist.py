"""Allow-list of Host headers for the HTTP servers, the console and the metrics, against DNS rebinding."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterable

from budgetfrontier.core import uris

SCRAPES = 16
"""Connections that a server of metrics holds at a time."""
REFUSED = 421
"""The HTTP status of the answer to a request for another host."""


class HostAllowlist:
    """The Host headers that a server accepts: all addresses, `localhost`, this machine's name, and further names.

    A page from elsewhere that has its own name resolved to an address of ours is refused by this: browsers send the
    name. An address in the header was typed by somebody.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = {uris.without_root_dot(name.lower()) for name in ("localhost", os.uname().nodename, *names)}

    def __contains__(self, header: str | None) -> bool:
        """Return whether a Host header names one of them."""
        name = _without_port(header or "")
        if name in self._names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return uris.without_root_dot(host.partition(":")[0].lower())
