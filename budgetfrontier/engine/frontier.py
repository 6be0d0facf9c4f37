"""The frontier: the public API, which is the kernel's transitions made safe by the guard."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from math import isnan
from pathlib import Path
from threading import get_ident
from types import TracebackType
from typing import Any, Self

from budgetfrontier.clock import Clock, WallClock
from budgetfrontier.engine import opening
from budgetfrontier.engine.commands import operations
from budgetfrontier.engine.commands.mailbox import Command, checked
from budgetfrontier.engine.commands.operations import Adjustment
from budgetfrontier.engine.commands.runner import CommandRun
from budgetfrontier.engine.guard import Guard
from budgetfrontier.engine.hooks import Hooks
from budgetfrontier.engine.rotation import NEVER
from budgetfrontier.errors import FrontierError, LeaseExpired, PolicyError, SettingsError
from budgetfrontier.model import (
    Admission,
    CrawlState,
    CrawlUri,
    DeadLetter,
    Lease,
    Outcome,
    QueueRecord,
    Summary,
    Tally,
)
from budgetfrontier.rules import charges
from budgetfrontier.settings import Settings
from budgetfrontier.settings.overrides import QueueSettings, validate_override
from budgetfrontier.store.invariants import check
from budgetfrontier.store.records import AuditEntry, expanded
from budgetfrontier.store.report import Report, report, status_line

BATCH = 1000  # URIs of `schedule_many` between two looks at the clock
MOST_AT_ONCE = 1000  # queues in one commit while thousands revive, retire or wake: no call takes long
PART = 8 << 20  # bytes of payloads and bodies in one operation of it

# Looking a member up in its Enum, or hashing it, costs 0.1 us in CPython 3.11: the hot path has names of its own, and
# asks for identity first.
_RUNNING, _SUCCESS, _RETRY = CrawlState.RUNNING, Outcome.SUCCESS, Outcome.RETRY


class Frontier:
    """A crawl frontier in one LMDB environment: made by `Frontier.open`, owned by one thread of one process.

    All calls are synchronous and never wait for work. What a call did is durable after the next commit: every
    `commit_interval` seconds (looked at when a call ends), on `commit()`, and on `close()`.
    """

    def __init__(self, parts: opening.Parts, *, clock: Clock, hooks: Sequence[object], keep_leases: bool) -> None:
        self._path = parts.path
        self._keep_leases = keep_leases
        self._hooks = Hooks(self, hooks)
        self._hooks.attach(parts.kernel, parts.buried, paused=parts.paused)
        self._guard = Guard(parts, clock, self._hooks)
        self._kernel = parts.kernel
        self._tables = parts.kernel.tables
        self._admitter = parts.admitter

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
            every_hook = [*hooks, *parts.hooks]
            frontier = cls(parts, clock=clock, hooks=every_hook, keep_leases=keep_leases)
        except BaseException:
            parts.kernel.tables.env.close()
            raise
        frontier._guard.operate(frontier._guard.read_mailbox)
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
            if self._kernel.counters.state is not _RUNNING:
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
        return self._take_in(uris, lambda part, tally: self._admitter.take(part, tally, self._guard.now()))

    def mark_seen(self, uris: Iterable[str | CrawlUri], *, charge: bool = False) -> Tally:
        """Mark URIs as seen, as those that were fetched elsewhere; nothing is queued, and what is pending stays so.

        With `charge`, the cost of each that was not seen before is added to the expenditure of its queue, so that
        total budgets count it; activity balances do not. The tally counts as `added` what was not seen before.
        """
        return self._take_in(uris, lambda part, tally: self._admitter.mark_seen(part, tally, charge=charge))

    def _take_in(self, uris: Iterable[str | CrawlUri], take: Callable[[list[str | CrawlUri], Tally], None]) -> Tally:
        self._guard.enter()
        if isinstance(uris, str):
            raise TypeError("this takes an iterable of URIs; one alone goes into a list, or to schedule")
        tally = Tally()
        remaining = iter(uris)
        while batch := self._guard.materialize(islice(remaining, BATCH)):
            for part in _parts(batch):
                self._guard.enter()
                try:
                    take(part, tally)
                    self._guard.settle()
                except BaseException as e:
                    self._guard.abort(e)
                self._guard.leave(len(part))
        return tally

    def schedule_each(self, uris: Iterable[str | CrawlUri]) -> list[Admission]:
        """Admit a batch, in order: what became of each. By the hundred, it costs about twice what `schedule_many` does.

        Never raises for what it is given. O(answer) memory: an endless iterable goes to `schedule_many`.
        """
        self._guard.enter()
        admissions: list[Admission] = []
        for part in _parts(self._guard.materialize(uris)):
            self._guard.enter()
            try:
                admissions += self._admitter.take_each(part, self._guard.now())
                self._guard.settle()
            except BaseException as e:
                self._guard.abort(e)
            self._guard.leave(len(part))
        return admissions

    # -- URIs out

    def lease(self, count: int = 1, *, ttl: float | None = None) -> list[Lease]:
        """Hand out up to `count` URIs, for `ttl` seconds each (None: the setting, 300). Never blocks, may be empty.

        Expired leases, URIs due and snoozed queues due are seen to first. An empty answer commits what has changed.
        A call activates at most 1,000 queues: ask `next_ready_in` before sleeping. Raises PolicyError if a policy
        fails before the first URI; after it, the next call does. O(1) per URI, about 2 µs.
        """
        guard = self._guard
        if get_ident() != guard.owner:
            guard.refuse()
        ttl = self._tables.in_force.frontier.lease_ttl if ttl is None else _seconds(ttl, "ttl")
        count = int(count)
        try:
            now = guard.now()
            kernel = self._kernel
            kernel.attempts.expire(now)
            leases: list[Lease] = []
            kernel.rollout.step()
            if kernel.underway:
                guard.go_on()
            kernel.turns.cut_short = kernel.rollout.waiting or kernel.underway
            if kernel.counters.state is _RUNNING:
                kernel.arrivals.place_due(now)
                kernel.turns.wake_due(now)
                try:
                    kernel.turns.lease(leases, count, ttl, now)
                except PolicyError:
                    if not leases:
                        raise  # else the next call meets that queue first, and raises
            if not leases:
                guard.settle()
                if count > 0 and not kernel.turns.cut_short:
                    guard.commit()
            if kernel.turns.cut_short and len(self._tables.queues.dirty) >= MOST_AT_ONCE:
                guard.commit()
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
        guard, kernel = self._guard, self._kernel
        if get_ident() != guard.owner:
            guard.refuse()
        try:
            if outcome.__class__ is not Outcome:
                outcome = Outcome(outcome)
            if fetch_seconds is not None:
                fetch_seconds = _seconds(fetch_seconds, "fetch_seconds")
            if crawl_delay is not None:
                crawl_delay = _crawl_delay(crawl_delay)
            if delay is not None:
                delay = _seconds(delay, "delay")
            if reason.__class__ is not str:
                reason = str(reason or "")
            found = guard.materialize(discovered) if discovered else ()
            now = guard.now()
            mine = self._tables.leases.out.get(lease.id)
            if mine is None or now >= self._tables.leases.next_expiry:
                mine = self._still_out(lease, now)
        except Exception:
            raise  # a wrong argument, or a lease that has ended: nothing was changed
        except BaseException as e:
            guard.abort(e)
        try:
            in_force = kernel.tables.in_force
            settings = in_force.base if in_force.trivial else in_force.effective.for_uri(mine.uri.url, mine.queue)
            charged = outcome is _SUCCESS or charges.is_charged(outcome)
            # Policies are asked first: what they raise leaves everything as it was.
            wait = in_force.rest(mine.uri, settings, fetch_seconds, crawl_delay) if charged and not mine.landed else 0.0
            read = self._admitter.read(found, Tally(), mine.uri) if found else ()
            if outcome is _RETRY or delay:
                kernel.attempts.rest_after(mine, outcome, settings, wait, delay, now)
            elif wait > 0.0:
                kernel.attempts.rest(mine, wait, now)
            if read:
                self._admitter.admit(read, Tally(), now, mine.uri)
            kernel.attempts.finish(mine, outcome, settings, reason, retire_queue, delay, now)
            if not kernel.counters.queued or kernel.counters.state is not _RUNNING:
                guard.settle()
        except BaseException as e:
            guard.abort(e)
        if self._hooks.on_finish:
            self._hooks.finished(mine, outcome)
        guard.leave(1 + len(found))

    def landed(self, lease: Lease, *, fetch_seconds: float | None = None, crawl_delay: float | None = None) -> None:
        """Say that the download of a lease is over, while its outcome is not known: callbacks and pipelines take time.

        Its queue rests from now on, as `finish` would have it; then the next URI may go out, for a lease that has
        landed no longer counts towards `per_queue_concurrency`. Its cost stays reserved, and it is out until it is
        finished or expires; at that finish only a retry, or a `delay`, lengthens the rest. To land once more changes
        nothing. Raises LeaseExpired for a lease that has ended, and PolicyError, having changed nothing. O(1).
        """
        guard, kernel = self._guard, self._kernel
        guard.enter()
        fetch_seconds = None if fetch_seconds is None else _seconds(fetch_seconds, "fetch_seconds")
        crawl_delay = None if crawl_delay is None else _crawl_delay(crawl_delay)
        now = guard.now()
        mine = self._still_out(lease, now)
        try:
            if not mine.landed:
                settings = kernel.tables.in_force.for_uri(mine.uri.url, mine.queue)
                rest = kernel.tables.in_force.rest(mine.uri, settings, fetch_seconds, crawl_delay)
                if rest > 0.0:  # else its wake time stays, for a clock may be set back
                    kernel.attempts.rest(mine, rest, now)
                kernel.attempts.landed(mine, settings, now)
            lease.landed = True
        except BaseException as e:
            guard.abort(e)
        guard.leave(1)

    def renew(self, lease: Lease, ttl: float | None = None) -> None:
        """Give a lease `ttl` more seconds from now (None: the setting). Raises LeaseExpired if it has ended."""
        self._guard.enter()
        ttl = self._tables.in_force.frontier.lease_ttl if ttl is None else _seconds(ttl, "ttl")
        now = self._guard.now()
        mine = self._still_out(lease, now)
        try:
            self._tables.leases.renewed(mine, now + ttl)
            lease.expires = now + ttl
        except BaseException as e:
            self._guard.abort(e)
        self._guard.leave(1)

    def next_ready_in(self) -> float | None:
        """Return the seconds until something may be leased; 0.0: now. None: never, as things stand. O(leases out).

        What is scheduled for later and leases that will expire count. While paused: the commit interval, for an
        operator may resume.
        """
        self._guard.enter()
        kernel = self._kernel
        state = kernel.counters.state
        if kernel.underway:
            return 0.0
        if state in (CrawlState.PAUSED, CrawlState.PAUSING):
            return float(kernel.tables.in_force.frontier.commit_interval)
        if state is not CrawlState.RUNNING:
            return None
        if kernel.tables.rotation.ring or kernel.counters.inactive or kernel.rollout.waiting:
            return 0.0
        tables = kernel.tables
        first = min(tables.rotation.first_wake(), tables.future.first_due(), tables.leases.first_expiry())
        return None if first == NEVER else max(first - self._guard.now(), 0.0)

    # -- looking

    @property
    def state(self) -> CrawlState:
        """Where the crawl stands. O(1)."""
        self._guard.enter()
        return self._kernel.counters.state

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
        kernel = self._kernel
        kernel.counters.ready = len(kernel.tables.rotation.ring)
        kernel.counters.leases = len(self._tables.leases.out)
        return kernel.tables.env.view().summary(kernel.counters)

    def queue(self, key: str) -> QueueRecord | None:
        """Return a queue as it stands now, None if no URI was ever placed there. O(1)."""
        _check_name(key)

        def look() -> QueueRecord | None:
            queue = self._tables.queues.look_up(key)
            return None if queue is None else expanded(self._kernel.turns.as_it_stands(queue))

        return self._guard.operate(look, changes=0)

    def report(self) -> Report:
        """Return the snapshot that all reports are made from, as of now. O(queues)."""

        def look() -> Report:
            self._tables.flush()
            return report(self._tables.env.view(), generated=self._guard.now())

        return self._guard.operate(look, changes=0)

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
        self._guard.enter()
        try:
            self._tables.flush()  # hooks that waited may have used the frontier
        except BaseException as e:
            self._guard.abort(e)
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
        self._guard.enter()
        if not settings:
            raise SettingsError("adjust needs at least one setting to change")
        args: dict[str, Any] = {"match": match, "set": dict(validate_override(match, settings).set)}
        if dry_run:
            args["dry_run"] = True
        effect = self._steer("adjust", args, who, reason).effect
        return Adjustment(id=self._kernel.counters.audit, **{"dry_run": dry_run, **args, **effect})

    def pause(self, *, reason: str = "operator", who: str | None = None) -> CrawlState:
        """Lease nothing more: PAUSING until the leases that are out have ended, then PAUSED."""
        self._steer("pause", {"reason": reason}, who, reason)
        return self.state

    def resume(self, *, reason: str = "", who: str | None = None) -> CrawlState:
        """Go on after a pause; a crawl that is still empty pauses, or finishes, again."""
        self._steer("resume", {}, who, reason)
        return self.state

    def terminate(self, *, reason: str = "", who: str | None = None) -> CrawlState:
        """End the crawl for good; leases that are out may still be finished."""
        self._steer("terminate", {}, who, reason)
        return self.state

    def retire(self, key: str, *, reason: str = "", who: str | None = None) -> bool:
        """Retire a queue by name: it keeps its URIs, hands none out, and only `unretire` brings it back."""
        return self._steer_queue("retire", {"queue": key}, who, reason)

    def unretire(self, key: str, *, reason: str = "", who: str | None = None) -> bool:
        """Bring a RETIRED queue to the back of its FIFO; over budget, it retires again on its turn."""
        return self._steer_queue("unretire", {"queue": key}, who, reason)

    def snooze(self, key: str, *, until: float, reason: str = "", who: str | None = None) -> bool:
        """Block a queue until a time (epoch seconds); the block survives restarts."""
        return self._steer_queue("snooze", {"queue": key, "until": float(until)}, who, reason)

    def wake(self, key: str, *, reason: str = "", who: str | None = None) -> bool:
        """End a queue's wait now, politeness included."""
        return self._steer_queue("wake", {"queue": key}, who, reason)

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
        args: dict[str, Any] = {"queue": queue, "pattern": pattern}
        if dry_run:
            args["dry_run"] = True
        return int(self._steer("delete", args, who, reason).effect["deleted"])

    def replay(
        self,
        letters: DeadLetter | int | Iterable[DeadLetter | int] | None = None,
        *,
        queue: str | None = None,
        reason: str = "",
        who: str | None = None,
    ) -> int:
        """Put dead letters back on their queues: these (or their ids), those of a queue, or all."""
        args = {"ids": _ids(letters), "queue": queue}
        return int(self._steer("replay", args, who, reason).effect["replayed"])

    def drop_dead_letters(
        self,
        letters: DeadLetter | int | Iterable[DeadLetter | int] | None = None,
        *,
        queue: str | None = None,
        reason: str = "",
        who: str | None = None,
    ) -> int:
        """Drop dead letters for good: these (or their ids), those of a queue, or all."""
        args = {"ids": _ids(letters), "queue": queue}
        return int(self._steer("drop", args, who, reason).effect["dropped"])

    def apply(self, command: Command, *, number: int = 0) -> AuditEntry:
        """Apply a command as it came from outside, and audit it. A command that is refused changes nothing.

        One that takes long is committed in parts; one that takes long and is in progress is ended first, unless this
        is a `pause` or `terminate`.
        """
        entry = self._apply(command, number).entry
        assert entry is not None
        return entry

    def _apply(self, command: Command, number: int) -> CommandRun:
        """Apply a command, all of its steps."""
        self._guard.enter()
        command, guard = checked(command), self._guard
        while guard.commands.must_wait(command):
            guard.operate(guard.go_on, changes=0)
        job = guard.operate(lambda: guard.begin(command, number))
        while job.entry is None:
            guard.operate(guard.go_on, changes=0)
        return job

    # -- durability

    def commit(self) -> None:
        """Return when everything so far is on disk; commands in the mailbox are applied first, long ones in part."""
        self._guard.operate(self._guard.tick, changes=0)

    def close(self) -> None:
        """Give the leases back uncounted, commit, and let the next one open it. A second close does nothing."""
        if self._guard.closed is not None and not self._guard.forked:
            return
        self._guard.enter()
        try:
            now = self._guard.now()
            if not self._keep_leases:
                for lease in reversed(list(self._tables.leases.out.values())):
                    self._kernel.attempts.release(lease, now, front=True)
                self._guard.settle()
            self._hooks.before_commit()
            self._kernel.counters.time = now
            self._tables.flush()
            self._tables.env.commit()
        except BaseException as e:
            self._guard.abort(e)
        self._guard.close("this frontier was closed; open it again")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._guard.forked:  # a child that leaves the block has nothing to close
            self.close()

    def __repr__(self) -> str:
        if self._guard.closed is not None:
            return f"<Frontier {self._path} closed>"
        if get_ident() != self._guard.owner:
            return f"<Frontier {self._path} of another thread or process>"
        return f"<Frontier {self._path} {status_line(self.summary())}>"

    # -- inside

    def _steer(self, op: str, args: dict[str, Any], who: str | None, reason: str) -> AuditEntry:
        self._guard.enter()
        operations.check_command(op, args)
        job = self._apply(Command(op, args, who or "api", reason), 0)
        assert job.entry is not None
        if job.failure is not None:
            raise job.failure
        if job.entry.error:
            raise FrontierError(job.entry.error)
        return job.entry

    def _steer_queue(self, op: str, args: dict[str, Any], who: str | None, reason: str) -> bool:
        _check_name(args["queue"])
        if self._guard.operate(lambda: self._tables.queues.look_up(args["queue"]), changes=0) is None:
            return False
        self._steer(op, args, who, reason)
        return True

    def _still_out(self, lease: Lease, now: float) -> Lease:
        """End what has expired, then return the frontier's own record of a lease. Raises LeaseExpired."""
        try:
            self._kernel.attempts.expire(now)
            self._guard.settle()
        except BaseException as e:
            self._guard.abort(e)
        mine = self._tables.leases.out.get(lease.id)
        if mine is None:
            self._guard.leave(1)
            raise LeaseExpired(
                f"lease {lease.id} of {lease.uri.url} has ended; drop the result, its URI is delivered again if need be"
            )
        return mine


