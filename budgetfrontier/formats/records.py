"""What the readers of all formats have in common: what they give, and how foreign values become ours."""

from __future__ import annotations

import gzip
import os
import stat
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from budgetfrontier.formats.allowance import LARGEST, STEP, UNKNOWN, Allowance
from budgetfrontier.model import CrawlUri

MAX_HOPS = 1024
GZIP = b"\x1f\x8b"
TORN = (EOFError, zlib.error, gzip.BadGzipFile)
"""What a gzip raises that breaks off, or is damaged."""
_DEEPEST = 40  # levels of what a request carries


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
    ends: bool = False
    """Nothing behind it in its file could be read."""


class Note(NamedTuple):
    """Something about the source as a whole."""

    text: str


Item = Record | Bad | Note


class NotPlain(ValueError):
    """A value that is more than plain data."""


class SetOf(list[Any]):
    """The items of a set: one would have to hash them, which a few bytes can make endless."""

    kind = "set"


class FrozenSetOf(SetOf):
    """The items of a frozenset."""

    kind = "frozenset"


Kinds = list[list[Any]]
"""Which lists of plain data were something else: for each the kind ("tuple", "set", "frozenset"), then its path."""


def plain(value: object, allowance: Allowance, kinds: Kinds | None = None, path: tuple[Any, ...] = ()) -> Any:
    """The value as plain data that can be stored anywhere: a copy with lists for tuples and sets, told of in `kinds`.

    Raises NotPlain, also for what is nested too deep, and TooMuch or Exhausted.
    """
    found: Kinds = []
    copy = _plain(value, _DEEPEST, allowance, found, path)
    if kinds is not None:
        kinds += found
    return copy


def _plain(value: object, depth: int, allowance: Allowance, kinds: Kinds, path: tuple[Any, ...]) -> Any:
    if depth == 0:
        raise NotPlain("nested too deep")
    allowance.spend(STEP + len(value) if isinstance(value, str | bytes) else STEP)
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
    allowance.spend(STEP + len(key))
    return key


def plain_meta(
    meta: object, allowance: Allowance, kinds: Kinds | None = None, path: tuple[Any, ...] = ()
) -> tuple[dict[str, Any] | None, bool]:
    """What of a mapping is plain data (None: nothing), and whether that is all of it."""
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
    """Text that may come as bytes. Raises ValueError for what is neither, LookupError for an encoding of none."""
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode(encoding, "replace")
    if not isinstance(value, str):
        raise ValueError(f"{type(value).__name__} where text is expected")
    return value


def hops(depth: object) -> str:
    """As many links as a depth says, for that is all it says."""
    return "L" * min(max(depth, 0), MAX_HOPS) if isinstance(depth, int) else ""


def whole(value: object) -> int:
    """A whole number, 0 for what is none."""
    return value if isinstance(value, int) else 0


def octets(value: object) -> bytes:
    """Bytes that come as such, or as a list of numbers. Raises ValueError for what is neither."""
    if isinstance(value, bytes):
        return value
    if not isinstance(value, list):
        raise ValueError(f"{type(value).__name__} where bytes are expected")
    return bytes(value)


def headers(
    pairs: Iterable[tuple[object, object]], allowance: Allowance, *, encoding: str = "utf-8"
) -> dict[str, str] | None:
    """Header fields from names and values (text, bytes or lists of them); fields of one name are joined (RFC 9110)."""
    found: dict[str, list[str]] = {}
    for name, values in pairs:
        field = text(name)
        for value in values if isinstance(values, list | tuple) else [values]:
            content = text(value, encoding)
            allowance.spend(STEP + len(field) + len(content))
            found.setdefault(field, []).append(content)
    joined = {name: ("; " if name.lower() == "cookie" else ", ").join(values) for name, values in found.items()}
    return joined or None


def with_cookies(fields: dict[str, str] | None, cookies: object, allowance: Allowance) -> dict[str, str] | None:
    """Header fields with cookies (a mapping, or a list of mappings with `name` and `value`) as one more field."""
    if isinstance(cookies, Mapping):
        pairs = list(cookies.items())
    else:
        given = cookies if isinstance(cookies, list | tuple) else ()
        pairs = [(cookie.get("name"), cookie.get("value")) for cookie in given if isinstance(cookie, Mapping)]
    if not pairs:
        return fields
    crumbs = []
    for name, value in pairs:
        crumbs.append(f"{text(name)}={value if isinstance(value, int) else text(value)}")
        allowance.spend(STEP + len(crumbs[-1]))
    return headers([*(fields or {}).items(), ("Cookie", "; ".join(crumbs))], allowance)


@contextmanager
def opened(path: Path, allowance: Allowance) -> Iterator[IO[bytes]]:
    """A file, decompressed if it is a gzip."""
    with open(path, "rb") as raw:
        status = os.fstat(raw.fileno())
        allowance.grant(status.st_size if stat.S_ISREG(status.st_mode) else UNKNOWN)
        if raw.peek(2)[:2] != GZIP:
            yield raw
        else:
            with gzip.open(raw) as file:
                yield file  # type: ignore[misc]


def lines(file: IO[bytes], allowance: Allowance) -> Iterator[tuple[int, bytes | None]]:
    """The lines of a file by number, stripped; None for one of more than LARGEST bytes, of which no more is read."""
    number, skipping = 0, False
    while line := file.readline(LARGEST):
        ended = line.endswith(b"\n")
        allowance.begin(len(line))
        if not skipping:
            number += 1
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
            yield number, line.strip() if ended or len(line) < LARGEST else None
        skipping = not ended


def torn(name: str, number: int, error: Exception) -> Bad:
    """What is told of a file that breaks off, or is damaged, after a line."""
    return Bad(name, "torn", f"breaks off after line {number:,} ({error}); what is before was read", ends=True)
