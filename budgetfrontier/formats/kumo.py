"""kumo's file frontier: a folder with `queue.json`, `leases.json`, `dead_letters.json` and `seen.json`.

Each is one JSON array, read element by element. As kumo does when it opens the folder, leases go before the queue: what
was out is fetched again. What is in `seen.json` and not pending is done. Dead letters were given up on and stay so; the
file alone can be imported to try them again. Its first version kept `[url, depth, retries]` for a request.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from budgetfrontier.formats.records import LARGEST, Bad, Item, Note, Record, headers, hops, plain_meta, text, whole
from budgetfrontier.model import CrawlUri

QUEUES = ("leases.json", "queue.json")
DEAD, SEEN = "dead_letters.json", "seen.json"
_CHUNK = 1 << 20  # characters
_NEXT = re.compile(r"[\s,]*")  # what may be between two elements


def recognize(path: Path) -> bool:
    """Whether a folder, or a file of it, is such a frontier's."""
    if path.is_dir():
        return any((path / name).is_file() for name in (*QUEUES, SEEN))
    return path.name in (*QUEUES, DEAD, SEEN)


def read(path: Path) -> Iterator[Item]:
    """The requests of a folder and what it has seen; of a file, what is in it."""
    if not path.is_dir():
        yield from _read_seen(path) if path.name == SEEN else _read_requests(path)
        return
    for name in QUEUES:
        yield from _read_requests(path / name)
    dead = sum(type(item) is Record for item in _read_requests(path / DEAD))
    if dead:
        yield Note(f"{path / DEAD}: {dead:,} dead letters stay out; to try them again, import this file with --force")
    yield from _read_seen(path / SEEN)


def _read_requests(path: Path) -> Iterator[Item]:
    for place, value in _elements(path):
        yield value if isinstance(value, Bad) else _request(place, value)


def _read_seen(path: Path) -> Iterator[Item]:
    for place, value in _elements(path):
        if isinstance(value, str):
            yield Record(place, CrawlUri(value), seen=True)
        else:
            yield value if isinstance(value, Bad) else Bad(place, "request", "no text where a URL is expected")


def _request(place: str, value: Any) -> Item:
    left = []
    try:
        if isinstance(value, list):
            url, depth, retries = value
            return Record(place, CrawlUri(text(url), hops=hops(depth)), left=("retry_count",) if retries else ())
        if "id" in value:  # a lease or a dead letter is around it
            value = value["request"]
        request = value.get("request", value)
        meta, whole_meta = plain_meta(request.get("meta"))
        due = value.get("scheduled_at_ms")
        uri = CrawlUri(
            text(request["url"]),
            hops=hops(value.get("depth")),
            method=text(request.get("method") or "GET"),
            headers=headers((field["name"], bytes(field["value"])) for field in request.get("headers") or ()),
            body=bytes(request.get("body") or b""),
            meta=meta,
            force=bool(request.get("dont_filter")),
            priority=whole(request.get("priority")),
            not_before=due / 1000 if due and due / 1000 > time.time() else None,
        )
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        return Bad(place, "request", f"no request of kumo ({type(error).__name__}: {error})")
    if value.get("retry_count"):
        left.append("retry_count")
    if not whole_meta:
        left.append("a part of meta")
    return Record(place, uri, left=tuple(left))


def _elements(path: Path) -> Iterator[tuple[str, Any]]:
    """The elements of the JSON array in a file, with their places; a Bad one ends it. Memory: the largest one."""
    if not path.is_file():
        return
    decode = json.JSONDecoder().raw_decode
    number, wanted = 0, _CHUNK
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read(_CHUNK)
        at = _NEXT.match(text, text.startswith("\ufeff")).end()  # type: ignore[union-attr]
        if text[at : at + 1] != "[":
            yield str(path), Bad(str(path), "json", "no JSON array")
            return
        at += 1
        while True:
            at = _NEXT.match(text, at).end()  # type: ignore[union-attr]
            if text.startswith("]", at):
                return
            place = f"{path}: element {number + 1}"
            try:
                value, at = decode(text, at)
            except (ValueError, RecursionError) as error:
                text, at = text[at:], 0
                more = file.read(wanted) if len(text) < LARGEST else ""
                if not more:
                    why = str(error) if len(text) < LARGEST else f"more than {LARGEST >> 20} MiB without an end"
                    yield place, Bad(place, "json", f"{why}; what is behind cannot be read")
                    return
                text += more
                wanted *= 2
                continue
            yield place, value
            number, wanted = number + 1, _CHUNK
