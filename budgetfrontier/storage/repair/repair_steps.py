"""The steps of a repair: readable records are written to a new file, which replaces the old one after a check.

The damaged file is only read, without LMDB. It is kept, with a list of changes and the records set aside.
"""

from __future__ import annotations

import errno
import glob
import os
import shutil
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import lmdb
import lmdb.verify

from budgetfrontier.errors import CorruptFrontier, FrontierError, NotAFrontier
from budgetfrontier.storage import keys, lock_table
from budgetfrontier.storage.backup import PARTIAL, continue_numbering, copy, replace_data
from budgetfrontier.storage.invariants import check
from budgetfrontier.storage.lmdb_env import (
    GIB,
    UNFINISHED,
    check_files,
    is_unfinished,
    open_lmdb,
    sync_folder,
    translate_error,
)
from budgetfrontier.storage.lock import locked
from budgetfrontier.storage.modes import make_folder
from budgetfrontier.storage.repair.new_tables import NewTables
from budgetfrontier.storage.repair.notes import Notes, notes_in
from budgetfrontier.storage.repair.pages import Salvage
from budgetfrontier.storage.repair.table_rebuild import TableRebuild

_FOLDER = "-repair-"


class Repaired(NamedTuple):
    """The result of a repair: its first changes, the numbers of changes and of records set aside, and the folder."""

    first_changes: list[str]
    changes: int
    set_aside: int
    folder: Path


def repair(path: Path, *, keep_damaged: bool = True) -> Repaired:
    """Rebuild the frontier at `path` from its readable records, and check the result.

    Creates a folder beside `path` with the changes, the records set aside, and, with `keep_damaged`, the damaged file.
    If the process is killed, the frontier is either unchanged or repaired. Raises FrontierLocked, StorageFull,
    NewerSchema, NotAFrontier, or CorruptFrontier if too little can be read; nothing is changed then. O(all records) in
    pure Python, about 8 us per URI; memory: some 450 bytes per queue.
    """
    path = path.resolve()
    data, mailbox = path / "data.mdb", path / "mailbox"
    if not data.is_file():
        raise NotAFrontier(f"there is no frontier at {path}; name the folder of a job")
    with locked(path):
        _finish_earlier(path)
        name = f"{path.name}{_FOLDER}{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
        folder, partial = path.with_name(name), path.with_name(name + PARTIAL)
        make_folder(partial, like=path)
        try:
            with notes_in(partial) as notes:
                lost_mailbox = _is_damaged(mailbox)
                if lost_mailbox:
                    notes.note_change(
                        "the mailbox is damaged, and was set aside: commands that wait in it are not applied"
                    )
                _rebuild(path, notes)
            _link(data, partial / "data.mdb")
            sync_folder(partial)
            sync_folder(path.parent)
            replace_data(path / UNFINISHED, path)
        except BaseException:
            if not _is_replaced(path, partial):
                shutil.rmtree(partial, ignore_errors=True)
            raise
        finally:
            shutil.rmtree(path / UNFINISHED, ignore_errors=True)
        if lost_mailbox:
            mailbox.rename(partial / "mailbox")
        if not keep_damaged:
            (partial / "data.mdb").unlink()
        partial.rename(folder)
        sync_folder(path.parent)
    return Repaired(notes.first_changes, notes.changes, notes.records_set_aside, folder)


def _finish_earlier(path: Path) -> None:
    """Finish repairs that were killed: undo those before the damaged file was replaced, complete those after it."""
    for partial in path.parent.glob(f"{glob.escape(path.name)}{_FOLDER}*{PARTIAL}"):
        if _is_replaced(path, partial):
            partial.rename(partial.with_name(partial.name.removesuffix(PARTIAL)))
        else:
            shutil.rmtree(partial)
    shutil.rmtree(path / UNFINISHED, ignore_errors=True)


def _is_replaced(path: Path, partial: Path) -> bool:
    """Return whether the repaired file has taken the place of the damaged one, which `partial` has then."""
    damaged = partial / "data.mdb"
    if not damaged.exists() or (path / UNFINISHED / "data.mdb").exists():  # on a disk without links, it is a copy
        return False
    return not damaged.samefile(path / "data.mdb")


def _rebuild(path: Path, notes: Notes) -> None:
    """Make the complete new file in the folder UNFINISHED, check it, and sync it."""
    data, making = path / "data.mdb", path / UNFINISHED
    built = making / "built"
    make_folder(making, like=path)
    make_folder(built, like=path)
    with closing(Salvage(data)) as source:
        if not source.is_frontier():
            if source.lost:
                raise CorruptFrontier(f"{path}: too little can be read; restore a backup")
            raise NotAFrontier(f"{path} has no record of a frontier; name another folder")
        env = open_lmdb(built, sync=False, map_size=max(4 * data.stat().st_size, GIB))
        try:
            TableRebuild(source, NewTables(env), notes, path).run(now=time.time())
            with env.begin() as txn:
                check(txn, {name: env.open_db(name.encode(), txn=txn, create=False) for name in keys.TABLES}, path)
            copy(env, built, making)  # without free pages: their list has transaction numbers of the new file
            continue_numbering(making / "data.mdb", source.transaction, env.stat()["psize"])
        except CorruptFrontier as e:
            raise FrontierError(f"{path} is unchanged, because the repaired file failed its check:\n{e}") from e
        except lmdb.Error as e:
            raise translate_error(e, path) from e
        finally:
            lock_table.close(env)
        for lost in source.lost:
            notes.note_loss(lost)
        for table, count in source.missing().items():
            notes.note_change(f"{table}: {count:,} record{' is' if count == 1 else 's are'} lost")


def _link(data: Path, kept: Path) -> None:
    """Link or copy the file `data` to `kept`, so that it remains when another file takes its name."""
    try:
        os.link(data, kept)
    except OSError as e:
        if e.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.EXDEV):
            raise
        shutil.copyfile(data, kept)  # the file system has no hard links
        with open(kept, "rb") as file:
            os.fsync(file.fileno())


def _is_damaged(mailbox: Path) -> bool:
    try:
        if is_unfinished(mailbox / "data.mdb") or not mailbox.is_dir() or not check_files(mailbox):
            return False
        return bool(lmdb.verify.verify(str(mailbox)))  # type: ignore[no-untyped-call]
    except (CorruptFrontier, lmdb.verify.VerifyError):
        return True
