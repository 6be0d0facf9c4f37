"""The memory of a strategy worker: what it has scored lately."""

from __future__ import annotations

from math import inf

from xxhash import xxh3_128_digest

from budgetfrontier.bus import request_meta
from budgetfrontier.bus.messages import UpdateScore
from budgetfrontier.core.bounded_cache import BoundedCache

LIMIT = 500_000
"""URLs that are remembered: about 80 MB."""


class Scored:
    """The best scores that were sent, by URL and method; the oldest are forgotten. Sending one again does no harm."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._scores: BoundedCache[bytes, float] = BoundedCache(limit)

    def __len__(self) -> int:
        return len(self._scores)

    def is_news(self, update: UpdateScore) -> bool:
        """Tell whether a score has to be sent, and remember it. One that only marks as seen is below all others."""
        request = update.request
        body = request_meta.get(request.meta, request_meta.BODY, bytes) or b""
        key = xxh3_128_digest(b"%b %b %b" % (request.method, request.url.encode(), body))
        score = update.score if update.schedule else -inf
        known = self._scores.get(key)
        if known is not None and known >= score:
            return False
        self._scores.put(key, score)
        return True
