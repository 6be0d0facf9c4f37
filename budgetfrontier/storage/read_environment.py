"""The environment that all readers of a frontier in a process share, because LMDB forbids opening it twice."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lmdb

from budgetfrontier.errors import FrontierError, NotAFrontier
from budgetfrontier.storage import keys, lock_table
from budgetfrontier.storage.lmdb_env import check_files, check_schema, open_lmdb, open_tables, translate_error

LARGEST_MAP = 1 << 40  # address space only; enlarging a map later would end the snapshots read through it

_all: dict[str, ReadEnvironment] = {}
_sharing = threading.Lock()


class ReadEnvironment:
    """A frontier's environment opened read-only, with its tables; readers `join` it and `leave` it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._readers = 0
        self._looking = 0
        """The number of snapshots in use, including those of iterators."""
        self._open()

    def _open(self) -> None:
        """Open the file that is there now. Raises the errors of `LastCommit`; then the next snapshot tries again."""
        self._file: tuple[int, int, int | None] | None = None
        file = self._identity()
        if file is None or not check_files(self._path):
            raise NotAFrontier(f"there is no frontier at {self._path} any more; restore a backup there")
        env = open_lmdb(self._path, readonly=True, map_size=LARGEST_MAP)
        try:
            db = open_tables(env, self._path)
        except BaseException as e:
            lock_table.close(env)
            if isinstance(e, lmdb.Error):
                raise translate_error(e, self._path) from e
            raise
        self._file, self.env, self.db = file, env, db

    def _identity(self) -> tuple[int, int, int | None] | None:
        """Return the identity of the data file, and of the lock file in which readers register; None without one."""
        try:
            file = os.stat(self._path / "data.mdb")
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            lock: int | None = os.stat(self._path / "lock.mdb").st_ino
        except OSError:  # LMDB creates it, where it may
            lock = None
        return file.st_dev, file.st_ino, lock

    @staticmethod
    def join(path: Path) -> ReadEnvironment:
        """Return the environment at `path` for one more reader; open it if necessary."""
        key = os.path.realpath(path)
        with _sharing:
            shared = _all.get(key) or ReadEnvironment(path)
            shared._readers += 1
            _all[key] = shared
            return shared

    def leave(self) -> None:
        """Remove one reader; the last one closes the environment."""
        with _sharing:
            self._readers -= 1
            if not self._readers:
                _all.pop(os.path.realpath(self._path), None)
                lock_table.close(self.env)

    @contextmanager
    def begin(self) -> Iterator[keys.Txn]:
        """Hold a snapshot of the last commit. If the file was replaced, open the new one once no snapshot is held."""
        with _sharing:
            if not self._looking and (self._file is None or self._identity() != self._file):
                lock_table.close(self.env)
                self._open()
            txn = self._begin()
            self._looking += 1
        try:
            with txn:
                yield txn
        finally:
            with _sharing:
                self._looking = max(self._looking - 1, 0)  # of a forked child, none

    def forget(self) -> None:
        """Close the files of a parent process."""
        lock_table.close(self.env)
        self._file, self._looking = None, 0

    def _begin(self) -> keys.Txn:
        """Begin a snapshot. Raises NewerSchema if the frontier has got another schema since it was opened."""
        try:
            txn = self.env.begin()
        except lmdb.MapResizedError:
            if self._looking:
                raise FrontierError(f"{self._path} has outgrown its map: end what iterates over it first") from None
            self.env.set_mapsize(0)
            txn = self.env.begin()
        try:
            check_schema(txn.get(b"schema", db=self.db[keys.META]), self._path)
        except BaseException:
            txn.abort()
            raise
        return txn


def _after_fork() -> None:
    """Close all environments in a forked child, which opens its own at its next snapshot."""
    for shared in _all.values():
        shared.forget()
    _sharing.release()


os.register_at_fork(before=_sharing.acquire, after_in_parent=_sharing.release, after_in_child=_after_fork)
