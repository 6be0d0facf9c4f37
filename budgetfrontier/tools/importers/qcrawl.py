"""Reader of qcrawl's disk queue: a folder with one msgpack file per request, `{priority:010d}_{counter:010d}.req`.

The queue has no record of fetched URLs. qcrawl takes the lowest priority first although its manual promises the
highest; here the highest comes first.
"""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from budgetfrontier.core.model import CrawlUri
from budgetfrontier.tools.importers.allowance import Allowance, RecordTooLarge
from budgetfrontier.tools.importers.import_items import (
    BadRecord,
    Item,
    Record,
    headers,
    hops,
    integer,
    plain_meta,
    text,
    with_cookies,
)

MAX_REQUEST_SIZE = 2 << 20
"""Bytes of the largest request: decoded, a byte may take eighty; a frontier accepts half as many."""
_NAME = re.compile(r"(-?\d{1,18})_(\d{1,18})\.req")
_UNSUPPORTED = {"callback": None, "cb_kwargs": None, "proxy": None, "retries": 0, "timeout_ms": 10_000}
"""Fields that a CrawlUri cannot hold, with their default values."""


def recognize(folder: Path) -> bool:
    """Return whether a folder is a disk queue of qcrawl."""
    with os.scandir(folder) as entries:
        return any(entry.name.endswith(".req") for entry in entries)


def read(folder: Path, allowance: Allowance) -> Iterator[Item]:
    """Yield the requests, oldest first within a priority. Memory: 8 bytes each."""
    counters: dict[int, array[int]] = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.is_file():
                continue
            if name := _NAME.fullmatch(entry.name):
                counters.setdefault(int(name[1]), array("q")).append(int(name[2]))
            elif entry.name.endswith(".req"):
                yield BadRecord(str(folder / entry.name), "name", "its name says no priority and counter")
    for priority in sorted(counters, reverse=True):
        for counter in sorted(counters[priority]):
            yield _request(folder / f"{priority:010d}_{counter:010d}.req", allowance)


def _request(path: Path, allowance: Allowance) -> Item:
    try:
        with open(path, "rb") as file:
            value = file.read(MAX_REQUEST_SIZE + 1)
    except OSError as error:
        return BadRecord(str(path), "request", str(error))
    allowance.grant(len(value))
    return request(str(path), value, allowance)


def request(location: str, value: bytes, allowance: Allowance, *, priority: int | None = None) -> Item:
    """Return the URI of a request as qcrawl encodes it. `priority`: that of its place in a queue."""
    if len(value) > MAX_REQUEST_SIZE:
        return BadRecord(location, "too-large", f"a request of more than {MAX_REQUEST_SIZE >> 20} MiB")
    try:
        allowance.begin()
        fields = msgspec.msgpack.decode(value, type=dict[str, Any])
        meta, is_all_meta = plain_meta(fields.get("meta"), allowance)
        sent = headers((fields.get("headers") or {}).items(), allowance)
        uri = CrawlUri(
            text(fields.get("url")),
            hops=hops((meta or {}).get("depth")),
            method=text(fields.get("method") or "GET"),
            headers=with_cookies(sent, fields.get("cookies"), allowance),
            body=fields.get("body") or b"",
            meta=meta,
            priority=integer(fields.get("priority")) if priority is None else priority,
        )
    except RecordTooLarge as error:
        return BadRecord(location, "too-large", str(error))
    except (ValueError, AttributeError, RecursionError, msgspec.MsgspecError) as error:
        return BadRecord(location, "request", str(error) or type(error).__name__)
    omitted = [name for name, usual in _UNSUPPORTED.items() if (fields.get(name) or usual) != usual]
    return Record(location, uri, omitted=(*omitted, *(() if is_all_meta else ("a part of meta",))))
