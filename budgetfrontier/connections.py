"""Connections to frontiers of other processes: the client that an address stands for, of a server or of workers.

An address is HOST:PORT or unix:PATH for `budgetfrontier serve` (the extra "grpc"), or kafka://HOST:PORT,.../CRAWL with
properties of librdkafka as its query, for a crawl in partitions (the extras "grpc" and "kafka").
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, TypeAlias

from budgetfrontier.core import protocol
from budgetfrontier.core.endpoints import addresses
from budgetfrontier.errors import FrontierError, WrongType

if TYPE_CHECKING:
    from budgetfrontier.cluster.client import ClusterFrontier
    from budgetfrontier.cluster.directory.kafka import KafkaDirectory
    from budgetfrontier.engine.api import AsyncFrontier
    from budgetfrontier.remote import RemoteFrontier

    Connection: TypeAlias = RemoteFrontier | ClusterFrontier

UNNAMED: Final = "DEFAULT"
"""The name of a crawl that was given none."""
FORMS: Final = "HOST:PORT, unix:PATH or kafka://HOST:PORT/CRAWL"

_SCHEME: Final = "kafka://"


def is_cluster(address: str) -> bool:
    """Return whether an address is that of a crawl in partitions. Raises WrongType."""
    if not isinstance(address, str):
        raise WrongType(f"an address is a str, not {type(address).__name__}: {FORMS}")
    return address.startswith(_SCHEME)


def shown(address: str) -> str:
    """Return an address as it stands in messages: without properties, which may be secret.

    >>> shown("kafka://broker1/news?sasl.password=x")
    'kafka://broker1/news'
    """
    return address.partition("?")[0] if is_cluster(address) else address


def crawl_at(address: str, crawl: str) -> str:
    """Return the name of the crawl at an address, once it is checked: `crawl`, unless the address has one.

    Raises FrontierError for a wrong address, and for two names; MissingExtra.
    """
    if not is_cluster(address):
        addresses.of_server(address, or_else=", or kafka://HOST:PORT/CRAWL")
        return crawl
    from budgetfrontier.cluster.directory.kafka import place

    named = place(address).crawl
    if crawl not in (UNNAMED, named):
        raise FrontierError(f"{shown(address)} is the crawl {named!r}, not {crawl!r}: give one name")
    return named


def connect(
    address: str,
    *,
    crawl: str = UNNAMED,
    token: str | None = None,
    tls: bool | str | os.PathLike[str] = False,
    retry_for: float = protocol.RETRY_FOR,
    keep_leases: bool = False,
) -> Connection:
    """Connect to the frontier at an address, with the options of `RemoteFrontier`.

    Raises the errors of that; ConnectionLost, too, if no worker of a crawl in partitions answers for `retry_for`
    seconds.
    """
    from budgetfrontier.remote import RemoteFrontier

    if not is_cluster(address):
        crawl_at(address, crawl)
        return RemoteFrontier(address, crawl=crawl, token=token, tls=tls, retry_for=retry_for, keep_leases=keep_leases)
    name, directory = _crawl_on_kafka(address, crawl)
    from budgetfrontier.cluster.client import ClusterFrontier

    frontier = ClusterFrontier(name, directory, token=token, tls=tls, retry_for=retry_for, keep_leases=keep_leases)
    try:
        return frontier.connect()
    except BaseException:
        frontier.close()
        raise


def asynchronous(
    address: str,
    *,
    crawl: str = UNNAMED,
    token: str | None = None,
    tls: bool | str | os.PathLike[str] = False,
    retry_for: float = protocol.RETRY_FOR,
) -> AsyncFrontier:
    """Return the client for asyncio of the frontier at an address, not connected yet. Raises FrontierError."""
    from budgetfrontier.remote import AsyncRemoteFrontier

    if not is_cluster(address):
        crawl_at(address, crawl)
        return AsyncRemoteFrontier(address, crawl=crawl, token=token, tls=tls, retry_for=retry_for)
    name, directory = _crawl_on_kafka(address, crawl)
    from budgetfrontier.cluster.asynchronous import AsyncClusterFrontier

    return AsyncClusterFrontier(name, directory, token=token, tls=tls, retry_for=retry_for)


def needed(address: str) -> None:
    """Raise MissingExtra if a client of an address needs a part that was left out at installation."""
    import budgetfrontier.remote

    if is_cluster(address):
        import budgetfrontier.cluster.directory.kafka  # noqa: F401


def _crawl_on_kafka(address: str, crawl: str) -> tuple[str, KafkaDirectory]:
    """Return the name of a crawl in partitions and its directory."""
    name = crawl_at(address, crawl)
    from budgetfrontier.cluster.directory.kafka import KafkaDirectory, place_for_clients

    return name, KafkaDirectory(place_for_clients(address))
