"""kumo's file frontier: a folder with `queue.json`, `leases.json`, `dead_letters.json` and `seen.json`.

Each is one JSON array, read element by element: where one ends is found before it is decoded, so that a bad one hides
none behind it. As kumo does when it opens the folder, leases go before the queue: what
was out is fetched again. What is in `seen.json` and not pending is done. Dead letters were given up on and stay so; the
file alone can be imported to try them again. Its first version kept `[url, depth, retries]` for a request.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from budgetfrontier.formats.allowance import LARGEST, STEP, Allowance, TooMuch, json_size
from budgetfrontier.formats.records import Bad, Item, Note, Record, headers, hops, octets, plain_meta, text, whole
from budgetfrontier.model import CrawlUri

QUEUES = ("leases.json", "queue.json")
DEAD, SEEN = "dead_letters.json", "seen.json"
_CHUNK = 1 << 20  # characters
_decode = json.JSONDecoder().raw_decode
_DEEPEST = 100
_NEXT = re.compile(r"[\s,]*+")  # what may be between two elements
_TOKEN = re.compile(r'("(?:[^"\\]++|\\.)*+")|([\[{])|([\]}])|(")|[^"\[\]{}]++', re.DOTALL)
_OPENING, _CLOSING, _UNENDED = 2, 3, 4  # groups of it; of a text without an end, more has to be read first
_SCALAR = re.compile(r'"(?:[^"\\]++|\\.)*+"|[^\s,\[\]{}"]++', re.DOTALL)


def recognize(path: Path) -> bool:
    """Whether a folder, or a file of it, is such a frontier's."""
    if path.is_dir():
        return any((path / name).is_file() for name in (*QUEUES, SEEN))
    return path.name in (*QUEUES, DEAD, SEEN)


def read(path: Path, allowance: Allowance) -> Iterator[Item]:
    """The requests of a folder and what it has seen; of a file, what is in it."""
    if not path.is_dir():
        yield from (_read_seen if path.name == SEEN else _read_requests)(path, allowance)
        return
    for name in QUEUES:
        yield from _read_requests(path / name, allowance)
    dead = sum(type(item) is Record for item in _read_requests(path / DEAD, allowance))
    if dead:
        yield Note(f"{path / DEAD}: {dead:,} dead letters stay out; to try them again, import this file with --force")
    yield from _read_seen(path / SEEN, allowance)


def _read_requests(path: Path, allowance: Allowance) -> Iterator[Item]:
    for place, value in _elements(path, allowance):
        yield value if isinstance(value, Bad) else _request(place, value, allowance)


def _read_seen(path: Path, allowance: Allowance) -> Iterator[Item]:
    for place, value in _elements(path, allowance):
        if isinstance(value, str):
            yield Record(place, CrawlUri(value), seen=True)
        else:
            yield value if isinstance(value, Bad) else Bad(place, "request", "no text where a URL is expected")


def _request(place: str, value: Any, allowance: Allowance) -> Item:
    left = []
    try:
        if isinstance(value, list):
            url, depth, retries = value
            return Record(place, CrawlUri(text(url), hops=hops(depth)), left=("retry_count",) if retries else ())
        if "id" in value:  # a lease or a dead letter is around it
            value = value["request"]
        request = value.get("request", value)
        meta, whole_meta = plain_meta(request.get("meta"), allowance)
        due = value.get("scheduled_at_ms")
        uri = CrawlUri(
            text(request["url"]),
            hops=hops(value.get("depth")),
            method=text(request.get("method") or "GET"),
            headers=headers(((f["name"], octets(f["value"])) for f in request.get("headers") or ()), allowance),
            body=octets(request.get("body") or b""),
            meta=meta,
            force=bool(request.get("dont_filter")),
            priority=whole(request.get("priority")),
            not_before=due / 1000 if due and due / 1000 > time.time() else None,
        )
    except TooMuch as error:
        return Bad(place, "too-large", str(error))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        return Bad(place, "request", f"no request of kumo ({type(error).__name__}: {error})")
    if value.get("retry_count"):
        left.append("retry_count")
    if not whole_meta:
        left.append("a part of meta")
    return Record(place, uri, left=tuple(left))


def _elements(path: Path, allowance: Allowance) -> Iterator[tuple[str, Any]]:
    """The elements of the JSON array in a file, with their places; for a bad one its Bad. Memory: the largest one."""
    if not path.is_file():
        return
    number, wanted = 0, _CHUNK
    with open(path, encoding="utf-8", errors="replace") as file:
        allowance.grant(path.stat().st_size)
        text = file.read(_CHUNK)
        at = _after(_NEXT, text, int(text.startswith("\ufeff")))
        if text[at : at + 1] != "[":
            yield str(path), Bad(str(path), "json", "no JSON array", ends=True)
            return
        at += 1
        while True:
            at = _after(_NEXT, text, at)
            if text.startswith("]", at):
                return
            place = f"{path}: element {number + 1}"
            allowance.begin()
            end, value = _decoded_at(place, text, at, allowance)
            if not end:
                text, at = text[at:], 0
                more = file.read(wanted) if len(text) < LARGEST else ""
                if not more:
                    why = "it breaks off" if len(text) < LARGEST else f"more than {LARGEST >> 20} MiB without an end"
                    yield place, Bad(place, "json", f"{why}; what is behind cannot be read", ends=True)
                    return
                text += more
                wanted *= 2
                continue
            yield place, value
            at, number, wanted = end, number + 1, _CHUNK


def _decoded_at(place: str, text: str, at: int, allowance: Allowance) -> tuple[int, Any]:
    """Where the JSON value at `at` ends (0: not in this text), and the value, or its Bad."""
    if len(text) - at <= _CHUNK:  # it cannot take much: decode it, and look closer only if that fails
        with contextlib.suppress(ValueError, RecursionError):
            value, end = _decode(text, at)
            containers = text.count("[", at, end) + text.count("{", at, end)
            if containers <= _DEEPEST and (end < len(text) or text[end - 1] in '"]}'):  # a number at the end may go on
                allowance.spend(end - at + json_size(containers, text.count(",", at, end)))
                return end, value
    end, size, depth = _span(text, at)
    return end, _decoded(place, text[at:end], size, depth, allowance) if end else None


def _after(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Where what matches from `at` on ends; `at` if nothing does."""
    found = pattern.match(text, at)
    return found.end() if found else at


def _span(text: str, at: int) -> tuple[int, int, int]:
    """Where the JSON value at `at` ends (0: not in this text), what it would take decoded, and how deep it goes."""
    if text[at : at + 1] not in ("[", "{"):
        end = _after(_SCALAR, text, at)
        if end == at < len(text):  # a stray bracket, a quote without its like
            return 0 if text[at] == '"' else at + 1, STEP, 0
        whole = text[at:end].endswith('"') or end < len(text)  # a number at the end may go on
        return end if whole else 0, STEP + end - at, 0
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


def _decoded(place: str, text: str, size: int, depth: int, allowance: Allowance) -> Any:
    """The value of a JSON text, or its Bad."""
    try:
        allowance.spend(size)
        return json.loads(text) if depth <= _DEEPEST else Bad(place, "json", f"nested deeper than {_DEEPEST}")
    except TooMuch as error:
        return Bad(place, "too-large", str(error))
    except (ValueError, RecursionError) as error:
        return Bad(place, "json", str(error))
