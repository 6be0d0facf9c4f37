"""The table of the fingerprints seen, with a cache of recently seen URLs in front of it.

`rules.duplicates` determines which URIs have the same fingerprint, and which have none. Every page of a site links to
the same few URLs: the cache recognizes these without a lookup. A Bloom filter would not help, because a new URI has to
be stored in any case, which looks it up.
"""

from __future__ import annotations

from typing import Any

from budgetfrontier.engine.admission.candidates import Batch
from budgetfrontier.rules.duplicates import identifying_url
from budgetfrontier.store import keys
from budgetfrontier.store.environment import Environment

RECENT = 1 << 16  # URLs kept in memory at the most
LONGEST_RECENT = 512  # characters


class SeenTable:
    """The table `seen` of known fingerprints. Exact, as far as 128 bits are."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self.recent: set[str] = set()

    def __repr__(self) -> str:
        return f"<SeenTable {len(self.recent)} URLs in memory>"

    def is_seen(self, fingerprint: bytes) -> bool:
        """Tell whether a form is known. O(log n)."""
        return self._env.txn.get(fingerprint, db=self._env.db[keys.SEEN]) is not None

    def drop_seen(self, batch: Batch) -> None:
        """Drop the candidates that are known, and add the others to the table, each form once, in key order."""
        candidates = batch.candidates
        forced = set(batch.forced)
        put = self._env.txn.cursor(self._env.db[keys.SEEN]).put
        fingerprints = sorted(candidates.keys() - forced) if forced else sorted(candidates)
        for fingerprint in [fingerprint for fingerprint in fingerprints if not put(fingerprint, b"", True, False)]:
            del candidates[fingerprint]

    def add(self, fingerprint: bytes, url: str) -> bool:
        """Add the form of a plain URL, and remember the URL; tell whether the form was new."""
        if len(self.recent) > RECENT:
            self.recent.clear()
        if len(url) <= LONGEST_RECENT:
            self.recent.add(url)
        return bool(self._env.txn.put(fingerprint, b"", overwrite=False, db=self._env.db[keys.SEEN]))

    def remember(self, batch: list[Any], invalid: list[Any]) -> None:
        """Cache the URLs of a batch as seen, whatever their result, except INVALID ones."""
        if len(self.recent) > RECENT:
            self.recent.clear()
        urls = [given if type(given) is str else identifying_url(given) for given in batch]
        self.recent.update([url for url in urls if url is not None and len(url) <= LONGEST_RECENT])
        if invalid:
            self.recent.difference_update(url for url in map(identifying_url, invalid) if url is not None)
