"""Reader of qcrawl's disk queue: a folder with one msgpack file per request, `{priority:010d}_{counter:010d}.req`.

The queue has no record of what was fetched. qcrawl takes the lowest priority first although its manual promises the
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

from budgetfrontier.formats.allowance import Allowance, RecordTooLarge
from budgetfrontier.formats.records import (
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
from budgetfrontier.model import CrawlUri

_MAX_FILE_SIZE = 2 << 20  # bytes of a file; decoded, a byte may take eighty; a frontier accepts half as many
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
            value = file.read(_MAX_FILE_SIZE + 1)
        if len(value) > _MAX_FILE_SIZE:
            return BadRecord(str(path), "too-large", f"a request of more than {_MAX_FILE_SIZE >> 20} MiB")
        allowance.grant(len(value))
        allowance.begin()
        request = msgspec.msgpack.decode(value, type=dict[str, Any])
        meta, is_all_meta = plain_meta(request.get("meta"), allowance)
        sent = headers((request.get("headers") or {}).items(), allowance)
        uri = CrawlUri(
            text(request.get("url")),
            hops=hops((meta or {}).get("depth")),
            method=text(request.get("method") or "GET"),
            headers=with_cookies(sent, request.get("cookies"), allowance),
            body=request.get("body") or b"",
            meta=meta,
            priority=integer(request.get("priority")),
        )
    except RecordTooLarge as error:
        return BadRecord(str(path), "too-large", str(error))
    except (OSError, ValueError, AttributeError, RecursionError, msgspec.MsgspecError) as error:
        return BadRecord(str(path), "request", str(error) or type(error).__name__)
    omitted = [name for name, usual in _UNSUPPORTED.items() if (request.get(name) or usual) != usual]
    return Record(str(path), uri, omitted=(*omitted, *(() if is_all_meta else ("a part of meta",))))
