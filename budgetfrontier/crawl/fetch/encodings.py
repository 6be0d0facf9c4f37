"""Content encodings (RFC 9110, section 8.4): a body is decompressed while it comes in, and bounded all the while.

Whatever is sent, a body takes no more memory than `max_body` twice, once as sent and once decompressed, besides the
windows of its decoders: 32 KiB for gzip and deflate, 16 MiB for br, 8 MiB for zstd (the most that RFC 9659 allows).
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
"""What a request says it understands."""

MOST_LAYERS = 3
"""Encodings on top of each other; more are not undone."""

FREE = 1024**2
"""A body may grow to this size whatever its expansion: a small page of blanks is no bomb."""

_PIECE = 32 * 1024  # what is decompressed in one go
_SLICE = 16 * 1024  # what is fed in one go: decoders copy what they did not get to
_WIDEST: dict[int, int] = {zstd.DecompressionParameter.window_log_max: 23}
_LOOKED_AT = 64
# https://mimesniff.spec.whatwg.org/#sniffing-a-mislabeled-binary-resource: a byte order mark says that it is text.
_BINARY = re.compile(rb"(?!\xfe\xff|\xff\xfe).*?[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]", re.DOTALL)
_ERRORS = (zlib.error, brotlicffi.error, zstd.ZstdError)


class Body:
    """The body of one answer: feed it what comes in, then `end` it.

    At most `limit` bytes are kept, compressed or not (0 for no limit); beyond 1 MiB, decompressed bytes may also be no
    more than `max_expansion` times those that came in. `notes` gets "lenTrunc" where that cut the body, "badEncoding"
    where its compressed data is damaged or ends too early: what could be read is kept; "notEncoded" where it is text
    that is not compressed at all, and "unknownEncoding" where nobody knows: the body is kept as it is. `problem` says
    why, in words. `received` counts what came in and was kept.
    """

    def __init__(self, encoding: str, *, limit: int, max_expansion: int) -> None:
        self._encoding, self._limit, self._max_expansion = encoding, limit, max_expansion
        self._layers = layers(encoding)
        self._chunks: list[bytes] = []
        self._decoded: list[bytes] = []
        self.received = 0
        self._over = False  # whether the rest is not decompressed
        self.notes: list[str] = [] if self._layers is not None else ["unknownEncoding"]
        self.problem = ""

    def feed(self, chunk: bytes) -> bool:
        """Take in what was received; return whether more is wanted."""
        room = self._limit - self.received if self._limit else len(chunk)
        full = len(chunk) > room
        if full:
            chunk = chunk[:room]
        self._chunks.append(chunk)
        start = self.received
        self.received += len(chunk)
        if self._layers and not self._over:
            full = not self._decompress(chunk, start) or full
        if full and "lenTrunc" not in self.notes:
            self.notes.append("lenTrunc")
            self.problem = self.problem or f"longer than fetch.max_body ({self._limit} bytes)"
        return not full

    def end(self, *, complete: bool) -> tuple[bytes, bytes]:
        """Return the body as it was sent, and decompressed; the same object twice if it was not compressed.

        `complete`: the answer did not end too early, so that its compressed data ought to be whole.
        """
        raw = b"".join(self._chunks)
        if not self._layers:
            return raw, raw
        if raw and complete and not (self._over or self.notes) and not all(layer.done for layer in self._layers):
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
                self._pass_on(0, piece, start + offset + len(piece))
            except _Full as reason:
                self.problem = str(reason)
                return False
            except _ERRORS as error:
                if not self._salvage(start + offset):
                    self._damage(str(error))
                self._over = True  # what else comes belongs to the body as it was sent only
                return True
        return True

    def _pass_on(self, depth: int, data: bytes, received: int) -> None:
        """Give what one layer made to the next; none of them may make too much, nor may the last."""
        if depth == len(self._layers or ()):
            self._decoded.append(data)
            return
        assert self._layers is not None
        layer = self._layers[depth]
        expanded = max(FREE, self._max_expansion * received)
        most = min(self._limit, expanded) if self._limit else expanded
        for piece in layer.pieces(data):
            layer.made += len(piece)
            if layer.made > most:
                self._pass_on(depth + 1, piece[: len(piece) - (layer.made - most)], received)
                if most == self._limit:
                    raise _Full(f"longer than fetch.max_body ({self._limit} bytes)")
                raise _Full(f"grows to more than fetch.max_expansion ({self._max_expansion}) times its size")
            self._pass_on(depth + 1, piece, received)

    def _damage(self, problem: str) -> None:
        self.notes.append("badEncoding")
        self.problem = f"Content-Encoding {self._encoding!r}: {problem}"[:200]

    def _salvage(self, good: int) -> bool:
        """Read once more, bit by bit from `good` on: a decoder that fails keeps back what it had read of a slice.

        Return whether the damage came after the end of the data, where it does not matter.
        """
        raw = b"".join(self._chunks)
        self._layers, self._decoded = layers(self._encoding), []
        try:
            for start in range(0, good, _SLICE):
                self._pass_on(0, raw[start : min(start + _SLICE, good)], good)
            for start in range(good, len(raw)):
                self._pass_on(0, raw[start : start + 1], good)
        except (_Full, *_ERRORS):
            pass
        return all(layer.done for layer in self._layers or ())


class _Full(Exception):
    """A layer made as much as it may."""


class _Layer(Protocol):
    """Undoes one encoding."""

    made: int
    """Bytes decompressed so far."""
    done: bool
    """Whether the data might end here."""

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Decompress what was received, bit by bit."""


