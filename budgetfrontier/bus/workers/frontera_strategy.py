"""Strategies of Frontera 0.8 as strategies of a strategy worker: their methods are called as Frontera's own does.

The names and the order of calls are those of `frontera.strategy.BaseCrawlingStrategy` and `frontera.worker.strategy`,
whose package is not needed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha1
from io import BytesIO
from typing import Any, Final

import msgspec

from budgetfrontier.bus import messages, request_meta
from budgetfrontier.bus.workers.strategies import Score
from budgetfrontier.core.bounded_cache import BoundedCache
from budgetfrontier.errors import SettingsError

NEEDED: Final = (
    "from_worker",
    "read_seeds",
    "page_crawled",
    "request_error",
    "filter_extracted_links",
    "links_extracted",
)
"""The methods that make a class a strategy of Frontera: all of its abstract ones, and its constructor."""
STATE: Final = b"state"
"""The key of the state of a URL in the meta of a request."""
NOT_CRAWLED, QUEUED, CRAWLED, ERROR = range(4)
"""The states of Frontera."""
MOST_STATES: Final = 500_000
"""URLs with remembered states: about 60 MB. One that is forgotten is NOT_CRAWLED again."""


def is_fronteras(strategy: Any) -> bool:
    """Return whether an object is a class with the methods of Frontera's strategies."""
    return isinstance(strategy, type) and all(callable(getattr(strategy, name, None)) for name in NEEDED)


class StrategyRequest:
    """A request as Frontera's strategies know it: `headers` and `meta` may be changed."""

    def __init__(
        self,
        url: Any,
        method: Any = b"GET",
        headers: Any = None,
        cookies: Any = None,
        meta: Any = None,
        body: Any = b"",
    ) -> None:
        made = messages.Request(url, method, headers or {}, cookies or {}, meta or {})
        self.url, self.method, self.cookies = made.url, made.method, made.cookies
        self.headers, self.meta, self.body = dict(made.headers), dict(made.meta), body
        self.meta.setdefault(request_meta.DEPTH, 0)
        self.meta.setdefault(
            request_meta.FINGERPRINT, sha1(self.url.encode(), usedforsecurity=False).hexdigest().encode()
        )

    def __repr__(self) -> str:
        return f"<StrategyRequest {self.url}>"

    def __hash__(self) -> int:
        return hash(self.meta[request_meta.FINGERPRINT])

    def __eq__(self, other: object) -> bool:
        return self is other

    def message(self) -> messages.Request:
        """Return the request as it is sent: without its state."""
        meta = {key: value for key, value in self.meta.items() if key != STATE}
        if self.body:
            meta[request_meta.BODY] = self.body.encode() if isinstance(self.body, str) else self.body
        return messages.Request(self.url, self.method, self.headers, self.cookies, meta)


class StrategyResponse:
    """A page as Frontera's strategies know it; `meta` is that of its request."""

    def __init__(self, response: messages.Response, request: StrategyRequest) -> None:
        self.url, self.status_code, self.headers = response.url, response.status_code, dict(response.headers)
        self.body, self.request, self.meta = response.body or b"", request, request.meta


