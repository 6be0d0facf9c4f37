"""The result of a fetch: an HTTP response, or a status below zero that says what went wrong."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime

import msgspec

from budgetfrontier.model import Outcome

# Heritrix's codes for what is no HTTP answer: https://heritrix.readthedocs.io/en/latest/glossary.html#status-codes
DNS_FAILED, CONNECT_FAILED, CONNECTION_LOST, TIMED_OUT, BROKEN = -1, -2, -3, -4, -5
ROBOTS_UNREACHABLE, ROBOTS_PRECLUDED = -61, -9998
OUT_OF_SCOPE = -5000
BLOCKED = -5001
"""Heritrix's "blocked from fetch by user setting": the host is at an address that `fetch.allow_private` forbids, or the
port is one that browsers do not open."""

_RETRIED = frozenset({DNS_FAILED, CONNECT_FAILED, CONNECTION_LOST, TIMED_OUT, 429, 503})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_LONGEST_WAIT = 86400


class Response(msgspec.Struct, kw_only=True):
    """What a fetch gave: an HTTP answer, or a negative status and a reason.

    `started` is epoch seconds; `seconds` is None when nothing was sent. `notes` are Heritrix's annotations: lenTrunc
    (cut at `max_body` or `max_expansion`), timeTrunc (cut at `timeout` or for `min_speed`), headerTrunc (given up at
    `max_header`), midFetchAbort (not wanted once the header was in); and five of our own: connTrunc (the server closed
    the connection before the end that it had announced), badHeader (it breaks rules of HTTP/1.1, and was mended),
    badEncoding (compressed data that is damaged or incomplete), notEncoded and unknownEncoding (kept as it was sent:
    not compressed though it says so, or nobody knows how). With any of them, `reason` says more.
    """

    status: int
    reason: str = ""
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    body: bytes = b""
    """The page, decompressed."""
    raw: bytes = b""
    """The body as it was sent, still compressed, without chunks; the same object as `body` if it was not compressed."""
    raw_headers: Sequence[tuple[bytes, bytes]] = ()
    """The header as it was sent, in order."""
    version: str = "1.1"
    phrase: str = ""
    request_headers: Sequence[tuple[str, str]] = ()
    """The header that was sent, without what came from environment variables."""
    address: str | None = None
    """The IP address that answered."""
    started: float = 0.0
    seconds: float | None = None
    notes: list[str] = msgspec.field(default_factory=list)

    @property
    def mime(self) -> str:
        """The media type in lower case, without parameters; "" if the answer names none."""
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    @property
    def charset(self) -> str | None:
        """The charset that the Content-Type names."""
        match = re.search(r"charset\s*=\s*[\"']?([^\s;\"']+)", self.headers.get("Content-Type", ""), re.IGNORECASE)
        return match[1] if match else None

    @property
    def location(self) -> str | None:
        """Where a redirect leads, as the server wrote it."""
        return self.headers.get("Location") if self.status in _REDIRECTS else None

    @property
    def outcome(self) -> Outcome:
        """SUCCESS for any answer, a 404 too; RETRY where the host may recover (429 and 503 say so); else FAILURE."""
        if self.status in _RETRIED:
            return Outcome.RETRY
        return Outcome.SUCCESS if self.status > 0 else Outcome.FAILURE

    def digest(self) -> bytes:
        """Return the SHA-1 of the body as it was sent (20 bytes); b"" if there is none."""
        return hashlib.sha1(self.raw, usedforsecurity=False).digest() if self.raw else b""

    @property
    def retry_after(self) -> float | None:
        """The seconds that a 429 or 503 asks for, as a number or an HTTP date (RFC 9110, 10.2.3); at most a day."""
        value = self.headers.get("Retry-After", "").strip()
        if self.status not in _RETRIED or not value:
            return None
        if value.isascii() and value.isdigit():
            return float(min(int(value[:9]), _LONGEST_WAIT))
        try:
            date = parsedate_to_datetime(value)
            until = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            return None
        return min(max(until - self.started - (self.seconds or 0.0), 0.0), float(_LONGEST_WAIT))
