"""WARC records as bytes: each a gzip member of its own, from the bytes sent and received.

Sources: ISO 28500:2017 (WARC 1.1, https://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/),
and for the fields of metadata and warcinfo records Heritrix.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import zlib
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain
from typing import Any

from budgetfrontier.core.model import CrawlUri
from budgetfrontier.crawler.fetch.response import FetchResult

RESPONSE, REQUEST = "application/http; msgtype=response", "application/http; msgtype=request"
FIELDS = "application/warc-fields"
_LEVEL = 2  # of zlib; level 9, which is usual for WARC files, takes 1.7 times as long for 5 % less
_SMALL = 2048  # bytes for which zlib needs no more memory than fits them: a quarter of a megabyte takes longer to get
_BREAKS = re.compile(rb"[\r\n\0]+")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]+")
_VERSIONS = ("1.0", "1.1")
_VARIANTS = dict(zip("0123456789abcdef", "89ab" * 4, strict=True))  # of a UUID: RFC 9562, section 4.1
_COMMON_LINES = 256
_END = b"\r\n\r\n"


def zlib_compressor(size: int) -> Any:
    """Return a compressor of the standard library for a gzip member of that many bytes."""
    if size <= _SMALL:
        return zlib.compressobj(_LEVEL, zlib.DEFLATED, 16 + _SMALL.bit_length() - 1, 6)
    return zlib.compressobj(_LEVEL, zlib.DEFLATED, 16 + zlib.MAX_WBITS)


def isal_compressor() -> Callable[[int], Any] | None:
    """Return the same of ISA-L, four times as fast on the processors that it is made for; None if it is missing."""
    try:
        from isal import isal_zlib
    except ImportError:
        return None
    return lambda size: isal_zlib.compressobj(1, isal_zlib.DEFLATED, 16 + zlib.MAX_WBITS)


compressor: Callable[[int], Any] = isal_compressor() or zlib_compressor


def record(head: str, *blocks: bytes, kind: str) -> bytes:
    """Return a compressed record with the fields `head`, lines that end in CRLF, and the Content-Type `kind`.

    WARC-Type comes first. The block, in one or several parts, stays. WARC-Block-Digest and Content-Length are added.
    """
    sha1 = hashlib.sha1(usedforsecurity=False)
    size = 0
    for block in blocks:
        sha1.update(block)
        size += len(block)
    head = (
        f"WARC/1.1\r\n{head}WARC-Block-Digest: {digest(sha1.digest())}\r\n"
        f"Content-Type: {kind}\r\nContent-Length: {size}\r\n\r\n"
    )
    deflate = compressor(len(head) + size)
    if size <= _SMALL:
        return bytes(deflate.compress(b"".join((head.encode(), *blocks, _END))) + deflate.flush())
    return b"".join((*map(deflate.compress, (head.encode(), *blocks, _END)), deflate.flush()))


def record_id() -> str:
    """Return a new WARC-Record-ID, a random UUID."""
    text = os.urandom(16).hex()
    variant = _VARIANTS[text[16]]
    return f"<urn:uuid:{text[:8]}-{text[8:12]}-4{text[13:16]}-{variant}{text[17:20]}-{text[20:]}>"


def date(seconds: float) -> str:
    """Return epoch seconds as a WARC-Date, to the microsecond."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")[:-6] + "Z"


@lru_cache(1)  # the logs and the WARC file name the same one
def digest(sha1: bytes) -> str:
    """Return a SHA-1 in the format of WARC files and Heritrix's logs: "sha1:BASE32"."""
    return f"sha1:{base64.b32encode(sha1).decode()}"


def response_header(response: FetchResult) -> bytes:
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
    if not _BREAKS.search(b"".join(chain.from_iterable(response.raw_headers))):
        lines += [
            b"%s%s: %s" % (b"X-Crawl-" if name.strip().lower() in renamed else b"", name.strip(), value.strip())
            for name, value in response.raw_headers
        ]
        return b"\r\n".join((*lines, b"", b""))
    for name, value in response.raw_headers:
        name = _line(name)
        if name.lower() in renamed:
            name = b"X-Crawl-" + name
        lines.append(b"%s: %s" % (name, _line(value)))
    return b"\r\n".join((*lines, b"", b""))


def request_block(uri: CrawlUri, response: FetchResult) -> bytes:
    """Return the request as sent, but for credentials: method, target, header and body."""
    _, _, rest = uri.url.partition("://")
    _, slash, target = rest.partition("/")
    lines = [f"{uri.method} /{target if slash else ''} HTTP/1.1".encode()]
    lines += [_request_line(name, value) for name, value in response.request_headers]
    return b"\r\n".join((*lines, b"", uri.body))


@lru_cache(_COMMON_LINES)  # most are the same in all requests
def _request_line(name: str, value: str) -> bytes:
    name_sent, value_sent = (_line(text.encode("utf-8", "surrogateescape")) for text in (name, value))
    return b"%s: %s" % (name_sent, value_sent)


def fields(pairs: Iterable[tuple[str, str | None]]) -> bytes:
    """Return a block of application/warc-fields. Empty values are left out, control characters become spaces."""
    rows = [f"{name}: {_CONTROLS.sub(' ', value)}\r\n" for name, value in pairs if value]
    return "".join(rows).encode("utf-8", "replace")


def metadata(uri: CrawlUri, response: FetchResult) -> bytes:
    """Return the block of a metadata record, with Heritrix's fields: how the page was found, and the fetch time."""
    took = None if response.seconds is None else str(int(response.seconds * 1000))
    return fields((("via", uri.via), ("hopsFromSeed", uri.hops), ("sourceTag", uri.source), ("fetchTimeMs", took)))


def truncated(response: FetchResult) -> str | None:
    """Return the WARC-Truncated of an incomplete response: length, time or disconnect; None if it is complete."""
    for note in response.notes:
        if note.endswith("Trunc"):
            return {"lenTrunc": "length", "timeTrunc": "time"}.get(note, "disconnect")
    return None


def _line(data: bytes) -> bytes:
    return _BREAKS.sub(b" ", data).strip()
