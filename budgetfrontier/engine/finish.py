"""The end of an attempt: the queue's rest, the URIs discovered, the charge, and where the URI and its queue go."""

from __future__ import annotations

from collections.abc import Sequence

from budgetfrontier.core import uris
from budgetfrontier.core.model import CrawlUri, Directive, Finish, Lease, Outcome, QueueRecord, Tally
from budgetfrontier.engine.admission.admit import Admitter
from budgetfrontier.engine.tables import Tables
from budgetfrontier.engine.turns import Turns
from budgetfrontier.rules import backoff, bandwidth, charges, queue_states, uri_outcomes, wake_times
from budgetfrontier.rules.backoff import OVERLOADED
from budgetfrontier.rules.queue_states import IN_PROCESS, INELIGIBLE, READY, RETIRED, SNOOZED
from budgetfrontier.rules.run_history import shortened
from budgetfrontier.rules.seeds import SeedFate
from budgetfrontier.rules.uri_order import NORMAL
from budgetfrontier.rules.uri_outcomes import ERROR, Fate
from budgetfrontier.settings.overrides import QueueSettings
from budgetfrontier.storage.keys import DIRECTIVE
from budgetfrontier.storage.uri_values import tries, with_tries

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
        # Looked up once, for each finish.
        of_queues = tables.queues.cache.get, tables.queues.dirty.add
        of_end = tables.leases.out, tables.pending.taken.remove, tables.busiest.charged.add
        self._bound = tables, tables.counters, tables.rotation, *of_queues, *of_end

    def land(self, lease: Lease, fetch_seconds: float | None, crawl_delay: float | None, now: float) -> None:
        """Let the queue of a lease rest from now on, for its download is over: another of its URIs may go out then."""
        if lease.landed:
            return
        tables = self._tables
        settings = tables.in_force.for_uri(lease.uri.url, lease.queue, lease.uri.source)
        rest = tables.in_force.rest(lease.uri, settings, fetch_seconds, crawl_delay)
        queue = tables.queues.get(lease.queue_id)
        if rest > 0.0:  # else its wake time stays, for a clock may be set back
            self._rest(queue, rest, now)
        self._turns.settings.refresh(queue)
        if fetch_seconds is not None:
            tables.history.landed(lease, fetch_seconds)
        tables.leases.landed(lease)
        queue.landed += 1
        if queue.group:
            self._turns.groups.landed(queue, rest, now)
        if tables.reassigns:
            self._turns.reassignment.ended(queue, lease.uri, now)
        after = queue_states.after_landing(queue, settings, now)
        if after is not queue.state:
            self._turns.move(queue, after, now)

    def finish(self, lease: Lease, ending: Finish | None, now: float) -> None:
        """End an attempt as a checked `ending` says; None: a SUCCESS without details.

        Policies are asked first: a PolicyError leaves everything as it was. Common cases are written out for speed,
        also where the kernel is there, for the ends that it leaves: calls would cost a tenth of a lease and its finish.
        Each copy names its rule; tests/engine/test_written_out.py compares them.
        """
        tables, counters, rotation, cached, dirty, out_now, remove, charged = self._bound
        in_force, cost, queue_id, key = tables.in_force, lease.cost, lease.queue_id, lease.key
        settings = in_force.base
        if not in_force.trivial:
            settings = in_force.effective.for_uri(lease.uri.url, lease.queue, lease.uri.source)
        rest = in_force.same_rest if ending is None and not lease.landed else None
        if rest is None:
            rest = self._politeness(lease, ending, settings)
        found: Sequence[str | CrawlUri] = () if ending is None else ending.discovered  # type: ignore[assignment]  # it was checked
        admitted = Tally() if found else None
        read = None if admitted is None else self._admitter.read(found, admitted, lease.uri)
        queue = cached(queue_id) or tables.queues.get(queue_id)
        dirty(queue_id)
        delay = None
        if ending is not None:
            delay = self._heed(queue, lease, ending, settings, rest, now)
        elif rest > 0.0:
            self._rest(queue, rest, now)
        if read is not None and admitted is not None:
            before = queue.enqueued
            self._admitter.admit(read, admitted, now, lease.uri)
            counters.found += admitted.added
            tables.history.ended(lease, ending, admitted.added, queue.enqueued - before)  # type: ignore[arg-type]  # it has links
        elif ending is not None:
            tables.history.ended(lease, ending)
        if queue.revision != counters.settings_revision:
            self._turns.settings.refresh(queue)
        del out_now[lease.id]
        out = queue.out = queue.out - 1
        queue.reserved -= cost
        if lease.landed:
            queue.landed -= 1
        if ending is None or ending.outcome is _SUCCESS:
            counters.succeeded += 1
            if key[DIRECTIVE] != NORMAL:
                self._note_early(lease, "" if ending is None else ending.reason, now)
            remove(key)  # copies `PendingTable.remove`
            queue.queued -= 1
            if queue.state is IN_PROCESS or (queue.state is not RETIRED and queue.state is not INELIGIBLE):
                counters.queued -= 1
            queue.balance -= cost  # copies `charges.charge`
            queue.expenditure += cost
            queue.charges += 1
            queue.last_cost = cost
            counters.expenditure += cost
            charged(cost, queue_id)
        else:
            self._end(queue, lease, ending, settings, delay, now)
        if tables.observed:
            self.observe(queue, lease, ending, settings, rest, now)
        state, retire = queue.state, ending is not None and ending.retire_queue
        if (  # copies `queue_states.after_finish`
            state is IN_PROCESS
            and queue.queued
            and queue.balance > 0
            and not out
            and not retire
            and queue.total_budget < 0
            and queue.precedence <= rotation.best_waiting
        ):
            after = READY if queue.wake_time <= now else SNOOZED
        else:
            after = queue_states.after_finish(queue, settings, now, rotation.best_waiting, retire)
        if state is IN_PROCESS and after is READY:  # copies `Rotation.move`
            counters.in_process -= 1
            counters.ring_back = queue.position = counters.ring_back + 1
            rotation.ring.append(queue_id)
            queue.state = READY
        elif state is IN_PROCESS and after is SNOOZED:
            rotation.snooze(queue, now + tables.longest_delay)
        elif state is not after:
            self._turns.move(queue, after, now)

    def observe(
        self,
        queue: QueueRecord,
        lease: Lease,
        ending: Finish | None,
        settings: QueueSettings,
        rest: float,
        now: float,
    ) -> None:
        """Count an attempt for bandwidth, group and tallies, and take address and rank from it, before its queue moves.

        It is called if `Tables.observed`. `rest` is for how long the queue rests for politeness.
        """
        tables, outcome, spent, size, began = self._tables, _SUCCESS, lease.cost, 0, now
        if ending is not None:
            outcome, size = ending.outcome, ending.size
            if size and tables.in_force.limits_bandwidth:
                began = tables.leases.began(lease.id, now)
                self._use_bandwidth(queue, settings, size, began, now)
            if outcome is not _SUCCESS:
                spent = spent + charges.penalty(outcome, settings) if charges.is_charged(outcome) else 0
        if queue.group:
            self._turns.groups.ended(queue, lease, spent, size, began, rest, now)
        if not tables.observes_uris:
            return
        if outcome is _SUCCESS:
            tables.tallies.succeeded(queue, lease, settings, ending)
        if ending is not None and ending.address and tables.in_force.needs_addresses:
            tables.hosts.reported(uris.host(lease.uri.url), ending.address, now)
        if tables.reassigns and queue.wake_time > now:
            self._turns.reassignment.ended(queue, lease.uri, now)
        in_force = tables.in_force
        if in_force.ranks_queues and (in_force.ranks_by_uris or queue.wake_time <= now):
            self._turns.settings.rank(queue)

    def _use_bandwidth(self, queue: QueueRecord, settings: QueueSettings, size: int, began: float, now: float) -> None:
        """Count bytes received for the bandwidth of a queue, which rests then, and of the crawl."""
        counters, of_crawl = self._tables.counters, self._tables.in_force.frontier.max_bandwidth
        if of_crawl:
            counters.busy_until = bandwidth.busy_until(counters.busy_until, began, size, of_crawl, now)
        if settings.max_bandwidth:
            until = bandwidth.busy_until(queue.busy_until, began, size, settings.max_bandwidth, now)
            queue.busy_until = until
            if until > now:
                self._rest(queue, until - now, now)

    # -- the queue's rest

    def _rest(self, queue: QueueRecord, seconds: float, now: float) -> None:
        """Let a queue rest for so long, or as long as it does already."""
        until = now + seconds
        if until > queue.wake_time:
            self._tables.rotation.set_wake(queue, until)
        elif (
            queue.rest < until <= max(queue.block, queue.paced_until, queue.closed_until)
        ):  # it counts if the block is undone
            queue.rest = until

    def _politeness(self, lease: Lease, ending: Finish | None, settings: QueueSettings) -> float:
        """Return for how long a queue rests for politeness. Raises PolicyError."""
        if lease.landed or (ending is not None and not wake_times.calls_for_rest(ending.outcome)):
            return 0.0
        fetch_seconds, crawl_delay = (None, None) if ending is None else (ending.fetch_seconds, ending.crawl_delay)
        return self._tables.in_force.rest(lease.uri, settings, fetch_seconds, crawl_delay)

    def _heed(
        self, queue: QueueRecord, lease: Lease, ending: Finish, settings: QueueSettings, politeness: float, now: float
    ) -> float | None:
        """Let a queue rest as an ending asks for, and count the answer; return the delay that replaces a retry's."""
        delay, status, outcome = ending.delay, ending.status, ending.outcome
        if status in OVERLOADED:
            delay = self._back_off(queue, settings, delay, now)
        if outcome is _RETRY or delay:  # they may lengthen the rest
            seconds, by_name = wake_times.wait_after(outcome, lease.attempt, settings, politeness, delay, status)
            if by_name and delay:
                queue.delayed = max(queue.delayed, now + delay)
            politeness = seconds
        if politeness > 0.0:
            self._rest(queue, politeness, now)
        queue.bytes += ending.size
        self._tables.counters.bytes += ending.size
        if outcome is _SUCCESS and status >= ERROR and lease.key[DIRECTIVE] != _HIGHEST:
            self._note_answer(queue, status, ending.reason, now)
        return delay

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
        ending: Finish,
        settings: QueueSettings,
        delay: float | None,
        now: float,
    ) -> None:
        """Count and charge an attempt that was no success, and put its URI where it belongs."""
        tables, counters, key = self._tables, self._tables.counters, lease.key
        outcome, reason = ending.outcome, ending.reason
        if outcome is _RETRY:
            outcome = self._retry(queue, lease, ending, settings, delay, now)
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
        if tables.observed:
            tables.tallies.failed(queue, lease, settings, ending, outcome)
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
            tables.busiest.charged.add(lease.cost, queue.id)
            if penalty:
                tables.busiest.penalized(queue.id, penalty)

    def _retry(
        self,
        queue: QueueRecord,
        lease: Lease,
        ending: Finish,
        settings: QueueSettings,
        delay: float | None,
        now: float,
    ) -> Outcome:
        """Put the URI back for another attempt, or give it up; return which, as RETRY or DEAD."""
        tables, key, reason, status = self._tables, lease.key, ending.reason, ending.status
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
        counters = self._tables.counters
        if lease.key[DIRECTIVE] == _HIGHEST:
            counters.prerequisites += 1
            counters.prerequisites_succeeded += 1
        self._tables.seeds.became(lease.uri, SeedFate.SUCCEEDED, reason, now)

    def _note_answer(self, queue: QueueRecord, status: int, reason: str, now: float) -> None:
        answers, name = self._tables.counters.error_answers, str(status) if status < 600 else "other"
        answers[name] = answers.get(name, 0) + 1
        queue.error_answers += 1
        _note_failure(queue, reason or f"status {status}", now)


def _note_failure(queue: QueueRecord, reason: str, now: float) -> None:
    """Count a failed attempt, and keep its reason for explanations of the queue's wait."""
    queue.errors += 1
    text = reason.encode("utf-8", "replace").decode()  # errors of fetchers may quote bytes that are not text
    queue.failure, queue.failed_at = shortened(text), now
