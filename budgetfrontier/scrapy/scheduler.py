"""The scheduler: Scrapy's scheduler interface, implemented on a frontier.

Scrapy calls it from its reactor's thread. `enqueue_request` and `next_request` raise nothing: an exception from the
first would stop the spider's start or lose the other requests of a callback, one from the second would stall the
engine.
"""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from scrapy.utils.job import job_dir

from budgetfrontier.core.model import Admission, CrawlState, Lease, Outcome
from budgetfrontier.engine.bulk_finish import end_leases, is_closed
from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.errors import InvalidUrl, PolicyError, StorageFull
from budgetfrontier.rules import crawl_states
from budgetfrontier.rules.run_history import end_of_spider
from budgetfrontier.scrapy import options
from budgetfrontier.scrapy.conversion import STARTED, InvalidMeta, set_budget, wanted_budget
from budgetfrontier.scrapy.in_flight import InFlight, RequestState
from budgetfrontier.scrapy.intake import Candidate, Dupefilter, Intake, refusal
from budgetfrontier.scrapy.order import PriorityMapping, order
from budgetfrontier.scrapy.scrapy_engine import ScrapyEngine
from budgetfrontier.scrapy.seals import KeyedHash, RequestLost
from budgetfrontier.scrapy.serialization import Serializer
from budgetfrontier.scrapy.stats import Size, StatsHook, count_request, log_closing, log_opening
from budgetfrontier.settings import plugins
from budgetfrontier.settings.policies.assignment import Single

LEASE_TTL = 1e9  # seconds: Scrapy has timeouts of its own, and the leases of a process that died are given back anyway
MIN_COMMIT_INTERVAL = 0.05  # seconds

log = logging.getLogger(__name__)


