"""The scheduler of a spider that takes its requests from a message bus, and reports its results there.

It has the interface of the other schedulers. Requests of the feed are fetched under leases of a database worker: a
lease ends with the last of its retries and redirects, which stay in this process. Links and start requests go to the
strategy workers, and come back through the feed.
"""

from __future__ import annotations

import logging
from collections import deque
from functools import partial
from itertools import count
from time import monotonic
from typing import Any

import msgspec
from scrapy import signals

from budgetfrontier.bus import request_meta
from budgetfrontier.bus.connect import connect, shown
from budgetfrontier.bus.counters import BusCounters
from budgetfrontier.bus.messages import BadMessage, Request, RequestError
from budgetfrontier.core.model import CrawlUri, Lease
from budgetfrontier.errors import InvalidUrl
from budgetfrontier.scrapy import download_slots
from budgetfrontier.scrapy.bus.bus_threads import Fed, FeedReader, LogSender
from budgetfrontier.scrapy.bus.message_conversion import PAGE, Unsendable, bus_request, scrapy_request
from budgetfrontier.scrapy.bus.options import bus_options
from budgetfrontier.scrapy.bus.pages_in_progress import HEAVY, Pages
from budgetfrontier.scrapy.bus.report_batching import Reports
from budgetfrontier.scrapy.conversion import STARTED, InvalidMeta
from budgetfrontier.scrapy.in_flight import InFlight, RequestState, referer
from budgetfrontier.scrapy.intake import Dupefilter, SeenUrls
from budgetfrontier.scrapy.remote.request_seals import OtherKey
from budgetfrontier.scrapy.scrapy_engine import CLOSE_WITHIN, TICK, ScrapyEngine
from budgetfrontier.scrapy.seals import RequestLost
from budgetfrontier.scrapy.serialization import Serializer
from budgetfrontier.scrapy.stats import Size, count_request

MOST_WAITING = 10_000
"""Messages that the broker does not have, from which on no more pages are fetched."""
MOST_GATHERED = 1000
"""Links, start requests and results that are gathered before they are sent."""

log = logging.getLogger(__name__)


