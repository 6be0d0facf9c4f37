"""The cache of a crawl: robots.txt files, digests of the content in its WARC files, and the time and bytes used.

It is a small LMDB environment in its own folder, JOB/frontier/crawl. The crawl can go on without its data: robots.txt
files are fetched again, content is written again, limits on time and bytes start at zero, and only the stored settings
say which scope was accepted. Therefore a damaged cache is renamed, and replaced by an empty one; after any other error,
such as too many open files, it stays as it is, and the crawl ends.
"""

from __future__ import annotations

import hashlib
import logging
import struct
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import lmdb
import msgspec

from budgetfrontier.core.model import CrawlUri
from budgetfrontier.errors import CorruptFrontier, NotAFrontier
from budgetfrontier.storage import lock_table
from budgetfrontier.storage.limits_used import KEY, TABLE, Used, decode_used, encode_used
from budgetfrontier.storage.lmdb_env import GIB, check_files, open_lmdb, translate_error
from budgetfrontier.storage.modes import make_folder
from budgetfrontier.storage.whole_files import name_for_damaged

SHARED = "cache"
"""The folder of the cache in a job with its frontier in another process."""
KEPT = 30 * 86400.0  # seconds that a robots.txt is kept after it has expired, for use while its host does not respond
MOST_WRITTEN = 32 << 20  # bytes between two commits
MOST_PUT = 10_000  # records between two commits: each dirties a page of its own, because digests are random
_LONGEST_KEY = 511  # bytes: LMDB's limit
_SWEPT = 2  # records checked for expiry per record put: more than one, so that the table cannot grow without bound
_FAST = 1  # zlib's level: a few milliseconds for the largest robots.txt
_head = struct.Struct(">dh")  # expires, status
# Keys of the table `used`, besides that of `storage.limits_used`.
_SCOPE, _FOUND, _FINISHED = b"scope", b"found", b"finished"

_DAMAGE = (CorruptFrontier, NotAFrontier)

log = logging.getLogger("budgetfrontier.crawl")


class StoredRobots(NamedTuple):
    """A robots.txt as fetched: HTTP status, expiry in epoch seconds, body."""

    status: int
    expires: float
    body: bytes


class Original(NamedTuple):
    """The first WARC record with some content: its WARC-Target-URI, WARC-Date and WARC-Record-ID."""

    url: str
    date: str
    record_id: str


_decode_original = msgspec.msgpack.Decoder(Original).decode
_decode_uris = msgspec.msgpack.Decoder(list[CrawlUri]).decode


