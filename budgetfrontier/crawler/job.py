"""A crawl from its settings: its parts are opened, seeds are scheduled, the main loop runs, and the end is reported."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from budgetfrontier.core.model import CrawlState, DeadLetter, RunEnd
from budgetfrontier.crawler import installed as _installed  # noqa: F401
from budgetfrontier.crawler.cache import SHARED, CrawlCache
from budgetfrontier.crawler.closing_summary import StopReason, closing_summary
from budgetfrontier.crawler.crawl_limits import CrawlLimits
from budgetfrontier.crawler.fetch import encodings
from budgetfrontier.crawler.fetch.descriptors import most_fetches, shortage
from budgetfrontier.crawler.fetch.fetcher import Fetcher
from budgetfrontier.crawler.host_delays import HostDelays
from budgetfrontier.crawler.interrupts import Interrupts, interrupts
from budgetfrontier.crawler.main_loop import CrawlParts, MainLoop, lease_ttl, patience
from budgetfrontier.crawler.outputs import Outputs
from budgetfrontier.crawler.policy_failures import PolicyFailures, is_policy_failure
from budgetfrontier.crawler.prerequisites import Prerequisites, is_robots
from budgetfrontier.crawler.progress import ProgressDisplay, backlog
from budgetfrontier.crawler.resuming import check_changes, check_name, stored_settings
from budgetfrontier.crawler.robots import Robots
from budgetfrontier.crawler.seeds import any_valid, each_seed, left_out, refused_seeds, scheduled_seeds
from budgetfrontier.crawler.visit import Visitor
from budgetfrontier.engine import arguments
from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.errors import SettingsError
from budgetfrontier.reports import report_files
from budgetfrontier.reports.overview import Overview
from budgetfrontier.rules import crawl_states
from budgetfrontier.rules.duplicates import NOOP
from budgetfrontier.rules.run_history import CRAWL
from budgetfrontier.rules.scope import Scope
from budgetfrontier.settings import Settings, as_settings
from budgetfrontier.settings.advice import advice
from budgetfrontier.settings.robots_name import robots_name
from budgetfrontier.settings.schema import ClusterSettings
from budgetfrontier.settings.seed_settings import with_seed_settings
from budgetfrontier.storage.backup import CACHE
from budgetfrontier.storage.modes import make_folder
from budgetfrontier.storage.report import Report
from budgetfrontier.storage.start_command import note_crawl

Beside = contextlib.AbstractAsyncContextManager[None]
"""A part of its own that runs in the loop of the crawl, such as the server of its metrics."""

FINISHED = (
    "the crawl is paused at its finish, and there is nothing to do: new seeds, imported URIs, replayed dead letters or "
    "retired queues that are revived give it something"
)
NOTHING = "there is nothing to crawl; give at least one valid seed, or start with --paused and import some"


def crawl(
    settings: Settings | dict[str, Any],
    folder: Path,
    *,
    progress: ProgressDisplay | None = None,
    paused: bool = False,
    adopt: bool = False,
    command: str = "",
    config: Path | None = None,
    options: Sequence[str] = (),
    beside: Sequence[Beside] = (),
    awaits: Callable[[], bool] | None = None,
) -> int:
    """Start or continue the crawl in a job folder; return the exit code.

    Runs until the crawl finishes, pauses at its finish, reaches a limit or is interrupted. The exit code is 1 if it was
    forced to stop, or if there is nothing to crawl; otherwise 0. After one SIGINT, SIGTERM or SIGHUP, the fetches in
    flight are finished; after a second one, the crawl stops at once. In both cases, all finished URIs are on disk.

    `paused`: fetch nothing until `budgetfrontier resume`. `adopt`: continue a crawl of another name. `command` is the
    command that runs the crawl again, for the closing summary, and `config` the file of the settings, for reports, with
    the other `options` of the command. `beside` is entered while it runs, and it is not over while `awaits` returns
    that something is about to be added. Raises the errors of `Frontier.open`, StorageFull, SettingsError if the folder
    contains another crawl, and ScopeChanged if the crawl was paused because its changed scope would disregard many
    queued URIs.
    """
    paused, adopt = arguments.flag(paused, "paused"), arguments.flag(adopt, "adopt")
    with interrupts() as heard, progress or ProgressDisplay() as shown:
        try:
            return Job(
                as_settings(settings) or Settings(), folder, progress=shown, interrupts=heard, paused=paused,
                adopt=adopt, command=command, config=config, options=options, beside=beside,
                awaits=awaits,
            ).run()  # fmt: skip
        except KeyboardInterrupt:
            if heard.count < 2:  # the KeyboardInterrupt came from elsewhere
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
        progress: ProgressDisplay,
        interrupts: Interrupts,
        paused: bool,
        adopt: bool,
        command: str,
        config: Path | None,
        options: Sequence[str],
        beside: Sequence[Beside],
        awaits: Callable[[], bool] | None,
    ) -> None:
        self._beside, self._awaits = beside, awaits
        self._settings, self._folder, self._progress, self._interrupts = settings, folder, progress, interrupts
        self._paused, self._adopt, self._command = paused, adopt, command
        self._config, self._options = config, options
        self._scope = Scope(settings.scope)
        self._fetcher = Fetcher(
            settings.fetch,
            seeds=(url for url, _ in each_seed(settings)),
            accepted=encodings.FOR_ARCHIVES if settings.output.warc else encodings.ACCEPTED,
        )
        self._sync: Callable[[], None] | None = None
        self._robots: Robots | None = None
        self._most_visits = most_fetches(settings.fetch.concurrency)
        self._policy_failures = PolicyFailures()

    def run(self) -> int:
        """Open the frontier, crawl, close it; return the exit code."""
        frontier, reports = self._folder / "frontier", self._folder / "reports"
        self._stored, suffix_list = stored_settings(frontier)
        self._settings = with_seed_settings(self._settings, suffix_list)
        if self._stored and not self._adopt:
            check_name(self._stored, self._settings, self._folder)
        if not self._stored and not self._paused and not any_valid(self._settings.seeds):
            for line in (*left_out(self._settings.seeds), NOTHING):
                self._progress.say(line)
            return 1
        if not self._stored and (self._folder / SHARED / "data.mdb").exists():
            raise SettingsError(f"{self._folder} shares a frontier of a server: add --frontier, or name another folder")
        make_folder(self._folder)
        make_folder(frontier, like=self._folder)
        if self._config is not None:
            note_crawl(self._folder, self._config, self._options)
        with contextlib.ExitStack() as opened:
            with contextlib.ExitStack() as written:
                with self._interrupts.breakable():  # nothing is in flight
                    self._open(opened, written)
                    begun = self._prepare()
                    self._frontier.internals.look_at_disks()  # before the first fetch
                if begun:
                    asyncio.run(self._crawl())
                    self._sync_all()  # stores the time used, too, if nothing was committed at the end
            if begun or self._policy_failures.failure:
                end, reason = self._run_end()
                self._frontier.close(end=end, reason=reason)
            if begun:
                self._summarize(frontier, reports)
        self._policy_failures.raise_failure()
        return 0 if begun and self._loop.stop is not StopReason.FORCED else 1

    async def _crawl(self) -> None:
        async with contextlib.AsyncExitStack() as stack:
            for one in self._beside:
                await stack.enter_async_context(one)
            await self._loop.run()

    def _awaits_more(self) -> bool:
        """Return whether a crawl that has nothing left is not over; resume it if it has paused at its finish since."""
        awaits, frontier = self._awaits is not None and self._awaits(), self._frontier
        if frontier.state is CrawlState.PAUSED and frontier.summary().queued:
            frontier.resume(reason=crawl_states.MORE_TO_CRAWL, who="crawl")
            return True
        return awaits

    def _open(self, opened: contextlib.ExitStack, written: contextlib.ExitStack) -> None:
        frontier = self._folder / "frontier"
        disks = [self._folder, self._folder / "logs", self._folder / "warcs"]
        ours = Frontier.open(frontier, self._settings, hooks=[self], program=CRAWL, disks=disks)
        self._frontier = opened.enter_context(ours)
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
        self._limits = CrawlLimits(
            self._settings.limits, uris=before.succeeded + before.failed, seconds=seconds, size=size
        )
        if self._settings.fetch.robots is True:
            self._robots = Robots(robots_name(self._settings.fetch), cache=self._cache)
        self._loop = MainLoop(self._settings, self._folder, self._parts())
        begun = False
        with self._policy_failures.pausing(self._frontier):
            begun = self._begin()
        return begun

    def _parts(self) -> CrawlParts:
        """Return the parts of the main loop."""
        frontier, robots, prerequisites = self._frontier, self._robots, None
        if robots is not None:
            prerequisites = Prerequisites(frontier, robots, self._cache, HostDelays())
        visitor = Visitor(
            self._settings,
            fetcher=self._fetcher,
            robots=robots,
            scope=self._scope,
            schedule=frontier.schedule_many,
            write_links=self._outputs.write_links,
            patience=patience(self._settings),
        )
        return CrawlParts(
            frontier=frontier,
            internals=frontier.internals,
            cache=self._cache,
            outputs=self._outputs,
            fetcher=self._fetcher,
            visitor=visitor,
            robots=robots,
            prerequisites=prerequisites,
            limits=self._limits,
            policy_failures=self._policy_failures,
            progress=self._progress,
            interrupts=self._interrupts,
            most_visits=self._most_visits,
            lease_ttl=lease_ttl(self._settings),
            on_stop=robots.stop_waiting if robots else None,
            awaits=self._awaits_more,
        )

    def on_commit(self, frontier: Frontier) -> None:
        """Make the outputs durable (a hook) before the frontier commits the URIs as finished."""
        if self._sync is not None:
            self._sync()

    def _sync_all(self) -> None:
        self._outputs.sync()
        self._cache.put_used(self._limits.seconds, self._limits.size)
        self._cache.commit()

    def on_dead_letter(self, frontier: Frontier, letter: DeadLetter) -> None:
        """Give up a robots.txt that has become a dead letter (a hook), so that no page waits for it."""
        if self._robots and is_robots(letter.uri):
            self._robots.give_up(letter.uri.url, letter.reason)

    # Beginning

    def _begin(self) -> bool:
        """Schedule the seeds, and resume a crawl that paused at its finish; return whether there is anything to do."""
        frontier, say = self._frontier, self._progress.say
        before = frontier.summary()
        self._scope.add_seeds(url for url, _ in each_seed(self._settings))
        self._scope.add_listed(frontier.internals.seed_hosts)
        frontier.schedule_many([uri for uri in self._cache.found() if self._scope.objection(uri) is None])
        check_changes(
            frontier, self._folder / "frontier", self._scope,
            settings=self._settings, stored=self._stored, cache=self._cache, command=self._command, say=say,
        )  # fmt: skip
        seeds = scheduled_seeds(self._settings)
        if self._settings.frontier.duplicates == NOOP:  # nothing else would tell those of an earlier run
            seeds = frontier.internals.unlisted(seeds)
        tally = frontier.schedule_many(seeds)
        for line in chain(left_out(self._settings.seeds), refused_seeds(tally)):
            say(line)
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
            why = frontier.summary().pause_reason
            on = "" if crawl_states.is_paused_for_disk(frontier.state, why) else f"; `{again}` goes on"
            say(FINISHED if why == crawl_states.FINISH else f"the crawl is paused ({why}){on}")
        frontier.commit()  # makes the crawl visible to other processes from the start
        for warning in advice(self._settings):
            self._progress.warn(warning)
        if self._settings.cluster != ClusterSettings():
            self._progress.warn("the section cluster is for workers: this crawl is in its job folder alone")
        if few := shortage(self._settings.fetch.concurrency, self._most_visits):
            self._progress.warn(few)
        found = backlog(before) if before.scheduled else f"seeds: {tally.added}"
        say(f"crawl {self._settings.crawl} in {self._folder}: {found}")
        return True

    # The end

    def _run_end(self) -> tuple[RunEnd, str]:
        if self._policy_failures.failure:
            return RunEnd.ERROR, str(self._policy_failures.failure)
        match self._loop.stop:
            case StopReason.LIMIT:
                reached = self._limits.reached
                return RunEnd.LIMIT, f"limits.{reached.name}" if reached else ""
            case StopReason.INTERRUPTED | StopReason.FORCED:
                return RunEnd.SIGNAL, self._interrupts.name
        return RunEnd.EXIT, "finished" if self._frontier.state is CrawlState.FINISHED else "paused at its finish"

    def _summarize(self, frontier: Path, reports: Path) -> None:
        """Write the last reports and print the summary, even if the reports cannot be written."""
        with self._interrupts.breakable():
            try:
                written = report_files.write(frontier, reports)
            except OSError:
                self._print_summary(*report_files.read(frontier))
                raise
        self._print_summary(*written)

    def _print_summary(self, report: Report, overview: Overview) -> None:
        """Print the final progress and the closing summary."""
        self._progress.show(report.totals, in_flight=0, limits=self._limits.rows, verdict=report.verdict)
        for line in closing_summary(
            report,
            overview,
            folder=self._folder,
            settings=self._settings,
            stop=self._loop.stop,
            limit=self._limits.reached,
            command=self._command,
            tags=self._outputs.said_of_robots_tags(),
        ):
            self._progress.say(line)
