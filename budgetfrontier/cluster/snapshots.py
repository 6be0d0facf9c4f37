"""The store of snapshots: one file for each, named after its partition and position, in a folder or behind commands."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from budgetfrontier.errors import NO_ROOM, FrontierError, SettingsError, StorageFull
from budgetfrontier.settings.schema import SnapshotSettings
from budgetfrontier.storage.lmdb_env import sync_folder
from budgetfrontier.storage.whole_files import atomic_file

COMMAND_TIMEOUT: Final = 3600.0
"""Seconds after which a command is ended: an hour."""
_MOST_OUTPUT: Final = 1000
_CRAWL: Final = re.compile(r"[A-Za-z0-9._-]+")


class SnapshotError(FrontierError):
    """A snapshot cannot be stored, listed or fetched."""


class DamagedSnapshot(SnapshotError):
    """A snapshot cannot be read."""


class Snapshot(NamedTuple):
    """A snapshot of a partition after the entries before `position`."""

    partition: int
    position: int
    name: str


def prefix_of(crawl: str, partition: int) -> str:
    """Return the prefix of the names of a partition's snapshots."""
    return f"{crawl}-{partition:04}-"


def name_of(crawl: str, partition: int, position: int) -> str:
    """Return the name of a snapshot.

    >>> name_of("news", 7, 1234)
    'news-0007-00000000000000001234.snapshot'
    """
    return f"{prefix_of(crawl, partition)}{position:020}.snapshot"


def newest_first(names: Iterable[str], crawl: str, partition: int) -> list[Snapshot]:
    """Return the snapshots of a partition among names, which may be of anything."""
    form = re.compile(re.escape(prefix_of(crawl, partition)) + r"([0-9]{20})\.snapshot", re.ASCII)
    found = {name: int(match[1]) for name in names if (match := form.fullmatch(name))}
    return [
        Snapshot(partition, position, name)
        for name, position in sorted(found.items(), key=lambda item: item[1], reverse=True)
    ]


class Store(Protocol):
    """A place for snapshots, which all workers of a crawl have. All methods raise SnapshotError."""

    def put(self, name: str, file: Path) -> None:
        """Store a file under a name, which appears once the file is complete. Raises StorageFull."""

    def get(self, name: str, file: Path) -> None:
        """Fetch a stored file into a new one. Raises StorageFull."""

    def names(self, prefix: str) -> list[str]:
        """Return at least all names that begin with `prefix`."""

    def remove(self, name: str) -> None:
        """Remove a stored file, if it exists and the store can."""


def store_of(settings: SnapshotSettings) -> Store | None:
    """Return the store that the settings name; None if they name none."""
    if settings.folder is not None:
        return FolderStore(Path(settings.folder))
    if settings.put is None or settings.get is None or settings.list is None:
        return None
    return CommandStore(put=settings.put, get=settings.get, list_=settings.list, remove=settings.remove)


def check_name(crawl: str) -> None:
    """Raise SettingsError unless the name of a crawl can be part of the names of snapshots."""
    if not _CRAWL.fullmatch(crawl):
        raise SettingsError(f"crawl: expected a name of ASCII letters, digits, ., _ and -, got {crawl!r}")


class FolderStore:
    """A folder, which may be a network mount."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __repr__(self) -> str:
        return f"<FolderStore {self._folder}>"

    def put(self, name: str, file: Path) -> None:
        """Copy a file to another name in the folder, and rename it."""
        self._check()
        try:
            with open(file, "rb") as source, atomic_file(self._folder / name) as target:
                shutil.copyfileobj(source, target, 1 << 20)
                target.flush()
                os.fsync(target.fileno())
            sync_folder(self._folder)
        except OSError as e:
            raise _not_done(f"{name} cannot be stored in {self._folder}", e) from e

    def get(self, name: str, file: Path) -> None:
        """Copy a file from the folder."""
        self._check()
        try:
            shutil.copyfile(self._folder / name, file)
        except OSError as e:
            raise _not_done(f"{self._folder / name} cannot be copied to {file}", e) from e

    def names(self, prefix: str) -> list[str]:
        """Return the names of the files in the folder."""
        self._check()
        try:
            return [name for name in os.listdir(self._folder) if name.startswith(prefix)]
        except OSError as e:
            raise _not_done(f"{self._folder} cannot be listed", e) from e

    def remove(self, name: str) -> None:
        """Remove a file from the folder."""
        try:
            (self._folder / name).unlink(missing_ok=True)
        except OSError as e:
            raise _not_done(f"{self._folder / name} cannot be removed", e) from e

    def _check(self) -> None:
        """Raise SnapshotError if the folder is not there: a mount that is missing must not be written to."""
        if not self._folder.is_dir():
            raise SnapshotError(f"there is no folder {self._folder} for snapshots: mount it, or make it")


class CommandStore:
    """An object store behind commands. Each is split into words once, and run without a shell."""

    def __init__(self, *, put: str, get: str, list_: str, remove: str | None) -> None:
        self._commands = {"put": put, "get": get, "list": list_, "remove": remove}

    def __repr__(self) -> str:
        return f"<CommandStore {self._commands['put']!r}>"

    def put(self, name: str, file: Path) -> None:
        """Run the command `put`."""
        self._run("put", {"name": name, "file": str(file)})

    def get(self, name: str, file: Path) -> None:
        """Run the command `get`."""
        self._run("get", {"name": name, "file": str(file)})
        if not file.is_file():
            raise SnapshotError(f"cluster.snapshots.get has ended well and made no file: {self._commands['get']}")

    def names(self, prefix: str) -> list[str]:
        """Return the words in the output of the command `list`, without folders before them."""
        return [word.rpartition("/")[2] for word in self._run("list", {"prefix": prefix}).split()]

    def remove(self, name: str) -> None:
        """Run the command `remove`, if there is one."""
        if self._commands["remove"] is not None:
            self._run("remove", {"name": name})

    def _run(self, kind: str, values: Mapping[str, str]) -> str:
        """Run a command, and return its output. Raises SnapshotError with the output of one that has failed."""
        command = self._commands[kind] or ""
        words = [_filled(word, values) for word in shlex.split(command)]
        try:
            ended = subprocess.run(
                words, stdin=subprocess.DEVNULL, capture_output=True, timeout=COMMAND_TIMEOUT, check=False
            )
        except OSError as e:
            raise SnapshotError(f"cluster.snapshots.{kind}: {words[0]} cannot be run: {e.strerror}") from e
        except subprocess.TimeoutExpired:
            raise SnapshotError(f"cluster.snapshots.{kind} has not ended in an hour: {command}") from None
        said = (ended.stderr + b" " + ended.stdout).decode(errors="replace").strip()
        if ended.returncode and (said or kind != "list"):  # `aws s3 ls` fails silently where there is nothing
            raise SnapshotError(
                f"cluster.snapshots.{kind} has ended with {ended.returncode}: {' '.join(words)}: "
                f"{said[-_MOST_OUTPUT:] or 'no output'}"
            )
        return ended.stdout.decode(errors="replace")


def _filled(word: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        word = word.replace(f"{{{name}}}", value)
    return word


def _not_done(what: str, error: OSError) -> FrontierError:
    full = error.errno in NO_ROOM
    return (StorageFull if full else SnapshotError)(f"{what}: {error.strerror}")
