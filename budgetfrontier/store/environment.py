"""One LMDB environment: who may write it, one transaction from commit to commit, a map that grows between them."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import tempfile
from math import inf, log1p
from pathlib import Path
from typing import Any

import lmdb

from budgetfrontier.errors import CorruptFrontier, FrontierError, FrontierLocked, NewerSchema, NotAFrontier, StorageFull
from budgetfrontier.store import keys
from budgetfrontier.store.damage import Damage
from budgetfrontier.store.lmdb_pages import has_damaged_roots, lacks_free_pages_only
from budgetfrontier.store.lock import LOCK, WriterLock
from budgetfrontier.store.migrations import upgrade
from budgetfrontier.store.modes import file_mode, make_folder
from budgetfrontier.store.recognition import was_frontier
from budgetfrontier.store.view import View

GIB = 1 << 30
READERS = 256  # that may look at once
MIN_ROOM = 16 * GIB  # of free map after each commit: more than is dirtied until the next; it costs address space only
SMALLEST_MAP = GIB
LOOK_AT_READERS = 256  # commits between two looks at who reads: two minutes, if nothing else makes it commit
MOST_WRITTEN = 32 << 20  # bytes of URIs between two commits: one alone may carry a megabyte
MOST_QUEUES = 12_000  # dirtied between two commits: each has a page of `pending` and one of `seen`, at the least
MOST_SEEN_PAGES = 20_000  # pages of `seen` dirtied between two commits: a new URI lands on any page of its host's
OPERATION_ROOM = 1 << 15  # bytes of map that one operation may dirty, at the worst
_LOW_DISK = 1 << 20  # bytes free below which an input/output error means that the disk is full

REMEDY = "restore a backup, or save what can be read with `budgetfrontier verify --repair`"
# The last two: a table that is none, or pages that are lost; and what LMDB says once it has met a damaged page.
_DAMAGE = (
    *(lmdb.InvalidError, lmdb.VersionMismatchError, lmdb.CorruptedError, lmdb.PageNotFoundError),
    *(lmdb.IncompatibleError, lmdb.BadTxnError),
)

UNFINISHED = "creating"  # where a new data file is made whole before it takes its place
_SMALLEST = 8192  # bytes of an environment: its two first pages
_MAKINGS = (LOCK, "lock.mdb", UNFINISHED)

log = logging.getLogger(__name__)

# LMDB forbids to open an environment twice in a process.
_open_here: dict[str, Environment] = {}


def check_files(path: Path) -> bool:
    """True if `path` holds an environment, False if it is free for a new one.

    Raises NotAFrontier or CorruptFrontier: LMDB would overwrite an empty file, and crash on one cut short.
    """
    data = path / "data.mdb"
    if not data.exists():
        if path.exists() and not path.is_dir():
            raise NotAFrontier(f"{path} is a file; a frontier is a folder")
        strangers = [p.name for p in path.iterdir() if p.name not in _MAKINGS] if path.exists() else []
        if not strangers:
            return False
        if not data.exists():  # else somebody has made it since
            raise NotAFrontier(f"{path} is not empty and not a frontier (it holds {strangers[0]}); name another folder")
    if data.stat().st_size < _SMALLEST:
        raise CorruptFrontier(f"{data} is cut short ({data.stat().st_size} bytes); restore a backup")
    return True


def is_unfinished(data: Path) -> bool:
    """Tell whether a data file was cut short as it was made, by a full disk or a kill: it never held anything."""
    return data.is_file() and data.stat().st_size < _SMALLEST


def open_lmdb(path: Path, *, readonly: bool = False, sync: bool = True, map_size: int = 0) -> lmdb.Environment:
    """Open the environment at `path`; LMDB's own errors come out as ours."""
    map_size = map_size or 2 * MIN_ROOM
    try:
        _reserve_lock_table(path / "lock.mdb")
        env = lmdb.open(
            str(path),
            map_size=map_size,
            max_dbs=len(keys.TABLES) + 2,
            max_readers=READERS,
            readonly=readonly,
            sync=sync,
            meminit=False,
            lib_version=0,
            create=not readonly,
            mode=file_mode(path),
        )
    except (lmdb.Error, OSError) as e:
        if isinstance(e, lmdb.MemoryError) and map_size > SMALLEST_MAP:  # address space is limited (ulimit -v)
            return open_lmdb(path, readonly=readonly, sync=sync, map_size=map_size // 2)
        if _is_unmappable(e, path / "data.mdb"):
            raise CorruptFrontier(f"{path} is damaged: its roots make no sense ({e}); {REMEDY}") from e
        raised = explain(e, path)
        if readonly and isinstance(raised, PermissionError) and not os.access(path / "lock.mdb", os.W_OK):
            told = "LMDB notes here who reads: whoever looks on must be able to write to it"
            raised = PermissionError(errno.EACCES, told, str(path / "lock.mdb"))
        raise raised from e
    try:
        _check_size(env, path)
    except BaseException:
        env.close()
        raise
    return env


def _is_unmappable(error: Exception, data: Path) -> bool:
    """Whether LMDB could not map a file that says nonsense of its own size."""
    unmapped = isinstance(error, lmdb.MemoryError | lmdb.InvalidParameterError | lmdb.MapResizedError)
    return unmapped and data.is_file() and data.stat().st_size > 0 and has_damaged_roots(data)


def _check_size(env: lmdb.Environment, path: Path) -> None:
    """Raise CorruptFrontier if the data file ends before a page that is in use."""
    data, info = path / "data.mdb", env.info()
    size = data.stat().st_size
    if not info["last_txnid"] or (info["last_pgno"] + 1) * env.stat()["psize"] <= size:
        return
    try:
        with env.begin():  # what this snapshot needs is not written over
            whole = lacks_free_pages_only(data)
    except (lmdb.Error, OSError) as e:
        raise explain(e, path) from e
    if not whole:
        raise CorruptFrontier(f"{data} is cut short: {size} bytes for {info['last_pgno'] + 1} pages; {REMEDY}")


def _reserve_lock_table(path: Path) -> None:
    """Take the blocks of LMDB's lock file first: on a full disk it would be killed when it touches them (SIGBUS)."""
    if not hasattr(os, "posix_fallocate"):  # macOS
        return
    if path.exists() and path.stat().st_blocks * 512 >= READERS * 64:
        return  # opening it would do harm: closing it lets go of the locks that this process may have on it
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, file_mode(path.parent))
    except OSError as e:
        if e.errno in (errno.EROFS, errno.EACCES, errno.ENOENT):
            return  # LMDB does without where it may only read, or says what is wrong
        raise
    try:
        os.posix_fallocate(fd, 0, READERS * 64 + 128)
    except OSError as e:
        if e.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
    finally:
        os.close(fd)


