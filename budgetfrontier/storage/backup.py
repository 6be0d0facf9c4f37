"""Copies of a frontier's data file: a backup in another folder, or a compact one that replaces the file.

A copy contains the last commit, without free pages. The frontier may be written meanwhile.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from operator import eq
from pathlib import Path
from struct import Struct

import lmdb

from budgetfrontier.errors import NO_ROOM, CorruptFrontier, FrontierError, NotAFrontier, StorageFull
from budgetfrontier.storage import bloom_file, keys, meta
from budgetfrontier.storage.environment import Environment
from budgetfrontier.storage.last_note import COPIED
from budgetfrontier.storage.lmdb_env import GIB, UNFINISHED, check_files, opened_lmdb, sync_folder, translate_error
from budgetfrontier.storage.lock import LOCK, WriterLock
from budgetfrontier.storage.modes import make_folder, opener

PARTIAL = ".partial"
CACHE = "crawl"  # the subfolder of a frontier with the cache of a crawl, an LMDB environment too
_CHUNK = 1 << 20
_AT_ONCE = 1 << 23  # bytes between two syncs: the most that a running crawl has to wait for

# Offsets in the meta pages of LMDB 0.9, the first two of the file: their own number, and that of the transaction.
_NUMBER = Struct("=Q")
_PAGE_NUMBER, _TRANSACTION = 0, 144

log = logging.getLogger("budgetfrontier.store")


def copy(env: lmdb.Environment, path: Path, folder: Path, *, max_growth: int | None = None) -> None:
    """Write the last commit of `env`, which is open at `path`, to `folder`/data.mdb, compact and synced.

    While it is read, its snapshot keeps all pages in use, so that the file of a running crawl grows. Raises
    FrontierError once it has grown by `max_growth` bytes (default: by its own size, or 1 GiB if that is more).
    """
    data = path / "data.mdb"
    size = data.stat().st_size
    most = size + (max(size, GIB) if max_growth is None else max_growth)
    with _streamed(env, path) as stream, open(folder / "data.mdb", "xb", buffering=0, opener=opener) as file:
        try:
            unsynced = 0
            while chunk := os.read(stream, _CHUNK):
                unsynced += len(chunk)
                while chunk:
                    chunk = chunk[file.write(chunk) :]
                if unsynced >= _AT_ONCE:
                    os.fsync(file.fileno())
                    unsynced = 0
                if data.stat().st_size > most:
                    raise FrontierError(
                        f"{path} has grown from {size:,} to {data.stat().st_size:,} bytes while it was copied, because "
                        "a copy keeps old pages in use; copy to a faster disk, or while the crawl does little"
                    )
            os.fsync(file.fileno())
        except OSError as e:
            if e.errno in NO_ROOM:
                raise StorageFull(f"the disk of {folder} is full; the copy is not made, {path} is as it was") from e
            raise


def copy_cache(path: Path, folder: Path) -> None:
    """Copy the last commit of the crawl's cache, if the frontier at `path` has one, to the folder of a copy.

    A cache that cannot be read is left out, with a warning. Raises StorageFull.
    """
    source, made = path / CACHE, folder / CACHE
    if not (source / "data.mdb").is_file():
        return
    make_folder(made, like=folder)
    try:
        check_files(source)
        with opened_lmdb(source, readonly=True) as env:
            copy(env, source, made)
        sync_folder(made)
    except StorageFull:
        raise
    except (FrontierError, OSError) as e:
        log.warning("%s is not in the copy: %s", source, e)
        shutil.rmtree(made)


@contextmanager
def _streamed(env: lmdb.Environment, path: Path) -> Iterator[int]:
    """Open a pipe from which a copy is read.

    LMDB writes to it in a thread, which ends when the pipe is closed. So Ctrl-C acts at once, and disk errors keep
    their types.
    """
    receive, send = os.pipe()
    errors: list[lmdb.Error] = []
    copying, unwanted = threading.Lock(), threading.Event()

    def write() -> None:
        with copying:
            try:
                if not unwanted.is_set():
                    env.copyfd(send, compact=True)  # without `compact` it would wait for a write transaction
            except lmdb.Error as e:
                errors.append(e)
            finally:
                os.close(send)

    try:
        threading.Thread(target=write, name="copy").start()
        yield receive
    finally:
        # If the environment were closed while it is copied, LMDB would crash or hang. `join` is not enough: Ctrl-C may
        # have interrupted `start` before the thread was registered, although it runs or is about to.
        unwanted.set()
        os.close(receive)
        with copying:
            pass
    if errors:
        raise translate_error(errors[0], path) from errors[0]


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Make a folder that is renamed to `path`, synced, at the end of the block; on an error it is removed.

    Raises FrontierError if `path` is not empty, FrontierLocked if another process is making the same folder.
    """
    path = Path(os.path.abspath(path))
    taken = FrontierError(f"{path} is not empty; name a folder that is empty or does not exist")
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise FrontierError(f"{path} is {'a link' if path.is_symlink() else 'a file'}; name a folder")
    if path.exists() and any(path.iterdir()):
        raise taken
    partial = path.with_name(path.name + PARTIAL)
    lock = _lock_partial(partial)
    try:
        _empty(partial)  # left by a process that was killed
        lock.write_note(COPIED)
        yield partial
        sync_folder(partial)
        try:
            os.rename(partial, path)
        except OSError as e:
            if e.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):  # another process was faster
                raise taken from None
            raise
        sync_folder(path.parent)
    except BaseException:
        # The lock file is removed last. Files that appear after that belong to another process; rmdir keeps them.
        with suppress(OSError):
            _empty(partial)
            (partial / LOCK).unlink()
            partial.rmdir()
        raise
    finally:
        lock.release()


