"""The rebuild of a frontier's tables from the primary ones: `pending`, `queues`, `seen`, `future`.

Indexes and totals are derived from these. State and position in the record of a queue are kept as far as they are
consistent; every change is noted. A record that cannot be read is set aside, never dropped.
"""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from collections.abc import Callable
from math import inf, isfinite
from pathlib import Path
from typing import Any

import lmdb
from msgspec.structs import replace

from budgetfrontier.core import uris
from budgetfrontier.core.model import CrawlUri
from budgetfrontier.core.vocabulary import ANSWERS
from budgetfrontier.errors import SettingsError
from budgetfrontier.rules import duplicates, queue_answers, queue_history, queue_keys, star, undoing
from budgetfrontier.rules.uri_order import ordinal_of
from budgetfrontier.settings import policy_factory
from budgetfrontier.settings.overrides import validate_override
from budgetfrontier.storage import bloom_file, keys, meta, removed
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.lmdb_env import check_schema
from budgetfrontier.storage.records import (
    decode_answers,
    decode_audit,
    decode_begun,
    decode_counters,
    decode_dead,
    decode_filter,
    decode_future,
    decode_host,
    decode_lease,
    decode_links,
    decode_preloaded,
    decode_progress,
    decode_run,
    decode_tally,
    host_objection,
    tally_of,
)
from budgetfrontier.storage.repair.new_tables import NewTables
from budgetfrontier.storage.repair.notes import Notes
from budgetfrontier.storage.repair.pages import Salvage
from budgetfrontier.storage.repair.queues import LAST_EPOCH, LAST_ORDINAL, Findings, QueueRebuild, decode_readable
from budgetfrontier.storage.repair.seeds import SeedRebuild
from budgetfrontier.storage.repair.urls import UrlRebuild
from budgetfrontier.storage.series import check_row
from budgetfrontier.storage.uri_values import check_url, encode_uri, restore_uri, tries, with_tries

_OF_COMMAND: dict[bytes, Callable[[bytes], Any]] = {b"command": decode_begun, b"progress": decode_progress}
"""The records of the command in progress."""
_NO_NAME = "\0"  # stands for an unknown queue key: a URL that contains it is relative to its queue


