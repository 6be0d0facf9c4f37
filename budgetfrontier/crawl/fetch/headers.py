"""Headers of answers that break the rules of HTTP/1.1, and that browsers and curl read all the same.

To read them otherwise than the next reader would is what request smuggling rests on. A crawler has none behind it, and
does not use such a connection again.

https://www.rfc-editor.org/rfc/rfc9112, https://fetch.spec.whatwg.org/#content-length-header
"""

from __future__ import annotations

import re

_STATUS = re.compile(rb"http/(\d{1,3})(?:\.(\d{1,3}))?[ \t]+(\d{3})(?:[ \t]+(.*))?", re.IGNORECASE)
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, section 5.6.2
_NUMBER = re.compile(rb"\+?(\d+)")
_REFUSED = re.compile(rb"[\r\0]")
_LONGEST = 1 << 62
_UNREAD = frozenset({b"sec-websocket-key1"})  # aiohttp takes it for a websocket's

Field = tuple[bytes, bytes]


def end(head: bytes | bytearray, start: int = 0) -> int:
    """Return where a header ends, behind its blank line, if that ends after `start`; 0 if it does not end yet."""
    start = max(start - 3, 0)
    ends = [place + len(blank) for blank in (b"\n\r\n", b"\n\n") if (place := head.find(blank, start)) >= 0]
    return min(ends, default=0)


def fields(head: bytes) -> list[Field] | None:
    """Return names and values as they were sent; None where a line is neither a field nor goes on with one."""
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


def mended(head: bytes) -> bytes | None:
    """Return a header as HTTP/1.1 has it; None if nobody can tell what it says.

    Fields with names that cannot be one are left out. Of a body that comes in chunks, lengths say nothing; one length
    may be said more than once, and be followed by what is no number; of one beyond all measure nothing is known.
    Lengths that contradict each other, NUL and a CR by itself are not mended.
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
    kept = [field for field in named if field[0].lower() not in (b"content-length", b"transfer-encoding")]
    lines = [b"HTTP/%b %b %b" % (version, code, phrase or b"")]
    lines += [b"%b: %b" % field for field in kept + framing]
    return b"\r\n".join((*lines, b"", b""))


def _framing(named: list[Field]) -> list[Field] | None:
    """Return the one field that says where the body ends, or none; None where they contradict each other."""
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
