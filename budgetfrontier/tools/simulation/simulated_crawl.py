"""One simulation: leases, fetches and their ends, in the order of a clock that jumps from one event to the next."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import count
from math import ceil, exp, inf
from pathlib import Path
from random import Random
from statistics import NormalDist

from budgetfrontier.clock import ManualClock
from budgetfrontier.core.model import CrawlState, CrawlUri, Directive, Finish, Lease, Outcome, QueueState
from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.engine.history import History
from budgetfrontier.engine.opening import open_parts
from budgetfrontier.rules.backoff import UNAVAILABLE
from budgetfrontier.rules.host_behaviour import Retries
from budgetfrontier.rules.simulation import (
    FETCHES,
    FINISHED,
    MAX_TIME,
    MOST,
    UNTIL,
    Question,
    Simulated,
    Step,
)
from budgetfrontier.rules.uri_outcomes import outcome_of_answer
from budgetfrontier.settings.scope_rules import hops_from_seed
from budgetfrontier.tools.simulation.simulated_hosts import Remembered, SimulatedHost

_RETRY, _FAILURE, _DISREGARDED = Outcome.RETRY, Outcome.FAILURE, Outcome.DISREGARDED
_RUNNING = CrawlState.RUNNING
_SERVER_ERROR = 500  # stands for all that are about the page
_FOREVER = 1e9  # seconds of a lease: none expires
_SPREAD = 0.5  # of the logarithm of durations: most are between half and twice their mean
_DRAWS = 1 << 10
_TIMES = [exp(NormalDist(-_SPREAD * _SPREAD / 2, _SPREAD).inv_cdf((n + 0.5) / _DRAWS)) for n in range(_DRAWS)]
"""The durations that are drawn, divided by the mean of their host: as probable as each other."""
_STEPS = 25  # into which the time is divided that a fetch and the rest after it take: ends in one step are one event
_NEVER = 1 << 60  # steps
_TOLD = 0.5  # seconds between two reports of progress
_COURSE = 1.005  # times as many fetches, when their time is noted again

Progress = Callable[[Step], object]


class _NoHistory(History):
    """A history that draws do not become part of."""

    def ended(self, *attempt: object) -> None:
        """Count nothing."""

    def landed(self, *attempt: object) -> None:
        """Count nothing."""


class SimulatedCrawl:
    """A simulation of the frontier at `path`, a copy, which it changes."""

    def __init__(self, path: Path, question: Question) -> None:
        self._question = question
        self._clock = ManualClock(question.start)
        parts = open_parts(
            path,
            None,
            now=question.start,
            keep_leases=question.leases_held,
            program="budgetfrontier simulate",
            scratch=True,
        )
        self._frontier, self._kernel = Frontier(parts, clock=self._clock, disks=None), parts.kernel
        self._kernel.tables.history = _NoHistory(parts.kernel.tables.env, parts.kernel.counters)
        self._random = Random(question.seed)
        self._seen = Remembered(self._kernel.tables.flushed(), self._kernel.tables.in_force.effective, question.start)
        self._hosts: dict[int, SimulatedHost] = {}
        self._numbers = count(1)
        self._flying: dict[int, list[tuple[Lease, SimulatedHost, float]]] = {}
        self._ends: list[int] = []
        self._out = self._fetches = self._overloaded = 0
        self._failing: dict[str, Retries | None] = {}
        """The URLs of attempts that were drawn as failures, and their retries; None if their hosts were overloaded."""
        self._course: list[tuple[int, float]] = []
        """The fetches at times: about each half percent more."""
        while self._kernel.underway:
            self._frontier.commit()  # takes the next step of the command in progress
        for match, settings in question.changes:
            self._frontier.adjust(match=match, who="simulate", **settings)
        if self._frontier.state in (CrawlState.PAUSED, CrawlState.PAUSING):
            self._frontier.resume(who="simulate")
        self._before = self._frontier.summary()
        in_force = self._kernel.tables.in_force
        variants = list(in_force.effective.variants())
        self._revisits = any(one.revisit_after > 0 for one in variants)
        self._by_url = (
            in_force.constant_cost is not None
            and all(one.cost_policy == in_force.base.cost_policy for one in variants)
            and not (in_force.asks_about_uris or in_force.counts_links or self._revisits)
        )
        """No policy looks at the page that a URI was found on: those of several pages are scheduled together."""
        self._discovered: list[str] = []
        self._step = max(self._seen.mean.seconds + in_force.base.min_delay, 0.05) / _STEPS

    def run(self, progress: Progress) -> Simulated:
        """Simulate until the end that the question asks for, and return what has happened."""
        frontier = self._frontier
        self._begin(list(self._kernel.tables.leases.out.values()), 0)  # fetches in flight go on
        ended_by = self._crawl(progress)
        frontier.give_back([lease for one in self._flying.values() for lease, _, _ in one])
        found = self._result(ended_by)
        frontier.close()
        return found

    def _crawl(self, progress: Progress) -> str:
        """Lease, and end what was leased, until there is a reason to stop; return that."""
        question, clock, frontier = self._question, self._clock, self._frontier
        lease, finish, ready_in = frontier.lease, frontier.finish_many, frontier.internals.ready_in
        schedule = frontier.schedule_many
        start, step, begin, flying, ends = question.start, self._step, self._begin, self._flying, self._ends
        limited = question.uris is not None or question.bytes is not None
        course, noted = self._course, 0.0
        half, tick, now, told = step / 2, 0, start, time.monotonic() + _TOLD
        last, why = self._last()
        while self._fetches < question.most:
            ready = None
            free = self._free()
            if free:
                ready = ready_in()
                while ready == 0.0 and free > 0:
                    begin(lease(free, ttl=_FOREVER), tick)
                    free = self._free()
                    ready = ready_in()
            if not ends and (frontier.state is not _RUNNING or ready is None):
                return self._limit_reached() or FINISHED
            tick = min(ends[0] if ends else _NEVER, _NEVER if ready is None else tick + max(ceil(ready / step), 1))
            now = start + tick * step
            if now > last:
                clock.set(last)
                return why
            if ends and ends[0] == tick:
                heappop(ends)
                clock.set(now - half)  # as queues that rest from here on wait half a step too long on average
                ended = self._outcomes(flying.pop(tick))
                if self._discovered:
                    schedule(self._discovered)
                    self._discovered.clear()
                finish(ended)
                if self._fetches >= noted:
                    course.append((self._fetches, now - start))
                    noted = self._fetches * _COURSE
            clock.set(now)
            if limited and (reached := self._limit_reached()):
                return reached
            if time.monotonic() >= told:
                told = time.monotonic() + _TOLD
                progress(Step(self._fetches, now - start, self._share(now - start)))
        return FETCHES

    def _begin(self, leases: list[Lease], tick: int) -> None:
        """Begin the fetches of leases: draw how long each takes."""
        hosts, flying, drawn, step = self._hosts, self._flying, self._random.random, self._step
        for lease in leases:
            host = hosts.get(lease.queue_id) or self._host(lease.queue_id)
            seconds = host.seconds * _TIMES[int(drawn() * _DRAWS)]
            end = tick + (round(seconds / step) or 1)
            if (same := flying.get(end)) is None:
                same = flying[end] = []
                heappush(self._ends, end)
            same.append((lease, host, seconds))
        self._out += len(leases)

    def _host(self, queue_id: int) -> SimulatedHost:
        found = self._hosts[queue_id] = self._seen.host(queue_id, self._random)
        return found

    def _outcomes(self, ended: list[tuple[Lease, SimulatedHost, float]]) -> list[Finish]:
        """Draw the outcomes of fetches that have ended. Those without links come first: that is one pass."""
        revisits, by_url, max_hops = self._revisits, self._by_url, self._question.max_hops
        drawn, plain, others = self._random.random, list[Finish](), list[Finish]()
        self._out -= len(ended)
        self._fetches += len(ended)
        for lease, host, seconds in ended:
            host.fetches += 1
            failing = self._failed_by(lease, host) if lease.attempt > 1 else None
            if host.overload and drawn() < host.overload:
                self._overloaded += 1
                self._failing[lease.uri.url] = failing
                others.append(Finish(lease, _RETRY, fetch_seconds=seconds, status=UNAVAILABLE, delay=host.retry_after))
                continue
            fails = host.retry if failing is None else failing.later(host.drawn, lease.attempt)
            if fails and drawn() < fails:
                others.append(self._failure(lease, host, failing or self._retries(host), seconds))
                continue
            if lease.uri.directive is Directive.HIGHEST:  # a robots.txt
                plain.append(Finish(lease, fetch_seconds=seconds))
                continue
            outcome, delay = drawn(), host.crawl_delay
            hops = -1
            if outcome >= host.other:
                links = host.links * host.new + (drawn() if host.left is None else host.left)
                new = int(links)
                if host.left is not None:
                    host.left = links - new
                if new and max_hops >= 0 and (hops := _hops(lease.uri)) >= max_hops:
                    new = 0
                host.new = max(host.new * host.fall, host.least)
                if new and by_url and lease.uri.source is None:
                    self._discovered += self._links(lease.uri.url, new, hops + 1)
                    plain.append(Finish(lease, fetch_seconds=seconds, crawl_delay=delay, size=host.size))
                elif new or revisits:
                    found: list[str | CrawlUri] = [*self._links(lease.uri.url, new, hops + 1)]
                    if revisits:
                        found += self._next_visit(lease)
                    others.append(
                        Finish(lease, fetch_seconds=seconds, crawl_delay=delay, discovered=found, size=host.size)
                    )
                else:
                    plain.append(Finish(lease, fetch_seconds=seconds, crawl_delay=delay, size=host.size))
            elif outcome < host.failure:
                others.append(Finish(lease, _FAILURE, fetch_seconds=seconds, crawl_delay=delay))
            else:
                others.append(Finish(lease, _DISREGARDED))
        return plain + others

    def _failed_by(self, lease: Lease, host: SimulatedHost) -> Retries | None:
        """Return the retries of a URI whose earlier attempts failed, not only because its host was overloaded."""
        if (url := lease.uri.url) not in self._failing:
            is_innocent = host.innocent > 0 and self._random.random() < host.innocent
            self._failing[url] = None if is_innocent else self._retries(host)
        return self._failing[url]

    def _retries(self, host: SimulatedHost) -> Retries:
        """Draw whether a URI that fails for now is answered with a server error; return the retries of such."""
        is_answered = host.answered > 0 and self._random.random() < host.answered
        return self._seen.answered_retries if is_answered else self._seen.retries

    def _failure(self, lease: Lease, host: SimulatedHost, failing: Retries, seconds: float) -> Finish:
        """Return the end of an attempt that fails for now; or for good, if it is the last one after a server error."""
        self._failing[lease.uri.url] = failing
        if failing is not self._seen.answered_retries:
            return Finish(lease, _RETRY, fetch_seconds=seconds)
        settings = self._kernel.tables.in_force.for_uri(lease.uri.url, lease.queue, lease.uri.source)
        outcome = outcome_of_answer(_SERVER_ERROR, lease.attempt, settings)
        return Finish(lease, outcome, fetch_seconds=seconds, status=_SERVER_ERROR, crawl_delay=host.crawl_delay)

    def _links(self, url: str, new: int, hops: int) -> list[str]:
        """Return new URLs of the same host, which are like the one that they are found on, with their hops if any."""
        path, mark, query = url.partition("?")
        base, numbers = f"{path.partition('~')[0]}~{hops or ''}.", self._numbers
        return [f"{base}{next(numbers)}{mark}{query}" for _ in range(new)]

    def _next_visit(self, lease: Lease) -> Iterator[CrawlUri]:
        """Yield the URI of the next visit to a page, if the settings want one."""
        url, source, directive = lease.uri.url, lease.uri.source, lease.uri.directive
        after = self._kernel.tables.in_force.for_uri(url, lease.queue, source).revisit_after
        if after > 0:
            due = self._clock.time() + after
            yield CrawlUri(url, source=source, directive=directive, force=True, not_before=due)

    def _share(self, seconds: float) -> float:
        """Return the part of the simulation that is done: to the end that is nearest.

        The URIs that wait tell nothing of it as long as they do not become fewer.
        """
        question, left = self._question, self._frontier.summary()
        parts, waiting = [self._fetches / question.most], left.queued + left.future
        parts += (
            [self._fetches / (self._fetches + waiting)] if waiting < self._before.queued + self._before.future else []
        )
        parts += [seconds / length for length in (question.seconds, question.time) if length]
        parts += [self._ended() / question.uris] if question.uris else []
        parts += [(left.bytes - self._before.bytes) / question.bytes] if question.bytes else []
        return min(max(parts), 1.0)

    def _last(self) -> tuple[float, str]:
        """Return the time at which it ends at the latest, and what ends it then."""
        start, lengths = self._question.start, ((UNTIL, self._question.seconds), (MAX_TIME, self._question.time))
        ends = ((start + max(length, 0.0), name) for name, length in lengths if length is not None)
        return min((*ends, (inf, FINISHED)))

    def _free(self) -> int:
        """Return how many fetches may begin."""
        free, most = self._question.fetchers - self._out, self._question.uris
        return free if most is None else min(free, int(most) - self._ended() - self._out)

    def _ended(self) -> int:
        """Return the URIs that have ended, as `limits.max_uris` counts them."""
        now, before = self._frontier.summary(), self._before
        return now.succeeded + now.failed - before.succeeded - before.failed

    def _limit_reached(self) -> str:
        """Return the limit of the crawl that is reached; "" if none is."""
        question = self._question
        if question.uris is not None and self._ended() >= question.uris:
            return "max_uris"
        if question.bytes is not None and self._frontier.summary().bytes - self._before.bytes >= question.bytes:
            return "max_bytes"
        return ""

    def _result(self, ended_by: str) -> Simulated:
        tables, before, now = self._kernel.tables, self._before, self._frontier.summary()
        found = Simulated(
            ended_by=ended_by,
            seconds=self._clock.time() - self._question.start,
            fetches=self._fetches,
            unsure=0,
            overloaded=self._overloaded,
            succeeded=now.succeeded - before.succeeded,
            failed=now.failed + now.given_up - before.failed - before.given_up,
            disregarded=now.disregarded - before.disregarded,
            spent=now.expenditure - before.expenditure,
            discovered=now.scheduled - before.scheduled,
            size=now.bytes - before.bytes,
            queued=now.queued,
            future=now.future,
            most_after=next((seconds for fetches, seconds in self._course if fetches >= MOST * self._fetches), 0.0),
            elsewhere=self._seen.elsewhere,
        )
        for queue in tables.flushed().compact_queues():
            host = self._hosts.get(queue.id)
            if host is not None:
                goes_on = host.drawn.endless and queue.queued + queue.future > 0
                found.endless += host.fetches * goes_on
                found.unsure += host.fetches * (host.drawn.few or (host.drawn.endless and not goes_on))
            if queue.state is QueueState.RETIRED:
                found.retired += 1
                found.stranded += queue.queued
            elif queue.queued and host is None:
                found.starved += 1
        return found


def _hops(uri: CrawlUri) -> int:
    """Return the links between a seed and a URI, which are in the URL of one that was found in a simulation."""
    if uri.hops:
        return hops_from_seed(uri)
    hops = uri.url.partition("?")[0].rpartition("~")[2].partition(".")[0]
    return int(hops) if hops.isascii() and hops.isdigit() else 0
