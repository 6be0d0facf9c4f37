"""The scheduler of a spider that shares a frontier with other processes.

It has the interface and the rules of the scheduler with a frontier of its own. Answers of the server come later,
from the courier: until then a request counts as enqueued, and a lease as finished.
"""

from __future__ import annotations

from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

import msgspec
from scrapy import signals

from budgetfrontier import connections
from budgetfrontier.core.leasing_ahead import SILENT
from budgetfrontier.core.model import Admission, CrawlState, Finish, Lease, Outcome, QueueState
from budgetfrontier.errors import ConnectionLost, FrontierError, InvalidUrl, PolicyError
from budgetfrontier.scrapy.conversion import STARTED, InvalidMeta, wanted_budget
from budgetfrontier.scrapy.in_flight import InFlight, RequestState
from budgetfrontier.scrapy.intake import Candidate, Dupefilter, Intake, refusal
from budgetfrontier.scrapy.order import PriorityMapping, RequestOrder, order
from budgetfrontier.scrapy.remote.announcements import Announcements
from budgetfrontier.scrapy.remote.courier import Courier
from budgetfrontier.scrapy.remote.options import URL, SharedOptions, check_order, has_one_queue, shared_options
from budgetfrontier.scrapy.remote.pace import Pace
from budgetfrontier.scrapy.remote.request_seals import OtherKey
from budgetfrontier.scrapy.remote.start_requests import StartRequests
from budgetfrontier.scrapy.remote.staying import Stay, stay
from budgetfrontier.scrapy.remote.unstorable_requests import KeptRequests
from budgetfrontier.scrapy.scrapy_engine import CLOSE_WITHIN, TICK, ScrapyEngine
from budgetfrontier.scrapy.seals import RequestLost
from budgetfrontier.scrapy.serialization import Serializer
from budgetfrontier.scrapy.stats import Size, count_request

if TYPE_CHECKING:
    from budgetfrontier.connections import Connection

CONNECT_WITHIN = 30.0
"""Seconds for which a spider that is opened tries to reach the server."""


def _connect(options: SharedOptions) -> Connection:
    """Connect to the server, or the workers. Raises what `connections.connect` raises."""
    return connections.connect(
        options.address, crawl=options.crawl, token=options.token, tls=options.tls, retry_for=CONNECT_WITHIN
    )


def _close_reason(error: FrontierError) -> str:
    """Return the reason with which an error closes a spider."""
    if isinstance(error, ConnectionLost):
        return "connection_lost"
    return "policy_error" if isinstance(error, PolicyError) else "frontier_error"


