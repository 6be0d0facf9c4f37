"""Reader of crawl.log: its lines, for reports, and the URIs to schedule again, by the status of their last lines."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, NamedTuple

from budgetfrontier.core.model import CrawlUri, Directive

_FIELDS = 12
_STATUSES = re.compile(r"-[1-9][0-9]{0,3}|[1-9][0-9]{2}|[1-5]xx", re.ASCII | re.IGNORECASE)
_SEED = ",seed:"


class Line(NamedTuple):
    """The time and the URI of a line of crawl.log; outputs.md lists the fields of a URI that the log does not keep."""

    time: str
    uri: CrawlUri


class CrawlLogLine(NamedTuple):
    """A line of crawl.log, `b"-"` for missing values."""

    time: bytes
    status: int
    size: int
    """Bytes of the body as received, 0 without a response."""
    url: bytes
    hops: bytes
    via: bytes
    mime: bytes
    worker: bytes
    duration: bytes
    digest: bytes
    source: bytes
    notes: bytes


def entries(path: Path, *, since: float = 0.0) -> Iterator[CrawlLogLine]:
    """Yield the lines of a log from the time `since` (epoch seconds) on; lines that cannot be read are left out.

    Finds the first by bisection, as the log is in the order of time; then one pass, about 2 us a line. Raises OSError.
    """
    with path.open("rb") as file:
        if since:
            floor = datetime.fromtimestamp(since, UTC).isoformat(timespec="milliseconds")[:-6].encode() + b"Z"
            file.seek(_first_at(file, floor))
        for line in file:
            if (found := entry(line)) is not None:
                yield found


def first_time(path: Path) -> str:
    """Return the time of the first line of a log that can be read, "" if there is none. Raises OSError."""
    return next((time for found in entries(path) if _is_time(time := found.time.decode("ascii", "replace"))), "")


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return False
    return True


def entry(line: bytes) -> CrawlLogLine | None:
    """Return a line as a CrawlLogLine; None if it is none, or not complete."""
    fields = line.split()
    if len(fields) != _FIELDS or not line.endswith(b"\n"):
        return None
    try:
        status, size = int(fields[1]), 0 if fields[2] == b"-" else int(fields[2])
    except ValueError:
        return None
    return CrawlLogLine(fields[0], status, size, *fields[3:])


def _first_at(file: BinaryIO, floor: bytes) -> int:
    """Return the offset of the first line with at least the time `floor`, or of the end."""
    low, high = 0, file.seek(0, os.SEEK_END)
    while low < high:  # the line looked for begins at low, or after it
        middle = (low + high) // 2
        file.seek(max(middle - 1, 0))
        start = middle - 1 + len(file.readline()) if middle else 0  # of the first line that begins at middle or later
        if start >= high:
            high = middle
            continue
        file.seek(start)
        line = file.readline()
        if line.split(None, 1)[:1] >= [floor]:
            high = middle
        else:
            low = start + len(line)
    return low


def statuses(text: str) -> str:
    """Return a status of the log as written there, or a class of HTTP statuses; ValueError for anything else.

    >>> statuses("-5000"), statuses("404"), statuses("5XX")
    ('-5000', '404', '5xx')
    """
    if _STATUSES.fullmatch(text) is None:
        raise ValueError(f"expected a status of crawl.log, such as -5000 or 404, or a class, 1xx to 5xx, got {text!r}")
    return text.lower()


def last_with(path: Path, status: str, *, since: str = "") -> Iterator[Line]:
    """Yield the last lines of URIs if they have one of `statuses`, in their order.

    Lines up to the time `since` ("2026-11-20T22:00:01.005Z") do not count. Reads the log once, then the selected lines
    again; O(URIs with that status) memory, about 120 bytes each. Raises OSError.
    """
    is_wanted = re.compile(status.replace("x", "[0-9]").encode()).fullmatch
    floor = since.encode()
    last: dict[int, int] = {}  # hash of the URL: where its last line begins
    with path.open("rb") as file:
        offset = 0
        for line in file:
            fields = line.split(None, 4)
            if len(fields) == 5 and fields[0] > floor:
                if is_wanted(fields[1]):
                    url = hash(fields[3])
                    last.pop(url, None)  # keeps the order of the last lines
                    last[url] = offset
                elif last:
                    last.pop(hash(fields[3]), None)
            offset += len(line)
        for offset in last.values():
            file.seek(offset)
            if found := _read(file.readline()):
                yield found


def _read(line: bytes) -> Line | None:
    """Parse a line; None for a truncated one, and for a robots.txt: a crawl schedules these itself."""
    fields = line.decode("utf-8", "replace").split()
    if len(fields) != _FIELDS or not line.endswith(b"\n"):
        return None
    time, _, _, url, hops, via, _, _, _, _, source, notes = fields
    hops = hops.strip("-")
    if hops.endswith("P"):
        return None
    seed = notes.rpartition(_SEED)[2] if _SEED in notes else None
    uri = CrawlUri(
        url,
        via=_value(via),
        hops=hops,
        source=_value(source),
        meta={"seed": seed} if seed else None,
        force=True,
        directive=Directive.NORMAL if hops else Directive.MEDIUM,
    )
    return Line(time, uri)


def _value(field: str) -> str | None:
    return None if field == "-" else field
