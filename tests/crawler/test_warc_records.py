"""One record as bytes: whole with either compressor, with a digest and a length that are right."""

from __future__ import annotations

import builtins
import gzip
import hashlib
import os
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from budgetfrontier.crawler.outputs import warc_records

COMPRESSORS: list[Callable[[int], Any]] = [warc_records.zlib_compressor]
if fast := warc_records.isal_compressor():
    COMPRESSORS.append(fast)


@pytest.fixture(params=COMPRESSORS, ids=["zlib", "isal"][: len(COMPRESSORS)], autouse=True)
def compressor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Any]:
    monkeypatch.setattr(warc_records, "compressor", request.param)
    return request.param  # type: ignore[no-any-return]


@pytest.mark.parametrize("size", [0, 1, 1800, 2047, 2048, 2049, 40_000, 3_000_000])
@pytest.mark.parametrize("parts", [1, 3])
def test_a_record_is_one_gzip_member(size: int, parts: int) -> None:
    block = (os.urandom(size // 2) + b"text, text " * size)[:size]
    cut = size // parts
    blocks = [block[start : start + cut] for start in range(0, size, cut)] if cut else [block]
    head, end, rest = gzip.decompress(
        warc_records.record("WARC-Type: x\r\nWARC-Y: ü\r\n", *blocks, kind="a/b")
    ).partition(b"\r\n\r\n")
    assert end + rest == b"\r\n\r\n" + block + b"\r\n\r\n"
    assert head.decode().split("\r\n") == [
        "WARC/1.1",
        "WARC-Type: x",
        "WARC-Y: ü",
        f"WARC-Block-Digest: {warc_records.digest(hashlib.sha1(block).digest())}",
        "Content-Type: a/b",
        f"Content-Length: {size}",
    ]


def test_ids_are_random_uuids() -> None:
    ids = [warc_records.record_id() for _ in range(200)]
    assert len(set(ids)) == 200
    for one in ids:
        found = uuid.UUID(one.removeprefix("<urn:uuid:").removesuffix(">"))
        assert one == f"<urn:uuid:{found}>" and (found.version, found.variant) == (4, uuid.RFC_4122)


def test_without_isal_the_standard_library_compresses(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def without(name: str, *more: Any, **others: Any) -> Any:
        if name.startswith("isal"):
            raise ImportError(name)
        return imported(name, *more, **others)

    monkeypatch.setattr(builtins, "__import__", without)
    assert warc_records.isal_compressor() is None
