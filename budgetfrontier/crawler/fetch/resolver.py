"""Resolver of host names: DNS without private addresses, and hosts that the settings map to an address."""

from __future__ import annotations

import socket
from collections.abc import Collection, Mapping

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from budgetfrontier.core import uris
from budgetfrontier.crawler.fetch.refusals import Endpoint, PrivateAddressError, is_public
from budgetfrontier.crawler.fetch.system_resolver import SystemResolver
from budgetfrontier.settings.matching import glob

_MOST = 16  # addresses of one host that are tried and cached, at most


class Resolver(AbstractResolver):
    """A resolver that maps hosts by the setting `fetch.resolve` (the first matching glob applies), and others by DNS.

    The request itself, with its Host header and TLS server name, is unaffected: both lack a dot at the end of the host,
    which only the DNS gets. Of the addresses from the DNS, only public ones are returned, unless the endpoint is in
    `allowed` (None: all are); mapped addresses may be private. The connection is made to the addresses returned here,
    so that DNS rebinding gains nothing.
    """

    def __init__(self, addresses: Mapping[str, str], *, allowed: Collection[Endpoint] | None = None) -> None:
        self._rules = [
            (glob(uris.glob_form(pattern)), *_split_address(address)) for pattern, address in addresses.items()
        ]
        self._allowed = allowed
        self._dns = aiohttp.ThreadedResolver(SystemResolver())  # type: ignore[arg-type] # it calls no other method of a loop

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses of a host: the mapped one of the first matching rule, else the public ones of the DNS.

        Raises PrivateAddressError if none is public, and whatever the DNS lookup raises.
        """
        name = uris.without_root_dot(host)
        for matches, address, mapped in self._rules:
            if matches(name):
                mapped_family = socket.AF_INET6 if ":" in address else socket.AF_INET
                flags = socket.AI_NUMERICHOST
                return [
                    ResolveResult(hostname=host, host=address, port=mapped, family=mapped_family, proto=0, flags=flags)
                ]
        found = await self._dns.resolve(host, port, family)
        public = found
        if self._allowed is not None and (name, port) not in self._allowed:
            public = [result for result in found if is_public(result["host"])]
            if found and not public:
                raise PrivateAddressError(host, found[0]["host"])
        return public[:_MOST]

    async def close(self) -> None:
        await self._dns.close()


def _split_address(address: str) -> Endpoint:
    """Return ("::1", 8080) for "[::1]:8080". The settings have validated the form."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)
