"""Addresses, HOST:PORT or unix:PATH: how they are written, and which of them other machines reach."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Final, NamedTuple

from budgetfrontier.errors import FrontierError, WrongAddress

UNIX: Final = "unix:"
ANYBODY: Final = "--allow-anybody"
"""The option of commands that lets an address be reached by others although nothing protects it."""
NO_PROXY: Final = ("grpc.enable_http_proxy", 0)
"""The option of a channel of gRPC to a server of ours: `http_proxy` in the environment is for pages, and not for it."""

_BROKER = re.compile(
    r"\s*(?:(?:SASL_)?(?:PLAINTEXT|SSL)://)?(?:\[[0-9A-Fa-f:.]+\]|[^\s,:/?@\[\]]+)(?::([0-9]{1,5}))?\s*", re.ASCII
)
_LAST_PORT = 65535
_HOST_AND_PORT = re.compile(r"(?:([^\s/:\[\]@]+)|\[([0-9A-Fa-f:.]+(?:%\w+)?)\]):([0-9]{1,5})", re.ASCII)


class HostPort(NamedTuple):
    """A host, or an address without brackets, and a port."""

    host: str
    port: int


def parsed(address: str, *, any_port: bool = False) -> HostPort | Path:
    """Return the host and port of an address, or the path of its socket. Raises WrongAddress for anything else.

    With `any_port`, the port may be 0, for a server that takes a free one.

    >>> parsed("[::1]:7071")
    HostPort(host='::1', port=7071)
    """
    if address.startswith(UNIX):
        if address.removeprefix(UNIX):
            return Path(address.removeprefix(UNIX))
    elif (found := _HOST_AND_PORT.fullmatch(address)) and (not any_port) <= int(found[3]) <= _LAST_PORT:
        return HostPort(found[1] or found[2], int(found[3]))
    raise WrongAddress(f"{address!r} is no address: give HOST:PORT, such as 127.0.0.1:7071 or [::1]:7071, or unix:PATH")


def checked(address: str, *, any_port: bool = False) -> str:
    """Return an address that `parsed` takes. Raises WrongAddress."""
    parsed(address, any_port=any_port)
    return address


def of_server(address: str, *, or_else: str = "") -> str:
    """Return the address of a server of crawls. Raises WrongAddress, which names `crawl=` for one with a crawl.

    `or_else` is another form that the caller takes.
    """
    try:
        return checked(address)
    except WrongAddress as error:
        server, slash, crawl = address.partition("/")
        if slash and _HOST_AND_PORT.fullmatch(server):
            named = f"crawl={crawl!r}" if crawl else "crawl="
            raise WrongAddress(f"{address!r} is no address: give {server!r}, and the crawl as `{named}`") from None
        raise WrongAddress(f"{error}{or_else}") from None


def brokers(text: str) -> str:
    """Return the brokers of Kafka that HOST:PORT,... names, as they are written. Raises WrongAddress.

    The port may be left out, and the protocol of a listener may stand before the host, as librdkafka has it.

    >>> brokers("one:9092,SSL://[::1]:9093")
    'one:9092,SSL://[::1]:9093'
    """
    for broker in text.split(","):
        found = _BROKER.fullmatch(broker)
        if found is None or not 1 <= int(found[1] or 1) <= _LAST_PORT:
            raise WrongAddress(f"{broker!r:.200} is no broker of Kafka: give HOST:PORT, such as 127.0.0.1:9092")
    return text


def is_loopback(host: str) -> bool:
    """Return whether a server on a host can be reached from this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_reach(where: HostPort | Path, *, option: str, protected: bool, anybody: bool, remedy: str) -> None:
    """Raise FrontierError for an address that other machines reach, unless a token or TLS protects it.

    `anybody` allows all to reach it; `option` names the address in the message, `remedy` the protection.
    """
    if protected or anybody or isinstance(where, Path) or is_loopback(where.host):
        return
    raise FrontierError(
        f"{option}: other machines reach {where.host}, and anybody there could use this without a token; {remedy}"
        f"listen on 127.0.0.1 or ::1, or say {ANYBODY} if only those who may use it can connect"
    )
