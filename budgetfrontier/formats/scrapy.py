"""Scrapy's JOBDIR: the requests of `requests.queue`, as each of its disk queues writes them.

Files tell what they are: a SQLite database, a LIFO file (a count, then each request and its size), or a folder of FIFO
chunks (each request after its size); a request is pickled or marshalled. Nothing is unpickled: `pickled` and
`marshalled` read plain data and call nothing. `active.json`, which only a clean stop writes, is not needed. What was
kept up to a stop that was not clean is read, as far as it is whole.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from budgetfrontier.formats import marshalled, pickled
from budgetfrontier.formats.records import (
    LARGEST,
    Bad,
    Item,
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
_SQLITE = b"SQLite format 3\0"
_OWN = ("callback", "errback", "cb_kwargs", "flags")
"""What only a spider can use: kept in `meta` under "scrapy"."""


def recognize(folder: Path) -> bool:
    """Whether a folder is a JOBDIR."""
    return (folder / QUEUE).is_dir() or (folder / SEEN).is_file()


def read(folder: Path) -> Iterator[Item]:
    """The requests, in the order in which they were pushed; a higher priority goes before anyway. Memory is O(1)."""
    if (folder / SEEN).is_file() and (count := _fingerprints(folder / SEEN)):
        yield Note(
            f"{folder / SEEN}: {count:,} fingerprints of Scrapy's own cannot be turned into URLs: what was fetched "
            "there counts as new here; a list of those URLs can be imported with --seen"
        )
    for path in _queues(folder / QUEUE):
        yield from _read_queue(path)


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


def _read_queue(path: Path) -> Iterator[Item]:
    try:
        if path.is_dir():
            yield from _read_fifo(path)
            return
        with open(path, "rb") as file:
            start = file.read(len(_SQLITE))
            if start != _SQLITE:
                file.seek(4)  # the count is that of the last clean stop
                yield from _read_lifo(path, file)
                return
        yield from _read_sqlite(path)
    except (OSError, sqlite3.Error) as error:
        yield Bad(str(path), "queue", str(error))


def _read_lifo(path: Path, file: IO[bytes]) -> Iterator[Item]:
    """Requests say themselves where they end: sizes, which stand behind them, only confirm it."""
    size = path.stat().st_size
    while (at := file.tell()) < size:
        place = f"{path}: byte {at:,}"
        try:
            request = _load(file)
            if int.from_bytes(file.read(4), "big") != file.tell() - 4 - at:
                raise pickled.Unreadable("its size is another than the file says")
        except pickled.Unreadable as error:
            yield Bad(place, "request", f"{error}; the last {size - at:,} bytes of this queue cannot be read")
            return
        yield _record(place, request)


def _read_fifo(folder: Path) -> Iterator[Item]:
    """From where the last clean stop left off, if there was one, to the end of the last chunk."""
    first, offset = 0, 0
    try:
        tail = json.loads((folder / "info.json").read_bytes())["tail"]
        first, offset = int(tail[0]), int(tail[2])
    except (OSError, ValueError, LookupError, TypeError):
        pass  # nothing was taken out that is known of
    for path in sorted(path for path in folder.iterdir() if _CHUNK.fullmatch(path.name)):
        number = int(path.name[1:])
        if number < first:
            continue
        with open(path, "rb") as file:
            file.seek(offset if number == first else 0)
            size = path.stat().st_size
            while (at := file.tell()) < size:
                place = f"{path}: byte {at:,}"
                length = int.from_bytes(file.read(4), "big")
                if at + 4 + length > size:
                    yield Bad(place, "request", "it breaks off")
                    break
                yield _parse(place, file.read(length)) if length <= LARGEST else _too_large(place)
                file.seek(at + 4 + length)


def _read_sqlite(path: Path) -> Iterator[Item]:
    database = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)
    try:
        database.execute("PRAGMA trusted_schema = OFF")
        if not database.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'queue'").fetchone():
            raise sqlite3.DatabaseError("it has no table `queue`")  # a view might have no end
        rows = database.execute(
            "SELECT id, CASE WHEN length(item) <= ? THEN CAST(item AS BLOB) END FROM queue ORDER BY id", (LARGEST,)
        )
        for number, value in rows:
            place = f"{path}: row {number}"
            yield _too_large(place) if value is None else _parse(place, value)
    finally:
        database.close()


def _too_large(place: str) -> Bad:
    return Bad(place, "too-large", f"a request of more than {LARGEST >> 20} MiB")


def _load(file: IO[bytes]) -> object:
    start = file.read(1)
    file.seek(-len(start), 1)
    return (marshalled if start and start in marshalled.STARTS else pickled).load(file)


def _parse(place: str, value: bytes) -> Item:
    try:
        return _record(place, _load(BytesIO(value)))
    except pickled.Unreadable as error:
        return Bad(place, "request", str(error))


def _record(place: str, request: Any) -> Item:
    """The URI of a request, as `Request.to_dict` gives it, now or in Scrapy 1; cookies become a header."""
    try:
        fields = {text(name): value for name, value in request.items()}
        meta, whole_meta = plain_meta({text(name): value for name, value in (fields.get("meta") or {}).items()})
        own, whole_own = plain_meta({name: fields[name] for name in _OWN if fields.get(name)})
        if own:
            meta = {**(meta or {}), "scrapy": own}
        sent = headers((fields.get("headers") or {}).items())
        body = fields.get("body") or b""
        uri = CrawlUri(
            text(fields["url"]),
            via=next((value for name, value in (sent or {}).items() if name.lower() == "referer"), None),
            hops=hops((meta or {}).get("depth")),
            method=text(fields.get("method") or "GET"),
            headers=with_cookies(sent, fields.get("cookies")),
            body=body.encode("latin-1") if isinstance(body, str) else body,  # of Python 2
            meta=meta,
            force=bool(fields.get("dont_filter")),
            priority=whole(fields.get("priority")),
        )
        if not isinstance(uri.body, bytes):
            raise ValueError("its body is no bytes")
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        return Bad(place, "request", f"no request of Scrapy ({type(error).__name__}: {error})")
    lost = {
        "a part of meta": not whole_meta,
        "a part of what a callback gets": not whole_own,
        "its class": "_class" in fields,
    }
    return Record(place, uri, left=tuple(name for name in lost if lost[name]))


def _fingerprints(path: Path) -> int:
    """How many fingerprints a file holds: lines of hexadecimal digits, or (newer) binary ones after their sizes."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        start = file.readline(200)
    if re.fullmatch(rb"[0-9a-f]+\r?\n", start):
        return size // len(start)
    return size // (2 + int.from_bytes(start[:2], "big")) if size else 0
