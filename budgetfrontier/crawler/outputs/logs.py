"""Logs of a crawl: crawl.log with Heritrix's columns, pages and links as JSON lines."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from budgetfrontier.core.model import Lease, Outcome
from budgetfrontier.crawler.fetch.response import FetchResult
from budgetfrontier.crawler.outputs.append_only_files import GrowingFile, cut_incomplete_line, held
from budgetfrontier.settings.schema import OutputSettings
from budgetfrontier.storage.modes import make_folder

_NOT_IN_FIELD = re.compile(r"[\s\x00-\x1f\x7f]+")
_NO_MARKS = str.maketrans("", "", "-T:.")
_encode = msgspec.json.Encoder().encode


class Logs:
    """The log files of one job, in `folder`. Existing ones are continued, without an incomplete last line.

    Lines are durable after `sync` or `close` of the `files`. All methods raise StorageFull on a full disk.
    """

    def __init__(self, folder: Path, settings: OutputSettings) -> None:
        make_folder(folder, like=folder.parent)
        self._crawl = open_log(folder / "crawl.log")
        self._pages = open_log(folder / "pages.jsonl") if settings.pages == "jsonl" else None
        self._links = open_log(folder / "links.jsonl") if settings.links == "jsonl" else None

    @property
    def files(self) -> list[GrowingFile]:
        """The open files."""
        return [file for file in (self._crawl, self._pages, self._links) if file]

    def write(self, lease: Lease, response: FetchResult, *, digest: str, slot: int, note: str = "") -> None:
        """Write the line of crawl.log for one attempt. `digest` is "sha1:BASE32" or "", `slot` the worker, from 1."""
        line = crawl_line(lease, response, now=datetime.now(UTC), digest=digest, slot=slot, note=note)
        self._crawl.write(line.encode("utf-8", "backslashreplace"))

    def write_page(self, lease: Lease, response: FetchResult, outcome: Outcome, *, digest: str) -> None:
        """Write the line of pages.jsonl for a page, if that output is on."""
        if self._pages:
            self._pages.write(_encode(_page(lease, response, outcome, stamp(datetime.now(UTC)), digest)) + b"\n")

    def write_links(self, url: str, links: Iterable[tuple[str, str]]) -> None:
        """Write the links (URL, hop) of a page to links.jsonl, if that output is on."""
        if self._links:
            for target, hop in links:
                self._links.write(_encode({"from": url, "to": target, "hop": hop}) + b"\n")


def open_log(path: Path, *, head: bytes = b"") -> GrowingFile:
    """Open a file of lines for appending, `head` first; an incomplete last line is cut off. It may be rotated.

    Raises FrontierLocked if another crawl has it open.
    """
    with suppress(FileNotFoundError), held(path):
        cut_incomplete_line(path)
    return GrowingFile(path, rotates=True, head=head)


def crawl_line(lease: Lease, response: FetchResult, *, now: datetime, digest: str, slot: int, note: str = "") -> str:
    """Return a line of crawl.log.

    Columns: timestamp, status, size, URL, hops, via, media type, worker, start+duration, digest, source, annotations.
    `-` means no value; no field contains a space. Size and digest are those of the body as sent.

    Source: https://heritrix.readthedocs.io/en/latest/operating.html#crawl-log
    """
    uri = lease.uri
    notes = [f"{lease.attempt}t"] if lease.attempt > 1 else []
    notes += response.notes + ([note] if note else []) + ([response.reason] if response.reason else [])
    if response.seconds is None and isinstance(uri.meta, dict) and (seed := uri.meta.get("seed")):
        notes.append(f"seed:{seed}")  # not fetched: `revive` restores such URIs, and the scope needs the seed
    fields = (
        stamp(now),
        f"{response.status:5d}",
        f"{len(response.raw):10d}" if response.status > 0 else f"{'-':>10}",
        uri.url,
        _field(uri.hops),
        _field(uri.via),
        _field(response.mime),
        f"#{slot:03d}",
        _duration(response),
        _field(digest),
        _field(uri.source),
        _field(",".join(notes)),
    )
    return " ".join(fields) + "\n"


def stamp(time: datetime) -> str:
    """Return a UTC time in the format of the logs: "2026-11-20T22:00:01.005Z"."""
    return time.isoformat(timespec="milliseconds")[:-6] + "Z"  # a third of the time of strftime


@lru_cache(64)
def _second(seconds: int) -> str:
    """Return epoch seconds in the format of the start of a fetch: "20261120220001"."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().translate(_NO_MARKS)[: len("YYYYMMDDhhmmss")]


def _page(lease: Lease, response: FetchResult, outcome: Outcome, time: str, digest: str) -> dict[str, Any]:
    uri = lease.uri
    return {
        "time": time,
        "url": uri.url,
        "status": response.status,
        "outcome": outcome,
        "mime": _escape_surrogates(response.mime),
        "size": len(response.body),
        "seconds": round(response.seconds or 0.0, 3),
        "digest": digest,
        "queue": lease.queue,
        "cost": lease.cost,
        "hops": uri.hops,
        "via": uri.via,
        "source": uri.source,
        "location": _escape_surrogates(response.location),
        "notes": response.notes,
    }


def _escape_surrogates(value: str | None) -> str | None:
    """Return header text with lone surrogates (undecodable bytes), which JSON cannot represent, escaped."""
    return value.encode("utf-8", "backslashreplace").decode() if value else value


def _field(value: str | None) -> str:
    if not value:
        return "-"
    if value.isprintable() and " " not in value:
        return value
    return _NOT_IN_FIELD.sub("_", value)


def _duration(response: FetchResult) -> str:
    if response.seconds is None:
        return "-"
    whole, fraction = divmod(response.started, 1.0)
    carry, micros = divmod(round(fraction * 1e6), 1_000_000)  # as datetime rounds, and so the dates of WARC records
    return f"{_second(int(whole) + carry)}{micros // 1000:03d}+{int(response.seconds * 1000)}"
