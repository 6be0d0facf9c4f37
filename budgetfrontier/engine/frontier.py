"""The frontier: the public API, which calls the parts of the engine under the guard."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from functools import partial, wraps
from math import inf
from pathlib import Path
from threading import get_ident
from time import monotonic
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from msgspec.structs import force_setattr

from budgetfrontier.clock import Clock, WallClock
from budgetfrontier.core.model import (
    Admission,
    CrawlState,
    CrawlUri,
    DeadLetter,
    Finish,
    KeptUrl,
    Lease,
    Outcome,
    QueueRecord,
    RunEnd,
    Summary,
    Tally,
)
from budgetfrontier.engine import arguments, known_urls, native, opening, reporting
from budgetfrontier.engine.api_commands import Steering
from budgetfrontier.engine.atomic import AtomicBatch
from budgetfrontier.engine.batches import Batches
from budgetfrontier.engine.changelog import Changelog
from budgetfrontier.engine.commands.adjustment import Adjustment
from budgetfrontier.engine.delivery import Delivery
from budgetfrontier.engine.disk_guard import DiskGuard
from budgetfrontier.engine.finish import Finisher
from budgetfrontier.engine.finish_many import BatchFinisher
from budgetfrontier.engine.guard import ANSWERING, BROKEN, GATHERING, INSIDE, Guard
from budgetfrontier.engine.hooks import Hooks
from budgetfrontier.engine.hooks import check as check_hooks
from budgetfrontier.engine.internals import Internals
from budgetfrontier.engine.known_urls import KnownUrls
from budgetfrontier.engine.lost_frontiers import close_waiting, watch
from budgetfrontier.engine.plain_turns import CUT_SHORT, DUE, MOST_ANSWERED
from budgetfrontier.engine.runs import this_program
from budgetfrontier.errors import FrontierBusy, FrontierError
from budgetfrontier.rules import run_history
from budgetfrontier.rules.verdict import Verdict
from budgetfrontier.settings import Settings, as_settings
from budgetfrontier.settings.overrides import Override
from budgetfrontier.storage import keys, meta
from budgetfrontier.storage.invariants import check
from budgetfrontier.storage.records import AuditEntry
from budgetfrontier.storage.report import Report, status_line

_Call = TypeVar("_Call", bound=Callable[..., None])


def _answered_first(finish: _Call) -> _Call:
    """Let the kernel answer calls of `Frontier.finish` if it can, and end a lease that is given alone as a success.

    The arguments are looked at as they are given: to fill in the defaults of a dozen options, and check them, costs a
    tenth of a lease and its finish.
    """

    @wraps(finish)
    def answered_first(self: Frontier, lease: Lease, *outcome: Any, **options: Any) -> None:
        guard = self._guard
        if guard.owner == ANSWERING:
            try:
                answered = self._answers.finish(lease, self._plain, outcome, options)
            except BaseException as e:
                guard.owner = BROKEN
                guard.abort(e)
            if answered:
                if answered == DUE:
                    guard.leave(0)
                return
        if outcome or options:
            finish(self, lease, *outcome, **options)
        else:
            self._end(lease, None)

    return cast("_Call", answered_first)


class Frontier:
    """A crawl frontier in one LMDB environment: opened by `Frontier.open`, owned by one thread of one process.

    `open` it, `schedule` URIs, `lease` those that may be fetched now, and `finish` each with its outcome; when there is
    none, `commit`, and sleep for `next_ready_in` seconds. `summary`, `verdict`, `report`, `queue` and `dead_letters`
    show its state; `adjust`, `pause`, `retire`, `delete` and `replay` steer it, and `undo` takes that back.

    All calls are synchronous and never wait for work. The effect of a call is durable after the next commit: every
    `commit_interval` seconds (checked when a call ends), on `commit()`, and on `close()`. Commands take `reason` and
    `who` (None: "api"), which the audit keeps.
    """

    def __init__(
        self,
        parts: opening.Parts,
        *,
        clock: Clock | None = None,
        hooks: Sequence[object] = (),
        keep_leases: bool = False,
        disks: Iterable[Path] | None = (),
    ) -> None:
        if not isinstance(parts, opening.Parts):
            raise arguments.not_opened(parts, "Frontier")
        self._keep_leases = keep_leases
        self._hooks = Hooks(self, hooks)
        self._hooks.attach(parts.kernel, parts.buried, paused=parts.paused)
        self._guard = Guard(parts, clock or WallClock(), self._hooks)
        self._delivery = Delivery(self._guard, parts.commands, parts.mailbox)
        disk_guard = DiskGuard(self._guard, self._delivery, disks)
        self._guard.watching = watch(self, parts.kernel.tables.env, parts.mailbox)
        self._kernel = parts.kernel
        self._tables = parts.kernel.tables
        self._counters = parts.kernel.counters
        self._admitter = parts.admitter
        self._gather = parts.admitter.gather
        self._scheduled = -1
        """The changes since the last commit, as of the last URI that `schedule` has placed at once."""
        self._finisher = Finisher(self._tables, self._kernel.turns, self._admitter)
        self._known: KnownUrls | None = None
        self._batches = Batches(self._guard, self._admitter)
        self._batch_finisher = BatchFinisher(self._guard, self._finisher)
        if self._tables.urls is not None:
            self._tables.urls.now = self._guard.now
            self._tables.urls.shortcut = self._admitter.known_fingerprint
            self._known = KnownUrls(
                self._tables.urls,
                self._tables,
                self._kernel.turns,
                self._admitter,
                self._finisher,
            )
            self._kernel.put_again = self._known.put_again
        self._steering = Steering(self._guard, self._delivery)
        recorder = parts.recorder
        changelog = None if recorder is None else Changelog(self._guard, self._delivery, recorder)
        self._internals = Internals(
            self._guard,
            self._admitter,
            self._batches,
            self._steering,
            disk_guard=disk_guard,
            known=self._known,
            changelog=changelog,
        )
        self._plain = self._kernel.turns.plain
        self._answers: Any = None if self._plain is None else self._plain.kernel

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        settings: Settings | dict[str, Any] | None = None,
        *,
        clock: Clock | None = None,
        hooks: Sequence[object] = (),
        keep_leases: bool = False,
        program: str | None = None,
        partition: int | None = None,
        suffix_list: str | None = None,
        disks: Iterable[str | os.PathLike[str]] | None = (),
    ) -> Self:
        """Open the frontier in the folder `path`, or create it there; ":memory:" opens one that is not stored.

        `settings`, a Settings or a dict for `Settings.from_dict`, replace the stored ones (None: the stored ones, else
        the defaults); adjustments stay on top. Leases of a process that died are dropped and their URIs delivered
        again, unless `keep_leases`. `hooks` are objects whose methods, such as `on_finish`, the frontier calls.
        `program` is the name of the opening program in reports and the history of runs (None: this program's). `disks`
        are folders besides `path` whose disks `guards.min_free` looks at (None: it does not even look at that one, for
        a program that leases nothing). Raises
        FrontierLocked, NotAFrontier, NewerSchema, CorruptFrontier, SettingsError, StorageFull or PermissionError, and
        then has written nothing. Cost: O(READY queues + leases that were out), not O(URIs).

        For crawls in partitions: the frontier of a `partition`, by its number, commits nothing before its log has it,
        see `internals.changelog`, and is refused if it is opened without this option; `suffix_list` is the text of a
        new frontier's public suffix list.
        """
        close_waiting()
        folder, clock, hooks = arguments.folder(path), arguments.clock(clock) or WallClock(), arguments.hooks(hooks)
        check_hooks(hooks)
        program = this_program() if program is None else arguments.text(program, "program")
        keep_leases = arguments.flag(keep_leases, "keep_leases")
        partition = None if partition is None else arguments.partition(partition)
        suffix_list = None if suffix_list is None else arguments.text(suffix_list, "suffix_list")
        watched = None if disks is None else arguments.folders(disks)
        parts = opening.open_parts(
            folder, as_settings(settings), now=arguments.time_of_clock(clock.time()), keep_leases=keep_leases,
            program=program, partition=partition, suffix_list=suffix_list,
        )  # fmt: skip
        try:
            frontier = cls(
                parts, clock=clock, hooks=[*hooks, *parts.hooks], keep_leases=keep_leases, disks=watched,
            )  # fmt: skip
        except BaseException:
            parts.close()
            raise
        frontier._guard.operate(frontier._delivery.read_mailbox)
        frontier._internals.look_at_disks()
        return frontier

    # -- URIs in

    def schedule(self, uri: str | CrawlUri) -> Admission:
        """Schedule one URI, unless it is known. A bad URI is INVALID, not an exception. O(log n), 2 to 6 µs.

        URIs are the same if their canonical forms are. Raises TypeError for anything but a str or a CrawlUri (INVALID
        in a batch), and PolicyError if a policy fails, as all calls that take URIs do: then nothing has changed.
        """
        guard = self._guard
        if guard.owner == GATHERING:
            try:
                gathered = self._gather(uri)
            except BaseException as e:
                guard.owner = BROKEN
                guard.abort(e)
            if gathered is not None:
                if gathered.__class__ is not tuple:
                    return gathered  # type: ignore[return-value]
                guard.leave(0)
                return gathered[0]
        if type(uri) is not str:
            arguments.uri(uri)
        guard.enter()
        try:
            guard.owner = INSIDE
            admission, owner = self._admit_one(uri, guard.now())
            guard.commits.changes += 1
            guard.owner = owner
        except BaseException as e:
            guard.owner = BROKEN
            guard.abort(e)
        if owner != GATHERING or guard.commits.changes >= guard.commits.most or monotonic() >= guard.commits.next_tick:
            guard.leave(0)
        return admission

    def _admit_one(self, uri: str | CrawlUri, now: float) -> tuple[Admission, int]:
        """Admit a URI; return also whom the frontier belongs to then.

        A URI that follows on one that was admitted here is gathered, if it may be placed on its queue later, and so are
        those after it. One alone would cost more that way.
        """
        guard, commits = self._guard, self._guard.commits
        if self._plain is not None and commits.changes == self._scheduled:
            admission = self._admitter.begin_to_gather(uri, now, guard.of_calls(inf, 1))
            if admission is not None:
                return admission, GATHERING
        admission = self._admitter.take_one(uri, now)
        if admission is Admission.ADDED:
            self._tables.count_found(1)
        guard.settle()
        self._scheduled = commits.changes + 1
        return admission, guard.thread

    def schedule_many(self, uris: Iterable[str | CrawlUri]) -> Tally:
        """Schedule many URIs, in order, and count the results. Bad URIs do not affect the others.

        The tally counts bad ones by reason. Cheaper per URI than `schedule`. Every 1,000 are an operation
        of their own, so that an endless iterable is committed while it is read; if a policy fails, earlier operations
        stay.
        """
        return self._batches.schedule(uris)

    def schedule_each(self, uris: Iterable[str | CrawlUri]) -> list[Admission]:
        """Schedule many URIs, in order; return the result for each. Costs a tenth more than `schedule_many`.

        A bad URI is INVALID, not an exception. O(answer) memory: use `schedule_many` for an endless iterable.
        """
        return self._batches.schedule_each(uris)

    def mark_seen(self, uris: Iterable[str | CrawlUri], *, charge: bool = False) -> Tally:
        """Mark URIs that were fetched elsewhere as seen; nothing is queued, and pending URIs stay pending.

        With `charge`, the cost of each URI not seen before is added to the expenditure of its queue, so that it counts
        towards the total budget, but not the activity balance. The tally counts as `added` the URIs not seen before.
        A frontier that keeps its URLs has them as completed.
        """
        return self._batches.mark_seen(uris, charge=arguments.flag(charge, "charge"))

    def find_url(self, url: str) -> KeptUrl | None:
        """Return the state of a URL; None if it is not known. Needs `frontier.keep_urls`. Raises InvalidUrl."""
        known, url = known_urls.kept(self._known, self._guard), arguments.text(url, "a URL")
        fingerprint = self._admitter.fingerprint(CrawlUri(url))  # before the operation, which a bad URL would end
        return self._guard.operate(lambda: known.find(fingerprint), changes=0)

    # -- URIs out

    def lease(self, count: int = 1, *, ttl: float | None = None) -> list[Lease]:
        """Lease up to `count` URIs, for `ttl` seconds each (None: `lease_ttl`). Never blocks, may return none.

        Expired leases, URIs due and snoozed queues due are processed first. An empty answer commits all changes. A
        call activates at most 1,000 queues: ask `next_ready_in` before sleeping. Raises PolicyError if a policy fails
        before the first URI; if it fails after it, the next call raises. O(1) per URI, about 2 µs.
        """
        guard = self._guard
        leases: list[Lease] = []
        if guard.owner == ANSWERING and count.__class__ is int and 0 < count <= MOST_ANSWERED:
            wait = None if ttl is None else self._tables.in_force.lease_ttl(ttl)
            try:
                answered = self._answers.lease(leases, count, self._plain, wait)
            except BaseException as e:
                guard.owner = BROKEN
                guard.abort(e)
            if answered:
                if answered == CUT_SHORT:
                    self._kernel.turns.cut_short = True
                    guard.operate(partial(guard.commit_after_lease, len(leases), count), changes=0)
                elif answered == DUE:
                    guard.leave(0)
                return leases
        count, wait = arguments.whole(count, "count"), self._tables.in_force.lease_ttl(ttl)
        if guard.lease(lambda now: self._kernel.lease(leases, count, wait, now), count):
            guard.answer()
        return leases

    @_answered_first
    def finish(
        self,
        lease: Lease,
        outcome: Outcome = Outcome.SUCCESS,
        *,
        fetch_seconds: float | None = None,
        crawl_delay: float | None = None,
        discovered: Iterable[str | CrawlUri] = (),
        reason: str = "",
        delay: float | None = None,
        retire_queue: bool = False,
        size: int = 0,
        status: int = 0,
        novel: bool | None = None,
        address: str = "",
        digest: bytes = b"",
    ) -> None:
        """End a lease: charge the attempt, and move the URI and its queue as the outcome requires.

        `fetch_seconds` and robots' `crawl_delay` determine the politeness delay of the queue; `delay` (seconds)
        replaces `retry.delay` and `retry.status_delay` for a RETRY, and is a minimum of the delay for other outcomes.
        `discovered` are URIs found in the fetch: they are scheduled before the charge, with this URI as their via,
        except a revisit (this URI with `force`). `reason` is stored with a dead letter, and with the queue as that of
        its last failed attempt. `size` is that of the response in bytes, whatever the outcome; the queue and the totals
        add it up. `status` is that of the HTTP response (0: not given): a SUCCESS with 400 or more is counted as an
        answer with an error; after 429 and 503 the host rests as `frontier.backoff` says, or for `delay`, its
        Retry-After, if that is not 0; after any other, a RETRY sets only its URI aside, for `retry.status_delay`.
        `novel` is whether the payload is new (None: not known, and a SUCCESS counts as new); `address` is the IP
        address that the response came from, `digest` any hash of its content, by which repeated contents are counted.
        Raises LeaseExpired for a lease that has ended, and PolicyError, having changed nothing. For a lease that has
        landed, `fetch_seconds` and `crawl_delay` are ignored.
        """
        self._guard.enter()
        ending = self._batch_finisher.checked(
            Finish(
                lease,
                outcome,
                fetch_seconds=fetch_seconds,
                crawl_delay=crawl_delay,
                discovered=discovered,
                reason=reason,
                delay=delay,
                retire_queue=retire_queue,
                size=size,
                status=status,
                novel=novel,
                address=address,
                digest=digest,
            )
        )
        self._end(lease, ending)

    def _end(self, lease: Lease, ending: Finish | None) -> None:
        """End a lease, as a success if no ending is given. Raises LeaseExpired."""
        guard = self._guard
        found: Sequence[object] = () if ending is None else ending.discovered  # type: ignore[assignment]  # it was checked
        guard.operate_on(
            arguments.lease(lease, "finish"),
            lambda mine, now: self._batch_finisher.end(mine, ending, now),
            changes=1 + len(found),
        )
        if ending is None or ending.outcome is Outcome.SUCCESS:
            guard.answer()

    def finish_many(self, finished: Iterable[Lease | Finish]) -> list[Lease]:
        """End many leases in order, as `finish` would one after the other, for less each.

        A bare lease ends as SUCCESS; `Finish(lease, outcome, ...)` takes the arguments of `finish`. Everything is
        checked before anything changes. Returns the leases that had already ended, and those given twice; the others
        end. Every 1,000, counting the URIs discovered, are an operation of their own, that may be committed. Raises
        PolicyError; leases before the URI for which a policy fails have ended then. O(1) for each.
        """
        late: list[Lease] = []
        guard = self._guard
        if guard.owner == ANSWERING and finished.__class__ is list and len(finished) <= MOST_ANSWERED:
            try:
                place, answered = self._answers.finish_many(finished, late, self._plain)
            except BaseException as e:
                guard.owner = BROKEN
                guard.abort(e)
            if answered:
                if answered == DUE:
                    guard.leave(0)
                return late
            if place:
                finished = finished[place:]
        return late + self._batch_finisher.finish(finished)

    def landed(self, lease: Lease, *, fetch_seconds: float | None = None, crawl_delay: float | None = None) -> None:
        """Report that the download of a lease is over, while callbacks and pipelines still determine its outcome.

        The politeness delay of its queue starts now, as `finish` would start it; afterwards the next URI may be leased,
        because a lease that has landed no longer counts towards `per_queue_concurrency`. Its cost stays reserved, and
        it is out until it is finished or expires; that finish extends the delay only for a retry or a `delay`. A second
        call changes nothing. Raises LeaseExpired for a lease that has ended, and PolicyError, having changed nothing.
        O(1).
        """
        fetch_seconds, crawl_delay, _ = arguments.waits(fetch_seconds, crawl_delay)

        def operation(mine: Lease, now: float) -> None:
            self._finisher.land(mine, fetch_seconds, crawl_delay, now)
            force_setattr(lease, "landed", True)  # the caller may have another record than `mine`

        self._guard.operate_on(arguments.lease(lease, "landed"), operation)

    def renew(self, lease: Lease, ttl: float | None = None) -> None:
        """Set the deadline of a lease to `ttl` seconds from now (None: the setting).

        Raises LeaseExpired if it has ended.
        """
        ttl = self._tables.in_force.lease_ttl(ttl)

        def operation(mine: Lease, now: float) -> None:
            self._tables.leases.renewed(mine, now + ttl)
            self._counters.last_renewed = now
            force_setattr(lease, "expires", now + ttl)  # the caller may have another record than `mine`

        self._guard.operate_on(arguments.lease(lease, "renew"), operation)

    def give_back(self, leases: Iterable[Lease]) -> list[Lease]:
        """End leases as if they had never been given: their URIs return to their places, and no delivery is counted.

        Their queues come first in the ring again, in the order of the leases; their rests stay. Returns the leases that
        had ended already, and those given twice. O(1) for each; all of them are one operation.
        """
        guard = self._guard
        guard.enter()
        given = [arguments.lease(item, "give_back") for item in guard.materialize(leases, "leases")]
        late: list[Lease] = []

        def operation() -> None:
            now = guard.now()
            self._kernel.lease_expiry.expire(now)
            in_time, chosen = self._tables.leases.in_time, dict[int, Lease]()
            for lease in given:
                mine = in_time(lease.id, now)
                if mine is None or lease.id in chosen:
                    late.append(lease)
                else:
                    chosen[lease.id] = mine
            self._kernel.lease_expiry.give_back([chosen[lease_id] for lease_id in sorted(chosen)], now)

        guard.operate(operation, changes=len(given))
        return late

    def next_ready_in(self) -> float | None:
        """Return the seconds until something may be leased; 0.0: now; None: never, as things stand.

        URIs scheduled for later and the expiry of leases count. While paused: the commit interval, because an operator
        may resume the crawl. O(1) if a lease cannot expire before something else is due, else O(leases out).
        """
        guard = self._guard
        if guard.owner == ANSWERING:
            try:
                now = self._answers.ready_at()
            except BaseException as e:
                guard.owner = BROKEN
                guard.abort(e)
            if now is not None:
                guard.asked = now
                return 0.0
        return guard.read(self._next_ready_in)

    def _next_ready_in(self) -> float | None:
        now = self._guard.asked = self._guard.now()  # who sleeps until then asks for URIs, too
        return self._kernel.next_ready_in(now)

    # -- durability

    def commit(self) -> None:
        """Commit and sync all changes so far; commands in the mailbox are applied first, long ones in part."""
        self._guard.enter()
        if self._guard.commits.in_batch:
            raise FrontierError(
                "an atomic batch is committed at its end, and not before; a partition once its log has the changes"
            )
        self._guard.operate(self._guard.tick, changes=0)

    def atomic(self, *, note: bytes | None = None) -> AtomicBatch:
        """Return a context manager that makes all calls in its block one transaction, committed at its end with a note.

        A consumer of messages stores its offset there: at any kill, the effects of a batch and its note are there, or
        neither is. The note (16 MiB at most) stays until the next one; `note` returns it. If the block raises, nothing
        of it is stored, and the frontier is closed. In the block, commands of other processes and hooks wait, and
        commands in several steps, such as `delete` and `replay`, are refused. 100,000 operations at most: more close
        the frontier; end the block when its `full` says so. Costs one commit.
        """
        return AtomicBatch(self._guard, note)

    @property
    def note(self) -> bytes | None:
        """The note of the last atomic batch that had one; None if there was none. O(its size)."""
        self._guard.enter()
        return meta.read_row(self._tables.env.txn, self._tables.env.db[keys.META], meta.NOTE)

    def close(self, *, end: RunEnd | str | None = None, reason: str = "") -> None:
        """Give the leases back uncounted, commit, and release the lock. A second close does nothing.

        `end` (a RunEnd) and `reason` are stored in the history of runs. A run without leases and `end` leaves no trace
        there.
        """
        self._guard.end(keep_leases=self._keep_leases, end=arguments.run_end(end), reason=str(reason))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._guard.forked:  # a child that leaves the block has nothing to close
            end, reason = run_history.end_of(error)
            self.close(end=end, reason=reason)

    # -- looking

    @property
    def state(self) -> CrawlState:
        """The state of the crawl. O(1)."""
        guard = self._guard
        if guard.owner not in (GATHERING, ANSWERING) or get_ident() != guard.thread:  # in these it cannot change
            guard.enter()
        return self._counters.state

    @property
    def settings(self) -> Settings:
        """The settings in force, without the adjustments. A copy: changing it changes nothing."""
        return self._tables.in_force.shown

    @property
    def adjustments(self) -> list[Override]:
        """The adjustments in force, which come after the overrides of the settings, in order. A copy."""
        self._guard.enter()
        return deepcopy(self._tables.in_force.adjustments)

    def summary(self) -> Summary:
        """Return the counters, as of now. O(1)."""
        return self._guard.read(self._tables.summary)

    def waiting(self) -> int:
        """Return how many URIs are queued and not leased. O(1); O(leases out) while queues are RETIRED or INELIGIBLE.

        It is not `queued` less `in_process`: the URIs of such queues are not queued, and some of them may be leased.
        """
        return self._guard.operate(self._tables.waiting, changes=0)

    def verdict(self, *, rate: float | None = None) -> Verdict:
        """Return whether the crawl goes on, or why nothing is being crawled, in one sentence.

        As of now, in O(queues changed since the last commit). `rate` is the number of URIs finished a second, if the
        caller knows it better.
        """
        rate = None if rate is None else arguments.rate(rate)
        return self._guard.operate(lambda: reporting.verdict_now(self._tables, self._guard.now(), rate), changes=0)

    def report(self) -> Report:
        """Return a report of all queues and totals as of now, from which all formats are made. O(queues)."""
        return self._guard.operate(lambda: reporting.full_report(self._tables, self._guard.now()), changes=0)

    def queue(self, key: str) -> QueueRecord | None:
        """Return a copy of a queue's record as of now, None if no URI was ever placed there. O(1).

        This and the commands to a queue take its host in any spelling: `EXAMPLE.org.:80` for `example.org`.
        """
        key = arguments.queue_key(key)
        return self._guard.operate(
            lambda: self._kernel.turns.settings.look_up(self._tables.queues.named(key)), changes=0
        )

    def dead_letters(self, *, limit: int | None = None) -> list[DeadLetter]:
        """Return the dead letters, oldest first. O(answer)."""
        most = arguments.limit(limit)
        return self._guard.read(lambda: self._tables.env.view().dead_letters(most))

    def audit(self, *, limit: int | None = None) -> list[AuditEntry]:
        """Return the commands that were applied, newest last. O(answer)."""
        most = arguments.limit(limit)
        return self._guard.read(lambda: self._tables.env.view().audit(most))

    def check(self) -> None:
        """Verify every invariant. Raises CorruptFrontier with those violated. O(everything)."""
        self._guard.operate(self._tables.flush, changes=0)
        self._guard.attempt(self._tables.flush)  # queued hooks may have used the frontier
        env = self._tables.env
        self._guard.read(lambda: check(env.txn, env.db, None if env.memory else env.path))

    # -- steering

    def adjust(
        self, *, match: str = "*", reason: str = "", who: str | None = None, dry_run: bool = False, **settings: Any
    ) -> Adjustment:
        """Append an override: any setting that `overrides` may set, for the hosts or queues that `match` names
        (default: all).

        Every RETIRED queue that was not retired by name is reconsidered: the first 500 in the call, the others in later
        ones. With `dry_run` nothing changes, and the answer lists the queues that would retire or revive. Raises
        SettingsError. O(leases out + adjustments); a dry run is O(queues).
        """
        return self._steering.adjust(match, settings, who, reason, dry_run)

    def withdraw(self, adjustment: int, *, reason: str = "", who: str | None = None) -> None:
        """Remove an adjustment from those in force, by its id, a change of settings like `adjust`.

        Adjustments that it replaced do not come back. Raises FrontierError if it is not in force. O(adjustments).
        """
        self._steering.steer("withdraw", {"id": arguments.entry(adjustment, "withdraw")}, who, reason)

    def undo(self, entry: int, *, force: bool = False, reason: str = "", who: str | None = None) -> None:
        """Undo the command of an audit entry.

        That is adjust, withdraw, retire, unretire, snooze, wake, set_queue, pause, resume, an undo of these, delete,
        drop_dead_letters, and the commands `forget` and `bury` (an import of dead letters). Deleted URIs return under
        their old ranks, with their tries, past `seen` and limits. Refused if something has changed since, unless
        `force`. Raises FrontierError.
        O(later audit entries, URIs deleted), in steps that may be committed.
        """
        args = {"id": arguments.entry(entry, "undo"), "force": arguments.flag(force, "force")}
        self._steering.steer("undo", args, who, reason)

    def pause(self, *, reason: str = "operator", who: str | None = None) -> CrawlState:
        """Lease nothing more: PAUSING until the leases that are out have ended, then PAUSED. Returns the state."""
        return self._steering.steer_crawl("pause", who, reason)

    def resume(self, *, reason: str = "", who: str | None = None) -> CrawlState:
        """Resume a paused crawl; if it is still empty, it pauses or finishes again. Returns the state."""
        return self._steering.steer_crawl("resume", who, reason)

    def terminate(self, *, reason: str = "", who: str | None = None) -> CrawlState:
        """End the crawl permanently: nothing is leased again.

        Leases that are out may be finished, and URIs are ADDED all the same, for an `export` of what is left.
        Returns the state.
        """
        return self._steering.steer_crawl("terminate", who, reason)

    def retire(self, key: str, *, reason: str = "", who: str | None = None) -> bool:
        """Retire a queue by name: it keeps its URIs, hands none out, and only `unretire` brings it back.

        Returns False if there is no such queue; so do `unretire`, `snooze` and `wake`.
        """
        return self._steering.steer_queue("retire", key, who, reason)

    def unretire(self, key: str, *, reason: str = "", who: str | None = None) -> bool:
        """Bring a RETIRED queue to the back of its FIFO; over budget, it retires again on its turn."""
        return self._steering.steer_queue("unretire", key, who, reason)

    def snooze(self, key: str, *, until: float, reason: str = "", who: str | None = None) -> bool:
        """Block a queue until a time (epoch seconds), unless that is past; the block survives restarts."""
        return self._steering.steer_queue("snooze", key, who, reason, until=arguments.number(until, "until"))

    def wake(self, key: str, *, reason: str = "", who: str | None = None) -> bool:
        """End the snooze of a queue now, even if politeness is the reason."""
        return self._steering.steer_queue("wake", key, who, reason)

    def set_queue(
        self,
        key: str,
        *,
        interval: float | None = None,
        max_completed: int | None = None,
        reason: str = "",
        who: str | None = None,
    ) -> bool:
        """Set the least seconds between two leases of a queue, and how many of its URLs are completed (0: no limit).

        The limit needs `frontier.keep_urls`; a queue that has reached it is RETIRED. Both survive restarts. Returns
        False if there is no such queue.
        """
        if interval is not None:
            interval = arguments.number(interval, "interval")
        args = {"interval": interval, "max_completed": max_completed}
        given = {name: value for name, value in args.items() if value is not None}
        return self._steering.steer_queue("set_queue", key, who, reason, **given)

    def delete(
        self,
        *,
        queue: str | None = None,
        pattern: str | None = None,
        reason: str = "",
        who: str | None = None,
        dry_run: bool = False,
        for_good: bool = False,
    ) -> int:
        """Delete pending URIs by queue (a glob) and URL (a regular expression), uncharged; return their number.

        Give one of them, or both: queue="*" is every queue. URIs that are out stay. Deleted URIs stay seen. They are
        kept for `undo`, unless `for_good`. With `dry_run` nothing is deleted. O(URIs of the queues that
        match, and URIs scheduled for later), in steps that may be committed: deletions continue after a crash.
        """
        return self._steering.delete(queue, pattern, who, reason, dry_run=dry_run, for_good=for_good)

    def replay(
        self,
        letters: DeadLetter | int | Iterable[DeadLetter | int] | None = None,
        *,
        queue: str | None = None,
        reason: str = "",
        who: str | None = None,
    ) -> int:
        """Put dead letters back on queues: the given ones (or ids), those of a queue, or all; return their number.

        With `keep_urls`, those whose URLs wait already stay dead letters. O(dead letters), in steps that may be
        committed.
        """
        return self._steering.steer_letters("replay", letters, queue, who, reason)["replayed"]

    def drop_dead_letters(
        self,
        letters: DeadLetter | int | Iterable[DeadLetter | int] | None = None,
        *,
        queue: str | None = None,
        reason: str = "",
        who: str | None = None,
        for_good: bool = False,
    ) -> int:
        """Drop dead letters: the given ones (or ids), those of a queue, or all; return their number.

        They are kept for `undo`, unless `for_good`.
        """
        return self._steering.steer_letters("drop", letters, queue, who, reason, for_good=for_good)["dropped"]

    @property
    def internals(self) -> Internals:
        """The methods for authors of crawlers, servers and integrations; less stable than these."""
        return self._internals

    def __repr__(self) -> str:
        path = self._tables.env.path
        if self._guard.closed is not None:
            return f"<Frontier {path} closed>"
        if get_ident() != self._guard.thread:
            return f"<Frontier {path} of another thread or process>"
        try:
            if self._guard.owner not in (INSIDE, BROKEN):
                return f"<Frontier {path} {status_line(self.summary())}, {native.NAME} kernel>"
        except FrontierBusy:  # the kernel answers a call
            pass
        return f"<Frontier {path} in a call>"
