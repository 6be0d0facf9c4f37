"""The rows that our frontier writes for a discovery, computed without it: the input of the floor.

A test compares them with those of a real frontier, so that the floor never has less to write than ours.
"""

from __future__ import annotations

from typing import Any

from xxhash import xxh3_128_digest

from budgetfrontier.core import uris
from budgetfrontier.rules import uri_order
from budgetfrontier.settings import plugins
from budgetfrontier.storage import keys, uri_values

Row = tuple[bytes, bytes, bytes]
"""Key in `seen`; key and value in `pending`, for when it is new."""


class Rows:
    """Rows in the order of discovery, with default settings: one queue per host, each URI at cost 1."""

    def __init__(self) -> None:
        self._canonical: Any = plugins.resolve("canonicalization", "standard")
        # By scheme and host: id, key, canonical form of both, hash of that.
        self._queues: dict[str, tuple[int, str, str, bytes]] = {}
        self._ordinal = 0

    @property
    def queues(self) -> int:
        """Return the number of queues; their ids count from 1."""
        return len(self._queues)

    def of(self, url: str) -> Row:
        """Return the rows of a normalized URL."""
        prefix, path, query = uris.split(url)
        known = self._queues.get(prefix)
        if known is None:
            place, queue = self._canonical.authority(prefix), uris.authority(prefix + "/")
            known = self._queues[prefix] = len(self._queues) + 1, queue, place, uris.authority_hash(place)
        queue_id, queue, place, start = known
        canonical = place + self._canonical.path(path) + (self._canonical.query(query) if query else "")
        self._ordinal += 1  # counts known URLs, too, unlike our frontier: the order is the same
        key = keys.pending.pack(queue_id, *uri_order.rank(uri_order.NORMAL, 0, 1, self._ordinal))
        return start + xxh3_128_digest(canonical.encode())[:12], key, uri_values.encode_url(url, queue)
