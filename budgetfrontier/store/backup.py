"""Whole copies of a frontier's data file: beside it for a backup, or smaller and in its place.

A copy holds the last commit without the free pages, however the file grows meanwhile.
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

from budgetfrontier.errors import CorruptFrontier, FrontierError, NotAFrontier, StorageFull
from budgetfrontier.store import keys
from budgetfrontier.store.environment import Environment
from budgetfrontier.store.lmdb_env import GIB, UNFINISHED, check_files, open_lmdb, sync_folder, translate_error
from budgetfrontier.store.lock import LOCK, WriterLock
from budgetfrontier.store.modes import make_folder, opener

PARTIAL = ".partial"
MEMORY = "crawl"  # the folder in a frontier's in which a crawl keeps what it remembers besides: an LMDB file too
_CHUNK = 1 << 20
_AT_ONCE = 1 << 23  # bytes between two syncs: a crawl that goes on waits for the disk no longer than for these

# Where LMDB 0.9 has them in its two meta pages, the first two of the file: their own number, and the transaction's.
_NUMBER = Struct("=Q")
_PAGE_NUMBER, _TRANSACTION = 0, 144

log = logging.getLogger(__name__)


def copy(env: lmdb.Environment, path: Path, folder: Path, *, max_growth: int | None = None) -> None:
    """Write the last commit of `env`, which is open at `path`, to `folder`/data.mdb: compact, and synced.

    A copy keeps its snapshot, and whoever writes meanwhile must leave its pages alone: stops with a FrontierError once
    the file has grown by `max_growth` bytes (default: by its own size, or 1 GiB if that is more).
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
                        f"{path} has grown from {size:,} to {data.stat().st_size:,} bytes while it was copied, for all "
                        "that a copy reads is kept; copy to a faster disk, or when the crawl is quiet"
                    )
            os.fsync(file.fileno())
        except OSError as e:
            if e.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StorageFull(f"the disk of {folder} is full; the copy is not made, {path} is as it was") from e
            raise


def copy_memory(path: Path, folder: Path) -> None:
    """Write the last commit of a crawl's memory, if the frontier at `path` has one, to the folder of a copy.

    It is only a cache: one that cannot be read is left out. Raises StorageFull.
    """
    source, made = path / MEMORY, folder / MEMORY
    if not (source / "data.mdb").is_file():
        return
    make_folder(made, like=folder)
    try:
        check_files(source)
        env = open_lmdb(source, readonly=True)
        try:
            copy(env, source, made)
        finally:
            env.close()
        sync_folder(made)
    except StorageFull:
        raise
    except (FrontierError, OSError) as e:
        log.warning("%s is not in the copy: %s", source, e)
        shutil.rmtree(made)


@contextmanager
def _streamed(env: lmdb.Environment, path: Path) -> Iterator[int]:
    """Open a pipe from which a copy is read. LMDB writes it in a thread, which ends when nobody reads on:
    so Ctrl-C is handled at once, and errors of the disk keep their types."""
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
        # The environment must not be closed while it is copied: LMDB crashes or hangs. `join` cannot tell, for Ctrl-C
        # may have come within `start`, when the thread runs, or is about to, and is not known yet.
        unwanted.set()
        os.close(receive)
        with copying:
            pass
    if errors:
        raise translate_error(errors[0], path) from errors[0]


@contextmanager
def appearing(path: Path) -> Iterator[Path]:
    """Make a folder beside `path`; at the end of the block it is synced and takes that name, on an error it is removed.

    Raises FrontierError for a `path` that holds something, FrontierLocked if another process is making the same.
    """
    path = Path(os.path.abspath(path))
    taken = FrontierError(f"{path} holds something; name a folder that is empty, or not there yet")
    if path.is_symlink() or (path.exists() and (not path.is_dir() or any(path.iterdir()))):
        raise taken
    partial = path.with_name(path.name + PARTIAL)
    lock = _taken(partial)
    try:
        _empty(partial)  # of what one who was killed has left
        yield partial
        sync_folder(partial)
        try:
            os.rename(partial, path)
        except OSError as e:
            if e.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):  # somebody was faster
                raise taken from None
            raise
        sync_folder(path.parent)
    except BaseException:
        # The lock goes last, and all that stands there afterwards is another's: rmdir leaves it alone.
        with suppress(OSError):
            _empty(partial)
            (partial / LOCK).unlink()
            partial.rmdir()
        raise
    finally:
        lock.release()


def _taken(partial: Path) -> WriterLock:
    """Make the folder of a copy unless it is there, and lock it. Raises FrontierLocked."""
    while True:
        make_folder(partial)
        try:
            return WriterLock(partial / LOCK)
        except FileNotFoundError:
            if partial.is_dir():
                raise
            # another attempt was aborted, and took the folder away between the two steps


def _empty(partial: Path) -> None:
    """Remove what a copy holds, but for its lock."""
    (partial / "data.mdb").unlink(missing_ok=True)
    shutil.rmtree(partial / MEMORY, ignore_errors=True)


def compact(path: Path) -> tuple[int, int]:
    """Let a copy without free pages take the place of the data file: its bytes before, and after.

    Needs the writer's lock: raises FrontierLocked while an engine runs. Readers may look on, and see the old file until
    they are opened again. Killed at any point, or out of disk, the frontier is whole: as it was, or compact.
    """
    if not check_files(path):
        raise NotAFrontier(f"there is no frontier at {path}; name the folder of a job")
    env = Environment(path)
    making = path / UNFINISHED
    try:
        before = (path / "data.mdb").stat().st_size
        make_folder(making, like=path)
        copy(env.env, path, making)
        number_on(making / "data.mdb", env.env.info()["last_txnid"], env.env.stat()["psize"])
        _compare(env.env, making)
        replace_data(making, path)
        return before, (path / "data.mdb").stat().st_size
    finally:
        env.close()
        shutil.rmtree(making, ignore_errors=True)


def number_on(data: Path, transaction: int, page_size: int) -> None:
    """Let a data file that was made anew go on counting transactions where the one before it is, and sync it.

    A new file begins with 1. But readers that have the old one open have the lock table open with it, which holds the
    number of the last transaction. As that is even or odd, a writer finds the tables by the first root of the file or
    by the second, and a new file may lack one: so both become its newest root, under the numbers that they would have.
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
    """Read a copy back: raises CorruptFrontier unless every record of every table is in it."""
    other = open_lmdb(folder, readonly=True, map_size=(folder / "data.mdb").stat().st_size)
    try:
        with env.begin(buffers=True) as ours, other.begin(buffers=True) as theirs:
            for name in keys.TABLES:
                db = env.open_db(name.encode(), txn=ours, create=False)
                copied = other.open_db(name.encode(), txn=theirs, create=False)
                if ours.stat(db)["entries"] != theirs.stat(copied)["entries"] or not all(
                    map(eq, ours.cursor(db).iternext(), theirs.cursor(copied).iternext())
                ):
                    raise CorruptFrontier(f"the copy of {name} is not what was copied; nothing was changed")
    finally:
        other.close()


def replace_data(made: Path, path: Path) -> None:
    """Let the data file in `made` take the place of that in `path` at once. The writer's lock must be ours."""
    new, old = made / "data.mdb", path / "data.mdb"
    owner = old.stat()
    os.chown(new, owner.st_uid, owner.st_gid)  # an operator may be somebody else than the crawl
    os.chmod(new, owner.st_mode & 0o7777)
    os.replace(new, old)
    sync_folder(path)
