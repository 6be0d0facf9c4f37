"""An index of a log by URL, in a folder beside it: built on demand, and continued with later lines.

It consists of sorted segments, each of at most a million lines: 64-bit numbers of 24 bits of the URL's hash and 40 bits
of the line's offset, little-endian. A search reads a few pages of each segment, and then the lines that it names, to
distinguish URLs of equal hashes. Memory: one segment, some 60 MB while it is built. Disk: 8 bytes a line.
"""

from __future__ import annotations

import errno
import fcntl
import json
import mmap
import os
import sys
from array import array
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, BinaryIO, TypedDict

import msgspec
import xxhash

from budgetfrontier.errors import NO_ROOM
from budgetfrontier.storage.modes import make_folder, opener
from budgetfrontier.storage.whole_files import atomic_file

VERSION = 1
SEGMENT = 1 << 20
"""Lines of a segment."""
_OFFSET_BITS = 40
_MOST_BYTES = 1 << _OFFSET_BITS
_NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS, *NO_ROOM)
_CHECKED = 4096
"""Bytes compared at the start and before the end of the indexed part, to notice that a log was replaced."""


class _Manifest(TypedDict):
    version: int
    upto: Annotated[int, msgspec.Meta(ge=0)]
    segments: list[tuple[str, Annotated[int, msgspec.Meta(gt=0)]]]
    start: str
    end: str


_decode = msgspec.json.Decoder(_Manifest).decode

KeyOf = Callable[[bytes], bytes]
"""A function that returns the URL of a line as the log has it, b"" if the line has none."""
Progress = Callable[[int], None]
"""Called with the number of bytes to index, before that begins."""


