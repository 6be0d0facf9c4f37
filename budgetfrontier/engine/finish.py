"""The end of an attempt: the queue's rest, the URIs discovered, the charge, and where the URI and its queue go."""

from __future__ import annotations

from collections.abc import Sequence

from budgetfrontier.engine.admission.admit import Admitter
from budgetfrontier.engine.tables import Tables
from budgetfrontier.engine.turns import Turns
from budgetfrontier.model import CrawlUri, Directive, Lease, Outcome, QueueRecord, Tally
from budgetfrontier.rules import backoff, charges, queue_states, uri_outcomes, wake_times
from budgetfrontier.rules.backoff import OVERLOADED
from budgetfrontier.rules.queue_states import IN_PROCESS, READY, RETIRED, SNOOZED
from budgetfrontier.rules.run_history import shortened
from budgetfrontier.rules.seeds import SeedFate
from budgetfrontier.rules.uri_order import NORMAL
from budgetfrontier.rules.uri_outcomes import ERROR, Fate
from budgetfrontier.settings.overrides import QueueSettings
from budgetfrontier.store.keys import DIRECTIVE
from budgetfrontier.store.uri_values import tries, with_tries

_SUCCESS, _RETRY = Outcome.SUCCESS, Outcome.RETRY
_HIGHEST = int(Directive.HIGHEST)
ROBOTS = "robots"
"""The reason of a URI that is DISREGARDED because robots.txt forbids it."""