class Scheduler:
    """`SCHEDULER = "budgetfrontier.scrapy.Scheduler"`: a frontier in JOBDIR/frontier, or in memory without a JOBDIR.

    `frontier` is that frontier, from `open` to `close`, for spiders and extensions that inspect or steer the crawl.
    `len()` is the number of requests waiting, without those of retired queues.
    """

    frontier: Frontier

    def __init__(self, crawler: Any) -> None:
        self.crawler = crawler
        self.stats = crawler.stats
        self._dupefilter = Dupefilter(crawler)
        self.df = self._dupefilter.filter
        self._closed = True  # until `open`
        self._policy_failed = False  # after a policy failed: nothing is scheduled, handed out or finished any more
        self._engine = ScrapyEngine(crawler, self._tick)
        self._warned = False
        self._engine_waits = False
        """Whether the last call of `next_request` found nothing to hand out."""

    @classmethod
    def from_crawler(cls, crawler: Any) -> Any:
        """Create the scheduler of a crawler: with BUDGETFRONTIER_URL that of a shared frontier. Scrapy calls this.

        With BUDGETFRONTIER_BUS, it is that of a spider at a message bus. An empty one of these, and an extra that is
        missing, are errors of that scheduler's `open`.
        """
        if crawler.settings.get("BUDGETFRONTIER_BUS") is not None:
            from budgetfrontier.scrapy.bus.scheduler import BusScheduler

            return BusScheduler(crawler)
        if crawler.settings.get("BUDGETFRONTIER_URL") is not None:
            from budgetfrontier.scrapy.remote.scheduler import SharedScheduler

            return SharedScheduler(crawler)
        return cls(crawler)

    # -- opening and closing

    def open(self, spider: Any) -> Any:
        """Open the frontier: the one in JOBDIR, or a new one. Return the result of the dupefilter's `open`.

        Raises SettingsError for wrong settings and for the JOBDIR of another spider, FrontierLocked for a JOBDIR in
        use, and whatever else `Frontier.open` raises.
        """
        self.spider = spider
        self._log = logging.LoggerAdapter(log, {"spider": spider})
        folder = job_dir(self.crawler.settings)
        wanted_order = order(self.crawler.settings)
        settings = options.frontier_settings(self.crawler.settings, spider, wanted_order)
        self._storage = "disk" if folder else "memory"
        if folder:
            options.job_file(Path(folder), spider.name)  # that of another spider is left as it is
        self._folder = folder
        self._in_flight = InFlight(self.crawler, self._on_fetched)
        self.frontier = frontier = Frontier.open(
            Path(folder, "frontier") if folder else ":memory:",
            settings,
            hooks=[StatsHook(self.stats)],
            program=f"scrapy spider {spider.name}",
        )
        self._closed = False
        # Under the lock of the frontier: of two processes that begin at once, each would make a key.
        key = options.claim(Path(folder), spider.name).key if folder else os.urandom(32)
        self._serializer = Serializer(spider, seal=KeyedHash(key), durable=bool(folder))
        self._priorities = PriorityMapping(start=wanted_order.start, lifo=settings.frontier.order == "lifo")
        policy = plugins.resolve("assignment", settings.frontier.queue_assignment_policy)
        one_queue = isinstance(policy, Single)
        self._intake = Intake(self._dupefilter, self._serializer, self._priorities, one_queue=one_queue)
        self._author = f"spider {spider.name}"
        self._last_command = self._newest_command()
        self._resumed = frontier.state not in (CrawlState.NEW, CrawlState.FINISHED) and not self._paused_at_finish()
        log_opening(frontier, folder, spider, waiting=len(self) if self._resumed else None)
        self._interval = max(settings.frontier.commit_interval, MIN_COMMIT_INTERVAL)
        self._engine.tick_in(self._interval)
        return self.df.open()

    def close(self, reason: str) -> Any:
        """Finish the requests that have ended, commit, and close. Return the result of the dupefilter's `close`."""
        self._engine.stop_timers()
        if not self._closed and self._engine.is_running:
            self._finish_ended()
        if not self._closed:
            self._closed = True
            try:
                log_closing(self.frontier, self._folder, self.spider, self.stats)
            finally:
                self.frontier.close(end=end_of_spider(reason), reason=reason)
        return self.df.close(reason)

    # -- requests in

    def enqueue_request(self, request: Any) -> bool:
        """Schedule a request.

        Return False for one not admitted, such as a duplicate; the log says why. Raises nothing.
        """
        if self._closed or self._policy_failed:
            return False
        try:
            return self._enqueue(request)
        except (InvalidUrl, InvalidMeta) as e:
            self._refuse(request, str(e))
        except Exception as e:
            self._failed(e, f"Cannot enqueue {request}")
        return False

    def _enqueue(self, request: Any) -> bool:
        if self._dupefilter.stops(request):
            self._dupefilter.log(request)
            return False
        page = self._in_flight.page_of(request)
        if request in self._intake.seen:
            if page is not None:
                page.count_link(None)
            self.frontier.schedule(request.url)  # counts the duplicate
            self._dupefilter.log(request)
            return False
        budget = wanted_budget(request)
        candidate = self._intake.convert(request)
        admission = None
        try:
            admission = self._admit(candidate)
            if budget is not None and admission is not Admission.INVALID:
                set_budget(self.frontier, candidate.uri, budget)
        finally:
            self._intake.settle(candidate, admission)
        if page is not None:
            added = admission is Admission.ADDED
            page.count_link(self.frontier.internals.queue_key(candidate.uri) if added else None)
        if admission is Admission.ADDED:
            self._count(request, candidate.reason)
        elif admission is Admission.DUPLICATE:
            self._dupefilter.log(request)
        else:
            self._refuse(request, refusal(admission))
        return admission is Admission.ADDED

    def _admit(self, candidate: Candidate) -> Admission:
        uri = candidate.uri
        admission = self.frontier.schedule(uri)
        if admission is Admission.DUPLICATE and candidate.is_start and not self._resumed:
            admission = self.frontier.schedule(replace(uri, force=True))
        paused = admission is Admission.ADDED and self.frontier.state is CrawlState.PAUSED
        if paused and crawl_states.goes_on_after_finish(self.frontier.summary()):
            self.frontier.resume(reason=crawl_states.MORE_TO_CRAWL, who=self._author)
        return admission

    def _count(self, request: Any, reason: str) -> None:
        storage = self._storage
        if reason:
            storage = "memory"
            self.stats.inc_value("scheduler/unserializable")
            if not self._warned:
                self._warned = True
                self._log.warning(
                    "Unable to serialize request: %s - reason: %s - it stays in memory, and is lost when the process "
                    "ends - no more unserializable requests will be logged (stats being collected)",
                    request,
                    reason,
                )
        count_request(self.stats, "enqueued", storage)

    def _refuse(self, request: Any, reason: str) -> None:
        self.stats.inc_value("budgetfrontier/refused")
        self._log.warning("Not scheduled: %s: %s", request, reason)

    # -- requests out

    def next_request(self) -> Any:
        """Return the next request; None if none is ready, and wake the engine once one is. Raises nothing."""
        if self._closed or self._policy_failed:
            return None
        try:
            if self._finish_ended():
                return self._engine.first_of(self._lease, self._load_request)
        except Exception as e:
            self._failed(e, "Cannot take the next request")
        return None

    def _lease(self) -> Lease | None:
        # A `lease` that finds nothing commits, and Scrapy calls until it gets None, several times per page.
        ready = self.frontier.next_ready_in()
        self._engine_waits = False
        if ready == 0.0:
            leases = self.frontier.lease(1, ttl=LEASE_TTL)
            if leases:
                return leases[0]
            ready = self.frontier.next_ready_in()
        self._engine_waits = True
        if ready is not None:
            self._engine.wake_in(ready)
        elif self.frontier.state is CrawlState.TERMINATED:
            self._engine.close_spider("terminated")
        return None

    def _load_request(self, lease: Lease) -> Any:
        """Return the request of a lease. If it cannot be restored, make the URI a dead letter and return None."""
        held = self._serializer.held
        try:
            request = self._serializer.load(lease.uri)
        except RequestLost as e:
            self._log.error("Dead letter: %s: %s", lease.uri.url, e)
            self.frontier.finish(lease, Outcome.DEAD, reason=str(e))
            return None
        self._priorities.remove(request)
        if request.meta.get("is_start_request"):
            request.meta[STARTED] = True
        if before := self._in_flight.start(request, lease):
            self._finish_all([(request, before)])
        storage = "memory" if self._serializer.held < held else self._storage
        count_request(self.stats, "dequeued", storage)
        return request

    def _on_fetched(self, request: Any, request_state: RequestState) -> None:
        self._mark_landed(request, request_state)
        if self._engine_waits:
            self._engine.wake()

    def _mark_landed(self, request: Any, request_state: RequestState) -> None:
        """Report that a request has left the downloader: its queue may be leased from again. Raises nothing."""
        try:
            if not (request_state.reached or request_state.received) and self._has_delay(request_state.lease):
                return  # nothing was fetched, and `landed` would delay the queue as after a fetch
            self.frontier.landed(request_state.lease, fetch_seconds=request_state.seconds(request))
        except Exception as e:
            self._failed(e, f"Cannot land {request}")

    def _has_delay(self, lease: Lease) -> bool:
        settings = self.frontier.internals.settings_for(lease)
        return settings.min_delay > 0 or settings.jitter > 0

    def _finish_ended(self) -> bool:
        """Finish the leases of requests that have ended, and call `landed` for those that have left the downloader.

        Return whether the crawl may go on: no policy has failed.
        """
        if self._policy_failed:
            return False
        if ended := self._in_flight.ended():
            self._finish_all(ended)
        for request, request_state in self._in_flight.landed():
            self._mark_landed(request, request_state)
        return not self._policy_failed

    def _finish_all(self, ended: list[tuple[Any, RequestState]]) -> None:
        """Finish the leases of requests in one call; one that fails affects no other."""
        try:
            for _, state in ended:
                if state.links:
                    self.frontier.internals.note_links(state.lease, state.links, new=state.added, own=state.same_queue)
            failures = end_leases(self.frontier, [state.ending(request) for request, state in ended], time.time())
        except Exception as e:
            self._failed(e, "Cannot finish requests")
            return
        failed = {lease.id: error for lease, error in failures}
        for _, state in ended:
            if state.lease.id not in failed:
                self.stats.inc_value(f"budgetfrontier/finished/{state.outcome().lower()}")
        for request, state in ended if failed else ():
            if error := failed.get(state.lease.id):
                self._failed(error, f"Cannot finish {request}")

    # -- sizes

    def has_pending_requests(self) -> bool:
        """Return whether requests are waiting, for now or later; those in flight or in retired queues do not count."""
        if self._closed:
            return False
        try:
            self._finish_ended()
            return len(self) > 0
        except Exception as e:
            self._failed(e, "Cannot tell what is pending")
            return False

    def __len__(self) -> int:
        if self._closed:
            return 0
        summary = self.frontier.summary()
        if summary.state in (CrawlState.NEW, CrawlState.FINISHED, CrawlState.TERMINATED):
            return 0
        if self._paused_at_finish():
            return 0
        return self.frontier.waiting() + summary.future

    def _paused_at_finish(self) -> bool:
        frontier = self.frontier
        return frontier.state is CrawlState.PAUSED and frontier.summary().pause_reason == crawl_states.FINISH

    @property
    def mqs(self) -> Size:
        """The requests in memory, for Scrapy's telnet console: all of them without a JOBDIR."""
        return Size(self._serializer.held if self._folder else len(self))

    @property
    def dqs(self) -> Size | None:
        """The requests on disk, for Scrapy's telnet console; None without a JOBDIR."""
        return Size(max(len(self) - self._serializer.held, 0)) if self._folder else None

    # -- time

    def _tick(self) -> None:
        """Commit, which also applies commands from the command line; wake the engine if requests are ready.

        Runs once per commit interval.
        """
        if self._closed:
            return
        try:
            self._finish_ended()
            self.frontier.commit()
            if (newest := self._newest_command()) != self._last_command:
                self._last_command = newest
                self._intake.seen.clear()
            ready = self.frontier.next_ready_in()
            if ready == 0.0 or self.frontier.state is CrawlState.TERMINATED:
                self._engine.wake()
        except Exception as e:
            self._failed(e, "Cannot commit")
        if not self._closed:
            self._engine.tick_in(self._interval)

    def _newest_command(self) -> int:
        return max((entry.id for entry in self.frontier.audit(limit=1)), default=0)

    # -- errors

    def _failed(self, error: Exception, what: str) -> None:
        """Log an error; close the spider, once, if it closed the frontier (a full disk, say) or is a PolicyError.

        After a PolicyError no lease is finished any more: the page whose link the policy failed on is fetched again in
        the next run, and the link is found again.
        """
        if self._closed or self._policy_failed:
            return
        if isinstance(error, PolicyError):
            self._log.error("%s: %s; what is in flight is fetched again in the next run", what, error)
            self._policy_failed = True
            self._engine.close_spider("policy_error")
            return
        if not is_closed(self.frontier):
            self._log.error("%s: %s", what, error, exc_info=error)
            return
        full = isinstance(error, StorageFull)
        self._log.error("%s: %s", what, error, exc_info=None if full else error)
        self._closed = True
        self._engine.close_spider("disk_full" if full else "frontier_error")
