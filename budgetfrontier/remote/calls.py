"""The methods of a remote frontier without I/O: the messages of each, and its result from the replies.

Each is a generator that yields an `Rpc`, or a `Train` of them, gets the decoded reply or a list of replies, and returns
the result of the method. `RemoteFrontier` and `AsyncRemoteFrontier` send what they yield.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from budgetfrontier.core import protocol
from budgetfrontier.core.converters import converter
from budgetfrontier.core.model import Admission, CrawlUri, Finish, Lease, Outcome, Tally
from budgetfrontier.engine import arguments
from budgetfrontier.errors import PolicyError, WrongType, lease_ended
from budgetfrontier.settings.schema import Override

if TYPE_CHECKING:
    from budgetfrontier.engine.commands.adjustment import Adjustment

_T = TypeVar("_T")

_REPLIES = {name: converter(offered.reply) for name, offered in protocol.PLAIN.items()}
_overrides: Callable[[Any], list[Override]] = converter(list[Override])
_NOT_ENCODABLE = (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError)
"""The exceptions of an encoder that is given what no message can hold."""

PART = 1000
"""URIs taken from a caller's iterable at a time, and finishes in one call with the URIs found on them."""


class Rpc(NamedTuple):
    """A call to send: the method, its encoded arguments, and how long the server may wait before it answers.

    The reply is None if the wait was interrupted.
    """

    method: protocol.Method
    arguments: bytes
    wait: float = 0.0


class Train(NamedTuple):
    """Calls to send in order, several of them in flight; their replies come as a list."""

    calls: Iterator[Rpc]


Steps = Generator[Rpc | Train, Any, _T]


class ClientLeases:
    """The leases that a client holds, by id, with their deadlines."""

    def __init__(self) -> None:
        self._leases: dict[int, float] = {}
        self._most = 10_000

    def add(self, leases: Iterable[Lease]) -> None:
        """Note leases. Those that expired unfinished are forgotten now and then."""
        held = self._leases
        latest = 0.0
        for lease in leases:
            held[lease.id] = latest = lease.expires
        if len(held) > self._most:
            for lease_id, expires in list(held.items()):
                if expires < latest - 86_400.0:
                    held.pop(lease_id, None)
            self._most = max(10_000, 2 * len(held))

    def drop(self, ended: Iterable[Lease | Finish]) -> None:
        """Forget leases that have ended."""
        for each in ended:
            self._leases.pop(lease_of(each).id, None)

    def ids(self) -> list[int]:
        """Return the ids of all."""
        return list(self._leases)


# -- URIs in


def schedule(uri: str | CrawlUri) -> Steps[Admission]:
    """Admit one URI. Raises WrongType for other types."""
    arguments.uri(uri)
    admissions = yield from schedule_each([uri])
    return admissions[0]


def schedule_many(uris: Iterable[str | CrawlUri], *, brought: bool = False) -> Steps[Tally]:
    """Admit a batch; count the results. URIs that are `brought` from outside of the crawl do not count as found."""
    return (yield from _tallied(protocol.SCHEDULE_MANY, uris, brought=arguments.flag(brought, "brought")))


def mark_seen(uris: Iterable[str | CrawlUri], *, charge: bool = False) -> Steps[Tally]:
    """Mark a batch as seen."""
    return (yield from _tallied(protocol.MARK_SEEN, uris, charge=arguments.flag(charge, "charge")))


def schedule_each(uris: Iterable[str | CrawlUri]) -> Steps[list[Admission]]:
    """Admit a batch; return the result for each URI."""
    replies = yield Train(_batches(protocol.SCHEDULE_EACH, uris))
    return [admission for reply in replies for admission in reply]


def admit_many(uris: Iterable[str | CrawlUri], maxsize: int) -> Steps[Tally]:
    """Admit a batch while there is room; count the results."""
    return (yield from _tallied(protocol.ADMIT_MANY, uris, maxsize=maxsize))


