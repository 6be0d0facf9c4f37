"""The records of the tables and their encoding: msgpack arrays, in which missing last fields get their defaults."""

from __future__ import annotations

import struct
from collections.abc import Callable
from operator import attrgetter
from typing import Annotated, Any, TypeVar

import msgspec

from budgetfrontier.model import (
    CrawlState,
    CrawlUri,
    DeadLetter,
    Directive,
    KeyPosition,
    Number,
    QueueId,
    QueueRecord,
    RingPosition,
    RunRow,
    StoredLease,
)
from budgetfrontier.rules.uri_order import NORMAL, PRIORITY_ZERO, priority_of
from budgetfrontier.store import keys
from budgetfrontier.store.damage import Damage


class Counters(msgspec.Struct, array_like=True, gc=False):
    """The totals of a frontier and the last numbers it gave out: one record, written with every commit."""

    state: CrawlState = CrawlState.NEW
    pause_reason: str | None = None
    queued: Number = 0
    """URIs in queues that are not RETIRED."""
    scheduled: Number = 0
    succeeded: Number = 0
    failed: Number = 0
    retried: Number = 0
    deferred: Number = 0
    disregarded: Number = 0
    duplicates: Number = 0
    expenditure: Number = 0
    future: Number = 0
    future_retired: Number = 0
    """The part of `future` in RETIRED queues."""
    queues: Number = 0
    ready: Number = 0
    in_process: Number = 0
    snoozed: Number = 0
    inactive: Number = 0
    retired: Number = 0
    leases: Number = 0
    epoch: Annotated[int, msgspec.Meta(ge=0, lt=1 << 23)] = 0
    revision: Number = 1
    ordinal: KeyPosition = 0
    queue_id: Annotated[int, msgspec.Meta(ge=0, lt=(1 << 32) - 1)] = 0
    ring_front: RingPosition = 1 << 31
    """The lowest position given out in the ring; queues that return to the front are put before it."""
    ring_back: RingPosition = 1 << 31
    fifo_back: KeyPosition = 0
    retired_back: KeyPosition = 0
    audit: KeyPosition = 0
    command: KeyPosition = 0
    """The number of the last command of the mailbox that was applied."""
    settings_revision: Number = 1
    retired_by_name: Number = 0
    """The part of `retired` that no change of settings revives."""
    revived_upto: KeyPosition = 0
    """The position up to which a change of settings has revived RETIRED queues; `revive_upto` is the end (0: done)."""
    revive_upto: KeyPosition = 0
    regrade_precedence: Annotated[int, msgspec.Meta(ge=0, lt=1 << 16)] = 0
    """With the next two fields, the same for INACTIVE queues, if precedences may have changed."""
    regrade_position: KeyPosition = 0
    regrade_upto: Number = 0
    trying: int = 0
    """The number of the command that `starts` is about; 0 if it came through the API."""
    starts: int = 0
    """The number of successive processes that have worked on it without reaching the next commit."""
    ahead: list[int] = []
    """Numbers of commands after `command` that were applied before a long one was finished."""
    time: float = 0.0
    """The time of the last commit; if the clock is behind it at the next opening, it was set back."""
    bytes: Number = 0
    full: Number = 0
    invalid_reasons: dict[str, Number] = {}
    given_up: Number = 0
    failed_expenditure: Number = 0
    """With the next three, parts of `expenditure`; the rest was charged for SUCCESS."""
    retried_expenditure: Number = 0
    given_up_expenditure: Number = 0
    other_expenditure: Number = 0
    penalties: Number = 0
    buried: Number = 0
    expired: Number = 0
    robots_denials: Number = 0
    prerequisites: Number = 0


class LeaseRow(msgspec.Struct, array_like=True, gc=False):
    """A lease that was not finished at a commit."""

    queue: QueueId
    key: bytes
    expires: float
    landed: bool = False
    began: float = 0.0
    """When it was handed out; 0.0 if an older version wrote it."""


class FutureRow(msgspec.Struct, array_like=True, gc=False):
    """A URI scheduled for later. A retry has the `rank` that it had in its queue; for other URIs, its ordinal is 0."""

    queue: QueueId
    rank: bytes
    value: bytes


class DeadRow(msgspec.Struct, array_like=True, gc=False):
    """A dead letter: the pending record, and the reason."""

    queue: QueueId
    name: str
    rank: bytes
    value: bytes
    reason: str
    time: float


class StartedCommand(msgspec.Struct, array_like=True, gc=False):
    """A command in progress, which takes more than one step."""

    number: int
    op: str
    args: dict[str, Any]
    who: str
    reason: str
    upto: int
    """The last ordinal that was given out before it: it does not apply to newer URIs."""
    line: str = ""


class Progress(msgspec.Struct, array_like=True, gc=False):
    """The progress of such a command: its position, as plain data, and its effect so far."""

    at: list[Any]
    effect: dict[str, Any]