class BusScheduler:
    """The scheduler of `BUDGETFRONTIER_BUS = "redis://..."`. `len()` is the number of requests in this process."""

    def __init__(self, crawler: Any) -> None:
        self.crawler = crawler
        self.stats = crawler.stats
        self._dupefilter = Dupefilter(crawler)
        self.df = self._dupefilter.filter
        self._engine = ScrapyEngine(crawler, self._tick)
        self._closed = True
        self._stopped = False
        self._warned: set[str] = set()

    # -- opening and closing

    def open(self, spider: Any) -> Any:
        """Begin to read the feed; the broker may be started later.

        Raises WrongAddress, SettingsError and MissingExtra.
        """
        self.spider = spider
        self._log = logging.LoggerAdapter(log, {"spider": spider})
        self._options = options = bus_options(self.crawler.settings, spider)
        connect(options.url).close()  # raises what is wrong with the URL here
        self._in_flight = InFlight(self.crawler, lambda request, state: None)
        self._serializer = Serializer(spider, seal=options.seal, durable=True)
        self._reports = Reports(options.codec, options.streams.spider_log.partitions)
        self._pages = Pages(store_content=options.store_content)
        self.crawler.signals.connect(self._pages.received, signal=signals.response_received)
        self._elsewhere: dict[str, Request] = {}
        self._local: deque[Any] = deque()
        self._seen = SeenUrls(self._dupefilter)
        self._numbers = count(1)
        self._job = 0
        self._last_work = monotonic()
        self._next_statistics = monotonic() + options.statistics_every
        self._engine.attach()
        wake = partial(self._engine.post, self._on_news)
        self._sender = LogSender(partial(connect, options.url), options.streams, options.codec, wake=wake)
        self._reader = FeedReader(
            partial(connect, options.url),
            options.streams,
            options.codec,
            partitions=options.partitions,
            prefetch=options.prefetch,
            wake=wake,
        )
        self._closed = False
        if self._engine.is_running:
            self._engine.tick_in(TICK)
            self._engine.hold_back_start(lambda: not self._closed and self._sender.waiting > MOST_WAITING)
        which = f"partition {options.partitions[0]}" if options.partitions else "a share"
        where = options.streams.spider_feed.name, shown(options.url)
        self._log.info("Reading %s of %s at %s", which, *where)
        return self.df.open()

    def close(self, reason: str) -> Any:
        """Report the requests that have ended, and leave the bus. Return a Deferred if Scrapy's engine runs."""
        if self._closed:
            return self.df.close(reason)
        self._engine.stop_timers()
        if self._engine.is_running:
            self._finish_ended()
        self._send_reports()
        self._tell_statistics()
        self._closed = True
        within = 1.0 if self._sender.away or self._reader.away else CLOSE_WITHIN
        return self._engine.leave(
            lambda: self._reader.close(within) & self._sender.close(within), partial(self._left, reason)
        )

    def _left(self, reason: str, whole: bool) -> Any:
        if lost := sum(PAGE not in request.meta for request in self._local):
            self._log.warning("Requests that could not be sent are lost: %d", lost)
        if not whole:
            self._log.warning(
                "The message bus did not take everything: what was not reported is fetched again when its leases "
                "expire, and start requests that were not sent are lost"
            )
        return self.df.close(reason)

    # -- requests in

    def enqueue_request(self, request: Any) -> bool:
        """Send a link or a start request to the workers; keep a retry or a redirect in this process. Raises nothing.

        Return False for one that is known to be a duplicate, or refused.
        """
        if self._closed or self._stopped:
            return False
        try:
            return self._enqueue(request)
        except (InvalidUrl, InvalidMeta, BadMessage) as e:
            self.stats.inc_value("budgetfrontier/refused")
            self._log.warning("Not scheduled: %s: %s", request, e)
        except Exception:
            self._log.exception("Cannot enqueue %s", request)
        return False

    def _enqueue(self, request: Any) -> bool:
        if self._pages.take(request):
            self._add_local(request)
            return True
        filtered = not request.dont_filter
        if self._dupefilter.stops(request) or request in self._seen:
            self._dupefilter.log(request)
            return False
        is_start = bool(request.meta.get("is_start_request")) and STARTED not in request.meta
        download_slots.take_own(request)
        try:
            force = not is_start and not (filtered and self._dupefilter.own)
            sent = bus_request(request, self._serializer, force=force)
        except Unsendable as e:
            return self._keep(request, str(e))
        self._seen.add(request)
        if is_start:
            self._reports.add_seed(sent)
        else:
            self._reports.add_link(self._page_of(request), sent)
        if len(self._reports) >= MOST_GATHERED:
            self._send_reports()
        count_request(self.stats, "enqueued", "bus")
        return True

    def _page_of(self, link: Any) -> Request:
        """Return the request of the page that a link was found on, as its Referer says; else one that only says that.

        Scrapy does not tell a scheduler on which page a request was found.
        """
        found_on = referer(link)
        if (page := self._pages.find(found_on)) is not None:
            return page
        depth = link.meta.get("depth")
        meta = {request_meta.JOB: self._job, request_meta.DEPTH: max(0, depth - 1) if type(depth) is int else 0}
        return self._elsewhere.setdefault(f"{depth} {found_on}", Request(found_on, meta=meta))

    def _keep(self, request: Any, reason: str) -> bool:
        """Keep a request in this process that cannot be sent."""
        if not request.dont_filter and self._dupefilter.own and self.df.request_seen(request):
            self._dupefilter.log(request)
            return False
        self.stats.inc_value("scheduler/unserializable")
        if "kept" not in self._warned:
            self._warned.add("kept")
            self._log.warning(
                "Unable to send request: %s - reason: %s - it stays with this process, outside of the frontier, and is "
                "lost when that ends - no more such requests will be logged (stats being collected)",
                request,
                reason,
            )
        self._add_local(request)
        return True

    def _add_local(self, request: Any) -> None:
        self._local.append(request)
        count_request(self.stats, "enqueued", "memory")

    # -- requests out

    def next_request(self) -> Any:
        """Return the next request; None if none is here, and wake the engine once one is. Raises nothing."""
        if self._closed or self._stopped:
            return None
        try:
            self._finish_ended()
            if self._sender.waiting > MOST_WAITING:
                return None
            if self._local:
                return self._hand_out(self._local.popleft(), "memory")
            return self._engine.first_of(lambda: None if self._stopped else self._reader.take(), self._load_request)
        except Exception:
            self._log.exception("Cannot take the next request")
        return None

    def _load_request(self, fed: Fed) -> Any:
        """Return the request of Scrapy for one of the feed. If it cannot be restored, report that, and return None."""
        try:
            request = scrapy_request(fed.request, self._serializer)
        except OtherKey as e:
            self._log.error("Cannot run %s: %s", fed.request.url, e)
            self._stop("other_key")
            return None
        except RequestLost as e:
            self._log.error("Dead letter: %s: %s", fed.request.url, e)
            self.stats.inc_value("budgetfrontier/dead_letters")
            reported = msgspec.structs.replace(fed.request, meta=request_meta.without(fed.request, HEAVY))
            self._reports.add_result(RequestError(reported, f"RequestLost: {e}"))
            return None
        self._job = request_meta.job_of(fed.request.meta)
        if request.meta.get("is_start_request"):
            request.meta[STARTED] = True
        self._pages.begin(fed.request, next(self._numbers), request)
        return self._hand_out(request, "bus")

    def _hand_out(self, request: Any, storage: str) -> Any:
        number = request.meta.get(PAGE) or next(self._numbers)
        lease = Lease(number, "", CrawlUri(request.url), 0, 0.0, 1)
        if before := self._in_flight.start(request, lease):
            self._finish(request, before)
        count_request(self.stats, "dequeued", storage)
        return request

    def _finish_ended(self) -> None:
        """Report the requests that have ended, after the links that were found on them."""
        for request, state in self._in_flight.ended():
            self._finish(request, state)
        self._send_reports()

    def _finish(self, request: Any, state: RequestState) -> None:
        self._last_work = monotonic()
        result = self._pages.ended(request, state)
        if result is not None:
            self._reports.add_result(result)
            self.stats.inc_value(f"budgetfrontier/finished/{state.outcome().lower()}")

    def _send_reports(self) -> None:
        self._elsewhere.clear()
        if not self._reports:
            return
        items, errors = self._reports.taken()
        if errors:
            self.stats.inc_value("budgetfrontier/unsendable", len(errors))
            if "unsendable" not in self._warned:
                self._warned.add("unsendable")
                self._log.error(
                    "A message cannot be sent as it is: %s - a page is reported without its content, links are lost - "
                    "no more such messages will be logged (stats being collected)",
                    errors[0],
                )
        self._sender.send(items)

    # -- sizes

    def has_pending_requests(self) -> bool:
        """Return whether the spider is to stay open."""
        if self._closed:
            return False
        self._finish_ended()
        since, limit = monotonic() - self._last_work, self._options.idle_before_close
        away = self._sender.away or self._reader.away
        if len(self) or self._in_flight or (self._sender.waiting and not away) or since < limit:
            self._engine.wake_in(max(limit - since, TICK))
            return True
        self._log.info("No request for %.0f s (BUDGETFRONTIER_IDLE_BEFORE_CLOSE)", since)
        self._engine.close_spider("connection_lost" if away else "idle_before_close")
        return True

    def __len__(self) -> int:
        return 0 if self._closed else len(self._local) + self._reader.ready

    @property
    def mqs(self) -> Size:
        """The requests in this process, for Scrapy's telnet console."""
        return Size(len(self))

    # -- time

    def _on_news(self) -> None:
        if self._closed:
            return
        for part in (self._reader, self._sender):
            if part.failed is not None and not self._stopped:
                self._log.error("The message bus cannot be used: %s", part.failed)
                self._stop("bus_error")
        self._engine.wake()

    def _tick(self) -> None:
        """Report ended requests, also while the engine asks for nothing, and send statistics."""
        if self._closed:
            return
        self._finish_ended()
        if self._options.statistics_every and monotonic() >= self._next_statistics:
            self._next_statistics = monotonic() + self._options.statistics_every
            self._tell_statistics()
        self.stats.set_value("budgetfrontier/feed/expired", self._reader.expired)
        self.stats.set_value("budgetfrontier/feed/delivered_twice", self._reader.twice)
        self._engine.tick_in(TICK)

    def _tell_statistics(self) -> None:
        stats = self.stats.get_stats().items()
        # Others could not be sent: those of more than 64 bits, infinity, NaN.
        found = {name: each for name, each in stats if type(each) in (int, float) and abs(each) < 1 << 63}
        counters = BusCounters("spider", self._options.partitions)
        self._sender.tell(self._options.codec.encode(counters.message(**found)))

    def _stop(self, reason: str) -> None:
        self._stopped = True
        self._engine.close_spider(reason)
