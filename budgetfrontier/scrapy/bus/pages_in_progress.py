"""Requests of the feed in progress, each until its last retry or redirect has ended."""

from __future__ import annotations

from typing import Any

import msgspec

from budgetfrontier.bus import request_meta
from budgetfrontier.bus.messages import PageCrawled, Request, RequestError, Response
from budgetfrontier.engine.finish import ROBOTS
from budgetfrontier.rules.error_kinds import status_kind
from budgetfrontier.scrapy.bus.message_conversion import PAGE
from budgetfrontier.scrapy.in_flight import RequestState, continues

HEAVY = frozenset((request_meta.SCRAPY, request_meta.BODY))
"""The keys that are not reported back with a request, because the frontier has their values."""


class _PageInProgress(msgspec.Struct, eq=False):
    request: Request
    """The request as it is reported."""
    last: Any
    """The last request of Scrapy under the lease."""
    running: int = 1
    """The requests of Scrapy under the lease that have not ended."""
    url: str = ""
    headers: dict[Any, Any] = {}
    body: bytes | None = None


class Pages:
    """The pages in progress, by number, and by the URL of their last response."""

    def __init__(self, *, store_content: bool) -> None:
        self._store_content = store_content
        self._pages: dict[int, _PageInProgress] = {}
        self._by_url: dict[str, _PageInProgress] = {}

    def __len__(self) -> int:
        return len(self._pages)

    def begin(self, request: Request, number: int, made: Any) -> None:
        """Begin with a request of the feed, for which a request of Scrapy was made."""
        made.meta[PAGE] = number
        reported = Request(request.url, request.method, meta=request_meta.without(request, HEAVY))
        self._pages[number] = _PageInProgress(reported, made)

    def take(self, request: Any) -> bool:
        """Tell whether a request is a retry or a redirect of one in progress; then it continues its page."""
        page = self._pages.get(request.meta.get(PAGE))
        if page is None or not continues(request, page.last):
            request.meta.pop(PAGE, None)
            return False
        page.running += 1
        page.last = request
        return True

    def find(self, url: str) -> Request | None:
        """Return the request that has led to a URL; None if it is not in progress."""
        page = self._by_url.get(url)
        return None if page is None else page.request

    def received(self, response: Any, request: Any) -> None:
        """Note a response that goes to the spider."""
        page = self._pages.get(request.meta.get(PAGE))
        if page is not None:
            self._forget_url(page)
            page.url, page.headers = response.url, dict(response.headers)
            page.body = response.body if self._store_content else None
            self._by_url[response.url] = page

    def ended(self, request: Any, state: RequestState) -> PageCrawled | RequestError | None:
        """Note that a request has ended; return the results to report if nothing else runs under its lease."""
        page = self._pages.get(state.lease.id)
        if page is None:  # it is no request of the feed
            return None
        page.running -= 1
        if page.running:
            return None
        del self._pages[state.lease.id]
        self._forget_url(page)
        return _result(page, request, state)

    def _forget_url(self, page: _PageInProgress) -> None:
        if self._by_url.get(page.url) is page:  # and not another page, which was redirected to the same URL
            del self._by_url[page.url]


def _result(page: _PageInProgress, request: Any, state: RequestState) -> PageCrawled | RequestError:
    meta = {**page.request.meta, request_meta.SIZE: state.size}
    if (seconds := state.seconds(request)) is not None:
        meta[request_meta.FETCH_SECONDS] = seconds
    if state.retry_after is not None:
        meta[request_meta.RETRY_AFTER] = state.retry_after
    if (novel := state.novel()) is not None:
        meta[request_meta.NOVEL] = novel
    if state.address:
        meta[request_meta.ADDRESS] = state.address
    if state.digest:
        meta[request_meta.DIGEST] = state.digest
    source = msgspec.structs.replace(page.request, meta=meta)
    if state.received:
        return PageCrawled(Response(page.url or request.url, state.status, page.headers, page.body, source))
    if not state.reached:
        return RequestError(source, ROBOTS if state.is_forbidden else "IgnoreRequest")
    return RequestError(source, state.reason() or status_kind(state.status))
