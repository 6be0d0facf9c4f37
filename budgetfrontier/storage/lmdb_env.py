"""LMDB environments: creation, opening, checks, and translation of LMDB's errors."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lmdb

from budgetfrontier.errors import (
    MORE_FILES,
    NO_FILES,
    NO_LOCKS,
    NO_ROOM,
    CorruptFrontier,
    FrontierError,
    FrontierLocked,
    NewerSchema,
    NotAFrontier,
    StorageFull,
    disk_full,
)
from budgetfrontier.storage import keys, lock_table
from budgetfrontier.storage.damage import Damage
from budgetfrontier.storage.disks import free_bytes
from budgetfrontier.storage.lmdb_pages import has_damaged_roots, lacks_free_pages_only
from budgetfrontier.storage.lock import LOCK
from budgetfrontier.storage.lock_table import READERS
from budgetfrontier.storage.modes import file_mode, make_folder
from budgetfrontier.storage.recognition import was_frontier

GIB = 1 << 30
MIN_ROOM = 16 * GIB  # free bytes of the map after each commit: more than is dirtied until the next; address space only
SMALLEST_MAP = GIB
_LOW_DISK = 1 << 20  # free bytes below which an I/O error means that the disk is full
_NO_PLACE = (errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP)
"""The errors of a path at which no frontier can be."""

REMEDY = "restore a backup, or save what can be read with `budgetfrontier verify --repair`"
# IncompatibleError: a record that should be a table, or lost pages. BadTxnError: any call after a damaged page was met.
_DAMAGE = (
    *(lmdb.InvalidError, lmdb.VersionMismatchError, lmdb.CorruptedError, lmdb.PageNotFoundError),
    *(lmdb.IncompatibleError, lmdb.BadTxnError),
)

UNFINISHED = "creating"  # the subfolder in which a new data file is completed before it is moved
_SMALLEST = 8192  # bytes of the smallest environment: its first two pages
_OWN_FILES = (LOCK, "lock.mdb", UNFINISHED)


def check_files(path: Path) -> bool:
    """Return whether `path` contains an environment; if not, one may be created there.

    Raises NotAFrontier or CorruptFrontier: LMDB would overwrite an empty file, and crash on a truncated one.
    """
    data = path / "data.mdb"
    if not data.exists():
        for link in (path, data):
            if link.is_symlink() and not link.exists():
                raise NotAFrontier(
                    f"{link} is a link to {os.readlink(link)}, where nothing is; mount its disk, or remove the link"
                )
        if path.exists() and not path.is_dir():
            raise NotAFrontier(f"{path} is a file; a frontier is a folder")
        foreign = [p.name for p in path.iterdir() if p.name not in _OWN_FILES] if path.exists() else []
        if not foreign:
            return False
        if not data.exists():  # otherwise another process has created it since
            raise NotAFrontier(f"{path} is not empty and not a frontier (it holds {foreign[0]}); name another folder")
    if data.stat().st_size < _SMALLEST:
        raise CorruptFrontier(f"{data} is truncated ({data.stat().st_size} bytes); restore a backup")
    return True


def is_unfinished(data: Path) -> bool:
    """Return whether the creation of a data file was interrupted (a full disk, a kill): it never contained records."""
    return data.is_file() and data.stat().st_size < _SMALLEST


def open_lmdb(path: Path, *, readonly: bool = False, sync: bool = True, map_size: int = 0) -> lmdb.Environment:
    """Open the LMDB environment at `path`; its errors are translated. `lock_table.close` closes it.

    Where address space is limited, the size of the map is halved until it fits. A writer goes through the file in no
    order, so that what the system reads ahead for it evicts pages which it needs if the file is larger than memory; a
    reader goes through whole tables.
    """
    map_size = map_size or 2 * MIN_ROOM
    try:
        lock_table.reserve(path / "lock.mdb")
        env = lmdb.open(
            os.fsencode(path),  # its name need not be text
            map_size=map_size,
            max_dbs=len(keys.TABLES) + 2,
            max_readers=READERS,
            readonly=readonly,
            sync=sync,
            readahead=readonly,
            meminit=False,
            lib_version=0,
            create=not readonly,
            mode=file_mode(path),
        )
    except (lmdb.Error, OSError) as e:
        if isinstance(e, lmdb.MemoryError) and map_size > SMALLEST_MAP:  # address space is limited (ulimit -v)
            return open_lmdb(path, readonly=readonly, sync=sync, map_size=map_size // 2)
        if _is_unmappable(e, path / "data.mdb"):
            raise CorruptFrontier(f"{path} is damaged: its roots are not valid ({e}); {REMEDY}") from e
        raised = translate_error(e, path)
        if readonly and isinstance(raised, PermissionError) and not os.access(path / "lock.mdb", os.W_OK):
            message = "LMDB records its readers in this file, so that readers need write permission"
            raised = PermissionError(errno.EACCES, message, str(path / "lock.mdb"))
        raise raised from e
    try:
        lock_table.secure(env, path / "lock.mdb")
        _check_size(env, path)
    except BaseException as e:
        lock_table.close(env)
        if isinstance(e, lmdb.Error | OSError):
            raise translate_error(e, path) from e
        raise
    return env


@contextmanager
def opened_lmdb(path: Path, *, readonly: bool = False, map_size: int = 0) -> Iterator[lmdb.Environment]:
    """Open the LMDB environment at `path` until the end of the `with` block."""
    env = open_lmdb(path, readonly=readonly, map_size=map_size)
    try:
        yield env
    finally:
        lock_table.close(env)


@contextmanager
def opened_copy(folder: Path) -> Iterator[lmdb.Environment]:
    """Open the copy of a data file for reading until the end of the `with` block; its lock file is removed then."""
    try:
        with opened_lmdb(folder, readonly=True, map_size=(folder / "data.mdb").stat().st_size) as env:
            yield env
    finally:
        (folder / "lock.mdb").unlink(missing_ok=True)


def _is_unmappable(error: Exception, data: Path) -> bool:
    """Return whether LMDB could not map a file because its roots state an impossible size."""
    unmapped = isinstance(error, lmdb.MemoryError | lmdb.InvalidParameterError | lmdb.MapResizedError)
    return unmapped and data.is_file() and data.stat().st_size > 0 and has_damaged_roots(data)


def _check_size(env: lmdb.Environment, path: Path) -> None:
    """Raise CorruptFrontier if the data file ends before a page that is in use."""
    data, info = path / "data.mdb", env.info()
    size = data.stat().st_size
    if not info["last_txnid"] or (info["last_pgno"] + 1) * env.stat()["psize"] <= size:
        return
    try:
        with env.begin():  # pages of this snapshot are not overwritten
            whole = lacks_free_pages_only(data)
    except (lmdb.Error, OSError) as e:
        raise translate_error(e, path) from e
    if not whole:
        raise CorruptFrontier(f"{data} is truncated: {size} bytes for {info['last_pgno'] + 1} pages; {REMEDY}")


def create_environment(path: Path) -> Path:
    """Create an environment with empty tables in a subfolder of `path`, which is returned; `publish` moves it."""
    making = path / UNFINISHED
    make_folder(making, like=path)
    env = open_lmdb(making)
    with env.begin(write=True) as txn:
        for name in keys.TABLES:
            txn.put(keys.SENTINEL, b"", db=env.open_db(name.encode(), txn=txn))
        txn.put(b"schema", str(keys.SCHEMA).encode(), db=env.open_db(keys.META.encode(), txn=txn))
    lock_table.close(env)
    return making


def publish(path: Path) -> None:
    """Move a file from `create_environment` to `path`, also while it is open: a kill before leaves no data file."""
    making = path / UNFINISHED
    for name in ("lock.mdb", "data.mdb"):
        os.replace(making / name, path / name)
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
    """Return whether an error comes from stored bytes or from LMDB, rather than from a bug or user code."""
    return isinstance(error, Damage | lmdb.Error)


def translate_error(error: BaseException, path: Path) -> Exception:
    """Translate an LMDB or OS error, or Damage, into a FrontierError, or into a PermissionError."""
    if isinstance(error, _DAMAGE):
        return CorruptFrontier(f"{path} is damaged or not an LMDB file ({error}); {REMEDY}")
    if isinstance(error, Damage):
        return CorruptFrontier(f"{path} is damaged ({error}); {REMEDY}")
    if "already open in this process" in str(error):
        return FrontierLocked(
            f"{path} is open already in this process ({os.getpid()}), by a reader, or in the one that it was forked "
            "from; close that first, or use another process",
            pid=os.getpid(),
        )
    if isinstance(error, lmdb.ReadersFullError):
        return FrontierError(f"{path}: {READERS} readers have it open already; end one of them, and try again")
    if isinstance(error, lmdb.LockError | BlockingIOError):
        return FrontierError(
            f"{path} is open in another container, by a process with the same id as this one ({os.getpid()}), and LMDB "
            "tells processes apart by their ids: run the command in that container (`docker exec CONTAINER COMMAND`), "
            "or as a process with another id"
        )
    code = getattr(error, "errno", None) or getattr(error, "code", None)
    if code in NO_FILES:
        return FrontierError(f"{path}: {_shown(error)}; {MORE_FILES}, and try again")
    if code in (*NO_LOCKS, errno.ENODEV):  # of mmap
        return FrontierError(
            f"{path}: {_shown(error)}: its file system has no locks, or no memory maps; put it on a local disk"
        )
    if code in _NO_PLACE:
        return NotAFrontier(f"{path} cannot be used ({_shown(error)}); remove what is there, or name another folder")
    if code in (errno.EACCES, errno.EROFS, errno.EPERM) or isinstance(error, lmdb.ReadonlyError):
        return PermissionError(
            errno.EACCES, f"cannot write: check the permissions of the folder ({_shown(error)})", str(path)
        )
    if isinstance(error, lmdb.MapFullError):
        return StorageFull(f"{path}: the memory map is full; open the frontier again: it is as of the last commit")
    if code in NO_ROOM or (code == errno.EIO and _disk_is_full(path)) or _disk_is_full(path):
        return disk_full(path)
    return FrontierError(f"{path}: {_shown(error)}; open the frontier again: it is as of the last commit")


def _shown(error: BaseException) -> str:
    """Return an error for a message; one of the system names its file as a path, not as `PosixPath(...)`."""
    if isinstance(error, OSError) and isinstance(error.filename, os.PathLike):
        return f"{error.strerror}: {os.fspath(error.filename)}"
    return str(error)


def _disk_is_full(path: Path) -> bool:
    try:
        return free_bytes(path if path.exists() else path.parent) < _LOW_DISK
    except OSError:
        return False


def check_lock_table(env: lmdb.Environment, path: Path) -> None:
    """Raise FrontierLocked if processes use the lock table with a data file that has since been replaced.

    The table has the number of the last transaction, by which LMDB would choose the wrong one of two roots.
    """
    with env.begin() as txn:
        if txn.id() == env.info()["last_txnid"]:
            return
    raise FrontierLocked(
        f"{path / 'data.mdb'} was replaced while other processes had the old file open: end those processes first "
        f"(`fuser {path / 'lock.mdb'}` names them)"
    )


def open_tables(env: lmdb.Environment, path: Path) -> keys.Tables:
    """Return the handles of the tables by name. Raises NotAFrontier, NewerSchema, or CorruptFrontier if one is lost."""
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
    check_schema(stored, path)
    try:
        return {name: env.open_db(name.encode(), create=False) for name in keys.TABLES}
    except lmdb.NotFoundError:
        raise CorruptFrontier(f"{path} is damaged: a table is lost; {REMEDY}") from None


def check_schema(stored: bytes | None, path: Path) -> None:
    """Raise NewerSchema for the schema of another version, and CorruptFrontier for an impossible one."""
    if stored is None or not stored.isdigit() or not int(stored):
        raise CorruptFrontier(f"{path} is damaged: its schema is {stored!r}; {REMEDY}")
    if int(stored) != keys.SCHEMA:
        raise NewerSchema(
            f"{path} has schema {int(stored)}, and this budgetfrontier reads and writes schema {keys.SCHEMA} only: "
            "open it with the version that wrote it; nothing was changed"
        )
