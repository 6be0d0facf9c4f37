"""Scrapy's JOBDIR: the requests of `requests.queue`, as each of its disk queues writes them.

Files tell what they are: a SQLite database, a LIFO file (a count, then each request and its size), or a folder of FIFO
chunks (each request after its size); a request is pickled or marshalled. Nothing is unpickled: `pickled` and
`marshalled` read plain data and call nothing. `active.json`, which only a clean stop writes, is not needed. What was
kept up to a stop that was not clean is read, as far as it is whole. Which lists were tuples or sets is kept with a
request, so that its spider gets them back.
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

from budgetfrontier.formats import marshalled, pickled
from budgetfrontier.formats.allowance import LARGEST, Allowance, TooMuch
from budgetfrontier.formats.records import (
    Bad,
    Item,
    Kinds,
    Note,
    Record,
    headers,
    hops,
    plain_meta,
    text,
    whole,
    with_cookies,
)
from budgetfrontier.model import CrawlUri

QUEUE, SEEN = "requests.queue", "requests.seen"
_CHUNK = re.compile(r"q\d{5,}")
_SHORTEST = 64  # bytes of a request
_CHUNK_INFO = 1 << 16  # bytes of info.json, which has some hundred
_SQLITE = b"SQLite format 3\0"
_OWN = ("callback", "errback", "cb_kwargs", "flags", "cookies")
"""What only a spider can use: kept in `meta` under "scrapy", beside an encoding. Cookies too: Scrapy drops a header of
them."""


_OF_HOSTS = ("idna", "punycode")  # encodings that are slow with long texts


def recognize(folder: Path) -> bool:
    """Whether a folder is a JOBDIR."""
    return (folder / QUEUE).is_dir() or (folder / SEEN).is_file()


def read(folder: Path, allowance: Allowance) -> Iterator[Item]:
    """The requests, in the order in which they were pushed; a higher priority goes before anyway. Memory is O(1)."""
    if (folder / SEEN).is_file() and (count := _fingerprints(folder / SEEN)):
        yield Note(
            f"{folder / SEEN}: {count:,} fingerprints of Scrapy's own cannot be turned into URLs: what was fetched "
            "there counts as new here; a list of those URLs can be imported with --seen"
        )
    for path in _queues(folder / QUEUE):
        yield from _read_queue(path, allowance)


def _queues(folder: Path, depth: int = 2) -> Iterator[Path]:
    """The queues of a folder and those of its slots: files, and folders of chunks. Sorted: the same order always."""
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
        # Nothing is rolled back here: a journal names files that SQLite would then delete.
        kill = path.with_name(f"{path.name}-journal").is_file()
        hint = "; a kill left it in the middle of a change, which `sqlite3 FILE .tables` takes back" if kill else ""
        yield Bad(str(path), "queue", f"{error}; no more of this queue can be read{hint}", ends=True)


def _read_lifo(path: Path, file: IO[bytes], allowance: Allowance) -> Iterator[Item]:
    """Requests say themselves where they end; their sizes, which stand behind them, confirm it.

    Behind a damaged one, those follow to which the sizes lead from the end of the file.
    """
    size = path.stat().st_size
    at, rest = 4, None  # the count is that of the last clean stop
    if 0 < size < 4:
        yield Bad(str(path), "queue", f"{size} bytes are no queue", ends=True)
    while at < size:
        place = f"{path}: byte {at:,}"
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
            which = f"{end - at:,} bytes" if end < size else f"the last {size - at:,} bytes of this queue"
            yield Bad(place, "request", f"{error}; {which} cannot be read", ends=end == size)
        else:
            yield _record(place, request, allowance)
        at = end


def _starts_after(at: int, file: IO[bytes], size: int) -> array[int]:
    """Where the requests behind `at` begin as the sizes tell, the last first. Memory: 8 bytes for each."""
    starts = array("q")
    while size > at + 4:
        file.seek(size - 4)
        length = int.from_bytes(file.read(4), "big")
        size -= 4 + length
        if length < _SHORTEST:
            break
        if size > at:
            starts.append(size)
    return starts


def _read_fifo(folder: Path, allowance: Allowance) -> Iterator[Item]:
    """From where the last clean stop left off, if there was one, to the end of the last chunk."""
    first, offset = _tail(folder / "info.json")
    chunks = sorted(
        (int(path.name[1:]), path) for path in folder.iterdir() if _CHUNK.fullmatch(path.name) and path.is_file()
    )
    if chunks and chunks[-1][0] < first:
        first = offset = 0  # it tells of chunks that are not there
    for number, path in chunks:
        if number >= first:
            with open(path, "rb") as file:
                yield from _read_chunk(path, file, offset if number == first else 0, allowance)


def _tail(info: Path) -> tuple[int, int]:
    """The chunk and the byte in it up to which requests were taken out, as far as is known."""
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
        place = f"{path}: byte {at:,}"
        file.seek(at)
        length = int.from_bytes(file.read(4), "big")
        if at + 4 + length > size:
            yield Bad(place, "request", f"it breaks off; the last {size - at:,} bytes cannot be read", ends=True)
            return
        yield _parse(place, file.read(length), allowance) if length <= LARGEST else _too_large(place)
        at += 4 + length


def _read_sqlite(path: Path, allowance: Allowance) -> Iterator[Item]:
    database = sqlite3.connect(f"file:{quote(os.fsencode(path))}?mode=ro", uri=True)
    try:
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 4 * LARGEST)
        database.execute("PRAGMA trusted_schema = OFF")
        database.execute("PRAGMA cell_size_check = ON")
        table = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'queue' AND rootpage > 0"
        if not database.execute(table).fetchone():
            raise sqlite3.DatabaseError("it has no table `queue`")  # a view, or a virtual table, might have no end
        rows = database.execute(
            "SELECT rowid, CASE WHEN length(item) <= ? THEN CAST(item AS BLOB) END FROM queue ORDER BY rowid",
            (LARGEST,),
        )
        last = -(1 << 63) - 1
        for number, value in rows:
            if not isinstance(number, int) or number <= last:
                raise sqlite3.DatabaseError("its pages lead back to one another")
            place, last = f"{path}: row {number}", number
            yield _too_large(place) if value is None else _parse(place, value, allowance)
    finally:
        database.close()


def _too_large(place: str) -> Bad:
    return Bad(place, "too-large", f"a request of more than {LARGEST >> 20} MiB")


def _load(file: IO[bytes], allowance: Allowance) -> object:
    allowance.begin()
    start = file.read(1)
    file.seek(-len(start), 1)
    return (marshalled if start and start in marshalled.STARTS else pickled).load(file, allowance)


def _parse(place: str, value: bytes, allowance: Allowance) -> Item:
    try:
        return _record(place, _load(BytesIO(value), allowance), allowance)
    except pickled.Unreadable as error:
        return Bad(place, "request", str(error))


def _record(place: str, request: Any, allowance: Allowance) -> Item:
    """The URI of a request, as `Request.to_dict` gives it, now or in Scrapy 1; cookies become a header, too."""
    kinds: Kinds = []
    try:
        fields = {text(name): value for name, value in request.items()}
        given = {
            text(name): value for name, value in (fields.get("meta") or {}).items() if isinstance(name, str | bytes)
        }
        meta, whole_meta = plain_meta(given, allowance, kinds, ("meta",))
        whole_meta = whole_meta and len(given) == len(fields.get("meta") or {})
        encoding = _encoding(fields.get("encoding"))
        kept = {name: fields[name] for name in _OWN if fields.get(name)}
        if encoding != "utf-8":
            kept["encoding"] = encoding
        own, whole_own = plain_meta(kept, allowance, kinds)
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
            priority=whole(fields.get("priority")),
        )
        if not isinstance(uri.body, bytes):
            raise ValueError("its body is no bytes")
    except TooMuch as error:
        return Bad(place, "too-large", str(error))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        return Bad(place, "request", f"no request of Scrapy ({type(error).__name__}: {error})")
    lost = {
        "a part of meta": not whole_meta,
        "a part of what a callback gets": not whole_own,
        "its class": "_class" in fields,
    }
    return Record(place, uri, left=tuple(name for name in lost if lost[name]))


def _encoding(given: object) -> str:
    """The name of the encoding of a request. Raises LookupError for one that texts do not have."""
    name = text(given or "utf-8")
    if codecs.lookup(name).name in _OF_HOSTS:
        raise LookupError(f"{name} is no encoding of texts")
    return name


def _fingerprints(path: Path) -> int:
    """How many fingerprints a file holds: lines of hexadecimal digits, or (newer) binary ones after their sizes."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        start = file.readline(200)
    if re.fullmatch(rb"[0-9a-f]+\r?\n", start):
        return size // len(start)
    return size // (2 + int.from_bytes(start[:2], "big")) if size else 0
