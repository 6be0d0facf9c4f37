"""Requests in flight: the state of each, and the outcome that it ends with.

No single signal of Scrapy covers every way in which a request can end. A request has ended when it has left the
engine's set of requests in progress, after its callback; the signals are only used to find the outcome. A request has
landed, that is, its download is over, when the signal says so or when it has left the downloader's set: middlewares,
callbacks and pipelines may still be working on it, but its host is free for the next request.

| how a request ends | outcome |
| --- | --- |
| a response for the spider, below 500; its callback raised; from the cache | SUCCESS |
| a response for the spider, 500 or above, when no retry is left | FAILURE |
| a redirect, or another response below 400 that a middleware answered with a new request | SUCCESS |
| a 408, a 429, a 503 that is retried | FAILURE |
| no response: the connection failed, or timed out | FAILURE |
| it never reached the downloader: IgnoreRequest (robots.txt), or a middleware returned a new request | DISREGARDED |

After a 429 or 503 of the host itself, its queue rests as `frontier.backoff` says, or as long as its Retry-After.

A retry of a request, or the request that it is redirected to, is a request of its own, with its own cost, on the queue
of its own host.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, time
from typing import Any

from scrapy import signals
from xxhash import xxh3_64_digest

from budgetfrontier.core.model import Finish, Lease, Outcome
from budgetfrontier.engine.finish import ROBOTS
from budgetfrontier.errors import FrontierError
from budgetfrontier.rules import backoff
from budgetfrontier.rules.error_kinds import status_kind
from budgetfrontier.scrapy import download_slots

NOT_MODIFIED = 304
LONGEST_REASON = 200
_FORBIDDEN = "Forbidden by robots.txt"
"""The message of the IgnoreRequest of Scrapy's middleware for robots.txt."""
_COUNTERS = ("retry_times", "redirect_times")


class RequestState:
    """The state of one request in flight."""

    __slots__ = (
        "added", "address", "digest", "error", "landed_at", "lease", "links", "not_modified", "own_slot", "reached",
        "received", "retry_after", "same_queue", "size", "status", "url",
    )  # fmt: skip

    def __init__(self, lease: Lease, *, own_slot: bool) -> None:
        self.lease = lease
        self.own_slot = own_slot
        """Whether the spider has set its download slot."""
        self.landed_at: float | None = None
        """When it has left the downloader (`time.monotonic`)."""
        self.reached = False
        """Whether it has reached the downloader."""
        self.received = False
        """Whether a response has reached the spider."""
        self.size = 0
        """The bytes of the body that was downloaded for it, 0 before."""
        self.status = 0
        """The HTTP status of its last response, 0 before."""
        self.not_modified = False
        """Whether its last response from the server was a 304."""
        self.digest = b""
        """A hash of the content of that response, b"" before."""
        self.address = ""
        """The IP address of the server, "" before."""
        self.retry_after: float | None = None
        """The seconds for which an overloaded host asks to be left alone, if it was asked and says so."""
        self.error: Exception | None = None
        """The exception that ended its download."""
        self.url = ""
        """The URL of the response that has reached the spider, "" before."""
        self.links = self.added = self.same_queue = 0
        """The requests that its callback has made, those of them that were added, and of these in its queue."""

    def seconds(self, request: Any) -> float | None:
        """Return how long the fetch took; None if nothing was fetched."""
        latency = request.meta.get("download_latency") if self.status and self.reached else None
        return latency if isinstance(latency, float) and latency >= 0 else None

    def outcome(self) -> Outcome:
        """Return the outcome of the request, by the table above."""
        if self.received:
            return Outcome.SUCCESS if self.status < 500 else Outcome.FAILURE
        if self.status:
            return Outcome.SUCCESS if self.status < 400 else Outcome.FAILURE
        return Outcome.FAILURE if self.reached else Outcome.DISREGARDED

    @property
    def is_forbidden(self) -> bool:
        """Whether robots.txt forbids it."""
        return str(self.error) == _FORBIDDEN

    def reason(self) -> str:
        """Return why the request failed, or that robots.txt forbids it; otherwise ""."""
        outcome, error = self.outcome(), self.error
        if outcome is Outcome.SUCCESS:
            return ""
        if outcome is Outcome.DISREGARDED:
            return ROBOTS if self.is_forbidden else ""
        if self.status:
            return status_kind(self.status)
        text = "no response" if error is None else f"{type(error).__name__}: {error}"
        return text[:LONGEST_REASON].encode("utf-8", "replace").decode()

    def count_link(self, queue: str | None) -> None:
        """Count a request that its callback has made; `queue` is that to which it was added, None if it was not."""
        self.links += 1
        self.added += queue is not None
        self.same_queue += queue == self.lease.queue

    def novel(self) -> bool | None:
        """Return False for a response that came from the cache, or was unchanged since; None: not known."""
        return False if self.not_modified or (self.received and not self.reached) else None

    def ending(self, request: Any) -> Lease | Finish:
        """Return the end of the lease: the lease itself for a success without further values."""
        outcome, seconds = self.outcome(), None if self.lease.landed else self.seconds(request)
        novel = self.novel()
        status = self.status if self.reached else 0  # a cached response says nothing about the host
        if outcome is Outcome.SUCCESS and seconds is None and not self.size and novel is None and not status:
            return self.lease
        return Finish(
            self.lease,
            outcome,
            fetch_seconds=seconds,
            reason=self.reason(),
            size=self.size,
            status=status,
            delay=self.retry_after,
            novel=novel,
            address=self.address,
            digest=self.digest,
        )


