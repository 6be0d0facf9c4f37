"""The store of snapshots, a folder or an object store: a file for each, named after its partition and position."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

from budgetfrontier.errors import NO_ROOM, FrontierError, MissingExtra, SettingsError, StorageFull
from budgetfrontier.settings.schema import ClusterSettings
from budgetfrontier.storage.lmdb_env import sync_folder

try:
    from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
    from obstore.store import LocalStore, from_url
except ModuleNotFoundError as error:
    raise MissingExtra("kafka") from error

PART: Final = 8 << 20
"""Bytes of a stored file that are moved by one call."""
_CRAWL: Final = re.compile(r"[A-Za-z0-9._-]+")
_URL_SAFE: Final = str.maketrans("+/", "-_", "=")
_REFUSALS: Final = (FileNotFoundError, PermissionError, PermissionDeniedError, UnauthenticatedError, ValueError)
"""Errors that obstore raises for what a repetition would not help; some are of the standard library."""
_ERRORS: Final = (BaseError, OSError)
"""Other errors that obstore raises."""

_T = TypeVar("_T")


class SnapshotError(FrontierError):
    """A snapshot cannot be stored, listed or fetched."""


class StoreAway(SnapshotError):
    """The store does not answer, or not well: it may do so later."""


class DamagedSnapshot(SnapshotError):
    """A snapshot cannot be read."""


class Snapshot(NamedTuple):
    """A snapshot of a partition after the entries before `position`."""

    partition: int
    position: int
    name: str
    log: str = ""
    """The identity of its log, as it is in the name."""


def folder_of(crawl: str, partition: int) -> str:
    """Return the folder of a partition's snapshots in the store.

    >>> folder_of("news", 7)
    'news-0007'
    """
    return f"{crawl}-{partition:04}"


def name_of(crawl: str, partition: int, position: int, log: str = "") -> str:
    """Return the name of a snapshot of a copy of a log, whose identity is in it, if the log has one.

    >>> name_of("news", 7, 1234, "Fb0lNWW8SSqhy1o4qqgrGQ")
    'news-0007/00000000000000001234-Fb0lNWW8SSqhy1o4qqgrGQ.snapshot'
    """
    return f"{folder_of(crawl, partition)}/{position:020}{log and f'-{_in_name(log)}'}.snapshot"


def newest_first(names: Iterable[str], crawl: str, partition: int, log: str | None = None) -> list[Snapshot]:
    """Return the snapshots of a partition among names, which may be of anything: those of a log; None: of all logs.

    A position in one log says nothing of another, such as that of a topic that was deleted and made anew.
    """
    wanted = None if log is None else _in_name(log)
    form = re.compile(re.escape(folder_of(crawl, partition)) + r"/([0-9]{20})(?:-([\w-]+))?\.snapshot", re.ASCII)
    matches = [match for name in names if (match := form.fullmatch(name)) and wanted in (None, match[2] or "")]
    found = [Snapshot(partition, int(match[1]), match[0], match[2] or "") for match in matches]
    return sorted(found, key=lambda one: one.position, reverse=True)


def _in_name(log: str) -> str:
    """Return the identity of a log, Base64 of Kafka's, without what a name cannot have."""
    return log.translate(_URL_SAFE)


def check_name(crawl: str) -> None:
    """Raise SettingsError unless the name of a crawl can be part of the names of snapshots."""
    if not _CRAWL.fullmatch(crawl):
        raise SettingsError(f"crawl: expected a name of ASCII letters, digits, ., _ and -, got {crawl!r}")


def store_of(cluster: ClusterSettings) -> SnapshotStore | None:
    """Return the store that the settings name; None if they name none. Raises SnapshotError."""
    if cluster.snapshots is None:
        return None
    return SnapshotStore(cluster.snapshots, timeout=cluster.snapshot_timeout)


