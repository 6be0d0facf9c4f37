"""What a frontier looks like at one commit: the one read model that reports, the command line and pages are made from.

The functions take a transaction, so that the engine shows what it has not yet committed; `Reader` opens a frontier
read-only from any process, and sees its last commit without a lock.
"""

from __future__ import annotations

import os
import time
from collections.abc import Container, Iterator
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import lmdb
import msgspec

from budgetfrontier import uris
from budgetfrontier.errors import FrontierError, InvalidUrl, NotAFrontier
from budgetfrontier.model import ROW_FIELDS, CrawlState, CrawlUri, DeadLetter, Lease, QueueRecord, QueueState, Summary
from budgetfrontier.settings import Settings, policies
from budgetfrontier.settings.overrides import Effective, Override
from budgetfrontier.store import keys, meta
from budgetfrontier.store.check import check
from budgetfrontier.store.environment import check_files, check_schema, lock_holder, open_lmdb, opened_here
from budgetfrontier.store.records import (
    AuditEntry,
    Counters,
    dead_letter,
    decode_audit,
    decode_dead,
    decode_future,
    decode_lease,
    decode_queue,
    restore_lease,
    restore_uri,
)

MAX_AGE = 10.0  # seconds that a reader may hold one snapshot: the file grows as long as it does

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


