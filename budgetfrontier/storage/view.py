"""The read model of a frontier, as one transaction sees it, for reports, the command line and dry runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Iterator
from itertools import islice, takewhile
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any

import lmdb
import msgspec

from budgetfrontier.core import uris
from budgetfrontier.core.model import (
    CrawlUri,
    DeadLetter,
    FetchStats,
    GroupRecord,
    QueueAnswers,
    QueueHistory,
    QueueRecord,
    QueueState,
    StoredLease,
    Summary,
)
from budgetfrontier.core.vocabulary import ANSWERS
from budgetfrontier.rules import queue_keys, star
from budgetfrontier.rules.uri_order import MAX_ORDINAL
from budgetfrontier.settings import Settings, sheets
from budgetfrontier.settings.grouping import Grouping
from budgetfrontier.settings.overrides import Effective, Override
from budgetfrontier.storage import keys, meta
from budgetfrontier.storage.damage import Damage
from budgetfrontier.storage.records import (
    AuditEntry,
    Counters,
    Progress,
    QueueAmounts,
    StartedCommand,
    dead_letter,
    decode_amounts,
    decode_answers,
    decode_audit,
    decode_charges,
    decode_dead,
    decode_future,
    decode_group,
    decode_history,
    decode_host,
    decode_lease,
    decode_links,
    decode_queue,
    decode_tally,
    expanded,
    restore_lease,
    tally_key,
    whole_queue,
)
from budgetfrontier.storage.uri_values import decode_uri, expand, restore_uri, short_url, tries

_LATEST = 1000  # entries of the audit


class PendingUri(msgspec.Struct, kw_only=True):
    """A URI in its queue. `place` is its position, from 0; `when` is set if it is scheduled for later."""

    queue: str
    uri: CrawlUri
    cost: int
    attempts: int
    deliveries: int
    leased: bool = False
    when: float | None = None
    place: int = 0


def pending_uri(queue: QueueRecord, rank: bytes, value: bytes, **extra: Any) -> PendingUri:
    """Return the public form of a pending record; `rank` is its key without the queue."""
    attempts, deliveries = tries(value)
    uri = restore_uri(rank, value, queue.queue)
    return PendingUri(queue=queue.queue, uri=uri, cost=uri.cost or 0, attempts=attempts, deliveries=deliveries, **extra)


class View:
    """A frontier as one transaction sees it.

    `txn` is the engine's own, including uncommitted changes, or a reader's; `db` has the table handles by name. A view
    must not be used after its transaction has ended.
    """

    def __init__(
        self,
        txn: keys.Txn,
        db: keys.Tables,
        folder: Path | None = None,
        now: Callable[[], float] | None = None,
    ) -> None:
        self.txn = txn
        self.db = db
        self.folder = folder
        """The folder of the frontier, for those who look for a URL in its Bloom filter."""
        self._now = now

    def __repr__(self) -> str:
        try:
            pending, queues = self.size(keys.PENDING), self.size(keys.QUEUES)
            return f"<View of transaction {self.txn.id()}: {pending:,} URIs pending, {queues:,} queues>"
        except lmdb.Error:
            return "<View of a transaction that has ended>"

    def now(self) -> float:
        """Return the time in epoch seconds by which ages and waits are said: that of this machine, or of a broker."""
        return time.time() if self._now is None else self._now()

    # -- the whole

    def note(self) -> bytes | None:
        """Return the note of the last atomic batch that had one; None if there was none."""
        return self.row(meta.NOTE)

    def row(self, name: bytes) -> bytes | None:
        """Return a row of whoever drives the frontier, one of `meta.OWNED`; None if there is none."""
        return meta.read_row(self.txn, self.db[keys.META], name)

    def summary(self, counters: Counters | None = None) -> Summary:
        """Return the totals: the stored ones, or `counters` of the engine. O(1)."""
        c = counters or self.counters()
        states = {
            QueueState.READY: c.ready,
            QueueState.IN_PROCESS: c.in_process,
            QueueState.SNOOZED: c.snoozed,
            QueueState.INACTIVE: c.inactive,
            QueueState.INELIGIBLE: c.ineligible,
            QueueState.RETIRED: c.retired,
        }
        states[QueueState.EXHAUSTED] = c.queues - sum(states.values())
        return Summary(
            state=c.state,
            pause_reason=c.pause_reason,
            queued=c.queued,
            in_process=c.leases,
            future=c.future,
            dead=self.size(keys.DEAD),
            seen=self.seen(),
            scheduled=c.scheduled,
            succeeded=c.succeeded,
            failed=c.failed,
            retried=c.retried,
            deferred=c.deferred,
            disregarded=c.disregarded,
            duplicates=c.duplicates,
            expenditure=c.expenditure,
            queues={state.value: count for state, count in states.items()},
            bytes=c.bytes,
            full=sum(c.full_reasons.values()),
            full_reasons=dict(c.full_reasons),
            invalid=sum(c.invalid_reasons.values()),
            invalid_reasons=dict(c.invalid_reasons),
            given_up=c.given_up,
            succeeded_expenditure=c.expenditure
            - (c.failed_expenditure + c.retried_expenditure + c.given_up_expenditure + c.other_expenditure),
            failed_expenditure=c.failed_expenditure,
            retried_expenditure=c.retried_expenditure,
            given_up_expenditure=c.given_up_expenditure,
            other_expenditure=c.other_expenditure,
            penalties=c.penalties,
            buried=c.buried,
            deleted=c.deleted,
            dropped=c.dropped,
            dead_prerequisites=c.dead_prerequisites,
            expired=c.expired,
            robots_denials=c.robots_denials,
            quota_denials=c.quota_denials,
            prerequisites=c.prerequisites,
            prerequisites_succeeded=c.prerequisites_succeeded,
            prerequisites_disregarded=c.prerequisites_disregarded,
            error_answers=dict(c.error_answers),
            found=c.found,
            **{name: getattr(c, name) for name in ANSWERS},
        )

    def seen(self) -> int:
        """Return the number of URIs that are recorded as seen, in the table and in the Bloom filter. O(1)."""
        row = meta.read_filter(self.txn, self.db[keys.META])
        return self.size(keys.SEEN) + (0 if row is None else row.number)

    def counters(self) -> Counters:
        """Return the stored totals."""
        return meta.read_counters(self.txn, self.db[keys.META])

    def rests_until(self) -> float:
        """Return until when nothing is leased, for the crawl has received more than its bandwidth; 0.0 without one."""
        return self.counters().busy_until if self.settings()[0].frontier.max_bandwidth else 0.0

    def settings(self) -> tuple[Settings, list[Override]]:
        """Return the stored settings and the adjustments on top of them, oldest first."""
        settings, adjustments = meta.read_settings(self.txn, self.db[keys.META])
        return settings or Settings(), adjustments

    def suffix_list(self) -> str | None:
        """Return the public suffix list that is stored in the frontier; None if there is none."""
        return meta.read_suffixes(self.txn, self.db[keys.META])

    def in_progress(self) -> tuple[StartedCommand, Progress] | None:
        """Return the command in progress, and its progress; None if there is none."""
        return meta.read_begun(self.txn, self.db[keys.META])

    def adjustments(self) -> list[Override]:
        """Return the adjustments, oldest first, with the ids of their audit entries."""
        return self.settings()[1]

    def in_force(self, more: Iterable[Override] = ()) -> Effective:
        """Return the settings in force, with `more` adjustments on top."""
        settings, adjustments = self.settings()
        return sheets.effective(settings, [*adjustments, *more])

    def items(self, table: str, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield keys and values of a table from the key `start` on, without the sentinel."""
        cursor = self.txn.cursor(self.db[table])
        if cursor.set_range(start or keys.FIRST):
            yield from cursor.iternext()

    def newest_items(self, table: str) -> Iterator[tuple[bytes, bytes]]:
        """Yield keys and values of a table from the last key on, without the sentinel."""
        for item in self.txn.cursor(self.db[table]).iterprev():
            if item[0] != keys.SENTINEL:
                yield item

    def size(self, table: str) -> int:
        """Return the number of records of a table. O(1)."""
        return int(self.txn.stat(self.db[table])["entries"]) - 1  # the sentinel

    # -- queues

    def stored_queues(self) -> Iterator[QueueRecord]:
        """Yield every queue as stored, in order of creation. O(queues), about 1 us each."""
        return map(expanded, self.compact_queues())

    def tally(self, kind: str, name: str) -> FetchStats:
        """Return what has been fetched of a host or a queue, or with a label, as far as it was counted."""
        value = self.txn.get(tally_key(kind, name), db=self.db[keys.TALLIES])
        return FetchStats() if value is None else decode_tally(value)

    def history(self, queue_id: int) -> QueueHistory | None:
        """Return counts and means of the attempts of a queue; None if none has ended with details."""
        value = self.txn.get(keys.u32.pack(queue_id), db=self.db[keys.HISTORY])
        return None if value is None else decode_history(value)

    def answers(self, queue_id: int) -> QueueAnswers | None:
        """Return the answers to the attempts of a queue; None if none is known."""
        value = self.txn.get(keys.u32.pack(queue_id), db=self.db[keys.ANSWERS])
        return None if value is None else decode_answers(value)

    def compact_queues(self, first: int = 1) -> Iterator[QueueRecord]:
        """Yield every queue as stored from an id on, with URLs in their short form, in order of creation.

        O(queues), half of the time of `stored_queues`: `BudgetsInForce.complete` completes the queues to show.
        """
        return map(decode_queue, self._queue_values(first))

    def amounts(self, first: int = 1) -> Iterator[QueueAmounts]:
        """Yield the amounts of every queue as stored from an id on, oldest first. O(queues), about 0.5 us each."""
        return map(decode_amounts, self._queue_values(first))

    def charges(self) -> Iterator[tuple[str, int]]:
        """Yield the keys of queues from which something was fetched, with how often, oldest first. 0.4 us for each."""
        found = map(attrgetter("queue", "charges"), map(decode_charges, self._queue_values(1)))
        return filter(itemgetter(1), found)

    def _queue_values(self, first: int) -> Iterator[bytes]:
        cursor = self.txn.cursor(self.db[keys.QUEUES])
        return cursor.iternext(keys=False) if cursor.set_range(keys.u32.pack(first)) else iter(())

    def queues_after(self, queue_id: int) -> Iterator[QueueRecord]:
        """Yield the queues as stored that were created after one, in order of creation."""
        return map(expanded, self.compact_queues(queue_id + 1))

    def pending(self, queue: QueueRecord, limit: int | None = None, out: Container[bytes] = ()) -> Iterator[PendingUri]:
        """Yield the URIs of a queue in the order of their leases; `out` has the keys of leased ones."""
        for place, (key, value) in enumerate(islice(self.pending_items(keys.u32.pack(queue.id)), limit or None)):
            yield pending_uri(queue, key[4:], value, place=place, leased=key in out)

    def pending_items(self, prefix: bytes, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield the pending records of the queue with the id `prefix` (four bytes), from the key `start` on."""
        return takewhile(lambda item: item[0][:4] == prefix, self.items(keys.PENDING, start or prefix))

    def costs(self, queue: QueueRecord, count: int | None = None) -> Iterator[int]:
        """Yield the costs of the first `count` URIs of a queue, read from their keys."""
        cursor, number = self.txn.cursor(self.db[keys.PENDING]), queue.queued
        if not number or not cursor.set_range(keys.u32.pack(queue.id)):
            return iter(())
        first = islice(cursor.iternext(values=False), number if count is None else min(number, count))
        return map(keys.cost_of, first)

    def waiting(self) -> Iterator[CrawlUri]:
        """Yield every URI that is pending or scheduled for later, without priority, cost and directive.

        O(URIs), about 2 us each.
        """
        known, name = b"", ""
        for key, value in self.items(keys.PENDING):
            if key[:4] != known:
                known = key[:4]
                name = self._record(known).queue
            yield decode_uri(value, name)
        for _, value in self.items(keys.FUTURE):
            row = decode_future(value)
            yield decode_uri(row.value, self.queue_by_id(row.queue).queue)

    def future(self) -> Iterator[PendingUri]:
        """Yield the URIs scheduled for later, soonest first."""
        for key, value in self.items(keys.FUTURE):
            yield self.future_uri(key, value)

    def future_uri(self, key: bytes, value: bytes) -> PendingUri:
        """Return the public form of a record of `future`."""
        row = decode_future(value)
        queue = self.queue_by_id(row.queue)
        return pending_uri(queue, row.rank, row.value, when=keys.due.unpack(key)[0])

    def leased_keys(self) -> Iterator[bytes]:
        """Yield the keys of the pending URIs that are leased."""
        return (decode_lease(value).key for _, value in self.items(keys.LEASES))

    def leases(self) -> Iterator[StoredLease]:
        """Yield the leases that are not finished."""
        for key, value in self.items(keys.LEASES):
            row = decode_lease(value)
            queue = self.queue_by_id(row.queue)
            record = self.txn.get(row.key, db=self.db[keys.PENDING])
            if record is None:
                raise Damage(f"lease {row}: its URI is not pending")
            yield restore_lease(keys.u64.unpack(key)[0], row, queue.queue, record)

    def names(self, prefix: str) -> Iterator[str]:
        """Yield the queue keys that begin with `prefix`, sorted by their bytes."""
        start = queue_keys.queue_key_bytes(prefix) if prefix else b""
        if start is not None:  # else no key can begin with it
            for key, _ in self.items(keys.QUEUE_IDS, start):
                if not key.startswith(start):
                    return
                yield key.decode()

    def find_queue(self, key: str) -> QueueRecord | None:
        """Return a queue as stored, by its key; None if there is none."""
        found = self._queue_id(key)
        return None if found is None else self._record(found)

    def named(self, text: str) -> str:
        """Return the key of the queue that somebody names, in any spelling of its host."""
        return queue_keys.key_named(text, self._queue_id)

    def _queue_id(self, key: str) -> bytes | None:
        name = queue_keys.queue_key_bytes(key)
        return None if name is None else self.txn.get(name, db=self.db[keys.QUEUE_IDS])

    def address_of(self, host: str) -> str | None:
        """Return the IP address of a host, None if none is known."""
        value = self.txn.get(host.encode(), db=self.db[keys.HOSTS]) if host else None
        return uris.own_address(host) if value is None else decode_host(value).address

    def first_url(self, key: str) -> str | None:
        """Return the first pending URL of a queue; None if there is no such queue, or it is empty."""
        found = self._queue_id(key)
        first = None if found is None else next(self.pending_items(found), None)
        return None if first is None else expand(short_url(first[1]), key)

    def queue_by_id(self, queue_id: int) -> QueueRecord:
        """Return a queue as stored. Raises Damage if it has no record."""
        return self._record(keys.u32.pack(queue_id))

    def group_of(self, queue: QueueRecord) -> GroupRecord | None:
        """Return the group of a queue, None if it belongs to none."""
        value = self.txn.get(keys.u32.pack(queue.group), db=self.db[keys.GROUPS]) if queue.group else None
        return None if value is None else decode_group(value)

    def grouping(self) -> Grouping:
        """Return the groups of the stored settings, with the adjustments and the last ranking of domains on top."""
        settings, adjustments = self.settings()
        found = sheets.groups_in_force(settings, adjustments)
        if not found.groups:
            return found
        counters = self.counters()

        def budget(domain: str) -> int:
            degree = self.in_degree(domain) if domain else 0
            return star.budget(degree, counters.lowest_degree, counters.highest_degree, settings.frontier.star)

        found.use(meta.read_suffixes(self.txn, self.db[keys.META]), self.address_of, budget)
        return found

    def in_degree(self, domain: str) -> int:
        """Return how many registered domains linked to one at the last ranking."""
        value = self.txn.get(domain.encode(), db=self.db[keys.LINKS])
        return 0 if value is None else star.ranked(decode_links(value), self.counters().rankings)

    def _record(self, key: bytes) -> QueueRecord:
        value = self.txn.get(key, db=self.db[keys.QUEUES])
        if value is None:
            raise Damage(f"queue {key.hex()} has no record")
        return whole_queue(value)

    # -- commands and dead letters

    def newest_commands(self, *names: str, among: int | None = None) -> Iterator[AuditEntry]:
        """Yield the commands that were applied, newest first: of these names, if any are given.

        Only the newest are looked at if `among` says how many. Those of other names are not decoded.
        """
        of_names = [name.encode() for name in names]
        for _, value in islice(self.newest_items(keys.AUDIT), among):
            if not names or any(name in value for name in of_names):
                entry = decode_audit(value)
                if not names or entry.command in names:
                    yield entry

    def last_command(self, *names: str, where: Callable[[AuditEntry], bool] = lambda entry: True) -> AuditEntry | None:
        """Return the entry of the last command of these names that changed something, if it is among the last thousand.

        A second `pause` changes nothing of a crawl that is paused, and is not who paused it.
        """
        newest = self.newest_commands(*names, among=_LATEST)
        changed = (entry for entry in newest if not entry.error and _has_changed(entry.effect))
        return next(filter(where, changed), None)

    def audit_entry(self, number: int) -> AuditEntry | None:
        """Return an audit entry by its id; None if there is none."""
        value = self.txn.get(keys.u64.pack(number), db=self.db[keys.AUDIT]) if 0 < number <= MAX_ORDINAL else None
        return None if value is None else decode_audit(value)

    def audit(self, limit: int | None = None) -> list[AuditEntry]:
        """Return the last `limit` commands that were applied, 0 or None: all, newest last. O(result)."""
        return list(islice(self.newest_commands(), limit or None))[::-1]

    def has_dead_letter(self, number: int) -> bool:
        """Return whether there is a dead letter with this id."""
        return 0 < number <= MAX_ORDINAL and self.txn.get(keys.u64.pack(number), db=self.db[keys.DEAD]) is not None

    def dead_letters(self, limit: int | None = None) -> list[DeadLetter]:
        """Return the first `limit` dead letters, 0 or None: all, oldest first."""
        found = islice(self.items(keys.DEAD), limit or None)
        return [dead_letter(keys.u64.unpack(key)[0], decode_dead(value)) for key, value in found]


def _has_changed(effect: dict[str, Any]) -> bool:
    return "before" not in effect or effect["before"] != effect.get("after")
