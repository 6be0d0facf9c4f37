"""A crawl from its settings: seeds, the loop that drives the frontier, the end.

One task owns the frontier, which is synchronous and belongs to one thread; it leases as fetchers come free, finishes
what they bring, and never sleeps longer than a commit interval, so that commands from outside are applied. What to
fetch next, and when, is the engine's business alone.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import can_ada
import msgspec

from budgetfrontier import plugins, uris
from budgetfrontier.crawl.fetch.answer import BROKEN, ROBOTS_PRECLUDED, ROBOTS_UNREACHABLE, Answer
from budgetfrontier.crawl.fetch.fetcher import Fetcher
from budgetfrontier.crawl.links import html as links
from budgetfrontier.crawl.memory import Memory
from budgetfrontier.crawl.outputs import Outputs
from budgetfrontier.crawl.progress import Progress
from budgetfrontier.crawl.robots import MAX_BODY, Robots, Verdict, is_robots
from budgetfrontier.crawl.scope import Scope, redirected_seed
from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.errors import InvalidUrl, LeaseExpired
from budgetfrontier.model import (
    Admission,
    CrawlState,
    CrawlUri,
    DeadLetter,
    Directive,
    Lease,
    Outcome,
    QueueState,
)
from budgetfrontier.reports import files
from budgetfrontier.reports.figures import Overview, Spend, counted, revival_command
from budgetfrontier.settings import Settings
from budgetfrontier.settings.schema import FetchSettings
from budgetfrontier.store.snapshot import Report

LONGEST_SLEEP = 0.5
NO_TIMEOUT = 300.0  # how long a page waits for its robots.txt where fetches may take for ever
_ROBOTS_REDIRECTS = 5  # RFC 9309, section 2.3.1.2
_LISTED = 10

log = logging.getLogger(__name__)

# What a robots verdict that forbids the fetch makes of it.
_REFUSALS = {
    Verdict.DISALLOWED: (Outcome.DISREGARDED, ROBOTS_PRECLUDED, "robots"),
    Verdict.LATER: (Outcome.RETRY, ROBOTS_UNREACHABLE, "robots.txt did not answer yet"),
    Verdict.UNREACHABLE: (Outcome.DEAD, ROBOTS_UNREACHABLE, "robots.txt unreachable"),
}


class Visit(msgspec.Struct):
    """What one worker brings back for its lease."""

    answer: Answer
    outcome: Outcome
    discovered: list[CrawlUri] = msgspec.field(default_factory=list)


def crawl(settings: Settings, folder: Path, *, progress: Progress | None = None) -> int:
    """Run the crawl in a job folder, or go on with it, until it finishes, pauses at its finish, meets a limit or is
    interrupted; return the exit code, 1 if it was forced to stop or there is nothing to crawl.

    SIGINT or SIGTERM once: finishes what is in flight; twice: stops now. Either way all that was finished is on disk.
    Raises what `Frontier.open` raises.
    """
    with progress or Progress() as shown:
        return Job(settings, folder, progress=shown).run()


class Job:
    """One run of a crawl."""

    def __init__(self, settings: Settings, folder: Path, *, progress: Progress) -> None:
        self._settings, self._folder, self._progress = settings, folder, progress
        self._robots = Robots(settings.fetch.user_agent) if settings.fetch.robots is True else None
        self._scope = Scope(settings.scope)
        options = msgspec.to_builtins(settings.frontier.canonicalization)
        self._canonical = plugins.resolve("canonicalization", {"standard": options})
        self._visits: dict[asyncio.Task[Visit], tuple[Lease, int]] = {}
        self._slots = list(range(settings.fetch.concurrency, 0, -1))
        self._stopping: str | None = None
        self._forced = False
        self._bytes = 0
        self._finished = 0
        self._looked = self._reported = time.monotonic()
        self._reporting: asyncio.Task[None] | None = None
        self._interval = min(LONGEST_SLEEP, settings.frontier.commit_interval)
        self._patience = settings.fetch.timeout or NO_TIMEOUT

    def run(self) -> int:
        """Open the frontier, crawl, close it; return the exit code."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with (
            Frontier.open(self._folder / "frontier", self._settings, hooks=[self]) as self._frontier,
            Memory(self._folder / "frontier" / "crawl") as self._memory,
            Outputs(self._folder, self._settings, memory=self._memory) as self._logs,
        ):
            return asyncio.run(self._main())

    def on_commit(self, frontier: Frontier) -> None:
        """Hook: what the frontier is about to call done is on disk first."""
        self._logs.sync()
        self._memory.commit()

    def on_dead_letter(self, frontier: Frontier, letter: DeadLetter) -> None:
        """Hook: a robots.txt that was tried often enough is not waited for any longer."""
        if self._robots and is_robots(letter.uri):
            self._robots.give_up(letter.uri.url)

    async def _main(self) -> int:
        if not self._begin():
            return 1
        handled = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
        loop = asyncio.get_running_loop()
        for number in handled:
            loop.add_signal_handler(number, self._interrupt)
        try:
            async with Fetcher(self._settings.fetch) as self._fetcher:
                try:
                    await self._drive()
                finally:
                    left = [*self._visits, *([self._reporting] if self._reporting else [])]
                    for task in left:
                        task.cancel()
                    await asyncio.gather(*left, return_exceptions=True)
        finally:
            for number in handled:
                loop.remove_signal_handler(number)
        self._frontier.commit()
        self._conclude(*files.write(self._folder / "frontier", self._folder / "reports"))
        return 1 if self._forced else 0

    # Beginning

    def _begin(self) -> bool:
        """Schedule the seeds, resume what paused at its finish; tell whether there is anything to do."""
        frontier, say = self._frontier, self._progress.say
        before = frontier.summary()
        tally = frontier.schedule_many(self._seeds())
        if tally.invalid:
            reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(tally.reasons.items()))
            say(f"{tally.invalid} seeds are no http or https URLs ({reasons})")
        self._finished = before.succeeded + before.failed
        if frontier.state is CrawlState.TERMINATED:
            say("this crawl was terminated, for good; name another job folder to start over")
            return False
        if frontier.state is CrawlState.NEW:
            say("there is nothing to crawl; give at least one valid seed")
            return False
        if frontier.state is CrawlState.PAUSED and before.pause_reason == "finish":
            frontier.resume(reason="started again", who="crawl")
        elif frontier.state is CrawlState.PAUSED:
            say(f"the crawl is paused ({before.pause_reason}); `budgetfrontier resume {self._folder}` goes on")
        self._warn_of_anonymity()
        found = f"{before.queued} URIs queued" if before.scheduled else f"seeds: {tally.added}"
        say(f"crawl {self._settings.crawl} in {self._folder}: {found}")
        return True

    def _warn_of_anonymity(self) -> None:
        agent = self._settings.fetch.user_agent
        if "+http" in agent or "@" in agent:
            return
        name = f" is the default, {agent}, and" if agent == FetchSettings().user_agent else f", {agent},"
        warning = f"fetch.user_agent{name} names no contact; add a page or an address, such as +https://example.org/bot"
        self._progress.say(f"warning: {warning}")
        if log.hasHandlers():  # without any, logging would print it on stderr once more
            log.warning("%s", warning)

    def _seeds(self) -> Iterator[CrawlUri]:
        for seed in self._settings.seeds:
            for url in [seed.url] if seed.url else _lines(Path(seed.file or "")):
                try:
                    url = uris.parse(url)
                    self._scope.add_seed(url)
                except InvalidUrl:
                    pass  # the frontier counts it with its reason
                yield CrawlUri(
                    url, directive=Directive.MEDIUM, priority=seed.priority, source=seed.source, queue=seed.queue
                )

    def _interrupt(self) -> None:
        if self._stopping:
            self._forced = True
        else:
            self._progress.say(f"stopping: {len(self._visits)} fetches are in flight; once more to stop at once")
        self._stopping = self._stopping or "interrupted"

    # The loop

    async def _drive(self) -> None:
        """Lease, fetch, finish, until there is nothing left to do or a reason to stop."""
        while not self._forced:
            free = self._lease()
            if not self._visits and self._is_over():
                return
            for task in await self._wait(free):
                self._settle(task)
            self._look_around()

    def _lease(self) -> int:
        """Fill the free slots; return how many are still free. Commits at least every commit interval."""
        free = 0 if self._stopping else self._free()
        if free:
            for lease in self._frontier.lease(free, ttl=self._ttl()):
                self._start(lease)
            free = self._free()
        elif time.monotonic() - self._looked >= self._interval:
            self._frontier.commit()
        else:
            return free
        self._looked = time.monotonic()
        return free

    def _free(self) -> int:
        free = len(self._slots)
        if limit := self._settings.limits.max_uris:
            free = min(free, limit - self._finished - len(self._visits))
        return max(free, 0)

    def _ttl(self) -> float:
        # A visit may wait for its robots.txt before it fetches; its lease has to outlive both.
        return max(self._settings.frontier.lease_ttl, 3 * self._patience)

    async def _wait(self, free: int) -> set[asyncio.Task[Visit]]:
        """Sleep until a visit ends, something may be leased, or it is time to look around."""
        ready = self._frontier.next_ready_in() if free else None
        sleep = self._interval if ready is None else min(self._interval, ready)
        if self._visits:
            return (await asyncio.wait(self._visits, timeout=sleep, return_when=asyncio.FIRST_COMPLETED))[0]
        await asyncio.sleep(sleep)
        return set()

    def _is_over(self) -> bool:
        state = self._frontier.state
        if state is CrawlState.PAUSED:
            return bool(self._stopping) or self._frontier.summary().pause_reason == "finish"
        return bool(self._stopping) or state in (CrawlState.FINISHED, CrawlState.TERMINATED)

    def _look_around(self) -> None:
        limits, every = self._settings.limits, self._settings.reports.every
        for name, limit, used in (
            ("max_uris", limits.max_uris, self._finished),
            ("max_time", limits.max_time, self._progress.elapsed),
            ("max_bytes", limits.max_bytes, self._bytes),
        ):
            if limit and used >= limit and not self._stopping:
                self._stopping = f"limits.{name} is reached"
        if self._progress.due:
            self._progress.show(self._frontier.summary(), in_flight=len(self._visits))
        if every and time.monotonic() - self._reported >= every and (self._reporting is None or self._reporting.done()):
            self._reported = time.monotonic()
            self._reporting = asyncio.create_task(self._report())

    # One visit

    def _start(self, lease: Lease) -> None:
        """Start a visit; a page whose robots.txt is unknown goes back first, behind that robots.txt."""
        asked: CrawlUri | None = None
        if self._robots:
            if is_robots(lease.uri):
                self._robots.expect(lease.uri.url)
            elif asked := self._robots.prerequisite(lease):
                self._robots.expect(asked.url)
                if self._frontier.schedule(asked) is Admission.ADDED:
                    self._frontier.finish(lease, Outcome.DEFERRED, reason="robots.txt first")
                    return
        task = asyncio.create_task(self._visit(lease, asked))
        self._visits[task] = lease, self._slots.pop()

    async def _visit(self, lease: Lease, asked: CrawlUri | None) -> Visit:
        """Fetch a URI; `asked` is the robots.txt to fetch with it, where its full queue had no room for that."""
        uri = lease.uri
        if self._robots and is_robots(uri):
            answer = await self._fetch_robots(uri)
            return Visit(answer, self._robots.record(uri.url, answer))
        if self._robots:
            if asked and self._robots.record(asked.url, await self._fetch_robots(asked)) is Outcome.RETRY:
                self._robots.forget(asked.url)  # it is queued nowhere, so that only a page can ask again
            verdict = await self._robots.verdict(uri.url, patience=self._patience)
            if verdict is not Verdict.ALLOWED:
                outcome, status, reason = _REFUSALS[verdict]
                return Visit(Answer(status=status, reason=reason), outcome)
        answer = await self._fetcher.get(uri)
        return Visit(answer, answer.outcome, self._discover(uri, answer))

    async def _fetch_robots(self, uri: CrawlUri) -> Answer:
        for _ in range(_ROBOTS_REDIRECTS):
            answer = await self._fetcher.get(uri, max_body=MAX_BODY)
            target = links.resolve(can_ada.parse(uri.url), answer.location)
            if target is None:
                break
            uri = CrawlUri(target)
        return answer

    def _discover(self, uri: CrawlUri, answer: Answer) -> list[CrawlUri]:
        """Return what a redirect or a page leads to, as far as it is in scope."""
        if target := links.resolve(can_ada.parse(uri.url), answer.location):
            found = [(target, "R")]
        elif 200 <= answer.status < 300 and answer.mime in links.HTML_TYPES:
            found = links.extract(answer.body, uri.url, charset=answer.charset)
        else:
            return []
        self._logs.write_links(uri.url, found)
        children = (self._child(uri, href, hop) for href, hop in found)
        return [child for child in children if self._scope.objection(child) is None]

    def _child(self, uri: CrawlUri, href: str, hop: str) -> CrawlUri:
        child = CrawlUri(href, via=uri.url, hops=uri.hops + hop, source=uri.source, meta=uri.meta)
        if hop == "R":
            child.directive, child.priority = uri.directive, uri.priority
            # From example.org to www.example.org: one place to deduplication, so the page itself would never be seen.
            same = href != uri.url and self._canonical(href) == self._canonical(uri.url)
            child.force = same and not child.hops.endswith("RR")
            if redirected_seed(child):
                child.meta = {"seed": href}
        return child

    def _settle(self, task: asyncio.Task[Visit]) -> None:
        """Log a visit and finish its lease."""
        lease, slot = self._visits.pop(task)
        self._slots.append(slot)
        if error := task.exception():
            log.error("visit of %s failed", lease.uri.url, exc_info=error)
            visit = Visit(Answer(status=BROKEN, reason=f"{type(error).__name__}: {error}"), Outcome.FAILURE)
        else:
            visit = task.result()
        answer = visit.answer
        self._logs.write(lease, answer, visit.outcome, slot=slot)
        try:
            self._frontier.finish(
                lease,
                visit.outcome,
                fetch_seconds=answer.seconds,
                crawl_delay=self._robots.delay(lease.uri.url) if self._robots else None,
                discovered=visit.discovered,
                reason=answer.reason or f"status {answer.status}",
                delay=answer.retry_after,
            )
        except LeaseExpired:
            log.warning("the lease of %s expired during its visit; it will be fetched again", lease.uri.url)
            return
        self._progress.count(len(answer.body))
        self._bytes += len(answer.body)
        self._finished += visit.outcome in (Outcome.SUCCESS, Outcome.FAILURE)

    # Reports and the end

    async def _report(self) -> None:
        """Write the reports, as of the last commit, in a process of its own: many queues would hold up this one."""
        module, frontier, folder = files.__name__, self._folder / "frontier", self._folder / "reports"
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", module, frontier, folder),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is for this process to handle
            )
        except OSError as e:
            log.warning("the reports were not written: %s", e)
            return
        try:
            _, errors = await process.communicate()
        except asyncio.CancelledError:
            process.kill()
            await process.wait()
            raise
        if process.returncode:
            log.warning("the reports were not written: %s", errors.decode(errors="replace").strip().rpartition("\n")[2])

    def _conclude(self, report: Report, overview: Overview) -> None:
        """Say how the crawl stands, and what would go on with it."""
        say, summary = self._progress.say, report.totals
        self._progress.show(summary, in_flight=0)
        again = "run the same command to go on"
        if 0 < (limit := self._settings.limits.max_uris) <= self._finished:  # counts over all runs, unlike the others
            again = f"raise limits.max_uris (now {limit}) and run the same command"
        if self._forced:
            say(f"stopped at once; all that was finished is kept; {again}")
        elif self._stopping:
            say(f"stopped: {self._stopping}; {again}")
        elif summary.state is CrawlState.PAUSED:
            self._say_retired(summary.queues[QueueState.RETIRED], overview.spend())
        else:
            say(f"crawl {summary.state.lower()}")

    def _say_retired(self, count: int, spend: Spend) -> None:
        say = self._progress.say
        if not count:
            say("paused at finish: everything is crawled; add seeds and run the same command to go on, or terminate")
            return
        replenish = self._settings.frontier.balance_replenish_amount
        verb = "is" if count == 1 else "are"
        say(f"paused at finish: {counted(count, 'queue')} {verb} retired, with {counted(spend.stranded, 'URI')}")
        for row in spend.stranding[:_LISTED]:
            spent = f"spent {row.expenditure} of {row.total_budget}"
            say(f"  {row.queue}: {counted(row.queued, 'URI')}, {spent}; to revive it:")
            say(f"    {revival_command(row, str(self._folder), replenish=replenish)}")
        if (more := count - len(spend.stranding[:_LISTED])) > 0:
            say(f"  ...and {more} more: budgetfrontier queues {self._folder} --state RETIRED")
        say("then run the same command again")


def _lines(path: Path) -> Iterator[str]:
    """Yield the URLs of a seed file: one a line, # starts a comment line."""
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            if (url := line.strip()) and not url.startswith("#"):
                yield url
