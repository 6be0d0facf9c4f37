"""Names to addresses: DNS, and the hosts that the settings map to an address."""

from __future__ import annotations

import socket
from collections.abc import Mapping

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from budgetfrontier.settings.matching import glob


class Resolver(AbstractResolver):
    """DNS, except for the hosts that the setting `fetch.resolve` maps to an address; the first glob that fits counts.

    The request itself, its Host header and TLS name included, stays as the URL says.
    """

    def __init__(self, addresses: Mapping[str, str]) -> None:
        self._rules = [(glob(pattern.lower()), *_split_address(address)) for pattern, address in addresses.items()]
        self._dns = aiohttp.DefaultResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        for matches, address, mapped in self._rules:
            if matches(host):
                kind = socket.AF_INET6 if ":" in address else socket.AF_INET
                flags = socket.AI_NUMERICHOST
                return [ResolveResult(hostname=host, host=address, port=mapped, family=kind, proto=0, flags=flags)]
        return await self._dns.resolve(host, port, family)

    async def close(self) -> None:
        await self._dns.close()


def _split_address(address: str) -> tuple[str, int]:
    """Return ("::1", 8080) of "[::1]:8080"; the settings have checked the form."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)
