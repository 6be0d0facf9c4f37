"""What a crawl writes down as it goes: crawl.log in Heritrix's columns, pages and links as JSON lines.

A line is written before the frontier finishes its URI: what the frontier calls done is in the logs. After a crash, what
was not committed is fetched again and then stands twice.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import msgspec

from budgetfrontier.crawl.fetch.answer import Answer
from budgetfrontier.model import Lease, Outcome
from budgetfrontier.settings.schema import OutputSettings

_NO_FIELD = re.compile(r"[\s\x00-\x1f\x7f]+")


class Logs:
    """The log files of one job, in `folder`. Lines are appended whole, so that a killed process leaves no half line."""

    def __init__(self, folder: Path, settings: OutputSettings) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._crawl = _open(folder / "crawl.log")
        self._pages = _open(folder / "pages.jsonl") if settings.pages == "jsonl" else None
        self._links = _open(folder / "links.jsonl") if settings.links == "jsonl" else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in (self._crawl, self._pages, self._links):
            if file is not None:
                file.close()

    def write(self, lease: Lease, answer: Answer, outcome: Outcome, *, slot: int) -> None:
        """Log one attempt; `slot` is the worker that made it, from 1."""
        now = datetime.now(UTC)
        digest = _digest(answer.body)
        self._crawl.write(crawl_line(lease, answer, now=now, digest=digest, slot=slot))
        if self._pages is not None and answer.status > 0:
            _write_json(self._pages, _page(lease, answer, outcome, _stamp(now), digest))

    def write_links(self, url: str, links: Iterable[tuple[str, str]]) -> None:
        """Log the (URL, hop) found on a page, those out of scope too."""
        if self._links is not None:
            for target, hop in links:
                _write_json(self._links, {"from": url, "to": target, "hop": hop})


def crawl_line(lease: Lease, answer: Answer, *, now: datetime, digest: str, slot: int) -> str:
    """Return a line of crawl.log: timestamp, status, size, URL, hops, via, media type, thread, start+duration, digest,
    source, annotations. `-` stands for nothing; no field holds a space.

    Source: https://heritrix.readthedocs.io/en/latest/operating.html#crawl-log
    """
    uri = lease.uri
    notes = [f"{lease.attempt}t"] if lease.attempt > 1 else []
    notes += answer.notes + ([answer.reason] if answer.reason else [])
    fields = (
        _stamp(now),
        f"{answer.status:5d}",
        f"{len(answer.body):10d}" if answer.status > 0 else f"{'-':>10}",
        uri.url,
        _field(uri.hops),
        _field(uri.via),
        _field(answer.mime),
        f"#{slot:03d}",
        _duration(answer),
        _field(digest),
        _field(uri.source),
        _field(",".join(notes)),
    )
    return " ".join(fields) + "\n"


def _page(lease: Lease, answer: Answer, outcome: Outcome, time: str, digest: str) -> dict[str, Any]:
    uri = lease.uri
    return {
        "time": time,
        "url": uri.url,
        "status": answer.status,
        "outcome": outcome,
        "mime": _whole(answer.mime),
        "size": len(answer.body),
        "seconds": round(answer.seconds or 0.0, 3),
        "digest": digest,
        "queue": lease.queue,
        "cost": lease.cost,
        "hops": uri.hops,
        "via": uri.via,
        "source": uri.source,
        "location": _whole(answer.location),
        "notes": answer.notes,
    }


def _open(path: Path) -> IO[str]:
    return path.open("a", encoding="utf-8", errors="backslashreplace", buffering=1)


def _write_json(file: IO[str], row: dict[str, Any]) -> None:
    file.write(msgspec.json.encode(row).decode() + "\n")


def _whole(value: str | None) -> str | None:
    """Return a header's text without the lone surrogates that stand for bad bytes, which JSON cannot hold."""
    return value.encode("utf-8", "backslashreplace").decode() if value else value


def _digest(body: bytes) -> str:
    return f"sha1:{base64.b32encode(hashlib.sha1(body, usedforsecurity=False).digest()).decode()}" if body else ""


def _field(value: str | None) -> str:
    return _NO_FIELD.sub("_", value) if value else "-"


def _stamp(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.") + f"{time.microsecond // 1000:03d}Z"


def _duration(answer: Answer) -> str:
    if answer.seconds is None:
        return "-"
    start = datetime.fromtimestamp(answer.started, UTC)
    return f"{start.strftime('%Y%m%d%H%M%S')}{start.microsecond // 1000:03d}+{int(answer.seconds * 1000)}"
