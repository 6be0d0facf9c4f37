"""Members of any bytes: each is a URI, or says what is wrong with it."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetfrontier.tools.importers.allowance import MAX_RECORD_SIZE, Allowance
from budgetfrontier.tools.importers.import_items import BadRecord, Item, Record
from budgetfrontier.tools.importers.redis import members
from tests.examples import few

DECODERS: dict[str, Callable[[str, bytes, Allowance], Item]] = {
    "scrapy": members.of_scrapy,
    "kumo": members.of_kumo,
    "qcrawl": lambda location, value, allowance: members.of_qcrawl(location, value, -1.0, allowance),
    "list": members.listed,
}
FIELDS = {"url": "http://a.test/", "headers": {}, "dont_filter": False, "meta": {"depth": 1}, "body": "x"}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=8), inside, max_size=3),
    max_leaves=5,
)
CHANGED = st.dictionaries(st.sampled_from([*FIELDS, "method", "encoding", "priority", "request", "cookies"]), VALUES)


@pytest.mark.parametrize("kind", DECODERS)
@given(value=st.binary(max_size=60))
def test_any_bytes(kind: str, value: bytes) -> None:
    assert isinstance(DECODERS[kind]("here", value, Allowance()), Record | BadRecord)


@pytest.mark.parametrize("kind", DECODERS)
@few(25)
@given(changed=CHANGED, cut=st.integers(0, 20))
def test_requests_with_fields_of_any_kind(kind: str, changed: dict[str, object], cut: int) -> None:
    fields = {**FIELDS, **changed}
    text = json.dumps(fields)
    for value in (text.encode(), pickle.dumps(fields), json.dumps({"request": text}).encode(), packed(fields)):
        for part in (value, value[: len(value) - cut]):
            assert isinstance(DECODERS[kind]("here", part, Allowance()), Record | BadRecord)


def packed(fields: object) -> bytes:
    try:
        return msgspec.msgpack.encode(fields)
    except OverflowError:  # an integer of more than 64 bits
        return b""


@pytest.mark.parametrize("kind", DECODERS)
def test_large_and_deep_members_are_refused(kind: str) -> None:
    for value in (
        bytes(MAX_RECORD_SIZE + 1),
        b'{"url":' + b"[" * 100_000,
        b"\x91" * 100_000,
        b"\x80\x04" + b"(" * 10**6,
    ):
        assert isinstance(DECODERS[kind]("here", value, Allowance()), BadRecord)
