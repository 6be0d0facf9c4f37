"""Sources made to hurt, one folder each; run as a script, all are read with little memory.

`python hostile.py FOLDER ROOM SHARE` prints for each source how many URIs and bad records were found, and whether it
was read to its end. ROOM is in MiB, on top of what the process takes before; the limits of what is made of a source
are divided by SHARE.
"""

from __future__ import annotations

import gzip
import json
import marshal
import pickle
import resource
import sqlite3
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from budgetfrontier.errors import FrontierError
from budgetfrontier.tools import importers as formats
from budgetfrontier.tools.importers import allowance
from budgetfrontier.tools.importers.import_items import BadRecord, Record

URL = b"\x8c\x03url\x8c\x0ehttp://a.test/"
LONG = "x" * 300_000


def lifo(*values: bytes) -> bytes:
    """A queue file as queuelib writes it."""
    return struct.pack(">L", len(values)) + b"".join(value + struct.pack(">L", len(value)) for value in values)


def request(**fields: Any) -> dict[str, Any]:
    return {"url": "http://a.test/", "dont_filter": True, **fields}


def meta(operations: bytes) -> bytes:
    """The pickle of a request whose `meta` has what some operations leave on the stack."""
    return b"\x80\x04}(" + URL + b"\x8c\x04meta}\x8c\x01a" + operations + b"ssu."


def again(operation: bytes, times: int) -> bytes:
    """A list of as many results of an operation."""
    return b"](" + operation * times + b"e"


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def _key_of_hash_0(number: int) -> bytes:
    return b"\x8a\x0a" + (number * ((1 << 61) - 1)).to_bytes(10, "little") + b"N"


DOUBLED = b"]\x94" + b"".join(b"](h" + bytes([n]) + b"h" + bytes([n]) + b"e\x94" for n in range(60))
CALLED = b"\x8c\x07_codecs\x8c\x06encode\x93\x94" + text(LONG) + b"\x8c\x06latin1\x86\x94"

PICKLES: dict[str, bytes] = {
    "doubled again and again": meta(DOUBLED),
    "one text a thousand times": pickle.dumps(request(meta={"a": [LONG] * 20_000}), 4),
    "one text in many values": pickle.dumps(request(meta={str(n): [LONG] * 20 for n in range(2_000)}), 4),
    "one text in a header": pickle.dumps(request(headers={"A": [LONG] * 20_000}), 4),
    "one text in cookies": pickle.dumps(request(cookies=[{"name": "a", "value": LONG}] * 20_000), 4),
    "one text in a mark's name": meta(text(LONG) + b"\x94" + again(b"h\x00h\x00\x93", 20_000)),
    "bytes made a thousand times": meta(CALLED + again(b"h\x00h\x01R", 20_000)),
    "a list made a set a thousand times": meta(
        b"]\x94(" + b"N" * 30_000 + b"eh\x00\x85\x94\x8c\x08builtins\x8c\x03set\x93\x94" + again(b"h\x02h\x01R", 20_000)
    ),
    "the name of a name of a name": meta(DOUBLED + b"h\x3b\x93"),
    "marks above a long stack": meta(b"](" + b"N" * 50_000 + b"(1" * 50_000 + b"e"),
    "marks alone": meta(b"(" * 100_000),
    "nested": meta(b"]" * 100_000 + b"a" * 99_999),
    "keys of one hash": meta(b"}(" + b"".join(map(_key_of_hash_0, range(20_000))) + b"u"),
    "in itself": meta(b"]\x94(" + b"h\x00" * 1000 + b"e"),
    "a size that lies": meta(b"\x8e" + b"\xff" * 7 + b"\x7f"),
    "a frame that lies": b"\x80\x04\x95" + b"\xff" * 7 + b"\x7f.",
    "a number without end": meta(b"L" + b"9" * 100_000 + b"L\n"),
}


def _marshalled(*values: Any) -> bytes:
    """A request with an own list in `meta`, of one long text and references to it, and then values."""
    head = b"{\xfa\x03url\xda\x0ehttp://a.test/\xda\x04meta{\xda\x01a"
    return head + b"[" + b"".join(values) + b"00"


MARSHALLED: dict[str, bytes] = {
    "references": _marshalled(
        struct.pack("<I", 20_001), b"\xe1", struct.pack("<I", len(LONG)), LONG.encode(), b"r\4\0\0\0" * 20_000
    ),
    "empty mappings": _marshalled(struct.pack("<I", 500_000), b"{0" * 500_000),
    "nested sequences": b"{\xfb" + b"\xa9\x01" * 100_000,
    "a length that lies": _marshalled(b"\xff\xff\xff\x7f"),
    "an end where none is": _marshalled(struct.pack("<I", 1), b"0"),
    "a set": marshal.dumps(request(meta={"a": {1, 2}})),
}


