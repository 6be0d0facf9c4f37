"""Patches of rows: what they make is byte for byte the row that was wanted, and never silently another one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetfrontier.storage.row_patches import patch, patched
from tests.examples import few

encode = msgspec.msgpack.encode
numbers = st.one_of(st.integers(-3, 3), st.integers(-(1 << 63), (1 << 64) - 1), st.floats(), st.booleans(), st.none())
plain = st.recursive(
    st.one_of(numbers, st.text(max_size=4), st.binary(max_size=4)),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=2), inner, max_size=2)),
    max_leaves=4,
)


@few(400)
@given(
    st.lists(plain, max_size=30), st.dictionaries(st.integers(0, 29), plain, max_size=6), st.lists(plain, max_size=1)
)
def test_a_patch_makes_the_row_that_was_wanted(old: list[Any], changed: dict[int, Any], more: list[Any]) -> None:
    new = [changed.get(place, value) for place, value in enumerate(old)] + more
    made = patch(encode(old), encode(new))
    if made is not None:
        assert patched(encode(old), msgspec.msgpack.decode(encode(made))) == encode(new)


@pytest.mark.parametrize(
    ("old", "new", "made"),
    [
        ([1, 2, 3], [1, 2, 3], []),
        ([0, 1000, "a", 5], [0, 1001, "a", 4], [1, 1, 1, -1]),
        ([1 << 31], [0], [0, [0]]),
        ([0], [1 << 31], [0, 1 << 31]),
        (["READY", 0.5], ["SNOOZED", 0.75], [0, ["SNOOZED"], 0, [0.75]]),
        ([True, 1], [False, None], [0, [False], 0, [None]]),
        ([[1], {"a": 1}], [[2], {}], [0, [[2]], 0, [{}]]),
        ([-(1 << 63)], [(1 << 64) - 1], [0, [(1 << 64) - 1]]),
    ],
)
def test_a_patch_has_what_differs(old: list[Any], new: list[Any], made: list[Any]) -> None:
    assert patch(encode(old), encode(new)) == made
    assert patched(encode(old), made) == encode(new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ([1], [1, 2]),
        ([1, 2], [1]),
        ([0, 1], [0.0, 2]),
        ([True, 1], [1, 2]),
        ([0.0], [-0.0]),
        ({"a": 1}, [1]),
        ([1], {"a": 1}),
    ],
)
def test_rows_that_a_patch_cannot_make_are_put_whole(old: Any, new: Any) -> None:
    assert patch(encode(old), encode(new)) is None


@pytest.mark.parametrize("new", [b"", b"{}", b"\xc1", b"[1]", encode([1]) + b"more"])
def test_other_rows_than_arrays_are_put_whole(new: bytes) -> None:
    assert patch(encode([1]), new) is None
    assert patch(new, encode([1])) is None


@pytest.mark.parametrize(
    ("old", "change"),
    [
        (b"", [0, 1]),
        (b"{}", []),
        (encode([1]), [1, 1]),
        (encode([1]), [-7, 1]),
        (encode(["a"]), [0, 1]),
        (encode([1]), [0, []]),
        (encode([1]), [0]),
        (encode([1]), ["a", 1]),
        (encode([1]), [0, "a"]),
        (encode([(1 << 64) - 1]), [0, 1]),
    ],
)
def test_a_patch_of_another_row_is_refused(old: bytes, change: list[Any]) -> None:
    with pytest.raises(ValueError):
        patched(old, change)
