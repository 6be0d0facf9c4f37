"""Reader of Scrapy's JOBDIR: the requests in `requests.queue`, in the formats of all its disk queues.

The format is found from the files: a SQLite database, a LIFO file (a count, then each request followed by its size), or
a folder of FIFO chunks (each request preceded by its size); a request is pickled or marshalled. Nothing is unpickled:
`pickled` and `marshalled` read plain data and call nothing. `active.json`, which only a clean stop writes, is not
needed: after a kill, the requests that were written whole are read. Which lists were tuples or sets is stored with a
request, so that its spider gets these types back.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import sqlite3
from array import array
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from budgetfrontier.core.model import CrawlUri
from budgetfrontier.reports.format import counted
from budgetfrontier.tools.importers import marshalled, pickled
from budgetfrontier.tools.importers.allowance import MAX_RECORD_SIZE, Allowance, RecordTooLarge
from budgetfrontier.tools.importers.import_items import (
    BadRecord,
    Item,
    Kinds,
    Record,
    SourceNote,
    headers,
    hops,
    integer,
    plain_meta,
    text,
    with_cookies,
)

QUEUE, SEEN = "requests.queue", "requests.seen"
_CHUNK = re.compile(r"q\d{5,}")
_MIN_REQUEST_SIZE = 64  # bytes of the smallest request
_CHUNK_INFO = 1 << 16  # bytes read of info.json, which has a few hundred
_SQLITE = b"SQLite format 3\0"
_SPIDER_FIELDS = ("callback", "errback", "cb_kwargs", "flags", "cookies")
"""Fields that only a spider can use, stored in `meta` under "scrapy", with the encoding unless it is UTF-8.

