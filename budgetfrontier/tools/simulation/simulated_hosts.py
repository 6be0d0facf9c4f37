"""The draws for each host of a simulation, from what its frontier has seen of it."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from math import exp
from random import Random

from budgetfrontier.core.model import QueueHistory
from budgetfrontier.reports.queue_sample import chosen_places
from budgetfrontier.reports.trap_list import most_interesting, suspect
from budgetfrontier.rules.attempts import ended_in_error
from budgetfrontier.rules.backoff import OVERLOADED, UNAVAILABLE
from budgetfrontier.rules.error_kinds import status_kind
from budgetfrontier.rules.host_behaviour import (
    Behaviour,
    Means,
    Overloads,
    Retries,
    ServerErrors,
    behaviour,
    crawl_delay,
    ends_of,
    found_by,
    leads_on,
    retry_after,
)
from budgetfrontier.settings.overrides import Effective
from budgetfrontier.storage import keys
from budgetfrontier.storage.budgets_in_force import BudgetsInForce
from budgetfrontier.storage.records import decode_answers, decode_history
from budgetfrontier.storage.view import View

_SERVER_ERRORS = 3  # the place of 5xx among the classes of answers
_OVERLOADED = tuple(map(status_kind, OVERLOADED))
_ROW = keys.history.size
_SAMPLED = 20_000  # queues of which the means are those of all


class SimulatedHost:
    """The draws for a queue."""

    __slots__ = (
        *("answered", "crawl_delay", "drawn", "failure", "fall", "fetches", "innocent", "least", "left", "links"),
        *("new", "other", "overload", "retry", "retry_after", "seconds", "size"),
    )

    def __init__(
        self,
        drawn: Behaviour,
        crawl_delay: float | None,
        answered: float,
        overload: float,
        innocent: float,
        retry_after: float | None,
    ) -> None:
        self.innocent = innocent  # the share of its URIs to be tried again of which it was overloaded, no more
        self.overload, self.retry_after = overload, retry_after
        self.retry = drawn.retry
        last = 1 - drawn.retry or 1.0
        self.failure = drawn.failure / last  # of the attempts that are no retry
        self.other = max(1.0 - drawn.success / last, self.failure)
        self.seconds = max(drawn.seconds, 1e-3)
        self.links, self.size = drawn.links, round(drawn.size)
        self.new, self.fall, self.least = drawn.new, exp(-drawn.fall), drawn.least
        self.left = 0.5 if drawn.least else None  # the part of a new URI that its next page adds to, without chance
        self.fetches = 0
        self.crawl_delay, self.answered, self.drawn = crawl_delay, answered, drawn


class Remembered:
    """The history of the queues of a frontier, as of now: a simulation changes these records."""

    def __init__(self, view: View, effective: Effective, now: float) -> None:
        self._rows, self._found, self._waiting = bytearray(), array("d"), array("L")
        self._delays: dict[int, float] = {}
        self.elsewhere: float | None = None
        """The share of new URIs that were not on the host of their page; None if that is not known."""
        self._server_errors: dict[int, ServerErrors] = {}
        self._answered: float
        """The share of server errors among the URIs that failed for now, of all hosts."""
        self._overloads: dict[int, int] = {}
        """The attempts that were answered with 429 or 503, and the Retry-After of these hosts."""
        self._retry_after: dict[int, float] = {}
        for key, value in view.items(keys.HISTORY):
            place = _ROW * keys.u32.unpack(key)[0]
            self._rows += bytes(max(place + _ROW - len(self._rows), 0))
            self._rows[place : place + _ROW] = value
        base, trying, counters = effective.base, 0, view.counters()
        most, later = min(base.status_retries, base.max_retries), array("L")
        for queue in view.compact_queues():
            self._found.extend([0.0] * (queue.id + 1 - len(self._found)))
            self._waiting.extend([0] * (queue.id + 1 - len(self._waiting)))
            later.extend([0] * (queue.id + 1 - len(later)))
            self._waiting[queue.id], later[queue.id] = queue.queued, queue.future
            trying += queue.queued > 0 and ended_in_error(queue)
            if (asked := retry_after(queue)) is not None:
                self._retry_after[queue.id] = asked
            seen = self._seen(queue.id)
            if seen is not None and (delay := crawl_delay(queue, seen.seconds or 0.0, base)) is not None:
                self._delays[queue.id] = delay
        self._read_answers(view, most, later)
        self._suspects = self._found_suspects(view, now)
        answered = self._server_errors.values()
        passed, given_up = sum(one.passed for one in answered), sum(one.given_up for one in answered)
        self.answered_retries = Retries.of(most, passed + most * given_up, given_up, 0)
        retried = max(counters.retried - self.overloads.answers - sum(one.retried for one in answered), 0)
        self.retries = Retries.of(base.max_retries, retried, counters.given_up, trying)
        uris = sum(one.uris for one in answered)
        self._answered = uris / (uris + retried / self.retries.attempts_each) if uris else 0.0
        self._means = means = Means(self.retries)
        sample = chosen_places(len(self._found), _SAMPLED, Random(1))
        for add in (means.add, means.add_growth):
            for queue_id in sample:
                if (seen := self._by_uri(queue_id)) is not None:
                    add(seen, self._found[queue_id])
        self.mean = means.mean()

    def _read_answers(self, view: View, most: int, later: Sequence[int]) -> None:
        """Read how many URIs the pages of each queue have led to, and how many attempts had server errors.

        A URI with one had `most` retries; so many of each queue wait `later`.
        """
        own = new = 0.0
        for key, value in view.items(keys.ANSWERS):
            queue_id, row = keys.u32.unpack(key)[0], decode_answers(value)
            self._found[queue_id] = row.added
            seen = self._seen(queue_id)
            overloads = min(sum(row.kinds.get(kind, 0) for kind in _OVERLOADED), 0 if seen is None else seen.retry)
            if overloads:
                self._overloads[queue_id] = overloads
            failed = max(row.classes[_SERVER_ERRORS] - row.kinds.get(status_kind(UNAVAILABLE), 0), 0)
            if failed and seen is not None:
                seen.retry -= overloads
                self._server_errors[queue_id] = ServerErrors.of(failed, seen, most, later[queue_id])
            if seen is not None and (all_new := found_by(seen)) is not None:
                own, new = own + row.added, new + all_new
        seen_hosts = ((queue_id, self._seen(queue_id)) for queue_id in range(len(self._found)) if self._overloads)
        ends = ((self._overloads.get(queue_id, 0), ends_of(seen)) for queue_id, seen in seen_hosts if seen is not None)
        self.overloads = Overloads.of(Counter((overloads, number - overloads) for overloads, number in ends))
        share = own / new if own and new else 1.0
        self.elsewhere = max(1.0 - own / new, 0.0) if new else None
        for queue_id, found in enumerate(self._found):  # links to other queues are new as often as those to its own
            self._found[queue_id] = found / share

    def _found_suspects(self, view: View, now: float) -> set[int]:
        """Return the queues that look like traps, of those that lead on."""
        budgets, seen = BudgetsInForce(view), ((one, self._seen(one)) for one in most_interesting(view, None, now=now))
        asked = (one for one, history in seen if history is not None and leads_on(history, self._waiting[one]))
        return {one for one in asked if suspect(view, view.queue_by_id(one), now, budgets) is not None}

    def _seen(self, queue_id: int) -> QueueHistory | None:
        value = bytes(self._rows[_ROW * queue_id : _ROW * (queue_id + 1)])
        return decode_history(value) if any(value) else None

    def _by_uri(self, queue_id: int) -> QueueHistory | None:
        """Return the history of a queue without the answers 429 and 503, which are drawn by themselves.

        Other server errors are so many retries as `Retries.failing` takes for their URIs.
        """
        seen = self._seen(queue_id)
        if seen is not None:
            seen.retry -= self._overloads.get(queue_id, 0)
            if (errors := self._server_errors.get(queue_id)) is not None:
                seen.failure -= errors.given_up
                seen.retry += round(errors.uris * self.retries.attempts_each) - errors.retried
        return seen

    def host(self, queue_id: int, random: Random) -> SimulatedHost:
        """Return what to draw for a queue. How often it is overloaded is drawn here, for a few ends hardly tell."""
        before, seen, own = self._seen(queue_id), self._by_uri(queue_id), self._overloads.get(queue_id, 0)
        ends = 0 if before is None else ends_of(before)
        overload = random.betavariate(*self.overloads.shape(own, ends)) if self.overloads.answers else 0.0
        drawn, innocent, answered = self.mean, 0.0, self._answered
        if before is not None and seen is not None:
            drawn = behaviour(
                seen, self._found[queue_id], self._means, self._waiting[queue_id], suspect=queue_id in self._suspects
            )
            innocent = own / before.retry if own else 0.0
            errors = self._server_errors.get(queue_id)
            uris = 0 if errors is None else errors.uris
            answered = (uris + answered) / (self.retries.failing(seen) + 1)  # that of all hosts counts as one URI
        delay, asked = self._delays.get(queue_id), self._retry_after.get(queue_id)
        return SimulatedHost(drawn, delay, answered, overload, innocent, asked)
