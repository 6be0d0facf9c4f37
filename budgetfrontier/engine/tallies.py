"""The owner of the tallies: counts of the URIs and bytes fetched, by host and queue with a quota, and by label."""

from __future__ import annotations

from collections.abc import Collection

from budgetfrontier.core.bounded_cache import BoundedCache
from budgetfrontier.core.model import CrawlUri, FetchStats, Finish, Lease, Outcome
from budgetfrontier.core.uris import host
from budgetfrontier.rules import quotas
from budgetfrontier.rules.quotas import first_reached
from budgetfrontier.settings.overrides import QueueSettings
from budgetfrontier.storage import keys
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.environment import Environment
from budgetfrontier.storage.records import decode_tally, tally_key

CACHE = 1 << 15
"""Tallies kept in memory at the most, about 200 bytes each."""
_NOTHING_SAID = Finish(Lease(0, "", CrawlUri(""), 0, 0.0, 0))


class Tallies:
    """Counts of URIs and bytes fetched, by kind and name. O(1) each; changed rows are written once a commit."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._stats: dict[bytes, FetchStats] = {}
        self._changed: set[bytes] = set()
        self._hosts: BoundedCache[str, bytes] = BoundedCache(CACHE)
        self.kinds: Collection[str] = ()
        """The kinds that are counted besides labels: those for which the settings in force have quotas."""

    def __repr__(self) -> str:
        return f"<Tallies of {', '.join(sorted({*self.kinds, 'label'}))}: {len(self._stats)} in memory>"

    def get(self, kind: str, name: str) -> FetchStats:
        """Return a tally, only to be looked at."""
        return self._get(tally_key(kind, name))

    def _get(self, key: bytes) -> FetchStats:
        stats = self._stats.get(key)
        if stats is None:
            if len(self._stats) >= CACHE:
                self.flush()
                self._stats.clear()
            value = self._env.txn.get(key, db=self._env.db[keys.TALLIES])
            stats = self._stats[key] = FetchStats() if value is None else decode_tally(value)
        return stats

    def _host_key(self, url: str) -> bytes:
        """Return the key of the tally of a URL's host."""
        authority = url[: url.find("/", 8)]
        key = self._hosts.get(authority)
        if key is None:
            key = tally_key("host", host(url))
            self._hosts.put(authority, key)
        return key

    def _keys(self, uri: CrawlUri, queue: str) -> list[bytes]:
        """Return the keys of the tallies of a URI."""
        found = []
        if "host" in self.kinds:
            found.append(self._host_key(uri.url))
        if "queue" in self.kinds:
            found.append(tally_key("queue", queue))
        if uri.source:
            found.append(tally_key("label", uri.source))
        return found

    def succeeded(self, lease: Lease, ending: Finish | None) -> None:
        """Count a SUCCESS."""
        said = ending or _NOTHING_SAID
        for key in self._keys(lease.uri, lease.queue):
            quotas.count_success(self._get(key), said.size, novel=said.novel is not False)
            self._changed.add(key)

    def failed(self, lease: Lease, ending: Finish, outcome: Outcome) -> None:
        """Count an attempt that was no success; `outcome` is what became of it: of a last RETRY, DEAD."""
        for key in self._keys(lease.uri, lease.queue):
            quotas.count_failure(self._get(key), ending.size, ended=outcome in (Outcome.FAILURE, Outcome.DEAD))
            self._changed.add(key)

    def reached(self, uri: CrawlUri, queue: str, settings: QueueSettings) -> bool:
        """Return whether a quota of a URI is used up."""
        if settings.quota_host and first_reached(self._get(self._host_key(uri.url)), settings.quota_host):
            return True
        if settings.quota_queue and first_reached(self.get("queue", queue), settings.quota_queue):
            return True
        label, quota = uri.source, settings.quota_label
        return bool(quota and label and first_reached(self.get("label", label), quota))

    def flush(self) -> None:
        """Write changed rows."""
        if self._changed:
            rows = [(key, encode(self._stats[key])) for key in sorted(self._changed)]
            self._env.txn.cursor(self._env.db[keys.TALLIES]).putmulti(rows)
            self._changed.clear()
