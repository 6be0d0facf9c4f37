"""Readers of the files and Redis queues of other crawlers: Scrapy, kumo, qcrawl, Heritrix, and plain lists.

A reader streams: memory does not grow with the number of URIs (except 8 bytes for each in qcrawl's). It never raises
for the content of a record: a bad record is yielded as a BadRecord, with its location and the reason, and reading goes
on with the next one; if that is impossible, the BadRecord says so. Nothing that is read is executed: no pickle, no
marshalled code. An Allowance bounds the memory and the time that a source may take.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from budgetfrontier.core.vocabulary import SOURCE_KINDS
from budgetfrontier.errors import FrontierError
from budgetfrontier.reports.format import without_password
from budgetfrontier.tools.importers.allowance import UNKNOWN_SIZE, Allowance, AllowanceExhausted
from budgetfrontier.tools.importers.import_items import GZIP, BadRecord, Item, open_source

__all__ = ["KINDS", "is_redis", "kind_of", "read"]

KINDS = SOURCE_KINDS
"""The kinds of sources that can be read."""
_FOLDERS = ("scrapy", "kumo", "qcrawl")
_REDIS = ("redis://", "rediss://", "unix://")


def _reader(kind: str) -> Any:
    """Import the module that reads a kind.

    Only the one needed is imported: all of them take a third of the start-up time.
    """
    return import_module(f"{__name__}.{kind}")


def is_redis(source: str) -> bool:
    """Return whether a source is the URL of a Redis server."""
    return source.lower().startswith(_REDIS)


def kind_of(source: str) -> str:
    """Return which kind of source a file or folder is, judged by its content; "-" (stdin) is a list.

    Raises FrontierError for a folder that is none of them, and OSError.
    """
    path = Path(source)
    if source == "-":
        return "list"
    if path.is_dir():
        for name in _FOLDERS:
            if _reader(name).recognize(path):
                return name
        if _reader("heritrix").is_job(path):
            return "heritrix"
        if any((folder / "data.mdb").exists() for folder in (path, path / "frontier")):
            raise FrontierError(
                f"{source} holds a frontier of this program: `export` what is pending there to a file that ends in "
                ".jsonl, and import that; or `backup` all of it"
            )
        raise FrontierError(
            f"{source} is a folder, but neither a JOBDIR of Scrapy, a job of Heritrix, a frontier of kumo nor a "
            "disk queue of qcrawl"
        )
    if path.exists() and not path.is_file():
        return "list"  # a pipe: it cannot be read twice, so its start cannot be tested
    start = _start(path)
    if _reader("heritrix").recognize(start):
        return "heritrix"
    return "kumo" if start.lstrip().startswith(b"[") and _reader("kumo").recognize(path) else "list"


def read(source: str, kind: str | None = None, *, key: str | None = None, of_seeds: bool = False) -> Iterator[Item]:
    """Yield the URIs of a source; without `kind`, it is detected. Raises FrontierError and OSError.

    `key` is the name of a queue in Redis. `of_seeds`: a list is one of seeds, which may have settings.
    """
    begun = False
    try:
        allowance = Allowance()
        if is_redis(source):
            items = _reader("redis").read(source, kind, key, allowance)
        else:
            items = _read(source, kind or kind_of(source), allowance, of_seeds=of_seeds)
        for item in items:
            begun = True
            yield item
    except AllowanceExhausted as error:
        yield BadRecord(without_password(source), "too-large", str(error), ends=True)
    except OSError as error:
        if not begun:
            raise
        yield BadRecord(source, "read", f"{error}; no more of it can be read", ends=True)


def _read(source: str, kind: str, allowance: Allowance, *, of_seeds: bool) -> Iterator[Item]:
    path = Path(source)
    if kind in _FOLDERS:
        if not path.exists() or (kind != "kumo" and not path.is_dir()):
            raise FrontierError(f"{source}: there is no such folder")
        yield from _reader(kind).read(path, allowance)
    elif source == "-":
        if kind != "list":
            raise FrontierError(f"stdin can be a list only: what {kind} keeps is read from its files")
        allowance.grant(UNKNOWN_SIZE)
        yield from _reader("lists").read(sys.stdin.buffer, source, allowance, of_seeds=of_seeds)
    elif kind == "heritrix":
        yield from _reader("heritrix").read(path, allowance)
    else:
        with open_source(path, allowance) as file:
            yield from _reader("lists").read(file, source, allowance, of_seeds=of_seeds)


def _start(path: Path) -> bytes:
    """Return the first bytes of a file, decompressed if it is a gzip; empty if that is damaged."""
    with open(path, "rb") as file:
        start = file.read(4096)
    if not start.startswith(GZIP):
        return start
    try:
        return zlib.decompressobj(wbits=31).decompress(start, 4096)
    except zlib.error:
        return b""
