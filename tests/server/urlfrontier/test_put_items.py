"""Items of PutURLs as they arrive: the kernel reads none otherwise than Python does, nor any that Python refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.message import DecodeError
from hypothesis import example, given
from hypothesis import strategies as st

from budgetfrontier.engine.native import kernel
from budgetfrontier.server.urlfrontier import engine_calls, put_items
from budgetfrontier.server.urlfrontier import urlfrontier_pb2 as m
from tests.server.urlfrontier.service_client import OK, discovered, known, serving

read_found: Any = getattr(kernel, "read_found", None)
needs_kernel = pytest.mark.skipif(kernel is None, reason="it is about the native kernel")
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5) | st.sampled_from(
    ["http://h.test/", "bf.cost", "ü" * 99]
)


@st.composite
def found_items(draw: st.DrawFn) -> Any:
    """Items of URLs that were found, with up to 20 names in their metadata."""
    item = discovered(draw(texts), draw(texts), draw(st.sampled_from(["", "h.test", "k" * 256])), id=draw(texts))
    for name, values in draw(st.dictionaries(texts, st.lists(texts, max_size=2), max_size=20)).items():
        item.discovered.info.metadata[name].values.extend(values)
    return item


def same(data: bytes) -> bool:
    """Return whether the kernel has read an item, after a comparison with what Python reads."""
    read = read_found(data)
    if read is None:
        return False
    item: Any = m.URLItem.FromString(data)
    info, (crawl_id, name, found) = item.discovered.info, read
    assert item.WhichOneof("item") == "discovered"
    assert (crawl_id, name) == (info.crawlID, item.ID or info.url)
    shown, expected = put_items.info_of(found), m.URLInfo()
    expected.CopyFrom(info)
    expected.crawlID = ""
    assert shown == expected
    for keeps_key in (False, True):
        by_kernel, by_python = (
            engine_calls.uri(*found, keeps_key=keeps_key),
            engine_calls.uri_of(info, keeps_key=keeps_key),
        )
        assert _readable(by_kernel) == _readable(by_python)
    return True


def _readable(uri: Any) -> Any:
    """Return a URI with its metadata in an order of their own."""
    if uri is None or isinstance(uri, str):
        return uri
    metadata = None if uri.payload is None else m.URLInfo.FromString(uri.payload).metadata
    shown = None if metadata is None else {name: list(metadata[name].values) for name in metadata}
    return uri.url, uri.queue, shown, uri.cost, uri.priority


@needs_kernel
@given(found_items())
def test_the_kernel_reads_the_usual_items_as_python_does(item: Any) -> None:
    metadata = item.discovered.info.metadata
    values = [value for name in metadata for value in (name, *metadata[name].values)]
    usual = len(metadata) <= 16 and not any("bf." in value for value in values)
    assert same(item.SerializeToString()) == usual


@needs_kernel
@given(found_items(), st.data())
@example(known("http://h.test/"), None)
@example(m.URLItem(), None)
@example(m.URLItem(ID="1", creation_date=5), None)
def test_the_kernel_reads_nothing_else(item: Any, drawn: st.DataObject | None) -> None:
    data = item.SerializeToString()
    if drawn is not None:
        start, length = drawn.draw(st.integers(0, len(data))), drawn.draw(st.integers(0, 3))
        data = data[:start] + drawn.draw(st.binary(max_size=3)) + data[start + length :]
    try:
        m.URLItem.FromString(data)
    except DecodeError:
        assert read_found(data) is None
    else:
        same(data)


@needs_kernel
def test_fields_that_come_twice_or_are_unknown_are_read_by_python() -> None:
    usual = discovered("http://h.test/", key="k", id="1", depth="3").SerializeToString()
    assert same(usual)
    for more in (b"\x1a\x012", usual, b"\x20\x05", b"\x2a\x01x", b"\x0a\x00", b"\x12\x00"):
        assert not same(usual + more)
    assert not same(b"\x0a\x08\x0a\x06\x0a\x01a\x0a\x01b")  # two URLs: the last one counts


class PanicException(BaseException):
    """As PyO3 raises it."""


@needs_kernel
def test_a_panic_ends_the_calls_of_its_turn_and_the_server_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(data: bytes) -> None:
        raise PanicException("index out of bounds")

    with serving(tmp_path / "jobs") as client:
        with monkeypatch.context() as broken, pytest.raises(grpc.RpcError) as error:
            broken.setattr(kernel, "read_found", fail)
            client.put(discovered("http://a.test/"))
        assert error.value.code() is grpc.StatusCode.INTERNAL
        assert "the native kernel failed: index out of bounds" in caplog.text
        assert client.put(discovered("http://a.test/")) == [OK]