def _items(txn: keys.Txn, db: Any, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
    cursor = txn.cursor(db)
    if cursor.set_range(start or keys.FIRST):
        yield from cursor.iternext()


def queues(txn: keys.Txn, db: Tables) -> Iterator[QueueRecord]:
    """Every queue, in the order in which they were first seen, with the budgets now in force. O(queues)."""
    counters = meta.read_counters(txn, db[keys.META])
    settings, adjustments = _settings(txn, db)
    effective = Effective(settings.frontier, [*settings.overrides, *adjustments])
    for _, value in _items(txn, db[keys.QUEUES]):
        queue = decode_queue(value)
        if queue.revision != counters.settings_revision:
            _refresh(txn, db, queue, effective)
        yield queue


def _refresh(txn: keys.Txn, db: Tables, queue: QueueRecord, effective: Effective) -> None:
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
    for place, (key, value) in enumerate(_items(txn, db[keys.PENDING], prefix)):
        if key[:4] != prefix or place == limit:
            return
        yield _pending_uri(queue, key[4:], value, place=place, leased=key in out)


def _pending_uri(queue: QueueRecord, where: bytes, value: bytes, **extra: Any) -> PendingUri:
    attempts, deliveries = keys.delivery.unpack_from(value)
    uri = restore_uri(where, value)
    return PendingUri(
        queue=queue.queue, uri=uri, cost=uri.cost or 0, attempts=attempts, deliveries=deliveries, **extra
    )


def _future(txn: keys.Txn, db: Tables) -> Iterator[PendingUri]:
    for key, value in _items(txn, db[keys.FUTURE]):
        row = decode_future(value)
        queue = _queue_by_id(txn, db, keys.u32.pack(row.queue))
        yield _pending_uri(queue, row.place, row.value, when=keys.due.unpack(key)[0])


def _leases(txn: keys.Txn, db: Tables) -> Iterator[Lease]:
    for key, value in _items(txn, db[keys.LEASES]):
        row = decode_lease(value)
        queue = _queue_by_id(txn, db, keys.u32.pack(row.queue))
        record = txn.get(row.key, db=db[keys.PENDING])
        assert record is not None, row
        yield restore_lease(keys.u64.unpack(key)[0], row, queue, record)


def _settings(txn: keys.Txn, db: Tables) -> tuple[Settings, list[Override]]:
    settings, adjustments = meta.read_settings(txn, db[keys.META])
    return settings or Settings(), adjustments


def _queue(txn: keys.Txn, db: Tables, key: str) -> QueueRecord | None:
    name = key.encode("utf-8", "replace")
    found = txn.get(name, db=db[keys.QUEUE_IDS]) if 0 < len(name) <= keys.MAX_QUEUE_KEY else None
    return None if found is None else _queue_by_id(txn, db, found)


def _queue_by_id(txn: keys.Txn, db: Tables, key: bytes) -> QueueRecord:
    value = txn.get(key, db=db[keys.QUEUES])
    assert value is not None, key
    return decode_queue(value)


def audit(txn: keys.Txn, db: Tables, limit: int | None = None) -> list[AuditEntry]:
    """The last `limit` commands that were applied, newest last."""
    entries = [decode_audit(value) for _, value in _items(txn, db[keys.AUDIT])]
    return entries if limit is None else entries[-limit:] if limit else []


def dead_letters(txn: keys.Txn, db: Tables, limit: int | None = None) -> list[DeadLetter]:
    """The dead letters, oldest first."""
    letters: list[DeadLetter] = []
    for key, value in _items(txn, db[keys.DEAD]):
        if len(letters) == limit:
            break
        letters.append(dead_letter(keys.u64.unpack(key)[0], decode_dead(value)))
    return letters


class Reader:
    """A frontier read-only: as of its last commit, without a lock, whoever writes it. A context manager.

    Raises NotAFrontier, NewerSchema or CorruptFrontier. Each call sees one snapshot, renewed after ten seconds.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if not check_files(self.path):
            raise NotAFrontier(f"there is no frontier at {self.path}; name the folder of a job")
        mine = opened_here(self.path)
        self._shared = mine is not None
        if mine is not None:
            self._env = mine.env
            self._db: Tables = mine.db
        else:
            self._env = open_lmdb(self.path, readonly=True)
            try:
                check_schema(self._env, self.path)
                self._db = {name: self._env.open_db(name.encode(), create=False) for name in keys.TABLES}
            except BaseException:
                self._env.close()
                raise
        self._txn: keys.Txn | None = None
        self._began = 0.0

    def _now_txn(self) -> keys.Txn:
        """The snapshot to read from: that of the last call, unless it has become old or a commit has come since."""
        if self._txn is not None:
            if time.monotonic() - self._began < MAX_AGE and self._env.info()["last_txnid"] == self._txn.id():
                return self._txn
            self._txn.abort()
        self._txn = self._begin()
        self._began = time.monotonic()
        return self._txn

    def _begin(self) -> keys.Txn:
        try:
            return self._env.begin()
        except lmdb.MapResizedError:  # the writer's map has grown
            self._env.set_mapsize(0)
            return self._env.begin()

    def close(self) -> None:
        """Let go of the files."""
        if self._txn is not None:
            self._txn.abort()
            self._txn = None
        if not self._shared:
            self._env.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def settings(self) -> Settings:
        """The settings in force, without the adjustments."""
        return _settings(self._now_txn(), self._db)[0]

    @property
    def adjustments(self) -> list[Override]:
        """The adjustments on top of the settings, oldest first."""
        return _settings(self._now_txn(), self._db)[1]

    def lock_pid(self) -> int | None:
        """The process that runs this frontier's engine, None if none does."""
        return lock_holder(self.path)

    def summary(self) -> Summary:
        """The cheap counters. O(1)."""
        txn = self._now_txn()
        return summary(txn, self._db, meta.read_counters(txn, self._db[keys.META]))

    def report(self) -> Report:
        """The whole frontier. O(queues)."""
        return report(self._now_txn(), self._db, generated=time.time())

    def queues(self) -> Iterator[QueueRecord]:
        """Every queue, oldest first. Holds one snapshot until it is done."""
        with self._begin() as txn:
            yield from queues(txn, self._db)

    def queue(self, key: str) -> QueueRecord | None:
        """A queue by its key, None if there is none."""
        txn = self._now_txn()
        queue = _queue(txn, self._db, key)
        if queue is not None:
            settings, adjustments = _settings(txn, self._db)
            _refresh(txn, self._db, queue, Effective(settings.frontier, [*settings.overrides, *adjustments]))
        return queue

    def pending(self, key: str, limit: int | None = None) -> list[PendingUri]:
        """The first URIs of a queue, in the order in which they would go out."""
        txn = self._now_txn()
        queue = _queue(txn, self._db, key)
        if queue is None:
            return []
        out = {lease.key for lease in _leases(txn, self._db)} if queue.out else set()
        return list(pending(txn, self._db, queue, limit, out))

    def future(self, limit: int | None = None) -> list[PendingUri]:
        """What is scheduled for later, soonest first."""
        return list(islice(_future(self._now_txn(), self._db), limit))

    def leases(self) -> list[Lease]:
        """The leases that were out at the last commit."""
        return list(_leases(self._now_txn(), self._db))

    def dead_letters(self, limit: int | None = None) -> list[DeadLetter]:
        """The dead letters, oldest first."""
        return dead_letters(self._now_txn(), self._db, limit)

    def audit(self, limit: int | None = None) -> list[AuditEntry]:
        """The commands that were applied, newest last."""
        return audit(self._now_txn(), self._db, limit)

    def check(self) -> None:
        """Verify every invariant; raises CorruptFrontier. O(everything)."""
        with self._begin() as txn:
            check(txn, self._db)

    def answer(self, number: int) -> AuditEntry | None:
        """The entry of a command by its number in the mailbox, None while it is not applied."""
        txn = self._now_txn()
        if meta.read_counters(txn, self._db[keys.META]).command < number:
            return None
        for _, value in txn.cursor(self._db[keys.AUDIT]).iterprev():
            if value and (entry := decode_audit(value)).id == number:
                return entry
        raise FrontierError(f"command {number} was applied, but the audit does not know it")

    def find(self, url: str) -> dict[str, Any]:
        """What is known of a URL: `valid` (or the `reason` why not), `seen`, and `pending`, its place in its queue.

        O(URIs of its queue).
        """
        try:
            href = uris.parse(url)
        except InvalidUrl as e:
            return {"valid": False, "reason": str(e), "seen": False, "pending": None, "queue": None}
        txn = self._now_txn()
        frontier = _settings(txn, self._db)[0].frontier
        canonical = policies.canonicalization(frontier)
        seen = txn.get(uris.fingerprint(canonical(href)), db=self._db[keys.SEEN]) is not None
        name = policies.assignment(frontier, meta.read_suffixes(txn, self._db[keys.META]))(CrawlUri(href))
        queue = _queue(txn, self._db, name)
        entry = None
        if queue is not None:
            wanted = canonical(href)
            entry = next((p for p in pending(txn, self._db, queue) if canonical(p.uri.url) == wanted), None)
            if entry is None and queue.future:
                entry = next((p for p in _future(txn, self._db) if canonical(p.uri.url) == wanted), None)
        return {"valid": True, "url": href, "seen": seen, "pending": entry, "queue": name}


__all__ = ["AuditEntry", "PendingUri", "Reader", "Report"]