class Finisher:
    """Ends attempts, and lets URIs and queues go where `rules` says. O(1) each."""

    def __init__(self, tables: Tables, turns: Turns, admitter: Admitter) -> None:
        self._tables = tables
        self._turns = turns
        self._admitter = admitter
        # What each finish looks up.
        self._bound = (
            tables, tables.counters, tables.rotation, tables.pending, tables.queues.cache.get, tables.queues.dirty.add
        )  # fmt: skip

    def __repr__(self) -> str:
        c = self._tables.counters
        return f"<Finisher {c.succeeded} succeeded, {c.failed} failed, {c.retried} retried, {self._tables.leases!r}>"

    def land(self, lease: Lease, fetch_seconds: float | None, crawl_delay: float | None, now: float) -> None:
        """Let the queue of a lease rest from now on, for its download is over: another of its URIs may go out then."""
        if lease.landed:
            return
        tables = self._tables
        settings = tables.in_force.for_uri(lease.uri.url, lease.queue)
        rest = tables.in_force.rest(lease.uri, settings, fetch_seconds, crawl_delay)
        queue = tables.queues.get(lease.queue_id)
        if rest > 0.0:  # else its wake time stays, for a clock may be set back
            self._rest(queue, rest, now)
        self._turns.settings.refresh(queue)
        tables.leases.landed(lease)
        queue.landed += 1
        after = queue_states.after_landing(queue, settings, now)
        if after is not queue.state:
            self._turns.move(queue, after, now)

    def finish(
        self,
        lease: Lease,
        outcome: Outcome,
        fetch_seconds: float | None,
        crawl_delay: float | None,
        discovered: Sequence[str | CrawlUri],
        reason: str,
        delay: float | None,
        retire_queue: bool,
        size: int,
        status: int,
        now: float,
    ) -> None:
        """End an attempt. Policies are asked first: a PolicyError leaves everything as it was.

        `PendingTable.remove`, `charges.charge`, and the common cases of `queue_states.after_finish` and `Rotation.move`
        are written out, as in `BatchFinisher.end_successes`: calls of them would cost a tenth of a lease and its
        finish. tests/engine/test_finish_many.py compares both.
        """
        tables, counters, rotation, pending, cached, dirty = self._bound
        in_force, cost, queue_id, landed = tables.in_force, lease.cost, lease.queue_id, lease.landed
        settings = in_force.base if in_force.trivial else in_force.effective.for_uri(lease.uri.url, lease.queue)
        rest = 0.0
        if not landed and (outcome is _SUCCESS or wake_times.calls_for_rest(outcome)):
            if fetch_seconds is None and crawl_delay is None and in_force.same_rest is not None:
                rest = in_force.same_rest
            else:
                rest = in_force.rest(lease.uri, settings, fetch_seconds, crawl_delay)
        read = self._admitter.read(discovered, Tally(), lease.uri) if discovered else ()
        queue = cached(queue_id) or tables.queues.get(queue_id)
        dirty(queue_id)
        if status and status in OVERLOADED:
            delay = self._back_off(queue, settings, delay, now)
        if outcome is _RETRY or delay:
            self._rest_after(queue, lease, outcome, settings, rest, delay, status, now)
        elif rest > 0.0:
            self._rest(queue, rest, now)
        if read:
            self._admitter.admit(read, Tally(), now, lease.uri)
        if queue.revision != counters.settings_revision:
            self._turns.settings.refresh(queue)
        del tables.leases.out[lease.id]
        out = queue.out = queue.out - 1
        queue.reserved -= cost
        if landed:
            queue.landed -= 1
        if size:
            queue.bytes += size
            counters.bytes += size
        if outcome is _SUCCESS:
            key = lease.key
            counters.succeeded += 1
            if key[DIRECTIVE] != NORMAL:
                self._note_early(lease, reason, now)
            if status and status >= ERROR and key[DIRECTIVE] != _HIGHEST:
                self._note_answer(queue, status, reason, now)
            pending.removed.append(key)
            queue.queued -= 1
            if queue.state is not RETIRED:
                counters.queued -= 1
            queue.balance -= cost
            queue.expenditure += cost
            queue.charges += 1
            queue.last_cost = cost
            counters.expenditure += cost
            tables.busiest.charged.append(key)
        else:
            self._end(queue, lease, outcome, settings, reason, delay, status, now)
        state = queue.state
        if (
            state is IN_PROCESS
            and queue.queued
            and queue.balance > 0
            and not out
            and not retire_queue
            and queue.total_budget < 0
            and queue.precedence <= rotation.best_waiting
        ):
            after = READY if queue.wake_time <= now else SNOOZED
        else:
            after = queue_states.after_finish(queue, settings, now, rotation.best_waiting, retire_queue)
        if state is IN_PROCESS and after is READY:
            counters.in_process -= 1
            counters.ring_back = queue.position = counters.ring_back + 1
            rotation.ring.back.append(queue_id)
            queue.state = READY
        elif state is IN_PROCESS and after is SNOOZED:
            rotation.snooze(queue, now + tables.longest_delay)
        elif state is not after:
            self._turns.move(queue, after, now)

    # -- the queue's rest

    def _rest(self, queue: QueueRecord, seconds: float, now: float) -> None:
        """Let a queue rest for so long, or as long as it does already."""
        until = now + seconds
        if until > queue.wake_time:
            self._tables.rotation.set_wake(queue, until)
        elif queue.rest < until <= max(queue.block, queue.paced_until):  # it counts if the block is undone
            queue.rest = until

    def _rest_after(
        self,
        queue: QueueRecord,
        lease: Lease,
        outcome: Outcome,
        settings: QueueSettings,
        politeness: float,
        delay: float | None,
        status: int,
        now: float,
    ) -> None:
        """Let a queue rest when a retry, or a `delay` given by name, may lengthen that."""
        seconds, by_name = wake_times.wait_after(outcome, lease.attempt, settings, politeness, delay, status)
        if by_name and delay:
            queue.delayed = max(queue.delayed, now + delay)
        if seconds > 0.0:
            self._rest(queue, seconds, now)

    @staticmethod
    def _back_off(queue: QueueRecord, settings: QueueSettings, asked: float | None, now: float) -> float | None:
        """Note that the host of a queue is overloaded; return for how long it rests, None if it gets no rest for that.

        Times of 0 are stored as a whole number, which takes one byte.
        """
        seconds, until = backoff.after_overload(queue, settings, asked, now)
        queue.backoff, queue.overloaded_until = seconds or 0, until or 0
        if not (asked or settings.backoff_delay):
            return None  # without a back-off, the retry delay applies
        return until - now if until > now else None

    # -- the charge and the URI

    def _end(
        self,
        queue: QueueRecord,
        lease: Lease,
        outcome: Outcome,
        settings: QueueSettings,
        reason: str,
        delay: float | None,
        status: int,
        now: float,
    ) -> None:
        """Count and charge an attempt that was no success, and put its URI where it belongs."""
        tables, counters, key = self._tables, self._tables.counters, lease.key
        if outcome is _RETRY:
            outcome = self._retry(queue, lease, settings, reason, delay, status, now)
        elif outcome is Outcome.DEFERRED:
            counters.deferred += 1
            tables.pending.put_back(queue.id, key)
        elif outcome is Outcome.DISREGARDED:
            counters.disregarded += 1
            counters.robots_denials += reason == ROBOTS
            counters.prerequisites_disregarded += key[DIRECTIVE] == _HIGHEST
            tables.seeds.became(lease.uri, SeedFate.DISREGARDED, reason, now)
            tables.pending.remove(queue, key)
        elif outcome is Outcome.FAILURE:
            counters.failed += 1
            tables.seeds.became(lease.uri, SeedFate.FAILED, reason, now)
            tables.pending.remove(queue, key)
        else:
            self._give_up(queue, key, tables.pending.value(key), reason or "dead", now)
        if key[DIRECTIVE] == _HIGHEST and outcome not in (_RETRY, Outcome.DEFERRED):
            counters.prerequisites += 1
        if charges.is_charged(outcome):
            _note_failure(queue, reason, now)
            penalty = charges.penalty(outcome, settings)
            charges.charge(queue, lease.cost, penalty)
            spent = lease.cost + penalty
            counters.expenditure += spent
            if outcome is Outcome.FAILURE:
                counters.failed_expenditure += spent
                counters.penalties += penalty
            elif outcome is _RETRY:
                counters.retried_expenditure += spent
            else:
                counters.given_up_expenditure += spent
            tables.busiest.charged.append(key)
            if penalty:
                tables.busiest.penalized(queue.id, penalty)

    def _retry(
        self,
        queue: QueueRecord,
        lease: Lease,
        settings: QueueSettings,
        reason: str,
        delay: float | None,
        status: int,
        now: float,
    ) -> Outcome:
        """Put the URI back for another attempt, or give it up; return which, as RETRY or DEAD."""
        tables, key = self._tables, lease.key
        value = tables.pending.value(key)
        attempts, deliveries = tries(value)
        value = with_tries(value, attempts + 1, deliveries)
        delay = wake_times.retry_delay(settings, delay, status)
        fate = uri_outcomes.fate(_RETRY, attempts + 1, settings, delay, status)
        if fate is Fate.DEAD:
            self._give_up(queue, key, value, reason or "retries exhausted", now)
            return Outcome.DEAD
        tables.counters.retried += 1
        tables.seeds.became(lease.uri, SeedFate.WAITING, reason, now)
        if fate is Fate.DELAYED:
            tables.pending.remove(queue, key)
            tables.future.add(queue, key[4:], value, now + delay, leaving=key)
        else:
            tables.pending.put_back(queue.id, key, value)
        return _RETRY

    def _give_up(self, queue: QueueRecord, key: bytes, value: bytes, reason: str, now: float) -> None:
        self._tables.counters.given_up += 1
        self._tables.bury(queue, key, value, reason, now)

    def _note_early(self, lease: Lease, reason: str, now: float) -> None:
        """Count a prerequisite that succeeded, or note the success of a seed."""
        counters = self._tables.counters
        if lease.key[DIRECTIVE] == _HIGHEST:
            counters.prerequisites += 1
            counters.prerequisites_succeeded += 1
        self._tables.seeds.became(lease.uri, SeedFate.SUCCEEDED, reason, now)

    def _note_answer(self, queue: QueueRecord, status: int, reason: str, now: float) -> None:
        """Count a SUCCESS whose answer was an error."""
        answers, name = self._tables.counters.error_answers, str(status) if status < 600 else "other"
        answers[name] = answers.get(name, 0) + 1
        _note_failure(queue, reason or f"status {status}", now)


def _note_failure(queue: QueueRecord, reason: str, now: float) -> None:
    """Count a failed attempt, and keep its reason for those who ask why the queue waits."""
    queue.errors += 1
    text = reason.encode("utf-8", "replace").decode()  # errors of fetchers may quote bytes that are not text
    queue.failure, queue.failed_at = shortened(text), now
