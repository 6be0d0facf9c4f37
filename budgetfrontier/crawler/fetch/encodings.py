"""Content encodings (RFC 9110, section 8.4): bodies are decompressed as they arrive, within limits on their size.

Whatever is sent, a body takes at most twice `max_body` in memory, once as sent and once decompressed, plus the windows
of its decoders: 32 KiB for gzip and deflate, 16 MiB for br, 8 MiB for zstd (the most that RFC 9659 allows).
"""

from __future__ import annotations

import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import brotlicffi

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

ACCEPTED = "gzip, deflate, br, zstd"
"""The Accept-Encoding header that requests send."""

FOR_ARCHIVES = "gzip, deflate"
"""Those for a crawl that writes WARC files, which store bodies as received: all their readers can decode these."""

MOST_ENCODINGS = 3
"""The most encodings on top of each other that are decoded; a body with more is kept as sent."""

FREE = 1024**2
"""Bytes up to which the expansion is not limited: a small page of blanks is not a decompression bomb."""

_PIECE = 32 * 1024  # most bytes that a decoder returns at once
_SLICE = 16 * 1024  # bytes fed at once: decoders copy the input that they have not consumed
_WIDEST: dict[int, int] = {zstd.DecompressionParameter.window_log_max: 23}
_LOOKED_AT = 64
# https://mimesniff.spec.whatwg.org/#sniffing-a-mislabeled-binary-resource: a byte order mark indicates text.
_BINARY = re.compile(rb"(?!\xfe\xff|\xff\xfe).*?[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]", re.DOTALL)
_ERRORS = (zlib.error, brotlicffi.error, zstd.ZstdError)


class Body:
    """The body of one response: call `feed` with each chunk received, then `end`.

    At most `limit` bytes are kept, compressed or not (0: no limit); beyond 1 MiB, decompressed data is also limited to
    `max_expansion` times the bytes received. `received` counts the bytes received and kept. `notes` contains:

    - "lenTrunc": one of these limits cut the body.
    - "badEncoding": the compressed data is damaged or incomplete; the part that could be decompressed is kept.
    - "notEncoded": the body is plain text despite its Content-Encoding; kept as sent.
    - "unknownEncoding": the Content-Encoding is not supported; the body is kept as sent.

    `problem` gives the reason in words.
    """

    def __init__(self, encoding: str, *, limit: int, max_expansion: int, limit_name: str = "fetch.max_body") -> None:
        self._encoding, self._limit, self._max_expansion = encoding, limit, max_expansion
        self._too_long = f"longer than {limit_name} ({limit} bytes)"
        self._decoders = decoders(encoding)
        self._chunks: list[bytes] = []
        self._decoded: list[bytes] = []
        self.received = 0
        self._over = False  # whether decompression has ended, so that further data is only kept as sent
        self.notes: list[str] = [] if self._decoders is not None else ["unknownEncoding"]
        self.problem = ""

    def feed(self, chunk: bytes) -> bool:
        """Add received bytes; return whether more are wanted."""
        room = self._limit - self.received if self._limit else len(chunk)
        full = len(chunk) > room
        if full:
            chunk = chunk[:room]
        self._chunks.append(chunk)
        start = self.received
        self.received += len(chunk)
        if self._decoders and not self._over:
            full = not self._decompress(chunk, start) or full
        if full and "lenTrunc" not in self.notes:
            self.notes.append("lenTrunc")
            self.problem = self.problem or self._too_long
        return not full

    def end(self, *, complete: bool) -> tuple[bytes, bytes]:
        """Return the body as sent and decompressed; the same object twice if it was not compressed.

        `complete` means that the response did not end prematurely, so that its compressed data should be complete.
        """
        raw = b"".join(self._chunks)
        if not self._decoders:
            return raw, raw
        if raw and complete and not (self._over or self.notes) and not all(decoder.done for decoder in self._decoders):
            self._damage("the compressed data ends too early")
        if "badEncoding" in self.notes and not _BINARY.match(raw[:_LOOKED_AT]):
            self.notes[self.notes.index("badEncoding")] = "notEncoded"
            self.problem = f"Content-Encoding {self._encoding!r}: plain text"[:200]
            return raw, raw
        return raw, b"".join(self._decoded)

    def _decompress(self, chunk: bytes, start: int) -> bool:
        for offset in range(0, len(chunk), _SLICE):
            piece = chunk[offset : offset + _SLICE]
            try:
                self._decode(0, piece, start + offset + len(piece))
            except _Full as reason:
                self.problem = str(reason)
                return False
            except _ERRORS as error:
                if not self._decode_again(start + offset):
                    self._damage(str(error))
                self._over = True  # further data is added to the body as sent only
                return True
        return True

    def _decode(self, depth: int, data: bytes, received: int) -> None:
        """Pass data through the decoder at `depth` and those after it. Raises _Full if one exceeds the size limits.

        `received` is the number of bytes of the body received so far, which bounds the expansion.
        """
        if depth == len(self._decoders or ()):
            self._decoded.append(data)
            return
        assert self._decoders is not None
        decoder = self._decoders[depth]
        expanded = max(FREE, self._max_expansion * received)
        most = min(self._limit, expanded) if self._limit else expanded
        for piece in decoder.pieces(data):
            decoder.produced += len(piece)
            if decoder.produced > most:
                self._decode(depth + 1, piece[: len(piece) - (decoder.produced - most)], received)
                if most == self._limit:
                    raise _Full(self._too_long)
                raise _Full(f"grows to more than fetch.max_expansion ({self._max_expansion}) times its size")
            self._decode(depth + 1, piece, received)

    def _damage(self, problem: str) -> None:
        self.notes.append("badEncoding")
        self.problem = f"Content-Encoding {self._encoding!r}: {problem}"[:200]

    def _decode_again(self, good: int) -> bool:
        """Decode the body again, byte by byte from offset `good`: a failing decoder drops the output of its last slice.

        Return whether the damage is after the end of the compressed data, where it does not matter.
        """
        raw = b"".join(self._chunks)
        self._decoders, self._decoded = decoders(self._encoding), []
        try:
            for start in range(0, good, _SLICE):
                self._decode(0, raw[start : min(start + _SLICE, good)], good)
            for start in range(good, len(raw)):
                self._decode(0, raw[start : start + 1], good)
        except (_Full, *_ERRORS):
            pass
        return all(decoder.done for decoder in self._decoders or ())


