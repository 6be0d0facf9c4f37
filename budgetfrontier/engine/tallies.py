"""The owner of the tallies: URIs and bytes fetched, of hosts, queues and groups that have quotas, and of all labels."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from budgetfrontier.core.model import CrawlUri, FetchStats, Finish, Lease, Outcome, QueueRecord
from budgetfrontier.core.uris import host
from budgetfrontier.core.vocabulary import OF_GROUP, QUOTA_KINDS
from budgetfrontier.engine.group_table import GroupTable
from budgetfrontier.rules.quotas import first_reached, quotas_of
from budgetfrontier.settings.overrides import QueueSettings
from budgetfrontier.storage import keys
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.environment import Environment
from budgetfrontier.storage.records import decode_tally, tally_key

CACHE = 1 << 15
"""Tallies, and queues with theirs, kept in memory at the most from one commit to the next, about 500 bytes each."""


@dataclass(slots=True, eq=False)
class LiveTally:
    """A tally in memory: what is stored, as FetchStats, and the sums of it that quotas may limit."""

    successes: int
    errors: int
    urls: int
    novel: int
    success_bytes: int
    error_bytes: int
    bytes: int
    novel_bytes: int

    def record(self) -> FetchStats:
        """Return the row as it is stored."""
        return FetchStats(
            self.successes, self.errors, self.novel, self.success_bytes, self.error_bytes, self.novel_bytes
        )


def _live(of: FetchStats) -> LiveTally:
    counts = of.successes, of.errors, of.urls, of.novel
    return LiveTally(*counts, of.success_bytes, of.error_bytes, of.bytes, of.novel_bytes)


@dataclass(slots=True, eq=False)
class OfQueue:
    """The tallies and limits of one URI of a queue; most of its other URIs have the same."""

    start: str
    """The beginning of its URL: of the same host is each that begins with it."""
    label: str | None
    settings: QueueSettings
    tallies: list[tuple[bytes, LiveTally]]
    limits: list[tuple[LiveTally, str, int]]
    changed: bool = False


class Tallies:
    """Counts of URIs and bytes fetched, by kind and name. O(1) each; changed rows are written once a commit."""

    def __init__(self, env: Environment, groups: GroupTable) -> None:
        self._env = env
        self._groups = groups
        self._live: dict[bytes, LiveTally] = {}
        self._of_queues: dict[int, OfQueue] = {}
        self._changed: list[OfQueue] = []
        self.kinds: Collection[str] = ()
        """The kinds that are counted besides labels: those for which the settings in force have quotas."""

    def use(self, kinds: Collection[str]) -> None:
        """Count these kinds besides labels from now on."""
        self.kinds = kinds
        self._of_queues.clear()

    def regrouped(self, queue: QueueRecord) -> None:
        """Note that a queue belongs to another group."""
        self._of_queues.pop(queue.id, None)

    def get(self, kind: str, name: str) -> FetchStats:
        """Return a copy of a tally."""
        return self._get(tally_key(kind, name)).record()

    def _get(self, key: bytes) -> LiveTally:
        tally = self._live.get(key)
        if tally is None:
            value = self._env.txn.get(key, db=self._env.db[keys.TALLIES])
            tally = self._live[key] = _live(FetchStats() if value is None else decode_tally(value))
        return tally

    def _look(self, queue: QueueRecord, uri: CrawlUri, settings: QueueSettings) -> OfQueue:
        """Return the tallies and limits of a URI, and keep them for the others of its queue."""
        url, label = uri.url, uri.source
        end = url.find("/", 8) + 1
        found = self._of_queues[queue.id] = OfQueue(url[:end] if end else url, label, settings, [], [])
        for kind in QUOTA_KINDS:
            if kind == "label":
                name = label
            else:
                name = None if kind not in self.kinds else host(url) if kind == "host" else queue.queue
            if name:
                key = tally_key(kind, name)
                tally = self._get(key)
                found.tallies.append((key, tally))
                found.limits += [(tally, amount, limit) for amount, limit in getattr(settings, f"quota_{kind}")]
        if queue.group and OF_GROUP in self.kinds:
            group, limits = self._groups.limited(queue.group)
            key = tally_key(OF_GROUP, group.name)
            tally = self._get(key)
            found.tallies.append((key, tally))
            found.limits += [(tally, amount, limit) for amount, limit in limits.quotas.items()]
        return found

    def _to_count(self, queue: QueueRecord, uri: CrawlUri, settings: QueueSettings) -> OfQueue:
        """Return the tallies of a URI, noted as changed."""
        found = self._of_queues.get(queue.id)
        if found is None or found.label != uri.source or not uri.url.startswith(found.start):
            found = self._look(queue, uri, settings)
        if not found.changed:
            found.changed = True
            self._changed.append(found)
        return found

    def succeeded(self, queue: QueueRecord, lease: Lease, settings: QueueSettings, size: int, novel: bool) -> None:
        """Count a SUCCESS, of a payload in bytes that may be novel. The kernel calls it, too."""
        uri = lease.uri
        found = self._of_queues.get(queue.id)
        if (  # copies `_to_count`, without a call
            found is None or not found.changed or found.label != uri.source or not uri.url.startswith(found.start)
        ):
            found = self._to_count(queue, uri, settings)
        for _, tally in found.tallies:
            tally.successes += 1
            tally.urls += 1
            tally.novel += novel
            if size:
                tally.success_bytes += size
                tally.bytes += size
                tally.novel_bytes += size * novel

    def failed(
        self, queue: QueueRecord, lease: Lease, settings: QueueSettings, ending: Finish, outcome: Outcome
    ) -> None:
        """Count an attempt that was no success; `outcome` is what became of it: of a last RETRY, DEAD."""
        ended = outcome in (Outcome.FAILURE, Outcome.DEAD)
        for _, tally in self._to_count(queue, lease.uri, settings).tallies:
            tally.errors += ended
            tally.urls += ended
            tally.error_bytes += ending.size
            tally.bytes += ending.size

    def reached(self, queue: QueueRecord, uri: CrawlUri, settings: QueueSettings) -> bool:
        """Return whether a quota of a URI is used up."""
        found = self._of_queues.get(queue.id)
        if (
            found is None
            or found.settings is not settings
            or found.label != uri.source
            or not uri.url.startswith(found.start)
        ):
            found = self._look(queue, uri, settings)
        for tally, amount, limit in found.limits:  # noqa: SIM110  # `any` takes a generator for each URI
            if getattr(tally, amount) >= limit:
                return True
        return False

    def used_up(self, queue: QueueRecord, uri: CrawlUri, settings: QueueSettings, group: str | None) -> bool:
        """Return whether a quota of a URI is used up if its queue is in the group with this name, or in none."""
        if not self.kinds:
            return False
        of_group = None
        if group is not None and OF_GROUP in self.kinds:
            of_group = group, tuple(self._groups.limits_of(group).quotas.items())
        return any(
            first_reached(self._get(tally_key(kind, name)), quota)
            for kind, name, quota in quotas_of(uri, queue.queue, settings, of_group)
        )

    def flush(self) -> None:
        """Write changed rows, and forget all if they are many: only here, so that none is counted that is forgotten."""
        if self._changed:
            rows = dict(row for found in self._changed for row in found.tallies)
            encoded = [(key, encode(rows[key].record())) for key in sorted(rows)]
            self._env.txn.cursor(self._env.db[keys.TALLIES]).putmulti(encoded)
            for found in self._changed:
                found.changed = False
            self._changed.clear()
        if len(self._live) > CACHE or len(self._of_queues) > CACHE:
            self._live.clear()
            self._of_queues.clear()
