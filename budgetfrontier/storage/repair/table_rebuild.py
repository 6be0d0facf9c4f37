"""The rebuild of a frontier's tables from the primary ones: `pending`, `queues`, `seen`, `future`.

Indexes and totals are derived from these. State and position in the record of a queue are kept as far as they are
consistent; every change is noted. A record that cannot be read is set aside, never dropped.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable
from functools import partial
from math import inf, isfinite
from pathlib import Path

from msgspec.structs import replace

from budgetfrontier.core import uris
from budgetfrontier.core.model import CrawlUri
from budgetfrontier.errors import SettingsError
from budgetfrontier.rules import duplicates, queue_keys
from budgetfrontier.rules.uri_order import ordinal_of
from budgetfrontier.settings import plugins, policy_factory, policy_results
from budgetfrontier.settings.overrides import validate_override
from budgetfrontier.storage import bloom_file, keys, meta
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.lmdb_env import check_schema
from budgetfrontier.storage.records import (
    DeadRow,
    FutureRow,
    LeaseRow,
    decode_begun,
    decode_counters,
    decode_dead,
    decode_filter,
    decode_future,
    decode_host,
    decode_lease,
    decode_preloaded,
    decode_progress,
    host_objection,
)
from budgetfrontier.storage.repair.audit_rebuild import COMMAND, PROGRESS, AuditRebuild
from budgetfrontier.storage.repair.counts_rebuild import CountsRebuild
from budgetfrontier.storage.repair.findings import LAST_ID, LAST_ORDINAL, Findings
from budgetfrontier.storage.repair.new_tables import NewTables
from budgetfrontier.storage.repair.notes import Notes
from budgetfrontier.storage.repair.pages import Salvage
from budgetfrontier.storage.repair.queues import QueueRebuild, decode_readable
from budgetfrontier.storage.repair.record_copies import RecordCopies
from budgetfrontier.storage.repair.seeds import SeedRebuild
from budgetfrontier.storage.repair.urls import UrlRebuild
from budgetfrontier.storage.uri_values import check_url, encode_uri, restore_uri, tries, with_tries

_LAST_EPOCH = (1 << keys.EPOCH_BITS) - (1 << 16)  # of lease ids, with room for later runs
_OF_META: dict[bytes, Callable[[bytes], object]] = {
    COMMAND: decode_begun,
    PROGRESS: decode_progress,
    b"sources": meta.decode_sources,
    b"preloaded": decode_preloaded,
    b"assignments": meta.decode_assignments,
}
"""The rows of `meta` that are read on their own."""
_NO_NAME = "\0"  # stands for an unknown queue key: a URL that contains it is relative to its queue


class TableRebuild:
    """The rebuild of all tables, from `source` into empty ones. Memory: some 450 bytes per queue."""

    def __init__(self, source: Salvage, tables: NewTables, notes: Notes, path: Path) -> None:
        self._source = source
        self._path = path
        self._tables = tables
        self._notes = notes
        self._copies = RecordCopies(source, tables, notes)
        self._findings = Findings()
        self._audit = AuditRebuild(self._copies, self._findings)
        self._suffixes: str | None = None
        self._canonical: Callable[[str], str] | None = None
        """The canonical form of URLs; None if no table needs it."""
        self._lacks_seen = False
        self._alias: dict[int, int] = {}
        """Ids of queues with the same key as another one, and the id of that."""
        self._last_queue = 0
        self._moved: dict[bytes, bytes] = {}
        """New keys of pending records whose keys have changed, by the old ones."""

    def run(self, *, now: float) -> None:
        """Rebuild all tables, and commit."""
        self._audit.copy_kept()
        self._copy_meta()
        self._copy_seen()
        self._copies.copy(keys.HOSTS, _check_host)
        self._copy_peers()
        self._find_names()
        self._copy_pending()
        self._copy_leases()
        self._copy_future()
        self._copy_urls(now)
        self._copy_dead()
        SeedRebuild(self._copies, self._findings).run()
        self._audit.copy_entries()
        CountsRebuild(self._copies, self._findings).run()
        self._copy_preloaded()
        QueueRebuild(self._copies, self._findings, now=now).run()
        self._tables.finish()

    # -- records that are copied unchanged

    def _copy_meta(self) -> None:
        of_command: dict[bytes, bytes] = {}
        # The settings first: the other records are checked against them.
        for key, value in sorted(self._source.records(keys.META), key=lambda record: record[0] != b"settings"):
            try:
                if key == b"schema":
                    if value.isdigit() and int(value):  # otherwise it is damaged
                        check_schema(value, self._path)
                elif key == b"counters":
                    self._findings.stored = decode_counters(value)
                elif key == meta.PLACE:
                    self._notes.note_change(
                        "meta: the place in the log is left out, so that no worker takes this for a copy of a partition"
                    )
                elif key == meta.CHANGES:
                    pass  # nor does it follow others
                else:
                    self._check_meta(key, value)
                    if key in (COMMAND, PROGRESS):
                        of_command[key] = value
                    else:
                        self._tables.put(keys.META, key, value)
            except (ValueError, SettingsError, zlib.error) as e:
                if plugins.NOT_IMPORTED in str(e):  # it is not damaged: another process may read it
                    raise
                self._copies.set_aside(keys.META, key, value, e)
                if key == b"filter":
                    self._notes.note_change(
                        "seen: the Bloom filter is lost, and an empty one begun; URIs seen before may be fetched again"
                    )
                elif key == b"assignments":
                    self._notes.note_change("meta: former queue assignments are lost; hosts do not wait for old queues")
                elif key not in (b"counters", COMMAND, PROGRESS):
                    self._notes.note_change(f"meta: {key!r} is lost; open the frontier with the settings of its crawl")
        self._tables.put(keys.META, b"schema", str(keys.SCHEMA).encode())
        self._audit.copy_command(of_command)

    def _check_meta(self, key: bytes, value: bytes) -> None:
        if key == b"settings":
            self._findings.settings = meta.decode_settings(value)
        elif key == b"adjustments":
            for override in meta.decode_overrides(value):
                validate_override(override.match, override.set)
        elif key == b"suffixes":
            self._suffixes = zlib.decompress(value).decode()
        elif key == b"canonicalizer":
            asked_for = policy_factory.canonicalizer_id(self._findings.settings.frontier)
            if value != asked_for.encode():  # such a frontier could not be opened
                raise ValueError(f"the settings ask for {asked_for}")
        elif key == b"filter":
            row, bloom = decode_filter(value), self._findings.settings.frontier.bloom
            if why := bloom_file.objection(self._path, row, bloom):
                self._lacks_seen = True
                raise ValueError(why)
        elif key in _OF_META:
            _OF_META[key](value)
        elif key not in meta.NAMES:
            raise ValueError("not a key of this table")

    def _copy_seen(self) -> None:
        for key, value in self._source.records(keys.SEEN):
            if len(key) == keys.FINGERPRINT and not value:
                self._tables.put(keys.SEEN, key, b"")
            else:
                self._copies.set_aside(keys.SEEN, key, value, "not a fingerprint")
        self._lacks_seen |= self._source.lacks(keys.SEEN)
        if self._lacks_seen:
            self._notes.note_change("seen: a part is lost; URIs that are pending, for later or dead were added again")
        if self._lacks_seen or self._keeps_urls():
            frontier = self._findings.settings.frontier
            self._canonical = policy_factory.canonicalization(frontier)
            if plugins.is_own(spec := frontier.canonicalization_policy):
                self._canonical = partial(policy_results.form, self._canonical, spec)

    def _keeps_urls(self) -> bool:
        """Return whether the frontier keeps its URLs: by its settings, or, if they are lost, by its rows."""
        if self._tables.get(keys.META, b"settings") is not None:
            return self._findings.settings.frontier.keep_urls
        return any(True for _ in self._source.records(keys.URLS))

    def _fingerprint(self, uri: CrawlUri) -> bytes | None:
        """Return the key of a URI in `seen`; None if that table is complete, or the URI is not recorded in it."""
        if not self._lacks_seen or self._canonical is None:
            return None
        return duplicates.fingerprint(uri, uri.url, self._canonical)

    def _remember(self, fingerprint: bytes | None) -> None:
        if fingerprint is not None:
            self._tables.put(keys.SEEN, fingerprint, b"")

    def _copy_urls(self, now: float) -> None:
        canonical = self._canonical if self._keeps_urls() else None
        find = None if canonical is None else lambda uri: duplicates.fingerprint_of(uri, uri.url, canonical)
        UrlRebuild(self._copies, self._findings, find, now=now).run(self._alias, self._moved)
        if self._lacks_seen:
            for fingerprint, _ in self._tables.records(keys.URLS):
                self._remember(fingerprint)

    def _copy_peers(self) -> None:
        self._copies.copy(keys.PEERS, lambda key, value: (keys.u32.unpack(key), keys.peer.unpack(value)))
        if self._source.lacks(keys.PEERS):
            self._notes.note_change("peers: some are lost; what their partitions have sent may be taken once more")

    def _address_of(self, host: str) -> str | None:
        own, row = uris.own_address(host), self._tables.get(keys.HOSTS, host.encode())
        return own if row is None else decode_host(row).address

    def _copy_preloaded(self) -> None:
        """Copy the precedences that were read from files; a file of which any are lost is read again."""
        stored = self._tables.get(keys.META, b"preloaded")
        rows = {} if stored is None else {row.number: row for row in decode_preloaded(stored)}
        found = Counter[int]()
        for key, value in self._source.records(keys.PRELOADED):
            number = keys.preloaded.unpack(key)[0] if len(key) == keys.preloaded.size else 0
            if number not in rows or len(value) != keys.value.size:
                self._copies.set_aside(keys.PRELOADED, key, value, "not a precedence from a file that was read")
            elif self._copies.store(keys.PRELOADED, key, value, (key, value)):
                found[number] += 1
        lost = [row for row in rows.values() if row.whole and row.uris != found[row.number]]
        for row in lost:
            row.whole = False
            self._notes.note_change(f"preloaded: some are lost; {row.path} is read again when the frontier is opened")
        if lost:
            self._tables.put(keys.META, b"preloaded", encode(list(rows.values())), overwrite=True)

    # -- queues by name

    def _find_names(self) -> None:
        """Find the key of each queue id: from the records, or from the index for queues without a record."""
        listed: dict[int, str] = {}
        for key, value in self._source.records(keys.QUEUE_IDS):
            number = keys.u32.unpack(value)[0] if len(value) == keys.u32.size else 0
            if 0 < number <= LAST_ID and (name := queue_keys.queue_key_of(key)) is not None:
                listed[number] = name
        for key, value in self._source.records(keys.QUEUES):
            queue = decode_readable(key, value)
            if queue is None:
                self._notes.set_aside(keys.QUEUES, key, value, "not a record of a queue")
                continue
            number, other = keys.u32.unpack(key)[0], self._findings.ids.get(queue.queue)
            if other is None:
                self._findings.names[number] = queue.queue
                self._findings.ids[queue.queue] = number
            elif other != number:
                self._notes.set_aside(keys.QUEUES, key, value, f"queue {other} has the same key")
                self._alias[number] = other
        for number, name in listed.items():
            if name not in self._findings.ids and number not in self._findings.names:
                self._notes.note_change(f"queue {name}: its record is lost, and was created again")
                self._create_queue(number, name)
            elif self._findings.ids.get(name, number) != number and number not in self._findings.names:
                self._alias[number] = self._findings.ids[name]
        self._last_queue = max(self._findings.names, default=0)

    def _create_queue(self, number: int, name: str) -> None:
        self._findings.names[number] = name
        self._findings.ids[name] = number
        self._findings.made.add(number)

    def _queue_for(self, uri: CrawlUri) -> int:
        """Return the id of the queue for a URI without a queue; create it if necessary. Raises ValueError."""
        frontier = self._findings.settings.frontier
        assign = policy_factory.assignment(frontier, self._suffixes, self._address_of)
        if plugins.is_own(spec := frontier.queue_assignment_policy):
            assign = partial(policy_results.queue_key, assign, spec)
        name = queue_keys.queue_key_for(uri, assign)
        if queue_keys.queue_key_bytes(name) is None:
            raise ValueError(f"its queue is unknown, and {name!r} is not a valid key")
        if name not in self._findings.ids:
            self._last_queue += 1
            self._notes.note_change(f"queue {name}: created for URIs whose queue is unknown")
            self._create_queue(self._last_queue, name)
        return self._findings.ids[name]

    def _restored(self, queue: int, rank: bytes, value: bytes) -> tuple[int, bytes, CrawlUri]:
        """Return the queue of a URI, its value there, and the URI. A damaged record may raise any error."""
        queue = self._alias.get(queue, queue)
        name = self._findings.names.get(queue)
        uri = restore_uri(rank, value, _NO_NAME if name is None else name)
        if name is not None:
            check_url(uri.url)
            return queue, value, uri
        if _NO_NAME in uri.url:
            raise ValueError("its queue is unknown, and so is the host of its URL")
        if uri.via and _NO_NAME in uri.via:
            uri = replace(uri, via=None)
        check_url(uri.url)
        queue = self._queue_for(uri)
        return queue, with_tries(encode_uri(uri, uri.url, self._findings.names[queue]), *tries(value)), uri

    # -- URIs

    def _copy_pending(self) -> None:
        def read(key: bytes, value: bytes) -> tuple[int, bytes, CrawlUri, bytes | None]:
            queue_id, kept, uri = self._restored(keys.pending.unpack(key)[0], key[4:], value)
            return queue_id, kept, uri, self._fingerprint(uri)

        for key, value, (queue_id, kept, uri, seen) in self._copies.readable(keys.PENDING, read, Exception):
            self._remember(seen)
            _, directive, priority, precedence_or_cost, ordinal, *cost = keys.pending.unpack(key)
            if ordinal_of(ordinal) > LAST_ORDINAL:
                self._notes.note_change(f"queue {self._findings.names[queue_id]}: the position of {uri.url} is lost")
                ordinal = self._next_ordinal()
            now = keys.pending.pack_rank(queue_id, directive, priority, precedence_or_cost, ordinal, *cost)
            if self._copies.store(keys.PENDING, now, kept, (key, value)):
                self._findings.queued[queue_id] += 1
                self._findings.ordinal = max(self._findings.ordinal, ordinal_of(ordinal))
                if now != key:
                    self._moved[key] = now

    def _next_ordinal(self) -> int:
        stored = self._findings.stored
        self._findings.ordinal = max(self._findings.ordinal, stored.ordinal if stored else 0) + 1
        return self._findings.ordinal

    def _copy_leases(self) -> None:
        leased = set()
        last = self._findings.stored.epoch if self._findings.stored else _LAST_EPOCH

        def read(key: bytes, value: bytes) -> tuple[int, LeaseRow, int]:
            number, row = keys.u64.unpack(key)[0], decode_lease(value)
            row.key = self._moved.get(row.key, row.key)
            row.queue, cost = keys.pending.unpack(row.key)[0], keys.cost_of(row.key)
            if self._tables.get(keys.PENDING, row.key) is None or row.key in leased:
                raise ValueError("its URI is not pending, or has another lease")
            if not (isfinite(row.expires) and isfinite(row.began)) or number >> keys.EPOCH_SHIFT > last:
                raise ValueError("its number was never given out, or its end is not valid")
            return number, row, cost

        for key, value, (number, row, cost) in self._copies.readable(keys.LEASES, read):
            if self._copies.store(keys.LEASES, key, encode(row), (key, value)):
                leased.add(row.key)
                self._findings.out[row.queue] += 1
                self._findings.reserved[row.queue] += cost
                self._findings.landed[row.queue] += row.landed
                self._findings.last_lease = max(self._findings.last_lease, number)

    def _copy_future(self) -> None:
        kept = set()

        def read(key: bytes, value: bytes) -> tuple[int, FutureRow, bytes | None]:
            when, ordinal = keys.due.unpack(key)
            row = decode_future(value)
            row.queue, row.value, uri = self._restored(row.queue, row.rank, row.value)
            pending = keys.u32.pack(row.queue) + row.rank
            if not 0 <= when < inf or ordinal > LAST_ORDINAL:
                raise ValueError("its time or number is not valid")
            if ordinal_of(arrival := keys.rank.unpack(row.rank)[3]) > LAST_ORDINAL:
                raise ValueError("its rank was never given out")
            if arrival:  # a retry, which keeps its rank; other URIs get one when due
                if pending in kept or self._tables.get(keys.PENDING, pending) is not None:
                    raise ValueError("another URI has its rank")
                kept.add(pending)
            return ordinal, row, self._fingerprint(uri)

        for key, value, (ordinal, row, seen) in self._copies.readable(keys.FUTURE, read, Exception):
            self._remember(seen)
            if self._copies.store(keys.FUTURE, key, encode(row), (key, value)):
                self._findings.future[row.queue] += 1
                self._findings.ordinal = max(self._findings.ordinal, ordinal, ordinal_of(keys.rank.unpack(row.rank)[3]))

    def _copy_dead(self) -> None:
        def read(key: bytes, value: bytes) -> tuple[int, DeadRow, bytes | None]:
            ordinal, row = keys.u64.unpack(key)[0], decode_dead(value)
            uri = restore_uri(row.rank, row.value, row.name)
            check_url(uri.url)
            if ordinal > LAST_ORDINAL or not isfinite(row.time):
                raise ValueError("its time or number is not valid")
            if self._findings.names.get(row.queue) != row.name:
                row.queue = self._queue_for(replace(uri, queue=row.name or None))
            return ordinal, row, self._fingerprint(uri)

        for key, value, (ordinal, row, seen) in self._copies.readable(keys.DEAD, read, Exception):
            self._remember(seen)
            if self._copies.store(keys.DEAD, key, encode(row), (key, value)):
                self._findings.dead_prerequisites += row.prerequisite
                self._findings.ordinal = max(self._findings.ordinal, ordinal)


def _check_host(key: bytes, value: bytes) -> None:
    if why := host_objection(key, decode_host(value)):
        raise ValueError(why)
