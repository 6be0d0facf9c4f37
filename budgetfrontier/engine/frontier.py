"""The frontier's face: the public API over the kernel, group commits, and what makes each call safe.

Every call checks thread and process, then changes the one open transaction. Any exception in the middle of one aborts to
the last commit and closes the frontier, so that it is never left with half an operation.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from threading import get_ident
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar

import lmdb
import msgspec

from budgetfrontier.clock import Clock, WallClock
from budgetfrontier.engine import adjustments, opening
from budgetfrontier.engine.adjustments import Adjustment
from budgetfrontier.engine.hooks import Hooks
from budgetfrontier.engine.mailbox import Command, Mailbox
from budgetfrontier.engine.queue import CHARGED
from budgetfrontier.engine.rotation import NEVER
from budgetfrontier.errors import FrontierClosed, FrontierError, LeaseExpired, WrongThread
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
from budgetfrontier.settings import Settings
from budgetfrontier.settings.overrides import QueueSettings, validate_override
from budgetfrontier.store import snapshot
from budgetfrontier.store.check import check
from budgetfrontier.store.environment import explain
from budgetfrontier.store.records import AuditEntry

log = logging.getLogger("budgetfrontier")

_T = TypeVar("_T")

BATCH = 1000  # URIs of `schedule_many` between two looks at the clock


_open: weakref.WeakSet[Frontier] = weakref.WeakSet()


def _after_fork() -> None:
    """A forked child's writes would seem to work: let it do none."""
    for frontier in list(_open):
        frontier._owner, frontier._forked = 0, True
        frontier._kernel.env.disown()


os.register_at_fork(after_in_child=_after_fork)


