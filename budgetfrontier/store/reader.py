"""A frontier read-only, from any process: as of its last commit, without a lock."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import lmdb

from budgetfrontier import uris
from budgetfrontier.errors import FrontierClosed, FrontierError, InvalidUrl, NotAFrontier
from budgetfrontier.model import CrawlUri, DeadLetter, Lease, QueueRecord, Summary
from budgetfrontier.settings import Settings, policies
from budgetfrontier.settings.overrides import Effective, Override
from budgetfrontier.store import keys, meta, snapshot
from budgetfrontier.store.check import check
from budgetfrontier.store.environment import check_files, check_schema, explain, lock_holder, open_lmdb, opened_here
from budgetfrontier.store.records import AuditEntry, decode_audit
from budgetfrontier.store.snapshot import PendingUri, Report, Tables

# LMDB forbids to open an environment twice in a process: the readers of one frontier share it, and are counted.
_shared: dict[str, tuple[lmdb.Environment, int]] = {}
_sharing = threading.Lock()


def _after_fork() -> None:
    """A child must open for itself what its parent reads."""
    for env, _ in _shared.values():
        env.close()
    _shared.clear()


os.register_at_fork(after_in_child=_after_fork)


class Reader:
    """A frontier read-only: as of its last commit, without a lock, whoever writes it. A context manager.

    Raises NotAFrontier, NewerSchema or CorruptFrontier. Each call sees one snapshot, and
    holds it no longer: the writer's file would grow.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if not check_files(self.path):
            raise NotAFrontier(f"there is no frontier at {self.path}; name the folder of a job")
        self._key = os.path.realpath(self.path)
        mine = opened_here(self.path)
        self._mine = mine is None
        if mine is not None:
            self._env = mine.env
            self._db: Tables = mine.db
            return
        with _sharing:
            shared, users = _shared.pop(self._key, (None, 0))
            self._env = shared or open_lmdb(self.path, readonly=True)
            _shared[self._key] = self._env, users + 1
        try:
            check_schema(self._env, self.path)
            self._db = {name: self._env.open_db(name.encode(), create=False) for name in keys.TABLES}
        except BaseException:
            self.close()
            raise

    def _begin(self) -> keys.Txn:
        if not self._mine and opened_here(self.path) is None:
            raise FrontierClosed("the frontier that this looked into was closed; make another Reader")
        try:
            return self._env.begin()
        except lmdb.MapResizedError:  # the writer's map has grown
            self._env.set_mapsize(0)
            return self._env.begin()
        except lmdb.Error as e:
            raise explain(e, self.path) from e

    def close(self) -> None:
        """Let go of the files."""
        if not self._mine:
            return
        self._mine = False
        with _sharing:
            env, users = _shared.pop(self._key, (self._env, 1))
            if users > 1:
                _shared[self._key] = env, users - 1
            else:
                env.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def settings(self) -> Settings:
        """The settings in force, without the adjustments."""
        with self._begin() as txn:
            return snapshot.settings_of(txn, self._db)[0]

    @property
    def adjustments(self) -> list[Override]:
        """The adjustments on top of the settings, oldest first."""
        with self._begin() as txn:
            return snapshot.settings_of(txn, self._db)[1]

    def lock_pid(self) -> int | None:
        """The process that runs this frontier's engine, None if none does."""
        return lock_holder(self.path)

    def summary(self) -> Summary:
        """The cheap counters. O(1)."""
        with self._begin() as txn:
            return snapshot.summary(txn, self._db, meta.read_counters(txn, self._db[keys.META]))

    def report(self) -> Report:
        """The whole frontier. O(queues)."""
        with self._begin() as txn:
            return snapshot.report(txn, self._db, generated=time.time())

    def queues(self) -> Iterator[QueueRecord]:
        """Every queue, oldest first. Holds one snapshot until it is done."""
        with self._begin() as txn:
            yield from snapshot.queues(txn, self._db)

    def queue(self, key: str) -> QueueRecord | None:
        """A queue by its key, None if there is none."""
        with self._begin() as txn:
            queue = snapshot.find_queue(txn, self._db, key)
            if queue is not None:
                settings, adjustments = snapshot.settings_of(txn, self._db)
                snapshot.refresh(
                    txn, self._db, queue, Effective(settings.frontier, [*settings.overrides, *adjustments])
                )
            return queue

    def pending(self, key: str, limit: int | None = None) -> list[PendingUri]:
        """The first URIs of a queue, in the order in which they would go out."""
        with self._begin() as txn:
            queue = snapshot.find_queue(txn, self._db, key)
            if queue is None:
                return []
            out = {lease.key for lease in snapshot.leases(txn, self._db)} if queue.out else set()
            return list(snapshot.pending(txn, self._db, queue, limit, out))

    def future(self, limit: int | None = None) -> list[PendingUri]:
        """What is scheduled for later, soonest first."""
        with self._begin() as txn:
            return list(islice(snapshot.future(txn, self._db), limit))

    def leases(self) -> list[Lease]:
        """The leases that were out at the last commit."""
        with self._begin() as txn:
            return list(snapshot.leases(txn, self._db))

    def dead_letters(self, limit: int | None = None) -> list[DeadLetter]:
        """The dead letters, oldest first."""
        with self._begin() as txn:
            return snapshot.dead_letters(txn, self._db, limit)

    def audit(self, limit: int | None = None) -> list[AuditEntry]:
        """The commands that were applied, newest last."""
        with self._begin() as txn:
            return snapshot.audit(txn, self._db, limit)

    def check(self) -> None:
        """Verify every invariant; raises CorruptFrontier. O(everything)."""
        with self._begin() as txn:
            check(txn, self._db)

    def answer(self, number: int) -> AuditEntry | None:
        """The entry of a command by its number in the mailbox, None while it is not applied."""
        with self._begin() as txn:
            if meta.read_counters(txn, self._db[keys.META]).command < number:
                return None
            for _, value in txn.cursor(self._db[keys.AUDIT]).iterprev():
                if value and (entry := decode_audit(value)).number == number:
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
        with self._begin() as txn:
            frontier = snapshot.settings_of(txn, self._db)[0].frontier
            canonical = policies.canonicalization(frontier)
            seen = txn.get(uris.fingerprint(canonical(href)), db=self._db[keys.SEEN]) is not None
            name = policies.assignment(frontier, meta.read_suffixes(txn, self._db[keys.META]))(CrawlUri(href))
            queue = snapshot.find_queue(txn, self._db, name)
            entry = None
            if queue is not None:
                wanted = canonical(href)
                entry = next(
                    (p for p in snapshot.pending(txn, self._db, queue) if canonical(p.uri.url) == wanted), None
                )
                if entry is None and queue.future:
                    entry = next((p for p in snapshot.future(txn, self._db) if canonical(p.uri.url) == wanted), None)
            return {"valid": True, "url": href, "seen": seen, "pending": entry, "queue": name}
