"""LMDB environments: how one is created, opened and checked, and what its errors mean."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import lmdb

from budgetfrontier.errors import CorruptFrontier, FrontierError, FrontierLocked, NewerSchema, NotAFrontier, StorageFull
from budgetfrontier.store import keys
from budgetfrontier.store.damage import Damage
from budgetfrontier.store.lmdb_pages import has_damaged_roots, lacks_free_pages_only
from budgetfrontier.store.lock import LOCK
from budgetfrontier.store.modes import file_mode, make_folder
from budgetfrontier.store.recognition import was_frontier

GIB = 1 << 30
READERS = 256  # that may look at once
MIN_ROOM = 16 * GIB  # of free map after each commit: more than is dirtied until the next; it costs address space only
SMALLEST_MAP = GIB
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


def check_files(path: Path) -> bool:
    """Return whether `path` holds an environment; if not, it is free for a new one.

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
    """Open the LMDB environment at `path`, its errors translated.

    Takes half the map, and half again, where address space is limited.
    """
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
        raised = translate_error(e, path)
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
    """Tell whether LMDB could not map a file whose roots state an impossible size."""
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
        raise translate_error(e, path) from e
    if not whole:
        raise CorruptFrontier(f"{data} is cut short: {size} bytes for {info['last_pgno'] + 1} pages; {REMEDY}")


def _reserve_lock_table(path: Path) -> None:
    """Allocate the blocks of LMDB's lock file: on a full disk, touching them would kill the process (SIGBUS)."""
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


def create_environment(path: Path) -> None:
    """Create an environment with empty tables, whole or not at all: killed in between, it leaves no data file."""
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
    """Sync a folder to disk, after a file in it was renamed."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def is_damage(error: BaseException) -> bool:
    """Tell whether an error comes from stored bytes or from LMDB, and not from a bug or from a user's code."""
    return isinstance(error, Damage | lmdb.Error)


def translate_error(error: BaseException, path: Path) -> Exception:
    """Translate an LMDB or OS error, or Damage, into a FrontierError, or into a PermissionError."""
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


def check_lock_table(env: lmdb.Environment, path: Path) -> None:
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
    """Return the schema of the tables. Raises NotAFrontier, CorruptFrontier or NewerSchema if they cannot be read."""
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


def open_tables(env: lmdb.Environment, path: Path, *, create: bool = False) -> keys.Tables:
    """Return the handles of the tables by name. Raises CorruptFrontier if one is lost and is not to be created."""
    try:
        return {name: env.open_db(name.encode(), create=create) for name in keys.TABLES}
    except lmdb.NotFoundError:
        raise CorruptFrontier(f"{path} is damaged: a table is lost; {REMEDY}") from None