def _write(folder: Path, name: str, content: bytes | str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def scrapy_queue(folder: Path, content: bytes) -> Path:
    _write(folder, "requests.queue/0", content)
    return folder


def _database(folder: Path, *statements: str) -> Path:
    path = _write(folder, "requests.queue/0", b"")
    with sqlite3.connect(path) as database:
        for statement in statements:
            database.execute(statement)
    database.close()
    return path


def looped_pages(folder: Path) -> Path:
    """A database whose root leads to its first page of rows again and again."""
    row = marshal.dumps(request()).hex()
    path = _database(
        folder,
        "CREATE TABLE queue (id INTEGER PRIMARY KEY AUTOINCREMENT, item BLOB)",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) "
        f"INSERT INTO queue (item) SELECT x'{row}' FROM n",
    )
    data = bytearray(path.read_bytes())
    size = int.from_bytes(data[16:18], "big")
    for start in range(0, len(data), size):
        if data[start] == 5:  # an interior page of a table: its cells begin with a page number
            count = int.from_bytes(data[start + 3 : start + 5], "big")
            cells = [start + int.from_bytes(data[start + 12 + 2 * n : start + 14 + 2 * n], "big") for n in range(count)]
            for cell in cells:
                data[cell : cell + 4] = data[cells[0] : cells[0] + 4]
    path.write_bytes(data)
    return folder


def generated_column(folder: Path) -> Path:
    """A table whose items are made as they are asked for."""
    _database(
        folder,
        "CREATE TABLE queue (id INTEGER PRIMARY KEY, item BLOB AS (zeroblob(900000000)))",
        "INSERT INTO queue (id) VALUES (1), (2), (3)",
    )
    return folder


def many_records(folder: Path) -> Path:
    """Small requests, each of which would be made just as large as a record may be."""
    value = pickle.dumps(request(meta={"a": ["x" * 1000] * 500}), 4)
    return scrapy_queue(folder, lifo(*[value] * 300))


def _kumo(element: str) -> Callable[[Path], Path]:
    return lambda folder: (
        _write(folder, "queue.json", f'[{element}, {{"request": {{"url": "http://a.test/"}}}}]').parent
    )


SOURCES: dict[str, Callable[[Path], Path]] = {
    **{f"pickle: {name}": lambda folder, v=value: scrapy_queue(folder, lifo(v)) for name, value in PICKLES.items()},  # type: ignore[misc]
    **{f"marshal: {name}": lambda folder, v=value: scrapy_queue(folder, lifo(v)) for name, value in MARSHALLED.items()},  # type: ignore[misc]
    "scrapy: many records": many_records,
    "scrapy: looped pages": looped_pages,
    "scrapy: generated column": generated_column,
    "kumo: a body of a number": _kumo('{"request": {"url": "http://a.test/", "body": 12000000000}}'),
    "kumo: a header of a number": _kumo(
        '{"request": {"url": "http://a.test/", "headers": [{"name": "a", "value": 12000000000}]}}'
    ),
    "kumo: a time without end": _kumo(f'{{"request": {{"url": "http://a.test/"}}, "scheduled_at_ms": {"9" * 4000}}}'),
    "kumo: nested": _kumo('{"request": ' + "[" * 50_000 + "]" * 50_000 + "}"),
    "kumo: empty mappings": _kumo('{"request": [' + "{}," * 100_000 + "0]}"),
    "kumo: a text without end": _kumo('{"request": "' + "[" * 100_000),
    "qcrawl: empty mappings": lambda folder: (
        _write(
            folder,
            "0000000000_0000000001.req",
            msgspec.msgpack.encode({"url": "http://a.test/", "meta": {"a": [{}] * 300_000}}),
        ).parent
    ),
    "qcrawl: nested": lambda folder: (
        _write(folder, "0000000000_0000000001.req", b"\x81\xa3url" + b"\x91" * 100_000 + b"\x00").parent
    ),
    "qcrawl: a length that lies": lambda folder: (
        _write(folder, "0000000000_0000000001.req", b"\x81\xa3url\xc6\xff\xff\xff\xff").parent
    ),
    "list: compressed lines": lambda folder: _write(folder, "urls.gz", gzip.compress(b"#" * 20_000_000 + b"\n")),
    "list: compressed line": lambda folder: _write(folder, "urls.gz", gzip.compress(b"\n" * 2_000_000)),
    "list: nested": lambda folder: _write(folder, "urls.jsonl", '{"url": "http://a.test/", "meta": ' + "[" * 100_000),
    "list: empty mappings": lambda folder: _write(
        folder, "urls.jsonl", '{"url": "http://a.test/", "meta": [' + "{}," * 300_000 + "0]}"
    ),
    "list: packed": lambda folder: _write(
        folder,
        "urls.jsonl",
        json.dumps({"url": "http://a.test/", "meta": {"$msgpack": "gICA" * 500_000}}),
    ),
    "heritrix: blanks": lambda folder: _write(folder, "recover", "F+ http://a.test/" + " " * (15 << 20)),
}


def look(source: Path) -> tuple[int, int, bool]:
    """How many URIs and bad records a source has, and whether it was read to its end."""
    found = list(formats.read(str(source)))
    bad = [item for item in found if isinstance(item, BadRecord)]
    assert all(item.location.startswith(str(source)) and "object at 0x" not in item.detail for item in bad)
    return sum(isinstance(item, Record) for item in found), len(bad), not any(item.ends for item in bad)


def main(folder: Path, room: int, share: int) -> None:
    """Read all sources with so many MiB of memory."""
    allowance.RECORD_ALLOWANCE //= share
    allowance.SOURCE_GRACE //= share
    sources = {name: make(folder / str(number)) for number, (name, make) in enumerate(SOURCES.items())}
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + (room << 20),) * 2)
    results: dict[str, Any] = {}
    for name, source in sources.items():
        try:
            results[name] = look(source)
        except (MemoryError, FrontierError, AssertionError) as error:
            results[name] = repr(error)
    print(json.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
