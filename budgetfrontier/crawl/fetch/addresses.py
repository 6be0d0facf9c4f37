"""Names to addresses: DNS, the hosts that the settings map to an address, and which addresses are nobody's business."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from budgetfrontier import uris
from budgetfrontier.crawl.fetch import ports
from budgetfrontier.crawl.fetch.system_resolver import SystemResolver
from budgetfrontier.errors import InvalidUrl
from budgetfrontier.settings.matching import glob

Place = tuple[str, int]
"""A host as a URL writes it, without brackets, and a port."""

_MOST = 16  # addresses of a host that are tried, and remembered
_LITERAL = re.compile(r"https?://(?:[^/]*@)?(?:\[|[0-9.]+[:/])")  # a normalized href has no other form of an address
_PORTS = {"http:": 80, "https:": 443}
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")  # RFC 6052
_UNICAST = ipaddress.IPv6Network("2000::/3")  # all that was ever given out
# What the special-purpose registries of the IANA do not call globally reachable, as of November 2025:
# https://www.iana.org/assignments/iana-ipv4-special-registry, and -ipv6-. What `ipaddress` knows of it depends on the
# version of Python. The exceptions are those of 192.0.0.0/24 and 2001::/23.
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
    """A host is at a loopback, private or otherwise special address, and no setting allows that."""

    def __init__(self, host: str, address: str) -> None:
        where = host if host == address else f"{host} is at {address}, which"
        super().__init__(f"{where} is a private address, and fetch.allow_private is false")


class Resolver(AbstractResolver):
    """DNS, except for the hosts that the setting `fetch.resolve` maps to an address; the first glob that fits counts.

    The request itself, its Host header and TLS name included, stays as the URL says. Of a host's addresses only the
    public ones are returned; PrivateAddressError if there are none. What is returned is what is connected to, so
    that a name whose address changes (DNS rebinding) gains nothing. `allowed` are the places that may be private,
    None for all; so may be those that are mapped.
    """

    def __init__(self, addresses: Mapping[str, str], *, allowed: Collection[Place] | None = None) -> None:
        self._rules = [(glob(pattern.lower()), *_split_address(address)) for pattern, address in addresses.items()]
        self._allowed = allowed
        self._dns = aiohttp.ThreadedResolver(SystemResolver())  # type: ignore[arg-type] # it asks no more of a loop

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses of a host: that of the first rule that picks it, else those of the DNS that are public.

        Raises PrivateAddressError if none is, and what the look-up raises.
        """
        for matches, address, mapped in self._rules:
            if matches(host):
                kind = socket.AF_INET6 if ":" in address else socket.AF_INET
                flags = socket.AI_NUMERICHOST
                return [ResolveResult(hostname=host, host=address, port=mapped, family=kind, proto=0, flags=flags)]
        found = await self._dns.resolve(host, port, family)
        public = found
        if self._allowed is not None and (host, port) not in self._allowed:
            public = [result for result in found if is_public(result["host"])]
            if found and not public:
                raise PrivateAddressError(host, found[0]["host"])
        return public[:_MOST]

    async def close(self) -> None:
        await self._dns.close()


def check_literal(href: str, allowed: Collection[Place], *, proxied: bool = False) -> None:
    """Raise PrivateAddressError if the host of a normalized href is itself a private address, not `allowed`.

    Such a host is never asked of a resolver. `proxied`: nor is any other, and localhost would be the proxy itself, so
    that this counts, too. About 0.5 us for a name.
    """
    local = proxied and "localhost" in href and _is_local_name(place_of(href)[0])
    if (local or _LITERAL.match(href)) and (place := place_of(href)) not in allowed and not is_public(place[0]):
        raise PrivateAddressError(place[0], place[0])


class Exempt(NamedTuple):
    """Places that someone meant: `local` may be at a private address, `ports` at a port that is blocked."""

    local: frozenset[Place]
    ports: frozenset[Place]


def exempt(urls: Iterable[str]) -> Exempt:
    """Return the places of those URLs whose host is written as an address, or is localhost; and of blocked ports."""
    local: set[Place] = set()
    blocked: set[Place] = set()
    for url in urls:
        with suppress(InvalidUrl):
            place = place_of(uris.parse(url))
            if _is_local_name(place[0]) or _parsed(place[0]):
                local.add(place)
            if place[1] in ports.BLOCKED:
                blocked.add(place)
    return Exempt(frozenset(local), frozenset(blocked))


def place_of(href: str) -> Place:
    """Return host and port of a normalized href."""
    name, colon, port = uris.authority(href).rpartition(":")
    if not colon or not port.isdigit():
        name, port = uris.authority(href), str(_PORTS[href[: href.find("/")]])
    return name.strip("[]"), int(port)


def is_public(address: str) -> bool:
    """Tell whether an IP address is one of the open internet.

    Not public are what the IANA's special-purpose registries do not call globally reachable (loopback, private,
    link-local, shared, documentation, unspecified...), multicast, and IPv6 beyond 2000::/3. An IPv6 address that
    carries an IPv4 one (mapped, NAT64, 6to4, Teredo) is as public as that is.
    """
    parsed = _parsed(address)
    if parsed is None:
        return False
    if isinstance(parsed, ipaddress.IPv4Address):
        return not _is_special(parsed)
    if parsed in _NAT64:
        return is_public(str(ipaddress.IPv4Address(int(parsed) & 0xFFFFFFFF)))
    carried = [parsed.ipv4_mapped, parsed.sixtofour, *(parsed.teredo or ())]
    if any(carried):
        return all(is_public(str(inner)) for inner in carried if inner is not None)
    return parsed in _UNICAST and not _is_special(parsed)


def _is_special(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    return any(address in network for network in _SPECIAL) and not any(address in network for network in _REACHABLE)


def _parsed(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None


def _is_local_name(host: str) -> bool:
    name = host.removesuffix(".")
    return name == "localhost" or name.endswith(".localhost")  # RFC 6761, section 6.3


def _split_address(address: str) -> Place:
    """Return ("::1", 8080) of "[::1]:8080"; the settings have checked the form."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)