class AuditEntry(msgspec.Struct, array_like=True, gc=False):
    """A command that was applied: who gave it, when, why, and its effect.

    `id` counts the entries, `number` is that of the command in the mailbox, 0 if it came through the API. `effect` has
    the values before and after; `error` is the message if the command was refused.
    """

    id: int
    command: str
    args: dict[str, Any]
    who: str
    when: float
    reason: str
    effect: dict[str, Any]
    error: str | None = None
    number: int = 0
    line: str = ""
    """The command line, if it came from one."""


encode = msgspec.msgpack.Encoder().encode

_T = TypeVar("_T")


def decoder(kind: type[_T]) -> Callable[[bytes], _T]:
    """Return a decoder for one type of records, which raises Damage if it cannot decode a value."""
    decode = msgspec.msgpack.Decoder(kind).decode

    def decoded(value: bytes) -> _T:
        try:
            return decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
            raise Damage(str(e)) from None

    return decoded


decode_queue = decoder(QueueRecord)
_decode_anything = decoder(object)
decode_counters = decoder(Counters)
decode_lease = decoder(LeaseRow)
decode_future = decoder(FutureRow)
decode_dead = decoder(DeadRow)
decode_audit = decoder(AuditEntry)
decode_run = decoder(RunRow)
decode_begun = decoder(StartedCommand)
decode_progress = decoder(Progress)
_decode_fields = decoder(CrawlUri)


def salvage_queue(value: bytes) -> tuple[QueueRecord, list[str]]:
    """Decode the record of a queue for a repair; return also the names of unreadable fields, which get their defaults.

    Raises Damage if its key or its id cannot be read.
    """
    try:
        return decode_queue(value), []
    except Damage:
        pass  # decoding field by field is slower
    given, lost = _decode_anything(value), []
    if not isinstance(given, list) or len(given) < 2:
        raise Damage("not a record of a queue")
    found: dict[str, Any] = {}
    for field, part in zip(msgspec.structs.fields(QueueRecord), given, strict=False):
        try:
            found[field.name] = msgspec.convert(part, field.type)
        except msgspec.ValidationError as e:
            if field.required:
                raise Damage(str(e)) from None
            lost.append(field.name)
    return QueueRecord(**found), lost


# -- URLs relative to their queue

LONGEST_SHOWN = 1024  # characters of a URL in a queue's record: tens of thousands of records are in memory

_HTTP, _HTTPS, _WHOLE = "\1", "\2", "\0"
_SCHEMES = {_HTTP: "http://", _HTTPS: "https://"}


def shorten(url: str, queue: str) -> str:
    """Return the stored form of a URL in a queue: if its host is the queue's key, one character replaces the origin."""
    if url.startswith("https://"):
        mark, start = _HTTPS, 8
    elif url.startswith("http://"):
        mark, start = _HTTP, 7
    else:
        return _WHOLE + url if url[:1] <= _HTTPS and url else url
    end = start + len(queue)
    return mark + url[end:] if url.startswith("/", end) and url.startswith(queue, start) else url


def expand(url: str, queue: str) -> str:
    """Return the URL of which `shorten` returned this form."""
    if not url or url[0] > _HTTPS:
        return url
    return url[1:] if url[0] == _WHOLE else _SCHEMES[url[0]] + queue + url[1:]


# -- the values of `pending`
#
# The plain form, for a URL without further fields, is a byte for its scheme and the URL after the host. The other form
# is attempts and deliveries (two bytes each) and a CrawlUri without the defaults at its end.

PLAIN = {b"\xfe": "http://", b"\xff": "https://"}
PLAIN_FROM = b"\xfe"
"""Values from here on are plain URLs: they were never attempted, nor delivered."""
_PLAIN_MARK = {b"\xfe": _HTTP, b"\xff": _HTTPS}
MAX_ATTEMPTS = 0xFDFF  # so that the first byte differs from these

# Fields of a CrawlUri that are in the key of its pending record come last, so that the record leaves them out.
_STORED = ("url", "via", "hops", "source", "method", "headers", "body", "meta", "payload", "force", "queue")
_DEFAULTS = (None, "", None, "GET", None, b"", None, None, False, None)


def plain_start(prefix: str, queue: str) -> tuple[bytes | None, str]:
    """Return the first byte of plain values of a scheme and host (None: not plain), and the start of short URLs."""
    for mark, scheme in PLAIN.items():
        if prefix == scheme + queue:
            return mark, _PLAIN_MARK[mark]
    return None, prefix


_fields = attrgetter(*_STORED[1:])


def encode_url(url: str, queue: str) -> bytes:
    """Return the value of a URL without further fields."""
    short = shorten(url, queue)
    if short[0] == _HTTPS:
        return b"\xff" + short[1:].encode()
    if short[0] == _HTTP:
        return b"\xfe" + short[1:].encode()
    return keys.FRESH + encode((short,))


MAX_HOPS = 1024
"""The most characters of `hops` that are kept, the last ones, for endless chains of pages."""


def link_hops(via: CrawlUri) -> str:
    """Return the hops of a link on a page."""
    return (via.hops + "L")[-MAX_HOPS:]