def admit_each(uris: Iterable[str | CrawlUri], maxsize: int, again: bool) -> Steps[list[Admission | PolicyError]]:
    """Admit a batch while there is room; return the result for each URI."""
    again = arguments.flag(again, "again")
    results: list[Admission | PolicyError] = []
    for reply in (yield Train(_batches(protocol.ADMIT_EACH, uris, maxsize=maxsize, again=again))):
        part: list[Admission | PolicyError] = list(reply.results)
        for place, message in reply.failures.items():
            part[place] = PolicyError(message)
        results += part
    return results


def _tallied(
    method: protocol.Method,
    uris: Iterable[str | CrawlUri],
    *,
    charge: bool = False,
    maxsize: int = 0,
    brought: bool = False,
) -> Steps[Tally]:
    tally = Tally()
    for reply in (yield Train(_batches(method, uris, charge, maxsize=maxsize, brought=brought))):
        tally.add(reply)
    return tally


def _batches(
    method: protocol.Method,
    uris: Iterable[str | CrawlUri],
    charge: bool = False,
    *,
    maxsize: int = 0,
    again: bool = False,
    brought: bool = False,
) -> Iterator[Rpc]:
    arguments.several(uris)
    remaining = iter(uris)
    options = b"".join(map(protocol.encode, (charge, maxsize, again, brought)))
    while batch := list(islice(remaining, PART)):
        for part in _parts(sendable(batch)):
            yield Rpc(method, _ARRAY_OF_FIVE + part + options)


_ARRAY_OF_FIVE = b"\x95"  # in MessagePack: the fields of Uris


def sendable(uris: Iterable[Any]) -> list[protocol.Uri]:
    """Return URIs as they are sent: None, which the engine refuses, for other types and URIs that cannot be encoded."""
    given = list(uris)
    if not set(map(type, given)) <= {str, CrawlUri}:
        given = [uri if isinstance(uri, str | CrawlUri) else None for uri in given]
    return given


def _parts(uris: list[protocol.Uri]) -> Iterator[bytes]:
    """Yield URIs encoded, in parts that are no longer than a message may be."""
    try:
        encoded = protocol.encode(uris)
    except _NOT_ENCODABLE:
        encoded = protocol.encode([_encodable(uri) for uri in uris])
    if len(encoded) <= protocol.MOST_BYTES:
        yield encoded
    elif len(uris) == 1:
        yield protocol.encode([None])
    else:
        middle = len(uris) // 2
        yield from _parts(uris[:middle])
        yield from _parts(uris[middle:])


def _encodable(uri: protocol.Uri) -> protocol.Uri:
    try:
        protocol.encode(uri)
    except _NOT_ENCODABLE:
        return None
    return uri


# -- URIs out


def lease(count: int, ttl: float | None, wait: float) -> Steps[list[Lease]]:
    """Lease URIs; wait for the first for so many seconds on the server."""
    count, ttl, left = arguments.asked(count, ttl, wait)
    found: list[Lease] = []
    while True:
        asked, pause = min(count - len(found), protocol.MOST_ITEMS), min(left, protocol.LONGEST_WAIT)
        wanted = protocol.Wanted(asked, ttl, 0.0 if found else pause)
        leases = yield Rpc(protocol.LEASE, protocol.encode(wanted), pause)
        if leases is None:  # `interrupt` has ended the wait
            return found
        found += leases
        left -= pause
        if (not found and left > 0.0 and count > 0) or (leases and len(leases) == asked and len(found) < count):
            continue
        return found


