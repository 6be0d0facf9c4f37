"""Answers made by hand, and WARC files read back by two readers."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fastwarc.warc import ArchiveIterator as FastIterator
from warcio.archiveiterator import ArchiveIterator

from budgetfrontier import Settings
from budgetfrontier.core.model import CrawlUri, Lease
from budgetfrontier.crawler.cache import Original
from budgetfrontier.crawler.fetch.response import FetchResult
from budgetfrontier.crawler.outputs.warc import WarcFiles

STARTED = 1_795_300_200.25


class Known:
    """Memory in a dictionary."""

    def __init__(self) -> None:
        self.originals: dict[bytes, Original] = {}

    def original(self, digest: bytes) -> Original | None:
        return self.originals.get(digest)

    def put_original(self, digest: bytes, original: Original) -> None:
        self.originals.setdefault(digest, original)


def lease(url: str = "https://example.org/a?b", **more: Any) -> Lease:
    uri = CrawlUri(url, **{"via": "https://example.org/", "hops": "L", **more})
    return Lease(id=1, queue="example.org", uri=uri, cost=1, expires=0.0, delivery=1)


def answer(raw: bytes = b"<p>hello", *, headers: Sequence[tuple[bytes, bytes]] = (), **more: Any) -> FetchResult:
    given: dict[str, Any] = {"status": 200, "phrase": "OK", "body": raw, "raw": raw, "raw_headers": headers}
    given |= {"request_headers": [("Host", "example.org"), ("Authorization", "-")], "address": "192.0.2.7"}
    return FetchResult(**{**given, "started": STARTED, "seconds": 0.0421, **more})


def sha1(raw: bytes) -> bytes:
    """The digest as `WarcFiles.write` takes it."""
    return hashlib.sha1(raw).digest() if raw else b""


def settings(**output: Any) -> Settings:
    return Settings.from_dict({"crawl": "my crawl/1", "output": {"warc": True, **output}})


def write(folder: Path, *pairs: tuple[Lease, FetchResult], known: Known | None = None, **output: Any) -> Path:
    """Write answers into one file and close it; returns its path."""
    files = WarcFiles(folder, settings(**output), cache=known or Known())
    for one, given in pairs:
        files.write(one, given, sha1(given.raw))
    files.close()
    return max(folder.iterdir())


def read(path: Path) -> list[dict[str, Any]]:
    """Read a file with warcio and with fastwarc, digests checked; they must agree.

    Returns a dictionary for each record: its named fields in lower case; `http`, the status line and the header as a
    list of (name, value); `payload`.
    """
    with path.open("rb") as file:
        mine = [_by_warcio(record) for record in ArchiveIterator(file, check_digests="raise")]
    with path.open("rb") as file:
        other = [_by_fastwarc(record) for record in FastIterator(file, parse_http=False)]
    assert [without_http(row) for row in mine] == [without_http(row) for row in other]
    return mine


def without_http(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "http"}


def _by_warcio(record: Any) -> dict[str, Any]:
    fields = {name.lower(): value for name, value in record.rec_headers.headers}
    http = record.http_headers
    given = [f"{http.protocol} {http.statusline}", *http.headers] if http else []
    return {**fields, "http": given, "payload": record.raw_stream.read()}


def _by_fastwarc(record: Any) -> dict[str, Any]:
    fields = {name.lower(): value for name, value in record.headers.items()}
    assert record.verify_block_digest()
    if fields["content-type"].startswith("application/http"):
        record.parse_http(auto_decode="none", max_header_len=1 << 20)
        if fields["warc-type"] == "response":
            assert record.verify_payload_digest()
    return {**fields, "payload": record.reader.read()}
