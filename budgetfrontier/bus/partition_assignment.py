"""The rule for sharing the partitions of a stream among the consumers of a group."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Member(NamedTuple):
    """A consumer of a group."""

    joined: int
    """A number that is greater the later the consumer has joined."""
    name: str
    bound: tuple[int, ...] = ()
    """The partitions that it was started for; empty for a consumer that shares the others."""


def assign(partitions: int, members: Iterable[Member]) -> dict[int, str]:
    """Return the name of the member that each partition belongs to; partitions without one are left out.

    A partition belongs to the newest member bound to it, so that a spider that was restarted takes over at once.
    Partitions that nobody is bound to are dealt to the other members, in the order of their names.
    """
    ordered = sorted(members)
    there = range(partitions)
    owners = {partition: member.name for member in ordered for partition in member.bound if partition in there}
    sharing = sorted(member.name for member in ordered if not member.bound)
    if sharing:
        free = (partition for partition in there if partition not in owners)
        owners |= {partition: sharing[turn % len(sharing)] for turn, partition in enumerate(free)}
    return owners
