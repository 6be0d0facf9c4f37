"""Decompression: what is whole comes out whole however it is cut up, what is damaged as far as it can be read."""

from __future__ import annotations

import gzip
import os
import random
import sys
import zlib
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import brotlicffi
import pytest
from hypothesis import given
from hypothesis import strategies as st

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

from budgetfrontier.crawler.fetch.encodings import ACCEPTED, FREE, Body, combined, decoders

PAGE = b"".join(b'<a href="/page/%d">%d</a>\n' % (number, number * number) for number in range(5000))


def raw_deflate(data: bytes) -> bytes:
    deflate = zlib.compressobj(wbits=-15)
    return deflate.compress(data) + deflate.flush()


ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "Deflate ": raw_deflate,
    "br": partial(brotlicffi.compress, quality=5),
    "zstd": zstd.compress,
    "gzip, gzip": lambda data: gzip.compress(gzip.compress(data)),
    "deflate, BR ,identity": lambda data: brotlicffi.compress(zlib.compress(data), quality=5),
    "br,zstd,gzip": lambda data: gzip.compress(zstd.compress(brotlicffi.compress(data, quality=5))),
}


class Got(NamedTuple):
    raw: bytes
    body: bytes
    notes: list[str]
    problem: str


def read(encoding: str, *chunks: bytes, limit: int = 0, max_expansion: int = 200, complete: bool = True) -> Got:
    body = Body(encoding, limit=limit, max_expansion=max_expansion)
    for chunk in chunks:
        if not body.feed(chunk):
            break
    return Got(*body.end(complete=complete), body.notes, body.problem)


@pytest.mark.parametrize("encoding", ENCODERS)
@pytest.mark.parametrize("size", [1, 7, 1000, 1 << 20])
def test_what_is_whole(encoding: str, size: int) -> None:
    sent = ENCODERS[encoding](PAGE)
    got = read(encoding, *(sent[start : start + size] for start in range(0, len(sent), size)))
    assert (got.body, got.raw, got.notes, got.problem) == (PAGE, sent, [], "")


@pytest.mark.parametrize("encoding", ENCODERS)
def test_nothing_is_nothing(encoding: str) -> None:
    assert read(encoding).notes == []
    empty = read(encoding, ENCODERS[encoding](b""))
    assert (empty.body, empty.notes) == (b"", [])


def test_what_is_accepted_is_undone() -> None:
    assert all(decoders(name) for name in ACCEPTED.split(", "))


@pytest.mark.parametrize("encoding", ["", "identity", "Identity, identity", " , "])
def test_not_compressed(encoding: str) -> None:
    got = read(encoding, b"page")
    assert got.body == b"page" and got.body is got.raw and got.notes == []


@pytest.mark.parametrize("encoding", ["compress", "gzip, rot13", "utf-8", "gzip, gzip, gzip, gzip", "gzip;q=1"])
def test_unknown_is_kept_as_it_is(encoding: str) -> None:
    got = read(encoding, b"page")
    assert (got.body, got.raw, got.notes) == (b"page", b"page", ["unknownEncoding"])


def test_members_and_frames_follow_each_other() -> None:
    assert read("gzip", gzip.compress(b"one ") + gzip.compress(b"two")).body == b"one two"
    skipped = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"
    assert read("zstd", zstd.compress(b"one ") + skipped + zstd.compress(b"two")).body == b"one two"


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
@pytest.mark.parametrize("junk", [bytes(100), b"<!-- served in 5 ms -->", b"\n"])
def test_what_follows_the_end_is_ignored(encoding: str, junk: bytes) -> None:
    sent = ENCODERS[encoding](PAGE)
    together, apart = read(encoding, sent + junk), read(encoding, sent, junk)
    assert (together.body, together.notes) == (apart.body, apart.notes) == (PAGE, [])
    assert together.raw == sent + junk


