"""The scheduler itself: Scrapy's interface on one side, the frontier on the other.

Scrapy calls it from its reactor's thread. It raises nothing out of `enqueue_request` and `next_request`: the one would
stop the spider's start or lose a callback's other requests, the other would stall the engine.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

from scrapy.dupefilters import RFPDupeFilter
from scrapy.utils.job import job_dir
from scrapy.utils.misc import build_from_crawler, load_object

from budgetfrontier import plugins, rules
from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.errors import FrontierClosed, FrontierError, InvalidUrl, PolicyError, StorageFull
from budgetfrontier.model import Admission, CrawlState, CrawlUri, Lease, Outcome, QueueState
from budgetfrontier.policies.assignment import Single
from budgetfrontier.scrapy import download_slots, options
from budgetfrontier.scrapy.budgets import Budgets
from budgetfrontier.scrapy.closing import Closing
from budgetfrontier.scrapy.conversion import BUDGET, QUEUE, STARTED, Refused, address, crawl_uri
from budgetfrontier.scrapy.in_flight import InFlight, RequestState, slot_of
from budgetfrontier.scrapy.order import PriorityMapping, order
from budgetfrontier.scrapy.serialization import START, Lost, Serializer
from budgetfrontier.scrapy.stats import Size, StatsHook, log_closing, log_opening
from budgetfrontier.scrapy.wakeups import Wakeup

FOR_EVER = 1e9  # seconds: Scrapy has time-outs of its own, and a process that died gives its leases back
MOST_LOST = 100  # dead letters made by one call
MOST_MET = 1 << 15  # URLs kept in memory that the frontier is known to have seen
SHORTEST_TICK = 0.05  # seconds

log = logging.getLogger(__name__)


class Scheduler:
    """`SCHEDULER = "budgetfrontier.scrapy.Scheduler"`: a frontier in JOBDIR/frontier, or in memory without a JOBDIR.

    `frontier` is that frontier, from `open` to `close`, for spiders and extensions that want to look or to steer.
    `len()` tells how many requests wait, those of retired queues left out.
    """

    frontier: Frontier

    def __init__(self, crawler: Any) -> None:
        self.crawler = crawler
        self.stats = crawler.stats
        self._own = options.own_dupefilter(crawler.settings)
        if self._own:  # the frontier knows what it has seen; this one only says so
            debug = crawler.settings.getbool("DUPEFILTER_DEBUG")
            self.df = RFPDupeFilter(None, debug, fingerprinter=crawler.request_fingerprinter)
        else:
            self.df = build_from_crawler(load_object(crawler.settings["DUPEFILTER_CLASS"]), crawler)
        self._over = True  # until it is open
        self._halted = False
        self._closing = Closing(crawler)
        self._warned = False
        self._waiting = False
        """The engine was told that there is nothing for it now."""

    @classmethod
    def from_crawler(cls, crawler: Any) -> Scheduler:
        """Make it for a crawler, as Scrapy does."""
        return cls(crawler)

    # -- from beginning to end

    def open(self, spider: Any) -> Any:
        """Open the frontier, or go on with the one in JOBDIR.

        Raises SettingsError, for another spider's JOBDIR too, FrontierLocked for one in use, and what else
        `Frontier.open` raises. Returns what the dupefilter's `open` returns.
        """
        self.spider = spider
        folder = job_dir(self.crawler.settings)
        asked = order(self.crawler.settings)
        settings = options.frontier_settings(self.crawler.settings, spider, asked)
        self._where = "disk" if folder else "memory"
        key = options.claim(Path(folder), spider.name).key if folder else os.urandom(32)
        self._folder = folder
        self._in_flight = InFlight(self.crawler, self._left)
        self.frontier = frontier = Frontier.open(
            Path(folder, "frontier") if folder else ":memory:", settings, hooks=[StatsHook(self.stats)]
        )
        self._requests = Serializer(spider, key=key, durable=bool(folder))
        self._priorities = PriorityMapping(start=asked.start, lifo=settings.frontier.order == "lifo")
        policy = plugins.resolve("assignment", settings.frontier.queue_assignment_policy)
        self._one_queue = isinstance(policy, Single)
        self._who = f"spider {spider.name}"
        self._budgets = Budgets(frontier, who=self._who)
        self._met: set[str] = set()
        self._over = False
        self._going_on = frontier.state not in (CrawlState.NEW, CrawlState.FINISHED) and not self._paused_at_finish()
        log_opening(frontier, folder, spider, waiting=len(self) if self._going_on else None)
        self._interval = max(settings.frontier.commit_interval, SHORTEST_TICK)
        self._wake = Wakeup(self._schedule)
        self._clock = Wakeup(self._tick)
        if slot_of(self.crawler) is not None:
            self._clock.set(self._interval)
        return self.df.open()

    def close(self, reason: str) -> Any:
        """Finish what has ended, commit, and close. Returns what the dupefilter's `close` returns."""
        if hasattr(self, "_clock"):
            self._clock.stop()
            self._wake.stop()
        if not self._over and slot_of(self.crawler) is not None:
            self._land()
        if not self._over:
            self._over = True
            try:
                log_closing(self.frontier, self._folder, self.spider, self.stats)
            finally:
                self.frontier.close()
        return self.df.close(reason)

    # -- requests in

    def enqueue_request(self, request: Any) -> bool:
        """Admit a request. False if it is a duplicate, or cannot be admitted; the log says why. Raises nothing."""
        if self._over or self._halted:
            return False
        try:
            return self._enqueue(request)
        except (InvalidUrl, Refused) as e:
            self._refuse(request, str(e))
        except Exception as e:
            self._failed(e, f"Cannot enqueue {request}")
        return False

    def _enqueue(self, request: Any) -> bool:
        asked = not request.dont_filter
        if asked and not self._own and self.df.request_seen(request):
            self.df.log(request, self.spider)
            return False
        plain = asked and self._own and request.method == "GET" and not request.body
        if plain and request.url in self._met:  # most links of a page: no need to make anything of them
            self.frontier.schedule(request.url)  # which counts it
            self.df.log(request, self.spider)
            return False
        url, own_queue = address(request.url)
        slot = download_slots.settle(request)
        queue = request.meta.get(QUEUE) or (None if self._one_queue else slot or own_queue)
        fresh = not asked and bool(request.meta.get("is_start_request")) and STARTED not in request.meta
        payload, why = self._requests.store(request, url)
        priority = self._priorities.priority(request)
        admission = None
        try:
            uri = crawl_uri(request, url, queue=queue, payload=payload, priority=priority, method=request.method)
            if BUDGET in request.meta:
                self._budgets.set(uri, request.meta[BUDGET])
            admission = self._admit(uri, fresh=fresh, force=not fresh and not (asked and self._own))
        finally:
            if admission is not Admission.ADDED:
                self._requests.forget(payload)
                self._priorities.gone(request)
        if plain and own_queue is None and admission in (Admission.ADDED, Admission.DUPLICATE):
            self._meet(request.url)
        if admission is Admission.ADDED:
            self._count(request, why)
        elif admission is Admission.DUPLICATE:
            self.df.log(request, self.spider)
        else:
            full = admission is Admission.FULL
            self._refuse(request, "the frontier is full" if full else "the frontier cannot keep it")
        return admission is Admission.ADDED

    def _admit(self, uri: CrawlUri, *, fresh: bool, force: bool) -> Admission:
        if fresh:  # known as such, apart from all others, so that a crawl that goes on does not start over
            uri.method = START + uri.method
        uri.force = force
        admission = self.frontier.schedule(uri)
        if admission is Admission.DUPLICATE and fresh and not self._going_on:
            uri.force = True
            admission = self.frontier.schedule(uri)
        if admission is Admission.ADDED and self._paused_at_finish():  # it was empty for a moment
            self.frontier.resume(reason="there is more to crawl", who=self._who)
        return admission

    def _meet(self, url: str) -> None:
        if len(self._met) >= MOST_MET:
            self._met.clear()
        self._met.add(url)

    def _count(self, request: Any, why: str) -> None:
        where = self._where
        if why:
            where = "memory"
            self.stats.inc_value("scheduler/unserializable")
            if not self._warned:
                self._warned = True
                log.warning(
                    "Unable to serialize request: %s - reason: %s - it stays in memory, and is lost when the process "
                    "ends - no more unserializable requests will be logged (stats being collected)",
                    request,
                    why,
                    extra={"spider": self.spider},
                )
        self.stats.inc_value(f"scheduler/enqueued/{where}")
        self.stats.inc_value("scheduler/enqueued")

    def _refuse(self, request: Any, why: str) -> None:
        self.stats.inc_value("budgetfrontier/refused")
        log.warning("Not scheduled: %s: %s", request, why, extra={"spider": self.spider})

    # -- requests out

    def next_request(self) -> Any:
        """The next request, None if none may go out now; the engine is woken when one may. Raises nothing."""
        if self._over or self._halted:
            return None
        try:
            self._land()
            for _ in range(MOST_LOST):
                lease = self._lease()
                if lease is None:
                    return None
                request = self._take_off(lease)
                if request is not None:
                    return request
            self._wake_in(0.0)
        except Exception as e:
            self._failed(e, "Cannot take the next request")
        return None

    def _lease(self) -> Lease | None:
        # An empty `lease` commits, and Scrapy asks until it is told None, several times a page.
        ready = self.frontier.next_ready_in()
        self._waiting = False
        if ready == 0.0:
            leases = self.frontier.lease(1, ttl=FOR_EVER)
            if leases:
                return leases[0]
            ready = self.frontier.next_ready_in()
        self._waiting = True
        if ready is not None:
            self._wake_in(ready)
        elif self.frontier.state is CrawlState.TERMINATED:
            self._closing.ask("terminated")
        return None

    def _take_off(self, lease: Lease) -> Any:
        """The request of a lease; None if there is none any more, which makes it a dead letter."""
        held = self._requests.held
        try:
            request = self._requests.load(lease.uri)
        except Lost as e:
            log.error("Dead letter: %s: %s", lease.uri.url, e, extra={"spider": self.spider})
            self.frontier.finish(lease, Outcome.DEAD, reason=str(e))
            return None
        self._priorities.gone(request)
        if request.meta.get("is_start_request"):
            request.meta[STARTED] = True
        if before := self._in_flight.start(request, lease):
            self._finish(request, before)
        where = "memory" if self._requests.held < held else self._where
        self.stats.inc_value(f"scheduler/dequeued/{where}")
        self.stats.inc_value("scheduler/dequeued")
        return request

    def _left(self, request: Any, request_state: RequestState) -> None:
        """A request left the downloader: its queue may go on."""
        try:
            self._landed(request, request_state)
        except Exception as e:
            self._failed(e, f"Cannot land {request}")
        if self._waiting:
            self._schedule()

    def _landed(self, request: Any, request_state: RequestState) -> None:
        if not (request_state.reached or request_state.received) and self._rests(request_state.lease):
            return  # nothing was fetched: its queue needs no rest, as it would have after landing
        self.frontier.landed(request_state.lease, fetch_seconds=request_state.seconds(request))

    def _rests(self, lease: Lease) -> bool:
        settings = self.frontier.settings_for(lease)
        return settings.min_delay > 0 or settings.jitter > 0

    def _land(self) -> None:
        """Finish the leases of the requests that have ended; those that have left the downloader have landed."""
        if self._halted:
            return
        for request, request_state in self._in_flight.ended():
            try:
                self._finish(request, request_state)
            except Exception as e:  # the others have ended, too
                self._failed(e, f"Cannot finish {request}")
        for request, request_state in self._in_flight.landed():
            self._landed(request, request_state)

    def _finish(self, request: Any, request_state: RequestState) -> None:
        outcome = request_state.outcome()
        self.frontier.finish(request_state.lease, outcome, fetch_seconds=request_state.seconds(request))
        self.stats.inc_value(f"budgetfrontier/finished/{outcome.lower()}")

    # -- how much there is

    def has_pending_requests(self) -> bool:
        """Whether a request waits that may go out, now or later: those that are out, or retired, do not count."""
        if self._over:
            return False
        try:
            self._land()
            return len(self) > 0
        except Exception as e:
            self._failed(e, "Cannot tell what is pending")
            return False

    def __len__(self) -> int:
        if self._over:
            return 0
        counted, out = self.frontier.summary(), len(self._in_flight)
        if counted.state in (CrawlState.NEW, CrawlState.FINISHED, CrawlState.TERMINATED):
            return 0
        if self._paused_at_finish():
            return 0
        if out and counted.queues.get(QueueState.RETIRED):  # what is out of those is not among the queued
            out = sum(not self._is_retired(lease.queue) for lease in self._in_flight.leases())
        return max(counted.queued - out, 0) + counted.future

    def _paused_at_finish(self) -> bool:
        frontier = self.frontier
        return frontier.state is CrawlState.PAUSED and frontier.summary().pause_reason == rules.FINISH

    def _is_retired(self, queue: str) -> bool:
        record = self.frontier.queue(queue)
        return record is not None and record.state is QueueState.RETIRED

    @property
    def mqs(self) -> Size:
        """The requests in memory, for Scrapy's telnet console: all of them without a JOBDIR."""
        return Size(self._requests.held if self._folder else len(self))

    @property
    def dqs(self) -> Size | None:
        """The requests on disk, for Scrapy's telnet console; None without a JOBDIR."""
        return Size(max(len(self) - self._requests.held, 0)) if self._folder else None

    # -- time

    def _wake_in(self, delay: float) -> None:
        if slot_of(self.crawler) is not None:
            self._wake.set(delay)

    def _schedule(self) -> None:
        slot = slot_of(self.crawler)
        if slot is not None:
            slot.nextcall.schedule()

    def _tick(self) -> None:
        """Every commit interval: commit, do what the command line has asked for, and wake the engine if need be."""
        if self._over:
            return
        try:
            self._land()
            self.frontier.commit()
            ready = self.frontier.next_ready_in()
            if ready == 0.0 or self.frontier.state is CrawlState.TERMINATED:
                self._schedule()
        except Exception as e:
            self._failed(e, "Cannot commit")
        if not self._over:
            self._clock.set(self._interval)

    # -- what goes wrong

    def _failed(self, error: Exception, what: str) -> None:
        """Log an error. One that has closed the frontier, such as a full disk, closes the spider, once.

        So does a policy that fails. From then on nothing is finished: what a callback yields, and the policy failed on,
        comes again with the page that it was found on.
        """
        if self._over or self._halted:
            return
        extra = {"spider": self.spider}
        if isinstance(error, PolicyError):
            log.error("%s: %s; what is in flight is fetched again in the next run", what, error, extra=extra)
            self._halted = True
            self._closing.ask("policy_error")
            return
        if not self._is_closed():
            log.error("%s: %s", what, error, exc_info=error, extra=extra)
            return
        full = isinstance(error, StorageFull)
        log.error("%s: %s", what, error, exc_info=None if full else error, extra=extra)
        self._over = True
        self._closing.ask("disk_full" if full else "frontier_error")

    def _is_closed(self) -> bool:
        try:
            self.frontier.summary()
        except FrontierError as e:
            return isinstance(e, FrontierClosed)  # or a call from another thread
        return False
