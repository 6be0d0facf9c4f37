"""The logs of a crawl: crawl.log in Heritrix's columns, pages and links as JSON lines."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from budgetfrontier.crawl.fetch.response import Response
from budgetfrontier.crawl.outputs.files import GrowingFile, cut_half_line
from budgetfrontier.model import Lease, Outcome
from budgetfrontier.settings.schema import OutputSettings
from budgetfrontier.store.modes import make_folder

_NO_FIELD = re.compile(r"[\s\x00-\x1f\x7f]+")
_encode = msgspec.json.Encoder().encode


class Logs:
    """The log files of one job, in `folder`; each goes on where it ended, without the half line a crash may have left.

    Lines are on disk after `sync` or `close`. Everything raises StorageFull on a full disk.
    """

    def __init__(self, folder: Path, settings: OutputSettings) -> None:
        make_folder(folder, like=folder.parent)
        self._crawl = open_log(folder / "crawl.log")
        self._pages = open_log(folder / "pages.jsonl") if settings.pages == "jsonl" else None
        self._links = open_log(folder / "links.jsonl") if settings.links == "jsonl" else None

    @property
    def files(self) -> list[GrowingFile]:
        """The files that are open."""
        return [file for file in (self._crawl, self._pages, self._links) if file]

    def write(self, lease: Lease, answer: Response, *, digest: str, slot: int, noindex: bool) -> None:
        """Write the line of crawl.log for one attempt. `digest` is "sha1:BASE32" or "", `slot` the worker, from 1."""
        line = crawl_line(lease, answer, now=datetime.now(UTC), digest=digest, slot=slot, noindex=noindex)
        self._crawl.write(line.encode("utf-8", "backslashreplace"))

    def write_page(self, lease: Lease, answer: Response, outcome: Outcome, *, digest: str) -> None:
        """Write the line of pages.jsonl for a page."""
        if self._pages:
            self._pages.write(_encode(_page(lease, answer, outcome, stamp(datetime.now(UTC)), digest)) + b"\n")

    def write_links(self, url: str, links: Iterable[tuple[str, str]]) -> None:
        """Write the (URL, hop) found on a page."""
        if self._links:
            for target, hop in links:
                self._links.write(_encode({"from": url, "to": target, "hop": hop}) + b"\n")


def open_log(path: Path) -> GrowingFile:
    """Open a file of lines to go on with it; half a line at its end is cut off."""
    cut_half_line(path)
    return GrowingFile(path)


def crawl_line(lease: Lease, answer: Response, *, now: datetime, digest: str, slot: int, noindex: bool = False) -> str:
    """Return a line of crawl.log: timestamp, status, size, URL, hops, via, media type, thread, start+duration, digest,
    source, annotations. `-` stands for nothing; no field holds a space. Size and digest are those of the body as sent.

    Source: https://heritrix.readthedocs.io/en/latest/operating.html#crawl-log
    """
    uri = lease.uri
    notes = [f"{lease.attempt}t"] if lease.attempt > 1 else []
    notes += answer.notes + (["noindex"] if noindex else []) + ([answer.reason] if answer.reason else [])
    if answer.seconds is None and isinstance(uri.meta, dict) and (seed := uri.meta.get("seed")):
        notes.append(f"seed:{seed}")  # never asked for: `revive` may want it back, with what the scope knows of it
    fields = (
        stamp(now),
        f"{answer.status:5d}",
        f"{len(answer.raw):10d}" if answer.status > 0 else f"{'-':>10}",
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


def stamp(time: datetime) -> str:
    """Return a UTC time as logs have it: "2026-11-20T22:00:01.005Z"."""
    return time.strftime("%Y-%m-%dT%H:%M:%S.") + f"{time.microsecond // 1000:03d}Z"


def _page(lease: Lease, answer: Response, outcome: Outcome, time: str, digest: str) -> dict[str, Any]:
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


def _whole(value: str | None) -> str | None:
    """Return a header's text without the lone surrogates that stand for bad bytes, which JSON cannot hold."""
    return value.encode("utf-8", "backslashreplace").decode() if value else value


def _field(value: str | None) -> str:
    return _NO_FIELD.sub("_", value) if value else "-"


def _duration(answer: Response) -> str:
    if answer.seconds is None:
        return "-"
    start = datetime.fromtimestamp(answer.started, UTC)
    return f"{start.strftime('%Y%m%d%H%M%S')}{start.microsecond // 1000:03d}+{int(answer.seconds * 1000)}"
