"""Messages of the bus, the requests and responses in them, and the check that a value can be sent.

The messages are those of Frontera 0.8.1, and so are the arguments of `Request` and `Response`, so that a codec written
for Frontera makes them, too. Text and bytes are different things: URLs are text, methods are bytes, and the keys and
values of `headers`, `cookies` and `meta` keep the sender's types.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from budgetfrontier.errors import FrontierError

MAX_DEPTH = 64
"""The greatest depth of nested lists and maps in a message."""


class BadMessage(FrontierError):
    """A message could not be decoded, or a value cannot be sent in one; consumers move it to the dead letters."""


class Request(msgspec.Struct, frozen=True):
    """A request to fetch a URL, as spiders and workers exchange it.

    Raises BadMessage if an argument has the wrong type. None stands for the default of any argument but `url`.
    """

    url: str
    """UTF-8 if it is given as bytes."""
    method: bytes = b"GET"
    """In upper case; ASCII if it is given as text."""
    headers: Mapping[Any, Any] = {}
    cookies: Mapping[Any, Any] | list[Any] = {}
    meta: Mapping[Any, Any] = {}
    """Plain data of the request's creator; Frontera's keys are bytes, such as b"fingerprint"."""

    def __post_init__(self) -> None:
        _set(self, "url", _text(self.url, "url"))
        method: object = self.method or b"GET"
        method = method.encode("ascii", "replace") if isinstance(method, str) else method
        if not isinstance(method, bytes):
            raise BadMessage(f"method: expected bytes, not {_kind(method)}")
        _set(self, "method", method.upper())
        _set(self, "headers", _mapping(self.headers, "headers"))
        cookies: object = self.cookies or {}
        if not isinstance(cookies, Mapping | list):
            raise BadMessage(f"cookies: expected a map or a list, not {_kind(cookies)}")
        _set(self, "cookies", cookies)
        _set(self, "meta", _mapping(self.meta, "meta"))


class Response(msgspec.Struct, frozen=True):
    """A page that was fetched. Raises BadMessage if an argument has the wrong type."""

    url: str
    status_code: int = 200
    headers: Mapping[Any, Any] = {}
    """Empty in JSON: the JSON form of Frontera does not have them."""
    body: bytes | None = None
    """None unless the spider stores content; UTF-8 if it is given as text."""
    request: Request | None = None
    """The request that was answered; only its URL and `meta` are sent."""

    def __post_init__(self) -> None:
        _set(self, "url", _text(self.url, "url"))
        _integer(self.status_code, "status_code")
        _set(self, "headers", _mapping(self.headers, "headers"))
        body: object = self.body
        if isinstance(body, str):
            _set(self, "body", _encoded(body, "body"))
        elif not isinstance(body, bytes | None):
            raise BadMessage(f"body: expected bytes or nothing, not {_kind(body)}")
        if not isinstance(self.request, Request | None):
            raise BadMessage(f"request: expected a request, not {_kind(self.request)}")

    @property
    def meta(self) -> Mapping[Any, Any]:
        """The `meta` of the request that was answered."""
        return {} if self.request is None else self.request.meta


class PageCrawled(msgspec.Struct, frozen=True, tag=True):
    """Spider log: a page was fetched."""

    response: Response

    def __post_init__(self) -> None:
        _instance(self.response, Response, "response")


class LinksExtracted(msgspec.Struct, frozen=True, tag=True):
    """Spider log: these links were found on the page of a request."""

    request: Request
    links: list[Request]

    def __post_init__(self) -> None:
        _instance(self.request, Request, "request")
        _set(self, "links", _requests(self.links, "links"))


class RequestError(msgspec.Struct, frozen=True, tag=True):
    """Spider log: a request could not be fetched; `error` is the name or text of the error."""

    request: Request
    error: str

    def __post_init__(self) -> None:
        _instance(self.request, Request, "request")
        _set(self, "error", _text(self.error, "error"))


class Offset(msgspec.Struct, frozen=True, tag=True):
    """Spider log: how far the spider of a partition has read the spider feed."""

    partition: int
    offset: int

    def __post_init__(self) -> None:
        _integer(self.partition, "partition")
        _integer(self.offset, "offset")


class AddSeeds(msgspec.Struct, frozen=True, tag=True):
    """Spider log: seeds to crawl. Frontera handles this message and has no form for it: the form is of this project."""

    seeds: list[Request]

    def __post_init__(self) -> None:
        _set(self, "seeds", _requests(self.seeds, "seeds"))


class UpdateScore(msgspec.Struct, frozen=True, tag=True):
    """Scoring log: the priority of a request (0.0 to 1.0, best last), and whether to schedule it.

    Without `schedule`, its URL is only marked as seen.
    """

    request: Request
    score: float
    schedule: bool

    def __post_init__(self) -> None:
        _instance(self.request, Request, "request")
        score: object = self.score
        if isinstance(score, bool) or not isinstance(score, int | float) or not _is_finite(score):
            raise BadMessage(f"score: expected a finite number, not {_shown(score)}")
        schedule: object = self.schedule
        if schedule not in (True, False):  # 0 and 1, too
            raise BadMessage(f"schedule: expected true or false, not {_kind(schedule)}")
        _set(self, "schedule", bool(schedule))


class NewJobId(msgspec.Struct, frozen=True, tag=True):
    """Scoring log: from now on the crawl is another job; later messages of spiders for the one before are ignored."""

    job_id: int

    def __post_init__(self) -> None:
        _integer(self.job_id, "job_id")


class Stats(msgspec.Struct, frozen=True, tag=True):
    """Statistics: counters of a worker or spider, by name."""

    stats: Mapping[Any, Any]

    def __post_init__(self) -> None:
        _instance(self.stats, Mapping, "stats")


Message = PageCrawled | LinksExtracted | RequestError | Offset | AddSeeds | UpdateScore | NewJobId | Stats
"""A message of a log. Those of the spider feed are each a bare `Request`."""

_SCALARS = (str, bytes, int, float, bool, type(None))


_EXACT_SCALARS = frozenset(_SCALARS)
_EXACT = _EXACT_SCALARS | {list, tuple, dict}


def check_types(value: object) -> None:
    """Check the types in a value, and its depth, as `check_plain` does, for a codec that checks text and integers.

    Raises BadMessage. Costs about 0.02 us an element: all elements of a depth are looked at together.
    """
    level: list[Any] = [value]
    for depth in range(MAX_DEPTH, -1, -1):
        kinds = set(map(type, level))
        if kinds <= _EXACT_SCALARS:
            return
        if not kinds <= _EXACT:  # subclasses, other maps, and values that cannot be sent
            for each in level:
                check_plain(each, depth)
            return
        deeper: list[Any] = []
        for each in level:
            kind = type(each)
            if kind is dict:
                deeper += each
                deeper += each.values()
            elif kind is list or kind is tuple:
                deeper += each
        level = deeper
    raise BadMessage(f"lists and maps are nested more than {MAX_DEPTH} deep")


def check_plain(value: object, depth: int = MAX_DEPTH) -> None:
    """Check that every codec can send a value, nested at most `depth` deep. Raises BadMessage.

    These are None, booleans, integers of 64 bits, floats, text, bytes, lists, tuples and maps. About 0.1 us an element.
    """
    if isinstance(value, str):
        _encoded(value, "text")
    elif isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 64:
            raise BadMessage("an integer has more than 64 bits")
    elif isinstance(value, list | tuple | Mapping):
        if not depth:
            raise BadMessage(f"lists and maps are nested more than {MAX_DEPTH} deep")
        if isinstance(value, Mapping):
            for key in value:
                check_plain(key, depth - 1)
            value = list(value.values())
        for item in value:
            check_plain(item, depth - 1)
    elif not isinstance(value, _SCALARS):
        raise BadMessage(f"{_kind(value)} cannot be sent; send text, bytes, numbers, lists and maps")


_set = msgspec.structs.force_setattr


def _kind(value: object) -> str:
    return "nothing" if value is None else type(value).__name__


def _shown(value: object) -> str:
    return repr(value) if isinstance(value, float) else _kind(value)


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # an integer that no float is as large as
        return False


def _encoded(text: str, name: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise BadMessage(f"{name}: a lone surrogate, which is no text") from None


def _text(value: object, name: str) -> str:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise BadMessage(f"{name}: not UTF-8") from None
    if not isinstance(value, str):
        raise BadMessage(f"{name}: expected text, not {_kind(value)}")
    _encoded(value, name)
    return value


def _integer(value: object, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not -(1 << 63) <= value < 1 << 63:
        raise BadMessage(f"{name}: expected an integer of 64 bits, not {_kind(value)}")


def _mapping(value: object, name: str) -> Mapping[Any, Any]:
    if value is None:
        return {}
    _instance(value, Mapping, name)
    assert isinstance(value, Mapping)
    return value


def _instance(value: object, kind: type, name: str) -> None:
    if not isinstance(value, kind):
        raise BadMessage(f"{name}: expected a {kind.__name__}, not {_kind(value)}")


def _requests(value: object, name: str) -> list[Request]:
    if not isinstance(value, Iterable):
        raise BadMessage(f"{name}: expected requests, not {_kind(value)}")
    requests = list(value)
    for request in requests:
        _instance(request, Request, name)
    return requests