@pytest.mark.parametrize("encoding", ENCODERS)
def test_what_ends_too_early_is_kept_so_far(encoding: str) -> None:
    sent = ENCODERS[encoding](PAGE)
    got = read(encoding, sent[: len(sent) // 2])
    assert PAGE.startswith(got.body) and got.notes == ["badEncoding"] and got.problem
    cut = read(encoding, sent[: len(sent) // 2], complete=False)
    assert (cut.body, cut.notes) == (got.body, []), "why it ended is told elsewhere"


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd", "gzip, gzip"])
def test_what_is_before_the_damage_is_kept(encoding: str) -> None:
    page = random.Random(1).randbytes(200_000)
    sent = bytearray(ENCODERS[encoding](page))
    sent[len(sent) // 2] ^= 0xFF
    sent[len(sent) // 2 + 1 :] = b"\xff" * 5000
    got = read(encoding, bytes(sent))
    assert got.notes == ["badEncoding"] and got.problem
    assert got.raw == sent
    assert encoding == "zstd" or len(got.body) > 50_000
    assert page.startswith(got.body[:50_000])


def test_a_wrong_checksum_costs_nothing_but_a_note() -> None:
    sent = gzip.compress(PAGE)
    got = read("gzip", sent[:-8] + bytes(8))
    assert (got.body, got.notes) == (PAGE, ["badEncoding"])


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
def test_what_is_not_compressed_at_all(encoding: str) -> None:
    page = b"<!doctype html><p>plain text"
    got, apart = read(encoding, page), read(encoding, page[:5], page[5:])
    assert (got.body, got.raw, got.notes) == (page, page, ["notEncoded"]) and got.problem
    assert (apart.body, apart.notes) == (page, ["notEncoded"])


@pytest.mark.parametrize("order", ["little", "big"])
def test_what_is_not_compressed_may_be_in_utf_16(order: str) -> None:
    page = "\ufeff<!doctype html><p>plain text".encode("utf-16-le" if order == "little" else "utf-16-be")
    got = read("gzip", page)
    assert (got.body, got.raw, got.notes) == (page, page, ["notEncoded"])


@pytest.mark.parametrize("encoding", ["gzip", "zstd", "br"])
def test_what_is_no_text_either_is_damaged(encoding: str) -> None:
    got = read(encoding, b"\x1f\x8b\x08\xff\x00\x01" + bytes(range(100)))
    assert (got.body, got.notes) == (b"", ["badEncoding"])


def test_a_transfer_encoding_is_on_top() -> None:
    assert combined("br", ["GZIP, chunked"]) == "br, GZIP"
    assert combined("", ["identity", "Chunked"]) == ""


def test_a_window_that_is_too_wide() -> None:
    options: dict[int, int] = {zstd.CompressionParameter.window_log: 27}
    frame = zstd.ZstdCompressor(options=options)
    wide = frame.compress(os.urandom(1000)) + frame.flush()
    got = read("zstd", wide)
    assert (got.body, got.notes) == (b"", ["badEncoding"])


@pytest.mark.parametrize("encoding", ENCODERS)
def test_the_limit_is_exact(encoding: str) -> None:
    sent = ENCODERS[encoding](PAGE)
    over, exact = read(encoding, sent, limit=len(PAGE) - 1), read(encoding, sent, limit=len(PAGE))
    assert (over.body, over.notes) == (PAGE[:-1], ["lenTrunc"])
    assert (exact.body, exact.notes) == (PAGE, [])


def test_the_limit_bounds_what_is_sent_too() -> None:
    page = os.urandom(10_000)
    got = read("gzip", *[gzip.compress(page, 0)[start : start + 100] for start in range(0, 10_100, 100)], limit=5000)
    assert len(got.raw) == 5000 and page.startswith(got.body) and got.notes == ["lenTrunc"]


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "gzip, gzip"])
def test_expansion_counts_beyond_a_mebibyte(encoding: str) -> None:
    small = read(encoding, ENCODERS[encoding](bytes(FREE)), max_expansion=2)
    assert (len(small.body), small.notes) == (FREE, [])
    large = read(encoding, ENCODERS[encoding](bytes(FREE * 20)), max_expansion=2)
    assert (len(large.body), large.notes) == (FREE, ["lenTrunc"])
    assert "fetch.max_expansion" in large.problem


@given(
    st.sampled_from(["gzip", "deflate", "br", "zstd", "gzip, br", "zstd, deflate, gzip"]),
    st.lists(st.binary(max_size=300), max_size=20),
    st.integers(0, 500),
)
def test_anything_may_come(encoding: str, chunks: list[bytes], limit: int) -> None:
    got = read(encoding, *chunks, limit=limit)
    assert b"".join(chunks).startswith(got.raw)
    assert not limit or (len(got.raw) <= limit and len(got.body) <= limit)


@given(
    st.sampled_from([name for name in ENCODERS if name != "x-gzip"]),
    st.data(),
)
def test_damage_anywhere_is_survived(encoding: str, data: st.DataObject) -> None:
    sent = bytearray(ENCODERS[encoding](PAGE[:3000]))
    place = data.draw(st.integers(0, len(sent) - 1))
    sent[place] ^= data.draw(st.integers(1, 255))
    size = data.draw(st.integers(1, len(sent)))
    got = read(encoding, *(bytes(sent[start : start + size]) for start in range(0, len(sent), size)), limit=10_000)
    assert got.raw == sent[: len(got.raw)] and len(got.body) <= 10_000
