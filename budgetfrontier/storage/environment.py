"""The writer's environment: one transaction from commit to commit, in a memory map that grows between commits."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import threading
from collections.abc import Callable
from math import inf, log1p
from pathlib import Path
from typing import NoReturn
from weakref import ref

import lmdb

from budgetfrontier.errors import FrontierLocked, FrontierRemoved
from budgetfrontier.storage import keys, lmdb_env, lock_table
from budgetfrontier.storage.lmdb_env import (
    UNFINISHED,
    check_files,
    check_lock_table,
    create_environment,
    open_lmdb,
    open_tables,
    publish,
    translate_error,
)
from budgetfrontier.storage.lock import LOCK, WriterLock
from budgetfrontier.storage.modes import make_folder
from budgetfrontier.storage.view import View

LOOK_AT_READERS = 256  # commits between two checks of the readers: about two minutes
MOST_WRITTEN = 32 << 20  # bytes of URIs between two commits: a single URI may have a megabyte
MOST_QUEUES = 12_000  # changed between two commits: each dirties at least one page of `pending` and one of `seen`
MOST_SEEN_PAGES = 20_000  # pages of `seen` dirtied between two commits: a new URI may be on any page of its host
OPERATION_ROOM = 1 << 15  # the most bytes of the map that one operation may dirty
log = logging.getLogger("budgetfrontier.store")

# LMDB forbids opening an environment twice in one process.
_open_here: dict[str, Environment] = {}
os.register_at_fork(after_in_child=_open_here.clear)  # a forked child has none of them open


class Environment:
    """The writer's environment: the tables, and a write transaction that is always open.

    The engine works on `txn` with the handles in `db`; `commit` ends the transaction and begins the next. A new
    frontier exists from its first commit on: a kill or an error before leaves none. After its data file was removed or
    replaced, nothing is committed any more. Without a `path`, the frontier is in memory; without `sync`, a crash of the
    machine may damage it. `wrap` returns what the engine is to use in the place of each transaction, given the handles.
    Raises FrontierLocked, NotAFrontier, CorruptFrontier or NewerSchema.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        sync: bool = True,
        wrap: Callable[[keys.Txn, keys.Tables], keys.Txn] | None = None,
    ) -> None:
        self._wrap = wrap
        self.memory = path is None
        path = Path(tempfile.mkdtemp(prefix="budgetfrontier-")) if path is None else path
        self.path = path.absolute()
        """The folder, wherever the program changes its working directory to."""
        self._key = os.path.realpath(self.path)
        self._thread = ref(threading.current_thread())
        if (other := _open_here.setdefault(self._key, self)) is not self:  # atomic: threads may race
            raise FrontierLocked(other._why_locked(), pid=os.getpid())
        self._lock: WriterLock | None = None
        try:
            check_files(self.path)
            make_folder(self.path)
            self._lock = WriterLock(self.path / LOCK)
            self._fresh = not check_files(self.path)  # again under the lock: another process may have created it
            shutil.rmtree(self.path / UNFINISHED, ignore_errors=True)  # left by a process that was killed
            folder = create_environment(self.path) if self._fresh else self.path
            self.env = open_lmdb(folder, sync=sync and not self.memory)
            self._data = self.path / "data.mdb"
            self._file = os.stat(folder / "data.mdb")
            self._open_tables()
        except BaseException as e:
            self.close()
            if isinstance(e, OSError | lmdb.Error):
                raise translate_error(e, self.path) from e
            raise
        finally:
            if self.memory:
                shutil.rmtree(self.path, ignore_errors=True)

    def __repr__(self) -> str:
        where = "in memory" if self.memory else self.path
        if not hasattr(self, "txn"):
            return f"<Environment {where}: not open yet>"
        return f"<Environment {where}: {self.view()!r}, room for {self.operations:,} operations before a commit>"

    def _why_locked(self) -> str:
        """Return why this process cannot open the folder once more."""
        open_here = f"{self.path} is open already in this process ({os.getpid()})"
        thread = self._thread()
        if thread is not None and thread.is_alive():
            return open_here
        return (
            f"{open_here}: it was not closed by the thread that had opened it, which has ended, and no other thread "
            "can close it. End the process, and open it again: what was committed is there"
        )

    def _open_tables(self) -> None:
        check_lock_table(self.env, self.path)
        self._first_map = int(self.env.info()["map_size"])
        self.db = open_tables(self.env, self.path)
        self._begin()

    def _begin(self) -> None:
        info = self.env.info()
        used = (info["last_pgno"] + 1) * self.env.stat()["psize"]
        room = info["map_size"] - used
        if room < max(min(lmdb_env.MIN_ROOM, self._first_map // 2), used // 2):
            self.env.set_mapsize(info["map_size"] * 2)
            room += info["map_size"]
        self.operations = min(room // OPERATION_ROOM, 1 << 30)
        """The number of operations that the map has room for before the next commit."""
        if not info["last_txnid"] % LOOK_AT_READERS:
            self._look_at_readers(info["last_txnid"])
        txn = self.env.begin(write=True)
        self.txn: keys.Txn = txn if self._wrap is None else self._wrap(txn, self.db)
        self.due = False
        """Whether to commit soon: as many pages are dirty as should be kept in memory."""
        self._written = self._added = 0
        # With a million queues, each record also dirties a page of its own; with thousands, records share pages.
        self.most_queues = MOST_QUEUES - min(self._pages(keys.QUEUES), MOST_QUEUES * 4 // 5)
        pages = self._pages(keys.SEEN)
        # The number of new URIs that are expected to hit that many pages, at random.
        self._most_added = inf if pages <= MOST_SEEN_PAGES else -pages * log1p(-MOST_SEEN_PAGES / pages)
        self.pending = self.txn.cursor(self.db[keys.PENDING])
        self.inactive = self.txn.cursor(self.db[keys.INACTIVE])
        self.queue_ids = self.txn.cursor(self.db[keys.QUEUE_IDS])
        self.snoozed = self.txn.cursor(self.db[keys.SNOOZED])
        self.seen = self.txn.cursor(self.db[keys.SEEN])

    def _look_at_readers(self, last: int) -> None:
        """Free the slots of readers that were killed; log readers of an old snapshot, which keeps its pages in use."""
        self.env.reader_check()
        for line in self.env.readers().splitlines():
            pid, _, snapshot = (line.split() + ["-"] * 3)[:3]
            if snapshot.isdigit() and last - int(snapshot) >= LOOK_AT_READERS:
                log.warning(
                    "process %s has been reading %s for %d commits: the file grows until it ends",
                    pid,
                    self.path,
                    last - int(snapshot),
                )

    def view(self) -> View:
        """Return a view of the transaction, including uncommitted changes."""
        return View(self.txn, self.db)

    def _pages(self, table: str) -> int:
        return int(self.txn.stat(self.db[table])["leaf_pages"])

    def wrote(self, size: int, added: int = 0) -> None:
        """Count bytes of URIs written and new URIs; set `due` once LMDB has too many dirty pages."""
        self._written += size
        self._added += added
        if self._written >= MOST_WRITTEN or self._added >= self._most_added:
            self.due = True

    def check_place(self) -> None:
        """Raise FrontierRemoved if the data file, or a locked file, is not in its place any more.

        Three `stat`s. Nobody else has written until then: LMDB lets no other writer in before this transaction ends.
        """
        if self.memory:
            return
        if not self._fresh:
            self._check_data()
            if lock_table.is_lost(self.env, self.path / "lock.mdb"):
                self._refuse("lock.mdb", "whoever reads it now would find pages overwritten", "")
        if self._lock is not None and self._lock.is_lost():
            self._refuse(LOCK, "another process may have opened it", " once no other process has it open")

    def _refuse(self, name: str, consequence: str, when: str) -> NoReturn:
        raise FrontierRemoved(
            f"{self.path / name} was removed or replaced while the frontier was open, so that {consequence}: what has "
            "changed since the last commit was not stored. Leave this file where it is, and open the frontier again"
            f"{when}"
        )

    def _check_data(self) -> None:
        """Raise FrontierRemoved if the data file is not in its place any more."""
        try:
            found = os.stat(self._data)
        except (FileNotFoundError, NotADirectoryError):
            what = "was removed"
            if self.path.is_dir():
                now = f"Restore a backup there, or remove what is left of {self.path} to begin a new frontier"
            else:
                now = "Open the frontier where its folder is now; if it was removed, opening it again begins a new one"
        except OSError:  # such as a folder that may not be entered any more
            return
        else:
            if os.path.samestat(found, self._file):
                return
            what = "was replaced by another file"
            now = "Open the frontier again: what is there now counts"
        raise FrontierRemoved(
            f"{self._data} {what} while it was open: what has changed since the last commit was not stored. {now}"
        )

    def commit(self) -> None:
        """Make all changes since the last commit durable, and begin the next transaction. Raises FrontierRemoved."""
        self.check_place()
        try:
            self.txn.commit()
            if self._fresh and not self.memory:
                publish(self.path)
        except (lmdb.Error, OSError) as e:
            raise translate_error(e, self.path) from e
        self._fresh = False
        self._begin()

    def abort(self) -> None:
        """Drop all changes since the last commit."""
        self.txn.abort()

    def close(self) -> None:
        """Close the files and release the lock. Uncommitted changes are dropped."""
        try:
            if hasattr(self, "txn"):
                self.txn.abort()
        finally:
            try:
                if hasattr(self, "env"):
                    lock_table.close(self.env)
            finally:
                _open_here.pop(self._key, None)
                if self._lock is not None:
                    self._lock.release()

    @property
    def is_new(self) -> bool:
        """Whether the frontier does not exist before the first commit."""
        return self._fresh

    @property
    def note(self) -> bytes | None:
        """The note that an earlier writer has left in the lock file; None if there was none, as in a copy."""
        return b"" if self._lock is None else self._lock.note

    def leave_note(self, note: bytes) -> None:
        """Leave a note in the lock file for the next writer, in place of a commit. Raises OSError."""
        if self._lock is not None:
            self._lock.write_note(note)

    def touch(self) -> None:
        """Show other processes, by the modification time of the lock file, that this one is at work."""
        if self._lock is not None:
            self._lock.touch()


def opened_here(path: Path) -> Environment | None:
    """Return the environment that this process has open at `path` for writing, if any."""
    found = _open_here.get(os.path.realpath(path))
    return found if hasattr(found, "txn") else None
