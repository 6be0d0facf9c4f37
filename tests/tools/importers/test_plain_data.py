"""Pickles and marshalled values, read without running anything; and what of them may be stored."""

from __future__ import annotations

import marshal
import pickle
import pickletools
import random
from collections import OrderedDict
from contextlib import suppress
from datetime import date
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import pytest

from budgetfrontier.tools.importers import marshalled, pickled
from budgetfrontier.tools.importers.allowance import Allowance, RecordTooLarge
from budgetfrontier.tools.importers.import_items import FrozenSetOf, Kinds, NotPlain, SetOf, plain, plain_meta
from budgetfrontier.tools.importers.pickled import Opaque, Unreadable

SHARED = ["x" * 300]
VALUES: list[Any] = [
    {"url": "http://a.test/é", "headers": {b"A": [b"b", b"c"]}, "meta": {"depth": 3, "t": (1, (2,), ()), "f": -1.5}},
    {
        "n": [0, 1, -1, 255, 256, 70_000, -(1 << 31), 1 << 40, 1 << 80, -(1 << 80)],
        "b": b"\0" * 300,
        "t": True,
        "x": None,
    },
    {"a": SHARED, "b": SHARED, "c": [SHARED, {}, []], "u": "\udcff", "e": ""},
    {str(n): n for n in range(2000)},
]


def unpickled(value: bytes) -> Any:
    return pickled.load(BytesIO(value), Allowance())


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("value", VALUES)
def test_plain_pickles_are_read_as_pickle_reads_them(value: Any, protocol: int) -> None:
    file = BytesIO(pickle.dumps(value, protocol) + b"what follows")
    assert pickled.load(file, Allowance()) == value
    assert file.read() == b"what follows"


@pytest.mark.parametrize("version", range(marshal.version + 1))
@pytest.mark.parametrize("value", VALUES)
def test_plain_marshalled_values_are_read_as_marshal_reads_them(value: Any, version: int) -> None:
    file = BytesIO(marshal.dumps(value, version) + b"what follows")
    assert plain_tuples(marshalled.load(file, Allowance())) == plain_tuples(value)
    assert file.read() == b"what follows"


def plain_tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain_tuples(item) for key, item in value.items()}
    return [plain_tuples(item) for item in value] if isinstance(value, list | tuple) else value


