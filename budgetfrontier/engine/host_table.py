"""The owner of the table `hosts`: the address of each host, as far as crawlers have reported one."""

from __future__ import annotations

from budgetfrontier.core import uris
from budgetfrontier.core.bounded_cache import BoundedCache
from budgetfrontier.rules import host_addresses
from budgetfrontier.storage import keys
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.environment import Environment
from budgetfrontier.storage.records import HostRow, decode_host

IN_MEMORY = 1 << 15
"""Hosts whose rows are kept in memory at the most, about 300 bytes each."""


class HostTable:
    """The addresses of hosts. One look-up for a host that is not in memory."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._table = env.db[keys.HOSTS]
        self._rows: BoundedCache[str, HostRow | None] = BoundedCache(IN_MEMORY)

    def address(self, host: str) -> str | None:
        """Return the IP address of a host, as `uris.host` returns it; None if none is known."""
        try:
            row = self._rows[host]
        except KeyError:
            if (own := uris.own_address(host)) is not None:
                return own
            row = self._row(host)
        return None if row is None else row.address

    def reported(self, host: str, address: str, now: float) -> None:
        """Take a reported address as that of a host, unless it has one that is still valid."""
        if uris.is_address(host):
            return
        row = self._row(host)
        if host_addresses.replaces(None if row is None else row.since, now):
            row = HostRow(address, int(now))
            self._rows.put(host, row)
            value = encode(row)
            self._env.txn.put(host.encode(), value, db=self._table)
            self._env.wrote(len(value), 1)

    def _row(self, host: str) -> HostRow | None:
        try:
            return self._rows[host]
        except KeyError:
            value = self._env.txn.get(host.encode(), db=self._table)
            row = None if value is None else decode_host(value)
            self._rows.put(host, row)
            return row
