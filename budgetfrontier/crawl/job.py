"""A crawl from its settings: seeds, the main loop on the frontier, and the end.

One task uses the frontier, which is synchronous and bound to one thread. It leases when workers are free, finishes the
leases of ended visits, and never sleeps longer than a commit interval, so that external commands are applied. The
engine alone decides what to fetch next, and when.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shlex
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from budgetfrontier.crawl.cache import CrawlCache
from budgetfrontier.crawl.closing_summary import Stop, closing_summary
from budgetfrontier.crawl.fetch.descriptors import most_fetches
from budgetfrontier.crawl.fetch.fetcher import Fetcher
from budgetfrontier.crawl.fetch.response import BROKEN, Response
from budgetfrontier.crawl.host_delays import HostDelays
from budgetfrontier.crawl.interrupts import Interrupts, interrupts
from budgetfrontier.crawl.limits import Limits
from budgetfrontier.crawl.outputs import Outputs
from budgetfrontier.crawl.policy_failures import PolicyFailures, is_policy_failure
from budgetfrontier.crawl.prerequisites import Prerequisites, is_robots
from budgetfrontier.crawl.progress import Progress, backlog
from budgetfrontier.crawl.report_process import write_reports
from budgetfrontier.crawl.resuming import check_changes, check_name, stored_settings
from budgetfrontier.crawl.robots import Robots
from budgetfrontier.crawl.scope import Scope
from budgetfrontier.crawl.seeds import any_valid, each_seed, scheduled_seeds
from budgetfrontier.crawl.visit import Visit, Visitor, revisit, should_revisit
from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.errors import FrontierError, LeaseExpired
from budgetfrontier.model import CrawlState, CrawlUri, DeadLetter, Lease, Outcome
from budgetfrontier.reports import files
from budgetfrontier.reports.format import counted
from budgetfrontier.reports.overview import Overview
from budgetfrontier.rules import crawl_states
from budgetfrontier.settings import Settings
from budgetfrontier.settings.advice import advice
from budgetfrontier.store.backup import CACHE
from budgetfrontier.store.modes import make_folder
from budgetfrontier.store.report import Report

SHORTEST_SLEEP, LONGEST_SLEEP = 0.05, 0.5  # seconds between two checks for external commands
NOTHING = "there is nothing to crawl; give at least one valid seed, or start with --paused and import some"
NO_TIMEOUT = 300.0  # seconds that a page waits for its robots.txt if fetches have no timeout

log = logging.getLogger(__name__)


def crawl(
    settings: Settings,
    folder: Path,
    *,
    progress: Progress | None = None,
    paused: bool = False,
    adopt: bool = False,
    command: str = "",
) -> int:
    """Start or continue the crawl in a job folder; return the exit code.

    Runs until the crawl finishes, pauses at its finish, reaches a limit or is interrupted. The exit code is 1 if it was
    forced to stop, or if there is nothing to crawl; otherwise 0. After one SIGINT, SIGTERM or SIGHUP, the fetches in
    flight are finished; after a second one, the crawl stops at once. In both cases, all finished URIs are on disk.

    `paused`: fetch nothing until `budgetfrontier resume`. `adopt`: continue a crawl of another name. `command` is the
    command that runs the crawl again, for the closing summary. Raises what `Frontier.open` raises, StorageFull,
    SettingsError if the folder contains another crawl, and ScopeChanged if the crawl was paused because its changed
    scope would disregard many queued URIs.
    """
    with interrupts() as heard, progress or Progress() as shown:
        try:
            return Job(
                settings, folder, progress=shown, interrupts=heard, paused=paused, adopt=adopt, command=command
            ).run()
        except KeyboardInterrupt:
            if heard.count < 2:  # it was not ours
                raise
            shown.say("stopped at once; all that was finished is kept; to go on, run the same command")
            return 1


class Job:
    """One run of a crawl."""

    def __init__(
        self,
        settings: Settings,
        folder: Path,
        *,
        progress: Progress,
        interrupts: Interrupts,
        paused: bool,
        adopt: bool,
        command: str,
    ) -> None:
        self._settings, self._folder, self._progress, self._interrupts = settings, folder, progress, interrupts
        self._paused, self._adopt, self._command = paused, adopt, command
        self._scope = Scope(settings.scope)
        self._fetcher = Fetcher(settings.fetch, seeds=(url for url, _ in each_seed(settings)))
        self._sync: Callable[[], None] | None = None
        self._robots: Robots | None = None
        self._prerequisites: Prerequisites | None = None
        self._visits: dict[asyncio.Task[Visit], tuple[Lease, int]] = {}
        self._done: list[asyncio.Task[Visit]] = []
        self._slots = list(range(most_fetches(settings.fetch.concurrency), 0, -1))
        self._stop = Stop.NONE
        self._policy_failures = PolicyFailures()
        self._failures = 0
        self._last_commit = self._last_reports = self._last_statistics = self._last_renewal = time.monotonic()
        self._reporting: asyncio.Task[None] | None = None
        self._interval = min(LONGEST_SLEEP, max(SHORTEST_SLEEP, settings.frontier.commit_interval))
        self._patience = settings.fetch.timeout or NO_TIMEOUT
        # A visit may wait for its robots.txt before its fetch; its lease has to last for both.
        self._ttl = max(settings.frontier.lease_ttl, 3 * self._patience)

    def run(self) -> int:
        """Open the frontier, crawl, close it; return the exit code."""
        frontier, reports = self._folder / "frontier", self._folder / "reports"
        self._stored = stored_settings(frontier)
        if self._stored and not self._adopt:
            check_name(self._stored, self._settings, self._folder)
        if not self._stored and not self._paused and not any_valid(self._settings.seeds):
            self._progress.say(NOTHING)
            return 1
        make_folder(self._folder)
        make_folder(frontier, like=self._folder)
        with contextlib.ExitStack() as opened:
            with contextlib.ExitStack() as written:
                with self._interrupts.breakable():  # nothing is in flight
                    self._open(opened, written)
                    begun = self._prepare()
                if begun:
                    asyncio.run(self._main())
            if begun:
                self._summarize(frontier, reports)
        self._policy_failures.raise_failure()
        return 0 if begun and self._stop is not Stop.FORCED else 1

    def _open(self, opened: contextlib.ExitStack, written: contextlib.ExitStack) -> None:
        """Open the frontier, to be closed by `opened`, and the cache and outputs, to be closed by `written`."""
        frontier = self._folder / "frontier"
        self._frontier = opened.enter_context(Frontier.open(frontier, self._settings, hooks=[self]))
        self._cache = written.enter_context(contextlib.closing(CrawlCache(frontier / CACHE)))
        self._outputs = written.enter_context(Outputs(self._folder, self._settings, cache=self._cache))
        written.callback(self._sync_outputs_only)
        self._sync = self._sync_all

    def _sync_outputs_only(self) -> None:
        self._sync = self._outputs.sync  # when closed, it raises the error that occurred before

    def _prepare(self) -> bool:
        """Create the components of the crawl and schedule the seeds; return whether there is anything to do."""
        before = self._frontier.summary()
        seconds, size = self._cache.used()
        self._limits = Limits(self._settings.limits, uris=before.succeeded + before.failed, seconds=seconds, size=size)
        if self._settings.fetch.robots is True:
            self._robots = Robots(self._settings.fetch.user_agent, cache=self._cache)
            delays = HostDelays(self._frontier)
            self._prerequisites = Prerequisites(self._frontier, self._robots, self._cache, delays)
        self._visitor = Visitor(
            self._settings,
            fetcher=self._fetcher,
            robots=self._robots,
            scope=self._scope,
            schedule=self._frontier.schedule_many,
            write_links=self._outputs.write_links,
            patience=self._patience,
        )
        begun = False
        with self._policy_failures.pausing(self._frontier):
            begun = self._begin()
        return begun

    def on_commit(self, frontier: Frontier) -> None:
        """Hook: make the outputs durable before the frontier commits the URIs as finished."""
        if self._sync is not None:
            self._sync()

    def _sync_all(self) -> None:
        self._outputs.sync()
        self._cache.put_used(self._limits.seconds, self._limits.size)
        self._cache.commit()

    def on_dead_letter(self, frontier: Frontier, letter: DeadLetter) -> None:
        """Hook: give up a robots.txt that has become a dead letter, so that no page waits for it."""
        if self._robots and is_robots(letter.uri):
            self._robots.give_up(letter.uri.url)

    async def _main(self) -> None:
        self._wake = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._interrupts.listen(lambda: loop.call_soon_threadsafe(self._interrupt))
        if self._interrupts.count:
            self._interrupt()
        try:
            async with self._fetcher:
                try:
                    await self._drive()
                finally:
                    left = [*self._visits, *([self._reporting] if self._reporting else [])]
                    for task in left:
                        task.cancel()
                    await asyncio.gather(*left, return_exceptions=True)
        finally:
            self._interrupts.listen(None)
        if self._settings.output.statistics:
            self._write_statistics()
        self._frontier.commit()

    # Beginning

    def _begin(self) -> bool:
        """Schedule the seeds, and resume a crawl that paused at its finish; return whether there is anything to do."""
        frontier, say = self._frontier, self._progress.say
        before = frontier.summary()
        self._scope.add_seeds(url for url, _ in each_seed(self._settings))
        frontier.schedule_many([uri for uri in self._cache.found() if self._scope.objection(uri) is None])
        check_changes(
            frontier, self._folder / "frontier", self._scope,
            settings=self._settings, stored=self._stored, cache=self._cache, command=self._command, say=say,
        )  # fmt: skip
        tally = frontier.schedule_many(scheduled_seeds(self._settings))
        if tally.invalid:
            reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(tally.reasons.items()))
            what = "is no http or https URL" if tally.invalid == 1 else "are no http or https URLs"
            say(f"{counted(tally.invalid, 'seed')} {what} ({reasons})")
        if frontier.state is CrawlState.TERMINATED:
            say("this crawl was terminated, for good; name another job folder to start over")
            return False
        if frontier.state is CrawlState.NEW and not self._paused:
            say(NOTHING)
            return False
        over = before.pause_reason == crawl_states.FINISH or is_policy_failure(before.pause_reason)
        if frontier.state is CrawlState.PAUSED and over:
            frontier.resume(reason="started again", who="crawl")
        if self._paused and frontier.state is not CrawlState.PAUSED:
            frontier.pause(reason="started paused", who="crawl")
        if frontier.state is CrawlState.PAUSED:
            again = shlex.join(("budgetfrontier", "resume", str(self._folder)))
            say(f"the crawl is paused ({frontier.summary().pause_reason}); `{again}` goes on")
        frontier.commit()  # makes the crawl visible to other processes from the start
        for warning in advice(self._settings):
            self._progress.warn(warning)
        if len(self._slots) < (wanted := self._settings.fetch.concurrency):
            self._progress.warn(
                f"this process may open too few files (ulimit -n) for a fetch.concurrency of {wanted:,}: "
                f"it fetches {counted(len(self._slots), 'page')} at a time"
            )
        found = backlog(before) if before.scheduled else f"seeds: {tally.added}"
        say(f"crawl {self._settings.crawl} in {self._folder}: {found}")
        return True

    def _interrupt(self) -> None:
        """Take in what the signals ask for by now."""
        if self._interrupts.count > 1 or self._stop is Stop.POLICY:
            self._stop = Stop.FORCED
            return
        verb = "is" if len(self._visits) == 1 else "are"
        fetches = counted(len(self._visits), "fetch", "fetches")
        self._progress.say(f"stopping: {fetches} {verb} in flight; once more to stop at once")
        self._stop = Stop.INTERRUPTED

    # The loop

    async def _drive(self) -> None:
        """Lease, fetch and finish until nothing is left to do or there is a reason to stop."""
        self._run_periodic_tasks()
        while self._stop is not Stop.FORCED:
            free = 0
            with self._policy_failures.pausing(self._frontier):
                free = self._lease()
            if not self._visits and self._has_ended():
                return
            if self._stop is not Stop.NONE and self._robots:
                self._robots.stop_waiting()
            await self._wait(free)
            done, self._done = self._done, []
            for task in done:
                with self._policy_failures.pausing(self._frontier):
                    self._complete(task)
            if self._policy_failures.failure and self._stop is Stop.NONE:
                self._stop = Stop.POLICY
            if self._cache.due:
                self._frontier.commit()
            self._run_periodic_tasks()

    def _lease(self) -> int:
        """Lease URIs for the free slots; return how many remain free. Commits at least once per commit interval.

        In between, `lease` is called only if a URI is ready: even without a result it commits, which syncs all outputs.
        """
        free = self._free()
        due = time.monotonic() - self._last_commit >= self._interval
        if free and (due or self._frontier.next_ready_in() == 0):
            for lease in self._frontier.lease(free, ttl=self._ttl):
                self._start(lease)
            free = self._free()
        elif due:
            self._frontier.commit()
        else:
            return free
        self._last_commit = time.monotonic()
        return free

    def _free(self) -> int:
        return 0 if self._stop is not Stop.NONE else self._limits.room(len(self._slots), in_flight=len(self._visits))

    def _renew(self) -> None:
        """Renew the leases of visits that take long, such as that of a page with a million links."""
        for lease, _ in self._visits.values():
            with contextlib.suppress(LeaseExpired):
                self._frontier.renew(lease, self._ttl)

    async def _wait(self, free: int) -> None:
        """Sleep until a visit ends, a URI may be ready, or the commit interval is over."""
        ready = self._frontier.next_ready_in() if free else None
        sleep = self._interval if ready is None else min(self._interval, ready)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(sleep):
                await self._wake.wait()
        self._wake.clear()

    def _has_ended(self) -> bool:
        state = self._frontier.state
        if state is CrawlState.PAUSED:
            return self._stop is not Stop.NONE or self._frontier.summary().pause_reason == crawl_states.FINISH
        return self._stop is not Stop.NONE or state in (CrawlState.NEW, CrawlState.FINISHED, CrawlState.TERMINATED)

    def _run_periodic_tasks(self) -> None:
        now, progress, limits = time.monotonic(), self._progress, self._limits
        limits.tick(paused=self._frontier.state is CrawlState.PAUSED)
        if limits.reached and self._stop is Stop.NONE:
            self._stop = Stop.LIMIT
        if progress.due:
            progress.show(self._frontier.summary(), in_flight=len(self._visits), limits=limits.rows)
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
        """Start a visit; a page whose robots.txt is unknown is put back behind that robots.txt."""
        if refused := self._visitor.refusal(lease.uri):
            self._finish(lease, refused, slot=0)
            return
        asked = self._prerequisites.request_for(lease) if self._prerequisites else lease.uri
        if asked is None:
            return
        if isinstance(asked, Response):
            self._finish(lease, Visit(lease.uri, asked, asked.outcome), slot=0)
            return
        task = asyncio.create_task(self._visitor.visit(lease, asked))
        self._visits[task] = lease, self._slots.pop()
        task.add_done_callback(self._on_visit_done)

    def _on_visit_done(self, task: asyncio.Task[Visit]) -> None:
        failed = not task.cancelled() and task.exception() is not None
        self._done.insert(0 if failed else len(self._done), task)  # failures first: they may have closed the frontier
        self._wake.set()

    def _complete(self, task: asyncio.Task[Visit]) -> None:
        lease, slot = self._visits.pop(task)
        self._slots.append(slot)
        if error := task.exception():
            if isinstance(error, (FrontierError, OSError)):  # the disk fails: nothing may be finished any more
                raise error
            log.error("visit of %s failed", lease.uri.url, exc_info=error)
            visit = Visit(
                lease.uri, Response(status=BROKEN, reason=f"{type(error).__name__}: {error}"), Outcome.FAILURE
            )
        else:
            visit = task.result()
        self._finish(lease, visit, slot=slot)

    def _finish(self, lease: Lease, visit: Visit, *, slot: int) -> None:
        """Write a visit to the outputs, then finish its lease; `on_commit` ensures the same order on disk."""
        response, discovered, delay = visit.response, visit.discovered, visit.response.retry_after
        written = visit.outcome
        if self._prerequisites and is_robots(lease.uri):
            # Not earlier: a commit before the output is written would store rules of a fetch that is in no log.
            visit.outcome, delay = self._prerequisites.record(lease, response)
            written = Outcome.SUCCESS if visit.outcome is Outcome.DEFERRED else visit.outcome  # a hop was fetched
            if discovered:
                self._cache.put_found(discovered)
        self._outputs.write(_with_uri(lease, visit.uri), response, written, slot=slot, noindex=visit.noindex)
        if should_revisit(lease.uri, visit):
            after = self._frontier.settings_for(lease).revisit_after
            if after > 0:
                begun = lease.expires - self._ttl  # by the frontier's clock, which never goes back
                discovered = [*discovered, revisit(lease.uri, response, due=begun + after)]
        try:
            self._frontier.finish(
                lease,
                visit.outcome,
                fetch_seconds=response.seconds,
                crawl_delay=self._robots.delay(lease.uri.url) if self._robots else None,
                discovered=discovered,
                reason=response.reason or f"status {response.status}",
                delay=delay,
            )
        except LeaseExpired:
            log.warning("the lease of %s expired during its visit; it will be fetched again", lease.uri.url)
            return
        if response.seconds is not None:
            self._progress.count(len(response.raw))
        self._limits.count(len(response.raw), finished=visit.outcome in (Outcome.SUCCESS, Outcome.FAILURE))
        self._failures += response.status < 0 and visit.outcome is not Outcome.DISREGARDED

    # The end

    def _summarize(self, frontier: Path, reports: Path) -> None:
        """Write the last reports and print the summary, even if the reports cannot be written."""
        with self._interrupts.breakable():
            try:
                written = files.write(frontier, reports)
            except OSError:
                self._print_summary(*files.read(frontier))
                raise
        self._print_summary(*written)

    def _print_summary(self, report: Report, overview: Overview) -> None:
        """Print the final progress and the closing summary."""
        self._progress.show(report.totals, in_flight=0, limits=self._limits.rows)
        for line in closing_summary(
            report,
            overview,
            folder=self._folder,
            settings=self._settings,
            stop=self._stop,
            limit=self._limits.reached,
            command=self._command,
        ):
            self._progress.say(line)


def _with_uri(lease: Lease, uri: CrawlUri) -> Lease:
    """Return the lease with the URI that was fetched for it, which differs for a redirected robots.txt."""
    return lease if uri is lease.uri else msgspec.structs.replace(lease, uri=uri)
