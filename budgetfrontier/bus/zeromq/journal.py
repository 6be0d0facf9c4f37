"""The journal of a broker: every change, in order, in one file, from which a broker that was killed goes on.

Changes given to the operating system survive a kill of the broker. Only `close` waits for the disk, so a power failure
may lose the last seconds. An incomplete last record is dropped when the file is opened.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from contextlib import suppress
from io import FileIO
from pathlib import Path
from zlib import crc32

import msgspec

from budgetfrontier.bus.interface import BusAway, BusError
from budgetfrontier.bus.log import Change, Log
from budgetfrontier.errors import FrontierLocked

COMPACT_AT = 64 << 20
"""Bytes above which the file is written anew, if less than half of it is still needed."""

_MAGIC = b"budgetfrontier bus journal 1\n"
_HEAD = 8  # bytes before a record: its length and its CRC-32
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Change).decode


class Journal:
    """The open file of a journal. Raises FrontierLocked if another broker has it open, BusError if it is no journal."""

    def __init__(self, path: Path, log: Log, *, compact_at: int = COMPACT_AT) -> None:
        self._path, self._log, self._compact_at = path, log, compact_at
        self._file = self._opened(path)
        self.dropped = self._replay()
        """Bytes at the end of the file that were no whole record."""

    def append(self, changes: Iterable[Change]) -> None:
        """Write changes. Raises BusAway, with nothing written, if the disk is full or fails."""
        if self._size > self._compact_at and self._size > 2 * self._log.size():
            self.compact()  # before, because the log does not have these changes yet
        data = b"".join(map(_record, changes))
        try:
            _write(self._file, data)
        except OSError as error:
            self._file.truncate(self._size)
            raise BusAway(f"the broker cannot write its journal: {error.strerror}; free some space") from error
        self._size += len(data)

    def compact(self) -> None:
        """Write the state of the log as a new file, which replaces this one; a failure leaves this one as it is."""
        new = self._path.with_name(self._path.name + ".new")
        try:
            file = self._state_in(new)
        except OSError:
            with suppress(OSError):
                new.unlink(missing_ok=True)
            self._compact_at *= 2  # the disk may be full: try again later
            return
        self._file.close()
        self._file, self._size = file, file.tell()

    def _state_in(self, new: Path) -> FileIO:
        """Return a file with the state of the log, which has replaced that of this journal. Raises OSError."""
        new.unlink(missing_ok=True)
        file = self._opened(new)
        try:
            for change in self._log.changes():
                _write(file, _record(change))
            os.fsync(file.fileno())
            new.replace(self._path)
        except OSError:
            file.close()
            raise
        return file

    def close(self) -> None:
        """Wait for the disk, and close the file."""
        os.fsync(self._file.fileno())
        self._file.close()

    def _opened(self, path: Path) -> FileIO:
        file = FileIO(path, "a+b")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise FrontierLocked(f"{path} is the journal of a broker that runs; stop it first") from None
        try:
            if not file.seek(0, os.SEEK_END):
                _write(file, _MAGIC)
        except OSError:
            file.close()
            raise
        return file

    def _replay(self) -> int:
        """Make all changes of the file, cut off an incomplete last one, and return its size in bytes."""
        data = self._path.read_bytes()
        if not data.startswith(_MAGIC):
            self._file.close()
            raise BusError(
                f"{self._path} is not the journal of a broker of this version: name another file, or start the version "
                "that wrote it"
            )
        self._size = len(_MAGIC)
        while self._size < len(data):
            begin = self._size + _HEAD
            length, checksum = (int.from_bytes(data[begin - _HEAD + at : begin - 4 + at], "big") for at in (0, 4))
            record = data[begin : begin + length]
            if not record or len(record) < length or crc32(record) != checksum:
                break
            try:
                self._log.apply(_decode(record))
            except (ValueError, BusError) as error:  # msgspec's errors are ValueErrors
                self._file.close()
                raise BusError(f"{self._path}: this version cannot read the record at {self._size}: {error}") from error
            self._size = begin + length
        self._file.truncate(self._size)
        return len(data) - self._size


def _record(change: Change) -> bytes:
    data = _encode(change)
    return len(data).to_bytes(4, "big") + crc32(data).to_bytes(4, "big") + data


def _write(file: FileIO, data: bytes) -> None:
    written = 0
    while written < len(data):
        written += file.write(data[written:])
