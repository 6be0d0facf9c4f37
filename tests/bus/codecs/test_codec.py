"""Codecs: what is sent comes back, malformed messages raise BadMessage and nothing else, and one's own codec works."""

from __future__ import annotations

import json
import random
import sys
from base64 import b64decode
from collections import OrderedDict
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budgetfrontier.bus.codecs import codec as codec_module
from budgetfrontier.bus.codecs.codec import Codec
from budgetfrontier.bus.messages import (
    MAX_DEPTH,
    AddSeeds,
    BadMessage,
    LinksExtracted,
    Message,
    NewJobId,
    Offset,
    PageCrawled,
    Request,
    RequestError,
    Response,
    Stats,
    UpdateScore,
    check_plain,
)
from budgetfrontier.errors import SettingsError
from tests.bus.frontera_messages import FILE

FORMS = ["msgpack", "json"]
REQUEST = Request("http://example.org/", meta={b"jid": 1})

text = st.text('a\x00"\u00e9\u2603\U0001f577', max_size=3)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False)
    | text
    | st.binary(max_size=3)
)
plain = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(scalars, inner, max_size=2), max_leaves=3
)
maps = st.dictionaries(text | st.binary(max_size=3), plain, max_size=2)
flat = st.fixed_dictionaries({}, optional={b"a": st.binary(max_size=3), "b": text})
requests = st.builds(Request, text, st.sampled_from([b"GET", "post", None]), flat, flat, maps)
pages = st.builds(
    lambda url, status, body, meta: PageCrawled(Response(url, status, {}, body, Request(url, meta=meta))),
    text,
    st.integers(0, 999),
    st.none() | st.binary(),
    maps,
)
messages: st.SearchStrategy[Message] = st.one_of(
    pages,
    st.builds(LinksExtracted, requests, st.lists(requests, max_size=1)),
    st.builds(RequestError, requests, text),
    st.builds(UpdateScore, requests, st.floats(allow_nan=False, allow_infinity=False), st.booleans()),
    st.builds(Offset, st.integers(0, 255), st.integers(0, 1 << 62)),
    st.builds(NewJobId, st.integers(0, 1 << 62)),
    st.builds(AddSeeds, st.lists(requests, max_size=1)),
    st.builds(Stats, maps),
)


def typed(value: Any) -> Any:
    """A value with the types of all that is in it, because 1, 1.0 and True are equal."""
    if isinstance(value, msgspec.Struct):
        return [typed(getattr(value, field)) for field in value.__struct_fields__]
    if isinstance(value, dict):
        return {"dict": [(typed(key), typed(item)) for key, item in value.items()]}
    if isinstance(value, list):
        return ["list", *map(typed, value)]
    return (type(value).__name__, repr(value))


@pytest.mark.parametrize("form", FORMS)
@given(message=messages)
@settings(max_examples=40)
def test_a_message_comes_back_as_it_was(form: str, message: Message) -> None:
    codec = Codec(form, send_body=True)
    assert typed(codec.decode(codec.encode(message))) == typed(message)


@pytest.mark.parametrize("form", FORMS)
@given(request=requests)
@settings(max_examples=40)
def test_a_request_comes_back_as_it_was(form: str, request: Request) -> None:
    codec = Codec(form)
    assert typed(codec.decode_request(codec.encode(request))) == typed(request)


def test_json_keeps_tuples() -> None:
    codec = Codec("json")
    message = Stats({("a", b"a"): (1, [2])})
    assert codec.decode(codec.encode(message)) == message


@pytest.mark.parametrize("form", FORMS)
def test_a_body_is_sent_only_if_that_was_asked_for(form: str) -> None:
    page = PageCrawled(Response("http://example.org/", body=b"\xff", request=REQUEST))
    read = Codec(form).decode(Codec(form).encode(page))
    assert isinstance(read, PageCrawled) and read.response.body is None
    assert read.response.meta == {b"jid": 1}


