"""Samples of the URIs of one queue: the first ones, and ones spread over all of it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from budgetfrontier.core.model import QueueRecord
from budgetfrontier.storage import keys
from budgetfrontier.storage.view import PendingUri, View, pending_uri

FOR_PATTERNS = 3000
"""The URIs from which the patterns of a queue's paths are taken."""

WALKED = 100_000
"""Keys that are passed one by one, at 0.1 us each; later ones are jumped to."""


def spread(view: View, queue: QueueRecord, count: int) -> list[PendingUri]:
    """Return `count` URIs at about equal distances in the order of the queue, with their places.

    Of a queue with more than WALKED URIs, the places after these are not known, and 0.
    """
    if queue.queued <= 0 or count <= 0:
        return []
    step = max(-(-min(queue.queued, WALKED) // count), 1)
    found = [
        pending_uri(queue, key[4:], _value(view, key), place=place * step)
        for place, key in enumerate(islice(_keys(view, queue), 0, WALKED, step))
    ]
    if queue.queued > WALKED:
        found = found[::2] + _jumped(view, queue, found[-1], count - len(found[::2]))
    return found[:count]


def _keys(view: View, queue: QueueRecord) -> Iterator[bytes]:
    cursor, prefix = view.txn.cursor(view.db[keys.PENDING]), keys.u32.pack(queue.id)
    if cursor.set_range(prefix):
        for key in cursor.iternext(values=False):
            if key[:4] != prefix:
                return
            yield key


def _value(view: View, key: bytes) -> bytes:
    return view.txn.get(key, db=view.db[keys.PENDING]) or b""


def _jumped(view: View, queue: QueueRecord, after: PendingUri, count: int) -> list[PendingUri]:
    """Return URIs at keys between the last one walked to and the end, at equal distances of the keys as numbers."""
    cursor, prefix = view.txn.cursor(view.db[keys.PENDING]), keys.u32.pack(queue.id)
    first = next(islice(_keys(view, queue), WALKED - 1, None), None)
    end = cursor.prev() if cursor.set_range(keys.u32.pack(queue.id + 1)) else cursor.last()
    if first is None or not end or cursor.key()[:4] != prefix:
        return []
    low, high = int.from_bytes(first, "big"), int.from_bytes(cursor.key(), "big")
    found: dict[bytes, PendingUri] = {}
    for number in range(1, count + 1):
        if cursor.set_range((low + (high - low) * number // count).to_bytes(len(first), "big")):
            key, value = cursor.item()
            if key[:4] == prefix:
                found[key] = pending_uri(queue, key[4:], value)
    return list(found.values())