def layers(encoding: str) -> list[_Layer] | None:
    """Return what undoes a Content-Encoding, first to undo first; None if a part is unknown or there are too many."""
    names = [name for part in encoding.lower().split(",") if (name := part.strip()) not in ("", "identity")]
    if len(names) > MOST_LAYERS or not all(name in _MAKERS for name in names):
        return None
    return [_MAKERS[name]() for name in reversed(names)]


def both(encoding: str, transfer: Iterable[str]) -> str:
    """Return a Content-Encoding with what a Transfer-Encoding puts on top of it, besides chunks."""
    codings = (coding.strip() for line in transfer for coding in line.split(","))
    return ", ".join(name for name in (encoding, *codings) if name.lower() not in ("", "chunked", "identity"))


class _Gzip:
    """Members one after the other (RFC 1952, section 2.2); what follows them and is none is ignored, as browsers do."""

    def __init__(self) -> None:
        self.made, self.done = 0, False
        self._member = zlib.decompressobj(31)
        self._over = False

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Decompress gzip, member after member; what follows the last is left out."""
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
    """zlib's format, as the RFC says, or bare deflate, as some servers send."""

    def __init__(self) -> None:
        self.made, self.done = 0, False
        self._start: bytes | None = b""

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Decompress, once two bytes have told which of the two it is."""
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
    def __init__(self) -> None:
        self.made, self.done = 0, False
        self._decoder = brotlicffi.Decompressor()

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Decompress Brotli; what follows its end is left out."""
        more = bool(data)
        while more and not self.done:
            piece = self._decoder.process(data, output_buffer_limit=_PIECE)
            if piece:
                yield piece
            data, self.done = b"", self._decoder.is_finished()
            more = len(piece) >= _PIECE or not self._decoder.can_accept_more_data()


class _Zstd:
    """Frames one after the other (RFC 8878, section 3)."""

    def __init__(self) -> None:
        self.made, self.done = 0, False
        self._frame = zstd.ZstdDecompressor(options=_WIDEST)
        self._over = False

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Decompress Zstandard, frame after frame; what follows the last is left out."""
        while not self._over and (data or not self._frame.needs_input):
            if self.done:
                self._over = data[1:4] not in (b"\xb5\x2f\xfd", b"\x2a\x4d\x18")  # a frame, or one to skip
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


_MAKERS: dict[str, Callable[[], _Layer]] = {
    "gzip": _Gzip,
    "x-gzip": _Gzip,
    "deflate": _Deflate,
    "br": _Brotli,
    "zstd": _Zstd,
}
