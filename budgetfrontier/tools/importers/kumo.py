"""Reader of kumo's file frontier: a folder with `queue.json`, `leases.json`, `dead_letters.json` and `seen.json`.

Each file is one JSON array, read element by element: the end of an element is found before it is decoded, so that a bad
element does not hide those after it. As in kumo, leases come before the queue: URIs that were leased are fetched again.
Dead letters are dead letters; the file alone can be imported to try them again. URIs in `seen.json` that are neither
are done. The first version of kumo stored a request as `[url, depth, retries]`.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from budgetfrontier.core.model import CrawlUri
from budgetfrontier.tools.importers.allowance import MAX_RECORD_SIZE, STEP_SIZE, Allowance, RecordTooLarge, json_size
from budgetfrontier.tools.importers.import_items import (
    BadRecord,
    Item,
    Record,
    headers,
    hops,
    integer,
    octets,
    plain_meta,
    text,
)

QUEUES = ("leases.json", "queue.json")
DEAD, SEEN = "dead_letters.json", "seen.json"
LONGEST_REASON = 1000  # characters
UNKNOWN = "unknown"
"""The reason of a dead letter that has none."""
_CHUNK = 1 << 20  # characters
_decode = json.JSONDecoder().raw_decode
_MAX_DEPTH = 100
_NEXT = re.compile(r"[\s,]*+")  # whitespace and commas between two elements
_TOKEN = re.compile(r'("(?:[^"\\]++|\\.)*+")|([\[{])|([\]}])|(")|[^"\[\]{}]++', re.DOTALL)
_OPENING, _CLOSING, _UNENDED = 2, 3, 4  # groups of _TOKEN; for a string without an end, more has to be read first
_SCALAR = re.compile(r'"(?:[^"\\]++|\\.)*+"|[^\s,\[\]{}"]++', re.DOTALL)


def recognize(path: Path) -> bool:
    """Return whether a folder is a frontier of kumo, or a file belongs to one."""
    if path.is_dir():
        return any((path / name).is_file() for name in (*QUEUES, SEEN))
    return path.name in (*QUEUES, DEAD, SEEN)


def read(path: Path, allowance: Allowance) -> Iterator[Item]:
    """Yield the requests and the seen URLs of a folder, or the content of one file."""
    if not path.is_dir():
        yield from (_read_seen if path.name == SEEN else _read_requests)(path, allowance)
        return
    for name in QUEUES:
        yield from _read_requests(path / name, allowance)
    for location, value in _elements(path / DEAD, allowance):
        yield value if isinstance(value, BadRecord) else letter(location, value, allowance)
    yield from _read_seen(path / SEEN, allowance)


def _read_requests(path: Path, allowance: Allowance) -> Iterator[Item]:
    for location, value in _elements(path, allowance):
        yield value if isinstance(value, BadRecord) else request(location, value, allowance)


def _read_seen(path: Path, allowance: Allowance) -> Iterator[Item]:
    for location, value in _elements(path, allowance):
        if isinstance(value, str):
            yield Record(location, CrawlUri(value), seen=True)
        else:
            yield (
                value
                if isinstance(value, BadRecord)
                else BadRecord(location, "request", "no text where a URL is expected")
            )


def request(location: str, value: Any, allowance: Allowance) -> Item:
    """Return the URI of a request, alone, in a lease, or in a dead letter, as decoded from JSON."""
    omitted = []
    try:
        if isinstance(value, list):
            url, depth, retries = value
            return Record(location, CrawlUri(text(url), hops=hops(depth)), omitted=("retry_count",) if retries else ())
        if "id" in value:  # a lease or a dead letter, which contains the request
            value = value["request"]
        asked = value.get("request", value)
        meta, is_all_meta = plain_meta(asked.get("meta"), allowance)
        due = value.get("scheduled_at_ms")
        uri = CrawlUri(
            text(asked["url"]),
            hops=hops(value.get("depth")),
            method=text(asked.get("method") or "GET"),
            headers=headers(((f["name"], octets(f["value"])) for f in asked.get("headers") or ()), allowance),
            body=octets(asked.get("body") or b""),
            meta=meta,
            force=bool(asked.get("dont_filter")),
            priority=integer(asked.get("priority")),
            not_before=due / 1000 if due and due / 1000 > time.time() else None,
        )
    except RecordTooLarge as error:
        return BadRecord(location, "too-large", str(error))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        return BadRecord(location, "request", f"no request of kumo ({type(error).__name__}: {error})")
    if value.get("retry_count"):
        omitted.append("retry_count")
    if not is_all_meta:
        omitted.append("a part of meta")
    return Record(location, uri, omitted=tuple(omitted))


def letter(location: str, value: Any, allowance: Allowance) -> Item:
    """Return the URI of a dead letter as one, with its reason."""
    item = request(location, value, allowance)
    if not isinstance(item, Record):
        return item
    reason = value.get("reason") if isinstance(value, dict) else None
    return item._replace(dead=reason[:LONGEST_REASON] if isinstance(reason, str) and reason else UNKNOWN)


def _elements(path: Path, allowance: Allowance) -> Iterator[tuple[str, Any]]:
    """Yield the elements of the JSON array in a file, or their BadRecords, with locations.

    Memory: the largest element.
    """
    if not path.is_file():
        return
    number, wanted = 0, _CHUNK
    with open(path, encoding="utf-8", errors="replace") as file:
        allowance.grant(path.stat().st_size)
        text = file.read(_CHUNK)
        at = _after(_NEXT, text, int(text.startswith("\ufeff")))
        if text[at : at + 1] != "[":
            yield str(path), BadRecord(str(path), "json", "no JSON array", ends=True)
            return
        at += 1
        while True:
            at = _after(_NEXT, text, at)
            if text.startswith("]", at):
                return
            location = f"{path}: element {number + 1}"
            allowance.begin()
            end, value = _decoded_at(location, text, at, allowance)
            if not end:
                text, at = text[at:], 0
                more = file.read(wanted) if len(text) < MAX_RECORD_SIZE else ""
                if not more:
                    detail = (
                        "it breaks off"
                        if len(text) < MAX_RECORD_SIZE
                        else f"more than {MAX_RECORD_SIZE >> 20} MiB without an end"
                    )
                    yield location, BadRecord(location, "json", f"{detail}; what is behind cannot be read", ends=True)
                    return
                text += more
                wanted *= 2
                continue
            yield location, value
            at, number, wanted = end, number + 1, _CHUNK


def _decoded_at(location: str, text: str, at: int, allowance: Allowance) -> tuple[int, Any]:
    """Return where the JSON value at `at` ends (0: not in this text), and the value or its BadRecord."""
    if len(text) - at <= _CHUNK:  # small: decode it first, and scan it only if that fails
        with contextlib.suppress(ValueError, RecursionError):
            value, end = _decode(text, at)
            containers = text.count("[", at, end) + text.count("{", at, end)
            if containers <= _MAX_DEPTH and (
                end < len(text) or text[end - 1] in '"]}'
            ):  # a number at the end may continue in unread data
                allowance.spend(end - at + json_size(containers, text.count(",", at, end)))
                return end, value
    end, size, depth = _span(text, at)
    return end, _decoded(location, text[at:end], size, depth, allowance) if end else None


def _after(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Return the end of a match that begins at `at`; `at` if there is none."""
    found = pattern.match(text, at)
    return found.end() if found else at


