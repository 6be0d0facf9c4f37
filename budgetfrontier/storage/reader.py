"""Read-only access to a frontier from any process, as of its last commit, without a lock."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Container, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import islice
from math import inf
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from budgetfrontier.core.model import DeadLetter, Process, QueueRecord, QueueState, Run, StoredLease, Summary
from budgetfrontier.errors import FrontierError
from budgetfrontier.rules.verdict import Standing, Verdict, verdict
from budgetfrontier.settings import Settings
from budgetfrontier.settings.overrides import Override
from budgetfrontier.storage import bloom_file, pending_pages, queue_listing, series, turn_order, url_search
from budgetfrontier.storage.backup import atomic_folder, copy, copy_cache
from budgetfrontier.storage.budgets_in_force import BudgetsInForce
from budgetfrontier.storage.group_listing import listed
from budgetfrontier.storage.invariants import check
from budgetfrontier.storage.last_commit import LastCommit
from budgetfrontier.storage.lock import lock_holder
from budgetfrontier.storage.process import process, runs
from budgetfrontier.storage.records import AuditEntry, Progress, StartedCommand
from budgetfrontier.storage.report import Report, report, report_head
from budgetfrontier.storage.series import Busiest, SeriesRow
from budgetfrontier.storage.space import Space, space
from budgetfrontier.storage.standing import standing
from budgetfrontier.storage.view import PendingUri, View
from budgetfrontier.storage.whole_files import held_open

_PART = 1000  # URIs that `each_pending` takes from one snapshot


def _chosen(view: View, states: Container[QueueState] | None, over_budget: bool) -> Iterator[QueueRecord]:
    if over_budget and states is None:
        states = frozenset(QueueState) - {QueueState.EXHAUSTED}  # they hold no URI
    found = queue_listing.queues(view) if states is None else queue_listing.queues_in(view, states)
    return filter(BudgetsInForce(view).over_budget, found) if over_budget else found


class Reader:
    """A frontier opened read-only: as of its last commit, without a lock, even while it is written. A context manager.

    All methods raise NotAFrontier, NewerSchema or CorruptFrontier, and never an error of LMDB.

    Each call reads one snapshot, and releases it when it returns. While a snapshot is held, the writer's file grows
    with each change: iterate over `queues()` and `scan()` without delay, and compute or print afterwards.
    """

    def __init__(self, path: str | os.PathLike[str], *, now: Callable[[], float] | None = None) -> None:
        """Open the frontier at `path`; `now` returns the time by which ages and waits are said, if not the system's."""
        self._last_commit = LastCommit(path, now)
        self.path = self._last_commit.path

    def __repr__(self) -> str:
        return f"<Reader {self.path}: {'closed' if self._last_commit.is_closed else 'open'}>"

    def close(self) -> None:
        """Close the files."""
        self._last_commit.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def view(self) -> AbstractContextManager[View]:
        """Hold one snapshot until the end of the `with` block, as a `View`."""
        return self._last_commit.view()

    @property
    def settings(self) -> Settings:
        """The settings in force, without the adjustments."""
        with self.view() as view:
            return view.settings()[0]

    @property
    def adjustments(self) -> list[Override]:
        """The adjustments on top of the settings, oldest first."""
        with self.view() as view:
            return view.adjustments()

    def lock_pid(self) -> int | None:
        """Return the pid of the process that runs the engine; None if there is none, 0 if it has no pid here."""
        return lock_holder(self.path)

    def process(self) -> Process:
        """Return the process that has the frontier open for writing, if any, and how the last one stopped. O(1)."""
        with self.view() as view:
            return process(view, self.path)

    def standing(self, now: float | None = None) -> Standing:
        """Return the facts that `Reader.verdict` is made from, as of now or of another time. O(1)."""
        with self.view() as view:
            return standing(view, self.path, now=view.now() if now is None else now)

    def verdict(self) -> Verdict:
        """Return whether the crawl goes on, or why nothing is being crawled, in one sentence. O(1)."""
        return verdict(self.standing())

    def runs(self, limit: int | None = None) -> list[Run]:
        """Return the last `limit` runs, 0 or None: all, newest last; a run that goes on has no end. O(result)."""
        with self.view() as view:
            newest_first = runs(view, self.path, holder=self.lock_pid())
            return list(islice(newest_first, limit or None))[::-1]

    def space(self) -> Space:
        """Return the space that the frontier takes on disk, and the lag of its oldest reader. O(readers)."""
        with self._last_commit.translated():
            return space(self._last_commit.env)

    def note(self) -> bytes | None:
        """Return the note of the last atomic batch that had one; None if there was none."""
        with self.view() as view:
            return view.note()

    def row(self, name: bytes) -> bytes | None:
        """Return a row of whoever drives the frontier, one of `meta.OWNED`; None if there is none."""
        with self.view() as view:
            return view.row(name)

    def summary(self) -> Summary:
        """Return the totals. O(1)."""
        with self.view() as view:
            return view.summary()

    def report(self) -> Report:
        """Return the report of the whole frontier. O(queues); memory: about 600 bytes per queue."""
        with self.view() as view:
            return report(view, self.path, generated=view.now())

    @contextmanager
    def scan(self) -> Iterator[tuple[Report, Iterator[QueueRecord]]]:
        """Hold one snapshot until the end of the `with` block: the report without rows, and an iterator of the rows.

        O(groups of queues) at first, then as `queues()`.
        """

        def rows() -> Iterator[QueueRecord]:
            with self._last_commit.translated():
                yield from queue_listing.queues(view)

        with ExitStack() as stack:  # errors in the caller's block are not translated
            with self._last_commit.translated():
                view = stack.enter_context(self._last_commit.begin())
                head = report_head(view, self.path, generated=view.now())
                head.groups = listed(view, head.generated)
            yield head, rows()

    def queues(
        self, states: Container[QueueState] | None = None, *, over_budget: bool = False
    ) -> Iterator[QueueRecord]:
        """Yield every queue, oldest first, or those in these states, or only those `over_budget`, as `sorted_queues`.

        Holds one snapshot until the iterator is exhausted or closed. O(queues), about 1 us each; for states without
        EXHAUSTED O(result), about 4 us each, if that is less.
        """
        with self.view() as view:
            yield from _chosen(view, states, over_budget)

    def sorted_queues(
        self,
        key: Callable[[QueueRecord], Any],
        *,
        reverse: bool = False,
        where: Callable[[QueueRecord], bool] | None = None,
        states: Container[QueueState] | None = None,
        over_budget: bool = False,
    ) -> Iterator[QueueRecord]:
        """Yield the queues in these states for which `where` is true, sorted like by `sorted`.

        `over_budget`: only queues that are retired for their budgets, or will be on their next turn.

        Memory: the sort keys, and about 50 bytes per queue.
        """
        with self.view() as view:
            ids, sort_keys = array("I"), []
            for queue in filter(where, _chosen(view, states, over_budget)):
                ids.append(queue.id)
                sort_keys.append(key(queue))
            order = sorted(range(len(ids)), key=sort_keys.__getitem__, reverse=reverse)
            yield from queue_listing.queues_by_id(view, map(ids.__getitem__, order))

    def queue(self, key: str) -> QueueRecord | None:
        """Return a queue by its key, in any spelling of its host; None if there is none. O(log n)."""
        with self.view() as view:
            queue = view.find_queue(view.named(key))
            return None if queue is None else BudgetsInForce(view).show(queue)

    def names(self, prefix: str, limit: int) -> list[str]:
        """Return the first `limit` queue keys that begin with `prefix`, sorted by their bytes. O(result)."""
        with self.view() as view:
            return list(islice(view.names(prefix), limit))

    def turns_before(self, queue: QueueRecord) -> tuple[int, int]:
        """Count the queues with a turn before that of a READY or INACTIVE one: of its precedence, and of better ones.

        O(result), less than 0.1 us each.
        """
        with self.view() as view:
            return turn_order.turns_before(view, queue)

    def pending(self, key: str, limit: int | None = None) -> list[PendingUri]:
        """Return the first URIs of a queue, in the order of their leases. O(result)."""
        with self.view() as view:
            queue = view.find_queue(key)
            if queue is None:
                return []
            out = frozenset(view.leased_keys()) if queue.out else ()
            return list(view.pending(queue, limit, out))

    def each_pending(self, key: str, *, arrived: bool = False) -> Iterator[PendingUri]:
        """Yield every URI of a queue, in the order of their leases; `place` and `leased` are not set.

        `arrived`: URIs of equal rank are in the order of arrival, with `order: lifo` too.

        A new snapshot is read for every thousand URIs, and none is held in between, so that the caller may take its
        time. URIs that are added or removed meanwhile may be missing; all others are yielded once.
        """
        take = pending_pages.by_arrival if arrived else pending_pages.pending
        rest: bytes | None = b""
        while rest is not None:
            with self.view() as view:
                queue = view.find_queue(key)
                part, rest = ([], None) if queue is None else take(view, queue, rest, _PART)
            yield from part

    def each_future(self) -> Iterator[PendingUri]:
        """Yield every URI that is scheduled for later, soonest first; with snapshots as in `each_pending`."""
        rest: bytes | None = b""
        while rest is not None:
            with self.view() as view:
                part, rest = pending_pages.future(view, rest, _PART)
            yield from part

    def cost_of(self, key: str, count: int) -> int:
        """Return the total cost of the first `count` URIs of a queue. O(count)."""
        with self.view() as view:
            queue = view.find_queue(key)
            return 0 if queue is None else sum(view.costs(queue, count))

    def future(self, limit: int | None = None) -> list[PendingUri]:
        """Return the URIs scheduled for later, soonest first. O(result)."""
        with self.view() as view:
            return list(islice(view.future(), limit or None))

    def leases(self) -> list[StoredLease]:
        """Return the leases that were out at the last commit. O(result)."""
        with self.view() as view:
            return list(view.leases())

    def dead_letters(self, limit: int | None = None) -> list[DeadLetter]:
        """Return the dead letters, oldest first. O(result)."""
        with self.view() as view:
            return view.dead_letters(limit)

    def audit_entry(self, number: int) -> AuditEntry | None:
        """Return an audit entry by its id; None if there is none. O(log n)."""
        with self.view() as view:
            return view.audit_entry(number)

    def audit(self, limit: int | None = None) -> list[AuditEntry]:
        """Return the commands that were applied, newest last. O(result)."""
        with self.view() as view:
            return view.audit(limit)

    def series(self, since: float = 0.0, until: float = inf, *, preceded: bool = False) -> list[SeriesRow]:
        """Return the totals over time: each minute of the last 25 hours, each hour of 30 days, and each day before.

        Those of each run are in order of time. `since` and `until` are epoch seconds; with `preceded`, rows before
        `since` come first with which all changes since then can be computed. Of older times, the beginning and the end
        of each stretch of crawling are kept, too. While nothing changes there are no rows. O(result): at most 2,300
        rows and one a day, and two for each stop.
        """
        with self.view() as view:
            rows = list(series.totals(view.txn, view.db, since, until))
            return series.preceded(view.txn, view.db, since, rows) if preceded else rows

    def busiest(self, since: float, until: float = inf) -> Busiest:
        """Return the queues that spent and fetched most between two times (epoch seconds), the busiest first.

        No count is too high; one that may be too low comes with its upper bound. At most 1,000 queues of each hour are
        known, for 30 days, and of each day before that. O(hours).
        """
        with self.view() as view:
            return series.busiest(view, since, until)

    def backup(self, path: str | os.PathLike[str], *, max_growth: int | None = None, bare: bool = False) -> None:
        """Copy the frontier as of its last commit to the folder `path`, which must be empty or not exist.

        `path` appears when the copy is complete and synced; it is a frontier like any other. While it is copied, the
        original grows with each change: FrontierError is raised once it has grown by `max_growth` bytes (default: by
        its own size, or 1 GiB if that is more), StorageFull if the disk of `path` is full. O(file).

        A `bare` copy is without the crawler's cache.
        """
        with (
            atomic_folder(Path(path)) as folder,
            held_open(bloom_file.files(self.path)) as filters,
            self.view(),
        ):
            copy(self._last_commit.env, self.path, folder, max_growth=max_growth)
            bloom_file.copy_filter(self.path, folder, filters)
            if not bare:
                copy_cache(self.path, folder)

    def check(self) -> None:
        """Check every invariant. Raises CorruptFrontier. O(all records)."""
        with self.view() as view:
            check(view.txn, view.db, self.path)

    def answer(self, number: int) -> AuditEntry | None:
        """Return the audit entry of a command by its number in the mailbox; None until it is applied. O(later ones)."""
        with self.view() as view:
            counters = view.counters()
            if counters.command < number and number not in counters.ahead:
                return None
            for entry in view.newest_commands():
                if entry.number == number:
                    return entry
            raise FrontierError(f"command {number} was applied, but the audit does not know it")

    def in_progress(self) -> tuple[StartedCommand, Progress] | None:
        """Return the command in progress, and its progress as of the last commit; None if there is none."""
        with self.view() as view:
            return view.in_progress()

    def find(self, url: str, *, anywhere: bool = False) -> dict[str, Any]:
        """Return the records of a URL: `valid` (or the `reason` why not), `seen`, its `queue`, and its entry.

        If it may have been seen all the same, `doubt` says why: the Bloom filter is damaged, or there is no record.

        The entry is `pending` (a PendingUri) or `dead` (a DeadLetter). In a frontier that keeps its URLs, `kept` is the
        KeptUrl without its `uri`, and the queue is its own, even if its host has another.

        O(URIs of its queue): 0.3 us each if the very URL is found, otherwise 3 us each to compare canonical forms; then
        O(URIs scheduled for later) and O(dead letters). With `anywhere`, the very URL is looked for on all other
        queues, too, O(URIs). A Bloom filter is read as a whole. Raises PolicyError.
        """
        with self.view() as view:
            found = url_search.find(view, url, anywhere=anywhere)
        if found["doubt"]:  # perhaps a Bloom filter that has grown since, whose older file is gone
            with self.view() as view:
                found = url_search.find(view, url, anywhere=anywhere)
        return found
