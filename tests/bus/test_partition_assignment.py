"""The rule that shares the partitions of a stream."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from budgetfrontier.bus.partition_assignment import Member, assign

members = st.lists(
    st.builds(
        Member, st.integers(0, 5), st.sampled_from("abcdef"), st.lists(st.integers(-1, 9), max_size=3).map(tuple)
    ),
    max_size=6,
    unique_by=lambda member: member.name,
)


@given(st.integers(1, 8), members)
@settings(max_examples=100)
def test_each_partition_has_one_owner_whoever_asks(partitions: int, group: list[Member]) -> None:
    owners = assign(partitions, group)
    assert owners == assign(partitions, reversed(group))
    assert set(owners) <= set(range(partitions))
    sharing = [member.name for member in group if not member.bound]
    bound = {partition for member in group for partition in member.bound}
    if sharing:
        assert set(owners) == set(range(partitions))
        parts = [sum(owner == name for owner in owners.values()) for name in sharing]
        assert max(parts) - min(parts) <= 1
    else:
        assert set(owners) == bound & set(range(partitions))
    for partition, owner in owners.items():
        assert (partition in bound) == (owner not in sharing)


def test_the_newest_of_those_bound_to_a_partition_has_it() -> None:
    assert assign(3, [Member(2, "new", (1,)), Member(1, "old", (0, 1))]) == {0: "old", 1: "new"}


def test_nobody_owns_anything_in_an_empty_group() -> None:
    assert assign(3, []) == {}
