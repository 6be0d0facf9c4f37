"""A frontier read-only, from any process: as of its last commit, without a lock."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import lmdb

from budgetfrontier import uris
from budgetfrontier.errors import FrontierError, InvalidUrl, NotAFrontier
from budgetfrontier.model import CrawlUri, DeadLetter, Lease, QueueRecord, Summary
from budgetfrontier.settings import Settings, policies
from budgetfrontier.settings.overrides import Effective, Override
from budgetfrontier.store import keys, meta, snapshot
from budgetfrontier.store.check import check
from budgetfrontier.store.environment import check_files, check_schema, lock_holder, open_lmdb, opened_here
from budgetfrontier.store.records import AuditEntry, decode_audit
from budgetfrontier.store.snapshot import PendingUri, Report, Tables

MAX_AGE = 10.0  # seconds that a reader may hold one snapshot: the file grows as long as it does


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
        return snapshot.settings_of(self._now_txn(), self._db)[0]

    @property
    def adjustments(self) -> list[Override]:
        """The adjustments on top of the settings, oldest first."""
        return snapshot.settings_of(self._now_txn(), self._db)[1]

    def lock_pid(self) -> int | None:
        """The process that runs this frontier's engine, None if none does."""
        return lock_holder(self.path)

    def summary(self) -> Summary:
        """The cheap counters. O(1)."""
        txn = self._now_txn()
        return snapshot.summary(txn, self._db, meta.read_counters(txn, self._db[keys.META]))

    def report(self) -> Report:
        """The whole frontier. O(queues)."""
        return snapshot.report(self._now_txn(), self._db, generated=time.time())

    def queues(self) -> Iterator[QueueRecord]:
        """Every queue, oldest first. Holds one snapshot until it is done."""
        with self._begin() as txn:
            yield from snapshot.queues(txn, self._db)

    def queue(self, key: str) -> QueueRecord | None:
        """A queue by its key, None if there is none."""
        txn = self._now_txn()
        queue = snapshot.find_queue(txn, self._db, key)
        if queue is not None:
            settings, adjustments = snapshot.settings_of(txn, self._db)
            snapshot.refresh(txn, self._db, queue, Effective(settings.frontier, [*settings.overrides, *adjustments]))
        return queue

    def pending(self, key: str, limit: int | None = None) -> list[PendingUri]:
        """The first URIs of a queue, in the order in which they would go out."""
        txn = self._now_txn()
        queue = snapshot.find_queue(txn, self._db, key)
        if queue is None:
            return []
        out = {lease.key for lease in snapshot.leases(txn, self._db)} if queue.out else set()
        return list(snapshot.pending(txn, self._db, queue, limit, out))

    def future(self, limit: int | None = None) -> list[PendingUri]:
        """What is scheduled for later, soonest first."""
        return list(islice(snapshot.future(self._now_txn(), self._db), limit))

    def leases(self) -> list[Lease]:
        """The leases that were out at the last commit."""
        return list(snapshot.leases(self._now_txn(), self._db))

    def dead_letters(self, limit: int | None = None) -> list[DeadLetter]:
        """The dead letters, oldest first."""
        return snapshot.dead_letters(self._now_txn(), self._db, limit)

    def audit(self, limit: int | None = None) -> list[AuditEntry]:
        """The commands that were applied, newest last."""
        return snapshot.audit(self._now_txn(), self._db, limit)

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
        frontier = snapshot.settings_of(txn, self._db)[0].frontier
        canonical = policies.canonicalization(frontier)
        seen = txn.get(uris.fingerprint(canonical(href)), db=self._db[keys.SEEN]) is not None
        name = policies.assignment(frontier, meta.read_suffixes(txn, self._db[keys.META]))(CrawlUri(href))
        queue = snapshot.find_queue(txn, self._db, name)
        entry = None
        if queue is not None:
            wanted = canonical(href)
            entry = next((p for p in snapshot.pending(txn, self._db, queue) if canonical(p.uri.url) == wanted), None)
            if entry is None and queue.future:
                entry = next((p for p in snapshot.future(txn, self._db) if canonical(p.uri.url) == wanted), None)
        return {"valid": True, "url": href, "seen": seen, "pending": entry, "queue": name}