class LogIndex:
    """The index of one log. If it cannot be written (no permission, disk full), each search reads the whole log."""

    def __init__(self, log: Path, key_of: KeyOf) -> None:
        self._log, self._key_of = log, key_of
        self.folder = log.with_name(f"{log.name}.index")
        self.rebuilt = False
        """Whether the last search found that the log had been truncated or replaced, and indexed it anew."""
        self.complete = True
        """Whether the last search was one of the whole log: one `at_once` may not be."""

    def find(self, key: bytes, progress: Progress | None = None) -> Iterator[bytes]:
        """Yield the lines of a URL, in the order of the log, after indexing new lines. Raises OSError."""
        return (line for _, line in self.find_all([key], progress))

    def find_all(
        self, keys: Collection[bytes], progress: Progress | None = None, *, at_once: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield the lines of URLs, each behind its URL, in the order of the log, after indexing new lines.

        `at_once` indexes one segment at the most, and reads no log that cannot be indexed. Raises OSError.
        """
        wanted, self.complete = frozenset(keys), True
        with self._log.open("rb") as file:
            try:
                with self._locked():
                    manifest = self._updated(file, progress, at_once=at_once)
                    offsets = sorted(self._offsets(manifest, wanted))
            except OSError as e:
                if e.errno not in _NOT_WRITABLE:
                    raise
                if at_once:
                    self.complete = False
                    return
                file.seek(0)
                yield from (
                    (key, line) for line in file if line[-1:] == b"\n" and (key := self._key_of(line)) in wanted
                )
                return
            for offset in offsets:
                file.seek(offset)
                line = file.readline()
                if (key := self._key_of(line)) in wanted:
                    yield key, line

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other processes from changing the index meanwhile."""
        make_folder(self.folder, like=self._log.parent)
        with open(self.folder / "lock", "ab", opener=opener) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    # -- building

    def _updated(self, file: BinaryIO, progress: Progress | None, *, at_once: bool) -> dict[str, Any]:
        """Index the whole lines that are not indexed yet, of one segment if `at_once`; return the manifest."""
        manifest = self._manifest()
        size = os.fstat(file.fileno()).st_size
        self.rebuilt = bool(manifest) and not self._is_of(manifest, file, size)
        if not manifest or self.rebuilt:
            manifest = {"version": VERSION, "upto": 0, "segments": []}
        if progress and size > manifest["upto"]:
            progress(size - manifest["upto"])
        numbers, replaced = array("Q"), ""
        if manifest["segments"] and manifest["segments"][-1][1] < SEGMENT:
            replaced = manifest["segments"].pop()[0]
            numbers = self._read(replaced)
        file.seek(manifest["upto"])
        before = manifest["upto"]
        while self._take(file, numbers, manifest):
            self._write(file, numbers, manifest, replaced)
            numbers, replaced = array("Q"), ""
            if at_once:
                self.complete = manifest["upto"] == size
                return manifest
        if manifest["upto"] > before or self.rebuilt:
            self._write(file, numbers, manifest, replaced)
        elif replaced:
            manifest["segments"].append((replaced, len(numbers)))
        return manifest

    def _take(self, file: BinaryIO, numbers: array[int], manifest: dict[str, Any]) -> bool:
        """Add the numbers of the next lines; return whether the segment is full, so that more may follow."""
        offset, key_of, hashed, add = manifest["upto"], self._key_of, xxhash.xxh3_64_intdigest, numbers.append
        room = SEGMENT - len(numbers)
        for line in islice(file, room):
            if offset + len(line) > _MOST_BYTES or line[-1:] != b"\n":
                break
            room -= 1
            key = key_of(line)
            if key:
                add((hashed(key) >> _OFFSET_BITS << _OFFSET_BITS) | offset)
            offset += len(line)
        manifest["upto"] = offset
        return not room

    def _write(self, file: BinaryIO, numbers: array[int], manifest: dict[str, Any], replaced: str) -> None:
        """Write a segment, then the manifest that names it; remove unused files."""
        place = file.tell()
        ordered = array("Q", sorted(numbers))
        if sys.byteorder == "big":
            ordered.byteswap()
        upto = manifest["upto"]
        if numbers:
            name = f"{upto:016x}.segment"
            with atomic_file(self.folder / name, opener=opener) as out:
                ordered.tofile(out)
            manifest["segments"].append((name, len(numbers)))
        manifest["start"] = _digest(file, 0, min(upto, _CHECKED))
        manifest["end"] = _digest(file, max(upto - _CHECKED, 0), upto)
        with atomic_file(self.folder / "manifest.json", opener=opener) as out:
            out.write(json.dumps(manifest).encode())
        known = {name for name, _ in manifest["segments"]}
        for path in self.folder.glob("*.segment"):
            if path.name not in known:
                with suppress(FileNotFoundError):
                    path.unlink()
        file.seek(place)

    def _manifest(self) -> dict[str, Any]:
        try:
            manifest: dict[str, Any] = {**_decode((self.folder / "manifest.json").read_bytes())}
            usable = manifest["version"] == VERSION and all(
                (self.folder / name).stat().st_size == 8 * count for name, count in manifest["segments"]
            )
        except (FileNotFoundError, ValueError):  # msgspec's errors are ValueErrors
            return {}
        return manifest if usable else {}

    def _is_of(self, manifest: dict[str, Any], file: BinaryIO, size: int) -> bool:
        """Return whether the manifest is about the log as it is: not truncated, nor replaced by another."""
        upto = manifest["upto"]
        if upto > size:
            return False
        edges = _digest(file, 0, min(upto, _CHECKED)), _digest(file, max(upto - _CHECKED, 0), upto)
        return edges == (manifest["start"], manifest["end"])

    # -- searching

    def _read(self, name: str) -> array[int]:
        numbers = array("Q", (self.folder / name).read_bytes())
        if sys.byteorder == "big":
            numbers.byteswap()
        return numbers

    def _offsets(self, manifest: dict[str, Any], keys: Collection[bytes]) -> set[int]:
        """Return the offsets of the lines that may be about URLs."""
        starts, found = sorted({xxhash.xxh3_64_intdigest(key) >> _OFFSET_BITS << _OFFSET_BITS for key in keys}), set()
        for name, count in manifest["segments"]:
            with (
                (self.folder / name).open("rb") as file,
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
            ):
                at = 0
                for first in starts:
                    at = bisect_left(range(count), first, at, key=lambda i, data=data: _number(data, i))  # type: ignore[misc]
                    while at < count and (number := _number(data, at)) < first + _MOST_BYTES:
                        found.add(number & (_MOST_BYTES - 1))
                        at += 1
        return found


def _number(data: mmap.mmap, place: int) -> int:
    return int.from_bytes(data[8 * place : 8 * place + 8], "little")


def _digest(file: BinaryIO, start: int, end: int) -> str:
    file.seek(start)
    return xxhash.xxh3_128_hexdigest(file.read(end - start))
