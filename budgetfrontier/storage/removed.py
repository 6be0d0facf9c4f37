"""The table `removed`: what commands have deleted or changed, which `undo` reads: records as they were, in blocks.

Each command, and each undo that keeps something itself, has its blocks under a number of its own. Its audit entry has
that number, and the bytes of its blocks; while it is in progress, its progress has both. An undo takes out the blocks
as it puts their records back.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from budgetfrontier.core.converters import converter
from budgetfrontier.rules.undoing import ENDING
from budgetfrontier.storage import keys, meta
from budgetfrontier.storage.encoding import decoder
from budgetfrontier.storage.records import AuditEntry, decode_dead, decode_future, decode_url
from budgetfrontier.storage.uri_values import check_url, expand, restore_uri
from budgetfrontier.storage.view import View

_LAST = (1 << 32) - 1
UNRECORDED = b"\0"
"""The value, in a block, of a fingerprint that was not in the table `seen`: a row of `urls` alone knew its URL."""


class Look(msgspec.Struct, array_like=True, gc=False):
    """A queue as a deletion left it, for `undo` to see whether it has changed since.

    `retired` is None if only URIs scheduled for later were deleted from it; `emptied` is the number of URIs that were
    ever placed on it, if the deletion has left none, else None.
    """

    id: int
    name: str
    by_name: bool
    retired: bool | None = None
    emptied: int | None = None


class Block(msgspec.Struct, array_like=True):
    """Records deleted from one table in one step, and their queues, in the order of the records."""

    table: str
    queues: list[Look]
    records: list[tuple[bytes, bytes]]


class _BlockQueues(msgspec.Struct, array_like=True):
    """The first fields of a Block."""

    table: str
    queues: list[Look]


class ChangedQueue(NamedTuple):
    """A queue that a command has changed, as it was and as it was left: the value of a record of `queues`."""

    queue: str
    before: dict[str, Any]
    after: dict[str, Any]


class Kept(msgspec.Struct):
    """The place of what a command has kept: the number of its blocks, and their bytes."""

    number: int
    bytes: int


class Needed(NamedTuple):
    """The records kept by a command that can be undone: its audit entry (0: it is in progress), and the place.

    `is_whole`: whether all of it is there, because no undo of it has begun.
    """

    entry: int
    kept: Kept
    is_whole: bool


decode_block = decoder(Block)
_decode_queues = decoder(_BlockQueues)
decode_changed: Callable[[bytes], ChangedQueue] = msgspec.msgpack.Decoder(ChangedQueue).decode
convert_kept: Callable[[Any], Kept] = converter(Kept)


def kept(effect: dict[str, Any]) -> Kept | None:
    """Return the place of what a command with this effect has kept; None if it kept nothing."""
    found = effect.get("kept")
    try:
        return None if found is None else convert_kept(found)
    except msgspec.ValidationError:
        return None


def end(view: View, number: int) -> int:
    """Return the place behind the last block under a number; 0 if there is none. O(log n)."""
    cursor = view.txn.cursor(view.db[keys.REMOVED])
    there = cursor.set_range(keys.removed.pack(number, _LAST))
    if cursor.prev() if there else cursor.last():
        last, place = (0, 0) if cursor.key() == keys.SENTINEL else keys.removed.unpack(cursor.key())
        return place + 1 if last == number else 0
    return 0


def values(view: View, number: int, start: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield the blocks under a number that are there, encoded, with their places in the sequence, from one on."""
    for key, value in view.items(keys.REMOVED, keys.removed.pack(number, start)):
        of, place = keys.removed.unpack(key)
        if of != number:
            return
        yield place, value


def blocks(view: View, number: int) -> Iterator[Block]:
    """Yield the blocks under a number that are there."""
    return (decode_block(value) for _, value in values(view, number))


def queues(view: View, number: int) -> Iterator[list[Look]]:
    """Yield the queues of the blocks under a number that are there; their records are not decoded."""
    return (_decode_queues(value).queues for _, value in values(view, number))


