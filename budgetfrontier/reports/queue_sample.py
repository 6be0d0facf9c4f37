"""Samples of the URIs of one queue, spread over all of it at random places."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise

from budgetfrontier.core.model import QueueRecord
from budgetfrontier.storage import keys
from budgetfrontier.storage.view import PendingUri, View, pending_uri

FOR_PATTERNS = 3000
"""The URIs from which the patterns of a queue's paths are taken."""

WALKED = 100_000
"""Keys that are passed one by one, at 0.1 us each; later ones are jumped to."""


def spread(view: View, queue: QueueRecord, count: int) -> list[PendingUri]:
    """Return `count` URIs at random, one of each of so many equal parts of the queue, in its order, with their places.

    URIs at equal distances would be of one kind where kinds take turns. The same queue has the same sample. Of a queue
    with more than WALKED URIs, the places after these are not known, and 0.
    """
    if queue.queued <= 0 or count <= 0:
        return []
    chance, walked = random.Random(queue.id), min(queue.queued, WALKED)
    first = max(count * walked // queue.queued, 1)
    places = chosen_places(walked, first, chance)
    found = [
        pending_uri(queue, key[4:], _value(view, key), place=place)
        for place, key in zip(places, _at(_keys(view, queue), places), strict=False)
    ]
    return found + _jumped(view, queue, count - first, chance) if queue.queued > WALKED else found


def chosen_places(length: int, count: int, chance: random.Random) -> list[int]:
    """Return `count` places below `length` in order, one at random in each of so many equal parts; all if it is less.

    >>> [place // 10 for place in chosen_places(50, 5, random.Random(1))]
    [0, 1, 2, 3, 4]
    """
    if length <= count:
        return list(range(length))
    edges = [length * number // count for number in range(count + 1)]
    return [chance.randrange(low, high) for low, high in pairwise(edges)]


def _at(keys_: Iterator[bytes], places: Sequence[int]) -> Iterator[bytes]:
    """Yield the keys at places, which are in order."""
    for before, place in pairwise((-1, *places)):
        key = next(islice(keys_, place - before - 1, None), None)
        if key is None:
            return
        yield key


def _keys(view: View, queue: QueueRecord) -> Iterator[bytes]:
    cursor, prefix = view.txn.cursor(view.db[keys.PENDING]), keys.u32.pack(queue.id)
    if cursor.set_range(prefix):
        for key in cursor.iternext(values=False):
            if key[:4] != prefix:
                return
            yield key


def _value(view: View, key: bytes) -> bytes:
    return view.txn.get(key, db=view.db[keys.PENDING]) or b""


def _jumped(view: View, queue: QueueRecord, count: int, chance: random.Random) -> list[PendingUri]:
    """Return URIs at random keys after the first WALKED ones, one in each of `count` equal ranges of keys as numbers.

    Where keys are dense, URIs are as likely as each other; those after a gap are a little more likely.
    """
    cursor, prefix = view.txn.cursor(view.db[keys.PENDING]), keys.u32.pack(queue.id)
    first = next(islice(_keys(view, queue), WALKED - 1, None), None)
    end = cursor.prev() if cursor.set_range(keys.u32.pack(queue.id + 1)) else cursor.last()
    if first is None or not end or cursor.key()[:4] != prefix:
        return []
    low, high = int.from_bytes(first, "big") + 1, int.from_bytes(cursor.key(), "big") + 1
    found: dict[bytes, PendingUri] = {}
    for number in chosen_places(high - low, count, chance):
        if cursor.set_range((low + number).to_bytes(len(first), "big")):
            key, value = cursor.item()
            if key[:4] == prefix:
                found[key] = pending_uri(queue, key[4:], value)
    return list(found.values())
