"""The items that all readers yield, and conversions of foreign values to the fields of a CrawlUri."""

from __future__ import annotations

import gzip
import io
import os
import stat
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple, cast

from budgetfrontier.core.model import CrawlUri
from budgetfrontier.settings.url_lists import SeedSetting
from budgetfrontier.tools.importers.allowance import MAX_RECORD_SIZE, STEP_SIZE, UNKNOWN_SIZE, Allowance

MAX_HOPS = 1024
GZIP = b"\x1f\x8b"
GZIP_ERRORS = (EOFError, zlib.error, gzip.BadGzipFile)
"""Errors that reading a truncated or damaged gzip raises."""
_MAX_DEPTH = 40  # levels of nesting in the meta of a request


class Record(NamedTuple):
    """One URI of a source."""

    location: str
    """Where it is in the source, for messages."""
    uri: CrawlUri
    seen: bool = False
    """Whether the source is done with it: it is marked as seen, not queued."""
    charged: bool = False
    """Whether it was fetched, so that its cost is charged."""
    omitted: tuple[str, ...] = ()
    """Names of the fields that a CrawlUri cannot hold."""
    dead: str | None = None
    """The reason for which the source gave it up: it becomes a dead letter."""
    given: Mapping[str, SeedSetting] | None = None
    """The settings of a seed that a CrawlUri cannot hold, its budget and sheets, and its others."""


class BadRecord(NamedTuple):
    """A record that cannot be imported; `reason` is a short slug, for counting."""

    location: str
    reason: str
    detail: str
    ends: bool = False
    """Whether the rest of its file cannot be read."""


class SourceNote(NamedTuple):
    """A message about the source as a whole."""

    text: str


Item = Record | BadRecord | SourceNote


class NotPlain(ValueError):
    """A value that is not plain data."""


class SetOf(list[Any]):
    """The items of a set, as a list: hashing them could be made to take forever by a few crafted bytes."""

    kind = "set"


class FrozenSetOf(SetOf):
    """The items of a frozenset, as a list."""

    kind = "frozenset"


Kinds = list[list[Any]]
"""The lists of plain data that were of another type: for each its kind ("tuple", "set", "frozenset"), then its path."""


def plain(value: object, allowance: Allowance, kinds: Kinds | None = None, path: tuple[Any, ...] = ()) -> Any:
    """Return a copy of the value as plain data, with lists for tuples and sets, which are recorded in `kinds`.

    Raises NotPlain, also for a value nested too deep, and RecordTooLarge or AllowanceExhausted.
    """
    found: Kinds = []
    copy = _plain(value, _MAX_DEPTH, allowance, found, path)
    if kinds is not None:
        kinds += found
    return copy


def _plain(value: object, depth: int, allowance: Allowance, kinds: Kinds, path: tuple[Any, ...]) -> Any:
    if depth == 0:
        raise NotPlain("nested too deep")
    allowance.spend(STEP_SIZE + len(value) if isinstance(value, str | bytes) else STEP_SIZE)
    if value is None or isinstance(value, bool | float | bytes):
        return value
    if isinstance(value, int):
        if -(1 << 63) <= value < 1 << 63:
            return value
    elif isinstance(value, str):
        if _is_text(value):
            return value
    elif isinstance(value, dict):
        items = [(_key(key, allowance), item) for key, item in value.items()]
        return {key: _plain(item, depth - 1, allowance, kinds, (*path, key)) for key, item in items}
    elif isinstance(value, list | tuple):
        kind = "tuple" if isinstance(value, tuple) else getattr(value, "kind", None)
        if kind:
            kinds.append([kind, *path])
        return [_plain(item, depth - 1, allowance, kinds, (*path, at)) for at, item in enumerate(value)]
    raise NotPlain(f"a {type(value).__name__} is not plain data")


def _is_text(value: str) -> bool:
    return value.isascii() or value.encode("utf-8", "replace").decode() == value


def _key(key: object, allowance: Allowance) -> str:
    if not isinstance(key, str) or not _is_text(key):
        raise NotPlain("keys are text")
    allowance.spend(STEP_SIZE + len(key))
    return key


def plain_meta(
    meta: object, allowance: Allowance, kinds: Kinds | None = None, path: tuple[Any, ...] = ()
) -> tuple[dict[str, Any] | None, bool]:
    """Return the items of a mapping that are plain data (None: there are none), and whether these are all items."""
    if not isinstance(meta, Mapping):
        return None, not meta
    kept = {}
    for key, value in meta.items():
        try:
            kept[_key(key, allowance)] = plain(value, allowance, kinds, (*path, key))
        except NotPlain:
            continue
    return kept or None, len(kept) == len(meta)


