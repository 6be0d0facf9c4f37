"""The files of deleted records, which `undo` reads: records as they were in their tables, in blocks with checksums.

Each command, and each undo of an import, has a file of its own in the folder `removed` of a
frontier, to which blocks are appended. Its audit entry has the number of the file, and how much of it counts; while the
command is in progress, its progress has both. Bytes beyond that were written, but not committed.
"""

from __future__ import annotations

import logging
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import Any, BinaryIO

import msgspec

from budgetfrontier.core.converters import converter
from budgetfrontier.errors import NO_ROOM, FrontierError, StorageFull
from budgetfrontier.rules.undoing import ENDING
from budgetfrontier.storage import keys, meta
from budgetfrontier.storage.damage import Damage
from budgetfrontier.storage.encoding import decoder, encode
from budgetfrontier.storage.lmdb_env import opened_copy, sync_folder
from budgetfrontier.storage.modes import make_folder, opener
from budgetfrontier.storage.records import AuditEntry
from budgetfrontier.storage.view import View

FOLDER = "removed"
_CHUNK = 1 << 20
_HEAD = Struct(">II")  # length and CRC-32 of the block that follows

log = logging.getLogger("budgetfrontier.store")


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


class Kept(msgspec.Struct):
    """The place of a command's deleted records: the number of its file, and the length that counts."""

    file: int
    bytes: int


_decode_block = decoder(Block)
convert_kept: Callable[[Any], Kept] = converter(Kept)


def file_name(number: int) -> str:
    """Return the name of the file of a command."""
    return f"{number}.deleted"


def number_of(name: str) -> int | None:
    """Return the number of a file; None for a name that is not one of these."""
    digits, _, end = name.partition(".")
    return int(digits) if end == "deleted" and digits.isascii() and digits.isdigit() and len(digits) < 20 else None


def kept(effect: dict[str, Any]) -> Kept | None:
    """Return the place of the records that a command with this effect deleted; None if it kept none."""
    found = effect.get("kept")
    try:
        return None if found is None else convert_kept(found)
    except msgspec.ValidationError:
        return None


def encode_block(block: Block) -> bytes:
    """Return a block with its length and checksum."""
    value = encode(block)
    return _HEAD.pack(len(value), zlib.crc32(value)) + value


def read_block(file: BinaryIO, at: int, end: int) -> tuple[Block, int]:
    """Return the block at an offset, and the offset of the next one; the last ends at `end`. Raises Damage."""
    file.seek(at)
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size:
        raise Damage(f"it ends at byte {at + len(head):,} of {end:,}")
    size, checksum = _HEAD.unpack(head)
    following = at + _HEAD.size + size
    if following > end:
        raise Damage(f"the block at byte {at:,} goes beyond the end")
    value = file.read(size)
    if len(value) < size or zlib.crc32(value) != checksum:
        raise Damage(f"the block at byte {at:,} is damaged")
    return _decode_block(value), following


def read_kept(folder: Path, found: Kept, at: int) -> tuple[Block, int]:
    """Return the block at an offset of a file, and the offset of the next one. Raises FrontierError."""
    path = folder / file_name(found.file)
    try:
        with open(path, "rb") as file:
            return read_block(file, at, found.bytes)
    except (OSError, Damage) as e:
        raise FrontierError(f"what was deleted cannot be read: {path}: {e}; restore a backup of it") from None


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
            found.setdefault(int(entry.args["id"]), entry)
    return found


def needed(view: View) -> Iterator[tuple[int, Kept]]:
    """Yield the deleted records of commands that can be undone, by audit entry; 0: it is in progress. O(audit)."""
    begun = meta.read_begun(view.txn, view.db[keys.META])
    found = None if begun is None else kept(begun[1].effect)
    if found is not None:
        yield 0, found
    done: set[int] = set()
    for entry in view.newest_commands():
        if entry.command in ENDING and not entry.error:
            done.add(int(entry.args["id"]))
        if entry.id not in done and (found := kept(entry.effect)) is not None:
            yield entry.id, found


def files(path: Path) -> dict[int, Path]:
    """Return the files of a frontier, by their numbers."""
    folder = path / FOLDER
    found = ((number_of(file.name), file) for file in (folder.iterdir() if folder.is_dir() else ()))
    return {number: file for number, file in found if number is not None}


def size(path: Path) -> int:
    """Return the bytes of the files of a frontier. O(files)."""
    total = 0
    for file in files(path).values():
        with suppress(FileNotFoundError):  # its command was undone meanwhile
            total += file.stat().st_size
    return total


def readable(path: Path, found: Kept) -> tuple[int, str]:
    """Return how many bytes of a file can be read, in whole blocks, and why no more. O(file), one block in memory."""
    at = 0
    try:
        with open(path / FOLDER / file_name(found.file), "rb") as file:
            while at < found.bytes:
                _, at = read_block(file, at, found.bytes)
    except (Damage, OSError) as e:
        return at, str(e.strerror if isinstance(e, OSError) else e)
    return at, ""


# -- copies


def copy_removed(path: Path, folder: Path, held: dict[int, BinaryIO]) -> None:
    """Copy the deleted records that the copy of the data file in `folder` needs for `undo`. Raises StorageFull.

    `held` are the files that existed before the copy began. A file that cannot be read is left out, with a warning.
    """
    if not held and not files(path):
        return
    with opened_copy(folder) as env, env.begin() as txn:
        db = {name: env.open_db(name.encode(), txn=txn, create=False) for name in (keys.META, keys.AUDIT)}
        wanted = [found for _, found in needed(View(txn, db))]
    made = folder / FOLDER
    for found in wanted:
        make_folder(made, like=folder)
        name = file_name(found.file)
        try:
            source = held.get(found.file) or open(path / FOLDER / name, "rb")  # noqa: SIM115
            with source:
                _copy_start(source, made / name, found.bytes)
        except OSError as e:
            if e.errno in NO_ROOM:
                raise StorageFull(f"the disk of {folder} is full; the copy is not made, {path} is as it was") from e
            log.warning("%s is not in the copy, so that `undo` cannot put back what it has: %s", name, e)
            (made / name).unlink(missing_ok=True)
    if wanted:
        sync_folder(made)


def _copy_start(source: BinaryIO, target: Path, size: int) -> None:
    with open(target, "xb", buffering=0, opener=opener) as file:
        while size and (chunk := source.read(min(size, _CHUNK))):
            size -= len(chunk)
            while chunk:
                chunk = chunk[file.write(chunk) :]
        os.fsync(file.fileno())
