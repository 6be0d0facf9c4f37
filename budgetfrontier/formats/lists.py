"""Plain lists: one URL a line (# starts a comment, at the beginning or after a blank), or JSON lines.

A JSON line has the fields of a CrawlUri, bytes in base64; `meta` that is more than JSON can say is
`{"$msgpack": BASE64}`. Which of the two a line is, is told line by line: JSON starts with `{`. Lists may be compressed
with gzip.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any

import msgspec

from budgetfrontier.crawl.seeds import uncommented
from budgetfrontier.formats.allowance import LARGEST, Allowance, TooMuch
from budgetfrontier.formats.records import TORN, Bad, Item, Record, lines, torn
from budgetfrontier.model import CrawlUri, Directive

_PACKED = "$msgpack"
_MOST_PACKED = 1 << 20  # bytes: decoded, each may take eighty
_DEFAULTS = msgspec.structs.astuple(CrawlUri(""))


def read(file: IO[bytes], name: str, allowance: Allowance) -> Iterator[Item]:
    """The URIs of a list."""
    number = 0
    try:
        for number, line in lines(file, allowance):
            if line is None:
                yield Bad(f"{name}:{number}", "too-large", f"a line of more than {LARGEST >> 20} MiB")
            elif line and not line.startswith(b"#"):
                yield item(f"{name}:{number}", line, allowance)
    except TORN as error:
        yield torn(name, number, error)


def item(place: str, line: bytes, allowance: Allowance) -> Item:
    """What a line says."""
    try:
        if line.startswith(b"{"):
            allowance.spend_json(line)
        return Record(place, from_json(line) if line.startswith(b"{") else CrawlUri(uncommented(line.decode())))
    except UnicodeDecodeError as error:
        return Bad(place, "encoding", f"not UTF-8 ({error.reason})")
    except TooMuch as error:
        return Bad(place, "too-large", str(error))
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
        return Bad(place, "json", str(error))


def from_json(line: bytes) -> CrawlUri:
    """A CrawlUri from a JSON object of its fields. Raises what `item` catches for anything else."""
    given = msgspec.json.decode(line)
    if unknown := given.keys() - set(CrawlUri.__struct_fields__):
        raise ValueError(f"unknown field {min(unknown)!a}; known: {', '.join(CrawlUri.__struct_fields__)}")
    if "url" not in given:
        raise ValueError("no url")
    if given.get("directive") in Directive.__members__:
        given["directive"] = Directive[given["directive"]].value
    meta = given.get("meta")
    if isinstance(meta, dict) and meta.keys() == {_PACKED}:
        packed = msgspec.convert(meta[_PACKED], bytes)
        if len(packed) > _MOST_PACKED:
            raise ValueError(f"{len(packed):,} bytes of meta; a frontier takes {_MOST_PACKED:,} at the most")
        given["meta"] = msgspec.msgpack.decode(packed)
    empty = CrawlUri("")
    return msgspec.convert([given.get(name, getattr(empty, name)) for name in CrawlUri.__struct_fields__], CrawlUri)


def fields(uri: CrawlUri) -> dict[str, Any]:
    """The fields of a URI that are not at their defaults, and its URL."""
    values = zip(CrawlUri.__struct_fields__, msgspec.structs.astuple(uri), _DEFAULTS, strict=True)
    return {name: value for name, value, default in values if value != default or name == "url"}


def is_bare(uri: CrawlUri) -> bool:
    """Whether there is nothing to a URI but its URL."""
    return msgspec.structs.astuple(uri)[1:] == _DEFAULTS[1:]


def to_url(uri: CrawlUri) -> str:
    """A line of a plain list."""
    return uri.url


def to_json(uri: CrawlUri) -> str:
    """A line that `from_json` reads back, whole."""
    given = fields(uri)
    if "directive" in given:
        given["directive"] = uri.directive.name
    meta = given.get("meta")
    if not is_json(meta) or (isinstance(meta, dict) and meta.keys() == {_PACKED}):
        given["meta"] = {_PACKED: msgspec.msgpack.encode(meta)}
    return msgspec.json.encode(given).decode()


def is_json(value: object) -> bool:
    """Whether plain data is the same once it was written as JSON: no bytes, no keys but text, no infinity."""
    if value is None:
        return True
    try:
        back = msgspec.json.decode(msgspec.json.encode(value))
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError):
        return False
    return msgspec.msgpack.encode(back) == msgspec.msgpack.encode(value)