@pytest.mark.parametrize("form", FORMS)
@given(data=st.binary(max_size=60))
@settings(max_examples=40)
def test_random_bytes_are_malformed_or_a_message(form: str, data: bytes) -> None:
    survive(form, data)


@pytest.mark.parametrize("form", FORMS)
def test_damaged_messages_are_malformed_or_other_messages(form: str) -> None:
    dice = random.Random(15)
    for sample in map(b64decode, json.loads(FILE.read_text())[form].values()):
        for _ in range(30):
            data = bytearray(sample)
            for _ in range(dice.randint(1, 3)):
                place = dice.randrange(len(data))
                match dice.randrange(3):
                    case 0:
                        data[place] = dice.randrange(256)
                    case 1:
                        del data[place : place + dice.randint(1, 20)]
                    case _:
                        data[place:place] = dice.randbytes(2)
                data = data or bytearray(b"x")
            survive(form, bytes(data))
        for length in range(0, len(sample), 1 + len(sample) // 20):
            with pytest.raises(BadMessage):
                Codec(form).decode(sample[:length])


def survive(form: str, data: bytes) -> None:
    """Decode bytes, in both ways; what can be decoded can be sent again."""
    codec = Codec(form, send_body=True)
    for decode in (codec.decode, codec.decode_request):
        try:
            message = decode(data)
        except BadMessage:
            continue
        codec.encode(message)


MALFORMED = {
    "empty": (b"", b""),
    "deep": (b"\x91" * 100_000 + b"\x01", b"[" * 100_000),
    "too deep": (
        msgspec.msgpack.encode([b"st", {"a": eval("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1))}]),
        b'["dict", [[["other","type"],["other","stats"]],[["other","stats"],'
        + b'["list",[' * (MAX_DEPTH + 1)
        + b"]]" * (MAX_DEPTH + 1)
        + b"]]]",
    ),
    "unknown type": (msgspec.msgpack.encode([b"xx", 1]), b'["dict", [[["other", "type"], ["other", "xx"]]]]'),
    "tag as text": (msgspec.msgpack.encode(["of", 1, 2]), b'["dict", [[["other", "type"], ["bytes", "offset"]]]]'),
    "no map": (msgspec.msgpack.encode({b"of": 1}), b'["other", 5]'),
    "field missing": (
        msgspec.msgpack.encode([b"of", 1]),
        b'["dict", [[["other", "type"], ["other", "offset"]], [["other", "offset"], ["other", 1]]]]',
    ),
    "number as text": (
        msgspec.msgpack.encode([b"njid", "1"]),
        b'["dict", [[["other", "type"], ["other", "new_job_id"]], [["other", "job_id"], ["other", "1"]]]]',
    ),
    "extension type": (b"\x92\xc4\x02st\xd6\xff\x00\x00\x00\x01", b'["set", []]'),
    "no UTF-8": (b"\x93\xc4\x02of\xa1\xff\x01", b'["other", "\xff"]'),
    "unhashable key": (b"\x92\xc4\x02st\x81\x91\x80\x01", b'["dict", [[["list", []], ["other", 1]]]]'),
    "lone surrogate": (
        b"\x92\xc4\x02st\x81\xa3\xed\xa0\x80\x01",
        b'["dict", [[["other", "type"], ["other", "stats"]], [["other", "stats"], '
        b'["dict", [[["other", "\\ud800"], ["other", 1]]]]]]]',
    ),
    "infinite score": (
        msgspec.msgpack.encode([b"us", ["http://a/", b"GET", {}, {}, {}], float("inf"), True]),
        Codec("json").encode(UpdateScore(REQUEST, 1.5, True)).replace(b"1.5", b"Infinity"),
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
@pytest.mark.parametrize("form", FORMS)
def test_a_malformed_message_is_one_clear_error(name: str, form: str) -> None:
    data = MALFORMED[name][FORMS.index(form)]
    for decode in (Codec(form).decode, Codec(form).decode_request):
        with pytest.raises(BadMessage) as raised:
            decode(data)
        assert 5 < len(str(raised.value)) <= 500


def test_unknown_fields_are_ignored() -> None:
    fields = ["http://a/", b"GET", {}, {}, {b"a": 1}, "new"]
    codec = Codec()
    assert codec.decode(msgspec.msgpack.encode([b"us", fields, 0.5, True, "new", {}])) == UpdateScore(
        Request("http://a/", meta={b"a": 1}), 0.5, True
    )
    page = [b"pc", ["http://a/", 200, {}, {}, None, "new"], "new"]
    assert isinstance(codec.decode(msgspec.msgpack.encode(page)), PageCrawled)
    data = Codec("json").encode(Offset(1, 2)).replace(b'["dict", [', b'["dict", [[["other", "new"], ["other", 1]], ')
    assert Codec("json").decode(data) == Offset(1, 2)


def test_a_huge_message_is_refused_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec_module, "MAX_SIZE", 100)
    with pytest.raises(BadMessage, match="limit"):
        Codec().encode(Stats({"a": "b" * 100}))
    with pytest.raises(BadMessage, match="limit"):
        Codec().decode(b"x" * 101)


@pytest.mark.parametrize(
    "value",
    [object(), {1, 2}, 1 << 64, "\ud800", {"a": {"b": [bytearray(b"")]}}, [[]], {("a",): object()}],
    ids=range(7),
)
@pytest.mark.parametrize("form", FORMS)
def test_what_cannot_be_sent_is_refused(value: object, form: str) -> None:
    for _ in range(MAX_DEPTH if value == [[]] else 0):
        value = [value]
    with pytest.raises(BadMessage):
        Codec(form).encode(Stats({"key": value}))


class Text(str):
    """A kind of text."""


odd = st.sampled_from(
    [datetime(2026, 1, 1, tzinfo=UTC), Decimal(1), UUID(int=1), bytearray(b""), frozenset({1}), REQUEST]
) | st.sampled_from([1 << 64, -(1 << 63) - 1, "\ud800", Text("a"), MappingProxyType({"a": 1}), OrderedDict(a=1)])
values = st.recursive(
    scalars | odd,
    lambda inner: st.lists(inner, max_size=2) | st.tuples(inner) | st.dictionaries(text, inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=200)
@given(value=values, depth=st.sampled_from([0, 0, 1, *range(MAX_DEPTH - 4, MAX_DEPTH)]))
def test_what_can_be_sent_is_what_is_plain(value: object, depth: int) -> None:
    """The quick check of MessagePack refuses what the check of each element refuses, and nothing else."""
    for _ in range(depth):
        value = [value]
    try:
        check_plain([b"st", {"key": value}])
        expected = msgspec.msgpack.encode([b"st", {"key": value}])
    except (BadMessage, TypeError):
        with pytest.raises(BadMessage):
            Codec().encode(Stats({"key": value}))
    else:
        assert Codec().encode(Stats({"key": value})) == expected


@pytest.mark.parametrize("form", FORMS)
def test_maps_of_other_types_count_towards_the_depth(form: str) -> None:
    value: object = OrderedDict(a=1)
    for _ in range(MAX_DEPTH - 3):  # it is in the message, in the map of counters
        value = [value]
    Codec(form).encode(Stats({"key": value}))
    with pytest.raises(BadMessage, match="deep"):
        Codec(form).encode(Stats({"key": [value]}))


@pytest.mark.parametrize("value", [datetime(2026, 1, 1, tzinfo=UTC), msgspec.msgpack.Ext(5, b"")])
def test_what_no_codec_sends_is_not_received(value: object) -> None:
    with pytest.raises(BadMessage):
        Codec().decode(msgspec.msgpack.encode([b"st", {"key": [value]}]))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Request(5),  # type: ignore[arg-type]
        lambda: Request(b"\xff"),  # type: ignore[arg-type]
        lambda: Request("\ud800"),
        lambda: Request("http://a/", method=5),  # type: ignore[arg-type]
        lambda: Request("http://a/", headers=[1]),  # type: ignore[arg-type]
        lambda: Request("http://a/", cookies="a"),  # type: ignore[arg-type]
        lambda: Request("http://a/", meta=5),  # type: ignore[arg-type]
        lambda: Response("http://a/", "200"),  # type: ignore[arg-type]
        lambda: Response("http://a/", body=5),  # type: ignore[arg-type]
        lambda: Response("http://a/", request="http://a/"),  # type: ignore[arg-type]
        lambda: PageCrawled(REQUEST),  # type: ignore[arg-type]
        lambda: LinksExtracted(REQUEST, ["http://a/"]),  # type: ignore[list-item]
        lambda: LinksExtracted(REQUEST, 5),  # type: ignore[arg-type]
        lambda: RequestError(REQUEST, None),  # type: ignore[arg-type]
        lambda: UpdateScore(REQUEST, True, True),
        lambda: UpdateScore(REQUEST, float("nan"), True),
        lambda: UpdateScore(REQUEST, 1.0, "yes"),  # type: ignore[arg-type]
        lambda: Offset(0, True),
        lambda: Offset(0, 1 << 63),
        lambda: NewJobId("1"),  # type: ignore[arg-type]
        lambda: Stats([]),  # type: ignore[arg-type]
    ],
)
def test_fields_of_wrong_types_are_refused(make: Any) -> None:
    with pytest.raises(BadMessage):
        make()


def test_a_request_takes_what_frontera_takes() -> None:
    made = Request(b"http://a/", "post", None, None, None)  # type: ignore[arg-type]
    assert made == Request("http://a/", b"POST", {}, {}, {})


OWN = """
class Encoder:
    def __init__(self, request_model, *args, **options):
        self.options = options

    def encode_request(self, request):
        return request.url

    def encode_offset(self, partition, offset):
        return f"{partition} {offset}".encode()

    def encode_new_job_id(self, job_id):
        return job_id

    def encode_stats(self, stats):
        raise ZeroDivisionError


class Decoder:
    def __init__(self, request_model, response_model, *args, **options):
        self.request_model = request_model

    def decode(self, data):
        kind, _, rest = data.decode().partition(" ")
        request = self.request_model(url="http://a/")
        return {
            "0": ("offset", 0, int(rest or 0)), "few": ("offset", 1), "none": None, "other": ("mine", 1),
            "list": ([], 1), "lazy": ("add_seeds", ({}[each] for each in "a")),
            "huge": ("update_score", request, 10**5000, True),
        }[kind]

    def decode_request(self, data):
        return self.request_model(url=data) if data else "text"
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Codec]:
    """A codec of a user's own module, with Frontera's interface."""
    (tmp_path / "own_codec.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    yield Codec("own_codec")
    sys.modules.pop("own_codec", None)


def test_a_codec_of_ones_own(own: Codec) -> None:
    assert own.decode(own.encode(Offset(0, 7))) == Offset(0, 7)
    assert own.decode_request(own.encode(Request("http://a/"))) == Request("http://a/")


def test_whatever_a_codec_of_ones_own_does_is_a_bad_message(own: Codec) -> None:
    for message in (NewJobId(1), Stats({}), AddSeeds([])):
        with pytest.raises(BadMessage):
            own.encode(message)
    for data in (b"absent", b"few", b"none", b"other", b"list", b"lazy", b"huge", b"\xff", b"0 x"):
        with pytest.raises(BadMessage):
            own.decode(data)
    with pytest.raises(BadMessage):
        own.decode_request(b"")


def test_names_of_fronteras_codecs_stand_for_its_forms() -> None:
    for form in FORMS:
        theirs = Codec(f"frontera.contrib.backends.remote.codecs.{form}")
        assert theirs.encode(Offset(1, 2)) == Codec(form).encode(Offset(1, 2))


def test_an_unknown_codec_is_a_clear_error() -> None:
    with pytest.raises(SettingsError, match="no_such_codec"):
        Codec("no_such_codec")
