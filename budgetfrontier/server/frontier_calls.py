"""The calls of our own protocol as functions of a frontier; they run in the thread of the crawl."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

import msgspec

from budgetfrontier.core import protocol
from budgetfrontier.core.model import Admission, CrawlUri, Finish, Lease, Tally
from budgetfrontier.engine import capacity
from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.errors import FrontierError, LeaseExpired, PolicyError
from budgetfrontier.settings import Settings

_NO_URI = CrawlUri("")

_DISCOVERED: Final = protocol.Ended.__struct_fields__.index("discovered")

_uri: Callable[[msgspec.Raw], protocol.Uri] = protocol.decoder(protocol.Uri)
_items: Callable[[msgspec.Raw], list[msgspec.Raw]] = protocol.decoder(list[msgspec.Raw])


class DecodedCall:
    """A call as the crawl gets it, whether that does it itself, or others by the method and the arguments."""

    __slots__ = ("_do", "arguments", "method")

    def __init__(self, method: str, arguments: Any, do: Callable[[Frontier, Any], Any]) -> None:
        self.method = method
        self.arguments = arguments
        self._do = do

    def __call__(self, frontier: Frontier) -> Any:
        """Do it; return the reply, encoded before other calls change its objects."""
        return self._do(frontier, self.arguments)


# -- arguments


def decode(method: protocol.Method) -> Callable[[msgspec.Raw], Any]:
    """Return the decoder of the arguments of a method. Raises msgspec.DecodeError.

    A URI with a field of another type is None: the engine refuses it, and the others of its batch are not affected.
    """
    typed: Callable[[msgspec.Raw], Any] = protocol.decoder(method.arguments)
    if method is protocol.FINISH_MANY:
        repaired = _repaired_ends
    elif method is protocol.EXCHANGE:
        repaired = partial(_with, 0, _repaired_ends)
    elif method.arguments is protocol.Uris:
        repaired = partial(_with, 0, _repaired_uris)
    else:
        return typed

    def tolerant(raw: msgspec.Raw) -> Any:
        try:
            return typed(raw)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return typed(repaired(raw))

    return tolerant


def _repaired_uris(raw: msgspec.Raw) -> msgspec.Raw:
    """Return a list of URIs with None in the place of each that cannot be decoded."""
    return _raw([each if _is_uri(each) else None for each in _items(raw)])


def _repaired_ends(raw: msgspec.Raw) -> msgspec.Raw:
    """Return a list of ends of leases with None in the place of each URI discovered that cannot be decoded."""
    return _raw([_repaired_end(each) for each in _items(raw)])


def _repaired_end(raw: msgspec.Raw) -> msgspec.Raw:
    try:
        return _with(_DISCOVERED, _repaired_uris, raw)
    except msgspec.DecodeError:  # a bare id
        return raw


def _with(place: int, repaired: Callable[[msgspec.Raw], msgspec.Raw], raw: msgspec.Raw) -> msgspec.Raw:
    """Return a struct with one of its fields repaired, if it has that."""
    fields = _items(raw)
    fields[place : place + 1] = map(repaired, fields[place : place + 1])
    return _raw(fields)


def _raw(items: list[Any]) -> msgspec.Raw:
    return msgspec.Raw(protocol.encode(items))


def _is_uri(raw: msgspec.Raw) -> bool:
    try:
        _uri(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


# -- calls


def connected(asked: protocol.Connect, *, folder: str, settings: Settings) -> protocol.Connected:
    """Return the answer to the first exchange. Raises FrontierError if the versions do not fit."""
    if asked.version != protocol.VERSION:
        raise FrontierError(
            f"the client speaks version {asked.version} of the protocol, the server version {protocol.VERSION}: "
            "use the same release of budgetfrontier for both"
        )
    return protocol.Connected(protocol.VERSION, folder, msgspec.Raw(protocol.encode(settings)))


def schedule_many(frontier: Frontier, batch: protocol.Uris) -> Tally:
    """Schedule URIs; count the results."""
    if batch.brought:
        return frontier.internals.admit(batch.uris, found=False)
    return frontier.schedule_many(batch.uris)  # type: ignore[arg-type]  # None is INVALID


def schedule_each(frontier: Frontier, batch: protocol.Uris) -> list[Admission]:
    """Schedule URIs; return the result of each."""
    return frontier.schedule_each(batch.uris)  # type: ignore[arg-type]


def mark_seen(frontier: Frontier, batch: protocol.Uris) -> Tally:
    return frontier.mark_seen(batch.uris, charge=batch.charge)  # type: ignore[arg-type]


def admit_many(frontier: Frontier, batch: protocol.Uris) -> Tally:
    """Schedule URIs while there is room; count the results."""
    return capacity.admit_many(frontier, batch.uris, batch.maxsize)  # type: ignore[arg-type]


def admit_each(frontier: Frontier, batch: protocol.Uris) -> protocol.Admitted:
    """Schedule URIs while there is room; return the result of each."""
    results = capacity.admit_each(frontier, batch.uris, batch.maxsize, again=batch.again)  # type: ignore[arg-type]
    failures = {place: str(each) for place, each in enumerate(results) if isinstance(each, PolicyError)}
    admissions = [Admission.INVALID if isinstance(each, PolicyError) else each for each in results]
    return protocol.Admitted(admissions, failures)


def lease(frontier: Frontier, wanted: protocol.Wanted) -> tuple[bytes, float | None]:
    """Lease URIs; return them encoded, and the seconds until there may be one if there is none now.

    Leases that make the reply too large are given back.
    """
    leases = frontier.lease(min(wanted.count, protocol.MOST_ITEMS), ttl=wanted.ttl)
    reply = protocol.encode(leases)
    while len(reply) > protocol.MOST_BYTES and len(leases) > 1:
        leases, rest = leases[: len(leases) // 2], leases[len(leases) // 2 :]
        frontier.give_back(rest)
        reply = protocol.encode(leases)
    return reply, 0.0 if leases else frontier.next_ready_in()


def finish_many(frontier: Frontier, ended: list[int | protocol.Ended]) -> list[int]:
    """End leases; return the positions of ended ones, and of those given twice."""
    finished = [_lease(each) if each.__class__ is int else _finish(each) for each in ended]  # type: ignore[arg-type]
    late = frontier.finish_many(finished)
    if not late:
        return []
    places = {id(each.lease if isinstance(each, Finish) else each): place for place, each in enumerate(finished)}
    return [places[id(each)] for each in late]


def exchange(frontier: Frontier, given: protocol.Exchange) -> tuple[list[int], msgspec.Raw]:
    """End leases, and lease URIs: one commit for both. If a policy fails for a lease, there is none."""
    late = finish_many(frontier, given.ended)
    try:
        leases, _ = lease(frontier, given.wanted)
    except PolicyError:  # the next lease raises it, too; the ends must be returned
        leases = protocol.encode([])
    return late, msgspec.Raw(leases)


def renew(frontier: Frontier, renewal: protocol.Renewal) -> protocol.Renewed:
    """Set the deadlines of leases."""
    expires, late = 0.0, []
    for place, lease_id in enumerate(renewal.leases):
        named = _lease(lease_id)
        try:
            frontier.renew(named, renewal.ttl)
        except LeaseExpired:
            late.append(place)
        else:
            expires = named.expires
    return protocol.Renewed(expires, late)


def give_back(frontier: Frontier, leases: list[int]) -> list[int]:
    """Give leases back uncounted; return the positions of ended ones."""
    named = [_lease(each) for each in leases]
    places = {id(each): place for place, each in enumerate(named)}
    return [places[id(each)] for each in frontier.give_back(named)]


def landed(frontier: Frontier, landings: list[protocol.Landing]) -> list[int]:
    """Note that downloads are over; return the positions of leases that had ended."""
    late = []
    for place, each in enumerate(landings):
        try:
            frontier.landed(_lease(each.lease), fetch_seconds=each.fetch_seconds, crawl_delay=each.crawl_delay)
        except LeaseExpired:
            late.append(place)
    return late


def set_budgets(frontier: Frontier, asked: list[protocol.Budget]) -> None:
    """Set the total budgets of the queues of URIs, as crawlers ask for them."""
    internals = frontier.internals
    for each in asked:
        with suppress(ValueError):  # it has no queue
            queue = internals.queue_key(CrawlUri(each.url, queue=each.queue))
            internals.regulate(queue, total_budget=each.total)


def plain(frontier: Frontier, request: protocol.MethodCall, method: protocol.Method) -> Any:
    """Call a method of the frontier with plain data. Raises FrontierError if it is not offered."""
    offered = protocol.PLAIN.get(request.name)
    if offered is None or offered.method is not method:
        raise FrontierError(
            f"this server has no {method.name} {request.name[:50]!r}: use the same release of budgetfrontier for both"
        )
    found = getattr(frontier.internals if offered.is_internal else frontier, request.name, None)
    if found is None:
        raise FrontierError(f"{request.name} is for crawls in partitions, and this is a frontier of its own")
    if request.name == "queue_key":  # takes a URI, which is no plain data: its URL and queue stand for it
        return found(CrawlUri(*request.positional, **request.named))
    if request.name == "rest":
        url, *others = request.positional
        return found(CrawlUri(url), *others, **request.named)
    return found if offered.is_property else found(*request.positional, **request.named)


def _lease(lease_id: int) -> Lease:
    return Lease(lease_id, "", _NO_URI, 0, 0.0, 0)


def _finish(ended: protocol.Ended) -> Finish:
    return Finish(
        _lease(ended.id),
        ended.outcome,
        fetch_seconds=ended.fetch_seconds,
        crawl_delay=ended.crawl_delay,
        discovered=ended.discovered,  # type: ignore[arg-type]  # None is INVALID
        reason=ended.reason,
        delay=ended.delay,
        retire_queue=ended.retire_queue,
        size=ended.size,
        status=ended.status,
        novel=ended.novel,
        address=ended.address,
        digest=ended.digest,
    )


CALLS: dict[str, Callable[[Frontier, Any], Any]] = {
    protocol.SCHEDULE_MANY.name: schedule_many,
    protocol.SCHEDULE_EACH.name: schedule_each,
    protocol.MARK_SEEN.name: mark_seen,
    protocol.ADMIT_MANY.name: admit_many,
    protocol.ADMIT_EACH.name: admit_each,
    protocol.FINISH_MANY.name: finish_many,
    protocol.EXCHANGE.name: exchange,
    protocol.RENEW.name: renew,
    protocol.GIVE_BACK.name: give_back,
    protocol.LANDED.name: landed,
    protocol.SET_BUDGETS.name: set_budgets,
    protocol.STEER.name: partial(plain, method=protocol.STEER),
    protocol.LOOK.name: partial(plain, method=protocol.LOOK),
}
"""The calls by the name of the method; `Connect`, `Lease` and `Leave` need more than a frontier and arguments."""
