"""Answers of hostile servers over raw sockets: each ends soon, with the right status, the reason, and little memory."""

from __future__ import annotations

import asyncio
import gzip
import sys
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import brotlicffi
import pytest

from tests.support import PATIENCE

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

from budgetfrontier.core.model import CrawlUri, Outcome
from budgetfrontier.crawler.fetch.fetcher import Fetcher
from budgetfrontier.crawler.fetch.response import BROKEN, CONNECT_FAILED, CONNECTION_LOST, TIMED_OUT, FetchResult
from budgetfrontier.settings.schema import FetchSettings
from tests.crawler.raw import RawServer, reset, silence

OK = b"HTTP/1.1 200 OK\r\n"
MIB = 1024**2


def answer(body: bytes, *headers: str, length: int | None = None) -> bytes:
    lines = [*headers, f"Content-Length: {len(body) if length is None else length}", "", ""]
    return OK + "\r\n".join(lines).encode() + body


def serve(**answers: Any) -> RawServer:
    return RawServer({"/" + name: value for name, value in answers.items()})


def one(server: RawServer, path: str, **settings: Any) -> FetchResult:
    (only,) = server.fetch(path, **settings)
    assert only.reason or only.status == 200
    return only


@pytest.fixture
def peak() -> Iterator[Callable[[], float]]:
    """Tells the most memory that Python objects took since the test began, in MiB."""
    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[1] / MIB
    tracemalloc.stop()


# Headers