def encode_found(short: str, via: str, hops: str) -> bytes:
    """Return the value of a URL found on the page `via`; both URLs are in their short form."""
    return keys.FRESH + encode((short, via, hops))


def encode_uri(uri: CrawlUri, url: str, queue: str) -> bytes:
    """Return the value of a CrawlUri under its normalized `url`."""
    fields: list[Any] = [*_fields(uri)]
    while fields and fields[-1] == _DEFAULTS[len(fields) - 1]:
        fields.pop()
    if not fields:
        return encode_url(url, queue)
    if fields[0] is not None:
        fields[0] = shorten(fields[0], queue)
    return keys.FRESH + encode((shorten(url, queue), *fields))


def decode_uri(value: bytes, queue: str) -> CrawlUri:
    """Return the CrawlUri of a value, without the fields that are in the key. Raises Damage."""
    scheme = PLAIN.get(value[:1])
    if scheme is not None:
        return CrawlUri(scheme + queue + value[1:].decode("latin-1"))  # the text is ASCII; Latin-1 never fails
    uri = _decode_fields(value[4:])
    if uri.url[:1] <= _HTTPS:
        uri.url = expand(uri.url, queue)
    if uri.via:
        uri.via = expand(uri.via, queue)
    return uri


def short_url(value: bytes) -> str:
    """Return the URL of a value in its short form."""
    mark = _PLAIN_MARK.get(value[:1])
    return mark + value[1:].decode("latin-1") if mark is not None else _decode_fields(value[4:]).url


def tries(value: bytes) -> tuple[int, int]:
    """Return the number of previous attempts and deliveries of a URI."""
    try:
        return (0, 0) if value[:1] in PLAIN else keys.delivery.unpack_from(value)
    except struct.error as e:
        raise Damage(f"{value.hex()}: {e}") from None


def with_tries(value: bytes, attempts: int, deliveries: int) -> bytes:
    """Return a value with these numbers of attempts and deliveries."""
    rest = encode((short_url(value),)) if value[:1] in PLAIN else value[4:]
    return keys.delivery.pack(min(attempts, MAX_ATTEMPTS), min(deliveries, 0xFFFF)) + rest


SCHEME_OF = {mark[0]: scheme for mark, scheme in PLAIN.items()}
LOW_COSTS = {keys.rank.pack(NORMAL, PRIORITY_ZERO, cost, 0)[:9]: cost for cost in range(1 << 10)}
"""The cost of a URI without a rank of its own, by the part of its key that tells both; those of higher costs are not
here."""
_NORMAL = keys.rank.pack(NORMAL, PRIORITY_ZERO, 0, 0)[:5]
_cost_of = keys.u32.unpack_from


def restore_pending(key: bytes, value: bytes, queue: str) -> CrawlUri:
    """Return the CrawlUri of a pending record, from its key and value, as it is leased. Raises Damage.

    What `restore_uri` does; a plain URL without a rank of its own, as most are, takes fewer steps.
    """
    if value >= PLAIN_FROM and key[4:9] == _NORMAL:
        return CrawlUri(f"{SCHEME_OF[value[0]]}{queue}{value[1:].decode('latin-1')}", cost=_cost_of(key, 9)[0])
    return restore_uri(key[4:], value, queue)


def restore_uri(rank: bytes, value: bytes, queue: str) -> CrawlUri:
    """Return the CrawlUri of a pending record, from its rank (the key without the queue) and value."""
    uri = decode_uri(value, queue)
    directive, inverted, uri.cost, _ = keys.rank.unpack(rank)
    if directive > Directive.NORMAL:
        raise Damage(f"{directive} is not a directive")
    uri.directive = Directive(directive)
    uri.priority = priority_of(inverted)
    return uri


def whole_queue(value: bytes) -> QueueRecord:
    """Decode a queue's record, with full URLs, as everything except the engine needs it."""
    return expanded(decode_queue(value))


def expanded(queue: QueueRecord) -> QueueRecord:
    """Expand the URLs of a record to their full form, and return it."""
    queue.last_enqueued = expand(queue.last_enqueued, queue.queue)
    queue.last_leased = expand(queue.last_leased, queue.queue)
    return queue


def restore_lease(lease_id: int, row: LeaseRow, queue: str, value: bytes) -> StoredLease:
    """Return a lease of an earlier run, from its row, the key of its queue and the value of its URI."""
    attempts, deliveries = tries(value)
    uri = restore_uri(row.key[4:], value, queue)
    cost = uri.cost or 0
    return StoredLease(
        lease_id, queue, uri, cost, row.expires, deliveries + 1, attempts + 1, row.queue, row.key, row.landed, row.began
    )


def dead_letter(ordinal: int, row: DeadRow) -> DeadLetter:
    """Return the public form of a dead letter."""
    attempts, deliveries = tries(row.value)
    uri = restore_uri(row.rank, row.value, row.name)
    return DeadLetter(
        id=ordinal,
        queue=row.name,
        uri=uri,
        cost=uri.cost or 0,
        reason=row.reason,
        time=row.time,
        deliveries=deliveries,
        attempts=attempts,
    )