def finish_and_lease(
    given: list[Lease | Finish], count: int, ttl: float | None, wait: float
) -> Steps[tuple[list[Lease], list[Lease]]]:
    """End leases, and lease URIs."""
    count, ttl, wait = arguments.asked(count, ttl, wait)
    ended = [_end(each) for each in given]
    parts = list(_finishes(ended)) or [(0, 0)]
    late: list[Lease] = []
    if len(parts) > 1:
        late = yield from finish_many(given[: parts[-2][1]])
    start = parts[-1][0]
    wanted = protocol.Wanted(min(count, protocol.MOST_ITEMS), ttl)
    exchange = protocol.Exchange(ended[start:], wanted)
    exchanged: protocol.Exchanged = yield Rpc(protocol.EXCHANGE, encoded(exchange))
    late += [lease_of(given[start + place]) for place in exchanged.late]
    leases = exchanged.leases
    if not leases and count > 0 and wait > 0.0:
        leases = yield from lease(count, ttl, wait)
    return late, leases


def finish(lease: Lease, outcome: Outcome, options: dict[str, Any]) -> Steps[None]:
    """End a lease. Raises LeaseExpired."""
    arguments.lease(lease, "finish")
    if (yield from finish_many([Finish(lease, outcome, **options)])):
        raise lease_ended(lease.id, lease.uri.url)


def endings(finished: Iterable[Lease | Finish]) -> list[Lease | Finish]:
    """Return leases and their ends as a list. Raises WrongType for one lease alone."""
    if isinstance(finished, str | bytes | Lease | Finish):
        raise WrongType("finish_many takes leases, or Finish(lease, ...) for each; one alone goes into a list")
    arguments.several(finished, "leases, or Finish(lease, ...) for each")
    return list(finished)


def finish_many(given: list[Lease | Finish]) -> Steps[list[Lease]]:
    """End many leases; return those that had ended already."""
    ended = [_end(each) for each in given]
    parts = list(_finishes(ended))
    replies = yield Train(Rpc(protocol.FINISH_MANY, encoded(ended[start:end])) for start, end in parts)
    return [
        lease_of(given[start + place]) for (start, _), places in zip(parts, replies, strict=True) for place in places
    ]


def encoded(leases: Any) -> bytes:
    """Return leases, or the ends of leases, as they are sent."""
    try:
        return protocol.encode(leases)
    except OverflowError:
        raise ValueError("the id of a lease is a number of at most 64 bits") from None


def lease_of(item: Lease | Finish) -> Lease:
    """Return a lease, or the one that an ending ends."""
    return item.lease if isinstance(item, Finish) else item


def _end(item: Lease | Finish) -> int | protocol.Ended:
    """Return the end of a lease as it is sent, after the checks of `Frontier.finish_many`."""
    lease = lease_of(item)
    if not isinstance(lease, Lease) or lease.id.__class__ is not int:  # type: ignore[redundant-expr]
        raise WrongType(f"finish_many takes leases, or Finish(lease, ...) for each, not {type(item).__name__}")
    if not isinstance(item, Finish):
        return lease.id
    fetch_seconds, crawl_delay, delay = arguments.waits(item.fetch_seconds, item.crawl_delay, item.delay)
    found: list[protocol.Uri] = []
    if item.discovered or item.discovered.__class__ not in (tuple, list):
        arguments.several(item.discovered)
        found = sendable(item.discovered)
        try:
            protocol.encode(found)
        except _NOT_ENCODABLE:
            found = [_encodable(uri) for uri in found]
    outcome, reason = arguments.outcome(item.outcome), arguments.reason(item.reason)
    size = arguments.size(item.size) if item.size != 0 else 0
    status, retire = arguments.status(item.status), arguments.flag(item.retire_queue, "retire_queue")
    novel, address = arguments.novel(item.novel), arguments.address(item.address)
    digest = arguments.data(item.digest, "digest")
    return protocol.Ended(
        lease.id, outcome, fetch_seconds, crawl_delay, found, reason, delay, retire, size, status, novel, address,
        digest,
    )  # fmt: skip