def text(value: object, encoding: str = "utf-8") -> str:
    """Return text, decoded if it is bytes. Raises ValueError for anything else, LookupError for an unknown encoding."""
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode(encoding, "replace")
    if not isinstance(value, str):
        raise ValueError(f"{type(value).__name__} where text is expected")
    return value


def hops(depth: object) -> str:
    """Return a hops path of `depth` links: the kinds of the hops are unknown."""
    return "L" * min(max(depth, 0), MAX_HOPS) if isinstance(depth, int) else ""


def integer(value: object) -> int:
    """Return an integer; 0 for anything else."""
    return value if isinstance(value, int) else 0


def octets(value: object) -> bytes:
    """Return bytes, from bytes or a list of numbers. Raises ValueError for anything else."""
    if isinstance(value, bytes):
        return value
    if not isinstance(value, list):
        raise ValueError(f"{type(value).__name__} where bytes are expected")
    return bytes(value)


def headers(
    pairs: Iterable[tuple[object, object]], allowance: Allowance, *, encoding: str = "utf-8"
) -> dict[str, str] | None:
    """Return header fields of names and values (text, bytes or lists of them). Join fields of one name (RFC 9110)."""
    found: dict[str, list[str]] = {}
    for name, values in pairs:
        field = text(name)
        for value in values if isinstance(values, list | tuple) else [values]:
            content = text(value, encoding)
            allowance.spend(STEP_SIZE + len(field) + len(content))
            found.setdefault(field, []).append(content)
    joined = {name: ("; " if name.lower() == "cookie" else ", ").join(values) for name, values in found.items()}
    return joined or None


def with_cookies(fields: dict[str, str] | None, cookies: object, allowance: Allowance) -> dict[str, str] | None:
    """Return header fields with cookies (a mapping, or mappings with `name` and `value`) added as a Cookie field."""
    if isinstance(cookies, Mapping):
        pairs = list(cookies.items())
    else:
        mappings = cookies if isinstance(cookies, list | tuple) else ()
        pairs = [(cookie.get("name"), cookie.get("value")) for cookie in mappings if isinstance(cookie, Mapping)]
    if not pairs:
        return fields
    crumbs = []
    for name, value in pairs:
        crumbs.append(f"{text(name)}={value if isinstance(value, int) else text(value)}")
        allowance.spend(STEP_SIZE + len(crumbs[-1]))
    return headers([*(fields or {}).items(), ("Cookie", "; ".join(crumbs))], allowance)


@contextmanager
def open_source(path: Path, allowance: Allowance) -> Iterator[IO[bytes]]:
    """Open a file for reading, decompressed if it is a gzip, and grant its size to the allowance."""
    with open(path, "rb") as raw:
        status = os.fstat(raw.fileno())
        allowance.grant(status.st_size if stat.S_ISREG(status.st_mode) else UNKNOWN_SIZE)
        if raw.peek(2)[:2] != GZIP:
            yield raw
        else:
            with gzip.open(raw) as file:
                yield file  # type: ignore[misc]


def lines(file: IO[bytes], allowance: Allowance) -> Iterator[tuple[int, bytes | None]]:
    """Yield the lines of a file, numbered and stripped; None for one over MAX_RECORD_SIZE bytes, which is skipped.

    A line ends in CR, LF or both, as in the lists that `settings.url_lists` reads.
    """
    number, skipping = 0, False
    text = io.TextIOWrapper(cast(BinaryIO, file), encoding="latin-1")  # each byte is one character
    try:
        while read := text.readline(MAX_RECORD_SIZE):
            line, ended = read.encode("latin-1"), read.endswith("\n")
            allowance.begin(len(line))
            if not skipping:
                number += 1
                if number == 1:
                    line = line.removeprefix(b"\xef\xbb\xbf")
                yield number, line.strip() if ended or len(line) < MAX_RECORD_SIZE else None
            skipping = not ended
    finally:
        if not file.closed:
            text.detach()  # the caller closes it


def truncated_file(name: str, number: int, error: Exception) -> BadRecord:
    """Return the BadRecord of a file that is truncated or damaged after a line."""
    return BadRecord(name, "torn", f"breaks off after line {number:,} ({error}); what is before was read", ends=True)
