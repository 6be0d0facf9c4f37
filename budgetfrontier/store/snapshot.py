"""What a frontier looks like at one commit: the one read model that reports, the command line and pages are made from.

The functions take a transaction: the engine's own, with what it has not yet committed, or that of a `Reader`.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator
from typing import Any

import msgspec

from budgetfrontier.model import ROW_FIELDS, CrawlState, CrawlUri, DeadLetter, Lease, QueueRecord, QueueState, Summary
from budgetfrontier.settings import Settings
from budgetfrontier.settings.overrides import Effective, Override
from budgetfrontier.store import keys, meta
from budgetfrontier.store.records import (
    AuditEntry,
    Counters,
    dead_letter,
    decode_audit,
    decode_dead,
    decode_future,
    decode_lease,
    restore_lease,
    restore_uri,
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


def queues(txn: keys.Txn, db: Tables) -> Iterator[QueueRecord]:
    """Every queue, in the order in which they were first seen, with the budgets now in force. O(queues)."""
    counters = meta.read_counters(txn, db[keys.META])
    settings, adjustments = settings_of(txn, db)
    effective = Effective(settings.frontier, [*settings.overrides, *adjustments])
    for _, value in items(txn, db[keys.QUEUES]):
        queue = whole_queue(value)
        if queue.revision != counters.settings_revision:
            refresh(txn, db, queue, effective)
        yield queue


def refresh(txn: keys.Txn, db: Tables, queue: QueueRecord, effective: Effective) -> None:
    """Show the budgets that the engine will take at the queue's next turn."""
    url = next((p.uri.url for p in pending(txn, db, queue, 1)), None)
    if url is not None or effective.trivial:
        settings = effective.for_uri(url or "", queue.queue)
        queue.balance_replenish_amount = settings.balance_replenish_amount
        queue.total_budget = settings.queue_total_budget


def report(txn: keys.Txn, db: Tables, *, generated: float) -> Report:
    """The whole frontier as of the transaction. O(queues)."""
    counters = meta.read_counters(txn, db[keys.META])
    settings, _ = meta.read_settings(txn, db[keys.META])
    totals = summary(txn, db, counters)
    return Report(
        crawl=settings.crawl if settings else "",
        generated=generated,
        state=totals.state,
        pause_reason=totals.pause_reason,
        totals=totals,
        queues=list(queues(txn, db)),
    )


def pending(
    txn: keys.Txn, db: Tables, queue: QueueRecord, limit: int | None = None, out: Container[bytes] = ()
) -> Iterator[PendingUri]:
    """The URIs of a queue in the order in which they would go out."""
    prefix = keys.u32.pack(queue.id)
    for place, (key, value) in enumerate(items(txn, db[keys.PENDING], prefix)):
        if key[:4] != prefix or place == limit:
            return
        yield _pending_uri(queue, key[4:], value, place=place, leased=key in out)


def _pending_uri(queue: QueueRecord, where: bytes, value: bytes, **extra: Any) -> PendingUri:
    attempts, deliveries = tries(value)
    uri = restore_uri(where, value, queue.queue)
    return PendingUri(queue=queue.queue, uri=uri, cost=uri.cost or 0, attempts=attempts, deliveries=deliveries, **extra)


def future(txn: keys.Txn, db: Tables) -> Iterator[PendingUri]:
    for key, value in items(txn, db[keys.FUTURE]):
        row = decode_future(value)
        queue = queue_by_id(txn, db, keys.u32.pack(row.queue))
        yield _pending_uri(queue, row.place, row.value, when=keys.due.unpack(key)[0])


def leases(txn: keys.Txn, db: Tables) -> Iterator[Lease]:
    for key, value in items(txn, db[keys.LEASES]):
        row = decode_lease(value)
        queue = queue_by_id(txn, db, keys.u32.pack(row.queue))
        record = txn.get(row.key, db=db[keys.PENDING])
        assert record is not None, row
        yield restore_lease(keys.u64.unpack(key)[0], row, queue.queue, record)


def settings_of(txn: keys.Txn, db: Tables) -> tuple[Settings, list[Override]]:
    settings, adjustments = meta.read_settings(txn, db[keys.META])
    return settings or Settings(), adjustments


def find_queue(txn: keys.Txn, db: Tables, key: str) -> QueueRecord | None:
    name = key.encode("utf-8", "replace")
    found = txn.get(name, db=db[keys.QUEUE_IDS]) if 0 < len(name) <= keys.MAX_QUEUE_KEY else None
    return None if found is None else queue_by_id(txn, db, found)


def queue_by_id(txn: keys.Txn, db: Tables, key: bytes) -> QueueRecord:
    value = txn.get(key, db=db[keys.QUEUES])
    assert value is not None, key
    return whole_queue(value)


def audit(txn: keys.Txn, db: Tables, limit: int | None = None) -> list[AuditEntry]:
    """The last `limit` commands that were applied, newest last."""
    entries = [decode_audit(value) for _, value in items(txn, db[keys.AUDIT])]
    return entries if limit is None else entries[-limit:] if limit else []


def dead_letters(txn: keys.Txn, db: Tables, limit: int | None = None) -> list[DeadLetter]:
    """The dead letters, oldest first."""
    letters: list[DeadLetter] = []
    for key, value in items(txn, db[keys.DEAD]):
        if len(letters) == limit:
            break
        letters.append(dead_letter(keys.u64.unpack(key)[0], decode_dead(value)))
    return letters