def _finishes(ended: list[int | protocol.Ended]) -> Iterator[tuple[int, int]]:
    """Yield the bounds of parts that are not larger than a call may be."""
    start = size = length = 0
    for place, each in enumerate(ended):
        found = [] if each.__class__ is int else each.discovered  # type: ignore[union-attr]
        more = _size(found)
        if more > protocol.MOST_BYTES:
            raise ValueError(
                f"the URIs discovered on one page have {more} bytes, and one call {protocol.MOST_BYTES} at most: give "
                "them to `schedule_many` before"
            )
        if place > start and (size + len(found) >= protocol.MOST_ITEMS or length + more > protocol.MOST_BYTES):
            yield start, place
            start, size, length = place, 0, 0
        size += 1 + len(found)
        length += more
    if start < len(ended):
        yield start, len(ended)


def _size(uris: list[protocol.Uri]) -> int:
    return len(protocol.encode(uris)) if uris else 0


# -- the rest


def connect() -> Steps[protocol.Connected]:
    """Make the first exchange."""
    connected: protocol.Connected = yield Rpc(protocol.CONNECT, protocol.encode(protocol.Connect(protocol.VERSION)))
    return connected


def plain(name: str, *positional: Any, **named: Any) -> Steps[_T]:
    """Call a method of the frontier with plain data."""
    offered = protocol.PLAIN[name]
    request = protocol.MethodCall(name, list(positional), named)
    try:
        body = protocol.encode(request)
    except _NOT_ENCODABLE as error:
        raise _refused(name, positional, named, error) from None
    reply = yield Rpc(offered.method, body)
    result: _T = _REPLIES[name](reply)
    return result


def _refused(name: str, positional: Iterable[Any], named: dict[str, Any], error: Exception) -> Exception:
    """Return an error that names the argument which cannot be encoded; `error` if each can by itself."""
    for given, value in [*((f"argument {n}", value) for n, value in enumerate(positional, 1)), *named.items()]:
        try:
            protocol.encode(value)
        except OverflowError:
            return ValueError(f"{name}: {given} is a number of at most 64 bits, not {value!r}")
        except _NOT_ENCODABLE as why:
            return WrongType(f"{name}: {given} cannot be sent to a server: {why}")
    return error


def queue_key(uri: CrawlUri) -> Steps[str]:
    """Return the key of the queue that a URI would be placed on."""
    uri = arguments.crawl_uri(uri)
    return (yield from plain("queue_key", uri.url, queue=uri.queue))


def rest(uri: CrawlUri, key: str, fetch_seconds: float | None, crawl_delay: float | None) -> Steps[float]:
    """Return a politeness delay."""
    uri = arguments.crawl_uri(uri)
    fetch_seconds, crawl_delay, _ = arguments.waits(fetch_seconds, crawl_delay)
    return (yield from plain("rest", uri.url, key, fetch_seconds=fetch_seconds, crawl_delay=crawl_delay))


def adjustments() -> Steps[list[Override]]:
    """Return the adjustments in force."""
    found: list[dict[str, Any]] = yield from plain("adjustments")
    return _overrides(found)


def adjust(settings: dict[str, Any], **options: Any) -> Steps[Adjustment]:
    """Change settings, or with `dry_run` only count what that would do."""
    found: dict[str, Any] = yield from plain("adjust", **options, **settings)
    from budgetfrontier.engine.commands.adjustment import Adjustment  # with LMDB, which other calls do not need

    adjustment: Adjustment = converter(Adjustment)(found)
    return adjustment


def set_budgets(budgets: Iterable[tuple[CrawlUri, int]]) -> Steps[None]:
    """Set the total budgets of the queues of URIs."""
    asked = [protocol.Budget(uri.url, uri.queue, total) for uri, total in budgets]
    for start in range(0, len(asked), protocol.MOST_ITEMS):
        yield Rpc(protocol.SET_BUDGETS, protocol.encode(asked[start : start + protocol.MOST_ITEMS]))


def leave(leases: list[int]) -> Steps[None]:
    """End the session."""
    yield Rpc(protocol.LEAVE, protocol.encode(leases))
