"""Repair of response headers that violate HTTP/1.1 but that browsers and curl accept.

Lenient parsing enables request smuggling where a second HTTP implementation reads the same bytes differently. There is
none behind a crawler, and the connection is not used again after such a header.

https://www.rfc-editor.org/rfc/rfc9112, https://fetch.spec.whatwg.org/#content-length-header
"""

from __future__ import annotations

import re

_STATUS = re.compile(rb"http/(\d{1,3})(?:\.(\d{1,3}))?[ \t]+(\d{3})(?:[ \t]+(.*))?", re.IGNORECASE)
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, section 5.6.2
_NUMBER = re.compile(rb"\+?(\d+)")
_REFUSED = re.compile(rb"[\r\0]")
_LONGEST = 1 << 62
_UNREAD = frozenset({b"sec-websocket-key1"})  # aiohttp takes it for a part of a WebSocket handshake

Field = tuple[bytes, bytes]


def end(head: bytes | bytearray, start: int = 0) -> int:
    """Return the offset after the blank line that ends a header, searching from `start`; 0 if there is none yet."""
    start = max(start - 3, 0)
    found = head.find(b"\n\r\n", start)
    earlier = head.find(b"\n\n", start, found if found >= 0 else len(head))  # not in the body that follows
    if earlier >= 0:
        return earlier + 2
    return found + 3 if found >= 0 else 0


def fields(head: bytes) -> list[Field] | None:
    """Return the names and values of a raw header; None if a line is neither a field nor the continuation of one."""
    found: list[Field] = []
    for line in _lines(head)[1:]:
        if line[:1] in (b" ", b"\t"):
            if found:
                name, value = found[-1]
                found[-1] = name, value + b" " + line.strip()
            continue
        name, colon, value = line.partition(b":")
        if not colon:
            return None
        found.append((name, value.strip(b" \t")))
    return found


def repaired(head: bytes) -> bytes | None:
    """Return a header in the syntax of HTTP/1.1; None if it is ambiguous and so cannot be repaired.

    Fields with invalid names are dropped. Content-Length is dropped if the body is chunked or the length is 2**62 or
    more; it may be repeated, and be followed by other text. Contradictory lengths, NUL, and a CR without
    LF cannot be repaired.
    """
    status = _STATUS.fullmatch((_lines(head) or [b""])[0])
    found = fields(head)
    if status is None or found is None or _REFUSED.search(head.replace(b"\r\n", b"")):
        return None
    named = [(name.rstrip(b" \t"), value) for name, value in found]
    named = [(name, value) for name, value in named if _TOKEN.fullmatch(name) and name.lower() not in _UNREAD]
    framing = _framing(named)
    if framing is None:
        return None
    major, minor, code, phrase = status.groups()
    version = b"1.0" if (major, minor) == (b"1", b"0") else b"1.1"
    others = [field for field in named if field[0].lower() not in (b"content-length", b"transfer-encoding")]
    lines = [b"HTTP/%b %b %b" % (version, code, phrase or b"")]
    lines += [b"%b: %b" % field for field in others + framing]
    return b"\r\n".join((*lines, b"", b""))


def _framing(named: list[Field]) -> list[Field] | None:
    """Return the field that determines the length of the body, if any; None if there are contradictory ones."""
    codings = [coding for coding in _values(named, b"transfer-encoding") if coding.lower() != b"identity"]
    if codings:
        return [(b"Transfer-Encoding", b", ".join(codings))]
    numbers = [_NUMBER.match(value) for value in _values(named, b"content-length")]
    lengths = {int(number[1][:20]) if number else -1 for number in numbers}
    if -1 in lengths or len(lengths) > 1:
        return None
    return [(b"Content-Length", b"%d" % length) for length in lengths if length < _LONGEST]


def _values(named: list[Field], wanted: bytes) -> list[bytes]:
    parts = (part.strip() for name, value in named if name.lower() == wanted for part in value.split(b","))
    return [part for part in parts if part]


def _lines(head: bytes) -> list[bytes]:
    return head.strip(b"\r\n").replace(b"\r\n", b"\n").split(b"\n")
