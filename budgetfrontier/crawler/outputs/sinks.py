"""Sinks: user-defined functions that are called with every page. An error in a sink never ends the crawl."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping

import msgspec

from budgetfrontier.core.model import CrawlUri, Lease, Outcome
from budgetfrontier.crawler.fetch.response import FetchResult
from budgetfrontier.crawler.links import page_text
from budgetfrontier.errors import SettingsError
from budgetfrontier.settings import plugins

log = logging.getLogger("budgetfrontier.crawl")


class Page(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One page, as passed to sinks: any HTTP response, whatever its status."""

    url: str
    status: int
    headers: Mapping[str, str]
    """By name, case-insensitive."""
    mime: str
    """The media type in lower case, without parameters; "" if the response has none."""
    body: bytes
    """Decompressed, at most `fetch.max_body` bytes."""
    outcome: Outcome
    """The outcome for the frontier; after RETRY, the URI is fetched again."""
    digest: str
    """The SHA-1 of the body as sent, "sha1:BASE32"; "" without a body."""
    uri: CrawlUri
    """The URI as the frontier has it: via, hops, source, meta, payload."""
    queue: str
    started: float
    """The start of the fetch, in epoch seconds."""
    seconds: float
    """The duration of the fetch, in seconds."""
    address: str | None
    """The IP address of the server; None behind a proxy."""
    notes: list[str]
    """Annotations as in crawl.log, such as lenTrunc for a page that was cut."""
    charset: str | None
    """The charset of the Content-Type; None if it has none."""

    def text(self) -> str:
        """Return the body as text, decoded as browsers do; undecodable bytes become U+FFFD. O(body)."""
        return page_text.decode(self.body, charset=self.charset)[0]


def page(lease: Lease, response: FetchResult, outcome: Outcome, *, digest: str) -> Page:
    """Return the response of an attempt as a Page."""
    return Page(
        url=lease.uri.url,
        status=response.status,
        headers=response.headers,
        mime=response.mime,
        body=response.body,
        outcome=outcome,
        digest=digest,
        uri=lease.uri,
        queue=lease.queue,
        started=response.started,
        seconds=response.seconds or 0.0,
        address=response.address,
        notes=response.notes,
        charset=response.charset,
    )


class Sinks:
    """The sinks that `output.sinks` lists as `module:name`: functions, callable objects, or classes of these.

    A class is instantiated without arguments. If a sink has methods `sync` and `close`, they are called before each
    commit of the frontier and at the end. Errors of sinks are counted in `errors`, and logged once for each sink and
    type of error. Raises SettingsError for a sink that cannot be loaded.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self._sinks = [(name, _load(name)) for name in names]
        self.errors: Counter[tuple[str, str]] = Counter()
        """Errors counted by (name of the sink, type of the error)."""

    def __bool__(self) -> bool:
        return bool(self._sinks)

    def give(self, page: Page) -> None:
        """Call each sink with a page, in order."""
        for name, sink in self._sinks:
            self._call(name, sink, page)

    def sync(self) -> None:
        """Call `sync` on the sinks that have it."""
        self._call_method("sync")

    def close(self) -> None:
        """Call `close` on the sinks that have it, and log how often each failed."""
        self._call_method("close")
        self._sinks = []
        for (name, kind), count in self.errors.items():
            log.warning("the sink %s failed %s with %s", name, "once" if count == 1 else f"{count} times", kind)

    def _call_method(self, method: str) -> None:
        for name, sink in self._sinks:
            if callable(function := getattr(sink, method, None)):
                self._call(name, function)

    def _call(self, name: str, function: Callable[..., object], *args: object) -> None:
        try:
            function(*args)
        except Exception as e:
            kind = type(e).__name__
            self.errors[name, kind] += 1
            if self.errors[name, kind] == 1:
                log.exception("the sink %s failed; the crawl goes on, and more %s are only counted", name, kind)


def _load(name: str) -> Callable[..., object]:
    try:
        sink = plugins.make(name)
    except SettingsError as error:
        raise SettingsError(f"output.sinks: {error}") from error.__cause__
    if not callable(sink):
        raise SettingsError(f"output.sinks: {name!r} cannot be called; name a function")
    if plugins.is_async(sink):
        raise SettingsError(f"output.sinks: {name!r} is async; sinks are called, not awaited")
    if objection := plugins.objection(sink, {}, "page"):
        raise SettingsError(f"output.sinks: {name!r} must take (page): {objection}")
    return sink  # type: ignore[no-any-return]
