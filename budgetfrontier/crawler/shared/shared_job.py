"""A crawl on the frontier of another process: its outputs are in a job folder, its queues are on a server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from itertools import chain
from pathlib import Path
from typing import TypeVar

import msgspec

from budgetfrontier.core.model import CrawlState, CrawlUri, Lease, Outcome, Summary
from budgetfrontier.crawler.cache import SHARED, CrawlCache
from budgetfrontier.crawler.closing_summary import StopReason
from budgetfrontier.crawler.crawl_limits import CrawlLimits
from budgetfrontier.crawler.fetch import encodings
from budgetfrontier.crawler.fetch.descriptors import most_fetches
from budgetfrontier.crawler.fetch.fetcher import Fetcher
from budgetfrontier.crawler.fetch.response import ROBOTS_PRECLUDED, FetchResult
from budgetfrontier.crawler.interrupts import Interrupts, interrupts
from budgetfrontier.crawler.main_loop import CrawlParts, MainLoop, patience
from budgetfrontier.crawler.outputs import Outputs
from budgetfrontier.crawler.policy_failures import PolicyFailures
from budgetfrontier.crawler.prerequisites import is_robots
from budgetfrontier.crawler.progress import ProgressDisplay
from budgetfrontier.crawler.robots import Robots
from budgetfrontier.crawler.robots_redirects import RobotsRedirects
from budgetfrontier.crawler.robots_txt import MAX_BODY
from budgetfrontier.crawler.seeds import each_seed, left_out, refused_seeds, scheduled_seeds
from budgetfrontier.crawler.shared.leasing_frontier import LeasingFrontier
from budgetfrontier.crawler.shared.page_robots import PageRobots
from budgetfrontier.crawler.shared.run_messages import beginning, closing, warnings
from budgetfrontier.crawler.shared.served_crawl import ServedCrawl
from budgetfrontier.crawler.visit import Visit, Visitor
from budgetfrontier.errors import SettingsError
from budgetfrontier.rules import crawl_states
from budgetfrontier.rules.scope import Scope
from budgetfrontier.settings import Settings
from budgetfrontier.settings.robots_name import robots_name
from budgetfrontier.settings.seed_settings import with_seed_settings
from budgetfrontier.storage.lock import LOCK, WriterLock
from budgetfrontier.storage.modes import make_folder

SYNC_EVERY = 0.1
"""The most seconds between two syncs of the outputs: the server hears no earlier that a page was fetched."""
LEAVING, LEAVING_AT_ONCE = 5.0, 1.0
"""Seconds for which the end waits for a server that does not answer."""
RESTING = 4, 1000
"""The most visits that rest: so many for each that may be in flight, and in all."""

_T = TypeVar("_T")

NOTHING = "there is nothing to crawl on {}: give seeds in CONFIG, or schedule some"
TERMINATED = "the crawl on {} was terminated, for good; name another, with another name of `crawl` or of the address"


class SharedVisitor:
    """A visitor that calls `prepare` with the lease of a page before the visit; None if robots.txt is ignored."""

    def __init__(self, visitor: Visitor, prepare: Callable[[Lease], Awaitable[None]] | None) -> None:
        self._visitor, self._prepare = visitor, prepare

    def refusal(self, uri: CrawlUri) -> Visit | None:
        """Return the result of a visit that ends without a fetch; None if the URI may be fetched.

        A crawler with a frontier of its own may have left a robots.txt in a queue, which nobody waits for here.
        """
        if self._prepare and is_robots(uri):
            response = FetchResult(status=ROBOTS_PRECLUDED, reason="fetched with each page that needs it")
            return Visit(uri, response, Outcome.DISREGARDED)
        return self._visitor.refusal(uri)

    async def visit(self, lease: Lease, asked: CrawlUri) -> Visit:
        """Fetch the URI of a lease, after its robots.txt. Raises PutBack."""
        if self._prepare:
            await self._prepare(lease)
        return await self._visitor.visit(lease, asked)


def crawl(
    settings: Settings,
    folder: Path,
    remote: ServedCrawl,
    *,
    progress: ProgressDisplay | None = None,
    command: str = "",
) -> int:
    """Crawl URIs of a frontier that other processes may use, too, with outputs in `folder`; return the exit code.

    Runs until nothing is left on the frontier for anybody, it pauses at its finish or is terminated, this process
    reaches a limit, or is interrupted. The exit code is 1 if it was forced to stop, there is nothing to crawl, or the
    server did not get the ends of all leases; otherwise 0. Raises what `RemoteFrontier` raises,
    StorageFull, FrontierLocked if another process writes to the folder, and SettingsError if it has its own frontier.
    """
    with interrupts() as heard, progress or ProgressDisplay() as shown:
        try:
            return SharedJob(settings, folder, remote, progress=shown, interrupts=heard, command=command).run()
        except KeyboardInterrupt:
            if heard.count < 2:  # it came from elsewhere
                raise
            shown.say("stopped at once; to go on, run the same command")
            return 1


class _Interrupted(Exception):
    """A signal to stop has come before the frontier has answered."""


class SharedJob:
    """One run of a crawler that shares a frontier."""

    def __init__(
        self,
        settings: Settings,
        folder: Path,
        remote: ServedCrawl,
        *,
        progress: ProgressDisplay,
        interrupts: Interrupts,
        command: str,
    ) -> None:
        self._given, self._settings, self._folder, self._remote = settings, settings, folder, remote
        self._progress, self._interrupts, self._command = progress, interrupts, command
        self._scope = Scope(settings.scope)
        self._scope.add_seeds(url for url, _ in each_seed(settings))
        self._fetcher = Fetcher(
            settings.fetch,
            seeds=(url for url, _ in each_seed(settings)),
            accepted=encodings.FOR_ARCHIVES if settings.output.warc else encodings.ACCEPTED,
        )
        self._most_visits = most_fetches(settings.fetch.concurrency)
        self._policy_failures = PolicyFailures()

    def run(self) -> int:
        """Connect, open the outputs, crawl, close everything; return the exit code."""
        if (self._folder / "frontier").exists():
            raise SettingsError(f"{self._folder} has a frontier of its own: name another folder with --job")
        with self._interrupts.breakable():  # the main loop listens to signals, and is not broken
            code = asyncio.run(self._crawl())
        self._policy_failures.raise_failure()
        return code

    async def _crawl(self) -> int:
        remote = self._remote
        try:
            await self._before_signals(remote.connect())
            self._take_settings()
            with contextlib.ExitStack() as opened:
                self._open(opened)
                return await self._run_loop() if await self._before_signals(self._begin()) else 1
        except _Interrupted:
            self._progress.say(f"stopped before {remote.name} has answered")
            return 0
        finally:
            await remote.close(within=LEAVING_AT_ONCE)

    async def _before_signals(self, answer: Awaitable[_T]) -> _T:
        """Return an answer, which may take long. Raises _Interrupted once a signal to stop comes."""
        loop, asked = asyncio.get_running_loop(), asyncio.ensure_future(answer)
        self._interrupts.listen(lambda: loop.call_soon_threadsafe(asked.cancel))
        try:
            if self._interrupts.count:
                asked.cancel()
            return await asked
        except asyncio.CancelledError:
            if not self._interrupts.count:
                raise
            raise _Interrupted from None
        finally:
            self._interrupts.listen(None)

    def _take_settings(self) -> None:
        """Take the settings of the frontier from the server."""
        served = self._remote.settings
        interval = min(SYNC_EVERY, served.frontier.commit_interval)
        self._settings = msgspec.structs.replace(
            self._given,
            frontier=msgspec.structs.replace(served.frontier, commit_interval=interval),
            overrides=served.overrides,
            sheets=served.sheets,
            associations=served.associations,
            reports=msgspec.structs.replace(self._given.reports, every=0.0),  # the frontier is not in this folder
        )

    def _open(self, opened: contextlib.ExitStack) -> None:
        """Open the cache and the outputs, to be closed by `opened`."""
        make_folder(self._folder)
        opened.callback(WriterLock(self._folder / LOCK).release)
        self._cache = opened.enter_context(contextlib.closing(CrawlCache(self._folder / SHARED)))
        self._outputs = opened.enter_context(Outputs(self._folder, self._given, cache=self._cache))

    async def _begin(self) -> bool:
        """Schedule the seeds; return whether there is anything to do."""
        remote, say = self._remote, self._progress.say
        tally = await remote.frontier.schedule_many(scheduled_seeds(self._given), brought=True)
        for line in chain(left_out(self._given.seeds), refused_seeds(tally)):
            say(line)
        summary = await remote.frontier.summary()
        if summary.state is CrawlState.TERMINATED:
            say(TERMINATED.format(remote.name))
            return False
        if summary.state is CrawlState.NEW:
            say(NOTHING.format(remote.name))
            return False
        if crawl_states.goes_on_after_finish(summary):
            await remote.frontier.resume(reason=crawl_states.MORE_TO_CRAWL, who="crawl")
        for line in beginning(
            remote, summary, given=with_seed_settings(self._given), folder=self._folder, seeds=tally.added
        ):
            say(line)
        for warning in warnings(remote, self._given, most_visits=self._most_visits):
            self._progress.warn(warning)
        return True

    async def _run_loop(self) -> int:
        most = self._most_visits
        resting = min(most * RESTING[0], RESTING[1])
        frontier = LeasingFrontier(
            self._remote,
            most_visits=most,
            most_resting=resting,
            ttl=self._settings.frontier.lease_ttl,
            sync=self._sync_all,
        )
        seconds, size = self._cache.used()
        self._limits = CrawlLimits(self._settings.limits, uris=self._cache.finished(), seconds=seconds, size=size)
        loop = MainLoop(self._settings, self._folder, self._parts(frontier, most + resting))
        untold = 0
        try:
            await frontier.begin(loop.wake)
            await loop.run()
        finally:
            untold = await frontier.close(within=LEAVING_AT_ONCE if loop.stop is StopReason.FORCED else LEAVING)
        self._sync_all()
        self._summarize(frontier.summary(), loop.stop, late=frontier.late, untold=untold)
        return 1 if untold or loop.stop is StopReason.FORCED else 0

    def _parts(self, frontier: LeasingFrontier, most_visits: int) -> CrawlParts:
        """Return the parts that the main loop uses."""
        settings = self._settings
        robots = Robots(robots_name(settings.fetch), cache=self._cache) if settings.fetch.robots is True else None
        visitor = Visitor(
            settings,
            fetcher=self._fetcher,
            robots=robots,
            scope=self._scope,
            schedule=frontier.questions.schedule_many,
            write_links=self._outputs.write_links,
            patience=patience(settings),
            check=frontier.check_lease,
        )

        async def fetch_robots(lease: Lease, uri: CrawlUri) -> FetchResult:
            frontier.check_lease(lease)
            return await self._fetcher.get(uri, max_body=MAX_BODY)

        prepare = None
        if robots:
            prepare = PageRobots(
                frontier.questions,
                robots,
                RobotsRedirects(robots, self._cache),
                fetch=fetch_robots,
                sitemaps=visitor.sitemaps,
                write=self._write_robots,
                rest=frontier.rests.rest,
            ).prepare

        def stopping() -> None:
            if robots:
                robots.stop_waiting()
            frontier.halt()

        return CrawlParts(
            frontier=frontier,
            internals=frontier,
            cache=self._cache,
            outputs=self._outputs,
            fetcher=self._fetcher,
            visitor=SharedVisitor(visitor, prepare),
            robots=robots,
            prerequisites=None,
            limits=self._limits,
            policy_failures=self._policy_failures,
            progress=self._progress,
            interrupts=self._interrupts,
            most_visits=most_visits,
            lease_ttl=settings.frontier.lease_ttl,
            on_stop=stopping,
            on_visited=frontier.visit_ended,
        )

    def _write_robots(self, lease: Lease, uri: CrawlUri, response: FetchResult, outcome: Outcome) -> None:
        """Write and count the request for a robots.txt."""
        self._outputs.write(msgspec.structs.replace(lease, uri=uri), response, outcome, slot=0)
        if response.seconds is not None:
            self._progress.count(len(response.raw))
        self._limits.count(len(response.raw), finished=outcome in (Outcome.SUCCESS, Outcome.FAILURE))

    def _sync_all(self) -> None:
        self._outputs.sync()
        self._cache.put_used(self._limits.seconds, self._limits.size)
        self._cache.put_finished(self._limits.uris)
        self._cache.commit()

    def _summarize(self, summary: Summary, stop: StopReason, *, late: int, untold: int) -> None:
        self._progress.show(summary, in_flight=0, limits=self._limits.rows)
        for line in closing(
            summary,
            name=self._remote.name,
            frontier=self._remote.folder,
            folder=self._folder,
            stop=stop,
            limit=self._limits.reached,
            fetched=self._progress.fetched,
            size=self._progress.bytes,
            late=late,
            untold=untold,
            command=self._command,
            tags=self._outputs.said_of_robots_tags(),
        ):
            self._progress.say(line)