class Frontier:
    """A crawl frontier in one LMDB environment: made by `Frontier.open`, owned by one thread of one process.

    All calls are synchronous and never wait for work. What a call did is durable after the next commit: every
    `commit_interval` seconds (looked at when a call ends), on `commit()`, and on `close()`.
    """

    def __init__(self, parts: opening.Parts, *, clock: Clock, hooks: Sequence[object], keep_leases: bool) -> None:
        self._kernel = parts.kernel
        self._intake = parts.intake
        self._path = parts.path
        self._clock = clock
        self._keep_leases = keep_leases
        self._last_time = parts.now
        self._owner = get_ident()  # no thread's, once closed or in a forked child: each call looks at this alone
        self._forked = False
        self._closed: str | None = None
        _open.add(self)
        self._hooks = Hooks(self, hooks)
        self._hooks.attach(self._kernel)
        self._mailbox = None if parts.kernel.env.memory else Mailbox(parts.path)
        self._changes = 0  # operations since the last commit
        self._committed()

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
            every_hook = [*hooks, *opening.load_hooks(parts.kernel.settings.hooks)]
            frontier = cls(parts, clock=clock, hooks=every_hook, keep_leases=keep_leases)
        except BaseException:
            parts.kernel.env.close()
            raise
        frontier._operate(frontier._read_mailbox)
        return frontier

    # -- URIs in

    def schedule(self, uri: str | CrawlUri) -> Admission:
        """Admit one URI, once per canonical form. Never raises for what it is given. O(log n), about 10 µs."""
        if get_ident() != self._owner:
            self._refuse()
        try:
            admission, _ = self._intake.take_one(uri, self._now())
            self._settle()
        except BaseException as e:
            self._abandon(e)
        self._leave(1)
        return admission

    def schedule_many(self, uris: Iterable[str | CrawlUri]) -> Tally:
        """Admit a batch, in order. One bad URI spoils nothing: the tally counts reasons.

        Several times cheaper per URI than `schedule`. Every 1,000 are an operation of their own, so that an endless
        iterable is committed as it goes.
        """
        self._enter()
        if isinstance(uris, str):
            raise TypeError("schedule_many takes an iterable of URIs; one URI goes to schedule")
        tally = Tally()
        remaining = iter(uris)
        while batch := self._given(islice(remaining, BATCH)):
            self._enter()
            try:
                self._intake.take(batch, tally, self._now())
                self._settle()
            except BaseException as e:
                self._abandon(e)
            self._leave(len(batch))
        return tally

    # -- URIs out

    def lease(self, count: int = 1, *, ttl: float | None = None) -> list[Lease]:
        """Hand out up to `count` URIs, for `ttl` seconds each (None: the setting, 300). Never blocks, may be empty.

        Expired leases, URIs due and snoozed queues due are seen to first. An empty answer commits what has changed.
        A call activates at most 1,000 queues: ask `next_ready_in` before sleeping. O(1) per URI, about 2 µs.
        """
        if get_ident() != self._owner:
            self._refuse()
        ttl = self._kernel.settings.frontier.lease_ttl if ttl is None else _seconds(ttl, "ttl")
        count = int(count)
        try:
            now = self._now()
            kernel = self._kernel
            kernel.expire(now)
            leases: list[Lease] = []
            if kernel.counters.state is CrawlState.RUNNING:
                kernel.place_due(now)
                kernel.wake_due(now)
                leases = kernel.lease(count, ttl, now)
            if not leases:
                self._settle()
                if count > 0 and (self._changes or kernel.queues.dirty):
                    self._commit()
        except BaseException as e:
            self._abandon(e)
        self._leave(len(leases))
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
        are URIs found on the way: scheduled before the charge, with this one as their via. `reason` is kept with a
        dead letter. Raises LeaseExpired, having changed nothing, for a lease that has ended.
        """
        if get_ident() != self._owner:
            self._refuse()
        kernel = self._kernel
        try:
            if outcome.__class__ is not Outcome:
                outcome = Outcome(outcome)
            if fetch_seconds is not None:
                fetch_seconds = _seconds(fetch_seconds, "fetch_seconds")
            if crawl_delay is not None:
                crawl_delay = float(crawl_delay)
            if delay is not None:
                delay = _seconds(delay, "delay")
            found = self._given(discovered) if discovered else ()
            now = self._now()
            mine = kernel.leases.out.get(lease.id)
            if mine is None or now >= kernel.leases.next_expiry:
                mine = self._still_out(lease, now)
        except Exception:
            raise  # a wrong argument, or a lease that has ended: nothing was changed
        except BaseException as e:
            self._abandon(e)
        try:
            settings = kernel.base if kernel.trivial else kernel.effective.for_uri(mine.uri.url, mine.queue)
            wait = retry_delay = 0.0
            if outcome in CHARGED:
                if fetch_seconds is None and crawl_delay is None and not settings.jitter and kernel.standard_politeness:
                    wait = settings.min_delay
                else:
                    wait = kernel.politeness(
                        settings, fetch_seconds=fetch_seconds, crawl_delay=crawl_delay, random=kernel.random
                    )
            if outcome is Outcome.RETRY or delay:
                wait, retry_delay = self._wait(mine, outcome, settings, wait, delay, now)
            if wait > 0.0:
                queue = kernel.queues.get(mine.queue_id)
                if now + wait > queue.wake_time:
                    kernel.rotation.set_wake(queue, now + wait)
            if found:
                self._intake.take(found, Tally(), now, mine.uri)
            kernel.finish(mine, outcome, settings, str(reason), retire_queue, retry_delay, now)
            if not kernel.counters.queued or kernel.counters.state is not CrawlState.RUNNING:
                self._settle()
        except BaseException as e:
            self._abandon(e)
        if self._hooks.on_finish:
            self._hooks.finished(mine, outcome)
        self._leave(1 + len(found))

    def renew(self, lease: Lease, ttl: float | None = None) -> None:
        """Give a lease `ttl` more seconds from now (None: the setting). Raises LeaseExpired if it has ended."""
        self._enter()
        ttl = self._kernel.settings.frontier.lease_ttl if ttl is None else _seconds(ttl, "ttl")
        now = self._now()
        mine = self._still_out(lease, now)
        try:
            self._kernel.leases.renewed(mine, now + ttl)
            lease.expires = now + ttl
        except BaseException as e:
            self._abandon(e)
        self._leave(1)

    def next_ready_in(self) -> float | None:
        """Seconds until something may be leased; 0.0: now. None: never, as things stand. O(1).

        What is scheduled for later and leases that will expire count. While paused: the commit interval, for an
        operator may resume.
        """
        self._enter()
        kernel = self._kernel
        state = kernel.counters.state
        if state in (CrawlState.PAUSED, CrawlState.PAUSING):
            return float(kernel.settings.frontier.commit_interval)
        if state is not CrawlState.RUNNING:
            return None
        if kernel.rotation.ring or kernel.counters.inactive:
            return 0.0
        first = min(kernel.rotation.next_wake, kernel.next_due, kernel.leases.next_expiry if kernel.leases.out else NEVER)
        return None if first == NEVER else max(first - self._now(), 0.0)

    # -- looking

    @property
    def state(self) -> CrawlState:
        """Where the crawl stands. O(1)."""
        self._enter()
        return self._kernel.counters.state

    @property
    def settings(self) -> Settings:
        """The settings in force, without the adjustments."""
        return self._kernel.settings

    def summary(self) -> Summary:
        """The counters, as of now. O(1)."""
        self._enter()
        kernel = self._kernel
        kernel.counters.ready = len(kernel.rotation.ring)
        kernel.counters.leases = len(kernel.leases.out)
        return snapshot.summary(kernel.env.txn, kernel.env.db, kernel.counters)

    def queue(self, key: str) -> QueueRecord | None:
        """A queue as it stands now, None if no URI was ever placed there. O(1)."""

        def look() -> QueueRecord | None:
            queue = self._kernel.queues.find(key)
            if queue is None:
                return None
            self._kernel.refresh(queue)
            return msgspec.structs.replace(queue)

        return self._operate(look, changes=0)

    def report(self) -> snapshot.Report:
        """The snapshot that all reports are made from, as of now. O(queues)."""

        def look() -> snapshot.Report:
            self._kernel.flush()
            return snapshot.report(self._kernel.env.txn, self._kernel.env.db, generated=self._now())

        return self._operate(look, changes=0)

    def audit(self, *, limit: int | None = None) -> list[AuditEntry]:
        """The commands that were applied, newest last."""
        return self._operate(lambda: snapshot.audit(self._kernel.env.txn, self._kernel.env.db, limit), changes=0)

    def dead_letters(self, *, limit: int | None = None) -> list[DeadLetter]:
        """The URIs that were given up on, oldest first. O(answer)."""
        return self._operate(lambda: snapshot.dead_letters(self._kernel.env.txn, self._kernel.env.db, limit), changes=0)

    def check(self) -> None:
        """Verify every invariant; raises CorruptFrontier with what does not hold. O(everything), for tests and repairs."""

        def look() -> None:
            self._kernel.flush()
            check(self._kernel.env.txn, self._kernel.env.db)

        self._operate(look, changes=0)

    # -- steering

    def adjust(
        self, *, match: str = "*", reason: str = "", who: str | None = None, dry_run: bool = False, **settings: Any
    ) -> Adjustment:
        """Append an override: any setting that `overrides` may set, for what `match` names (default: everything).

        Every RETIRED queue that was not retired by name gets another look. With `dry_run` nothing changes, and the
        answer lists the queues that would retire or revive. Raises SettingsError. O(retired queues); a dry run is
        O(queues).
        """
        self._enter()
        args = {"match": match, "set": dict(validate_override(match, settings).set), "dry_run": dry_run}
        effect = self._steer("adjust", args, who, reason).effect
        defaults = {"retired": [], "revived": [], "retired_count": 0, "revived_count": 0, "spend": 0, "dry_run": dry_run}
        if not dry_run:
            effect = {**effect, "revived_count": effect["revived"], "revived": []}
        return Adjustment(**{"id": self._kernel.counters.audit, **defaults, **effect})

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
        self, *, queue: str | None = None, pattern: str | None = None, reason: str = "", who: str | None = None
    ) -> int:
        """Delete pending URIs by queue (a glob) and URL (a regular expression); nothing is charged.

        URIs that are out stay. Deleted URIs stay seen. O(URIs of the queues that match).
        """
        args = {"queue": queue, "pattern": pattern}
        adjustments.check_command("delete", args)
        return int(self._steer("delete", args, who, reason).effect["deleted"])

    def replay(
        self, ids: Iterable[int] | None = None, *, queue: str | None = None, reason: str = "", who: str | None = None
    ) -> int:
        """Put dead letters back on their queues, by id or by queue; all of them when neither is given."""
        args = {"ids": None if ids is None else list(ids), "queue": queue}
        return int(self._steer("replay", args, who, reason).effect["replayed"])

    def drop_dead_letters(
        self, ids: Iterable[int] | None = None, *, queue: str | None = None, reason: str = "", who: str | None = None
    ) -> int:
        """Drop dead letters for good, by id or by queue; all of them when neither is given."""
        args = {"ids": None if ids is None else list(ids), "queue": queue}
        return int(self._steer("drop", args, who, reason).effect["dropped"])

    def apply(self, command: Command, *, number: int = 0) -> AuditEntry:
        """Apply a command as it came from outside, and audit it. A command that is refused changes nothing."""
        return self._operate(lambda: self._apply(number, command))

    # -- durability

    def commit(self) -> None:
        """Return when everything so far is on disk; commands in the mailbox are applied first."""
        self._operate(self._tick, changes=0)

    def close(self) -> None:
        """Give the leases back uncounted, commit, and let the next one open it. A second close does nothing."""
        if self._closed is not None and not self._forked:
            return
        self._enter()
        try:
            now = self._now()
            if not self._keep_leases:
                for lease in reversed(list(self._kernel.leases.out.values())):
                    self._kernel.lose(lease, now, front=True, counted=False)
                self._settle()
            self._kernel.flush()
            self._kernel.env.commit()
        except BaseException as e:
            self._abandon(e)
        self._shut("this frontier was closed; open it again")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._closed is not None:
            return f"<Frontier {self._path} closed>"
        return f"<Frontier {self._path} {snapshot.summary_line(self.summary())}>"

    # -- inside

    def _enter(self) -> None:
        if get_ident() != self._owner:
            self._refuse()

    def _refuse(self) -> NoReturn:
        """Say why a call may not go on: not from its thread, or from a forked child, or after it was closed."""
        if self._closed is not None and not self._forked:
            raise FrontierClosed(self._closed)
        raise WrongThread

    def _now(self) -> float:
        now = self._clock.time()
        if now > self._last_time:
            self._last_time = now
            return now
        return self._last_time  # within a run time never goes backwards

    def _settle(self) -> None:
        if self._kernel.settle():
            self._hooks.paused_at_finish()

    def _leave(self, changes: int) -> None:
        self._changes += changes
        if self._changes >= self._most or time.monotonic() >= self._next_look:
            try:
                self._tick()
            except BaseException as e:
                self._abandon(e)
        if self._hooks.waiting:
            self._hooks.run()

    def _operate(self, operation: Callable[[], _T], *, changes: int = 1) -> _T:
        """Run one operation that is not on the hot path."""
        self._enter()
        try:
            result = operation()
            self._settle()
        except FrontierError:
            raise  # a refusal: it changed nothing
        except BaseException as e:
            self._abandon(e)
        self._leave(changes)
        return result

    def _tick(self) -> None:
        """Look at the mailbox, and commit what has changed."""
        self._read_mailbox()
        self._commit()

    def _commit(self) -> None:
        kernel = self._kernel
        if self._changes or kernel.queues.dirty:
            kernel.flush()
            kernel.env.commit()
            kernel.queues.trim()
        self._committed()

    def _committed(self) -> None:
        frontier = self._kernel.settings.frontier
        self._changes = 0
        self._most = min(frontier.commit_operations or self._kernel.env.operations, self._kernel.env.operations)
        self._next_look = time.monotonic() + frontier.commit_interval

    def _read_mailbox(self) -> None:
        if self._mailbox is None:
            return
        waiting = self._mailbox.waiting(self._kernel.counters.command)
        for number, command in waiting:
            self._apply(number, command)
            self._settle()
        if waiting:
            self._changes += 1
            self._commit()
            self._mailbox.done(waiting[-1][0])

    def _apply(self, number: int, command: Command) -> AuditEntry:
        kernel = self._kernel
        entry = AuditEntry(number, command.op, command.args, command.who, self._now(), command.reason, {})
        try:
            adjustments.check_command(command.op, command.args)
        except (KeyError, TypeError, ValueError, FrontierError) as e:
            entry.error = f"{command.op}: {e if str(e) else type(e).__name__}"
        try:
            if entry.error:
                pass
            elif command.op == "schedule":
                tally = Tally()
                self._intake.take(map(adjustments.uri_from, command.args["uris"]), tally, entry.when)
                entry.args = {"uris": len(command.args["uris"])}
                entry.effect = {name: getattr(tally, name) for name in tally.__slots__}
            elif command.op in adjustments.OPERATIONS:
                entry.effect = adjustments.OPERATIONS[command.op](kernel, command.args, entry.when)
            else:
                entry.error = f"unknown command {command.op!r}; this engine knows {', '.join(adjustments.OPERATIONS)}"
        except FrontierError as e:
            entry.error = str(e)
        kernel.counters.command = max(kernel.counters.command, number)
        if number or not command.args.get("dry_run"):
            adjustments.record(kernel, entry)
        return entry

    def _steer(self, op: str, args: dict[str, Any], who: str | None, reason: str) -> AuditEntry:
        entry = self.apply(Command(op, args, who or "api", reason))
        if entry.error:
            raise FrontierError(entry.error)
        return entry

    def _steer_queue(self, op: str, args: dict[str, Any], who: str | None, reason: str) -> bool:
        self._enter()
        if self._kernel.queues.find(args["queue"]) is None:
            return False
        self._steer(op, args, who, reason)
        return True

    def _still_out(self, lease: Lease, now: float) -> Lease:
        """The lease's entry, after those that have expired were ended."""
        try:
            self._kernel.expire(now)
            self._settle()
        except BaseException as e:
            self._abandon(e)
        mine = self._kernel.leases.out.get(lease.id)
        if mine is None:
            raise LeaseExpired(
                f"lease {lease.id} of {lease.uri.url} has ended; drop the result, its URI is delivered again if need be"
            )
        return mine

    def _wait(
        self, lease: Lease, outcome: Outcome, settings: QueueSettings, wait: float, delay: float | None, now: float
    ) -> tuple[float, float]:
        """How long the queue waits when a retry, or a delay given by name, lengthens it; and the delay of the retry."""
        retry_delay = settings.retry_delay if delay is None else delay
        if outcome is Outcome.RETRY and (settings.retry_uri or lease.attempt > settings.max_retries):
            return wait, retry_delay
        if delay:
            queue = self._kernel.queues.get(lease.queue_id)
            queue.block = max(queue.block, now + delay)
        return max(wait, retry_delay if outcome is Outcome.RETRY else delay or 0.0), retry_delay

    def _given(self, uris: Iterable[str | CrawlUri]) -> list[str | CrawlUri]:
        """What the caller's iterable gives. Its own errors change nothing; Ctrl-C ends the frontier as everywhere."""
        try:
            return list(uris)
        except Exception:
            raise
        except BaseException as e:
            self._abandon(e)

    def _abandon(self, error: BaseException) -> NoReturn:
        """Drop everything since the last commit and close: never half an operation."""
        path = self._kernel.env.path
        self._shut(f"this frontier was closed by an error ({type(error).__name__}: {error}); open it again")
        if isinstance(error, lmdb.Error):
            raise explain(error, path) from error
        raise error

    def _shut(self, why: str) -> None:
        self._closed = why
        self._owner = 0
        _open.discard(self)
        with contextlib.suppress(lmdb.Error):
            self._kernel.env.close()
        if self._mailbox is not None:
            self._mailbox.close()


def _seconds(value: float, name: str) -> float:
    value = float(value)
    if not 0 <= value < NEVER:
        raise ValueError(f"{name} is a number of seconds, not {value!r}")
    return value
