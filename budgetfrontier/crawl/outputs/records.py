"""WARC records as bytes, each a gzip member of its own: what warcio writes, from the bytes that went over the wire.

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
_LEVEL = 2  # of zlib; 9, which warcio's own compression is fixed at, takes 1.7 times as long for 5 % less
_BREAKS = re.compile(rb"[\r\n\0]+")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]+")
_VERSIONS = ("1.0", "1.1")


class Recorder:
    """Makes records, one after the other, by warcio."""

    def __init__(self) -> None:
        self._writer = WARCWriter(self, gzip=False)
        self._parts: list[bytes] = []

    def record(self, headers: list[tuple[str, str]], block: bytes, *, kind: str) -> bytes:
        """Return a record, compressed: its named fields `headers` in order, WARC-Type first, its Content-Type `kind`.

        The block is kept as it is. WARC-Block-Digest and Content-Length are added.
        """
        sha1 = hashlib.sha1(block, usedforsecurity=False).digest()
        fields = StatusAndHeaders("", [*headers, ("WARC-Block-Digest", digest(sha1))], protocol="WARC/1.1")
        # "warcinfo" whatever the record is: the one type whose block warcio neither takes apart nor looks for a payload
        # in. Readers go by the field WARC-Type.
        record = ArcWarcRecord("warc", "warcinfo", fields, BytesIO(block), None, kind, len(block))
        self._deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, zlib.MAX_WBITS | 16)
        self._parts = []
        self._writer.write_record(record)
        return b"".join(self._parts)

    # What warcio writes to.

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
    """Return a SHA-1 as WARC files and Heritrix's logs have it: "sha1:BASE32"."""
    return f"sha1:{base64.b32encode(sha1).decode()}"


def response_header(answer: Response) -> bytes:
    """Return the status line and the header as sent, up to and with the blank line.

    But for Transfer-Encoding, which becomes X-Crawl-Transfer-Encoding: the payload is kept without its chunks, and a
    reader that believed the header would look for them. So does the Content-Length of a header that breaks the rules:
    it may not be this body's. What would break the header (CR, LF, NUL) becomes a space.
    """
    renamed = (b"transfer-encoding", b"content-length") if "badHeader" in answer.notes else (b"transfer-encoding",)
    version = answer.version if answer.version in _VERSIONS else "1.1"
    phrase = answer.phrase.encode("utf-8", "surrogateescape")
    lines = [_line(b"HTTP/%s %d %s" % (version.encode(), answer.status, phrase))]
    for name, value in answer.raw_headers:
        name = _line(name)
        if name.lower() in renamed:
            name = b"X-Crawl-" + name
        lines.append(b"%s: %s" % (name, _line(value)))
    return b"\r\n".join((*lines, b"", b""))


def request_block(uri: CrawlUri, answer: Response) -> bytes:
    """Return the request as sent."""
    _, _, rest = uri.url.partition("://")
    _, slash, target = rest.partition("/")
    lines = [f"{uri.method} /{target if slash else ''} HTTP/1.1".encode()]
    lines += [
        b"%s: %s" % (_line(name.encode("utf-8", "surrogateescape")), _line(value.encode("utf-8", "surrogateescape")))
        for name, value in answer.request_headers
    ]
    return b"\r\n".join((*lines, b"", uri.body))


def fields(pairs: Iterable[tuple[str, str | None]]) -> bytes:
    """Return a block of application/warc-fields; None and "" are left out, control characters become spaces."""
    rows = [f"{name}: {_CONTROLS.sub(' ', value)}\r\n" for name, value in pairs if value]
    return "".join(rows).encode("utf-8", "replace")


def metadata(uri: CrawlUri, answer: Response) -> bytes:
    """Return how the crawl came to a page, in Heritrix's fields."""
    took = None if answer.seconds is None else str(int(answer.seconds * 1000))
    return fields((("via", uri.via), ("hopsFromSeed", uri.hops), ("sourceTag", uri.source), ("fetchTimeMs", took)))


def truncated(answer: Response) -> str | None:
    """Return the WARC-Truncated of an answer that was cut: length, time or disconnect; None if it is whole."""
    for note in answer.notes:
        if note.endswith("Trunc"):
            return {"lenTrunc": "length", "timeTrunc": "time"}.get(note, "disconnect")
    return None


def _line(data: bytes) -> bytes:
    return _BREAKS.sub(b" ", data).strip()
