"""What a frontier looks like at one commit: the one read model that reports, the command line and pages are made from.

The functions take a transaction: the engine's own, with what it has not yet committed, or that of a `Reader`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Iterator
from functools import cached_property
from itertools import islice, takewhile
from typing import Any

import msgspec

from budgetfrontier import rules
from budgetfrontier.model import ROW_FIELDS, CrawlState, CrawlUri, DeadLetter, Lease, QueueRecord, QueueState, Summary
from budgetfrontier.settings import Settings
from budgetfrontier.settings.matching import parse_match
from budgetfrontier.settings.overrides import Effective, Override
from budgetfrontier.store import keys, meta
from budgetfrontier.store.damage import Damage
from budgetfrontier.store.records import (
    AuditEntry,
    Counters,
    dead_letter,
    decode_audit,
    decode_dead,
    decode_future,
    decode_lease,
    decode_uri,
    encode,
    encode_url,
    expand,
    restore_lease,
    restore_uri,
    short_url,
    shorten,
    tries,
    whole_queue,
)

Tables = dict[str, Any]


class PendingUri(msgspec.Struct, kw_only=True):
    """A URI in its queue. `when` is set for one that is scheduled for later; `place` counts from 0."""

    queue: str
    uri: CrawlUri
    cost: int
    attempts: int
    deliveries: int
    leased: bool = False
    when: float | None = None
    place: int = 0


class Report(msgspec.Struct, kw_only=True):
    """A frontier at one moment: its totals and a row for each queue. `generated` is in epoch seconds."""

    format: int = 1
    crawl: str
    generated: float
    state: CrawlState
    pause_reason: str | None
    totals: Summary
    queues: list[QueueRecord]

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Report:
        """The report of the frontier at `path` as of its last commit, running or not."""
        from budgetfrontier.store.reader import Reader

        with Reader(path) as reader:
            return reader.report()

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as `report --format json` prints it."""
        return {
            "format": self.format,
            "crawl": self.crawl,
            "generated": self.generated,
            "state": self.state.value,
            "pause_reason": self.pause_reason,
            "totals": msgspec.to_builtins(self.totals),
            "queues": [row(queue) for queue in self.queues],
        }


def row(queue: QueueRecord) -> dict[str, Any]:
    """A queue as a row of plain data, in the order of ROW_FIELDS."""
    values = {name: getattr(queue, name) for name in ROW_FIELDS}
    values["state"] = queue.state.value
    return values


def summary(txn: keys.Txn, db: Tables, counters: Counters) -> Summary:
    """The cheap counters. O(1)."""
    c = counters
    states = {
        QueueState.READY: c.ready,
        QueueState.IN_PROCESS: c.in_process,
        QueueState.SNOOZED: c.snoozed,
        QueueState.INACTIVE: c.inactive,
        QueueState.RETIRED: c.retired,
    }
    states[QueueState.EXHAUSTED] = c.queues - sum(states.values())
    return Summary(
        state=c.state,
        pause_reason=c.pause_reason,
        queued=c.queued,
        in_process=c.leases,
        future=c.future,
        dead=txn.stat(db[keys.DEAD])["entries"] - 1,
        seen=txn.stat(db[keys.SEEN])["entries"] - 1,
        scheduled=c.scheduled,
        succeeded=c.succeeded,
        failed=c.failed,
        retried=c.retried,
        deferred=c.deferred,
        disregarded=c.disregarded,
        duplicates=c.duplicates,
        expenditure=c.expenditure,
        queues={state.value: count for state, count in states.items()},
    )


def summary_line(totals: Summary) -> str:
    """Heritrix's one-line summary, which operators parse: the crawl's state, and the queues by theirs."""
    q = totals.queues
    active = q["READY"] + q["IN_PROCESS"] + q["SNOOZED"]
    return (
        f"{totals.state} - {sum(q.values())} URI queues: {active} active ({q['IN_PROCESS']} in-process; "
        f"{q['READY']} ready; {q['SNOOZED']} snoozed); {q['INACTIVE']} inactive; 0 ineligible; "
        f"{q['RETIRED']} retired; {q['EXHAUSTED']} exhausted"
    )