def _create(path: Path) -> None:
    """Make a new environment, whole or not at all: a kill in between leaves nothing that looks like a frontier."""
    making = path / UNFINISHED
    make_folder(making, like=path)
    env = open_lmdb(making)
    with env.begin(write=True) as txn:
        for name in keys.TABLES:
            txn.put(keys.SENTINEL, b"", db=env.open_db(name.encode(), txn=txn))
        txn.put(b"schema", str(keys.SCHEMA).encode(), db=env.open_db(keys.META.encode(), txn=txn))
    env.close()
    os.replace(making / "data.mdb", path / "data.mdb")
    sync_folder(path)
    shutil.rmtree(making)


def sync_folder(path: Path) -> None:
    """Make durable which files a folder holds, after one has been renamed."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def is_damage(error: BaseException) -> bool:
    """Whether an error comes from what is stored, or from LMDB, and not from a bug of ours or somebody's code."""
    return isinstance(error, Damage | lmdb.Error)


def explain(error: BaseException, path: Path) -> Exception:
    """The error of ours that an error of LMDB's or the system's stands for."""
    if isinstance(error, _DAMAGE):
        return CorruptFrontier(f"{path} is damaged or no LMDB file ({error}); {REMEDY}")
    if isinstance(error, Damage):
        return CorruptFrontier(f"{path} is damaged ({error}); {REMEDY}")
    if "already open in this process" in str(error):
        return FrontierLocked(
            f"{path} is open already in this process ({os.getpid()}), by a reader, or in the one that it was forked "
            "from; close that first, or use another process",
            pid=os.getpid(),
        )
    if isinstance(error, lmdb.ReadersFullError):
        return FrontierError(f"{path}: {READERS} readers look at it already; end one of them, and try again")
    code = getattr(error, "errno", None) or getattr(error, "code", None)
    if code in (errno.EACCES, errno.EROFS, errno.EPERM) or isinstance(error, lmdb.ReadonlyError):
        return PermissionError(errno.EACCES, f"cannot write: check the permissions of the folder ({error})", str(path))
    if isinstance(error, lmdb.MapFullError):
        return StorageFull(f"{path}: the memory map is full; open the frontier again, it is as of the last commit")
    if code in (errno.ENOSPC, errno.EDQUOT) or (code == errno.EIO and _disk_is_full(path)) or _disk_is_full(path):
        return StorageFull(f"the disk of {path} is full; free some space and open it: it is as of the last commit")
    return FrontierError(f"{path}: {error}; open the frontier again: it is as of the last commit")