class TableRebuild:
    """The rebuild of all tables, from `source` into empty ones. Memory: some 450 bytes per queue."""

    def __init__(self, source: Salvage, tables: NewTables, notes: Notes, path: Path) -> None:
        self._source = source
        self._path = path
        self._tables = tables
        self._notes = notes
        self._findings = Findings()
        self._suffixes: str | None = None
        self._canonical: Callable[[str], str] | None = None
        """The canonical form of URLs; None if no table needs it."""
        self._lacks_seen = False
        self._ids: dict[str, int] = {}
        self._alias: dict[int, int] = {}
        """Ids of queues with the same key as another one, and the id of that."""
        self._command: dict[bytes, bytes] = {}
        """The two records of the command in progress; one without the other is useless."""
        self._last_queue = 0
        self._kept: Counter[int] = Counter()
        """Bytes of what is kept for `undo`, by the numbers of commands; `_needed` are those that can be undone."""
        self._needed: set[int] = set()
        self._tried: set[int] = set()
        """Audit entries of which an undo has begun, and has not ended."""
        self._moved: dict[bytes, bytes] = {}
        """New keys of pending records whose keys have changed, by the old ones."""

    def run(self, *, now: float) -> None:
        """Rebuild all tables, and commit."""
        self._copy_removed()
        self._copy_meta()
        self._copy_seen()
        self._copy_hosts()
        self._copy_peers()
        self._find_names()
        self._copy_pending()
        self._copy_leases()
        self._copy_future()
        self._copy_urls(now)
        self._copy_dead()
        SeedRebuild(self._source, self._tables, self._findings, self._notes).run()
        self._copy_audit()
        self._drop_unneeded()
        self._copy_runs()
        self._copy_series()
        self._copy_history()
        self._copy_answers()
        self._copy_tallies()
        self._copy_links()
        self._copy_preloaded()
        QueueRebuild(self._source, self._tables, self._findings, self._notes, now=now).run()
        self._tables.finish()

    def _store(self, table: str, key: bytes, value: bytes, original: tuple[bytes, bytes]) -> bool:
        """Store a record and return True, or set it aside if there is one with the same key already."""
        if self._tables.put(table, key, value):
            return True
        self._notes.set_aside(table, *original, "there is another one with the same key")
        return False

    def _set_aside(self, table: str, key: bytes, value: bytes, error: object) -> None:
        self._notes.set_aside(table, key, value, str(error) or type(error).__name__)

    # -- records that are copied unchanged

    def _copy_meta(self) -> None:
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
                    if key in (b"command", b"progress"):
                        self._command[key] = value
                    else:
                        self._tables.put(keys.META, key, value)
            except (ValueError, SettingsError, zlib.error) as e:
                self._set_aside(keys.META, key, value, e)
                if key == b"filter":
                    self._notes.note_change(
                        "seen: the Bloom filter is lost, and an empty one begun; URIs seen before may be fetched again"
                    )
                elif key == b"assignments":
                    self._notes.note_change("meta: former queue assignments are lost; hosts do not wait for old queues")
                elif key not in (b"counters", b"command", b"progress"):
                    self._notes.note_change(f"meta: {key!r} is lost; open the frontier with the settings of its crawl")
        self._tables.put(keys.META, b"schema", str(keys.SCHEMA).encode())
        if len(self._command) == 2:
            begun, progress = (decode(self._command[key]) for key, decode in _OF_COMMAND.items())
            if begun.op in undoing.ENDING:
                self._tried.add(int(begun.args["id"]))
            if self._cut_to_readable(progress.effect, "the command in progress", is_whole=True):
                self._command[b"progress"] = encode(progress)
            for key, value in self._command.items():
                self._tables.put(keys.META, key, value)
        if len(self._command) == 1:
            self._notes.note_change("the command in progress is lost; what it has done so far remains: give it again")

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
        elif key == b"command":
            decode_begun(value)
        elif key == b"progress":
            decode_progress(value)
        elif key == b"filter":
            row, bloom = decode_filter(value), self._findings.settings.frontier.bloom
            if why := bloom_file.objection(self._path, row, bloom):
                self._lacks_seen = True
                raise ValueError(why)
        elif key == b"sources":
            meta.decode_sources(value)
        elif key == b"preloaded":
            decode_preloaded(value)
        elif key == b"assignments":
            meta.decode_assignments(value)
        elif key not in meta.NAMES:
            raise ValueError("not a key of this table")

    def _copy_seen(self) -> None:
        for key, value in self._source.records(keys.SEEN):
            if len(key) == keys.FINGERPRINT and not value:
                self._tables.put(keys.SEEN, key, b"")
            else:
                self._set_aside(keys.SEEN, key, value, "not a fingerprint")
        self._lacks_seen |= self._source.lacks(keys.SEEN)
        if self._lacks_seen:
            self._notes.note_change("seen: a part is lost; URIs that are pending, for later or dead were added again")
        if self._lacks_seen or self._keeps_urls():
            self._canonical = policy_factory.canonicalization(self._findings.settings.frontier)

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
        UrlRebuild(self._source, self._tables, self._findings, self._notes, find, now=now).run(self._alias, self._moved)
        if self._lacks_seen:
            for fingerprint, _ in self._tables.records(keys.URLS):
                self._remember(fingerprint)

    def _copy_audit(self) -> None:
        kept: list[tuple[int, bytes, bytes]] = []
        ended: set[int] = set()
        for key, value in self._source.records(keys.AUDIT):
            try:
                number, entry = keys.u64.unpack(key)[0], decode_audit(value)
                if max(number, entry.number) > LAST_ORDINAL:
                    raise ValueError("its number was never given out")
            except (ValueError, struct.error) as e:
                self._set_aside(keys.AUDIT, key, value, e)
                continue
            if entry.command in undoing.ENDING:
                (self._tried if entry.error else ended).add(int(entry.args["id"]))
            if removed.kept(entry.effect) is not None:
                kept.append((number, key, value))
            else:
                self._store(keys.AUDIT, key, value, (key, value))
            self._findings.last_audit = max(self._findings.last_audit, number)
            if self._findings.stored is None or entry.number not in self._findings.stored.ahead:
                self._findings.last_command = max(self._findings.last_command, entry.number)
        for number, key, value in kept:
            entry = decode_audit(value)
            cut = number not in ended and self._cut_to_readable(
                entry.effect, f"audit entry {number}", is_whole=number not in self._tried
            )
            self._store(keys.AUDIT, key, encode(entry) if cut else value, (key, value))

    def _cut_to_readable(self, effect: dict[str, Any], command: str, *, is_whole: bool) -> bool:
        """Cut what a command has kept to what can be read of it; return whether that is less."""
        found = removed.kept(effect)
        if found is None:
            return False
        self._needed.add(found.number)
        there = self._kept[found.number]
        if there == found.bytes or (there and not is_whole):
            return False
        self._notes.note_change(
            f"{command}: {found.bytes - there:,} of the {found.bytes:,} bytes that it has kept for `undo` are lost"
        )
        if there:
            effect["kept"]["bytes"] = there
        else:
            del effect["kept"]
        return True

    def _copy_removed(self) -> None:
        for key, value in self._source.records(keys.REMOVED):
            try:
                number, _ = keys.removed.unpack(key)
                removed.check_block(removed.decode_block(value))
            except Exception as e:  # a damaged record may cause any error
                self._set_aside(keys.REMOVED, key, value, e)
                continue
            if self._store(keys.REMOVED, key, value, (key, value)):
                self._kept[number] += len(value)

    def _drop_unneeded(self) -> None:
        """Set aside what is kept of no command that can be undone, such as one whose audit entry is lost."""
        for number in self._kept.keys() - self._needed:
            del self._kept[number]
        for key, value in self._tables.records(keys.REMOVED):
            if keys.removed.unpack(key)[0] not in self._needed:
                self._set_aside(keys.REMOVED, key, value, "no command can be undone with it")
                self._tables.delete(keys.REMOVED, key)
        self._findings.removed = self._kept.total()

    def _copy_runs(self) -> None:
        for key, value in self._source.records(keys.RUNS):
            try:
                keys.u32.unpack(key)
                run = decode_run(value)
                if not isfinite(run.began) or not isfinite(run.ended):
                    raise ValueError("its times are not valid")
            except (ValueError, struct.error) as e:
                self._set_aside(keys.RUNS, key, value, e)
                continue
            self._store(keys.RUNS, key, value, (key, value))

    def _copy_hosts(self) -> None:
        for key, value in self._source.records(keys.HOSTS):
            try:
                why = host_objection(key, decode_host(value))
            except ValueError as e:
                why = str(e)
            if why is not None:
                self._set_aside(keys.HOSTS, key, value, why)
                continue
            self._store(keys.HOSTS, key, value, (key, value))

    def _copy_peers(self) -> None:
        for key, value in self._source.records(keys.PEERS):
            try:
                keys.u32.unpack(key), keys.peer.unpack(value)
            except ValueError as e:
                self._set_aside(keys.PEERS, key, value, e)
                continue
            self._store(keys.PEERS, key, value, (key, value))
        if self._source.lacks(keys.PEERS):
            self._notes.note_change("peers: some are lost; what their partitions have sent may be taken once more")

    def _address_of(self, host: str) -> str | None:
        own, row = uris.own_address(host), self._tables.get(keys.HOSTS, host.encode())
        return own if row is None else decode_host(row).address

    def _copy_series(self) -> None:
        for key, value in self._source.records(keys.SERIES):
            try:
                check_row(key, value)
            except ValueError as e:
                self._set_aside(keys.SERIES, key, value, e)
                continue
            self._store(keys.SERIES, key, value, (key, value))

    def _copy_history(self) -> None:
        for key, value in self._source.records(keys.HISTORY):
            try:
                number, row = keys.u32.unpack(key)[0], keys.history.unpack(value)
                if why := queue_history.objection(row):
                    raise ValueError(why)
                if number not in self._findings.names:
                    raise ValueError("there is no such queue")
            except ValueError as e:
                self._set_aside(keys.HISTORY, key, value, e)
                continue
            if self._store(keys.HISTORY, key, value, (key, value)):
                self._findings.attempts[number] = queue_history.charged(row)
        if self._source.lacks(keys.HISTORY):
            self._notes.note_change("history: some is lost; that of its queues begins anew")

    def _copy_answers(self) -> None:
        """Copy the answers to attempts, and add them up."""
        for key, value in self._source.records(keys.ANSWERS):
            try:
                number, row = keys.u32.unpack(key)[0], decode_answers(value)
                why = queue_answers.objection(row)
                if why or number not in self._findings.names:
                    raise ValueError(why or "there is no such queue")
            except ValueError as e:
                self._set_aside(keys.ANSWERS, key, value, e)
                continue
            if self._store(keys.ANSWERS, key, value, (key, value)):
                self._findings.answers.update(dict(zip(ANSWERS, row.classes, strict=True)))
        if self._source.lacks(keys.ANSWERS):
            self._notes.note_change("answers: some are lost; those of their queues are counted anew")

    def _copy_tallies(self) -> None:
        for key, value in self._source.records(keys.TALLIES):
            try:
                (kind, name), stats = tally_of(key), decode_tally(value)
                if stats.novel > stats.successes or stats.novel_bytes > stats.success_bytes:
                    raise ValueError("more is novel than was fetched")
                if kind == "queue" and name not in self._ids:
                    raise ValueError("there is no such queue")
            except ValueError as e:
                self._set_aside(keys.TALLIES, key, value, e)
                continue
            if self._store(keys.TALLIES, key, value, (key, value)):
                self._findings.successes[kind] += stats.successes
                self._findings.errors[kind] += stats.errors
                if kind == "queue":
                    self._findings.fetched_bytes[name] = stats.bytes
        if self._source.lacks(keys.TALLIES):
            self._notes.note_change(
                "tallies: some are lost; the quotas of their hosts, queues, groups or labels begin anew"
            )

    def _copy_links(self) -> None:
        """Copy the links to registered domains, and count the in-degrees again."""
        stored, last = self._findings.stored, 0
        for key, value in self._source.records(keys.LINKS):
            try:
                key.decode()
                row = decode_links(value)
                if why := star.objection(row):
                    raise ValueError(why)
                if stored is not None and row.changed_after > stored.rankings:
                    raise ValueError("it changed after a ranking that never was")
            except ValueError as e:
                self._set_aside(keys.LINKS, key, value, e)
                continue
            if self._store(keys.LINKS, key, value, (key, value)):
                self._findings.degrees[row.degree] += 1
                last = max(last, row.changed_after)
        self._findings.rankings = last
        for degree, number in sorted(self._findings.degrees.items()):
            self._tables.put(keys.DEGREES, keys.u32.pack(degree), keys.u32.pack(number))
        if self._source.lacks(keys.LINKS):
            self._notes.note_change("links: some are lost; the budgets of their domains by links begin anew")

    def _copy_preloaded(self) -> None:
        """Copy the precedences that were read from files; a file of which any are lost is read again."""
        stored = self._tables.get(keys.META, b"preloaded")
        rows = {} if stored is None else {row.number: row for row in decode_preloaded(stored)}
        found = Counter[int]()
        for key, value in self._source.records(keys.PRELOADED):
            number = keys.preloaded.unpack(key)[0] if len(key) == keys.preloaded.size else 0
            if number not in rows or len(value) != keys.value.size:
                self._set_aside(keys.PRELOADED, key, value, "not a precedence from a file that was read")
            elif self._store(keys.PRELOADED, key, value, (key, value)):
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
            if len(value) == keys.u32.size and (name := queue_keys.queue_key_of(key)) is not None:
                listed[keys.u32.unpack(value)[0]] = name
        for key, value in self._source.records(keys.QUEUES):
            queue = decode_readable(key, value)
            if queue is None:
                self._notes.set_aside(keys.QUEUES, key, value, "not a record of a queue")
                continue
            number, other = keys.u32.unpack(key)[0], self._ids.get(queue.queue)
            if other is None:
                self._findings.names[number] = queue.queue
                self._ids[queue.queue] = number
            elif other != number:
                self._notes.set_aside(keys.QUEUES, key, value, f"queue {other} has the same key")
                self._alias[number] = other
        for number, name in listed.items():
            if name not in self._ids and number not in self._findings.names:
                self._notes.note_change(f"queue {name}: its record is lost, and was created again")
                self._create_queue(number, name)
            elif self._ids.get(name, number) != number and number not in self._findings.names:
                self._alias[number] = self._ids[name]
        self._last_queue = max(self._findings.names, default=0)

    def _create_queue(self, number: int, name: str) -> None:
        self._findings.names[number] = name
        self._ids[name] = number
        self._findings.made.add(number)

    def _queue_for(self, uri: CrawlUri) -> int:
        """Return the id of the queue for a URI without a queue; create it if necessary. Raises ValueError."""
        assign = policy_factory.assignment(self._findings.settings.frontier, self._suffixes, self._address_of)
        name = queue_keys.queue_key_for(uri, assign)
        if queue_keys.queue_key_bytes(name) is None:
            raise ValueError(f"its queue is unknown, and {name!r} is not a valid key")
        if name not in self._ids:
            self._last_queue += 1
            self._notes.note_change(f"queue {name}: created for URIs whose queue is unknown")
            self._create_queue(self._last_queue, name)
        return self._ids[name]

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
        for key, value in self._source.records(keys.PENDING):
            try:
                queue, directive, priority, precedence_or_cost, ordinal, *cost = keys.pending.unpack(key)
                queue_id, kept, uri = self._restored(queue, key[4:], value)
                seen = self._fingerprint(uri)
            except Exception as e:  # a damaged record may cause any error
                self._set_aside(keys.PENDING, key, value, e)
                continue
            self._remember(seen)
            if ordinal_of(ordinal) > LAST_ORDINAL:
                self._notes.note_change(f"queue {self._findings.names[queue_id]}: the position of {uri.url} is lost")
                ordinal = self._next_ordinal()
            now = keys.pending.pack_rank(queue_id, directive, priority, precedence_or_cost, ordinal, *cost)
            if self._store(keys.PENDING, now, kept, (key, value)):
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
        last = self._findings.stored.epoch if self._findings.stored else LAST_EPOCH
        for key, value in self._source.records(keys.LEASES):
            try:
                number, row = keys.u64.unpack(key)[0], decode_lease(value)
                row.key = self._moved.get(row.key, row.key)
                row.queue, cost = keys.pending.unpack(row.key)[0], keys.cost_of(row.key)
                if self._tables.get(keys.PENDING, row.key) is None or row.key in leased:
                    raise ValueError("its URI is not pending, or has another lease")
                if not (isfinite(row.expires) and isfinite(row.began)) or number >> keys.EPOCH_SHIFT > last:
                    raise ValueError("its number was never given out, or its end is not valid")
            except (ValueError, struct.error) as e:
                self._set_aside(keys.LEASES, key, value, e)
                continue
            if self._store(keys.LEASES, key, encode(row), (key, value)):
                leased.add(row.key)
                self._findings.out[row.queue] += 1
                self._findings.reserved[row.queue] += cost
                self._findings.landed[row.queue] += row.landed
                self._findings.last_lease = max(self._findings.last_lease, number)

    def _copy_future(self) -> None:
        kept = set()
        for key, value in self._source.records(keys.FUTURE):
            try:
                when, ordinal = keys.due.unpack(key)
                row = decode_future(value)
                row.queue, row.value, uri = self._restored(row.queue, row.rank, row.value)
                pending = keys.u32.pack(row.queue) + row.rank
                if not 0 <= when < inf or ordinal > LAST_ORDINAL:
                    raise ValueError("its time or number is not valid")
                if keys.rank.unpack(row.rank)[3]:  # a retry, which keeps its rank; other URIs get one when due
                    if pending in kept or self._tables.get(keys.PENDING, pending) is not None:
                        raise ValueError("another URI has its rank")
                    kept.add(pending)
                seen = self._fingerprint(uri)
            except lmdb.Error:
                raise
            except Exception as e:  # a damaged record may cause any error
                self._set_aside(keys.FUTURE, key, value, e)
                continue
            self._remember(seen)
            if self._store(keys.FUTURE, key, encode(row), (key, value)):
                self._findings.future[row.queue] += 1
                self._findings.ordinal = max(self._findings.ordinal, ordinal)

    def _copy_dead(self) -> None:
        for key, value in self._source.records(keys.DEAD):
            try:
                ordinal, row = keys.u64.unpack(key)[0], decode_dead(value)
                uri = restore_uri(row.rank, row.value, row.name)
                check_url(uri.url)
                if ordinal > LAST_ORDINAL or not isfinite(row.time):
                    raise ValueError("its time or number is not valid")
                if self._findings.names.get(row.queue) != row.name:
                    row.queue = self._queue_for(replace(uri, queue=row.name or None))
                seen = self._fingerprint(uri)
            except Exception as e:  # a damaged record may cause any error
                self._set_aside(keys.DEAD, key, value, e)
                continue
            self._remember(seen)
            if self._store(keys.DEAD, key, encode(row), (key, value)):
                self._findings.dead_prerequisites += row.prerequisite
                self._findings.ordinal = max(self._findings.ordinal, ordinal)
