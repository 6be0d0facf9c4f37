"""The cache of a crawl: robots.txt files, which content its WARC files hold, and the time and bytes it has used.

A small LMDB environment in a folder of its own, JOB/frontier/crawl. It is a cache: lost, robots.txt files are fetched
again, content is written once more, and limits on time and bytes count anew; which scope was agreed on is then told by
the stored settings alone. So a damaged one is moved aside, and the crawl goes on with an empty one.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import struct
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import lmdb
import msgspec

from budgetfrontier.errors import FrontierLocked, StorageFull
from budgetfrontier.model import CrawlUri
from budgetfrontier.store.lmdb_env import GIB, check_files, open_lmdb, translate_error
from budgetfrontier.store.modes import make_folder

DAMAGED = ".damaged"  # what the folder's name ends in, moved aside
KEPT = 30 * 86400.0  # seconds that a robots.txt is kept after it expired, for when its host does not answer
MOST_WRITTEN = 32 << 20  # bytes put between two commits
MOST_PUT = 10_000  # records between two commits: each dirties a page of its own, for digests lie at random
_LONGEST_KEY = 511  # of LMDB
_SWEPT = 2  # records looked at for each one that is put: more than one, so that a table does not grow for ever
_FAST = 1  # zlib's level: a few milliseconds for the largest robots.txt
_head = struct.Struct(">dh")  # expires, status
_used = struct.Struct(">dQ")  # seconds, bytes
_CRAWL, _SCOPE, _FOUND = b"crawl", b"scope", b"found"  # the keys of the table `used`

log = logging.getLogger(__name__)


class StoredRobots(NamedTuple):
    """A robots.txt as it was fetched: HTTP status, the epoch seconds it counts until, body."""

    status: int
    expires: float
    body: bytes


class Original(NamedTuple):
    """The WARC record that some content was written to first: WARC-Target-URI, WARC-Date, WARC-Record-ID."""

    url: str
    date: str
    record_id: str


class CrawlCache:
    """The tables `robots`, `digests` and `used`, for one process: that which holds the frontier's lock.

    What was put can be read at once, and is durable after `commit`. Raises StorageFull when the disk is full: close it
    then, it is as of its last commit.
    """

    def __init__(self, path: Path) -> None:
        """Open the cache in the folder `path`, or create it there.

        Raises StorageFull, or FrontierLocked if this process has it open already.
        """
        self.path = path
        self._found: list[CrawlUri] = []
        self._any_found = False  # whether the last commit has any
        try:
            self._open()
        except (StorageFull, FrontierLocked):
            raise
        except Exception as e:
            self._begin_anew(e)

    @property
    def due(self) -> bool:
        """Whether as much has been put since the last commit as LMDB should hold in memory: commit soon."""
        return self._written >= MOST_WRITTEN or self._put_count >= MOST_PUT

    def robots(self, site: str) -> StoredRobots | None:
        """Return the robots.txt of a site ("https://example.org:8443"), expired or not; None if there is none."""
        value = self._get(_site_key(site), self._robots)
        if value is None:
            return None
        try:
            expires, status = _head.unpack_from(value)
            return StoredRobots(status, expires, zlib.decompress(value[_head.size :]))
        except (struct.error, zlib.error) as e:
            log.warning("%s: the robots.txt of %s cannot be read (%s)", self.path, site, e)
            return None

    def put_robots(self, site: str, robots: StoredRobots, *, now: float) -> None:
        """Keep the robots.txt of a site. Forgets some that expired long before `now`, in epoch seconds."""
        value = _head.pack(robots.expires, robots.status) + zlib.compress(robots.body, _FAST)
        self._put(_site_key(site), value, self._robots)
        try:
            self._sweep(now)
        except lmdb.Error as e:
            self._failed(e)

    def original(self, digest: bytes) -> Original | None:
        """Return where the content with this SHA-1 (20 bytes) was written first; None if it never was."""
        value = self._get(digest, self._digests)
        if value is None:
            return None
        try:
            return msgspec.msgpack.decode(value, type=Original)
        except msgspec.DecodeError as e:
            log.warning("%s: the record of digest %s cannot be read (%s)", self.path, digest.hex(), e)
            return None

    def put_original(self, digest: bytes, original: Original) -> None:
        """Note where the content with this SHA-1 was written. Who came first stays."""
        self._put(digest, msgspec.msgpack.encode(original), self._digests, overwrite=False)

    def used(self) -> tuple[float, int]:
        """Return the seconds that the crawl has run, in all its runs, and the bytes that it has downloaded."""
        value = self._get(_CRAWL, self._used)
        return _used.unpack(value) if value is not None and len(value) == _used.size else (0.0, 0)

    def put_used(self, seconds: float, size: int) -> None:
        """Note what `used` returns."""
        self._put(_CRAWL, _used.pack(seconds, size), self._used)

    def scope(self) -> bytes | None:
        """Return what was given to `put_scope` last: the scope that all that is queued has been looked at with."""
        return self._get(_SCOPE, self._used)

    def put_scope(self, identity: bytes) -> None:
        """Note the scope that has been agreed on."""
        self._put(_SCOPE, identity, self._used)

    def found(self) -> list[CrawlUri]:
        """Return what the last commit has of `put_found`, and what was put since: the frontier may not have it yet.

        This memory commits before the frontier does. So after a crash it may know a robots.txt whose sitemaps the
        frontier has lost, and nobody would fetch that file again.
        """
        return [*self._found]

    def put_found(self, uris: list[CrawlUri]) -> None:
        """Note what a robots.txt that was put led to, for the frontier to be told of again after a crash."""
        self._found += uris
        self._put_count += 1
        self._written += 8 * sum(len(uri.url) for uri in uris)  # a commit is due soon: these lie in this process, too

    def commit(self) -> None:
        """Make everything that was put durable. Free if nothing was."""
        if not self._put_count:
            return
        if self._found or self._any_found:
            self._put(_FOUND, msgspec.msgpack.encode(self._found), self._used)
            self._any_found = bool(self._found)
            self._found = []
        try:
            self._txn.commit()
            self._begin()
        except (lmdb.Error, OSError) as e:
            self._failed(e)

    def close(self) -> None:
        """Close the files. What was not committed is dropped."""
        if hasattr(self, "_txn"):
            self._txn.abort()
        if hasattr(self, "_env"):
            self._env.close()

    # One transaction is open at any time.

    def _open(self) -> None:
        try:
            if not check_files(self.path):
                make_folder(self.path, like=self.path.parent)
            self._env = open_lmdb(self.path, map_size=GIB)
            self._env.reader_check()
            self._robots: Any = self._env.open_db(b"robots")
            self._digests: Any = self._env.open_db(b"digests")
            self._used: Any = self._env.open_db(b"used")
            self._begin()
            self._found = self._stored_found()
            self._any_found = bool(self._found)
        except (lmdb.Error, OSError) as e:
            raise translate_error(e, self.path) from e
        self._swept = b""

    def _begin(self) -> None:
        info = self._env.info()
        if info["map_size"] - (info["last_pgno"] + 1) * self._env.stat()["psize"] < GIB // 2:
            self._env.set_mapsize(info["map_size"] + GIB)
        self._txn: lmdb.Transaction = self._env.begin(write=True)
        self._written = self._put_count = 0

    def _stored_found(self) -> list[CrawlUri]:
        value: Any = self._txn.get(_FOUND, db=self._used)
        try:
            return [] if value is None else msgspec.msgpack.decode(value, type=list[CrawlUri])
        except msgspec.DecodeError as e:
            log.warning("%s: the sitemaps of the last robots.txt files cannot be read (%s)", self.path, e)
            return []

    def _get(self, key: bytes, table: Any) -> bytes | None:
        try:
            value: Any = self._txn.get(key, db=table)
        except lmdb.Error as e:
            self._failed(e)
            return None
        return value if value is None else bytes(value)

    def _put(self, key: bytes, value: bytes, table: Any, *, overwrite: bool = True) -> None:
        self._put_count += 1
        self._written += len(value)
        try:
            self._txn.put(key, value, overwrite=overwrite, db=table)
        except lmdb.Error as e:
            self._failed(e)

    def _sweep(self, now: float) -> None:
        """Go on through the robots.txt files, round and round, and drop those that nobody needs any more."""
        cursor: Any = self._txn.cursor(self._robots)
        found = cursor.set_range(self._swept) or cursor.first()
        for _ in range(_SWEPT):
            if not found:
                break
            self._swept = cursor.key() + b"\0"
            expires: float = _head.unpack(cursor.value()[: _head.size].ljust(_head.size, b"\0"))[0]
            if expires + KEPT < now:
                cursor.delete()
                found = bool(cursor.key())
            else:
                found = cursor.next()

    def _failed(self, error: Exception) -> None:
        """Raise StorageFull, or else begin anew: a page cannot be read."""
        why = translate_error(error, self.path)
        if isinstance(why, StorageFull):
            raise why from error
        self._begin_anew(why)

    def _begin_anew(self, why: Exception) -> None:
        in_thread = self.path.with_name(self.path.name + DAMAGED)
        log.warning("%s; but this is only a cache: moved to %s, and begun anew", why, in_thread)
        self.close()
        shutil.rmtree(in_thread, ignore_errors=True)
        self.path.rename(in_thread)
        self._open()


def _site_key(site: str) -> bytes:
    key = site.encode()
    return key if len(key) <= _LONGEST_KEY else hashlib.sha256(key).digest()
