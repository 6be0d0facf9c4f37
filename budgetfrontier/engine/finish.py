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
from budgetfrontier.rules.run_history import shortened
from budgetfrontier.rules.seeds import SeedFate
from budgetfrontier.rules.uri_outcomes import ERROR, Fate
from budgetfrontier.settings.overrides import QueueSettings
from budgetfrontier.storage.keys import DIRECTIVE
from budgetfrontier.storage.uri_values import tries, with_tries

_SUCCESS, _RETRY, _FAILURE = Outcome.SUCCESS, Outcome.RETRY, Outcome.FAILURE  # a look-up costs 0.1 us
_FATES = {
    _SUCCESS: SeedFate.SUCCEEDED,
    _FAILURE: SeedFate.FAILED,
    _RETRY: SeedFate.WAITING,
    Outcome.DISREGARDED: SeedFate.DISREGARDED,
}
"""The fate of a seed by the outcome of its attempt; `Tables.bury` says it of dead letters."""
_HIGHEST = int(Directive.HIGHEST)
_NO_DETAILS = Finish(Lease(0, "", CrawlUri(""), 0, 0.0, 0))
_NONE_ADMITTED = Tally()
ROBOTS = "robots"
"""The reason of a URI that is DISREGARDED because robots.txt forbids it."""


class Finisher:
    """Ends attempts, and lets URIs and queues go where `rules` says. O(1) each."""

    def __init__(self, tables: Tables, turns: Turns, admitter: Admitter) -> None:
        self._tables = tables
        self._turns = turns
        self._admitter = admitter

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

        Policies are asked first: a PolicyError leaves everything as it was.
        """
        tables, details, ending = self._tables, ending, ending or _NO_DETAILS
        settings = tables.in_force.for_uri(lease.uri.url, lease.queue, lease.uri.source)
        rest = 0.0
        if not lease.landed and wake_times.calls_for_rest(ending.outcome):
            rest = tables.in_force.rest(lease.uri, settings, ending.fetch_seconds, ending.crawl_delay)
        links: Sequence[str | CrawlUri] = ending.discovered  # type: ignore[assignment]  # it was checked
        admitted = Tally() if links else _NONE_ADMITTED
        read = self._admitter.read(links, admitted, lease.uri) if links else None
        queue = tables.queues.get(lease.queue_id)
        delay = None
        if details is not None:
            delay = self._heed(queue, lease, details, settings, rest, now)
            before = queue.enqueued
            if read is not None:
                self._admitter.admit(read, admitted, now, lease.uri)
                tables.counters.found += admitted.added
            tables.history.ended(lease, details, admitted.added, queue.enqueued - before)
        elif rest > 0.0:
            self._rest(queue, rest, now)
        self._turns.settings.refresh(queue)
        del tables.leases.out[lease.id]
        queue.out -= 1
        queue.reserved -= lease.cost
        queue.landed -= lease.landed
        self._end(queue, lease, ending, settings, delay, now)
        if tables.observed:
            self.observe(queue, lease, ending, settings, rest, now)
        best = tables.rotation.best_waiting
        after = queue_states.after_finish(queue, settings, now, best, ending.retire_queue)
        if after is not queue.state:
            self._turns.move(queue, after, now)

    def observe(
        self,
        queue: QueueRecord,
        lease: Lease,
        ending: Finish,
        settings: QueueSettings,
        rest: float,
        now: float,
    ) -> None:
        """Count an attempt for bandwidth, group and tallies, and take address and rank from it, before its queue moves.

        It is called if `Tables.observed`. `rest` is for how long the queue rests for politeness.
        """
        tables, outcome, size, began = self._tables, ending.outcome, ending.size, now
        if size and tables.in_force.limits_bandwidth:
            began = tables.leases.began(lease.id, now)
            self._use_bandwidth(queue, settings, size, began, now)
        spent = lease.cost + charges.penalty(outcome, settings) if charges.is_charged(outcome) else 0
        if queue.group:
            self._turns.groups.ended(queue, lease, spent, size, began, rest, now)
        if not tables.observes_uris:
            return
        if outcome is _SUCCESS:
            tables.tallies.succeeded(queue, lease, settings, size, ending.novel is not False)
        if ending.address and tables.in_force.needs_addresses:
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
        if ending.size:
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
        """Count and charge an attempt, and put its URI where it belongs."""
        tables, counters, key = self._tables, self._tables.counters, lease.key
        outcome, reason = ending.outcome, ending.reason
        if outcome is _SUCCESS:
            counters.succeeded += 1
            tables.pending.remove(queue, key)
        elif outcome is _RETRY:
            outcome = self._retry(queue, lease, ending, settings, delay, now)
        elif outcome is Outcome.DEFERRED:
            counters.deferred += 1
            tables.pending.put_back(queue.id, key)
        elif outcome is Outcome.DISREGARDED:
            counters.disregarded += 1
            counters.robots_denials += reason == ROBOTS
            tables.pending.remove(queue, key)
        elif outcome is _FAILURE:
            counters.failed += 1
            tables.pending.remove(queue, key)
        else:
            self._give_up(queue, key, tables.pending.value(key), reason or "dead", now)
        if counters.seeds and (fate := _FATES.get(outcome)) is not None:
            tables.seeds.became(lease.uri, fate, reason, now)
        if key[DIRECTIVE] == _HIGHEST and outcome not in (_RETRY, Outcome.DEFERRED):
            counters.prerequisites += 1
            counters.prerequisites_succeeded += outcome is _SUCCESS
            counters.prerequisites_disregarded += outcome is Outcome.DISREGARDED
        if outcome is not _SUCCESS and tables.observed:
            tables.tallies.failed(queue, lease, settings, ending, outcome)
        if charges.is_charged(outcome):
            penalty = charges.penalty(outcome, settings)
            charges.charge(queue, lease.cost, penalty)
            counters.expenditure += lease.cost + penalty
            tables.busiest.charged.add(lease.cost, queue.id)
            if outcome is not _SUCCESS:
                self._failed(queue, outcome, lease.cost, penalty, reason, now)

    def _failed(self, queue: QueueRecord, outcome: Outcome, cost: int, penalty: int, reason: str, now: float) -> None:
        """Count what an attempt has spent that failed, and note why it did."""
        counters = self._tables.counters
        _note_failure(queue, reason, now)
        if outcome is _FAILURE:
            counters.failed_expenditure += cost + penalty
            counters.penalties += penalty
        elif outcome is _RETRY:
            counters.retried_expenditure += cost
        else:
            counters.given_up_expenditure += cost
        if penalty:
            self._tables.busiest.penalized(queue.id, penalty)

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
        if fate is Fate.DELAYED:
            tables.pending.remove(queue, key)
            tables.future.add(queue, key[4:], value, now + delay, leaving=key)
        else:
            tables.pending.put_back(queue.id, key, value)
        return _RETRY

    def _give_up(self, queue: QueueRecord, key: bytes, value: bytes, reason: str, now: float) -> None:
        self._tables.counters.given_up += 1
        self._tables.bury(queue, key, value, reason, now)

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
