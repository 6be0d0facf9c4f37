"""A frontier read-only, from any process: as of its last commit, without a lock."""

from __future__ import annotations

import os
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import lmdb

from budgetfrontier import uris
from budgetfrontier.errors import FrontierClosed, FrontierError, InvalidUrl, NotAFrontier
from budgetfrontier.model import CrawlUri, DeadLetter, Lease, QueueRecord, Summary
from budgetfrontier.settings import Settings, answers, policies
from budgetfrontier.settings.overrides import Override
from budgetfrontier.store import batches, keys, meta, view
from budgetfrontier.store.backup import appearing, copy, copy_memory
from budgetfrontier.store.damage import Damage
from budgetfrontier.store.environment import Environment, check_files, explain, opened_here
from budgetfrontier.store.invariants import check
from budgetfrontier.store.lock import lock_holder
from budgetfrontier.store.records import AuditEntry, Begun, Progress
from budgetfrontier.store.shared import Shared
from budgetfrontier.store.view import PendingUri, Report, Tables

_PART = 1000  # URIs that `each_pending` takes from one snapshot


class Reader:
    """A frontier read-only: as of its last commit, without a lock, whoever writes it. A context manager.

    Raises NotAFrontier, NewerSchema or CorruptFrontier, all calls included: never an error of LMDB's.

    Each call sees one snapshot, and holds it no longer. While one is held, the writer's file grows by whatever it
    changes: run through `queues()` and `scan()` without waiting for anybody, and compute or print afterwards.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if not check_files(self.path):
            raise NotAFrontier(f"there is no frontier at {self.path}; name the folder of a job")
        self._engine = opened_here(self.path)
        self._shared = Shared.join(self.path) if self._engine is None else None

    @contextmanager
    def transaction(self) -> Iterator[tuple[keys.Txn, Tables]]:
        """A transaction on the last commit, and the tables: what the functions of `store.view` take."""
        with self._named_errors(), self._begin() as found:
            yield found

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """LMDB's errors, and those of records that cannot be read, come out as ours."""
        try:
            yield
        except (lmdb.Error, Damage) as e:
            self._source()
            if "closed/deleted/dropped" in str(e):  # what LMDB says of all that was open when its map was changed
                raise FrontierError(f"{self.path} outgrew its map while it was read here; read it again") from e
            raise explain(e, self.path) from e

    @contextmanager
    def _begin(self) -> Iterator[tuple[keys.Txn, Tables]]:
        source = self._source()
        with source.env.begin() if isinstance(source, Environment) else source.begin() as txn:
            yield txn, source.db

    def _source(self) -> Shared | Environment:
        """What this looks into: the engine of this process, or what its readers share. Raises FrontierClosed."""
        if self._shared is not None:
            return self._shared
        if self._engine is None or opened_here(self.path) is not self._engine:
            raise FrontierClosed("the frontier that this looked into was closed; make another Reader")
        return self._engine

    def close(self) -> None:
        """Let go of the files."""
        shared, self._shared = self._shared, None
        if shared is not None:
            shared.leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def settings(self) -> Settings:
        """The settings in force, without the adjustments."""
        with self.transaction() as (txn, db):
            return view.settings_of(txn, db)[0]

    @property
    def adjustments(self) -> list[Override]:
        """The adjustments on top of the settings, oldest first."""
        with self.transaction() as (txn, db):
            return view.settings_of(txn, db)[1]

    def lock_pid(self) -> int | None:
        """The process that runs this frontier's engine, None if none does; 0 if it has no number on this machine."""
        return lock_holder(self.path)

    def summary(self) -> Summary:
        """The cheap counters. O(1)."""
        with self.transaction() as (txn, db):
            return view.summary(txn, db, meta.read_counters(txn, db[keys.META]))

    def report(self) -> Report:
        """The whole frontier, about 600 bytes in memory for each queue. O(queues)."""
        with self.transaction() as (txn, db):
            return view.report(txn, db, generated=time.time())

    @contextmanager
    def scan(self) -> Iterator[tuple[Report, Iterator[QueueRecord]]]:
        """The report without its rows, and these one by one; one snapshot, held until the end of the `with` block."""

        def rows() -> Iterator[QueueRecord]:
            with self._named_errors():
                yield from view.queues(txn, db)

        with ExitStack() as stack:  # errors within the caller's block are not ours
            with self._named_errors():
                txn, db = stack.enter_context(self._begin())
                head = view.report_head(txn, db, generated=time.time())
            yield head, rows()

    def queues(self) -> Iterator[QueueRecord]:
        """Every queue, oldest first. Holds one snapshot until it is done."""
        with self.transaction() as (txn, db):
            yield from view.queues(txn, db)

    def sorted_queues(
        self,
        key: Callable[[QueueRecord], Any],
        *,
        reverse: bool = False,
        where: Callable[[QueueRecord], bool] | None = None,
    ) -> Iterator[QueueRecord]:
        """Every queue of which `where` is true, sorted as by `sorted`. Memory: the keys, and about 50 bytes each."""
        with self.transaction() as (txn, db):
            ids, sort_keys = array("I"), []
            for queue in filter(where, view.queues(txn, db)):
                ids.append(queue.id)
                sort_keys.append(key(queue))
            order = sorted(range(len(ids)), key=sort_keys.__getitem__, reverse=reverse)
            yield from view.queues_by_id(txn, db, map(ids.__getitem__, order))

    def queue(self, key: str) -> QueueRecord | None:
        """A queue by its key, None if there is none."""
        with self.transaction() as (txn, db):
            queue = view.find_queue(txn, db, key)
            return None if queue is None else view.Budgets(txn, db).show(queue)

    def names(self, prefix: str, limit: int) -> list[str]:
        """The first keys of queues that begin with `prefix`, sorted by their bytes. O(answer)."""
        with self.transaction() as (txn, db):
            return list(islice(view.names(txn, db, prefix), limit))

    def turns_before(self, queue: QueueRecord) -> tuple[int, int]:
        """How many queues have their turn before a READY or INACTIVE one: of its precedence, and of a better one.

        O(answer), less than 0.1 us each.
        """
        with self.transaction() as (txn, db):
            return view.turns_before(txn, db, queue)

    def pending(self, key: str, limit: int | None = None) -> list[PendingUri]:
        """The first URIs of a queue, in the order in which they would go out."""
        with self.transaction() as (txn, db):
            queue = view.find_queue(txn, db, key)
            if queue is None:
                return []
            out = frozenset(view.keys_out(txn, db)) if queue.out else ()
            return list(view.pending(txn, db, queue, limit, out))

    def each_pending(self, key: str, *, arrived: bool = False) -> Iterator[PendingUri]:
        """Every URI of a queue, in the order in which they would go out; neither their places nor which are out.

        `arrived`: those that are equal but for their arrival in the order of that, with `order: lifo`, too.

        Every thousand are of another snapshot, and none is held while they are used: take all the time you like. What
        comes and goes meanwhile may or may not be among them; all that stays is, once.
        """
        take = batches.arrived if arrived else batches.pending
        rest: bytes | None = b""
        while rest is not None:
            with self.transaction() as (txn, db):
                queue = view.find_queue(txn, db, key)
                part, rest = ([], None) if queue is None else take(txn, db, queue, rest, _PART)
            yield from part

    def each_future(self) -> Iterator[PendingUri]:
        """Every URI that is scheduled for later, soonest first. Snapshots are as with `each_pending`."""
        rest: bytes | None = b""
        while rest is not None:
            with self.transaction() as (txn, db):
                part, rest = batches.future(txn, db, rest, _PART)
            yield from part

    def cost_of(self, key: str, count: int) -> int:
        """What the first `count` URIs of a queue cost together. O(count)."""
        with self.transaction() as (txn, db):
            queue = view.find_queue(txn, db, key)
            return 0 if queue is None else sum(view.costs(txn, db, queue, count))

    def future(self, limit: int | None = None) -> list[PendingUri]:
        """What is scheduled for later, soonest first."""
        with self.transaction() as (txn, db):
            return list(islice(view.future(txn, db), limit))

    def leases(self) -> list[Lease]:
        """The leases that were out at the last commit."""
        with self.transaction() as (txn, db):
            return list(view.leases(txn, db))

    def dead_letters(self, limit: int | None = None) -> list[DeadLetter]:
        """The dead letters, oldest first."""
        with self.transaction() as (txn, db):
            return view.dead_letters(txn, db, limit)

    def audit(self, limit: int | None = None) -> list[AuditEntry]:
        """The commands that were applied, newest last. O(answer)."""
        with self.transaction() as (txn, db):
            return view.audit(txn, db, limit)

    def backup(self, path: str | os.PathLike[str], *, max_growth: int | None = None) -> None:
        """Copy the frontier as of its last commit into the folder `path`, which may not be there yet, or is empty.

        `path` appears when the copy is whole and synced; it is a frontier like any other. The file that is copied grows
        as long as a copy is made of it, if somebody writes: FrontierError once by `max_growth` bytes (default: by its
        own size, or 1 GiB if that is more). StorageFull if `path` has no room. O(file).
        """
        with appearing(Path(path)) as folder, self.transaction():
            copy(self._source().env, self.path, folder, max_growth=max_growth)
            copy_memory(self.path, folder)

    def check(self) -> None:
        """Verify every invariant; raises CorruptFrontier. O(everything)."""
        with self.transaction() as (txn, db):
            check(txn, db)

    def answer(self, number: int) -> AuditEntry | None:
        """The entry of a command by its number in the mailbox, None while it is not applied."""
        with self.transaction() as (txn, db):
            counters = meta.read_counters(txn, db[keys.META])
            if counters.command < number and number not in counters.ahead:
                return None
            for entry in view.newest(txn, db):
                if entry.number == number:
                    return entry
            raise FrontierError(f"command {number} was applied, but the audit does not know it")

    def in_progress(self) -> tuple[Begun, Progress] | None:
        """The command that takes long and is being applied, and how far it had come at the last commit; None: none."""
        with self.transaction() as (txn, db):
            return meta.read_begun(txn, db[keys.META])

    def last_retirement(self, key: str) -> AuditEntry | None:
        """The entry of the last command that retired a queue by name. O(entries since)."""
        with self.transaction() as (txn, db):
            retirements = (entry for entry in view.newest(txn, db) if entry.command == "retire" and not entry.error)
            return next((entry for entry in retirements if entry.args.get("queue") == key), None)

    def find(self, url: str) -> dict[str, Any]:
        """What is known of a URL: `valid` (or the `reason` why not), `seen`, its `queue`, and its entry as `pending`
        (a PendingUri) or `dead` (a DeadLetter).

        O(URIs of its queue): 0.3 us each to find this very URL, or 3 us to find one with the same canonical form, or
        none; then O(URIs scheduled for later) and O(dead letters). Raises PolicyError.
        """
        try:
            href = uris.parse(url)
        except InvalidUrl as e:
            return {"valid": False, "reason": str(e), "seen": False, "queue": None, "pending": None, "dead": None}
        with self.transaction() as (txn, db):
            frontier = view.settings_of(txn, db)[0].frontier
            canonical = partial(answers.form, policies.canonicalization(frontier), frontier.canonicalization_policy)
            seen = txn.get(uris.fingerprint(canonical(href)), db=db[keys.SEEN]) is not None
            assign = policies.assignment(frontier, meta.read_suffixes(txn, db[keys.META]))
            name = answers.queue_key(assign, frontier.queue_assignment_policy, CrawlUri(href))
            queue = view.find_queue(txn, db, name)
            pending = None
            if queue is not None:
                pending = view.find_pending(txn, db, queue, href, canonical)
                pending = pending or view.find_future(txn, db, queue, href, canonical)
            dead = None if pending else view.find_dead(txn, db, href)
            return {"valid": True, "url": href, "seen": seen, "queue": name, "pending": pending, "dead": dead}