def _disk_is_full(path: Path) -> bool:
    try:
        stat = os.statvfs(path if path.exists() else path.parent)
    except OSError:
        return False
    return stat.f_bavail * stat.f_frsize < _LOW_DISK


class Environment:
    """The writer's side: one open write transaction at any time, its tables and cursors as attributes.

    `txn` and the handles in `db` are what the engine works on; `commit` ends the transaction and begins the next.
    """

    def __init__(self, path: Path | None, *, map_size: int = 0) -> None:
        self.memory = path is None
        self.path = Path(tempfile.mkdtemp(prefix="budgetfrontier-")) if path is None else path
        self._key = os.path.realpath(self.path)
        if _open_here.setdefault(self._key, self) is not self:  # at once: threads may race for it
            raise FrontierLocked(f"{self.path} is open already in this process ({os.getpid()})", pid=os.getpid())
        self._lock: WriterLock | None = None
        try:
            check_files(self.path)
            make_folder(self.path)
            self._lock = WriterLock(self.path / LOCK)
            self.fresh = not check_files(self.path)  # only now: somebody may have made it since
            shutil.rmtree(self.path / UNFINISHED, ignore_errors=True)  # of one who was killed
            if self.fresh:
                _create(self.path)
            self.env = open_lmdb(self.path, sync=not self.memory, map_size=map_size)
        except BaseException as e:
            _open_here.pop(self._key)
            if self._lock is not None:
                self._lock.release()
            if isinstance(e, OSError | lmdb.Error):
                raise explain(e, self.path) from e
            raise
        try:
            self._open_tables()
        except BaseException as e:
            self.close()
            if isinstance(e, lmdb.Error):
                raise explain(e, self.path) from e
            raise
        if self.memory:
            shutil.rmtree(self.path)

    def _open_tables(self) -> None:
        self.env.reader_check()
        _check_lock_table(self.env, self.path)
        schema = check_schema(self.env, self.path)
        self._first_map = int(self.env.info()["map_size"])
        self.db = open_tables(self.env, self.path, create=schema < keys.SCHEMA)
        self._begin()
        if schema < keys.SCHEMA:
            upgrade(self.txn, self.db, schema)

    def _begin(self) -> None:
        info = self.env.info()
        used = (info["last_pgno"] + 1) * self.env.stat()["psize"]
        room = info["map_size"] - used
        if room < max(min(MIN_ROOM, self._first_map // 2), used // 2):
            self.env.set_mapsize(info["map_size"] * 2)
            room += info["map_size"]
        self.operations = min(room // OPERATION_ROOM, 1 << 30)
        """How many operations the map has room for before the next commit."""
        if not info["last_txnid"] % LOOK_AT_READERS:
            self._look_at_readers(info["last_txnid"])
        self.txn: keys.Txn = self.env.begin(write=True)
        self.due = False
        """Whether as much has been dirtied as memory should hold."""
        self._written = self._added = 0
        # The records of a million queues lie on pages of their own as well, those of thousands do not.
        self.most_queues = MOST_QUEUES - min(self._pages(keys.QUEUES), MOST_QUEUES // 2)
        pages = self._pages(keys.SEEN)
        # So many new URIs hit that many pages, at random.
        self._most_added = inf if pages <= MOST_SEEN_PAGES else -pages * log1p(-MOST_SEEN_PAGES / pages)
        self.pending = self.txn.cursor(self.db[keys.PENDING])

    def _look_at_readers(self, last: int) -> None:
        """Forget readers that were killed, and name those that read on and on: what they see cannot be written over."""
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
        """Return a view of what the transaction holds: all since the last commit, too."""
        return View(self.txn, self.db)

    def _pages(self, table: str) -> int:
        return int(self.txn.stat(self.db[table])["leaf_pages"])

    def wrote(self, size: int, added: int = 0) -> None:
        """So many bytes of URIs were put, and so many URIs were new: LMDB holds in memory what they dirtied."""
        self._written += size
        self._added += added
        if self._written >= MOST_WRITTEN or self._added >= self._most_added:
            self.due = True

    def commit(self) -> None:
        """Make everything since the last commit durable, and begin the next transaction."""
        try:
            self.txn.commit()
        except (lmdb.Error, OSError) as e:
            raise explain(e, self.path) from e
        self._begin()

    def abort(self) -> None:
        """Drop everything since the last commit."""
        self.txn.abort()

    def close(self) -> None:
        """Close the files and let the next writer in. What was not committed is dropped."""
        try:
            if hasattr(self, "txn"):
                self.txn.abort()
        finally:
            try:
                self.env.close()
            finally:
                _open_here.pop(self._key, None)
                if self._lock is not None:
                    self._lock.release()

    def disown(self) -> None:
        """In a forked child: forget the environment without touching its files."""
        _open_here.pop(self._key, None)


def _check_lock_table(env: lmdb.Environment, path: Path) -> None:
    """Raise FrontierLocked if the lock table is in use for another file than this one.

    It holds the number of the last transaction, and LMDB would look for the data in the wrong one of its two roots.
    """
    with env.begin() as txn:
        if txn.id() == env.info()["last_txnid"]:
            return
    raise FrontierLocked(
        f"{path / 'data.mdb'} was replaced while somebody had the old one open: end those processes first "
        f"(`fuser {path / 'lock.mdb'}` names them)"
    )


def check_schema(env: lmdb.Environment, path: Path) -> int:
    """The schema of what is there. Raises NotAFrontier or NewerSchema unless this version can read it."""
    try:
        meta = env.open_db(keys.META.encode(), create=False)
        with env.begin() as txn:
            stored = txn.get(b"schema", db=meta)
    except lmdb.NotFoundError:
        stored = None
    if stored is None:
        if was_frontier(path / "data.mdb"):
            raise CorruptFrontier(f"{path} is damaged: its tables cannot be found; {REMEDY}")
        raise NotAFrontier(f"{path} is an LMDB environment, but not a frontier; name another folder")
    if not stored.isdigit() or not int(stored):
        raise CorruptFrontier(f"{path} is damaged: its schema is {stored!r}; {REMEDY}")
    if int(stored) > keys.SCHEMA:
        raise NewerSchema(
            f"{path} was written with schema {int(stored)}, this budgetfrontier knows {keys.SCHEMA}: upgrade it"
        )
    return int(stored)


def open_tables(env: lmdb.Environment, path: Path, *, create: bool = False) -> dict[str, Any]:
    """The tables by name. Raises CorruptFrontier if one is lost, unless it is to be created."""
    try:
        return {name: env.open_db(name.encode(), create=create) for name in keys.TABLES}
    except lmdb.NotFoundError:
        raise CorruptFrontier(f"{path} is damaged: a table is lost; {REMEDY}") from None


def opened_here(path: Path) -> Environment | None:
    """The environment that this process has open at `path`, if any."""
    found = _open_here.get(os.path.realpath(path))
    return found if hasattr(found, "txn") else None
