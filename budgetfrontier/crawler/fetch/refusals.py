"""Refusals of fetches: private addresses and blocked ports, unless the settings or a seed allow them."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import NamedTuple

from budgetfrontier.core import uris
from budgetfrontier.crawler.fetch import ports
from budgetfrontier.errors import InvalidUrl
from budgetfrontier.settings import Settings
from budgetfrontier.settings.url_lists import seed_urls

Endpoint = tuple[str, int]
"""Host and port: the host as in a normalized URL, IPv6 addresses without brackets."""

_LITERAL = re.compile(r"https?://(?:[^/]*@)?(?:\[|[0-9.]+[:/])")  # the forms of an IP address in a href
_PORTS = {"http:": 80, "https:": 443}
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")  # RFC 6052
_UNICAST = ipaddress.IPv6Network("2000::/3")  # all unicast addresses that the IANA has allocated
# Networks that the IANA's special-purpose registries do not list as globally reachable, as of November 2025:
# https://www.iana.org/assignments/iana-ipv4-special-registry, and -ipv6-. The lists
# in `ipaddress` depend on the version of Python. `_REACHABLE` are the exceptions in 192.0.0.0/24 and 2001::/23.
_SPECIAL = tuple(
    map(
        ipaddress.ip_network,
        (
            "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
            "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24",
            "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
            "2001::/23", "2001:db8::/32", "3fff::/20",
        ),
    )
)  # fmt: skip
_REACHABLE = tuple(
    map(
        ipaddress.ip_network,
        (
            "192.0.0.9/32", "192.0.0.10/32",
            "2001:1::1/128", "2001:1::2/128", "2001:1::3/128", "2001:3::/32", "2001:4:112::/48", "2001:20::/28",
            "2001:30::/28",
        ),
    )
)  # fmt: skip


class PrivateAddressError(OSError):
    """A host has a loopback, private or otherwise special address, and no setting allows that."""

    def __init__(self, host: str, address: str) -> None:
        where = host if host == address else f"{host} is at {address}, which"
        super().__init__(f"{where} is a private address, and fetch.allow_private is false")


def check_literal(href: str, allowed: Collection[Endpoint], *, proxied: bool = False) -> None:
    """Raise PrivateAddressError if the host of a normalized href is a private IP address and not `allowed`.

    Such hosts never reach the resolver. With `proxied`, no host does, and "localhost" would be the proxy's own host, so
    that it is refused too. About 0.5 us for a host name.
    """
    local = proxied and "localhost" in href and _is_local_name(endpoint_of(href)[0])
    if (
        (local or _LITERAL.match(href))
        and (endpoint := endpoint_of(href)) not in allowed
        and not is_public(endpoint[0])
    ):
        raise PrivateAddressError(endpoint[0], endpoint[0])


class Exempt(NamedTuple):
    """Endpoints exempt from a rule: those in `local` may have a private address, those in `ports` a blocked port."""

    local: frozenset[Endpoint]
    ports: frozenset[Endpoint]


def exempt_endpoints(urls: Iterable[str]) -> Exempt:
    """Return the endpoints of those URLs with an IP address, localhost or a blocked port. Invalid URLs are skipped."""
    local: set[Endpoint] = set()
    blocked: set[Endpoint] = set()
    for url in urls:
        with suppress(InvalidUrl):
            endpoint = endpoint_of(uris.parse(url))
            if _is_local_name(endpoint[0]) or _ip_address(endpoint[0]):
                local.add(endpoint)
            if endpoint[1] in ports.BLOCKED:
                blocked.add(endpoint)
    return Exempt(frozenset(local), frozenset(blocked))


def endpoint_of(href: str) -> Endpoint:
    """Return host and port of a normalized href; the port is the scheme's default if none is given."""
    name, colon, port = uris.authority(href).rpartition(":")
    if not colon or not port.isdigit():
        name, port = uris.authority(href), str(_PORTS[href[: href.find("/")]])
    return name.strip("[]"), int(port)


def is_public(address: str) -> bool:
    """Return whether an IP address belongs to the public internet; False for text that is not an IP address.

    Not public: networks that the IANA's special-purpose registries do not list as globally reachable (loopback,
    private, link-local, shared, documentation, unspecified...), multicast, and IPv6 outside 2000::/3. An IPv6 address
    that embeds an IPv4 address (mapped, NAT64, 6to4, Teredo) is public if that one is.
    """
    parsed = _ip_address(address)
    if parsed is None:
        return False
    if isinstance(parsed, ipaddress.IPv4Address):
        return not _is_special(parsed)
    if parsed in _NAT64:
        return is_public(str(ipaddress.IPv4Address(int(parsed) & 0xFFFFFFFF)))
    embedded = [parsed.ipv4_mapped, parsed.sixtofour, *(parsed.teredo or ())]
    if any(embedded):
        return all(is_public(str(inner)) for inner in embedded if inner is not None)
    return parsed in _UNICAST and not _is_special(parsed)


def _is_special(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    return any(address in network for network in _SPECIAL) and not any(address in network for network in _REACHABLE)


def _ip_address(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None


def _is_local_name(host: str) -> bool:
    return host == "localhost" or host.endswith(".localhost")  # RFC 6761, section 6.3


def refusal(settings: Settings, href: str) -> str | None:
    """Return why a crawl with these settings would not fetch a normalized href, on any host; None if it would.

    Reads the files of seeds; an unreadable one exempts nothing.
    """
    exempt = exempt_endpoints(_seeds(settings))
    try:
        if not settings.fetch.allow_private:
            check_literal(href, exempt.local)
        ports.check_port(href, exempt.ports)
    except (PrivateAddressError, ports.BlockedPortError) as error:
        return str(error)
    return None


def _seeds(settings: Settings) -> Iterable[str]:
    for seed in settings.seeds:
        with suppress(OSError, ValueError):  # ValueError: a NUL in the name
            yield from seed_urls(seed)
