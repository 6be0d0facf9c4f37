"""Sinks: functions of one's own that are given every page. What goes wrong in one never ends the crawl."""

from __future__ import annotations

import inspect
import logging
from collections import Counter
from collections.abc import Callable, Mapping

import msgspec

from budgetfrontier import plugins
from budgetfrontier.crawl.fetch.response import Response
from budgetfrontier.crawl.links import text
from budgetfrontier.errors import SettingsError
from budgetfrontier.model import CrawlUri, Lease, Outcome

log = logging.getLogger(__name__)


class Page(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One page as a sink is given it: what an HTTP server answered, whatever the status."""

    url: str
    status: int
    headers: Mapping[str, str]
    """By name, in any case."""
    mime: str
    """The media type in lower case, without parameters; "" if the answer names none."""
    body: bytes
    """Decompressed, at most `fetch.max_body` bytes."""
    outcome: Outcome
    """How the frontier takes it; RETRY comes again."""
    digest: str
    """The SHA-1 of the body as sent, "sha1:BASE32"; "" without a body."""
    uri: CrawlUri
    """What the frontier knows: via, hops, source, meta, payload."""
    queue: str
    started: float
    """When the fetch began, epoch seconds."""
    seconds: float
    """How long it took."""
    address: str | None
    """The IP address that answered."""
    notes: list[str]
    """As in crawl.log: lenTrunc for a page that was cut."""
    charset: str | None
    """What the Content-Type names."""

    def text(self) -> str:
        """Return the body as text, decoded as a browser would: what cannot be decoded becomes U+FFFD. O(body)."""
        return text.decode(self.body, charset=self.charset)[0]


def page(lease: Lease, answer: Response, outcome: Outcome, *, digest: str) -> Page:
    """Return the page that an attempt brought."""
    return Page(
        url=lease.uri.url,
        status=answer.status,
        headers=answer.headers,
        mime=answer.mime,
        body=answer.body,
        outcome=outcome,
        digest=digest,
        uri=lease.uri,
        queue=lease.queue,
        started=answer.started,
        seconds=answer.seconds or 0.0,
        address=answer.address,
        notes=answer.notes,
        charset=answer.charset,
    )


class Sinks:
    """The sinks that `output.sinks` names as `module:name`: functions, objects that can be called, or classes of such.

    A class is called without arguments. The methods `sync` and `close` of a sink that has them are called before each
    commit and at the end. Whatever a sink raises is logged, once for each sink and type of error, and counted in
    `errors`. Raises SettingsError for one that cannot be loaded.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self._sinks = [(name, _load(name)) for name in names]
        self.errors: Counter[tuple[str, str]] = Counter()
        """By name of the sink and type of the error."""

    def __bool__(self) -> bool:
        return bool(self._sinks)

    def give(self, page: Page) -> None:
        """Give a page to each sink, in order."""
        for name, sink in self._sinks:
            self._call(name, sink, page)

    def sync(self) -> None:
        """Call `sync` of the sinks that have it."""
        self._tell("sync")

    def close(self) -> None:
        """Call `close` of the sinks that have it, and log how often each failed."""
        self._tell("close")
        self._sinks = []
        for (name, kind), count in self.errors.items():
            log.warning("the sink %s failed %s with %s", name, "once" if count == 1 else f"{count} times", kind)

    def _tell(self, method: str) -> None:
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
    if inspect.iscoroutinefunction(sink):
        raise SettingsError(f"output.sinks: {name!r} is async; sinks are called, not awaited")
    return sink  # type: ignore[no-any-return]