class SnapshotStore:
    """A place for snapshots, which all workers of a crawl have. All methods raise SnapshotError, in any thread.

    Each call to the store, of which there is one for each `PART` bytes, ends within `timeout` seconds.
    """

    def __init__(self, url: str, *, timeout: float) -> None:
        """Prepare for a URL: file://, s3://, gs:// or az://. Credentials are those of the environment."""
        self._url, self._timeout = url, timeout
        self._folder = Path(unquote(urlsplit(url).path)) if urlsplit(url).scheme == "file" else None
        self._store: Any = None

    def __repr__(self) -> str:
        return f"<SnapshotStore {self._url}>"

    def put(self, name: str, file: Path) -> None:
        """Store a file under a name, which appears once the file is complete and, in a folder, synced."""
        calls = 1 + file.stat().st_size // PART
        self._call(f"{name} cannot be stored", lambda store: store.put(name, file, chunk_size=PART), calls=calls)
        if self._folder is not None:
            self._sync(self._folder / name)

    def get(self, name: str, file: Path) -> None:
        """Fetch a stored file into a new one. Raises StorageFull."""
        what = f"{name} cannot be fetched"
        found: Any = self._call(what, lambda store: store.head(name))
        size = int(found["size"])
        try:
            with open(file, "xb") as target:
                for start in range(0, size, PART):
                    target.write(self._part(what, name, start, min(PART, size - start)))
        except OSError as e:
            kind = StorageFull if e.errno in NO_ROOM else SnapshotError
            raise kind(f"{what} to {file}: {e.strerror}") from e

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder of the store."""

        def listed(store: Any) -> list[str]:
            return [str(found["path"]) for some in store.list(folder) for found in some]

        return self._call(f"{folder} cannot be listed", listed)

    def rename(self, name: str, to: str) -> None:
        """Give a stored file another name; one that has that name is replaced."""
        self._call(f"{name} cannot be renamed", lambda store: store.rename(name, to))

    def remove(self, name: str) -> None:
        """Remove a stored file, if it exists."""

        def remove(store: Any) -> None:
            with suppress(FileNotFoundError):
                store.delete(name)

        self._call(f"{name} cannot be removed", remove)

    def _part(self, what: str, name: str, start: int, length: int) -> bytes:
        found: Any = self._call(what, lambda store: store.get_range(name, start=start, length=length))
        return bytes(found)

    def _call(self, what: str, call: Callable[[Any], _T], *, calls: int = 1) -> _T:
        """Return the result of a call to the store. Raises SnapshotError: of any error, and after the time limit."""
        seconds = self._timeout * calls
        try:
            return _within(seconds, partial(call, self._opened()))
        except TimeoutError as e:
            raise StoreAway(f"{what}: {self._url} has not answered in {seconds:g} s") from e
        except _REFUSALS as e:
            raise SnapshotError(f"{what} in {self._url}: {_said(e)}") from e
        except _ERRORS as e:
            raise StoreAway(f"{what} in {self._url}: {_said(e)}") from e

    def _opened(self) -> Any:
        """Return the client. A folder is looked for each time: a mount that is missing must not be written to."""
        if self._folder is not None:
            if not self._folder.is_dir():
                raise SnapshotError(f"there is no folder {self._folder} for snapshots: mount it, or make it")
            return LocalStore(self._folder)
        if self._store is None:
            limit = timedelta(seconds=self._timeout)
            # It answers a request for plain HTTP, which is an S3 server of one's own, only if that is allowed.
            client: Any = {"timeout": limit, "connect_timeout": limit, "allow_http": True}
            retries: Any = {"max_retries": 3, "retry_timeout": limit}
            self._store = from_url(self._url, client_options=client, retry_config=retries)
        return self._store

    def _sync(self, path: Path) -> None:
        """Bring a file of a folder to the disk, which its library does not do: its log is cut off next."""
        try:
            file = os.open(path, os.O_RDONLY)
            try:
                os.fsync(file)
            finally:
                os.close(file)
            sync_folder(path.parent)
            sync_folder(path.parent.parent)
        except OSError as e:
            raise SnapshotError(f"{path} cannot be synced: {e.strerror}") from e


def _within(seconds: float, call: Callable[[], _T]) -> _T:
    """Return the result of a call in a thread of its own, and raise what it raises; TimeoutError if it takes longer.

    Not by the library's coroutines: its threads wake event loops, and abort the process if Python ends meanwhile.
    """
    result: Future[_T] = Future()

    def work() -> None:
        try:
            result.set_result(call())
        except BaseException as e:
            result.set_exception(e)

    thread = Thread(target=work, name="snapshots", daemon=True)
    thread.start()
    thread.join(seconds)
    return result.result(timeout=0)


def _said(error: Exception) -> str:
    """Return what has happened, without the structures of the library and the page of the server that follow."""
    text = str(error)
    code = re.search(r"<Code>(\w+)</Code>", text)
    return text.partition("\n")[0].partition(": <?xml")[0] + (f" ({code[1]})" if code else "")
