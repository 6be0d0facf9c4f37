"""The keys of tables: bytes sort as the numbers do, and bytes of another length are damage."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetfrontier.rules import uri_order
from budgetfrontier.storage import keys
from budgetfrontier.storage.damage import Damage


@given(
    *[
        st.tuples(
            st.integers(0, 2**32 - 1), st.integers(0, 255), *[st.integers(0, 2**32 - 1)] * 2, st.integers(0, 2**63)
        )
    ]
    * 2
)
def test_pending_keys_sort_by_queue_directive_priority_cost_and_arrival(
    one: tuple[int, ...], other: tuple[int, ...]
) -> None:
    assert (keys.pending.pack(*one) < keys.pending.pack(*other)) is (one < other)


@given(*[st.tuples(st.floats(0, 1e12), st.integers(0, 2**32 - 1))] * 2)
def test_wake_times_sort(one: tuple[float, int], other: tuple[float, int]) -> None:
    one, other = (one[0] + 0.0, one[1]), (other[0] + 0.0, other[1])  # -0.0 is below zero to bytes
    assert (keys.timed.pack(*one) < keys.timed.pack(*other)) is (one < other)


def test_the_rank_of_a_uri_is_its_key_without_the_queue() -> None:
    key = keys.pending.pack(7, 3, uri_order.inverted(5), 2, 9)
    assert key[4:] == keys.rank.pack(3, uri_order.inverted(5), 2, 9)
    assert key.startswith(keys.pending_start.pack(7, 3, uri_order.inverted(5), 2))


def test_no_key_sorts_before_the_sentinel() -> None:
    assert (
        keys.SENTINEL
        < keys.FIRST
        <= min(layout.pack(*[0] * count) for layout, count in ((keys.u32, 1), (keys.fifo, 2)))
    )


@pytest.mark.parametrize("stored", [b"", b"\0\0\0", b"\0" * 5])
def test_bytes_of_another_length_are_damage(stored: bytes) -> None:
    with pytest.raises(Damage, match=f"^{stored.hex()}: "):
        keys.u32.unpack(stored)
