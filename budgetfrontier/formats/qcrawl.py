"""The disk queue of qcrawl: a folder with a file for each request, `{priority:010d}_{counter:010d}.req`, in msgpack.

It keeps no trace of what was fetched. Its queue takes the lowest priority first although its manual promises the
highest; here the highest goes first.
"""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from budgetfrontier.formats.allowance import Allowance, TooMuch
from budgetfrontier.formats.records import (
    Bad,
    Item,
    Record,
    headers,
    hops,
    plain_meta,
    text,
    whole,
    with_cookies,
)
from budgetfrontier.model import CrawlUri

_LARGEST = 2 << 20  # bytes of a file: decoded, each may take eighty; a frontier has no room for more than half of them
_NAME = re.compile(r"(-?\d{1,18})_(\d{1,18})\.req")
_LOST = {"callback": None, "cb_kwargs": None, "proxy": None, "retries": 0, "timeout_ms": 10_000}
"""What has no home here, and what it is when nothing was asked for."""


def recognize(folder: Path) -> bool:
    """Whether a folder is such a queue."""
    with os.scandir(folder) as entries:
        return any(entry.name.endswith(".req") for entry in entries)


def read(folder: Path, allowance: Allowance) -> Iterator[Item]:
    """The requests, oldest first within a priority. Memory: 8 bytes for each."""
    counters: dict[int, array[int]] = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.is_file():
                continue
            if name := _NAME.fullmatch(entry.name):
                counters.setdefault(int(name[1]), array("q")).append(int(name[2]))
            elif entry.name.endswith(".req"):
                yield Bad(str(folder / entry.name), "name", "its name says no priority and counter")
    for priority in sorted(counters, reverse=True):
        for counter in sorted(counters[priority]):
            yield _request(folder / f"{priority:010d}_{counter:010d}.req", allowance)


def _request(path: Path, allowance: Allowance) -> Item:
    try:
        with open(path, "rb") as file:
            value = file.read(_LARGEST + 1)
        if len(value) > _LARGEST:
            return Bad(str(path), "too-large", f"a request of more than {_LARGEST >> 20} MiB")
        allowance.grant(len(value))
        allowance.begin()
        request = msgspec.msgpack.decode(value, type=dict[str, Any])
        meta, whole_meta = plain_meta(request.get("meta"), allowance)
        sent = headers((request.get("headers") or {}).items(), allowance)
        uri = CrawlUri(
            text(request.get("url")),
            hops=hops((meta or {}).get("depth")),
            method=text(request.get("method") or "GET"),
            headers=with_cookies(sent, request.get("cookies"), allowance),
            body=request.get("body") or b"",
            meta=meta,
            priority=whole(request.get("priority")),
        )
    except TooMuch as error:
        return Bad(str(path), "too-large", str(error))
    except (OSError, ValueError, AttributeError, RecursionError, msgspec.MsgspecError) as error:
        return Bad(str(path), "request", str(error) or type(error).__name__)
    left = [name for name, usual in _LOST.items() if (request.get(name) or usual) != usual]
    return Record(str(path), uri, left=(*left, *(() if whole_meta else ("a part of meta",))))