class InFlight:
    """Requests in flight, keyed by the object itself, because retries and redirects inherit `meta`."""

    def __init__(self, crawler: Any, on_fetched: Callable[[Any, RequestState], None]) -> None:
        """Track requests; `on_fetched` is called with each that leaves the downloader, and its state."""
        self._crawler, self._on_fetched = crawler, on_fetched
        self._states: dict[Any, RequestState] = {}
        self._downloading: set[Any] = set()
        self._pages: dict[str, Any] = {}
        """Requests whose callbacks may run, by the URLs of their responses."""
        _check_engine_slot(crawler)
        middleware = getattr(getattr(engine_of(crawler), "downloader", None), "middleware", None)
        if middleware is not None:  # a DOWNLOADER of the project may have none: then errors have no text
            middleware.methods["process_exception"].appendleft(self._download_failed)
        for signal, receiver in (
            (signals.request_reached_downloader, self._reached_downloader),
            (signals.response_downloaded, self._downloaded),
            (signals.request_left_downloader, self._left_downloader),
            (signals.response_received, self._received),
        ):
            crawler.signals.connect(receiver, signal=signal)

    def __len__(self) -> int:
        return len(self._states)

    def start(self, request: Any, lease: Lease) -> RequestState | None:
        """Add a request. Return its previous state if the same object is in flight already."""
        before = self._states.get(request)
        self._downloading.add(request)
        self._states[request] = RequestState(lease, own_slot=download_slots.SLOT in request.meta)
        return before

    def landed(self) -> list[tuple[Any, RequestState]]:
        """Return the requests that have left the downloader without a signal; they stay in flight.

        A response from the cache and an IgnoreRequest of a middleware send none. O(requests in the downloader).
        """
        downloader = getattr(engine_of(self._crawler), "downloader", None) if self._downloading else None
        landed = self._downloading.difference(downloader.active) if downloader is not None else ()
        self._downloading.difference_update(landed)
        found = [(request, self._states[request]) for request in landed]
        for _, state in found:
            state.landed_at = monotonic()
        return found

    def ended(self) -> list[tuple[Any, RequestState]]:
        """Remove and return the requests that have ended, in the order in which they were handed out.

        O(requests in flight).
        """
        slot = slot_of(self._crawler)
        ended = self._states.keys() - (slot.inprogress if slot is not None else ())
        self._downloading.difference_update(ended)
        states = sorted(((request, self._states.pop(request)) for request in ended), key=_lease_id)
        for request, state in states:
            if self._pages.get(state.url) is request:
                del self._pages[state.url]
        return states

    def page_of(self, request: Any) -> RequestState | None:
        """Return the state of the page on which a request was found; None if that is not known.

        Scrapy tells a scheduler by the Referer alone. A retry or a redirect of a link is none.
        """
        page = self._pages.get(referer(request)) if self._pages else None
        return None if page is None or continues(request, page) else self._states.get(page)

    def _reached_downloader(self, request: Any) -> None:
        state = self._states.get(request)
        download_slots.record(request, own=None if state is None else state.own_slot)
        if state is not None:
            state.reached = True

    def _downloaded(self, response: Any, request: Any) -> None:
        if state := self._states.get(request):
            state.status = response.status
            state.size = len(response.body)
            state.digest = xxh3_64_digest(response.body) if response.body else b""
            state.not_modified = response.status == NOT_MODIFIED
            state.address = str(response.ip_address or "")
            if response.status in backoff.OVERLOADED:
                said = (response.headers.get("Retry-After") or b"").decode("latin-1")
                state.retry_after = backoff.retry_after(said, time())

    def _left_downloader(self, request: Any) -> None:
        if request in self._downloading:
            self._downloading.discard(request)
            self._states[request].landed_at = monotonic()
            self._on_fetched(request, self._states[request])

    def _received(self, response: Any, request: Any) -> None:
        if state := self._states.get(request):
            state.status, state.received, state.url = response.status, True, response.url
            self._pages[response.url] = request

    def _download_failed(self, request: Any, exception: Exception, **_: Any) -> None:
        if state := self._states.get(request):
            state.error = exception


def _lease_id(ended: tuple[Any, RequestState]) -> int:
    return ended[1].lease.id


def referer(request: Any) -> str:
    """Return the Referer of a request; "" without one, and where the spider has set it to None, to send none."""
    value: bytes = request.headers.get("Referer") or b""
    return value.decode("utf-8", "replace")


def continues(request: Any, before: Any) -> bool:
    """Tell whether a request is a retry or a redirect of the one before, and no link that has copied its meta."""
    return any(_counter(request, name) > _counter(before, name) for name in _COUNTERS)


def _counter(request: Any, name: str) -> int:
    value = request.meta.get(name)
    return value if isinstance(value, int) else 0  # a spider may set it to anything


def slot_of(crawler: Any) -> Any:
    """Return the engine's slot, with the requests in progress and the next call of the loop; None outside a crawl."""
    return getattr(engine_of(crawler), "_slot", None)


def engine_of(crawler: Any) -> Any:
    """Return the engine of a crawler; None outside a crawl."""
    try:
        return crawler.engine
    except RuntimeError:  # Scrapy 2.19 has no `engine` before the crawl
        return None


def _check_engine_slot(crawler: Any) -> None:
    slot = slot_of(crawler)
    if slot is not None and not (isinstance(getattr(slot, "inprogress", None), set) and hasattr(slot, "nextcall")):
        raise FrontierError(
            "this Scrapy does not keep its requests in progress where versions 2.13 to 2.19 do: nobody could tell "
            "when one has ended; take one of these, or a newer budgetfrontier"
        )