def uris_of(block: Block) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield the URIs of a block, which has none unless they were deleted: queue, rank and value."""
    for key, value in block.records:
        if block.table == keys.PENDING:
            yield keys.u32.unpack(key[:4])[0], key[4:], value
        elif block.table == keys.FUTURE:
            row = decode_future(value)
            yield row.queue, row.rank, row.value


def blocks_of(view: View, number: int, queue_id: int, limit: int) -> Iterator[Block | None]:
    """Yield the first blocks under a number that have records of a queue, and None for each of the others."""
    for _, value in islice(values(view, number), limit):
        yield decode_block(value) if any(look.id == queue_id for look in _decode_queues(value).queues) else None


def changed_queue(view: View, number: int, queue_id: int) -> ChangedQueue | None:
    """Return what a command on queues has kept of one of them; None if nothing. O(log n) blocks.

    They are in the order of the ids of the queues; an undo in progress has taken out the first blocks.
    """

    def records(place: int) -> list[tuple[bytes, bytes]]:
        value = view.txn.get(keys.removed.pack(number, place), db=view.db[keys.REMOVED])
        return [] if value is None else decode_block(value).records

    def first(place: int) -> bytes:
        found = records(place)
        return found[0][0] if found else keys.FIRST

    key = keys.u32.pack(queue_id)
    place = bisect_right(range(end(view, number)), key, key=first)
    value = dict(records(place - 1)).get(key) if place else None
    return None if value is None else decode_changed(value)


def check_block(block: Block) -> None:
    """Raise ValueError, LookupError or Damage if a record of a block could not be put back."""
    names = {look.id: look.name for look in block.queues}
    for key, value in block.records:
        if block.table == keys.PENDING:
            check_url(restore_uri(key[4:], value, names[keys.u32.unpack(key[:4])[0]]).url)
        elif block.table == keys.FUTURE:
            keys.due.unpack(key)
            later = decode_future(value)
            check_url(restore_uri(later.rank, later.value, names[later.queue]).url)
        elif block.table == keys.DEAD:
            keys.u64.unpack(key)
            letter = decode_dead(value)
            check_url(restore_uri(letter.rank, letter.value, letter.name).url)
        elif block.table == keys.QUEUES:
            keys.u32.unpack(key)
            decode_changed(value)
        elif block.table not in (keys.SEEN, keys.URLS) or len(key) != keys.FINGERPRINT:
            raise ValueError(f"a record of {block.table!r} under {key.hex()}")
        elif block.table == keys.URLS:
            row = decode_url(value)
            check_url(expand(row.url, names[row.queue]))
        elif value not in (b"", UNRECORDED):
            raise ValueError(f"seen {key.hex()} has a value")


def counts(entry: AuditEntry, end: AuditEntry | None) -> bool:
    """Return whether an entry has undone or discarded another one; `end` is the entry that ended it, if any.

    An undo that was undone does not count; one that can no longer be undone does, and so does one on many queues: the
    undo of it restores those that it has left.
    """
    return (
        entry.command in ENDING
        and not entry.error
        and (end is None or end.command == "discard" or "left" in end.effect)
    )


def ended(view: View, number: int) -> dict[int, AuditEntry]:
    """Return which entries from a number on were undone or discarded, and by which. O(later entries)."""
    found: dict[int, AuditEntry] = {}
    for entry in view.newest_commands():
        if entry.id <= number:
            break
        if counts(entry, found.get(entry.id)):
            found |= dict.fromkeys(ended_by(entry) - found.keys(), entry)
    return found


def ended_by(entry: AuditEntry) -> set[int]:
    """Return the entries that an undo or a discard is about: several, if it has undone a list of adjustments."""
    return {int(entry.args["id"]), *entry.effect.get("entries", ())}


def needed(view: View) -> Iterator[Needed]:
    """Yield what commands that can be undone have kept, the newest first. O(audit)."""
    begun, own = meta.read_begun(view.txn, view.db[keys.META]), 0
    done: set[int] = set()
    tried: set[int] = set()
    if begun is not None:
        command, progress = begun
        if command.op in ENDING:
            tried.add(int(command.args["id"]))
        if (found := kept(progress.effect)) is not None:
            own = found.number
            yield Needed(0, found, True)
    for entry in view.newest_commands():
        if entry.command in ENDING:
            (tried if entry.error else done).add(int(entry.args["id"]))
        found = None if entry.id in done else kept(entry.effect)
        if found is not None and found.number != own:  # else it is of the entry that the command in progress continues
            yield Needed(entry.id, found, entry.id not in tried)
