"""The files of deleted records: written ahead of the commit that deletes them, and removed once nothing needs them.

`Guard.commit` syncs them before it commits. A frontier in memory keeps no deleted records.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, BinaryIO

import msgspec

from budgetfrontier.errors import NO_ROOM, FrontierError, StorageFull
from budgetfrontier.storage.environment import Environment
from budgetfrontier.storage.lmdb_env import sync_folder
from budgetfrontier.storage.modes import make_folder, opener
from budgetfrontier.storage.records import Counters
from budgetfrontier.storage.removed import (
    FOLDER,
    Block,
    Kept,
    Look,
    encode_block,
    file_name,
    kept,
    number_of,
    read_kept,
)

LARGEST = 1 << 20
"""Bytes of the records of a block, unless it has only one."""


class RemovedFiles:
    """The files of one frontier, each of one command. Only the last one written stays open."""

    def __init__(self, env: Environment, counters: Counters) -> None:
        self._env = env
        self._counters = counters
        self._folder = env.path / FOLDER
        self._file: BinaryIO | None = None
        self._number = 0
        self._unsynced = self._made = False
        self._failed: OSError | None = None
        """Why a file that was closed ahead of the commit could not be synced."""

    # -- writing

    def keep(
        self,
        effect: dict[str, Any],
        taken: Iterable[tuple[str, dict[bytes, Look | None]]],
        *,
        values: Mapping[bytes, bytes] | None = None,
    ) -> None:
        """Write the records that a step of a command is about to delete; its effect says where, from then on.

        They are given by table and key, each with its queue as it will look then. `values` are written in the place of
        those in the tables. Raises FrontierError if they cannot be written, StorageFull if the disk is full; nothing
        has changed then.
        """
        taken = [(table, records) for table, records in taken if records]
        if self._env.memory or not taken:
            return
        found = kept(effect)
        before = found or Kept(self._counters.audit + 1, 0)
        try:
            self._open(before)
            size = before.bytes
            for table, records in taken:
                for block in self._blocks(table, records, values):
                    size += self._write(encode_block(block))
        except OSError as e:
            self._take_back(before.bytes)
            why = "the disk is full" if e.errno in NO_ROOM else str(e)
            so_far = f"; `budgetfrontier undo` takes back what was done until then, {self._name(before)}"
            raise (StorageFull if e.errno in NO_ROOM else FrontierError)(
                f"what the command changes is kept for `undo`, and cannot be written: {why}{so_far if found else ''}; "
                "nothing more was changed. Free some space; a deletion for good (--for-good) needs no space for it"
            ) from e
        effect["kept"] = msgspec.to_builtins(Kept(before.file, size))

    def _name(self, found: Kept) -> str:
        return f"{found.bytes:,} bytes in {FOLDER}/{file_name(found.file)}"

    def _blocks(
        self, table: str, taken: dict[bytes, Look | None], values: Mapping[bytes, bytes] | None
    ) -> Iterator[Block]:
        """Yield the records in blocks of a bounded size."""
        txn, db = self._env.txn, self._env.db[table]
        block, size = Block(table, [], []), 0
        for key, look in taken.items():
            value = txn.get(key, db=db) if values is None else values.get(key)
            if value is None:
                continue
            if size and size + len(value) > LARGEST:
                yield block
                block, size = Block(table, [], []), 0
            if look is not None and look not in block.queues[-1:]:
                block.queues.append(look)
            block.records.append((key, value))
            size += len(value)
        if block.records:
            yield block

    def _open(self, found: Kept) -> None:
        """Open the file of a command behind the part that counts; later bytes were never committed, and are cut off."""
        if self._file is not None and self._number == found.file:
            return
        try:
            self._sync_file()
        except OSError as e:
            self._failed = e  # that of another command: the commit must not succeed
        self.close()
        folder = self._folder
        if not folder.is_dir():
            make_folder(folder, like=self._env.path)
            sync_folder(self._env.path)
        path = folder / file_name(found.file)
        if found.bytes and (not path.exists() or path.stat().st_size < found.bytes):
            raise FileNotFoundError(errno.ENOENT, "what was kept until now is lost", str(path))
        self._file = open(path, "r+b" if found.bytes else "w+b", buffering=0, opener=opener)  # noqa: SIM115
        self._made = not found.bytes
        self._number = found.file
        self._file.truncate(found.bytes)
        self._file.seek(found.bytes)

    def _write(self, data: bytes) -> int:
        assert self._file is not None
        self._unsynced = True
        left = memoryview(data)
        while left:
            left = left[self._file.write(left) :]
        return len(data)

    def _take_back(self, size: int) -> None:
        """Cut off records that were written but stay in their tables."""
        if self._file is None:
            return
        try:
            self._file.truncate(size)
            self._file.seek(size)
        except OSError:
            self.close()  # it is cut off when it is opened again
        if not size:
            self._remove(self._number)

    def sync(self) -> None:
        """Make durable all that was written, ahead of the commit that deletes it from its table. Raises OSError."""
        try:
            if self._failed is not None:
                raise self._failed
            self._sync_file()
        except OSError as e:
            if e.errno in NO_ROOM:
                raise StorageFull(
                    f"the disk of {self._folder} is full: what commands change is kept there for `undo`. Free some "
                    "space; a deletion for good (--for-good) needs no space for it"
                ) from e
            raise

    def _sync_file(self) -> None:
        if self._unsynced and self._file is not None:
            os.fsync(self._file.fileno())
            if self._made:
                sync_folder(self._folder)
        self._unsynced = self._made = False

    # -- reading

    def read(self, found: Kept, at: int) -> tuple[Block, int]:
        """Return the block at an offset, and the offset of the next one. Raises FrontierError."""
        return read_kept(self._folder, found, at)

    # -- removing

    def unneeded(self, found: Kept) -> None:
        """Remove a file once the next commit has succeeded."""
        self._counters.unneeded = [*self._counters.unneeded, found.file]

    def committed(self) -> None:
        """Remove the files that nothing needs as of the last commit."""
        if self._counters.unneeded:
            for number in self._counters.unneeded:
                self._remove(number)
            self._counters.unneeded = []

    def clear_up(self, in_progress: Kept | None) -> None:
        """Remove files left by processes that died before their commands, or the ends of these, were complete."""
        self.committed()
        if self._env.memory or not self._folder.is_dir():
            return
        for name in os.listdir(self._folder):
            number = number_of(name)
            mine = in_progress is not None and number == in_progress.file
            if number is not None and number > self._counters.audit and not mine:
                self._remove(number)

    def _remove(self, number: int) -> None:
        if number == self._number:
            self.close()
        with suppress(OSError):  # it takes space, and does no harm
            (self._folder / file_name(number)).unlink()

    def close(self) -> None:
        """Close the file that is open."""
        if self._file is not None:
            self._file.close()
        self._file, self._number = None, 0
