"""What the readers of all formats have in common: what they give, and how foreign values become ours."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from budgetfrontier.model import CrawlUri

LARGEST = 16 << 20
"""Bytes of one record: a longer one is bad, and never read into memory as a whole."""
MAX_HOPS = 1024
GZIP = b"\x1f\x8b"
TORN = (EOFError, zlib.error, gzip.BadGzipFile)
"""What a gzip raises that breaks off, or is damaged."""
_DEEPEST, _MOST = 40, 100_000  # levels and values of what a request carries


class Record(NamedTuple):
    """One URI of a source."""

    place: str
    """Where it stands there, for messages."""
    uri: CrawlUri
    seen: bool = False
    """It is done with there: to be marked as seen, not to be queued."""
    charged: bool = False
    """It was fetched there, so that its cost counts."""
    left: tuple[str, ...] = ()
    """What the source knows of it that has no home here."""


class Bad(NamedTuple):
    """A record that cannot be used; `reason` is a short slug to count by."""

    place: str
    reason: str
    why: str


class Note(NamedTuple):
    """Something about the source as a whole."""

    text: str


Item = Record | Bad | Note


class NotPlain(ValueError):
    """A value that is more than plain data."""


def plain(value: object) -> Any:
    """The value as plain data that can be stored anywhere: a copy with lists for tuples and sets. Raises NotPlain.

    Bounded in depth and in number, for what refers to itself or again and again to the same would never end.
    """
    return _plain(value, _DEEPEST, [_MOST])


def _plain(value: object, depth: int, room: list[int]) -> Any:
    room[0] -= 1
    if depth == 0 or room[0] < 0:
        raise NotPlain("nested too deep, or too much")
    if value is None or isinstance(value, bool | float | bytes):
        return value
    if isinstance(value, int):
        if -(1 << 63) <= value < 1 << 63:
            return value
    elif isinstance(value, str):
        if value.isascii() or value.encode("utf-8", "replace").decode() == value:
            return value
    elif isinstance(value, dict):
        return {_key(key): _plain(item, depth - 1, room) for key, item in value.items()}
    elif isinstance(value, list | tuple | set | frozenset):
        return [_plain(item, depth - 1, room) for item in value]
    raise NotPlain(f"a {type(value).__name__} is not plain data")


def _key(key: object) -> str:
    if isinstance(key, str) and _plain(key, 1, [1]) is key:
        return key
    raise NotPlain("keys are text")


def plain_meta(meta: object) -> tuple[dict[str, Any] | None, bool]:
    """What of a mapping is plain data (None: nothing), and whether that is all of it."""
    if not isinstance(meta, Mapping):
        return None, not meta
    kept = {}
    for key, value in meta.items():
        try:
            kept[_key(key)] = plain(value)
        except NotPlain:
            continue
    return kept or None, len(kept) == len(meta)


def text(value: object) -> str:
    """Text that may come as bytes. Raises ValueError for what is neither."""
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "replace")
    if not isinstance(value, str):
        raise ValueError(f"{type(value).__name__} where text is expected")
    return value


def hops(depth: object) -> str:
    """As many links as a depth says, for that is all it says."""
    return "L" * min(max(depth, 0), MAX_HOPS) if isinstance(depth, int) else ""


def whole(value: object) -> int:
    """A whole number, 0 for what is none."""
    return value if isinstance(value, int) else 0


def headers(pairs: Iterable[tuple[object, object]]) -> dict[str, str] | None:
    """Header fields from names and values (text, bytes or lists of them); fields of one name are joined (RFC 9110)."""
    found: dict[str, str] = {}
    for name, values in pairs:
        for value in values if isinstance(values, list | tuple) else [values]:
            field, content = text(name), text(value)
            glue = "; " if field.lower() == "cookie" else ", "
            found[field] = f"{found[field]}{glue}{content}" if field in found else content
    return found or None


def with_cookies(fields: dict[str, str] | None, cookies: object) -> dict[str, str] | None:
    """Header fields with cookies (a mapping, or a list of mappings with `name` and `value`) as one more field."""
    if isinstance(cookies, Mapping):
        pairs = list(cookies.items())
    else:
        given = cookies if isinstance(cookies, list | tuple) else ()
        pairs = [(cookie.get("name"), cookie.get("value")) for cookie in given if isinstance(cookie, Mapping)]
    if not pairs:
        return fields
    line = "; ".join(f"{text(name)}={value if isinstance(value, int) else text(value)}" for name, value in pairs)
    return headers([*(fields or {}).items(), ("Cookie", line)])


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """A file, decompressed if it is a gzip."""
    with open(path, "rb") as raw:
        if raw.peek(2)[:2] != GZIP:
            yield raw
        else:
            with gzip.open(raw) as file:
                yield file  # type: ignore[misc]


def lines(file: IO[bytes]) -> Iterator[tuple[int, bytes | None]]:
    """The lines of a file by number, stripped; None for one of more than LARGEST bytes, of which no more is read."""
    number, skipping = 0, False
    while line := file.readline(LARGEST):
        ended = line.endswith(b"\n")
        if not skipping:
            number += 1
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
            yield number, line.strip() if ended or len(line) < LARGEST else None
        skipping = not ended
