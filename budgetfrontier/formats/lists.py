"""Plain lists: one URL a line (# starts a comment, at the beginning or after a blank), or JSON lines.

A JSON line has the fields of a CrawlUri, bytes in base64. Which of the two a line is, is told line by line: JSON starts
with `{`. Lists may be compressed with gzip.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any

import msgspec

from budgetfrontier.crawl.seeds import uncommented
from budgetfrontier.formats.records import LARGEST, TORN, Bad, Item, Note, Record, lines
from budgetfrontier.model import CrawlUri, Directive

_DEFAULTS = msgspec.structs.astuple(CrawlUri(""))


def read(file: IO[bytes], name: str) -> Iterator[Item]:
    """The URIs of a list."""
    number = 0
    try:
        for number, line in lines(file):
            if line is None:
                yield Bad(f"{name}:{number}", "too-large", f"a line of more than {LARGEST >> 20} MiB")
            elif line and not line.startswith(b"#"):
                yield item(f"{name}:{number}", line)
    except TORN as error:
        yield Note(f"{name} breaks off after line {number:,} ({error}); what is before was read")


def item(place: str, line: bytes) -> Item:
    """What a line says."""
    try:
        return Record(place, from_json(line) if line.startswith(b"{") else CrawlUri(uncommented(line.decode())))
    except UnicodeDecodeError as error:
        return Bad(place, "encoding", f"not UTF-8 ({error.reason})")
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
    """A line that `from_json` reads back, but for the cost: the policy of the frontier that it comes to decides."""
    given = fields(uri)
    given.pop("cost", None)
    if "directive" in given:
        given["directive"] = uri.directive.name
    return msgspec.json.encode(given).decode()
