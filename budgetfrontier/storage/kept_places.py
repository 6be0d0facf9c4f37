"""The places of kept URLs: where a row of `urls` says that its URI waits, in `pending` or in `future`."""

from __future__ import annotations

from collections.abc import Callable

from budgetfrontier.storage import keys
from budgetfrontier.storage.records import UrlRow, decode_future
from budgetfrontier.storage.uri_values import decode_uri, expand

_IN_FUTURE = keys.u32.size + keys.due.size
"""The length of a place in `future`: the queue id, and the key there. One in `pending` is longer."""


def place_in_future(queue: int, key: bytes) -> bytes:
    """Return the place of the URI in `future` under a key."""
    return keys.u32.pack(queue) + key


def future_key(place: bytes) -> bytes | None:
    """Return the key in `future` of a place; None if it is one in `pending`, or none."""
    return place[keys.u32.size :] if len(place) == _IN_FUTURE else None


def waits_at(row: UrlRow, name: str, get: Callable[[str, bytes], bytes | None]) -> bool:
    """Return whether a row's place holds its URL, in the queue with the key `name`; `get` reads a table.

    Raises Damage if the record there cannot be read.
    """
    later = future_key(row.place)
    if later is None:
        queue_id, value = row.place[: keys.u32.size], get(keys.PENDING, row.place)
    else:
        stored = get(keys.FUTURE, later)
        found = None if stored is None else decode_future(stored)
        queue_id, value = (b"", None) if found is None else (keys.u32.pack(found.queue), found.value)
    return (
        value is not None
        and queue_id == keys.u32.pack(row.queue) == row.place[: keys.u32.size]
        and decode_uri(value, name).url == expand(row.url, name)
    )