class _Full(Exception):
    """A decoder has produced as much as the limits allow."""


class _ContentDecoder(Protocol):
    """A decoder for one encoding."""

    produced: int
    """Bytes produced so far."""
    done: bool
    """Whether the compressed data may end here."""

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield the decompressed data in pieces of limited size."""


def decoders(encoding: str) -> list[_ContentDecoder] | None:
    """Return the decoders for a Content-Encoding, the outermost first; None if one is unknown or there are too many."""
    names = [name for part in encoding.lower().split(",") if (name := part.strip()) not in ("", "identity")]
    if len(names) > MOST_ENCODINGS or not all(name in _DECODERS for name in names):
        return None
    return [_DECODERS[name]() for name in reversed(names)]


def combined(encoding: str, transfer: Iterable[str]) -> str:
    """Return a Content-Encoding extended by the codings of a Transfer-Encoding, except "chunked"."""
    codings = (coding.strip() for line in transfer for coding in line.split(","))
    return ", ".join(name for name in (encoding, *codings) if name.lower() not in ("", "chunked", "identity"))


class _Gzip:
    """A decoder for gzip members in sequence (RFC 1952, section 2.2); ignores trailing garbage, as browsers do."""

    def __init__(self) -> None:
        self.produced, self.done = 0, False
        self._member = zlib.decompressobj(31)
        self._over = False

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield the content of all members; data after the last one is ignored."""
        piece = b""
        while (data or len(piece) == _PIECE) and not self._over:
            if self.done:
                self._over = not data.startswith(b"\x1f")
                if self._over:
                    return
                self._member, self.done = zlib.decompressobj(31), False
            piece = self._member.decompress(data, _PIECE)
            if piece:
                yield piece
            self.done = self._member.eof
            data = self._member.unused_data if self.done else self._member.unconsumed_tail
            if self.done:
                piece = b""


class _Deflate:
    """A decoder for "deflate": the zlib format, as the RFC says, or raw deflate, which some servers send."""

    def __init__(self) -> None:
        self.produced, self.done = 0, False
        self._start: bytes | None = b""

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield the decompressed data, once the first two bytes have shown which of the two formats it is."""
        if self._start is not None:
            data = self._start + data
            if len(data) < 2:
                self._start = data
                return
            self._start = None
            zlib_header = data[0] & 0x0F == 8 and int.from_bytes(data[:2]) % 31 == 0  # RFC 1950, section 2.2
            self._inflate = zlib.decompressobj(15 if zlib_header else -15)
        piece = b""
        while (data or len(piece) == _PIECE) and not self.done:
            piece = self._inflate.decompress(data, _PIECE)
            if piece:
                yield piece
            data, self.done = self._inflate.unconsumed_tail, self._inflate.eof


class _Brotli:
    """A decoder for Brotli (RFC 7932)."""

    def __init__(self) -> None:
        self.produced, self.done = 0, False
        self._decoder = brotlicffi.Decompressor()

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield the decompressed data; data after its end is ignored."""
        more = bool(data)
        while more and not self.done:
            piece = self._decoder.process(data, output_buffer_limit=_PIECE)
            if piece:
                yield piece
            data, self.done = b"", self._decoder.is_finished()
            more = len(piece) >= _PIECE or not self._decoder.can_accept_more_data()


class _Zstd:
    """A decoder for Zstandard frames in sequence (RFC 8878, section 3)."""

    def __init__(self) -> None:
        self.produced, self.done = 0, False
        self._frame = zstd.ZstdDecompressor(options=_WIDEST)
        self._over = False

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield the content of all frames; data after the last one is ignored."""
        while not self._over and (data or not self._frame.needs_input):
            if self.done:
                self._over = data[1:4] not in (b"\xb5\x2f\xfd", b"\x2a\x4d\x18")  # neither a frame nor a skippable one
                if self._over:
                    return
                self._frame, self.done = zstd.ZstdDecompressor(options=_WIDEST), False
            piece = self._frame.decompress(data, _PIECE)
            if piece:
                yield piece
            self.done = self._frame.eof
            data = self._frame.unused_data if self.done else b""
            if self.done and not data:
                return


_DECODERS: dict[str, Callable[[], _ContentDecoder]] = {
    "gzip": _Gzip,
    "x-gzip": _Gzip,
    "deflate": _Deflate,
    "br": _Brotli,
    "zstd": _Zstd,
}
