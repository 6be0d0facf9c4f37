"""The file of a Bloom filter, `seen-GENERATION.bloom` beside the data, as rbloom writes it.

A new generation is written and synced ahead of the commit whose record names it: `engine.seen_filter`.
"""

from __future__ import annotations

import errno
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import xxhash

from budgetfrontier.errors import NO_ROOM, CorruptFrontier, MissingExtra, StorageFull
from budgetfrontier.rules.duplicates import bloom_size
from budgetfrontier.storage import keys, meta
from budgetfrontier.storage.lmdb_env import opened_copy, sync_folder
from budgetfrontier.storage.modes import opener
from budgetfrontier.storage.records import FilterRow

if TYPE_CHECKING:
    from rbloom import Bloom

    from budgetfrontier.settings.schema import BloomSettings
    from budgetfrontier.storage.environment import Environment

_NAME = re.compile(r"seen-([0-9]{1,19})\.bloom")
_CHUNK = 1 << 20
REMEDY = (
    "restore a backup, or begin an empty filter with `budgetfrontier verify --repair`, after which URIs seen before "
    "may be fetched again"
)
_HEAD = 8  # bytes before the bits: the number of hashes
_DAMAGE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EIO)
"""The errors of a file that is damaged: it is not there, or the disk cannot read it. After others, it may be whole."""
_NUMBER_OF_ERROR = re.compile(r"\(os error (\d+)\)")


def new(bloom: BloomSettings) -> Bloom:
    """Return an empty filter. Raises MissingExtra."""
    try:
        from rbloom import Bloom
    except ImportError as error:
        raise MissingExtra("bloom") from error
    return Bloom(bloom.expected, bloom.error, _hash)


def read(folder: Path, row: FilterRow, bloom: BloomSettings) -> Bloom:
    """Return a filter from its file, which is as it was written. Raises MissingExtra, CorruptFrontier."""
    empty = new(bloom)
    if why := objection(folder, row, bloom):
        raise damaged(why)
    return type(empty).load(str(folder / _file_name(row.generation)), _hash)


def objection(folder: Path, row: FilterRow, bloom: BloomSettings | None = None) -> str:
    """Return what is wrong with the file of a filter, which is read as a whole; "" if it is as it was written.

    With `bloom`, its size has to be the one of these settings. Raises OSError for a file that may not be read.
    """
    path = folder / _file_name(row.generation)
    try:
        with open(path, "rb") as file:
            size, digest = _digest(file)
    except OSError as e:
        if e.errno not in _DAMAGE:
            raise
        return _damage(path, row, e.strerror or str(e))
    right = digest == row.digest and (bloom is None or size == _size(bloom))
    return "" if right else _damage(path, row, "its bytes are not those that were written")


def write(folder: Path, generation: int, bloom: Bloom) -> int:
    """Write and sync the file of a generation; return the digest of its bytes. Raises StorageFull, OSError."""
    path = folder / _file_name(generation)
    try:
        open(path, "wb", opener=opener).close()  # for its mode
        bloom.save(str(path))
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            digest = _digest(file)[1]
        sync_folder(folder)
    except OSError as e:
        with suppress(OSError):
            path.unlink()
        number = _NUMBER_OF_ERROR.search(str(e))  # rbloom gives it in the message alone
        if (int(number[1]) if number and e.errno is None else e.errno) in NO_ROOM:
            raise StorageFull(
                f"the disk of {folder} is full: the Bloom filter of the URIs seen needs twice its {_on_disk(bloom):,} "
                "bytes while it is written. Free some space, and open the frontier again"
            ) from e
        raise
    return digest


def remove_others(folder: Path, generation: int) -> None:
    """Remove the files of all generations but one: older ones, and one that was never committed."""
    for number, path in files(folder).items():
        if number != generation:
            with suppress(OSError):  # it takes space, and does no harm
                path.unlink()


# -- copies