Cookies, too: Scrapy drops a Cookie header.
"""


_OF_HOSTS = ("idna", "punycode")  # encodings of host names, slow for long texts


def recognize(folder: Path) -> bool:
    """Return whether a folder is a JOBDIR."""
    return (folder / QUEUE).is_dir() or (folder / SEEN).is_file()


def read(folder: Path, allowance: Allowance) -> Iterator[Item]:
    """Yield the requests, in the order of their pushes; the frontier orders by priority. O(1) memory."""
    if (folder / SEEN).is_file() and (count := _fingerprints(folder / SEEN)):
        yield fingerprints_note(str(folder / SEEN), count)
    for path in _queues(folder / QUEUE):
        yield from _read_queue(path, allowance)


def fingerprints_note(location: str, count: int) -> SourceNote:
    """Return the message that the fingerprints of requests were left out."""
    return SourceNote(
        f"{location}: {counted(count, 'fingerprint')} of Scrapy's own cannot be turned into URLs: what was "
        "fetched there counts as new here; a list of those URLs can be imported with --seen"
    )


def _queues(folder: Path, depth: int = 2) -> Iterator[Path]:
    """Yield the queues of a folder and of its slots, sorted: files, and folders of chunks."""
    if not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        if path.is_file():
            if path.name != "active.json" and not path.name.endswith(("-journal", "-wal", "-shm")):
                yield path
        elif path.is_dir():
            if (path / "info.json").is_file() or any(_CHUNK.fullmatch(inner.name) for inner in path.iterdir()):
                yield path
            elif depth > 1:
                yield from _queues(path, depth - 1)


def _read_queue(path: Path, allowance: Allowance) -> Iterator[Item]:
    try:
        if path.is_dir():
            yield from _read_fifo(path, allowance)
            return
        allowance.grant(path.stat().st_size)
        with open(path, "rb") as file:
            start = file.read(len(_SQLITE))
            if start != _SQLITE:
                yield from _read_lifo(path, file, allowance)
                return
        yield from _read_sqlite(path, allowance)
    except (OSError, sqlite3.Error, UnicodeError) as error:  # SQLite quotes damaged bytes in its messages
        # Do not let SQLite roll back: a crafted journal could name files that SQLite would then delete.
        kill = path.with_name(f"{path.name}-journal").is_file()
        hint = "; a kill left it in the middle of a change, which `sqlite3 FILE .tables` takes back" if kill else ""
        yield BadRecord(str(path), "queue", f"{error}; no more of this queue can be read{hint}", ends=True)


def _read_lifo(path: Path, file: IO[bytes], allowance: Allowance) -> Iterator[Item]:
    """Yield the requests of a LIFO file. Decoding finds the end of a request; the size stored after it must agree.

    After a damaged request, go on with the requests found by following the sizes backwards from the end of the file.
    """
    size = path.stat().st_size
    at, rest = 4, None  # the count in the first four bytes is that of the last clean stop
    if 0 < size < 4:
        yield BadRecord(str(path), "queue", f"{counted(size, 'byte')} cannot be a queue", ends=True)
    while at < size:
        location = f"{path}: byte {at:,}"
        file.seek(at)
        try:
            request = _load(file, allowance)
            end = file.tell() + 4
            if int.from_bytes(file.read(4), "big") != end - 4 - at:
                raise pickled.Unreadable("its size is another than the file says")
        except pickled.Unreadable as error:
            rest = _starts_after(at, file, size) if rest is None else rest
            while rest and rest[-1] <= at:
                rest.pop()
            end = rest.pop() if rest else size
            which = counted(end - at, "byte") if end < size else f"the last {counted(size - at, 'byte')} of this queue"
            yield BadRecord(location, "request", f"{error}; {which} cannot be read", ends=end == size)
        else:
            yield record(location, request, allowance)
        at = end


def _starts_after(at: int, file: IO[bytes], size: int) -> array[int]:
    """Return where the requests after `at` begin, by their sizes, last first. Memory: 8 bytes each."""
    starts = array("q")
    while size > at + 4:
        file.seek(size - 4)
        length = int.from_bytes(file.read(4), "big")
        size -= 4 + length
        if length < _MIN_REQUEST_SIZE:
            break
        if size > at:
            starts.append(size)
    return starts


def _read_fifo(folder: Path, allowance: Allowance) -> Iterator[Item]:
    """Yield the requests from the position of the last clean stop, if any, to the end of the last chunk."""
    first, offset = _tail(folder / "info.json")
    chunks = sorted(
        (int(path.name[1:]), path) for path in folder.iterdir() if _CHUNK.fullmatch(path.name) and path.is_file()
    )
    if chunks and chunks[-1][0] < first:
        first = offset = 0  # info.json names chunks that do not exist
    for number, path in chunks:
        if number >= first:
            with open(path, "rb") as file:
                yield from _read_chunk(path, file, offset if number == first else 0, allowance)


def _tail(info: Path) -> tuple[int, int]:
    """Return the chunk, and the byte in it, up to which requests were taken out; zeros if that is unknown."""
    try:
        with open(info, "rb") as file:
            tail = json.loads(file.read(_CHUNK_INFO))["tail"]
        return max(int(tail[0]), 0), max(int(tail[2]), 0)
    except (OSError, ArithmeticError, ValueError, LookupError, TypeError, RecursionError):
        return 0, 0


def _read_chunk(path: Path, file: IO[bytes], at: int, allowance: Allowance) -> Iterator[Item]:
    size = path.stat().st_size
    allowance.grant(size)
    at = at if at <= size else 0
    while at < size:
        location = f"{path}: byte {at:,}"
        file.seek(at)
        length = int.from_bytes(file.read(4), "big")
        if at + 4 + length > size:
            yield BadRecord(
                location, "request", f"it breaks off; the last {counted(size - at, 'byte')} cannot be read", ends=True
            )
            return
        yield parse(location, file.read(length), allowance) if length <= MAX_RECORD_SIZE else _too_large(location)
        at += 4 + length


def _read_sqlite(path: Path, allowance: Allowance) -> Iterator[Item]:
    database = sqlite3.connect(f"file:{quote(os.fsencode(path))}?mode=ro", uri=True)
    try:
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 4 * MAX_RECORD_SIZE)
        database.execute("PRAGMA trusted_schema = OFF")
        database.execute("PRAGMA cell_size_check = ON")
        table = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'queue' AND rootpage > 0"
        if not database.execute(table).fetchone():
            raise sqlite3.DatabaseError("it has no table `queue`")  # a view or a virtual table might be endless
        rows = database.execute(
            "SELECT rowid, CASE WHEN length(item) <= ? THEN CAST(item AS BLOB) END FROM queue ORDER BY rowid",
            (MAX_RECORD_SIZE,),
        )
        last = -(1 << 63) - 1
        for number, value in rows:
            if not isinstance(number, int) or number <= last:
                raise sqlite3.DatabaseError("its pages lead back to one another")
            location, last = f"{path}: row {number}", number
            yield _too_large(location) if value is None else parse(location, value, allowance)
    finally:
        database.close()


def _too_large(location: str) -> BadRecord:
    return BadRecord(location, "too-large", f"a request of more than {MAX_RECORD_SIZE >> 20} MiB")


def _load(file: IO[bytes], allowance: Allowance) -> object:
    allowance.begin()
    start = file.read(1)
    file.seek(-len(start), 1)
    return (marshalled if start and start in marshalled.STARTS else pickled).load(file, allowance)


def parse(location: str, value: bytes, allowance: Allowance) -> Item:
    """Return the URI of a request that is pickled or marshalled."""
    try:
        return record(location, _load(BytesIO(value), allowance), allowance)
    except pickled.Unreadable as error:
        return BadRecord(location, "request", str(error))


def record(location: str, request: Any, allowance: Allowance) -> Item:
    """Return the URI of a request as `Request.to_dict` writes it, now or in Scrapy 1. Cookies become a header, too."""
    kinds: Kinds = []
    try:
        fields = {text(name): value for name, value in request.items()}
        own_meta = {
            text(name): value for name, value in (fields.get("meta") or {}).items() if isinstance(name, str | bytes)
        }
        meta, is_all_meta = plain_meta(own_meta, allowance, kinds, ("meta",))
        is_all_meta = is_all_meta and len(own_meta) == len(fields.get("meta") or {})
        encoding = _encoding(fields.get("encoding"))
        kept = {name: fields[name] for name in _SPIDER_FIELDS if fields.get(name)}
        if encoding != "utf-8":
            kept["encoding"] = encoding
        own, is_all_own = plain_meta(kept, allowance, kinds)
        if kinds:
            own = {**(own or {}), "kinds": kinds}
        if own:
            meta = {**(meta or {}), "scrapy": own}
        sent = headers((fields.get("headers") or {}).items(), allowance, encoding=encoding)
        body = fields.get("body") or b""
        uri = CrawlUri(
            text(fields["url"]),
            via=next((value for name, value in (sent or {}).items() if name.lower() == "referer"), None),
            hops=hops((meta or {}).get("depth")),
            method=text(fields.get("method") or "GET"),
            headers=with_cookies(sent, fields.get("cookies"), allowance),
            body=body.encode("latin-1") if isinstance(body, str) else body,  # of Python 2
            meta=meta,
            force=bool(fields.get("dont_filter")),
            priority=integer(fields.get("priority")),
        )
        if not isinstance(uri.body, bytes):
            raise ValueError("its body is not bytes")
    except RecordTooLarge as error:
        return BadRecord(location, "too-large", str(error))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        return BadRecord(location, "request", f"no request of Scrapy ({type(error).__name__}: {error})")
    lost = {
        "a part of meta": not is_all_meta,
        "a part of what a callback gets": not is_all_own,
        "its class": "_class" in fields,
    }
    return Record(location, uri, omitted=tuple(name for name in lost if lost[name]))


def _encoding(given: object) -> str:
    name = text(given or "utf-8")
    if codecs.lookup(name).name in _OF_HOSTS:
        raise LookupError(f"{name} is not a text encoding")
    return name


def _fingerprints(path: Path) -> int:
    """Return how many fingerprints a file holds: lines of hex digits, or (newer) binary ones after their sizes."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        start = file.readline(200)
    if re.fullmatch(rb"[0-9a-f]+\r?\n", start):
        return size // len(start)
    return size // (2 + int.from_bytes(start[:2], "big")) if size else 0
