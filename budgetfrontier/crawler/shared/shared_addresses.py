"""Addresses of shared crawls, and the remote crawl that each stands for. Further kinds are added here."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from budgetfrontier import connections
from budgetfrontier.core.endpoints.addresses import checked
from budgetfrontier.crawler.shared.served_crawl import ServedCrawl
from budgetfrontier.errors import WrongAddress


class Address(NamedTuple):
    """Where a crawl is served: an address as `budgetfrontier.remote` takes it, and the name of the crawl there."""

    server: str
    crawl: str


_HOST = re.compile(r"([^/#]+)(?:/(.+))?")
_SOCKET = re.compile(r"(unix:[^#]+)(?:#(.+))?")


def parsed_address(text: str, *, crawl: str) -> Address:
    """Return the parts of HOST:PORT/CRAWL or unix:PATH#CRAWL; without a CRAWL, it is `crawl`. Raises WrongAddress.

    >>> parsed_address("127.0.0.1:7071/news", crawl="other")
    Address(server='127.0.0.1:7071', crawl='news')
    >>> parsed_address("unix:/run/frontier", crawl="other")
    Address(server='unix:/run/frontier', crawl='other')
    """
    scheme, found, _ = text.partition("://")
    if found:
        raise WrongAddress(
            f"{text!r}: there are no frontiers at {scheme}://; give HOST:PORT/CRAWL, unix:PATH#CRAWL or "
            "kafka://HOST:PORT/CRAWL"
        )
    parts = (_SOCKET if text.startswith("unix:") else _HOST).fullmatch(text)
    if parts is None:
        raise WrongAddress(
            f"{text!r} is no address: give HOST:PORT/CRAWL, such as 127.0.0.1:7071/news, or unix:PATH#CRAWL"
        )
    return Address(checked(parts[1]), parts[2] or crawl)


def remote_crawl(
    address: str, *, crawl: str, token: str | None = None, tls: bool | str | os.PathLike[str] = False
) -> ServedCrawl:
    """Return the crawl at an address, not connected yet; `crawl` is its name if the address has none.

    kafka://HOST:PORT,.../CRAWL is a crawl in partitions, which several workers share.

    Raises WrongAddress, and MissingExtra.
    """
    if connections.is_cluster(address):
        return ServedCrawl(connections.shown(address), connections.asynchronous(address, token=token, tls=tls))
    server, name = parsed_address(address, crawl=crawl)
    whole = f"{server}{'#' if server.startswith('unix:') else '/'}{name}"
    return ServedCrawl(whole, connections.asynchronous(server, crawl=name, token=token, tls=tls))
