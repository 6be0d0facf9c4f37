"""The result of a fetch: an HTTP response, or a failure with a negative status."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence

import msgspec

from budgetfrontier.core.model import Outcome
from budgetfrontier.reports.log_tables import meaning
from budgetfrontier.rules import backoff
from budgetfrontier.rules.uri_outcomes import may_pass

# Heritrix's status codes for fetches without an HTTP response: https://heritrix.readthedocs.io/en/latest/glossary.html#status-codes
DNS_FAILED, CONNECT_FAILED, CONNECTION_LOST, TIMED_OUT, BROKEN = -1, -2, -3, -4, -5
TLS = "TLS: "
"""The beginning of the reason of a failure to agree on TLS."""
ROBOTS_UNREACHABLE, ROBOTS_PRECLUDED = -61, -9998
OUT_OF_SCOPE = -5000
BLOCKED = -5001
"""Heritrix's "blocked from fetch by user setting": `fetch.allow_private` forbids the host's address, or the port is one
that browsers block."""

_CUT = {
    "connTrunc": "cut by the end of the connection",
    "timeTrunc": "cut because it was too slow",
    "badEncoding": "with damaged or incomplete compressed data",
}
_WITHOUT_RESPONSE = (DNS_FAILED, CONNECT_FAILED, CONNECTION_LOST, TIMED_OUT, BROKEN, BLOCKED)
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([^\s;\"']+)", re.IGNORECASE)
_VALUE = re.compile(r'(?:[^,"]|"(?:\\.|[^"\\])*+"?)++')  # of a list: a comma within quotes separates nothing
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]++"
_ESSENCE = re.compile(rf"[ \t\r\n]*+({_TOKEN}/{_TOKEN})[ \t\r\n]*+(?:;|$)")


class PutBack(Exception):
    """The end of a visit without a fetch: the URI goes back, uncharged, and its queue rests for so many seconds.

    `address` is the IP address of its host, if that was looked up.
    """

    def __init__(self, seconds: float, reason: str, *, address: str = "") -> None:
        super().__init__(reason)
        self.seconds, self.reason, self.address = seconds, reason, address


class NoAddress(Exception):
    """No address of a host was found: it is fetched all the same, so that this fails as any fetch of it does."""


class FetchResult(msgspec.Struct, kw_only=True):
    """The result of a fetch: an HTTP response, or a negative status and a reason.

    `started` is epoch seconds; `seconds` is the duration, None if nothing was sent. `notes` are Heritrix's annotations:

    - lenTrunc: the body was cut at `max_body` or `max_expansion`.
    - timeTrunc: the body was cut at `timeout`, or for `min_speed`.
    - headerTrunc: the fetch was ended because the header exceeded `max_header`.
    - midFetchAbort: the fetch was ended after the header, because of its contents.

    and five more:

    - connTrunc: the server closed the connection before the announced end of the body.
    - badHeader: the header violates HTTP/1.1, and was repaired.
    - badEncoding: the compressed data is damaged or incomplete.
    - notEncoded: the body is kept as sent, because it is not compressed although its Content-Encoding says so.
    - unknownEncoding: the body is kept as sent, because its Content-Encoding is not supported.

    With any of them, `reason` has the details.
    """

    status: int
    reason: str = ""
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    body: bytes = b""
    """The decompressed body."""
    raw: bytes = b""
    """The body as sent: compressed, but without chunks; the same object as `body` if it was not compressed."""
    raw_headers: Sequence[tuple[bytes, bytes]] = ()
    """Names and values of the response header as sent, in order."""
    version: str = "1.1"
    phrase: str = ""
    request_headers: Sequence[tuple[str, str]] = ()
    """The request header, with "-" instead of credentials and of values from environment variables."""
    address: str | None = None
    """The IP address of the server."""
    started: float = 0.0
    seconds: float | None = None
    notes: list[str] = msgspec.field(default_factory=list)
    stale: bool = False
    """Whether a connection that had been used before was closed before anything of the response came."""

    @property
    def mime(self) -> str:
        """The media type in lower case, without parameters; "" if the response has no valid one."""
        return self._content_type[0]

    @property
    def charset(self) -> str | None:
        """The charset of the Content-Type header; None if it has none."""
        return self._content_type[1]

    @property
    def _content_type(self) -> tuple[str, str | None]:
        """The media type and its charset: of several values the last that is valid, as in browsers.

        A charset also counts for the values behind it that repeat its type, and if no type is valid.
        https://fetch.spec.whatwg.org/#concept-header-extract-mime-type
        """
        every = getattr(self.headers, "getall", None)  # a multidict; a plain dict has one value per name
        sent = every("Content-Type", ()) if every is not None else [self.headers.get("Content-Type", "")]
        essence, charset = "", None
        for value in _VALUE.findall(",".join(sent)):
            found, named = _ESSENCE.match(value), _CHARSET.search(value)
            if found and found[1] != "*/*":
                if found[1].lower() != essence:
                    essence, charset = found[1].lower(), None
            elif essence:
                continue
            charset = named[1] if named else charset
        return essence, charset

    @property
    def location(self) -> str | None:
        """The target of a redirect, as sent; None for other statuses."""
        return self.headers.get("Location") if self.status in _REDIRECTS else None

    @property
    def outcome(self) -> Outcome:
        """SUCCESS for an HTTP response (404 too), RETRY for 429, 503 and failures that may pass, FAILURE for others."""
        if may_pass(self.status):
            return Outcome.RETRY
        return Outcome.SUCCESS if self.status > 0 else Outcome.FAILURE

    def digest(self) -> bytes:
        """Return the SHA-1 of the body as sent (20 bytes); b"" without a body."""
        return hashlib.sha1(self.raw, usedforsecurity=False).digest() if self.raw else b""

    @property
    def retry_after(self) -> float | None:
        """The Retry-After of a 429 or 503 in seconds, None if it asks for nothing; 0 if a stale connection was met."""
        if self.stale:
            return 0.0  # the delay of the host is enough: the next attempt gets a connection of its own
        if self.status not in backoff.OVERLOADED:
            return None
        return backoff.retry_after(self.headers.get("Retry-After", ""), self.started + (self.seconds or 0.0))


def cause_of(response: FetchResult) -> str:
    """Return the cause of a failed attempt: equal texts for equal causes, without hosts and sizes.

    crawl.log has the library's error message.
    """
    status = f"status {response.status}"
    if response.status not in _WITHOUT_RESPONSE:
        cut = next((why for note, why in _CUT.items() if note in response.notes), "")
        return f"{status}, {cut}" if cut else response.reason or status
    if response.reason.startswith(TLS):
        return f"{response.reason} ({response.status})"
    setting = f": {response.reason}" if "fetch." in response.reason and response.status != BLOCKED else ""
    return f"{meaning(response.status)} ({response.status}){setting}"
