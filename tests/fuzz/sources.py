"""Fuzzed: what other crawlers keep on disk. Each is read, or what is wrong with it is told with its place."""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import json
import marshal
import pickle
import sqlite3
import struct
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from hypothesis import strategies as st

from budgetfrontier.tools import importers as formats
from budgetfrontier.tools.cli.importing import MAX_DETAIL, SourceResult, _records
from budgetfrontier.tools.importers.import_items import BadRecord
from tests.fuzz.target import Target
from tests.fuzz.urls import SHARED_MEMORY

REQUEST = {
    "url": "http://a.test/é",
    "method": "POST",
    "headers": {"A": ["b", "c"]},
    "body": b"q=x",
    "cookies": {"s": "1"},
    "meta": {"depth": 2, "tags": ("x", {1, "y"}), "f": 1.5, "b": b"\0", "n": None},
    "cb_kwargs": {"n": [1, [2, {"m": 3}]]},
    "priority": 5,
    "dont_filter": True,
    "flags": ["f"],
}
KUMO = [
    {
        "request": {
            "url": "http://a.test/",
            "headers": [{"name": "a", "value": [98]}],
            "body": [113],
            "meta": {"a": 1},
        },
        "depth": 1,
        "scheduled_at_ms": 4_000_000_000_000,
    },
    ["http://a.test/2", 1, 0],
]
PLACES = (
    "urls", "recover", "queue.json", "seen.json", "0000000000_0000000001.req", "requests.queue/0",
    "requests.queue/0/q00000", "requests.queue/0/info.json",
)  # fmt: skip
"""Where each kind of file stands in a source; that of the last is read beside a chunk."""


class Source(NamedTuple):
    """A file, and where it stands."""

    place: int
    content: bytes


def _lifo(*values: bytes) -> bytes:
    return struct.pack(">L", len(values)) + b"".join(value + struct.pack(">L", len(value)) for value in values)


def _fifo(*values: bytes) -> bytes:
    return b"".join(struct.pack(">L", len(value)) + value for value in values)


@cache
def _database() -> bytes:
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY, prefix="fuzz-") as folder:
        path = Path(folder, "queue")
        with contextlib.closing(sqlite3.connect(path)) as database, database:
            database.execute("PRAGMA page_size = 512")
            database.execute("CREATE TABLE queue (id INTEGER PRIMARY KEY AUTOINCREMENT, item BLOB)")
            row = (pickle.dumps(REQUEST, 4),)
            database.executemany("INSERT INTO queue (item) VALUES (?)", [row] * 8)
        return path.read_bytes()


def samples() -> list[Source]:
    """A good file of each kind."""
    pickles = [pickle.dumps(REQUEST, protocol) for protocol in (0, 2, 4)]
    journal = b"F+ http://a.test/ L http://b.test/\nFs http://a.test/1\nFd x\nT 20261121000000\n"
    lines = b'http://a.test/ # one\n{"url": "http://a.test/2", "meta": {"a": [1]}, "cost": 2}\n'
    plain = {**REQUEST, "headers": {"A": "b"}, "meta": {"depth": 2}}
    contents = [
        (0, lines),
        (0, gzip.compress(lines * 20)),
        (1, journal),
        (1, gzip.compress(journal * 20)),
        (2, json.dumps(KUMO).encode()),
        (3, b'["http://a.test/", "http://a.test/1"]'),
        (4, msgspec.msgpack.encode(plain)),
        (5, _lifo(*pickles)),
        (5, _lifo(marshal.dumps(REQUEST), marshal.dumps(REQUEST, 2))),
        (5, _database()),
        (6, _fifo(*pickles, marshal.dumps(REQUEST))),
        (7, b'{"chunksize": 100, "size": 2, "tail": [0, 1, 20], "head": [0, 5]}'),
    ]
    return [Source(place, content) for place, content in contents]


CUT, FLIP, HUGE, AGAIN, INSERT = range(5)
edits = st.lists(
    st.tuples(
        st.sampled_from((CUT, FLIP, FLIP, HUGE, AGAIN, INSERT)), st.integers(0, 1 << 16), st.integers(0, 1 << 16)
    ),
    max_size=4,
)


def edited(source: Source, changes: list[tuple[int, int, int]]) -> Source:
    """The source with a part cut off, a bit turned, a length made huge, a part repeated or something put in."""
    content = bytearray(source.content)
    for kind, where, what in changes:
        at = where % (len(content) + 1)
        if kind == CUT:
            del content[at:]
        elif kind == FLIP and at < len(content):
            content[at] ^= 1 << what % 8
        elif kind == HUGE:
            content[at : at + 4] = (b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\x7f\xff\xff\xff", bytes(4))[what % 4]
        elif kind == AGAIN:
            content[at:at] = content[at : at + what % 40] * (what % 7)
        elif kind == INSERT:
            content[at:at] = (b"[" * 2000, b"(", b"]\x94h\x00", b"{0", b'"', b"\x91" * 2000, b"9" * 5000, b"\xdd")[
                what % 8
            ]
    return Source(source.place, bytes(content))


def check_source(source: Source) -> None:
    """Nothing is raised; what is bad has its place and a word why, and no more than that of what the file says."""
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY, prefix="fuzz-") as folder:
        place = PLACES[source.place % len(PLACES)]
        path = Path(folder, place)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source.content)
        if place.endswith("info.json"):
            path.with_name("q00000").write_bytes(_fifo(*[pickle.dumps(REQUEST)] * 3))
        root = path if source.place % len(PLACES) < 2 else Path(folder)
        kind = ("list", "heritrix", "kumo", "kumo", "qcrawl", "scrapy", "scrapy", "scrapy")[source.place % len(PLACES)]
        found = list(formats.read(str(root), kind))
        formats.kind_of(str(root))
        assert len(found) <= 100 * len(source.content) + 10  # a gzip has lines of a byte
        for item in found:
            if isinstance(item, BadRecord):
                assert item.location.startswith(str(root)) and item.detail and "object at 0x" not in item.detail
        _check_told(found)


def _check_told(found: list[Any]) -> None:
    """What `import` makes of it: each record can be handed to a frontier, or is refused, in short lines."""
    with contextlib.redirect_stderr(io.StringIO()) as said:
        for _ in _records(found, SourceResult("x"), argparse.Namespace(seeds=False, force=False, seen=False)):
            pass
    assert all(len(line) < 20 * MAX_DETAIL for line in said.getvalue().splitlines())


def read_source(raw: bytes) -> Source:
    """One byte for the place, then the file."""
    return Source(raw[0] % len(PLACES) if raw else 0, raw[1:])


sources = Target(check_source, st.builds(edited, st.deferred(lambda: st.sampled_from(samples())), edits), read_source)
