"""WARC records as bytes: each a gzip member of its own, written by warcio, from the bytes sent and received.

Sources: ISO 28500:2017 (WARC 1.1, https://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/),
and for the fields of metadata and warcinfo records Heritrix.
"""

from __future__ import annotations

import base64
import hashlib
import re
import uuid
import zlib
from collections.abc import Iterable
from datetime import UTC, datetime
from io import BytesIO

from warcio.recordloader import ArcWarcRecord
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from budgetfrontier.crawl.fetch.response import Response
from budgetfrontier.model import CrawlUri

RESPONSE, REQUEST = "application/http; msgtype=response", "application/http; msgtype=request"
FIELDS = "application/warc-fields"
_LEVEL = 2  # of zlib; level 9, which warcio always uses, takes 1.7 times as long for 5 % less
_BREAKS = re.compile(rb"[\r\n\0]+")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]+")
_VERSIONS = ("1.0", "1.1")


class Recorder:
    """A writer of records, one at a time, on top of warcio."""

    def __init__(self) -> None:
        self._writer = WARCWriter(self, gzip=False)
        self._parts: list[bytes] = []

    def record(self, headers: list[tuple[str, str]], block: bytes, *, kind: str) -> bytes:
        """Return a compressed record with the named fields `headers`, in order, and the Content-Type `kind`.

        WARC-Type comes first. The block is not changed. WARC-Block-Digest and Content-Length are added.
        """
        sha1 = hashlib.sha1(block, usedforsecurity=False).digest()
        fields = StatusAndHeaders("", [*headers, ("WARC-Block-Digest", digest(sha1))], protocol="WARC/1.1")
        # Always "warcinfo": the one type whose block warcio neither parses nor searches for a payload. Readers use the
        # field WARC-Type.
        record = ArcWarcRecord("warc", "warcinfo", fields, BytesIO(block), None, kind, len(block))
        self._deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, zlib.MAX_WBITS | 16)
        self._parts = []
        self._writer.write_record(record)
        return b"".join(self._parts)

    # The file interface that warcio writes to

    def write(self, data: bytes) -> None:
        self._parts.append(self._deflate.compress(data))

    def flush(self) -> None:
        self._parts.append(self._deflate.flush())


def record_id() -> str:
    """Return a new WARC-Record-ID."""
    return f"<urn:uuid:{uuid.uuid4()}>"


def date(seconds: float) -> str:
    """Return epoch seconds as a WARC-Date, to the microsecond."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def digest(sha1: bytes) -> str:
    """Return a SHA-1 in the format of WARC files and Heritrix's logs: "sha1:BASE32"."""
    return f"sha1:{base64.b32encode(sha1).decode()}"


def response_header(response: Response) -> bytes:
    """Return the status line and header as sent, including the blank line, with these exceptions:

    - Transfer-Encoding becomes X-Crawl-Transfer-Encoding: the payload is stored without its chunks, which a reader
      would expect otherwise.
    - Content-Length becomes X-Crawl-Content-Length if the header violated HTTP ("badHeader"): it may be wrong.
    - CR, LF and NUL within a line become a space.
    """
    renamed = (b"transfer-encoding", b"content-length") if "badHeader" in response.notes else (b"transfer-encoding",)
    version = response.version if response.version in _VERSIONS else "1.1"
    phrase = response.phrase.encode("utf-8", "surrogateescape")
    lines = [_line(b"HTTP/%s %d %s" % (version.encode(), response.status, phrase))]
    for name, value in response.raw_headers:
        name = _line(name)
        if name.lower() in renamed:
            name = b"X-Crawl-" + name
        lines.append(b"%s: %s" % (name, _line(value)))
    return b"\r\n".join((*lines, b"", b""))


def request_block(uri: CrawlUri, response: Response) -> bytes:
    """Return the request as sent, but for credentials: method, target, header and body."""
    _, _, rest = uri.url.partition("://")
    _, slash, target = rest.partition("/")
    lines = [f"{uri.method} /{target if slash else ''} HTTP/1.1".encode()]
    lines += [
        b"%s: %s" % (_line(name.encode("utf-8", "surrogateescape")), _line(value.encode("utf-8", "surrogateescape")))
        for name, value in response.request_headers
    ]
    return b"\r\n".join((*lines, b"", uri.body))


def fields(pairs: Iterable[tuple[str, str | None]]) -> bytes:
    """Return a block of application/warc-fields. Empty values are left out, control characters become spaces."""
    rows = [f"{name}: {_CONTROLS.sub(' ', value)}\r\n" for name, value in pairs if value]
    return "".join(rows).encode("utf-8", "replace")


def metadata(uri: CrawlUri, response: Response) -> bytes:
    """Return the block of a metadata record, with Heritrix's fields: how the page was found, and the fetch time."""
    took = None if response.seconds is None else str(int(response.seconds * 1000))
    return fields((("via", uri.via), ("hopsFromSeed", uri.hops), ("sourceTag", uri.source), ("fetchTimeMs", took)))


def truncated(response: Response) -> str | None:
    """Return the WARC-Truncated of an incomplete response: length, time or disconnect; None if it is complete."""
    for note in response.notes:
        if note.endswith("Trunc"):
            return {"lenTrunc": "length", "timeTrunc": "time"}.get(note, "disconnect")
    return None


def _line(data: bytes) -> bytes:
    return _BREAKS.sub(b" ", data).strip()
