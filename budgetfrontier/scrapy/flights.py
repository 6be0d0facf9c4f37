"""Requests that are out, what has been learnt of each, and how it ended.

No signal of Scrapy's says that a request has ended in every way that it can end. What does is that it leaves the
engine's set of requests in progress, after its callback; the signals only tell how it went. Likewise its download is
over, and it has landed, when it leaves the downloader's set, or before that when the signal says so: middlewares,
callbacks and pipelines may take their time then, and its host is free for the next.

| how a request ends | outcome |
| --- | --- |
| a response for the spider, below 500; its callback raised; from the cache | SUCCESS |
| a response for the spider, 500 or above, when no retry is left | FAILURE |
| a redirect, or another response below 400 that a middleware answered with a new request | SUCCESS |
| a 408, a 429, a 503 that is retried | FAILURE |
| no response: the connection failed, or timed out | FAILURE |
| it never reached the downloader: IgnoreRequest (robots.txt), or a middleware gave a new request | DISREGARDED |

What follows from a request, such as its retry or where it is redirected to, is a request of its own, with a cost of its
own, on the queue of its own host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scrapy import signals

from budgetfrontier.errors import FrontierError
from budgetfrontier.model import Lease, Outcome
from budgetfrontier.scrapy import slots


class Flight:
    """One request that is out."""

    __slots__ = ("lease", "own_slot", "reached", "received", "status")

    def __init__(self, lease: Lease, *, own_slot: bool) -> None:
        self.lease = lease
        self.own_slot = own_slot
        """Its spider has set its download slot."""
        self.reached = False
        """It came to the downloader."""
        self.received = False
        """A response of it came through to the spider."""
        self.status = 0
        """Of its last response."""

    def seconds(self, request: Any) -> float | None:
        """How long its fetch took, None if there was none."""
        latency = request.meta.get("download_latency") if self.status and self.reached else None
        return latency if isinstance(latency, float) and latency >= 0 else None

    def outcome(self) -> Outcome:
        """How it ended, by the table above."""
        if self.received:
            return Outcome.SUCCESS if self.status < 500 else Outcome.FAILURE
        if self.status:
            return Outcome.SUCCESS if self.status < 400 else Outcome.FAILURE
        return Outcome.FAILURE if self.reached else Outcome.DISREGARDED


class Flights:
    """The requests that are out, by themselves: what is in meta is inherited by retries and redirects."""

    def __init__(self, crawler: Any, on_left: Callable[[Any, Flight], None]) -> None:
        """`on_left` is called with each request that leaves the downloader, and its flight."""
        self._crawler, self._on_left = crawler, on_left
        self._out: dict[Any, Flight] = {}
        self._aloft: set[Any] = set()
        _check(crawler)
        for signal, receiver in (
            (signals.request_reached_downloader, self._reached),
            (signals.response_downloaded, self._downloaded),
            (signals.request_left_downloader, self._left),
            (signals.response_received, self._received),
        ):
            crawler.signals.connect(receiver, signal=signal)

    def __len__(self) -> int:
        return len(self._out)

    def leases(self) -> list[Lease]:
        """The leases that are out."""
        return [flight.lease for flight in self._out.values()]

    def start(self, request: Any, lease: Lease) -> Flight | None:
        """A request goes out. Returns its last flight if it is the very same object that is out already."""
        before = self._out.get(request)
        self._aloft.add(request)
        self._out[request] = Flight(lease, own_slot=slots.SLOT in request.meta)
        return before

    def landed(self) -> list[tuple[Any, Flight]]:
        """Take out of those in the air, but not of those that are out, what has left the downloader unannounced.

        Such as what a cache has answered, or a middleware has ignored. O(requests in the downloader).
        """
        downloader = getattr(self._crawler.engine, "downloader", None) if self._aloft else None
        landed = self._aloft.difference(downloader.active) if downloader is not None else ()
        self._aloft.difference_update(landed)
        return [(request, self._out[request]) for request in landed]

    def ended(self) -> list[tuple[Any, Flight]]:
        """Take out those that have ended. O(requests out)."""
        slot = slot_of(self._crawler)
        ended = self._out.keys() - (slot.inprogress if slot is not None else ())
        self._aloft.difference_update(ended)
        return [(request, self._out.pop(request)) for request in ended]

    def _reached(self, request: Any) -> None:
        flight = self._out.get(request)
        slots.note(request, own=None if flight is None else flight.own_slot)
        if flight is not None:
            flight.reached = True

    def _downloaded(self, response: Any, request: Any) -> None:
        if flight := self._out.get(request):
            flight.status = response.status

    def _left(self, request: Any) -> None:
        if request in self._aloft:
            self._aloft.discard(request)
            self._on_left(request, self._out[request])

    def _received(self, response: Any, request: Any) -> None:
        if flight := self._out.get(request):
            flight.status, flight.received = response.status, True


def slot_of(crawler: Any) -> Any:
    """The engine's slot: its requests in progress, and the next call of its loop. None outside a crawl."""
    try:
        return getattr(crawler.engine, "_slot", None)
    except RuntimeError:  # Scrapy 2.19 has no `engine` before the crawl
        return None


def _check(crawler: Any) -> None:
    slot = slot_of(crawler)
    if slot is not None and not (isinstance(getattr(slot, "inprogress", None), set) and hasattr(slot, "nextcall")):
        raise FrontierError(
            "this Scrapy does not keep its requests in progress where versions 2.13 to 2.19 do: nobody could tell "
            "when one has ended; take one of these, or a newer budgetfrontier"
        )