def items(txn: keys.Txn, db: Any, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
    cursor = txn.cursor(db)
    if cursor.set_range(start or keys.FIRST):
        yield from cursor.iternext()


class Heads:
    """The head URI of one queue after the other: its first that is not out, or its first when all are."""

    def __init__(self, txn: keys.Txn, db: Tables) -> None:
        self._txn = txn
        self._db = db
        self._cursor = txn.cursor(db[keys.PENDING])

    @cached_property
    def _out(self) -> frozenset[bytes]:
        return frozenset(keys_out(self._txn, self._db))

    def url(self, queue: QueueRecord) -> str | None:
        """The URL of a queue's head, None if the queue is empty."""
        prefix, cursor = keys.u32.pack(queue.id), self._cursor
        if not queue.queued or not cursor.set_range(prefix):
            return None
        key, first = cursor.item()
        value = first
        while queue.out and key in self._out:
            key, value = cursor.item() if cursor.next() else (b"", b"")
        if key[:4] != prefix:  # all of them are out
            value = first
        return expand(short_url(value), queue.queue)


def stored_queues(txn: keys.Txn, db: Tables) -> Iterator[QueueRecord]:
    """Every queue as it is stored, in the order in which they were first seen. O(queues), about 1 us each."""
    cursor = txn.cursor(db[keys.QUEUES])
    return map(whole_queue, cursor.iternext(keys=False)) if cursor.set_range(keys.FIRST) else iter(())


class Budgets:
    """The budgets in force: what the engine will take at a queue's next turn, where its record does not know yet."""

    def __init__(self, txn: keys.Txn, db: Tables) -> None:
        settings, adjustments = settings_of(txn, db)
        overrides = [*settings.overrides, *adjustments]
        ours = [o for o in overrides if "balance_replenish_amount" in o.set or "queue_total_budget" in o.set]
        self._revision = meta.read_counters(txn, db[keys.META]).settings_revision
        self._trivial = not overrides
        self._by_key = all(parse_match(o.match).kind in ("*", "queue") for o in ours)
        self._effective = Effective(settings.frontier, ours)
        self._heads = Heads(txn, db)

    def show(self, queue: QueueRecord) -> QueueRecord:
        """The same record, with the budgets in force."""
        if queue.revision != self._revision and (queue.queued or self._trivial):
            url = "http://none.invalid/" if self._by_key else self._heads.url(queue)
            if url is not None:
                settings = self._effective.for_uri(url, queue.queue)
                queue.balance_replenish_amount = settings.balance_replenish_amount
                queue.total_budget = settings.queue_total_budget
        return queue


def queues(txn: keys.Txn, db: Tables) -> Iterator[QueueRecord]:
    """Every queue, in the order in which they were first seen, with the budgets now in force.

    O(queues), about 1 us each, or 3 us after a change of settings.
    """
    return map(Budgets(txn, db).show, stored_queues(txn, db))


def queues_by_id(txn: keys.Txn, db: Tables, ids: Iterable[int]) -> Iterator[QueueRecord]:
    """Those queues, in this order, with the budgets now in force."""
    return map(Budgets(txn, db).show, (queue_by_id(txn, db, keys.u32.pack(queue_id)) for queue_id in ids))


def report(txn: keys.Txn, db: Tables, *, generated: float) -> Report:
    """The whole frontier as of the transaction. O(queues)."""
    whole = report_head(txn, db, generated=generated)
    whole.queues.extend(queues(txn, db))
    return whole


def report_head(txn: keys.Txn, db: Tables, *, generated: float) -> Report:
    """The report without its rows. O(1)."""
    settings, _ = meta.read_settings(txn, db[keys.META])
    totals = summary(txn, db, meta.read_counters(txn, db[keys.META]))
    return Report(
        crawl=settings.crawl if settings else "",
        generated=generated,
        state=totals.state,
        pause_reason=totals.pause_reason,
        totals=totals,
        queues=[],
    )


def pending(
    txn: keys.Txn, db: Tables, queue: QueueRecord, limit: int | None = None, out: Container[bytes] = ()
) -> Iterator[PendingUri]:
    """The URIs of a queue in the order in which they would go out."""
    for place, (key, value) in enumerate(islice(pending_items(txn, db, keys.u32.pack(queue.id)), limit)):
        yield pending_uri(queue, key[4:], value, place=place, leased=key in out)


def pending_items(txn: keys.Txn, db: Tables, prefix: bytes, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
    """The pending records of a queue, from the key `start` on."""
    return takewhile(lambda item: item[0][:4] == prefix, items(txn, db[keys.PENDING], start or prefix))


def pending_uri(queue: QueueRecord, where: bytes, value: bytes, **extra: Any) -> PendingUri:
    """A pending record as everybody sees it; `where` is its place."""
    attempts, deliveries = tries(value)
    uri = restore_uri(where, value, queue.queue)
    return PendingUri(queue=queue.queue, uri=uri, cost=uri.cost or 0, attempts=attempts, deliveries=deliveries, **extra)


def find_pending(
    txn: keys.Txn, db: Tables, queue: QueueRecord, href: str, canonical: Callable[[str], str]
) -> PendingUri | None:
    """The first URI of a queue that is this very URL; if there is none, the first that has the same canonical form.

    Comparing bytes first finds in 0.3 s among a million what a canonical form for each takes seconds to find.
    """
    plain, short = encode_url(href, queue.queue), shorten(href, queue.queue)
    part = encode(short)
    for place, (key, value) in enumerate(pending_items(txn, db, keys.u32.pack(queue.id))):
        if value == plain or (part in value and short_url(value) == short):
            return pending_uri(queue, key[4:], value, place=place, leased=key in keys_out(txn, db))
    wanted, name = canonical(href), queue.queue
    for place, (key, value) in enumerate(pending_items(txn, db, keys.u32.pack(queue.id))):
        if canonical(expand(short_url(value), name)) == wanted:
            return pending_uri(queue, key[4:], value, place=place, leased=key in keys_out(txn, db))
    return None


def find_future(
    txn: keys.Txn, db: Tables, queue: QueueRecord, href: str, canonical: Callable[[str], str]
) -> PendingUri | None:
    """The first URI of a queue that is scheduled for later and has the canonical form of this URL."""
    wanted = canonical(href)
    for key, value in items(txn, db[keys.FUTURE]) if queue.future else ():
        row = decode_future(value)
        if row.queue == queue.id and canonical(expand(short_url(row.value), queue.queue)) == wanted:
            return pending_uri(queue, row.place, row.value, when=keys.due.unpack(key)[0])
    return None


def find_dead(txn: keys.Txn, db: Tables, href: str) -> DeadLetter | None:
    """The oldest dead letter of a URL."""
    for key, value in items(txn, db[keys.DEAD]):
        row = decode_dead(value)
        if short_url(row.value) == shorten(href, row.name):
            return dead_letter(keys.u64.unpack(key)[0], row)
    return None


def costs(txn: keys.Txn, db: Tables, queue: QueueRecord, count: int | None = None) -> Iterator[int]:
    """What the first `count` URIs of a queue cost, one by one, read from their keys."""
    cursor, prefix = txn.cursor(db[keys.PENDING]), keys.u32.pack(queue.id)
    if cursor.set_range(prefix):
        for key in islice(cursor.iternext(values=False), count):
            if key[:4] != prefix:
                return
            yield keys.pending.unpack(key)[3]


def turns_before(txn: keys.Txn, db: Tables, queue: QueueRecord) -> tuple[int, int]:
    """How many queues have their turn before a READY or INACTIVE one: of its precedence, and of a better one."""
    if queue.state is QueueState.READY:
        table, own, group = keys.ACTIVE, keys.u64.pack(queue.position), 0
    else:
        table, own, group = keys.INACTIVE, keys.fifo.pack(queue.precedence, queue.position), 2
    cursor, before, better = txn.cursor(db[table]), 0, 0
    if cursor.set_range(keys.FIRST):
        for key in cursor.iternext(values=False):
            if key >= own:
                break
            if key[:group] == own[:group]:
                before += 1
            else:
                better += 1
    return before, better


def waiting(txn: keys.Txn, db: Tables) -> Iterator[CrawlUri]:
    """Every URI that is pending or scheduled for later, without what its place says. O(URIs), about 2 us each."""
    known, name = b"", ""
    for key, value in items(txn, db[keys.PENDING]):
        if key[:4] != known:
            known = key[:4]
            name = queue_by_id(txn, db, known).queue
        yield decode_uri(value, name)
    for _, value in items(txn, db[keys.FUTURE]):
        row = decode_future(value)
        yield decode_uri(row.value, queue_by_id(txn, db, keys.u32.pack(row.queue)).queue)


def future(txn: keys.Txn, db: Tables) -> Iterator[PendingUri]:
    for key, value in items(txn, db[keys.FUTURE]):
        yield future_uri(txn, db, key, value)


def future_uri(txn: keys.Txn, db: Tables, key: bytes, value: bytes) -> PendingUri:
    """A record of what is scheduled for later as everybody sees it."""
    row = decode_future(value)
    queue = queue_by_id(txn, db, keys.u32.pack(row.queue))
    return pending_uri(queue, row.place, row.value, when=keys.due.unpack(key)[0])


def keys_out(txn: keys.Txn, db: Tables) -> Iterator[bytes]:
    """The keys of the pending URIs that are out."""
    return (decode_lease(value).key for _, value in items(txn, db[keys.LEASES]))


def leases(txn: keys.Txn, db: Tables) -> Iterator[Lease]:
    for key, value in items(txn, db[keys.LEASES]):
        row = decode_lease(value)
        queue = queue_by_id(txn, db, keys.u32.pack(row.queue))
        record = txn.get(row.key, db=db[keys.PENDING])
        if record is None:
            raise Damage(f"lease {row}: its URI is not pending")
        yield restore_lease(keys.u64.unpack(key)[0], row, queue.queue, record)


def settings_of(txn: keys.Txn, db: Tables) -> tuple[Settings, list[Override]]:
    settings, adjustments = meta.read_settings(txn, db[keys.META])
    return settings or Settings(), adjustments


def in_force(txn: keys.Txn, db: Tables, more: Iterable[Override] = ()) -> Effective:
    """The settings in force for each URI, with `more` adjustments on top."""
    settings, adjustments = settings_of(txn, db)
    return Effective(settings.frontier, [*settings.overrides, *adjustments, *more])


def names(txn: keys.Txn, db: Tables, prefix: str) -> Iterator[str]:
    """The keys of queues that begin with `prefix`, sorted by their bytes."""
    start = prefix.encode("utf-8", "replace")
    found = (key for key, _ in items(txn, db[keys.QUEUE_IDS], start))
    return (key.decode() for key in takewhile(lambda key: key.startswith(start), found) if key != keys.SENTINEL)


def find_queue(txn: keys.Txn, db: Tables, key: str) -> QueueRecord | None:
    found = _queue_id(txn, db, key)
    return None if found is None else queue_by_id(txn, db, found)


def _queue_id(txn: keys.Txn, db: Tables, key: str) -> bytes | None:
    name = rules.queue_key_bytes(key)
    return None if name is None else txn.get(name, db=db[keys.QUEUE_IDS])


def first_url(txn: keys.Txn, db: Tables, key: str) -> str | None:
    """The first pending URL of a queue, None if there is no such queue or it is empty."""
    found = _queue_id(txn, db, key)
    first = None if found is None else next(pending_items(txn, db, found), None)
    return None if first is None else expand(short_url(first[1]), key)


def queue_by_id(txn: keys.Txn, db: Tables, key: bytes) -> QueueRecord:
    value = txn.get(key, db=db[keys.QUEUES])
    if value is None:
        raise Damage(f"queue {key.hex()} has no record")
    return whole_queue(value)


def newest(txn: keys.Txn, db: Tables) -> Iterator[AuditEntry]:
    """The commands that were applied, newest first."""
    for key, value in txn.cursor(db[keys.AUDIT]).iterprev():
        if key != keys.SENTINEL:
            yield decode_audit(value)


def audit(txn: keys.Txn, db: Tables, limit: int | None = None) -> list[AuditEntry]:
    """The last `limit` commands that were applied, newest last. O(answer)."""
    return list(islice(newest(txn, db), limit))[::-1]


def dead_letters(txn: keys.Txn, db: Tables, limit: int | None = None) -> list[DeadLetter]:
    """The dead letters, oldest first."""
    letters: list[DeadLetter] = []
    for key, value in items(txn, db[keys.DEAD]):
        if len(letters) == limit:
            break
        letters.append(dead_letter(keys.u64.unpack(key)[0], decode_dead(value)))
    return letters
