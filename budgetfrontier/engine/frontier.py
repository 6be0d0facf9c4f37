"""The frontier: the public API, which is the kernel's transitions made safe by the guard."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from threading import get_ident
from typing import Any, Self

from budgetfrontier.clock import Clock, WallClock
from budgetfrontier.engine import arguments, opening
from budgetfrontier.engine.arguments import Letters
from budgetfrontier.engine.batches import Batches
from budgetfrontier.engine.commands.adjustment import Adjustment
from budgetfrontier.engine.commands.mailbox import Command
from budgetfrontier.engine.commands.steering import Steering
from budgetfrontier.engine.finish import Finisher
from budgetfrontier.engine.finish_many import BatchFinisher
from budgetfrontier.engine.guard import Guard
from budgetfrontier.engine.hooks import Hooks
from budgetfrontier.model import (
    Admission,
    CrawlState,
    CrawlUri,
    DeadLetter,
    Finish,
    Lease,
    Outcome,
    QueueRecord,
    Summary,
    Tally,
)
from budgetfrontier.settings import Settings
from budgetfrontier.settings.overrides import QueueSettings
from budgetfrontier.store.invariants import check
from budgetfrontier.store.records import AuditEntry
from budgetfrontier.store.report import Report, report, status_line

_RUNNING = CrawlState.RUNNING  # looking it up in its Enum costs 0.1 us in CPython 3.11


class Frontier:
    """A crawl frontier in one LMDB environment: made by `Frontier.open`, owned by one thread of one process.

    All calls are synchronous and never wait for work. What a call did is durable after the next commit: every
    `commit_interval` seconds (looked at when a call ends), on `commit()`, and on `close()`.
    """

    def __init__(self, parts: opening.Parts, *, clock: Clock, hooks: Sequence[object], keep_leases: bool) -> None:
        self._keep_leases = keep_leases
        self._hooks = Hooks(self, hooks)
        self._hooks.attach(parts.kernel, parts.buried, paused=parts.paused)
        self._guard = Guard(parts, clock, self._hooks)
        self._kernel = parts.kernel
        self._tables = parts.kernel.tables
        self._counters = parts.kernel.counters
        self._admitter = parts.admitter
        self._finisher = Finisher(self._tables, self._kernel.turns, self._admitter)
        self._batches = Batches(self._guard, self._admitter)
        self._batch_finisher = BatchFinisher(self._guard, self._finisher)
        self._steering = Steering(self._guard)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        settings: Settings | None = None,
        *,
        clock: Clock | None = None,
        hooks: Sequence[object] = (),
        keep_leases: bool = False,
    ) -> Self:
        """Open the frontier in the folder `path`, or create it there; ":memory:" is one that nobody sees again.

        `settings` replace the stored ones (None: those stored, else the defaults); adjustments stay on top. Leases of
        a process that died are dropped and their URIs delivered again, unless `keep_leases`. Raises FrontierLocked,
        NotAFrontier, NewerSchema, CorruptFrontier, SettingsError, StorageFull or PermissionError, and then has
        written nothing. Cost: O(READY queues + leases that were out), not O(URIs).
        """
        clock = clock or WallClock()
        folder = None if str(path) == ":memory:" else Path(path)
        parts = opening.open_parts(folder, settings, now=clock.time(), keep_leases=keep_leases)
        try:
            frontier = cls(parts, clock=clock, hooks=[*hooks, *parts.hooks], keep_leases=keep_leases)
        except BaseException:
            parts.kernel.tables.env.close()
            raise
        frontier._guard.operate(frontier._guard.delivery.read_mailbox)
        return frontier

    # -- URIs in

    def schedule(self, uri: str | CrawlUri) -> Admission:
        """Admit one URI, once per canonical form. Never raises for what it is given. O(log n), about 10 µs.

        Raises PolicyError, having changed nothing, if a policy fails; so do all calls that take URIs.
        """
        guard = self._guard
        if get_ident() != guard.owner:
            guard.refuse()
        try:
            admission = self._admitter.take_one(uri, guard.now())
            if self._counters.state is not _RUNNING:
                guard.settle()
        except BaseException as e:
            guard.abort(e)
        guard.leave(1)
        return admission

    def schedule_many(self, uris: Iterable[str | CrawlUri]) -> Tally:
        """Admit a batch, in order. One bad URI spoils nothing: the tally counts reasons.

        Several times cheaper per URI than `schedule`. Every 1,000 are an operation of their own, so that an endless
        iterable is committed as it goes; those before the one in which a policy fails stay.
        """
        return self._batches.schedule(uris)

    def mark_seen(self, uris: Iterable[str | CrawlUri], *, charge: bool = False) -> Tally:
        """Mark URIs as seen, as those that were fetched elsewhere; nothing is queued, and what is pending stays so.

        With `charge`, the cost of each that was not seen before is added to the expenditure of its queue, so that
        total budgets count it; activity balances do not. The tally counts as `added` what was not seen before.
        """
        return self._batches.mark_seen(uris, charge=charge)

    def schedule_each(self, uris: Iterable[str | CrawlUri]) -> list[Admission]:
        """Admit a batch, in order: what became of each. By the hundred, it costs about twice what `schedule_many` does.

        Never raises for what it is given. O(answer) memory: an endless iterable goes to `schedule_many`.
        """
        return self._batches.schedule_each(uris)

    # -- URIs out

    def lease(self, count: int = 1, *, ttl: float | None = None) -> list[Lease]:
        """Hand out up to `count` URIs, for `ttl` seconds each (None: the setting, 300). Never blocks, may be empty.

        Expired leases, URIs due and snoozed queues due are seen to first. An empty answer commits what has changed.
        A call activates at most 1,000 queues: ask `next_ready_in` before sleeping. Raises PolicyError if a policy
        fails before the first URI; after it, the next call does. O(1) per URI, about 2 µs.
        """
        guard, kernel = self._guard, self._kernel
        if get_ident() != guard.owner:
            guard.refuse()
        ttl, count = self._tables.in_force.lease_ttl(ttl), int(count)
        try:
            now = guard.now()
            kernel.catch_up(now)
            if kernel.underway:
                guard.delivery.go_on()
            leases = kernel.lease(count, ttl, now)
            if not leases or kernel.turns.cut_short:
                guard.commit_after_lease(len(leases), count)
        except BaseException as e:
            guard.abort(e)
        guard.leave(len(leases))
        return leases

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
    ) -> None:
        """End a lease: charge the attempt, and let the URI and its queue go where the outcome says.

        `fetch_seconds` and robots' `crawl_delay` decide how long the queue is left alone; `delay` (seconds) is what a
        RETRY waits for instead of `retry.delay`, and with other outcomes a wait of at least that long. `discovered`
        are URIs found on the way: scheduled before the charge, with this one as their via, but for a revisit (this URI
        with `force`). `reason` is kept with a dead letter. Raises LeaseExpired for a lease that has ended, and
        PolicyError, having changed nothing. Of one that has landed, `fetch_seconds` and `crawl_delay` do not count any
        more.
        """
        guard, leases = self._guard, self._tables.leases
        if get_ident() != guard.owner:
            guard.refuse()
        if outcome.__class__ is not Outcome:
            outcome = Outcome(outcome)
        if fetch_seconds is not None or crawl_delay is not None or delay is not None:
            fetch_seconds, crawl_delay, delay = arguments.waits(fetch_seconds, crawl_delay, delay)
        if reason.__class__ is not str:
            reason = str(reason or "")
        found = guard.materialize(discovered) if discovered else ()
        now = guard.now()
        mine = leases.out.get(lease.id)
        if mine is None or now >= leases.next_expiry:
            mine, now = guard.still_out(lease)
        try:
            self._finisher.finish(mine, outcome, fetch_seconds, crawl_delay, found, reason, delay, retire_queue, now)
            if not self._counters.queued or self._counters.state is not _RUNNING:
                guard.settle()
        except BaseException as e:
            guard.abort(e)
        if self._hooks.on_finish:
            self._hooks.finished(mine, outcome)
        guard.leave(1 + len(found))

    def finish_many(self, finished: Iterable[Lease | Finish]) -> list[Lease]:
        """End many leases in order, as `finish` would one after the other, at about half of the cost of each.

        A bare lease is a success; `Finish(lease, outcome, ...)` takes what `finish` does. Everything is checked before
        anything changes. Returns the leases that have ended already, and those given twice; the others end. Every 1,000
        are an operation of their own, that may be committed. Raises PolicyError: those before the URI that a policy
        fails for have ended. O(1) for each.
        """
        return self._batch_finisher.finish(finished)

    def landed(self, lease: Lease, *, fetch_seconds: float | None = None, crawl_delay: float | None = None) -> None:
        """Say that the download of a lease is over, while its outcome is not known: callbacks and pipelines take time.

        Its queue rests from now on, as `finish` would have it; then the next URI may go out, for a lease that has
        landed no longer counts towards `per_queue_concurrency`. Its cost stays reserved, and it is out until it is
        finished or expires; at that finish only a retry, or a `delay`, lengthens the rest. To land once more changes
        nothing. Raises LeaseExpired for a lease that has ended, and PolicyError, having changed nothing. O(1).
        """
        fetch_seconds, crawl_delay, _ = arguments.waits(fetch_seconds, crawl_delay)
        mine, now = self._guard.still_out(lease)
        self._guard.operate(lambda: self._finisher.land(mine, fetch_seconds, crawl_delay, now))
        lease.landed = True

    def renew(self, lease: Lease, ttl: float | None = None) -> None:
        """Give a lease `ttl` more seconds from now (None: the setting). Raises LeaseExpired if it has ended."""
        ttl = self._tables.in_force.lease_ttl(ttl)
        mine, now = self._guard.still_out(lease)
        self._guard.operate(lambda: self._tables.leases.renewed(mine, now + ttl))
        lease.expires = now + ttl

    def next_ready_in(self) -> float | None:
        """Return the seconds until something may be leased; 0.0: now. None: never, as things stand. O(leases out).

        What is scheduled for later and leases that will expire count. While paused: the commit interval, for an
        operator may resume.
        """
        self._guard.enter()
        return self._kernel.next_ready_in(self._guard.now())

    # -- looking

    @property
    def state(self) -> CrawlState:
        """Where the crawl stands. O(1)."""
        self._guard.enter()
        return self._counters.state

    @property
    def settings(self) -> Settings:
        """The settings in force, without the adjustments."""
        return self._tables.in_force.settings

    def settings_for(self, lease: Lease) -> QueueSettings:
        """Return the settings in force for a URI that is out: the frontier's, its overrides', its adjustments'."""
        self._guard.enter()
        return self._tables.in_force.for_uri(lease.uri.url, lease.queue)

    def queue_key(self, uri: CrawlUri) -> str:
        """Return the key of the queue that a URI would be placed on, whether there is one yet or not.

        Its `url` is a normalized href. Raises ValueError for a URI that has no key, and PolicyError.
        """
        self._guard.enter()
        return self._admitter.queue_key(uri)

    def rest(
        self, uri: CrawlUri, key: str, *, fetch_seconds: float | None = None, crawl_delay: float | None = None
    ) -> float:
        """Return the seconds that politeness wants a queue left alone after a fetch of a URI on it. Changes nothing.

        Raises PolicyError.
        """
        self._guard.enter()
        in_force = self._tables.in_force
        return in_force.rest(uri, in_force.for_uri(uri.url, key), fetch_seconds, crawl_delay)

    def summary(self) -> Summary:
        """Return the counters, as of now. O(1)."""
        self._guard.enter()
        return self._tables.summary()

    def queue(self, key: str) -> QueueRecord | None:
        """Return a queue as it stands now, None if no URI was ever placed there. O(1)."""
        key = arguments.queue_key(key)
        return self._guard.operate(lambda: self._kernel.turns.settings.look_up(key), changes=0)

    def report(self) -> Report:
        """Return the snapshot that all reports are made from, as of now. O(queues)."""
        return self._guard.operate(lambda: report(self._tables.flushed(), generated=self._guard.now()), changes=0)

    def audit(self, *, limit: int | None = None) -> list[AuditEntry]:
        """Return the commands that were applied, newest last."""
        self._guard.enter()
        return self._tables.env.view().audit(limit)

    def dead_letters(self, *, limit: int | None = None) -> list[DeadLetter]:
        """Return the URIs that were given up on, oldest first. O(answer)."""
        self._guard.enter()
        return self._tables.env.view().dead_letters(limit)

    def check(self) -> None:
        """Verify every invariant; raises CorruptFrontier with what does not hold. O(everything)."""
        self._guard.operate(self._tables.flush, changes=0)
        self._guard.attempt(self._tables.flush)  # hooks that waited may have used the frontier
        check(self._tables.env.txn, self._tables.env.db)

    # -- steering

    def adjust(
        self, *, match: str = "*", reason: str = "", who: str | None = None, dry_run: bool = False, **settings: Any
    ) -> Adjustment:
        """Append an override: any setting that `overrides` may set, for what `match` names (default: everything).

        Every RETIRED queue that was not retired by name gets another look. With `dry_run` nothing changes, and the
        answer lists the queues that would retire or revive. Raises SettingsError. O(retired queues); a dry run is
        O(queues).
        """
        return self._steering.adjust(match, settings, who, reason, dry_run)

    def pause(self, *, reason: str = "operator", who: str | None = None) -> CrawlState:
        """Lease nothing more: PAUSING until the leases that are out have ended, then PAUSED."""
        return self._steering.steer_crawl("pause", who, reason)

    def resume(self, *, reason: str = "", who: str | None = None) -> CrawlState:
        """Go on after a pause; a crawl that is still empty pauses, or finishes, again."""
        return self._steering.steer_crawl("resume", who, reason)

    def terminate(self, *, reason: str = "", who: str | None = None) -> CrawlState:
        """End the crawl for good; leases that are out may still be finished."""
        return self._steering.steer_crawl("terminate", who, reason)

    def retire(self, key: str, *, reason: str = "", who: str | None = None) -> bool:
        """Retire a queue by name: it keeps its URIs, hands none out, and only `unretire` brings it back."""
        return self._steering.steer_queue("retire", key, who, reason)

    def unretire(self, key: str, *, reason: str = "", who: str | None = None) -> bool:
        """Bring a RETIRED queue to the back of its FIFO; over budget, it retires again on its turn."""
        return self._steering.steer_queue("unretire", key, who, reason)

    def snooze(self, key: str, *, until: float, reason: str = "", who: str | None = None) -> bool:
        """Block a queue until a time (epoch seconds); the block survives restarts."""
        return self._steering.steer_queue("snooze", key, who, reason, until=float(until))

    def wake(self, key: str, *, reason: str = "", who: str | None = None) -> bool:
        """End a queue's wait now, politeness included."""
        return self._steering.steer_queue("wake", key, who, reason)

    def delete(
        self,
        *,
        queue: str | None = None,
        pattern: str | None = None,
        reason: str = "",
        who: str | None = None,
        dry_run: bool = False,
    ) -> int:
        """Delete pending URIs by queue (a glob) and URL (a regular expression); nothing is charged. How many they were.

        URIs that are out stay. Deleted URIs stay seen. With `dry_run` nothing is deleted. O(URIs of the queues that
        match, and what is scheduled for later), in parts that may be committed: once begun, it goes on after a crash.
        """
        return self._steering.delete(queue, pattern, who, reason, dry_run)

    def replay(
        self, letters: Letters = None, *, queue: str | None = None, reason: str = "", who: str | None = None
    ) -> int:
        """Put dead letters back on their queues: these (or their ids), those of a queue, or all."""
        return self._steering.steer_letters("replay", letters, queue, who, reason)["replayed"]

    def drop_dead_letters(
        self, letters: Letters = None, *, queue: str | None = None, reason: str = "", who: str | None = None
    ) -> int:
        """Drop dead letters for good: these (or their ids), those of a queue, or all."""
        return self._steering.steer_letters("drop", letters, queue, who, reason)["dropped"]

    def apply(self, command: Command, *, number: int = 0) -> AuditEntry:
        """Apply a command as it came from outside, and audit it. A command that is refused changes nothing.

        One that takes long is committed in parts; one that takes long and is in progress is ended first, unless this
        is a `pause` or `terminate`.
        """
        return self._steering.apply(command, number)

    # -- durability

    def commit(self) -> None:
        """Return when everything so far is on disk; commands in the mailbox are applied first, long ones in part."""
        self._guard.operate(self._guard.tick, changes=0)

    def close(self) -> None:
        """Give the leases back uncounted, commit, and let the next one open it. A second close does nothing."""
        self._guard.end(keep_leases=self._keep_leases)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if not self._guard.forked:  # a child that leaves the block has nothing to close
            self.close()

    def __repr__(self) -> str:
        path = self._tables.env.path
        if self._guard.closed is not None:
            return f"<Frontier {path} closed>"
        if get_ident() != self._guard.owner:
            return f"<Frontier {path} of another thread or process>"
        return f"<Frontier {path} {status_line(self.summary())}>"
