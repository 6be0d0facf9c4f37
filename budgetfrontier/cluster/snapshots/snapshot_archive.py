"""The file of a snapshot: the copy of a frontier, packed, with a checksum, so that a damaged one is noticed."""

from __future__ import annotations

import gzip
import os
import shutil
import tarfile
import zlib
from pathlib import Path, PurePosixPath

from budgetfrontier.cluster.snapshots.snapshot_store import DamagedSnapshot
from budgetfrontier.errors import NO_ROOM, StorageFull, disk_full
from budgetfrontier.storage.lmdb_env import sync_folder
from budgetfrontier.storage.modes import make_folder


def pack(folder: Path, file: Path) -> None:
    """Write the files of a folder to a new file. Raises StorageFull."""
    try:
        with tarfile.open(file, "x:gz", compresslevel=1) as archive:
            for path in sorted(folder.rglob("*")):
                if path.is_file():
                    archive.add(path, str(path.relative_to(folder)), recursive=False)
    except OSError as e:
        if e.errno in NO_ROOM:
            raise StorageFull(f"the disk of {file} is full; the snapshot is not taken") from e
        raise


def unpack(file: Path, folder: Path) -> None:
    """Write the files in a file to a new folder, synced. Raises DamagedSnapshot for a damaged one, and StorageFull."""
    make_folder(folder)
    try:
        with gzip.open(file) as unpacked, tarfile.open(fileobj=unpacked, mode="r|") as archive:
            for member in archive:
                name = PurePosixPath(member.name)
                if not member.isfile() or name.is_absolute() or ".." in name.parts:
                    raise DamagedSnapshot(f"{file.name} holds {member.name!r}, which is no file of a frontier")
                source = archive.extractfile(member)
                assert source is not None
                path = folder / name
                make_folder(path.parent, like=folder)
                with source, open(path, "xb") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
                    target.flush()
                    os.fsync(target.fileno())
            while unpacked.read(1 << 20):  # to its end, where the checksum is
                pass
    except (OSError, tarfile.TarError, zlib.error, EOFError) as e:
        code = e.errno if isinstance(e, OSError) else None
        if code in NO_ROOM:
            raise disk_full(folder) from e
        if code is None:  # an error of gzip has none
            raise DamagedSnapshot(f"{file.name} is damaged: {e}") from e
        raise
    sync_folder(folder)