def fold(env: Environment) -> None:
    """Write the filter that a copy of a partition has from now on, as its owner has; empty the table `seen`.

    The record of the filter is that of the owner, the table as it was before. Nothing is written if the last commit has
    this filter, or a later one: then the changes are applied again. Raises MissingExtra, CorruptFrontier, StorageFull.
    """
    txn, db, seen = env.txn, env.db[keys.META], env.db[keys.SEEN]
    row = meta.read_filter(txn, db)
    with env.env.begin() as committed:
        before = meta.read_filter(committed, db)
    if row is not None and (before is None or before.generation < row.generation):
        if objection(env.path, row):
            bloom = meta.read_bloom(txn, db)
            folded = new(bloom)
            if row.generation > 1:
                folded = type(folded).load(str(env.path / _file_name(row.generation - 1)), _hash)
            cursor = txn.cursor(seen)
            folded.update(key for key in cursor.iternext(values=False) if key != keys.SENTINEL)
            cursor.close()
            write(env.path, row.generation, folded)
            if why := objection(env.path, row, bloom):
                raise damaged(why)
        for generation, path in files(env.path).items():
            if generation not in (row.generation, before.generation if before is not None else 0):
                path.unlink(missing_ok=True)
    txn.drop(seen, delete=False)
    txn.put(keys.SENTINEL, b"", db=seen)


def copy_filter(path: Path, folder: Path, held: dict[int, BinaryIO]) -> None:
    """Copy the filter that the copy of the data file in `folder` names, if it names one, and sync it.

    `held` are the files that existed before the copy began. Raises StorageFull, and CorruptFrontier if it is damaged.
    """
    with opened_copy(folder) as env, env.begin() as txn:
        row = meta.read_filter(txn, env.open_db(keys.META.encode(), txn=txn, create=False))
    if row is None:
        return
    name = _file_name(row.generation)
    try:
        with held.get(row.generation) or open(path / name, "rb") as source:
            digest = _copy(source, folder / name)
    except FileNotFoundError as e:
        raise damaged(_damage(path / name, row, e.strerror or str(e))) from e
    except OSError as e:
        if e.errno in NO_ROOM:
            raise StorageFull(f"the disk of {folder} is full; the copy is not made, {path} is as it was") from e
        raise
    if digest != row.digest:
        raise damaged(_damage(path / name, row, "its bytes are not those that were written"))


def _copy(source: BinaryIO, target: Path) -> int:
    hasher = xxhash.xxh3_64()
    with open(target, "xb", buffering=0, opener=opener) as file:
        while chunk := source.read(_CHUNK):
            hasher.update(chunk)
            while chunk:
                chunk = chunk[file.write(chunk) :]
        os.fsync(file.fileno())
    return hasher.intdigest()


def _hash(fingerprint: bytes) -> int:
    """Return a fingerprint as the signed number of 128 bits that rbloom takes."""
    return int.from_bytes(fingerprint, "big", signed=True)


def _file_name(generation: int) -> str:
    return f"seen-{generation}.bloom"


def files(folder: Path) -> dict[int, Path]:
    """Return the files of a frontier by generation."""
    found = ((_NAME.fullmatch(path.name), path) for path in (folder.iterdir() if folder.is_dir() else ()))
    return {int(name[1]): path for name, path in found if name is not None}


def _size(bloom: BloomSettings) -> int:
    return _HEAD + bloom_size(bloom.expected, bloom.error)[0] // 8


def _on_disk(bloom: Bloom) -> int:
    return _HEAD + bloom.size_in_bits // 8


def _digest(file: BinaryIO) -> tuple[int, int]:
    """Return the length of a file, and the digest of its bytes."""
    hasher, size = xxhash.xxh3_64(), 0
    while chunk := file.read(_CHUNK):
        hasher.update(chunk)
        size += len(chunk)
    return size, hasher.intdigest()


def _damage(path: Path, row: FilterRow, why: str) -> str:
    return f"{path}, the Bloom filter with {row.number:,} of the URIs seen: {why}"


def damaged(why: str) -> CorruptFrontier:
    """Return the error for an `objection`, with what to do."""
    return CorruptFrontier(f"{why}; {REMEDY}")
