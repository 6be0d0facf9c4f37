"""What other crawlers keep on disk, read as URIs: Scrapy, kumo, qcrawl, Heritrix, and plain lists.

A reader streams: memory does not grow with the number of URIs (qcrawl's needs 8 bytes for each). It never raises for
what is in a record: a bad one is a Bad, with its place and the reason, and the next one follows; where none can follow,
it says so. Nothing that was read is run: no pickle, no marshalled code. What is made of a source is bounded by one
Allowance.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from budgetfrontier.errors import FrontierError
from budgetfrontier.formats.allowance import UNKNOWN, Allowance, Exhausted
from budgetfrontier.formats.records import GZIP, Bad, Item, opened

__all__ = ["KINDS", "kind_of", "read"]

KINDS = ("list", "heritrix", "scrapy", "kumo", "qcrawl")
"""What can be read, by name."""
_FOLDERS = ("scrapy", "kumo", "qcrawl")


def _reader(kind: str) -> Any:
    """The module that reads a kind. Most imports need one of them, which is a third of their start."""
    return import_module(f"{__name__}.{kind}")


def kind_of(source: str) -> str:
    """Which kind of source a file or folder is, by looking at it; "-" (stdin) is a list.

    Raises FrontierError for a folder of none, and OSError.
    """
    path = Path(source)
    if source == "-":
        return "list"
    if path.is_dir():
        for name in _FOLDERS:
            if _reader(name).recognize(path):
                return name
        if any((folder / "data.mdb").exists() for folder in (path, path / "frontier")):
            raise FrontierError(
                f"{source} holds a frontier of this program: `export` what is pending there to a file that ends in "
                ".jsonl, and import that; or `backup` all of it"
            )
        raise FrontierError(
            f"{source} is a folder, but neither a JOBDIR of Scrapy, a frontier of kumo nor a disk queue of qcrawl"
        )
    if path.exists() and not path.is_file():
        return "list"  # a pipe, of which nothing can be read twice
    start = _start(path)
    if _reader("heritrix").recognize(start):
        return "heritrix"
    return "kumo" if start.lstrip().startswith(b"[") and _reader("kumo").recognize(path) else "list"


def read(source: str, kind: str | None = None) -> Iterator[Item]:
    """The URIs of a source; without `kind`, of the kind that it looks like. Raises FrontierError and OSError."""
    begun = False
    try:
        for item in _read(source, kind or kind_of(source), Allowance()):
            begun = True
            yield item
    except Exhausted as error:
        yield Bad(source, "too-large", str(error), ends=True)
    except OSError as error:
        if not begun:
            raise
        yield Bad(source, "read", f"{error}; no more of it can be read", ends=True)


def _read(source: str, kind: str, allowance: Allowance) -> Iterator[Item]:
    path = Path(source)
    if kind in _FOLDERS:
        if not path.exists() or (kind != "kumo" and not path.is_dir()):
            raise FrontierError(f"{source}: there is no such folder")
        yield from _reader(kind).read(path, allowance)
    elif source == "-":
        if kind != "list":
            raise FrontierError(f"stdin can be a list only: what {kind} keeps is read from its files")
        allowance.grant(UNKNOWN)
        yield from _reader("lists").read(sys.stdin.buffer, source, allowance)
    elif kind == "heritrix":
        yield from _reader("heritrix").read(path, allowance)
    else:
        with opened(path, allowance) as file:
            yield from _reader("lists").read(file, source, allowance)


def _start(path: Path) -> bytes:
    """The first bytes of a file, decompressed as far as that goes."""
    with open(path, "rb") as file:
        start = file.read(4096)
    if not start.startswith(GZIP):
        return start
    try:
        return zlib.decompressobj(wbits=31).decompress(start, 4096)
    except zlib.error:
        return b""