def _lock_partial(partial: Path) -> WriterLock:
    """Make the folder of a copy unless it exists, and lock it. Raises FrontierLocked."""
    while True:
        make_folder(partial)
        try:
            return WriterLock(partial / LOCK)
        except FileNotFoundError:
            if partial.is_dir():
                raise
            # another attempt was aborted and removed the folder between the two steps


def _empty(partial: Path) -> None:
    (partial / "data.mdb").unlink(missing_ok=True)
    shutil.rmtree(partial / CACHE, ignore_errors=True)


def compact(path: Path) -> tuple[int, int]:
    """Replace the data file by a copy without free pages; return its size in bytes before and after.

    Takes the writer's lock: raises FrontierLocked while an engine runs, and CorruptFrontier if the Bloom filter is
    damaged. Open readers keep seeing the old file. If the
    process is killed or the disk is full, the frontier is intact: either unchanged or compact.
    """
    if not check_files(path):
        raise NotAFrontier(f"there is no frontier at {path}; name the folder of a job")
    env = Environment(path)
    making = path / UNFINISHED
    try:
        row = meta.read_filter(env.txn, env.db[keys.META])
        if row is not None and (why := bloom_file.objection(path, row)):
            raise bloom_file.damaged(why)
        before = (path / "data.mdb").stat().st_size
        make_folder(making, like=path)
        copy(env.env, path, making)
        continue_numbering(making / "data.mdb", env.env.info()["last_txnid"], env.env.stat()["psize"])
        _compare(env.env, making)
        replace_data(making, path)
        return before, (path / "data.mdb").stat().st_size
    except OSError as e:  # on a full disk, a folder may have no room either
        raise translate_error(e, path) from e
    finally:
        env.close()
        shutil.rmtree(making, ignore_errors=True)


def continue_numbering(data: Path, transaction: int, page_size: int) -> None:
    """Give a new data file the transaction number of the file that it will replace, and sync it.

    A new file starts counting at 1, but readers of the old file share the lock table, which has the number of the last
    transaction. LMDB takes the first root of the file if that number is even, and the second if it is odd; in a new
    file, one of them may be missing. Therefore both become copies of the newest root, with matching numbers.
    """
    with open(data, "r+b", buffering=0) as file:
        roots = [file.read(page_size), file.read(page_size)]
        newest = bytearray(max(roots, key=lambda root: _NUMBER.unpack_from(root, _TRANSACTION)))
        file.seek(0)
        for page in 0, 1:
            _NUMBER.pack_into(newest, _PAGE_NUMBER, page)
            _NUMBER.pack_into(newest, _TRANSACTION, transaction - (transaction + page) % 2)
            file.write(newest)
        os.fsync(file.fileno())


def _compare(env: lmdb.Environment, folder: Path) -> None:
    """Compare a copy with the original. Raises CorruptFrontier unless every record of every table is the same."""
    size = (folder / "data.mdb").stat().st_size
    with (
        opened_lmdb(folder, readonly=True, map_size=size) as other,
        env.begin(buffers=True) as ours,
        other.begin(buffers=True) as theirs,
    ):
        for name in keys.TABLES:
            db = env.open_db(name.encode(), txn=ours, create=False)
            copied = other.open_db(name.encode(), txn=theirs, create=False)
            if ours.stat(db)["entries"] != theirs.stat(copied)["entries"] or not all(
                map(eq, ours.cursor(db).iternext(), theirs.cursor(copied).iternext())
            ):
                raise CorruptFrontier(f"the copy of table {name} differs from the original; nothing was changed")


def replace_data(made: Path, path: Path) -> None:
    """Replace the data file in `path` by the one in `made`, atomically. The caller has to hold the writer's lock."""
    new, old = made / "data.mdb", path / "data.mdb"
    owner = old.stat()
    os.chown(new, owner.st_uid, owner.st_gid)  # the operator's account may differ from the crawl's
    os.chmod(new, owner.st_mode & 0o7777)
    os.replace(new, old)
    sync_folder(path)
