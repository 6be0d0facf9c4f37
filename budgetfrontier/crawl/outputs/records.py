"""WARC records as bytes, each a gzip member of its own: what warcio writes, from the bytes that went over the wire.

Sources: ISO 28500:2017 (WARC 1.1, https://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/),
and for the fields of metadata and warcinfo records Heritrix.
"""

from __future__ import annotations

import base64
import re
import uuid
import zlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from io import BytesIO

from warcio.recordloader import ArcWarcRecord
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from budgetfrontier.crawl.fetch.answer import Answer
from budgetfrontier.model import CrawlUri

RESPONSE, REQUEST = "application/http; msgtype=response", "application/http; msgtype=request"
FIELDS = "application/warc-fields"
_LEVEL = 2  # of zlib: 9, which warcio's own compression is fixed at, takes twice as long for 5 % less
_BREAKS = re.compile(rb"[\r\n\0]+")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]+")
_VERSIONS = ("1.0", "1.1")


class _Member:
    """What WARCWriter writes a record to: a gzip member."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, zlib.MAX_WBITS | 16)
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        self._parts.append(self._deflate.compress(data))

    def flush(self) -> None:
        self._parts.append(self._deflate.flush())

    def getvalue(self) -> bytes:
        return b"".join(self._parts)


def record(headers: Sequence[tuple[str, str]], block: bytes, *, kind: str) -> bytes:
    """Return a record, compressed. `headers` are its named fields in order, WARC-Type first; `kind` its Content-Type.

    The block is written as it is. WARC-Block-Digest is added if it is missing, Content-Length always.
    """
    member = _Member()
    fields = StatusAndHeaders("", headers, protocol="WARC/1.1")
    # "warcinfo" whatever the record is: the one type whose block warcio neither takes apart nor looks for a payload in.
    # Readers go by the field WARC-Type.
    whole = ArcWarcRecord("warc", "warcinfo", fields, BytesIO(block), None, kind, len(block))
    WARCWriter(member, gzip=False).write_record(whole)
    return member.getvalue()


def record_id() -> str:
    """Return a new WARC-Record-ID."""
    return f"<urn:uuid:{uuid.uuid4()}>"


def date(seconds: float) -> str:
    """Return epoch seconds as a WARC-Date, to the microsecond."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def digest(sha1: bytes) -> str:
    """Return a SHA-1 as WARC files and Heritrix's logs have it: "sha1:BASE32"."""
    return f"sha1:{base64.b32encode(sha1).decode()}"


def response_header(answer: Answer) -> bytes:
    """Return the status line and the header as sent, up to and with the blank line.

    But for Transfer-Encoding, which becomes X-Crawl-Transfer-Encoding: the payload is kept without its chunks, and a
    reader that believed the header would look for them. What would break the header (CR, LF, NUL) becomes a space.
    """
    version = answer.version if answer.version in _VERSIONS else "1.1"
    phrase = answer.phrase.encode("utf-8", "surrogateescape")
    lines = [_line(b"HTTP/%s %d %s" % (version.encode(), answer.status, phrase))]
    for name, value in answer.raw_headers:
        name = _line(name)
        if name.lower() == b"transfer-encoding":
            name = b"X-Crawl-" + name
        lines.append(b"%s: %s" % (name, _line(value)))
    return b"\r\n".join((*lines, b"", b""))


def request_block(uri: CrawlUri, answer: Answer) -> bytes:
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


def metadata(uri: CrawlUri, answer: Answer) -> bytes:
    """Return how the crawl came to a page, in Heritrix's fields."""
    took = None if answer.seconds is None else str(int(answer.seconds * 1000))
    return fields((("via", uri.via), ("hopsFromSeed", uri.hops), ("sourceTag", uri.source), ("fetchTimeMs", took)))


def truncated(answer: Answer) -> str | None:
    """Return the WARC-Truncated of an answer that was cut: length, time or disconnect; None if it is whole."""
    for note in answer.notes:
        if note.endswith("Trunc"):
            return {"lenTrunc": "length", "timeTrunc": "time"}.get(note, "disconnect")
    return None


def _line(data: bytes) -> bytes:
    return _BREAKS.sub(b" ", data).strip()