def _span(text: str, at: int) -> tuple[int, int, int]:
    """Return where the JSON value at `at` ends (0: not in this text), its size decoded, and its depth."""
    if text[at : at + 1] not in ("[", "{"):
        end = _after(_SCALAR, text, at)
        if end == at < len(text):  # an unmatched bracket or quote
            return 0 if text[at] == '"' else at + 1, STEP_SIZE, 0
        complete = text[at:end].endswith('"') or end < len(text)  # a number at the end may continue in unread data
        return end if complete else 0, STEP_SIZE + end - at, 0
    depth = deepest = containers = items = 0
    for token in _TOKEN.finditer(text, at):
        kind = token.lastindex
        if kind is None:
            items += text.count(",", token.start(), token.end())
        elif kind == _UNENDED:
            break
        elif kind == _OPENING:
            depth += 1
            containers += 1
            deepest = max(deepest, depth)
        elif kind == _CLOSING:
            depth -= 1
            if not depth:
                return token.end(), token.end() - at + json_size(containers, items), deepest
    return 0, 0, 0


def _decoded(location: str, text: str, size: int, depth: int, allowance: Allowance) -> Any:
    try:
        allowance.spend(size)
        return (
            json.loads(text) if depth <= _MAX_DEPTH else BadRecord(location, "json", f"nested deeper than {_MAX_DEPTH}")
        )
    except RecordTooLarge as error:
        return BadRecord(location, "too-large", str(error))
    except (ValueError, RecursionError) as error:
        return BadRecord(location, "json", str(error))