class FronteraStrategy:
    """A strategy of Frontera, for a `StrategyWorker`.

    The states of URLs are remembered in memory, so that a URL counts as NOT_CRAWLED once it was forgotten, and after a
    restart: a strategy schedules it again then, and the frontier drops the duplicate.
    """

    def __init__(self, strategy: type[Any], arguments: Mapping[str, str] | None = None) -> None:
        """Make a strategy with its `from_worker`, as its `args` and as its settings (`manager.settings`).

        Raises SettingsError for a class without the methods of `NEEDED`, and what `from_worker` raises.
        """
        if not is_fronteras(strategy):
            raise SettingsError(f"{strategy!r} is no strategy of Frontera: those have {', '.join(NEEDED)}")
        self._states: BoundedCache[bytes, int] = BoundedCache(MOST_STATES)
        self._scores: list[Score] = []
        self._requests: list[StrategyRequest] = []
        args = {name: value or None for name, value in (arguments or {}).items()}
        self._strategy = strategy.from_worker(Manager(args), args, _ScheduledStream(self._scores), _States(self))

    def __repr__(self) -> str:
        return f"<FronteraStrategy {type(self._strategy).__name__}>"

    def add_seeds(self, seeds: list[messages.Request]) -> Iterable[Score]:
        """Let `read_seeds` read the URLs, one on a line; what else the settings say of a seed is kept for its URL."""
        told = {seed.url: seed.meta for seed in seeds}
        with self._call():
            self._strategy.read_seeds(BytesIO("".join(f"{url}\n" for url in told).encode()))
            return [_with_meta(score, told.get(score.request.url, {})) for score in self._scores]

    def filter_links(self, request: messages.Request, links: list[messages.Request]) -> list[messages.Request]:
        """Return what `filter_extracted_links` returns, which knows no states yet."""
        page, found = _request(request), [_request(link) for link in links]
        return [link.message() for link in self._strategy.filter_extracted_links(page, found)]

    def links_extracted(self, request: messages.Request, links: list[messages.Request]) -> Iterable[Score]:
        """Return what `links_extracted` schedules."""
        with self._call():
            page, *found = self.refresh([_request(request), *map(_request, links)])
            self._strategy.links_extracted(page, found)
            return self._scores[:]

    def page_crawled(self, response: messages.Response) -> Iterable[Score]:
        """Return what `page_crawled` schedules."""
        assert response.request is not None
        with self._call():
            [request] = self.refresh([_request(response.request)])
            self._strategy.page_crawled(StrategyResponse(response, request))
            return self._scores[:]

    def request_error(self, request: messages.Request, error: str) -> Iterable[Score]:
        """Return what `request_error` schedules."""
        with self._call():
            [failed] = self.refresh([_request(request)])
            self._strategy.request_error(failed, error)
            return self._scores[:]

    def finished(self) -> bool:
        """Return whether the strategy has reached its goal."""
        return bool(self._strategy.finished())

    def close(self) -> None:
        """Close the strategy."""
        self._strategy.close()

    def refresh(self, requests: Iterable[StrategyRequest]) -> list[StrategyRequest]:
        """Set the states of requests, and remember theirs once the call of a method is over."""
        requests = list(requests)
        for request in requests:
            request.meta[STATE] = self._states.get(request.meta[request_meta.FINGERPRINT], NOT_CRAWLED)
        self._requests += requests
        return requests

    @contextmanager
    def _call(self) -> Iterator[None]:
        """Begin without scores; remember the states that a method has set, unless it fails."""
        self._scores.clear()
        self._requests.clear()
        yield
        for request in self._requests:
            self._states.put(request.meta[request_meta.FINGERPRINT], request.meta.get(STATE, NOT_CRAWLED))


class Manager:
    """The parts of Frontera's manager that strategies use: requests, settings, metadata of domains in memory."""

    def __init__(self, settings: Mapping[str, str | None]) -> None:
        self.settings = settings
        self.backend = Backend()

    def create_request(self, *args: Any, **options: Any) -> StrategyRequest:
        """Return a request, with its fingerprint: the arguments are those of `StrategyRequest`."""
        return StrategyRequest(*args, **options)


class Backend:
    """The part of Frontera's backend that strategies use: a dict for the metadata of each domain."""

    def __init__(self) -> None:
        self.domain_metadata: dict[Any, Any] = {}
        self.states: None = None


class _ScheduledStream:
    """Collects the requests that a strategy schedules, as scores."""

    def __init__(self, scores: list[Score]) -> None:
        self._scores = scores

    def send(self, request: StrategyRequest, score: float = 1.0, dont_queue: bool = False) -> None:
        self._scores.append(Score(request.message(), score, not dont_queue))

    def flush(self) -> None:
        """Do nothing: scores are sent after each message."""


class _States:
    """The context in which strategies ask for the states of requests that they have made."""

    def __init__(self, strategy: FronteraStrategy) -> None:
        self._strategy = strategy

    def refresh_and_keep(self, requests: StrategyRequest | Iterable[StrategyRequest]) -> None:
        self._strategy.refresh([requests] if isinstance(requests, StrategyRequest) else requests)

    def release(self) -> None:
        """Do nothing: states are kept when the method that was called returns."""

    def flush(self) -> None:
        """Do nothing: they are in memory."""


def _request(request: messages.Request) -> StrategyRequest:
    body = request_meta.get(request.meta, request_meta.BODY, bytes) or b""
    return StrategyRequest(request.url, request.method, request.headers, request.cookies, request.meta, body)


def _with_meta(score: Score, meta: Mapping[Any, Any]) -> Score:
    request = msgspec.structs.replace(score.request, meta={**meta, **score.request.meta})
    return score._replace(request=request)
