"""The main loop of a crawl: one task leases URIs, starts their visits, and finishes their leases.

It uses the frontier, which is synchronous and bound to one thread. It leases when workers are free, finishes the leases
of all visits that ended in one turn of the event loop in one call, and never sleeps longer than a commit interval, so
that external commands are applied. The engine alone chooses the next URI and its time.

Before each commit, threads sync the outputs. Leases and visits continue meanwhile. Their results are held, up to a
number of bytes, and are written and finished after the commit. So the commit only waits for its own file.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shlex
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from xxhash import xxh3_64_digest

from budgetfrontier.core import uris
from budgetfrontier.core.model import CrawlState, CrawlUri, Finish, Lease, Outcome
from budgetfrontier.crawler.cache import CrawlCache
from budgetfrontier.crawler.closing_summary import StopReason
from budgetfrontier.crawler.crawl_limits import CrawlLimits
from budgetfrontier.crawler.fetch.fetcher import Fetcher
from budgetfrontier.crawler.fetch.response import BROKEN, FetchResult, NoAddress, PutBack, cause_of
from budgetfrontier.crawler.interrupts import Interrupts
from budgetfrontier.crawler.outputs import Outputs
from budgetfrontier.crawler.policy_failures import PolicyFailures
from budgetfrontier.crawler.prerequisites import Prerequisites, is_robots
from budgetfrontier.crawler.progress import ProgressDisplay
from budgetfrontier.crawler.report_process import write_reports
from budgetfrontier.crawler.robots import Robots
from budgetfrontier.crawler.threads import in_disk_thread
from budgetfrontier.crawler.unwritten_results import Result, UnwrittenResults
from budgetfrontier.crawler.visit import Visit, Visits, revisit, should_revisit
from budgetfrontier.errors import FrontierError, LeaseExpired, PolicyError
from budgetfrontier.reports.format import counted
from budgetfrontier.rules import crawl_states, uri_outcomes
from budgetfrontier.rules.attempts import first_retry_told
from budgetfrontier.rules.seeds import is_seed
from budgetfrontier.rules.uri_outcomes import ERROR
from budgetfrontier.settings import Settings

if TYPE_CHECKING:
    from budgetfrontier.crawler.frontiers import CrawlFrontier, CrawlInternals

SHORTEST_SLEEP, LONGEST_SLEEP = 0.05, 0.5  # seconds between two checks for external commands
_FAILED = (Outcome.RETRY, Outcome.FAILURE, Outcome.DEAD)
_SEEDS_NAMED = 10
_CLOSING = (FrontierError, OSError)  # the frontier may be closed, or the disk fails: finish nothing
NO_TIMEOUT = 300.0  # seconds that a page waits for its robots.txt if fetches have no timeout

log = logging.getLogger("budgetfrontier.crawl")


class CrawlParts(NamedTuple):
    """The parts of one run that the main loop uses. `robots` and `prerequisites` are None if robots.txt is ignored."""

    frontier: CrawlFrontier
    internals: CrawlInternals
    cache: CrawlCache
    outputs: Outputs
    fetcher: Fetcher
    visitor: Visits
    robots: Robots | None
    prerequisites: Prerequisites | None
    limits: CrawlLimits
    policy_failures: PolicyFailures
    progress: ProgressDisplay
    interrupts: Interrupts
    most_visits: int
    """The most visits that may be in flight."""
    lease_ttl: float
    """Seconds for which URIs are leased. Leases of longer visits are renewed."""
    on_stop: Callable[[], None] | None
    """A function that is called repeatedly once the run is to end, so that visits do not wait for long."""
    on_visited: Callable[[Lease], None] | None = None
    """A function that is called when a visit has ended, maybe long before its lease is finished."""
    awaits: Callable[[], bool] | None = None
    """A function that returns whether something is about to be added, so that the crawl is not over yet."""


class MainLoop:
    """The main loop of one run, and the visits that are in flight."""

    def __init__(self, settings: Settings, folder: Path, parts: CrawlParts) -> None:
        self._settings, self._folder = settings, folder
        self._frontier, self._internals = parts.frontier, parts.internals
        self._cache, self._outputs = parts.cache, parts.outputs
        self._fetcher, self._visitor = parts.fetcher, parts.visitor
        self._robots, self._prerequisites = parts.robots, parts.prerequisites
        self._limits, self._policy_failures = parts.limits, parts.policy_failures
        self._progress, self._interrupts = parts.progress, parts.interrupts
        self.stop = StopReason.NONE
        """Why the run ends, if it does not end by itself."""
        self._wake = asyncio.Event()
        self._visits: dict[asyncio.Task[Visit], tuple[Lease, int]] = {}
        self._done: list[asyncio.Task[Visit]] = []
        self._closed = False  # whether the frontier may have been closed during one of them
        self._unwritten = UnwrittenResults()
        self._written: list[tuple[Finish, FetchResult]] = []  # in the outputs, leases not finished yet
        self._slots = list(range(parts.most_visits, 0, -1))
        self._failures = self._seeds_named = 0
        self._next_commit = self._last_reports = self._last_statistics = self._last_renewal = time.monotonic()
        self._commit_interval = max(SHORTEST_SLEEP, settings.frontier.commit_interval)
        self._syncing: asyncio.Future[list[None]] | None = None
        self._sync_began = self._lead = 0.0
        self._reporting: asyncio.Task[None] | None = None
        self._interval = min(LONGEST_SLEEP, max(SHORTEST_SLEEP, settings.frontier.commit_interval))
        self._ttl, self._on_stop, self._on_visited = parts.lease_ttl, parts.on_stop, parts.on_visited
        self._awaits = parts.awaits

    async def run(self) -> None:
        """Crawl until nothing is left to do or there is a reason to stop; then end visits in flight, and commit."""
        loop = asyncio.get_running_loop()
        self._interrupts.listen(lambda: loop.call_soon_threadsafe(self._interrupt))
        if self._interrupts.count:
            self._interrupt()
        try:
            async with self._fetcher:
                try:
                    await self._drive()
                finally:
                    left: list[asyncio.Future[Any]] = [*self._visits]
                    left += filter(None, (self._reporting, self._syncing))
                    for task in left:
                        task.cancel()
                    await asyncio.gather(*left, return_exceptions=True)
        finally:
            self._interrupts.listen(None)
        if self._settings.output.statistics:
            self._write_statistics()
        self._frontier.commit()

    def wake(self) -> None:
        """End the sleep of the loop: there may be URIs, or the state of the crawl may have changed."""
        self._wake.set()

    def _interrupt(self) -> None:
        """Take in the effects of signals so far."""
        if self._interrupts.count > 1 or self.stop is StopReason.POLICY:
            self.stop = StopReason.FORCED
            return
        flying = len(self._visits)
        waits = f"waiting for {counted(flying, 'fetch', 'fetches')} in flight" if flying else "no fetch is in flight"
        self._progress.say(f"stopping: {waits}; Ctrl-C or SIGTERM again stops at once")
        self.stop = StopReason.INTERRUPTED

    async def _drive(self) -> None:
        """Lease, fetch and finish until nothing is left to do or there is a reason to stop."""
        self._run_periodic_tasks()
        while self.stop is not StopReason.FORCED:
            self._commit_in_time()
            free = 0
            with self._policy_failures.pausing(self._frontier):
                free = self._lease()
            self._finish_written()
            if not self._visits and not self._unwritten and self._has_ended():
                return
            if self.stop is not StopReason.NONE and self._on_stop:
                self._on_stop()
            await self._wait(free)
            self._end_visits()
            for result in self._take_unwritten():
                with self._policy_failures.pausing(self._frontier):
                    self._complete(result)
            self._finish_written()
            if self._policy_failures.failure and self.stop is StopReason.NONE:
                self.stop = StopReason.POLICY
            self._run_periodic_tasks()

    def _commit_in_time(self) -> None:
        """Begin to sync the outputs if a commit is due, and commit when they are synced."""
        now = time.monotonic()
        if self._syncing is None and (now >= self._next_commit or self._cache.due):
            self._sync_began = now
            if rest := self._outputs.begin_sync():
                self._syncing = asyncio.gather(*map(in_disk_thread, rest))
                self._syncing.add_done_callback(lambda _: self._wake.set())
            else:
                self._commit()
        elif self._syncing is not None and self._syncing.done():
            self._syncing.result()
            self._syncing = None
            self._lead = min(1.5 * (now - self._sync_began), self._commit_interval / 2)
            self._commit()
            if self._done or self._unwritten:
                self._wake.set()  # visits that ended meanwhile have waited long enough
        if self._syncing is not None:  # it would wait for the threads
            self._internals.postpone_commit(2 * LONGEST_SLEEP)

    def _commit(self) -> None:
        """Commit. The next one begins so early that the frontier, which commits by itself too, never has to.

        With a slow disk, it begins no earlier than this one has taken, so that half of the time is left to the crawl.
        """
        self._frontier.commit()
        lead = max(self._lead, self._commit_interval / 20)
        now = time.monotonic()
        rest = max(self._commit_interval - lead, now - self._sync_began)
        self._next_commit = now + rest
        if rest + lead > self._commit_interval:
            self._internals.postpone_commit(rest + lead)

    def _end_visits(self) -> None:
        """Free the slots of the visits that have ended, and hold their results; during a sync, only as many as may be.

        A failure that ends the run is raised at once.
        """
        while self._done and (self._syncing is None or self._closed or not self._unwritten.full):
            task = self._done.pop(0)
            with self._policy_failures.pausing(self._frontier):
                self._end_visit(task)

    def _take_unwritten(self) -> list[Result]:
        return self._unwritten.take() if self._syncing is None else []

    def _lease(self) -> int:
        """Lease URIs for the free slots; return how many remain free.

        `lease` is called only if a URI is ready: even without a result it commits, which syncs all outputs.
        """
        free = self._free()
        if not free or self._frontier.next_ready_in() != 0:
            return free
        for lease in self._frontier.lease(free, ttl=self._ttl):
            self._start(lease)
        return self._free()

    def _free(self) -> int:
        if self.stop is not StopReason.NONE or self._unwritten.full:
            return 0
        return self._limits.room(len(self._slots), in_flight=len(self._visits) + len(self._unwritten))

    def _renew(self) -> None:
        """Renew the leases of held results and of visits that take long, such as of a page with a million links."""
        for lease in [*(lease for lease, _ in self._visits.values()), *self._unwritten.leases]:
            with contextlib.suppress(LeaseExpired):
                self._frontier.renew(lease, self._ttl)

    async def _wait(self, free: int) -> None:
        ready = self._frontier.next_ready_in() if free else None
        sleep = self._interval if ready is None else min(self._interval, ready)
        if self._syncing is None:
            sleep = max(min(sleep, self._next_commit - time.monotonic()), 0.0)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(sleep):
                await self._wake.wait()
        self._wake.clear()

    def _has_ended(self) -> bool:
        if self.stop is not StopReason.NONE:
            return True
        state = self._frontier.state
        if state is CrawlState.TERMINATED:
            return True
        if state is CrawlState.PAUSED:
            over = self._frontier.summary().pause_reason == crawl_states.FINISH
        else:
            over = state in (CrawlState.NEW, CrawlState.FINISHED)
        return over and not (self._awaits and self._awaits())

    def _run_periodic_tasks(self) -> None:
        now, progress, limits = time.monotonic(), self._progress, self._limits
        limits.tick(paused=self._frontier.state is CrawlState.PAUSED)
        if limits.reached and self.stop is StopReason.NONE:
            self.stop = StopReason.LIMIT
        if progress.due:
            found = self._frontier.verdict(rate=progress.rate)
            progress.show(self._frontier.summary(), in_flight=len(self._visits), limits=limits.rows, verdict=found)
        if 0 < self._settings.output.statistics <= now - self._last_statistics:
            self._last_statistics = now
            self._write_statistics()
        if now - self._last_renewal >= self._ttl / 4:
            self._last_renewal = now
            self._renew()
        every = self._settings.reports.every
        if 0 < every <= now - self._last_reports and (self._reporting is None or self._reporting.done()):
            self._last_reports = now
            reports = write_reports(self._folder / "frontier", self._folder / "reports")
            self._reporting = asyncio.create_task(reports)

    def _write_statistics(self) -> None:
        progress = self._progress
        self._outputs.statistics(
            self._frontier.summary(),
            elapsed=progress.elapsed,
            fetched=progress.fetched,
            bytes=progress.bytes,
            in_flight=len(self._visits),
            failures=self._failures,
        )

    # One visit

    def _start(self, lease: Lease) -> None:
        """Start a visit, or look up the address of its host first, if the frontier needs that."""
        if refused := self._visitor.refusal(lease.uri):
            self._hold(Result(lease, refused, 0))
        elif self._fetcher.resolves and self._internals.lacks_address(lease):
            self._run(lease, self._look_up(lease))
        else:
            self._visit(lease)

    def _visit(self, lease: Lease) -> None:
        """Start a visit; a page with an unknown robots.txt is put back behind that robots.txt."""
        asked = self._prerequisites.request_for(lease) if self._prerequisites else lease.uri
        if asked is None:
            return
        if isinstance(asked, FetchResult):
            self._hold(Result(lease, Visit(lease.uri, asked, asked.outcome), 0))
            return
        self._run(lease, self._visitor.visit(lease, asked))

    async def _look_up(self, lease: Lease) -> Visit:
        """Look up the address of a host; its URI goes back, to the queue or the group of that. Raises NoAddress."""
        address = await self._fetcher.address(lease.uri.url)
        if address is None:
            raise NoAddress
        raise PutBack(0.0, "the address of its host is known now", address=address)

    def _run(self, lease: Lease, visit: Coroutine[Any, Any, Visit]) -> None:
        task = asyncio.create_task(visit)
        self._visits[task] = lease, self._slots.pop()
        task.add_done_callback(self._on_visit_done)

    def _on_visit_done(self, task: asyncio.Task[Visit]) -> None:
        failed = not task.cancelled() and isinstance(task.exception(), _CLOSING)
        self._done.insert(0 if failed else len(self._done), task)
        self._closed = self._closed or failed
        self._wake.set()

    def _end_visit(self, task: asyncio.Task[Visit]) -> None:
        """Free the slot of a visit that has ended, and hold its result."""
        lease, slot = self._visits.pop(task)
        self._slots.append(slot)
        error = task.exception()
        if error is None:
            self._hold(Result(lease, task.result(), slot))
        elif isinstance(error, PutBack):
            self._hold(Result(lease, error, slot))
        elif isinstance(error, NoAddress) and self.stop is StopReason.NONE:
            self._visit(lease)
        elif isinstance(error, NoAddress):
            self._hold(Result(lease, PutBack(0.0, "stopped before its fetch"), slot))
        elif isinstance(error, _CLOSING):
            raise error
        else:
            log.error("visit of %s failed", lease.uri.url, exc_info=error)
            response = FetchResult(status=BROKEN, reason=f"{type(error).__name__}: {error}")
            self._hold(Result(lease, Visit(lease.uri, response, Outcome.FAILURE), slot))

    def _hold(self, result: Result) -> None:
        self._unwritten.add(result)
        if self._on_visited:
            self._on_visited(result.lease)
        if self._syncing is None:
            self._wake.set()

    def _complete(self, result: Result) -> None:
        if isinstance(result.visit, PutBack):
            back = result.visit
            finish = Finish(
                result.lease, Outcome.DEFERRED, reason=back.reason, delay=back.seconds, address=back.address
            )
            self._written.append((finish, FetchResult(status=0)))
            if self._prerequisites and is_robots(result.lease.uri):
                self._prerequisites.put_back(result.lease, result.visit.seconds)
        else:
            self._write(result.lease, result.visit, slot=result.slot)

    def _write(self, lease: Lease, visit: Visit, *, slot: int) -> None:
        """Write a visit to the outputs, for `_finish_written`; `Job.on_commit` ensures the same order on disk."""
        response, discovered, delay = visit.response, visit.discovered, visit.response.retry_after
        if response.status > 0 and visit.outcome in (Outcome.SUCCESS, Outcome.RETRY) and not is_robots(lease.uri):
            settings = self._internals.settings_for(lease)
            visit.outcome = uri_outcomes.outcome_of_answer(response.status, lease.attempt, settings)
        written, status = visit.outcome, response.status
        if self._prerequisites and is_robots(lease.uri):
            # Not earlier: a commit before the output is written would store rules of a fetch that is in no log.
            visit.outcome, delay, status = self._prerequisites.record(lease, response)
            written = Outcome.SUCCESS if visit.outcome is Outcome.DEFERRED else visit.outcome  # a hop was fetched
            if discovered:
                self._cache.put_found(discovered)
        novel = self._outputs.write(_with_uri(lease, visit.uri), response, written, slot=slot)
        if should_revisit(lease.uri, visit):
            after = self._internals.settings_for(lease).revisit_after
            if after > 0:
                begun = lease.expires - self._ttl  # by the frontier's clock, which never goes back
                discovered = [*discovered, revisit(lease.uri, response, due=begun + after)]
        finish = Finish(
            lease,
            visit.outcome,
            fetch_seconds=response.seconds,
            crawl_delay=self._robots.delay(lease.uri.url) if self._robots else None,
            discovered=discovered,
            reason=finish_reason(lease.uri, visit.outcome, response),
            delay=delay,
            size=len(response.raw),
            status=status,
            novel=novel,
            address=_address(lease, visit) or "",
            digest=xxh3_64_digest(response.raw) if response.raw else b"",
        )
        self._written.append((finish, response))

    def _finish_written(self) -> None:
        """Finish the leases of all visits that were written to the outputs since the last call, in that order."""
        written, self._written = self._written, []
        if not written:
            return
        began = time.time()
        try:
            late = self._frontier.finish_many([finish for finish, _ in written])
        except PolicyError:  # those before the URI for which it failed have ended
            late = []
            written = [one for one in written if self._finish_alone(one[0], late)]
            late = [lease for lease in late if lease.expires <= began]  # the others had already ended
        expired = {lease.id for lease in late}
        for finish, response in written:
            if finish.lease.id in expired:
                log.warning("the lease of %s expired during its visit; it will be fetched again", finish.lease.uri.url)
            else:
                self._count(finish.outcome, response)
                self._tell_failed_seed(finish)

    def _finish_alone(self, finish: Finish, late: list[Lease]) -> bool:
        """Finish a lease, and add it to `late` if it had ended or expired; return False if a policy fails for it."""
        tried = False
        with self._policy_failures.pausing(self._frontier):
            late += self._frontier.finish_many([finish])
            tried = True
        return tried

    def _count(self, outcome: Outcome, response: FetchResult) -> None:
        if response.status > 0:
            self._progress.count(len(response.raw))
        self._limits.count(len(response.raw), finished=outcome in (Outcome.SUCCESS, Outcome.FAILURE))
        self._failures += response.status < 0 and outcome is not Outcome.DISREGARDED

    def _tell_failed_seed(self, finish: Finish) -> None:
        """Print the first failed attempt of a seed, or of its robots.txt: its host may be misspelt, or down."""
        uri = finish.lease.uri
        failed = finish.outcome in _FAILED or (finish.status >= ERROR and not is_robots(uri))
        of_seed = is_seed(uri) or (is_robots(uri) and not uri.hops[:-1].strip("R"))
        if not failed or not of_seed or finish.lease.attempt > 1 or self._seeds_named > _SEEDS_NAMED:
            return
        self._seeds_named += 1
        if self._seeds_named > _SEEDS_NAMED:
            listing = shlex.join(("budgetfrontier", "report", str(self._folder), "--kind", "seeds"))
            self._progress.say(f"more seeds fail; `{listing}` lists all")
            return
        again = ""
        if finish.outcome is Outcome.RETRY:
            again = f"; {first_retry_told(finish, self._internals.settings_for(finish.lease))}"
        seed = f"{uri.via}: {uri.url}" if is_robots(uri) else uri.url
        self._progress.say(f"seed {seed} failed: {finish.reason}{again}")


def lease_ttl(settings: Settings) -> float:
    """Return for how many seconds URIs are leased: a visit may wait for its robots.txt before its fetch."""
    return max(settings.frontier.lease_ttl, 3 * patience(settings))


def patience(settings: Settings) -> float:
    """Return the most seconds that a page waits for its robots.txt: about as long as its fetch may take."""
    return settings.fetch.timeout or NO_TIMEOUT


def finish_reason(uri: CrawlUri, outcome: Outcome, response: FetchResult) -> str:
    """Return the reason with which a lease is finished: of a SUCCESS the status, if it is that of a seed."""
    if outcome is Outcome.SUCCESS:
        return f"status {response.status}" if is_seed(uri) else ""
    return cause_of(response)


def _address(lease: Lease, visit: Visit) -> str | None:
    """Return the IP address of the host of a lease; None if another one was fetched from: for a robots.txt."""
    same = visit.uri is lease.uri or uris.host(visit.uri.url) == uris.host(lease.uri.url)
    return visit.response.address if same else None


def _with_uri(lease: Lease, uri: CrawlUri) -> Lease:
    """Return the lease with the URI that was fetched for it, which differs for a redirected robots.txt."""
    return lease if uri is lease.uri else msgspec.structs.replace(lease, uri=uri)