class CrawlCache:
    """The tables `robots`, `digests` and `used`, for use by the process that holds the frontier's lock.

    Data that was put is visible at once, and durable after `commit`. Methods raise StorageFull when the disk is full,
    and other errors that are no damage: the cache has to be closed then, and is in the state of its last commit.
    """

    def __init__(self, path: Path) -> None:
        """Open or create the cache in the folder `path`; a damaged one is replaced.

        Raises StorageFull, FrontierLocked if this process has it open already, and PermissionError or FrontierError if
        it cannot be opened: nothing is moved then.
        """
        self.path = path
        self._found: list[CrawlUri] = []
        self._any_found = False  # whether the last commit contains any
        self._failed: Exception | None = None  # the first error that is no damage: the transaction cannot go on
        try:
            self._open()
        except _DAMAGE as e:
            self._replace(e)
        except BaseException:
            self.close()
            raise

    @property
    def due(self) -> bool:
        """Whether to commit soon: as much has been put since the last commit as LMDB should keep in memory."""
        return self._written >= MOST_WRITTEN or self._put_count >= MOST_PUT

    def robots(self, site: str) -> StoredRobots | None:
        """Return the robots.txt of a site ("https://example.org:8443"), expired or not; None if none is stored."""
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
        """Store the robots.txt of a site, and delete some that expired long before `now` (epoch seconds)."""
        value = _head.pack(robots.expires, robots.status) + zlib.compress(robots.body, _FAST)
        self._put(_site_key(site), value, self._robots)
        try:
            self._sweep(now)
        except lmdb.Error as e:
            self._handle_error(e)

    def original(self, digest: bytes) -> Original | None:
        """Return the first record with the content of this SHA-1 (20 bytes); None if there is none."""
        value = self._get(digest, self._digests)
        if value is None:
            return None
        try:
            return _decode_original(value)
        except msgspec.DecodeError as e:
            log.warning("%s: the record of digest %s cannot be read (%s)", self.path, digest.hex(), e)
            return None

    def put_original(self, digest: bytes, original: Original) -> None:
        """Store the record with the content of this SHA-1, unless one is stored already."""
        self._put(digest, msgspec.msgpack.encode(original), self._digests, overwrite=False)

    def used(self) -> Used:
        """Return the seconds that the crawl has run and the bytes that it has downloaded, over all its runs."""
        return decode_used(self._get(KEY, self._used)) or Used()

    def put_used(self, seconds: float, size: int) -> None:
        """Store the values that `used` returns."""
        self._put(KEY, encode_used(Used(seconds, size)), self._used)

    def finished(self) -> int:
        """Return the URIs that this job has finished over all its runs, if its frontier is shared with others."""
        value = self._get(_FINISHED, self._used)
        return int.from_bytes(value or b"")

    def put_finished(self, uris: int) -> None:
        """Store the value that `finished` returns."""
        self._put(_FINISHED, uris.to_bytes(8), self._used)

    def scope(self) -> bytes | None:
        """Return the identity of the scope that all waiting URIs were last checked against; None if none was stored."""
        return self._get(_SCOPE, self._used)

    def put_scope(self, identity: bytes) -> None:
        """Store the identity of the scope that all waiting URIs have been checked against."""
        self._put(_SCOPE, identity, self._used)

    def found(self) -> list[CrawlUri]:
        """Return the URIs of `put_found` in the last commit and since then, which the frontier may not have yet.

        The cache commits before the frontier. After a crash, it may thus have a robots.txt, not to be fetched again,
        with sitemaps that the frontier has lost.
        """
        return [*self._found]

    def put_found(self, uris: list[CrawlUri]) -> None:
        """Store the URIs found in a robots.txt that was put, to be scheduled again after a crash."""
        self._found += uris
        self._put_count += 1
        self._written += 8 * sum(
            len(uri.url) for uri in uris
        )  # counted eight times: they are in the memory of this process too

    def commit(self) -> None:
        """Make everything that was put durable. Costs nothing if nothing was put."""
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
            self._handle_error(e)

    def close(self) -> None:
        """Close the files. Uncommitted data is lost."""
        if hasattr(self, "_txn"):
            self._txn.abort()
        if hasattr(self, "_env"):
            lock_table.close(self._env)

    # A write transaction is always open.

    def _open(self) -> None:
        try:
            if not check_files(self.path):
                make_folder(self.path, like=self.path.parent)
            self._env = open_lmdb(self.path, map_size=GIB)
            self._robots: Any = self._env.open_db(b"robots")
            self._digests: Any = self._env.open_db(b"digests")
            self._used: Any = self._env.open_db(TABLE)
            self._begin()
            self._found = self._stored_found()
            self._any_found = bool(self._found)
        except (lmdb.Error, OSError) as e:
            raise translate_error(e, self.path) from e
        self._sweep_position = b""

    def _begin(self) -> None:
        info = self._env.info()
        if info["map_size"] - (info["last_pgno"] + 1) * self._env.stat()["psize"] < GIB // 2:
            self._env.set_mapsize(info["map_size"] + GIB)
        self._txn: lmdb.Transaction = self._env.begin(write=True)
        self._written = self._put_count = 0

    def _stored_found(self) -> list[CrawlUri]:
        value: Any = self._txn.get(_FOUND, db=self._used)
        try:
            return [] if value is None else _decode_uris(value)
        except msgspec.DecodeError as e:
            log.warning("%s: the sitemaps of the last robots.txt files cannot be read (%s)", self.path, e)
            return []

    def _get(self, key: bytes, table: Any) -> bytes | None:
        try:
            value: Any = self._txn.get(key, db=table)
        except lmdb.Error as e:
            self._handle_error(e)
            return None
        return value if value is None else bytes(value)

    def _put(self, key: bytes, value: bytes, table: Any, *, overwrite: bool = True) -> None:
        self._put_count += 1
        self._written += len(value)
        try:
            self._txn.put(key, value, overwrite=overwrite, db=table)
        except lmdb.Error as e:
            self._handle_error(e)

    def _sweep(self, now: float) -> None:
        """Check the next few robots.txt files, cycling through the table; delete those expired KEPT seconds ago."""
        cursor: Any = self._txn.cursor(self._robots)
        found = cursor.set_range(self._sweep_position) or cursor.first()
        for _ in range(_SWEPT):
            if not found:
                break
            self._sweep_position = cursor.key() + b"\0"
            expires: float = _head.unpack(cursor.value()[: _head.size].ljust(_head.size, b"\0"))[0]
            if expires + KEPT < now:
                cursor.delete()
                found = bool(cursor.key())
            else:
                found = cursor.next()

    def _handle_error(self, error: Exception) -> None:
        """Replace the cache if it is damaged; otherwise raise the error, as after each call that follows."""
        why = self._failed or translate_error(error, self.path)
        if isinstance(why, _DAMAGE):
            self._replace(why)
            return
        self._failed = why
        raise why from error

    def _replace(self, why: Exception) -> None:
        self.close()
        damaged = name_for_damaged(self.path)
        log.warning("%s; but this is only a cache: moved to %s, and begun anew", why, damaged)
        self.path.rename(damaged)
        self._open()


def _site_key(site: str) -> bytes:
    key = site.encode()
    return key if len(key) <= _LONGEST_KEY else hashlib.sha256(key).digest()
