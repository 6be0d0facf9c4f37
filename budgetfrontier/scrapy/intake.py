"""Requests on their way into a frontier: known duplicates are dropped at once, the others become URIs."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from msgspec.structs import replace
from scrapy.dupefilters import RFPDupeFilter
from scrapy.utils.misc import build_from_crawler, load_object

from budgetfrontier.core.bounded_cache import BoundedCache
from budgetfrontier.core.model import Admission, CrawlUri
from budgetfrontier.scrapy import download_slots, options
from budgetfrontier.scrapy.conversion import BUDGET, QUEUE, STARTED, address, crawl_uri
from budgetfrontier.scrapy.order import PriorityMapping
from budgetfrontier.scrapy.serialization import Serializer, start_method

MAX_SEEN_URLS = 1 << 15  # URLs remembered in memory that are known to have been scheduled


class Dupefilter:
    """The dupefilter of a crawler. With `own`, the frontier finds the duplicates, and this only logs and counts them.

    Otherwise the project has set one: it decides, and the frontier takes all that it passes.
    """

    def __init__(self, crawler: Any) -> None:
        self.own = options.own_dupefilter(crawler.settings)
        self._crawler = crawler
        if self.own:
            debug = crawler.settings.getbool("DUPEFILTER_DEBUG")
            self.filter = RFPDupeFilter(None, debug, fingerprinter=crawler.request_fingerprinter)
        else:
            self.filter = build_from_crawler(load_object(crawler.settings["DUPEFILTER_CLASS"]), crawler)

    def stops(self, request: Any) -> bool:
        """Return whether the dupefilter of the project knows a request."""
        return not self.own and not request.dont_filter and self.filter.request_seen(request)

    def log(self, request: Any) -> None:
        """Log and count a duplicate."""
        self.filter.log(request, self._crawler.spider)


class SeenUrls:
    """The URLs that were scheduled lately: most links of a page are among them, and need not be serialized."""

    def __init__(self, dupefilter: Dupefilter) -> None:
        self._own_dupefilter = dupefilter.own
        self._urls: BoundedCache[str, None] = BoundedCache(MAX_SEEN_URLS)

    def __contains__(self, request: Any) -> bool:
        return request.url in self._urls and self._is_plain(request)

    def add(self, request: Any) -> None:
        """Add the URL of a request, if that alone decides whether another is a duplicate."""
        if self._is_plain(request):
            self._urls.put(request.url, None)

    def clear(self) -> None:
        """Forget all: an operator may have had the frontier forget some."""
        self._urls.clear()

    def _is_plain(self, request: Any) -> bool:
        if BUDGET in request.meta:  # which counts for duplicates, too
            return False
        return self._own_dupefilter and not request.dont_filter and request.method == "GET" and not request.body


class Candidate(NamedTuple):
    """A request, and the URI to schedule for it."""

    request: Any
    uri: CrawlUri
    is_start: bool
    """Whether it is a start request, which is deduplicated apart from all others."""
    reason: str
    """The reason why it cannot be stored, "" if it can."""
    has_host: bool
    """Whether the frontier has it under its own URL."""


def refusal(admission: Admission) -> str:
    """Return why the frontier has refused a request, for the log."""
    return "the frontier is full" if admission is Admission.FULL else "the frontier cannot keep it"


class StartIdentity(Protocol):
    """A function that distinguishes a start request from others of the same URL."""

    def __call__(self, request: Any, /, *, storable: bool) -> str:
        """Return the identity of a request; it is called once for each."""


class Intake:
    """A converter of the requests of one spider."""

    def __init__(
        self,
        dupefilter: Dupefilter,
        serializer: Serializer,
        priorities: PriorityMapping,
        *,
        one_queue: bool,
        start_identity: StartIdentity | None = None,
    ) -> None:
        """Take `one_queue` for a frontier with a single queue, where requests have no queue of their own.

        Without `start_identity`, start requests of one URL, method and body are the same one.
        """
        self._own_dupefilter = dupefilter.own
        self._serializer, self._priorities = serializer, priorities
        self._one_queue = one_queue
        self._start_identity = start_identity
        self.seen = SeenUrls(dupefilter)
        """What the frontier is known to have."""

    def convert(self, request: Any) -> Candidate:
        """Return the candidate of a request, with `force` if it must not be compared with others.

        `settle` has to follow. Raises InvalidUrl and InvalidMeta.
        """
        filtered = not request.dont_filter
        url, scheme_queue = address(request.url)
        slot = download_slots.take_own(request)
        queue = request.meta.get(QUEUE) or (None if self._one_queue else slot or scheme_queue)
        is_start = not filtered and bool(request.meta.get("is_start_request")) and STARTED not in request.meta
        payload, reason = self._serializer.store(request, url)
        priority, method = self._priorities.priority(request), request.method
        if is_start:  # so that a resumed crawl does not repeat its start requests
            identity = self._start_identity(request, storable=not reason) if self._start_identity else ""
            method = start_method(method, identity)
        try:
            uri = crawl_uri(request, url, queue=queue, payload=payload, priority=priority, method=method)
        except BaseException:
            self._forget(request, payload)
            raise
        uri = replace(uri, force=not is_start and not (filtered and self._own_dupefilter))
        return Candidate(request, uri, is_start, reason, scheme_queue is None)

    def settle(self, candidate: Candidate, admission: Admission | None) -> None:
        """Note the admission of a candidate; None: it could not be scheduled."""
        if admission is not Admission.ADDED:
            self._forget(candidate.request, candidate.uri.payload)
        if candidate.has_host and admission in (Admission.ADDED, Admission.DUPLICATE):
            self.seen.add(candidate.request)

    def _forget(self, request: Any, payload: bytes | None) -> None:
        self._serializer.forget(payload or b"")
        self._priorities.remove(request)
