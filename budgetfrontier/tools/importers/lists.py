"""Reader and writer of plain lists of URLs, and of JSON lines.

A plain list has one URL per line, as `settings.url_lists` reads them: with comments, and metadata after tabs.
A JSON line has the fields of a CrawlUri, bytes in base64; `meta` that JSON cannot express is `{"$msgpack": BASE64}`. A
line that starts with `{` is JSON, any other a URL; a list may mix both. Lists may be compressed with gzip.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import IO, Any

import msgspec

from budgetfrontier.core.converters import converter
from budgetfrontier.core.model import CrawlUri, Directive
from budgetfrontier.core.spelling import did_you_mean
from budgetfrontier.errors import InvalidUrl
from budgetfrontier.settings import url_lists
from budgetfrontier.settings.schema import Seed
from budgetfrontier.settings.url_lists import BadLine
from budgetfrontier.tools.importers.allowance import MAX_RECORD_SIZE, Allowance, RecordTooLarge
from budgetfrontier.tools.importers.import_items import (
    GZIP_ERRORS,
    BadRecord,
    Item,
    Record,
    SourceNote,
    lines,
    truncated_file,
)

_PACKED = "$msgpack"
_MOST_NAMED = 100  # names of metadata that are remembered for a message
_MAX_PACKED = 1 << 20  # bytes; decoded, a byte may take eighty
_SEED = Seed()
_DEFAULTS = msgspec.structs.astuple(CrawlUri(""))
_uri: Callable[[Any], CrawlUri] = converter(CrawlUri)


def read(file: IO[bytes], name: str, allowance: Allowance, *, of_seeds: bool = False) -> Iterator[Item]:
    """Yield the URIs of a list, `of_seeds`: of seeds, which may have settings."""
    number, named = 0, dict[str, None]()
    try:
        for number, line in lines(file, allowance):
            if line is None:
                yield BadRecord(f"{name}:{number}", "too-large", f"a line of more than {MAX_RECORD_SIZE >> 20} MiB")
            elif line and not line.startswith(b"#"):
                found = item(f"{name}:{number}", line, allowance, of_seeds=of_seeds)
                if isinstance(found, Record) and found.uri.meta and len(named) < _MOST_NAMED and line[:1] != b"{":
                    named |= dict.fromkeys(found.uri.meta)
                yield found
    except GZIP_ERRORS as error:
        yield truncated_file(name, number, error)
    if named:
        more = "" if of_seeds else url_lists.seed_settings_note(named)
        yield SourceNote(f"{name}: {url_lists.metadata_note(named)}{more}")


def item(location: str, line: bytes, allowance: Allowance, *, of_seeds: bool = False) -> Item:
    """Parse a line that is not empty and no comment."""
    try:
        if line.startswith(b"{"):
            allowance.spend_json(line)
            return Record(location, from_json(line))
        return _written(location, line.decode(errors="surrogateescape"), of_seeds=of_seeds)
    except RecordTooLarge as error:
        return BadRecord(location, "too-large", str(error))
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
        return BadRecord(location, "json", str(error))


def _written(location: str, line: str, *, of_seeds: bool) -> Item:
    """Parse a line that somebody has written."""
    try:
        entry = url_lists.parse_line(line, of_seeds=of_seeds)
    except BadLine as error:
        return BadRecord(f"{location}:{error.column}", error.reason, str(error))
    if entry is None:
        return BadRecord(f"{location}:1", "empty", "there is no URL on this line")
    try:
        url_lists.check_url(entry.text)
    except InvalidUrl as error:
        return BadRecord(f"{location}:{entry.column}", error.reason, url_lists.objection(entry.text) or str(error))
    own = url_lists.seed_of(entry, _SEED) if entry.given else _SEED
    uri = CrawlUri(entry.text, meta=entry.meta, priority=own.priority, source=own.source, queue=own.queue)
    return Record(location, uri, given=entry.given)


def from_json(line: bytes) -> CrawlUri:
    """Return a CrawlUri from a JSON object of its fields. Raises the errors that `item` catches for anything else."""
    fields_given = msgspec.json.decode(line)
    if unknown := fields_given.keys() - set(CrawlUri.__struct_fields__):
        known = CrawlUri.__struct_fields__
        hint = did_you_mean(min(unknown), known) or f"; known: {', '.join(known)}"
        raise ValueError(f"unknown field {min(unknown)!r}{hint}")
    if "url" not in fields_given:
        raise ValueError("no url")
    if "directive" in fields_given:
        fields_given["directive"] = _directive(fields_given["directive"])
    meta = fields_given.get("meta")
    if isinstance(meta, dict) and meta.keys() == {_PACKED}:
        try:
            packed = msgspec.convert(meta[_PACKED], bytes)
            if len(packed) > _MAX_PACKED:
                raise ValueError(f"{len(packed):,} bytes; a frontier takes {_MAX_PACKED:,} at the most")
            fields_given["meta"] = msgspec.msgpack.decode(packed)
        except (msgspec.MsgspecError, ValueError) as error:
            raise ValueError(f"meta.{_PACKED}: {_plain(str(error))}") from error
    empty = CrawlUri("")
    try:
        return _uri([fields_given.get(name, getattr(empty, name)) for name in CrawlUri.__struct_fields__])
    except msgspec.ValidationError as error:
        raise ValueError(_naming_field(str(error))) from error


def _directive(given: Any) -> int:
    for each in Directive:
        if type(given) in (str, int) and given in (each.name, each.value):
            return each.value
    known = Directive.__members__
    raise ValueError(f"directive: expected {', '.join(known)}, got {json.dumps(given)}{did_you_mean(given, known)}")


def _naming_field(text: str) -> str:
    """Return a message of msgspec with the name of the field in place of its number in the record."""
    what, _, place = text.partition(" - at ")
    found = re.match(r"`\$\[(\d+)\]", place)
    return text if found is None else f"{CrawlUri.__struct_fields__[int(found[1])]}: {_plain(what)}"


def _plain(text: str) -> str:
    return text[:1].lower() + text[1:].replace("`", "")


def fields(uri: CrawlUri) -> dict[str, Any]:
    """Return the fields of a URI that are not at their defaults, and its URL."""
    values = zip(CrawlUri.__struct_fields__, msgspec.structs.astuple(uri), _DEFAULTS, strict=True)
    return {name: value for name, value, default in values if value != default or name == "url"}


def is_bare(uri: CrawlUri) -> bool:
    """Return whether all fields of a URI but its URL are at their defaults."""
    return msgspec.structs.astuple(uri)[1:] == _DEFAULTS[1:]


def to_url(uri: CrawlUri) -> str:
    """Return the line of a URI in a plain list."""
    return uri.url


def to_json(uri: CrawlUri) -> str:
    """Return the line of a URI that `from_json` reads back without loss."""
    fields_given = fields(uri)
    if "directive" in fields_given:
        fields_given["directive"] = uri.directive.name
    meta = fields_given.get("meta")
    if not is_json(meta) or (isinstance(meta, dict) and meta.keys() == {_PACKED}):
        fields_given["meta"] = {_PACKED: msgspec.msgpack.encode(meta)}
    return msgspec.json.encode(fields_given).decode()


def is_json(value: object) -> bool:
    """Return whether JSON represents plain data without loss: no bytes, only text as keys, no infinity."""
    if value is None:
        return True
    try:
        back = msgspec.json.decode(msgspec.json.encode(value))
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError):
        return False
    return msgspec.msgpack.encode(back) == msgspec.msgpack.encode(value)


def as_seed(uri: CrawlUri, href: str) -> CrawlUri:
    """Return a URI as a seed: the scope reads from `meta` which seed a URI descends from."""
    if not isinstance(uri.meta, dict | None):
        raise ValueError("the meta of a seed is an object")
    meta = {**(uri.meta or {}), "seed": href}
    return msgspec.structs.replace(uri, meta=meta, directive=min(uri.directive, Directive.MEDIUM), hops="")