class SharedScheduler:
    """The scheduler of `BUDGETFRONTIER_URL = "HOST:PORT"`: all processes with the same crawl share one frontier.

    With "kafka://HOST:PORT/CRAWL", it is a crawl in partitions, and what is said of the server holds for its workers.
    `frontier` is the RemoteFrontier or ClusterFrontier, from `open` to `close`: everybody's, and its calls wait for the
    server. `len()` is the number of requests that wait in it, those of other processes too, as of the last look.
    """

    frontier: Connection

    def __init__(self, crawler: Any) -> None:
        self.crawler = crawler
        self.stats = crawler.stats
        self._dupefilter = Dupefilter(crawler)
        self.df = self._dupefilter.filter
        self._engine = ScrapyEngine(crawler, self._tick)
        self._closed = True
        self._given_up = False  # the spider is closed, perhaps before it was opened
        self._unopened = ""
        """Why the spider is to be closed though it was not opened, "" if it was."""
        self._duplicates = 0
        self._was_useful = False
        """Whether this process has made a request that was new, or was given one."""
        self._failed_for_good = False

    # -- opening and closing

    def open(self, spider: Any) -> Any:
        """Connect to the server. Return a Deferred if Scrapy's engine runs.

        An error is logged then, and closes the spider. Otherwise raises SettingsError, MissingExtra, WrongCredentials,
        ConnectionLost if the server does not answer, and what `Frontier.open` raises.
        """
        self.spider = spider
        self._says = Announcements(spider)
        if not self._engine.is_running:
            wanted_order = self._read_options()
            self._connected(_connect(self._options), wanted_order)
            return self.df.open()
        self._engine.attach()
        try:
            wanted_order = self._read_options()
        except FrontierError as e:
            self._not_opened(e)
            return self.df.open()
        self._says.connecting(self._options, CONNECT_WITHIN)
        connecting = self._engine.in_thread(lambda: _connect(self._options), "connect")
        connecting.addCallback(lambda frontier: self._connected(frontier, wanted_order))
        connecting.addErrback(lambda failure: self._not_opened(failure.value, failure))
        connecting.addCallback(lambda _: self.df.open())
        return connecting

    def _read_options(self) -> RequestOrder:
        connections.needed(str(self.crawler.settings.get(URL)))
        self._options = shared_options(self.crawler.settings, self.spider)
        return order(self.crawler.settings)

    def _not_opened(self, error: BaseException, failure: Any = None) -> Any:
        """Log why the frontier cannot be used, and let the spider be closed once it is open.

        An error that is none of the frontier's is passed on: its `failure` is returned.
        """
        if not isinstance(error, FrontierError):
            return failure
        self._says.not_opened(error)
        self._unopened = _close_reason(error)
        self._engine.skip_start()
        return None

    def _connected(self, frontier: Connection, wanted_order: Any) -> None:
        if self._given_up:
            frontier.close()
            return
        options, settings = self._options, frontier.settings
        one_queue = has_one_queue(settings)
        try:
            check_order(wanted_order, settings, one_queue=one_queue)
        except FrontierError:
            frontier.close()
            raise
        frontier.retry_for = 1e9
        self.frontier = frontier
        self._in_flight = InFlight(self.crawler, self._on_fetched)
        self._serializer = Serializer(self.spider, seal=options.seal, durable=True)
        self._priorities = PriorityMapping(start=wanted_order.start, lifo=settings.frontier.order == "lifo")
        self._intake = Intake(
            self._dupefilter,
            self._serializer,
            self._priorities,
            one_queue=one_queue,
            start_identity=StartRequests().identity,
        )
        self._kept = KeptRequests(settings, program=f"scrapy spider {self.spider.name}")
        self._pace = Pace(settings)
        self._closed = False
        self._last_work = monotonic()
        self._courier = Courier(
            frontier,
            prefetch=options.prefetch,
            ttl=options.lease_ttl,
            wake=lambda: self._engine.post(self._on_answers),
            on_late=self._late,
            on_failure=self._cannot_go_on,
        )
        self._says.sharing(options, self._pace.most_at_once, options.job(frontier.folder))
        if self._engine.is_running:
            self._engine.tick_in(TICK)
            self._engine.hold_back_start(lambda: not self._closed and self._courier.is_full)

    def close(self, reason: str) -> Any:
        """Send the ends of requests, give back the leases, and disconnect. Return a Deferred, as `open` does."""
        self._given_up = True
        if self._closed:
            return self.df.close(reason)
        self._engine.stop_timers()
        if self._engine.is_running:
            self._finish_ended()
        self._closed = True
        within = 1.0 if self._courier.silent_for() > SILENT else CLOSE_WITHIN
        return self._engine.leave(lambda: self._courier.close(within), partial(self._disconnected, reason))

    def _disconnected(self, reason: str, all_told: bool) -> Any:
        self._courier.answer()
        lost, summary = self._kept.close(), self._courier.summary
        if summary is not None:
            for name in ("succeeded", "failed", "queued", "in_process", "dead"):
                self.stats.set_value(f"budgetfrontier/crawl/{name}", getattr(summary, name))
            if retired := summary.queues.get(QueueState.RETIRED, 0):
                self.stats.set_value("budgetfrontier/crawl/retired", retired)
                self._says.over_budget(self._options, retired, self._options.job(self.frontier.folder))
            if self._duplicates and not (self._was_useful or summary.queued or summary.future):
                self._says.all_seen(self._options, self._duplicates, summary)
        self._says.closing(self._options, lost=lost, all_told=all_told)
        return self.df.close(reason)

    # -- requests in

    def enqueue_request(self, request: Any) -> bool:
        """Send a request to the server.

        Return False for one that is known to be a duplicate, or refused. Whether the server finds it to be one is
        counted once it answers. Raises nothing.
        """
        if self._closed or self._failed_for_good:
            return False
        try:
            return self._enqueue(request)
        except (InvalidUrl, InvalidMeta) as e:
            self._refuse(request, str(e))
        except Exception as e:
            self._failed(e, f"Cannot enqueue {request}")
        return False

    def _enqueue(self, request: Any) -> bool:
        if self._dupefilter.stops(request) or request in self._intake.seen:
            self._duplicates += 1
            self._dupefilter.log(request)
            return False
        budget = wanted_budget(request)
        candidate = self._intake.convert(request)
        done = partial(self._admitted, candidate)
        self._courier.schedule(candidate.uri, done, budget=budget, kept=bool(candidate.reason))
        return True

    def _admitted(self, candidate: Candidate, admission: Admission) -> None:
        why = ""
        if candidate.reason and admission is Admission.ADDED:
            try:
                admission = self._keep(candidate)
            except FrontierError as e:  # a policy of the server's, for example, which this machine does not have
                admission, why = Admission.INVALID, f"{candidate.reason}; and it cannot be kept here: {e}"
        self._intake.settle(candidate, admission)
        if admission is Admission.ADDED:
            storage = "memory" if candidate.reason else "shared"
            count_request(self.stats, "enqueued", storage)
            self._was_useful = True
        elif admission is Admission.DUPLICATE:
            self._duplicates += 1
            self._dupefilter.log(candidate.request)
            if candidate.is_start:
                self.stats.inc_value("budgetfrontier/made_before")
                self._says.made_before(candidate.request)
        else:
            self._refuse(candidate.request, why or refusal(admission))
        if admission is not Admission.ADDED:
            send = self.crawler.signals.send_catch_log
            send(signals.request_dropped, request=candidate.request, spider=self.spider)

    def _keep(self, candidate: Candidate) -> Admission:
        """Keep a request in this process that cannot be stored. Raises what `Frontier.open` raises."""
        found: Admission = self._kept.add(candidate.uri)
        self.stats.inc_value("scheduler/unserializable")
        self._says.kept(candidate.request, candidate.reason)
        return found

    def _refuse(self, request: Any, reason: str) -> None:
        self.stats.inc_value("budgetfrontier/refused")
        self._says.refused(request, reason)

    # -- requests out

    def next_request(self) -> Any:
        """Return the next request; None if no lease is here, and wake the engine once one is. Raises nothing."""
        if self._unopened:
            self._engine.close_spider(self._unopened)
        if self._closed or self._failed_for_good:
            return None
        try:
            self._finish_ended()
            if not self._courier.is_full:
                return self._engine.first_of(self._next_lease, self._load_request)
        except Exception as e:
            self._failed(e, "Cannot take the next request")
        return None

    def _next_lease(self) -> Lease | None:
        if self._failed_for_good:
            return None
        lease = self._kept.next_lease() or self._courier.next_lease()
        if lease is None and (ready_in := self._kept.ready_in()):
            self._engine.wake_in(ready_in)
        return lease

    def _load_request(self, lease: Lease) -> Any:
        """Return the request of a lease. If it cannot be restored, make the URI a dead letter and return None."""
        try:
            request = self._serializer.load(lease.uri)
        except OtherKey as e:
            self._says.other_key(lease.uri.url, e)
            self._stop("other_key")
            return None
        except RequestLost as e:
            self._says.dead_letter(lease.uri.url, e)
            self.stats.inc_value("budgetfrontier/dead_letters")
            self._finish(Finish(lease, Outcome.DEAD, reason=str(e)), None)
            return None
        self._priorities.remove(request)
        if request.meta.get("is_start_request"):
            request.meta[STARTED] = True
        if before := self._in_flight.start(request, lease):
            self._finish_all([(request, before)])
        storage = "memory" if self._kept.has(lease) else "shared"
        count_request(self.stats, "dequeued", storage)
        self._was_useful = True
        return request

    def _on_fetched(self, request: Any, request_state: RequestState) -> None:
        """Tell the server that a request has left the downloader: its queue may be leased from again."""
        if not self._closed:
            self._mark_landed(request, request_state)

    def _mark_landed(self, request: Any, request_state: RequestState) -> None:
        lease, seconds = request_state.lease, request_state.seconds(request)
        if self._kept.has(lease):
            self._kept.landed(lease, seconds)
        elif (request_state.reached or request_state.received) and not self._pace.rest(request_state, request):
            self._courier.landed(lease, seconds)

    def _finish_ended(self) -> None:
        """Report the requests that have ended, and those that have left the downloader."""
        if ended := self._in_flight.ended():
            self._finish_all(ended)
        for request, request_state in self._in_flight.landed():
            self._mark_landed(request, request_state)

    def _finish_all(self, ended: list[tuple[Any, RequestState]]) -> None:
        self._last_work = monotonic()
        for request, state in ended:
            ending = state.ending(request)
            if rest := self._pace.rest(state, request):
                ending = ending if isinstance(ending, Finish) else Finish(ending)
                ending = msgspec.structs.replace(ending, delay=rest)
            self._finish(ending, state.outcome())

    def _finish(self, ending: Lease | Finish, outcome: Outcome | None) -> None:
        if self._kept.has(ending.lease if isinstance(ending, Finish) else ending):
            self._kept.finish(ending)
            self._count_finished(outcome)
        else:
            self._courier.finish(ending, partial(self._count_finished, outcome))

    def _count_finished(self, outcome: Outcome | None) -> None:
        if outcome is not None:
            self.stats.inc_value(f"budgetfrontier/finished/{outcome.lower()}")

    # -- answers

    def _on_answers(self) -> None:
        """Take the answers of the server, and let the engine look for requests."""
        if not self._closed:
            self._courier.answer()
            self._engine.wake()

    def _late(self, lease: Lease) -> None:
        self.stats.inc_value("budgetfrontier/late")
        self._says.late(lease.uri.url)

    def _cannot_go_on(self, error: Exception) -> None:
        self._failed(error, "The shared frontier cannot go on")
        self._stop("frontier_error")

    # -- sizes

    def has_pending_requests(self) -> bool:
        """Return whether the spider is to stay open: see `staying`."""
        if self._closed:
            return bool(self._unopened)  # which is its reason to be closed, and not that it has finished
        try:
            self._finish_ended()
            return self._stays()
        except Exception as e:
            self._failed(e, "Cannot tell what is pending")
            return False

    def _stays(self) -> bool:
        courier, limit = self._courier, self._options.idle_before_close
        since = monotonic() - max(courier.last_lease, self._last_work)
        found = stay(
            at_hand=bool(courier.waiting or courier.ready or self._in_flight or len(self._kept)),
            left=courier.left,
            since=since,
            limit=limit,
            away=courier.silent_for() > SILENT,
        )
        if found is Stay.WAIT:
            if since < limit:
                self._engine.wake_in(limit - since)
            return True
        if found is Stay.IDLE:
            assert courier.summary is not None
            self._says.idle(since, courier.summary)
            self._engine.close_spider("idle_before_close")
        elif found is Stay.AWAY:
            self._engine.close_spider("connection_lost")
        return found is not Stay.DONE

    def __len__(self) -> int:
        summary = None if self._closed else self._courier.summary
        return 0 if summary is None else summary.queued - summary.in_process + summary.future

    @property
    def mqs(self) -> Size:
        """The requests in this process, for Scrapy's telnet console."""
        return Size(0 if self._closed else self._courier.ready + len(self._kept))

    @property
    def dqs(self) -> Size:
        """The requests in the shared frontier, for Scrapy's telnet console."""
        return Size(len(self))

    # -- time

    def _tick(self) -> None:
        """Report ended requests; log once when the server stops answering, and when it answers again."""
        if self._closed:
            return
        try:
            self._finish_ended()
            self._look_after_server()
        except Exception as e:
            self._failed(e, "Cannot tell the server")
        if not self._closed:
            self._engine.tick_in(TICK)

    def _look_after_server(self) -> None:
        away = self._courier.silent_for() > SILENT
        self._says.answers(self._options, not away, SILENT)
        summary = self._courier.summary
        if summary is not None and summary.state is CrawlState.TERMINATED:
            self._engine.close_spider("terminated")

    # -- errors

    def _failed(self, error: Exception, what: str) -> None:
        """Log an error, and close the spider, once, if it is one of the frontier's."""
        if self._failed_for_good or isinstance(error, ConnectionLost):
            return
        self._says.failed(error, what)
        if isinstance(error, FrontierError):
            self._stop(_close_reason(error))

    def _stop(self, reason: str) -> None:
        """Take nothing more, and close the spider: its leases are given back."""
        self._failed_for_good = True
        self._engine.close_spider(reason)
