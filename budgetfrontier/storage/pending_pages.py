"""Pages of pending and future URIs, each read from its own snapshot, so that none is held while a page is used."""

from __future__ import annotations

from itertools import islice

from budgetfrontier.core.model import QueueRecord
from budgetfrontier.storage import keys
from budgetfrontier.storage.view import PendingUri, View, pending_uri

_ORDINAL = keys.pending_start.size  # its offset in a key


def pending(view: View, queue: QueueRecord, start: bytes, limit: int) -> tuple[list[PendingUri], bytes | None]:
    """Return the first `limit` URIs of a queue from the key `start` on (empty: all), and the key of the next.

    `place` and `leased` are not set.
    """
    found = list(islice(view.pending_items(keys.u32.pack(queue.id), start), limit + 1))
    rest = found.pop()[0] if len(found) > limit else None
    return [pending_uri(queue, key[4:], value) for key, value in found], rest


def by_arrival(view: View, queue: QueueRecord, start: bytes, limit: int) -> tuple[list[PendingUri], bytes | None]:
    """Return the same as `pending`, except that URIs of equal rank but for their arrival are in the order of arrival.

    With `order: lifo`, the latest of several equals has the lowest key, and its ordinal the first bit set: read
    backwards.
    """
    cursor, prefix = view.txn.cursor(view.db[keys.PENDING]), keys.u32.pack(queue.id)
    found: list[PendingUri] = []
    at = start or prefix
    while len(found) < limit:
        backwards = len(at) >= keys.pending.size and _is_lifo(at)
        if backwards:
            if not cursor.set_range(at):
                cursor.last()
            elif cursor.key() != at:
                cursor.prev()
        elif not cursor.set_range(at):
            return found, None
        key, value = cursor.item()
        if backwards and not (key[:_ORDINAL] == at[:_ORDINAL] and _is_lifo(key)):
            at = _step(at[:_ORDINAL], 1)  # to the next group of equals
            continue
        if key[:4] != prefix:
            return found, None
        if not backwards and _is_lifo(key):
            at = key[:_ORDINAL] + b"\xff" * 8
            continue
        found.append(pending_uri(queue, key[4:], value))
        at = _step(key, -1 if backwards else 1)
    return found, at


def _is_lifo(key: bytes) -> bool:
    return key[_ORDINAL : _ORDINAL + 1] >= b"\x80"


def _step(key: bytes, step: int) -> bytes:
    """Return the key that follows (1) or precedes (-1) a key."""
    return (int.from_bytes(key, "big") + step).to_bytes(len(key), "big")


def future(view: View, start: bytes, limit: int) -> tuple[list[PendingUri], bytes | None]:
    """Return the first `limit` URIs scheduled for later from the key `start` on (empty: all), and the next key."""
    found = list(islice(view.items(keys.FUTURE, start), limit + 1))
    rest = found.pop()[0] if len(found) > limit else None
    return [view.future_uri(key, value) for key, value in found], rest