def _parts(batch: list[str | CrawlUri]) -> Iterator[list[str | CrawlUri]]:
    """Yield a batch in parts that carry no more than PART bytes each, unless one URI alone does."""
    part: list[str | CrawlUri] = []
    size = 0
    for uri in batch:
        if isinstance(uri, CrawlUri):
            try:
                carried = len(uri.payload or b"") + len(uri.body or b"")
            except (TypeError, ValueError):
                carried = 0  # no bytes, or an array, which has no truth: it will be INVALID
            if part and size + carried > PART:
                yield part
                part, size = [], 0
            size += carried
        part.append(uri)
    yield part


def _check_name(key: object) -> None:
    if not isinstance(key, str):
        raise TypeError(f"a queue key is a str, not {type(key).__name__}")


def _ids(letters: DeadLetter | int | Iterable[DeadLetter | int] | None) -> list[int] | None:
    if letters is None:
        return None
    if isinstance(letters, DeadLetter | int):
        letters = [letters]
    if isinstance(letters, str | bytes):  # its characters would be taken for ids
        raise TypeError(f"this takes dead letters or their ids, whole numbers, not {letters!r}")
    return [letter.id if isinstance(letter, DeadLetter) else int(letter) for letter in letters]


def _crawl_delay(value: float) -> float:
    value = float(value)
    if isnan(value):
        raise ValueError("crawl_delay is a number of seconds")
    return value


def _seconds(value: float, name: str) -> float:
    value = float(value)
    if not 0 <= value < NEVER:
        raise ValueError(f"{name} is a number of seconds, not {value!r}")
    return value