class Evil:
    """Unpickled, it would make a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (open, (str(self.path), "w"), {"a": 1})


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_nothing_that_a_pickle_names_is_called(tmp_path: Path, protocol: int) -> None:
    made = tmp_path / "made"
    value = {
        "url": "http://a.test/",
        "meta": {"evil": Evil(made), "day": date(2026, 1, 1), "o": OrderedDict(a=1), "n": 1},
    }
    found: Any = unpickled(pickle.dumps(value, protocol))
    assert not made.exists()
    assert found["url"] == "http://a.test/"
    evil, day = found["meta"]["evil"], found["meta"]["day"]
    assert isinstance(evil, Opaque) and evil.name.endswith("open")
    assert isinstance(day, Opaque) and day.name == "datetime.date"
    assert plain_meta(found["meta"], Allowance()) == ({"n": 1}, False)


def test_old_operations_build_nothing_either() -> None:
    for source in (
        b"(S'true'\nios\nsystem\n.",
        b"(cos\nsystem\nS'true'\no.",
        b"cos\nsystem\n(S'true'\ntR.",
        b"Pos\n.",
        b"\x82\x05.",
    ):
        assert isinstance(unpickled(source), Opaque)
    assert isinstance(unpickled(b"]\x94(K\x01Q0K\x02e."), list)


@pytest.mark.parametrize("dump", [lambda value: pickle.dumps(value, 4), marshal.dumps])
def test_what_breaks_off_is_unreadable_wherever_it_does(dump: Any) -> None:
    load = marshalled.load if dump is marshal.dumps else pickled.load
    whole = dump(VALUES[0])
    for length in range(len(whole)):
        with pytest.raises(Unreadable):
            load(BytesIO(whole[:length]), Allowance())


@pytest.mark.parametrize(
    ("load", "sources"),
    [
        (pickled.load, [b"\x80\x04.", b"g5\n.", b"\x85.", b"a."]),
        (marshalled.load, [b"r\x05\0\0\0", b"\xdb\x01\0\0\0r\x09\0\0\0"]),
    ],
)
def test_a_value_that_is_not_there_is_said_to_be_damage(load: Any, sources: list[bytes]) -> None:
    for source in sources:
        with pytest.raises(Unreadable, match=r"it is damaged: .* a value that is not there"):
            load(BytesIO(source), Allowance())


@pytest.mark.parametrize("load", [pickled.load, marshalled.load])
def test_whatever_the_bytes_are_nothing_else_is_raised(load: Any) -> None:
    dice = random.Random(5)
    whole = pickle.dumps(VALUES[0], 4) if load is pickled.load else marshal.dumps(VALUES[0])
    for _ in range(3000):
        damaged = bytearray(whole)
        for _ in range(dice.randint(1, 8)):
            damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        try:
            value = load(BytesIO(bytes(damaged)), Allowance())
        except Unreadable:
            continue
        with suppress(NotPlain):
            msgspec.msgpack.encode(plain(value, Allowance()))


def test_a_size_that_lies_takes_no_memory() -> None:
    for source in (b"\x80\x04B\xff\xff\xff\x7fx.", b"\x8e" + b"\xff" * 8 + b"x.", b"\x80\x04r\xff\xff\xff\xff."):
        with pytest.raises(Unreadable):
            unpickled(source)
    assert unpickled(b"]r\xff\xff\xff\xff.") == []  # a place in the memo, which CPython's would make room for
    for source in (b"[\xff\xff\xff\x7f", b"s\xff\xff\xff\x7f", b"l\xff\xff\xff\x7f", b"(" * 5000):
        with pytest.raises(Unreadable):
            marshalled.load(BytesIO(source), Allowance())


def test_what_refers_to_the_same_again_and_again_ends() -> None:
    laughs = b"".join(
        [b"\x80\x04]\x94", *(b"]\x94(h" + bytes([n]) + b"h" + bytes([n]) + b"e" for n in range(30)), b"."]
    )
    with pytest.raises(RecordTooLarge):
        plain(unpickled(laughs), Allowance())
    keys = b"".join([b"\x80\x04)\x94", *(b"h" + bytes([n]) + b"h" + bytes([n]) + b"\x86\x94" for n in range(60))])
    assert isinstance(unpickled(keys + b"0}h\x3bK\x01s."), dict)  # a key that would take ages to hash
    itself: list[Any] = []
    itself.append(itself)
    with pytest.raises(NotPlain):
        plain(unpickled(pickle.dumps(itself)), Allowance())


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_tuples_and_sets_are_told_from_lists(protocol: int) -> None:
    value = {"a": [1, (2, [3])], "b": {"x"}, "c": frozenset((1,)), "d": [], "e": ((),)}
    for found in (
        unpickled(pickle.dumps(value, protocol)),
        marshalled.load(BytesIO(marshal.dumps(value, min(protocol, marshal.version))), Allowance()),
    ):
        kinds: Kinds = []
        assert plain(found, Allowance(), kinds) == {"a": [1, [2, [3]]], "b": ["x"], "c": [1], "d": [], "e": [[]]}
        assert kinds == [["tuple", "a", 1], ["set", "b"], ["frozenset", "c"], ["tuple", "e"], ["tuple", "e", 0]]


def test_code_is_not_read() -> None:
    with pytest.raises(Unreadable, match="not plain data"):
        marshalled.load(BytesIO(marshal.dumps({"x": compile("1", "x", "eval")})), Allowance())


def test_what_can_be_stored() -> None:
    value = {"a": (1, SetOf([2])), "b": b"x", "c": [None, 1.5, True], "d": FrozenSetOf()}
    assert plain(value, Allowance()) == {"a": [1, [2]], "b": b"x", "c": [None, 1.5, True], "d": []}
    for bad in (1 << 64, "\ud800", {1: 2}, object(), {"\ud800": 1}):
        with pytest.raises(NotPlain):
            plain(bad, Allowance())
    assert plain_meta({"a": 1, "b": object(), 3: 4}, Allowance()) == ({"a": 1}, False)
    assert plain_meta({}, Allowance()) == (None, True)
    assert plain_meta(None, Allowance()) == (None, True)
    assert plain_meta([1], Allowance()) == (None, False)


def test_every_operation_that_makes_plain_data_is_known() -> None:
    names = {opcode.name for opcode in pickletools.opcodes}
    known = pickled._OPAQUE | pickled._PUT | pickled._GET | set(pickled._CONSTANTS) | set(pickled._EMPTY)
    assert known <= names
