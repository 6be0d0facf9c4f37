"""What the tables hold, and how it is written: msgpack arrays, so that fields appended later decode with defaults."""

from __future__ import annotations

from typing import Any

import msgspec

from budgetfrontier.model import CrawlState, CrawlUri, DeadLetter, Directive, Lease, QueueRecord
from budgetfrontier.store import keys


class Counters(msgspec.Struct, array_like=True, gc=False):
    """The totals of a frontier and the numbers it gives out next; one record, written with every commit."""

    state: CrawlState = CrawlState.NEW
    pause_reason: str | None = None
    queued: int = 0
    """URIs in queues that are not RETIRED."""
    scheduled: int = 0
    succeeded: int = 0
    failed: int = 0
    retried: int = 0
    deferred: int = 0
    disregarded: int = 0
    duplicates: int = 0
    expenditure: int = 0
    future: int = 0
    future_retired: int = 0
    """Those of `future` that wait for a RETIRED queue."""
    queues: int = 0
    ready: int = 0
    in_process: int = 0
    snoozed: int = 0
    inactive: int = 0
    retired: int = 0
    leases: int = 0
    epoch: int = 0
    revision: int = 1
    ordinal: int = 0
    queue_id: int = 0
    ring_front: int = 1 << 63
    """The lowest position given out in the ring; queues that come back first go before it."""
    ring_back: int = 1 << 63
    fifo_back: int = 0
    retired_back: int = 0
    audit: int = 0
    command: int = 0
    """The last command of the mailbox that was applied."""
    settings_revision: int = 1


class LeaseRow(msgspec.Struct, array_like=True, gc=False):
    """A lease that was out at a commit."""

    queue: int
    key: bytes
    expires: float


class FutureRow(msgspec.Struct, array_like=True, gc=False):
    """A URI that waits for its time. `place` is kept by a retry, and empty for one that never was in its queue."""

    queue: int
    place: bytes
    value: bytes


class DeadRow(msgspec.Struct, array_like=True, gc=False):
    """A dead letter: the pending record as it was, and why."""

    queue: int
    name: str
    place: bytes
    value: bytes
    reason: str
    time: float


class AuditEntry(msgspec.Struct, array_like=True, gc=False):
    """One command that was applied: who asked for what, when, why, and what came of it.

    `id` counts the entries, `number` is the command's in the mailbox, 0 when it came through the API. `effect` holds
    before and after; `error` is the message of a command that was refused.
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


encode = msgspec.msgpack.Encoder().encode
decode_uri = msgspec.msgpack.Decoder(CrawlUri).decode
decode_queue = msgspec.msgpack.Decoder(QueueRecord).decode
decode_counters = msgspec.msgpack.Decoder(Counters).decode
decode_lease = msgspec.msgpack.Decoder(LeaseRow).decode
decode_future = msgspec.msgpack.Decoder(FutureRow).decode
decode_dead = msgspec.msgpack.Decoder(DeadRow).decode
decode_audit = msgspec.msgpack.Decoder(AuditEntry).decode

# The fields of a CrawlUri that live in the key of its pending record come last, so that a record leaves them out.
_STORED = ("url", "via", "hops", "source", "method", "headers", "body", "meta", "payload", "force", "queue")
_DEFAULTS = (None, "", None, "GET", None, b"", None, None, False, None)


def encode_uri(uri: CrawlUri, url: str) -> bytes:
    """A pending record's value: `uri` under its normalized `url`, without the defaults at the end."""
    fields = [getattr(uri, name) for name in _STORED[1:]]
    while fields and fields[-1] == _DEFAULTS[len(fields) - 1]:
        fields.pop()
    return keys.FRESH + encode((url, *fields))


def restore_uri(place: bytes, value: bytes) -> CrawlUri:
    """The CrawlUri of a pending record, from its place (the key without the queue) and value."""
    uri = decode_uri(value[4:])
    directive, inverted, uri.cost, _ = keys.place.unpack(place)
    uri.directive = Directive(directive)
    uri.priority = keys.priority_of(inverted)
    return uri


def restore_lease(lease_id: int, row: LeaseRow, queue: QueueRecord, value: bytes) -> Lease:
    """A lease of an earlier run, from its row and the record of its URI."""
    attempts, deliveries = keys.delivery.unpack_from(value)
    uri = restore_uri(row.key[4:], value)
    cost = uri.cost or 0
    return Lease(lease_id, queue.queue, uri, cost, row.expires, deliveries + 1, attempts + 1, queue.id, row.key)


def dead_letter(ordinal: int, row: DeadRow) -> DeadLetter:
    """A dead letter as the API shows it."""
    attempts, deliveries = keys.delivery.unpack_from(row.value)
    uri = restore_uri(row.place, row.value)
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
