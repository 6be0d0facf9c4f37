"""The table of the fingerprints seen, with a cache of recently seen URLs in front of it.

`rules.duplicates` determines which URIs have the same fingerprint, and which have none. Every page of a site links to
the same few URLs: the cache recognizes these without a lookup. With `duplicates: bloom`, the table has the fingerprints
that are not in the Bloom filter yet: `engine.seen_filter`. With `noop`, no URI has a fingerprint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from budgetfrontier.engine.admission.read_batch import Batch
from budgetfrontier.engine.seen_filter import SeenFilter
from budgetfrontier.rules.duplicates import identifying_url
from budgetfrontier.storage import keys
from budgetfrontier.storage.environment import Environment

RECENT = 1 << 16  # URLs kept in memory at the most
LONGEST_RECENT = 512  # characters


class SeenTable:
    """The table `seen` of known fingerprints. Exact, as far as 128 bits are."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self.recent: set[str] = set()
        self.remembers = True
        """Whether URLs are cached: not if duplicates may change what waits."""
        self.on_forget: Callable[[], object] | None = None
        """Empties the cache of the compiled kernel, if there is one."""

    def is_seen(self, fingerprint: bytes) -> bool:
        """Return whether a form is known. O(log n)."""
        return self._env.txn.get(fingerprint, db=self._env.db[keys.SEEN]) is not None

    def known(self, fingerprints: Iterable[bytes]) -> set[bytes]:
        """Return the forms that are recorded as seen."""
        find = self._env.seen.set_key
        return {fingerprint for fingerprint in sorted(fingerprints) if find(fingerprint)}

    def drop_seen(self, batch: Batch) -> None:
        """Drop the candidates that are known, and add the others to the table, each form once, in key order."""
        candidates = batch.candidates
        fingerprints = candidates.keys() - set(batch.forced) if batch.forced else candidates
        for fingerprint in self.add_all(fingerprints):
            del candidates[fingerprint]

    def add_all(self, fingerprints: Iterable[bytes]) -> list[bytes]:
        """Add forms in key order; return the known ones."""
        put = self._env.seen.put
        return [fingerprint for fingerprint in sorted(fingerprints) if not put(fingerprint, b"", True, False)]

    def add(self, fingerprint: bytes, url: str) -> bool:
        """Add the form of a plain URL, and remember the URL; return whether the form was new."""
        recent = self.recent
        if len(recent) > RECENT:
            recent.clear()
        if len(url) <= LONGEST_RECENT and self.remembers:
            recent.add(url)
        return self._env.seen.put(fingerprint, b"", True, False)  # a cursor kept open: 5 % of `schedule`

    def forget(self, fingerprint: bytes) -> None:
        """Take a form out of the table. The cache, which knows URLs and no forms, is emptied."""
        self.recent.clear()
        if self.on_forget is not None:
            self.on_forget()
        if self._env.seen.set_key(fingerprint):
            self._env.seen.delete()

    def remember(self, batch: Sequence[Any], refused: list[Any]) -> None:
        """Cache the URLs of a batch as seen, except refused ones: they are INVALID or FULL."""
        recent = self.recent
        if not self.remembers:
            return
        if len(recent) > RECENT:
            recent.clear()
        if set(map(type, batch)) == {str} and max(map(len, batch)) <= LONGEST_RECENT:  # the common case
            recent.update(batch)
        else:
            urls = [given if type(given) is str else identifying_url(given) for given in batch]
            recent.update([url for url in urls if url is not None and len(url) <= LONGEST_RECENT])
        if refused:
            recent.difference_update(url for url in map(identifying_url, refused) if url is not None)


class FilteredSeenTable:
    """The table `seen` together with the Bloom filter, which knows the older fingerprints."""

    def __init__(self, table: SeenTable, bloom: SeenFilter) -> None:
        self._table = table
        self._filter = bloom
        self.recent = table.recent
        self.remembers = table.remembers
        self.remember = table.remember
        self.forget = table.forget  # of those in the filter, none can be forgotten

    def is_seen(self, fingerprint: bytes) -> bool:
        """Return whether a form is known, or taken for known."""
        return self._table.is_seen(fingerprint) or fingerprint in self._filter

    def known(self, fingerprints: Iterable[bytes]) -> set[bytes]:
        """Return the forms that are recorded as seen."""
        return {fingerprint for fingerprint in fingerprints if self.is_seen(fingerprint)}

    def drop_seen(self, batch: Batch) -> None:
        """Drop the candidates that are known, and add the others to the table, each form once."""
        candidates = batch.candidates
        for fingerprint in self.add_all(candidates.keys() - set(batch.forced)):
            del candidates[fingerprint]

    def add_all(self, fingerprints: Iterable[bytes]) -> list[bytes]:
        """Add forms; return the known ones."""
        old: list[bytes] = []
        new: list[bytes] = []
        for fingerprint in fingerprints:
            (old if fingerprint in self._filter else new).append(fingerprint)
        return old + self._table.add_all(new)

    def add(self, fingerprint: bytes, url: str) -> bool:
        """Add the form of a plain URL, and remember the URL; return whether the form was new."""
        return fingerprint not in self._filter and self._table.add(fingerprint, url)