@pytest.mark.parametrize(
    ("start", "again"),
    [
        (OK, b"X-Endless: " + b"x" * 100 + b"\r\n"),
        (OK + b"X-Endless: ", b"x" * 4096),
        (OK, b"x" * 4096),
        (OK, b"x: y\r\n"),
        (OK + b"X-Folded: a\r\n", b" b\r\n" * 1000),
        (b"HTTP/1.1 200 ", b"O" * 4096),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
        (b"", b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n"),
    ],
    ids=["fields", "one-value", "one-name", "small-fields", "folded", "phrase", "interim-100", "interim-103"],
)
def test_a_header_without_end(start: bytes, again: bytes, peak: Callable[[], float]) -> None:
    with serve() as server:
        server.endless("/", start, again)
        got = one(server, "/", max_header=64 * 1024)
        assert server.gone.wait(PATIENCE)
    assert (got.status, got.outcome, got.notes) == (BROKEN, Outcome.FAILURE, ["headerTrunc"])
    assert "fetch.max_header" in got.reason
    assert server.sent["/"] < 16 * MIB  # what the kernel's buffers hold
    assert peak() < 16


def test_a_header_that_is_just_small_enough_and_one_that_is_not() -> None:
    body = b"y" * 200_000  # comes along with the header
    with serve(small=answer(body, "X: " + "x" * 3900), large=answer(body, "X: " + "x" * 4100)) as server:
        small, large = server.fetch("/small", "/large", max_header=4096)
    assert (small.status, len(small.body)) == (200, 200_000)
    assert (large.status, large.body) == (BROKEN, b"")


def test_a_header_of_a_byte_now_and_then() -> None:
    with serve() as server:
        server.endless("/", OK, b"x", pace=0.5)
        got = server.fetch_by_its_clock("/", first_byte_timeout=20.0)
    assert (got.status, got.outcome) == (TIMED_OUT, Outcome.RETRY)
    assert "fetch.first_byte_timeout" in got.reason


def test_a_flood_of_cookies() -> None:
    cookies = [f"Set-Cookie: c{number}={'v' * 20}; Path=/" for number in range(10_000)]
    with serve(a=answer(b"page", *cookies), b=answer(b"next")) as server:
        refused = one(server, "/a")
        kept, following = server.fetch("/a", "/b", max_header=MIB)
    assert (refused.status, refused.notes) == (BROKEN, ["headerTrunc"])
    assert (kept.status, kept.body, len(kept.raw_headers)) == (200, b"page", 10_001)
    assert following.status == 200 and b"cookie" not in server.requests[-1].lower()


@pytest.mark.parametrize(
    "bad",
    [
        b"\x16\x03\x01\x00garbage\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\r\n\r\n\r\n",
        b"HTTP/1.1 two hundred\r\n\r\n",
        b"HTTP/1.1 000 none\r\nContent-Length: 0\r\n\r\n",
        OK + b"X: a\x00b\r\n\r\n",
        OK + b"X: a\rSet-Cookie: b\r\n\r\n",
        OK + b"no colon\r\n\r\n",
        OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        OK + b"Content-Length: -1\r\n\r\nab",
    ],
)
def test_what_is_not_http(bad: bytes) -> None:
    with serve(bad=bad) as server:
        got = one(server, "/bad")
    assert got.status in (BROKEN, CONNECTION_LOST)
    assert got.reason.isprintable()
    assert got.body == b""


def test_control_characters_and_no_charset_in_a_header() -> None:
    header = OK + b"X: a\x1b[31m\r\nLocation: /caf\xe9\r\nContent-Type: text/\xc3\xa4\r\nContent-Length: 0\r\n\r\n"
    with serve(odd=header.replace(b"OK", b"\xe9t\xe9")) as server:
        got = one(server, "/odd")
    assert (got.headers["Location"], got.headers["content-type"], got.phrase) == ("/caf\xe9", "text/ä", "\xe9t\xe9")
    assert (b"Location", b"/caf\xe9") in got.raw_headers


def test_a_host_that_accepts_and_never_answers() -> None:
    with serve(silent=silence) as server:
        got = one(server, "/silent", first_byte_timeout=0.2)
    assert (got.status, got.outcome) == (TIMED_OUT, Outcome.RETRY)


def test_a_tls_handshake_that_never_ends() -> None:
    with serve() as server:  # it waits for a request, and a handshake is none
        got = one(server, "/", scheme="https", connect_timeout=0.2)
    assert (got.status, got.outcome) == (CONNECT_FAILED, Outcome.RETRY)


# Bodies


def test_a_byte_now_and_then() -> None:
    with serve() as server:
        server.endless("/", OK + b"\r\n", b"x", pace=0.125)
        slow = server.fetch_by_its_clock("/", min_speed=1000)
        fast = server.fetch_by_its_clock("/", min_speed=5, timeout=30.0)
        never = server.fetch_by_its_clock("/", min_speed=0, timeout=6.0)
    assert (slow.status, slow.notes, slow.outcome) == (200, ["timeTrunc"], Outcome.SUCCESS)
    assert "fetch.min_speed" in slow.reason and slow.body.strip(b"x") == b"" and slow.body
    assert "fetch.timeout" in fast.reason and len(fast.body) > len(slow.body)
    assert "fetch.timeout" in never.reason


def test_a_body_without_end(peak: Callable[[], float]) -> None:
    with serve() as server:
        server.endless("/", OK + b"\r\n", b"x" * 65536)
        got = one(server, "/", max_body=2 * MIB)
        assert server.gone.wait(PATIENCE)
    assert (got.status, got.notes, len(got.body)) == (200, ["lenTrunc"], 2 * MIB)
    assert got.body is got.raw
    assert peak() < 16


def test_chunks_without_end(peak: Callable[[], float]) -> None:
    with serve() as server:
        server.endless("/", OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 4096)
        got = one(server, "/", max_body=100_000)
        assert server.gone.wait(PATIENCE)
    assert (got.status, got.notes, len(got.body)) == (200, ["lenTrunc"], 100_000)
    assert peak() < 16


def test_a_length_that_is_too_long() -> None:
    with serve(long=answer(b"page", length=100), nothing=answer(b"", length=100)) as server:
        long, nothing = server.fetch("/long", "/nothing")
    assert (long.status, long.body, long.notes, long.outcome) == (200, b"page", ["connTrunc"], Outcome.SUCCESS)
    assert long.reason
    assert (nothing.status, nothing.outcome) == (CONNECTION_LOST, Outcome.RETRY)


@pytest.mark.parametrize("parts", [1, 2], ids=["together", "apart"])
def test_a_length_that_is_too_short(parts: int) -> None:
    short, empty = answer(b"pages", length=4), answer(b"page", length=0)
    split = (lambda whole: (whole[:-3], whole[-3:])) if parts == 2 else (lambda whole: whole)
    with serve(short=split(short), empty=split(empty), next=answer(b"next")) as server:
        got, none, following = server.fetch("/short", "/empty", "/next")
    assert (got.status, got.body, got.notes) == (200, b"page", [])
    assert (none.status, none.body) == (200, b"")
    assert following.body == b"next"


@pytest.mark.parametrize("apart", [False, True], ids=["together", "apart"])
@pytest.mark.parametrize(
    "garbage", [b"zzz\r\n", b"fffffffffffffffffffff\r\nabc\r\n", b"-1\r\nabc\r\n", b"3\r\nabcdef\r\n", b"\x00" * 100]
)
def test_garbage_between_chunks(garbage: bytes, apart: bool) -> None:
    head = OK + b"Transfer-Encoding: chunked\r\n\r\n4\r\npage\r\n"
    with serve(bad=(head, garbage) if apart else head + garbage) as server:
        got = one(server, "/bad")
    assert (got.status, got.notes, got.outcome) == (200, ["connTrunc"], Outcome.SUCCESS)
    assert got.body.startswith(b"page")


def test_chunks_that_are_garbage_from_the_start() -> None:
    with serve(bad=OK + b"Transfer-Encoding: chunked\r\n\r\nzzz\r\n") as server:
        got = one(server, "/bad")
    assert (got.status, got.outcome, got.body) == (BROKEN, Outcome.FAILURE, b"")


def test_chunks_that_just_stop() -> None:
    with serve(cut=OK + b"Transfer-Encoding: chunked\r\n\r\n4\r\npage\r\n") as server:
        got = one(server, "/cut")
    assert (got.status, got.body, got.notes) == (200, b"page", ["connTrunc"])


def test_a_reset_in_the_middle() -> None:
    with serve(reset=reset) as server:
        got = one(server, "/reset")
    assert (got.status, got.outcome) == (CONNECTION_LOST, Outcome.RETRY)
    assert got.body in (b"half", b"")  # a reset discards what was not read yet


CHUNK = OK + b"Transfer-Encoding: chunked\r\n\r\n4\r\npage\r\n"


@pytest.mark.parametrize(
    ("start", "again"),
    [
        (CHUNK + b"0\r\n", b"X-Trailer: x\r\n" * 1000),
        (CHUNK + b"0\r\nX-Trailer: ", b"x" * 4096),
        (CHUNK + b"4;extension=", b"x" * 4096),
        (CHUNK, b"0" * 4096),
    ],
    ids=["trailers", "one-trailer", "extension", "zeros"],
)
def test_what_is_no_body_without_end(start: bytes, again: bytes, peak: Callable[[], float]) -> None:
    with serve() as server:
        server.endless("/", start, again)
        got = one(server, "/")
        assert server.gone.wait(PATIENCE)
    assert (got.status, got.body, got.notes) == (200, b"page", ["connTrunc"])
    assert peak() < 16


def test_answers_that_nobody_asked_for(peak: Callable[[], float]) -> None:
    with serve() as server:
        server.endless("/", answer(b"page"), b"HTTP/1.1 204 No Content\r\n\r\n" * 1000)

        async def run() -> bool:
            async with Fetcher(FetchSettings(resolve={"*": server.address})) as session:
                got = await session.get(CrawlUri("http://www.example.test/"))
                assert (got.status, got.body) == (200, b"page")
                return await asyncio.to_thread(server.gone.wait, PATIENCE)  # while the connection is idle

        assert asyncio.run(run())
    assert peak() < 64


# Compressed bodies


def zeros() -> bytes:
    """A MiB of zeros as a block of a deflate stream that may be repeated for ever."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    return deflate.compress(bytes(MIB)) + deflate.flush(zlib.Z_FULL_FLUSH)


def test_ten_gigabytes_of_zeros(peak: Callable[[], float]) -> None:
    with serve() as server:
        gzip_header = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
        server.endless("/", OK + b"Content-Encoding: gzip\r\n\r\n" + gzip_header, zeros())
        plain = one(server, "/", max_expansion=100_000)
        assert server.gone.wait(PATIENCE)
        early = one(server, "/", max_expansion=100, max_body=0)
    assert (plain.status, plain.notes, len(plain.body)) == (200, ["lenTrunc"], 10 * MIB)
    assert len(plain.raw) < MIB and "fetch.max_body" in plain.reason
    assert (early.status, early.notes) == (200, ["lenTrunc"])
    assert MIB <= len(early.body) <= 100 * len(early.raw) + MIB and "fetch.max_expansion" in early.reason
    assert peak() < 64


BOMB = bytes(100 * MIB)


@pytest.mark.parametrize(
    ("encoding", "bomb"),
    [
        ("gzip", lambda: gzip.compress(BOMB, 1)),
        ("gzip, gzip", lambda: gzip.compress(gzip.compress(BOMB, 1))),
        ("gzip, gzip, gzip", lambda: gzip.compress(gzip.compress(gzip.compress(BOMB, 1)))),
        ("deflate", lambda: zlib.compress(BOMB, 1)),
        ("br", lambda: brotlicffi.compress(BOMB, quality=1)),
        ("zstd", lambda: zstd.compress(BOMB)),
        ("br, zstd", lambda: zstd.compress(brotlicffi.compress(BOMB, quality=1))),
    ],
    ids=lambda value: value.replace(", ", "-") if isinstance(value, str) else "",
)
def test_bombs(encoding: str, bomb: Callable[[], bytes], peak: Callable[[], float]) -> None:
    sent = bomb()
    tracemalloc.reset_peak()
    with serve(bomb=answer(sent, f"Content-Encoding: {encoding}")) as server:
        got = one(server, "/bomb", max_body=4 * MIB)
    assert (got.status, got.notes, got.outcome) == (200, ["lenTrunc"], Outcome.SUCCESS)
    assert 0 < len(got.body) <= 4 * MIB and got.body.strip(b"\0") == b""
    assert got.raw == sent[: len(got.raw)]
    assert peak() < 32


def test_members_with_nothing_in_them() -> None:
    nothing = gzip.compress(b"") * 50_000  # a MiB that takes a new decoder every 20 bytes
    with serve(empty=answer(gzip.compress(nothing), "Content-Encoding: gzip, gzip")) as server:
        got = one(server, "/empty")
    assert (got.status, got.body) == (200, b"")
