"""A partition's slice of the crawl-wide limits: the rest of it, requests for more, and returns. Pure rules.

A slice belongs to a partition and stays with it when its owner changes: it is in its tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

LIMITS: Final = ("cluster.max_uris", "cluster.max_spend")
"""The settings with the totals, in the order of the fields of `Amounts`."""
UNLIMITED: Final = 1 << 60


class Amounts(msgspec.Struct, array_like=True, frozen=True):
    """An amount of URIs, and one of spend."""

    uris: int = 0
    spend: int = 0

    def __iter__(self) -> Iterator[int]:
        yield self.uris
        yield self.spend

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(self.uris + other.uris, self.spend + other.spend)

    def __sub__(self, other: Amounts) -> Amounts:
        return Amounts(self.uris - other.uris, self.spend - other.spend)

    def __bool__(self) -> bool:
        return self != NOTHING


NOTHING: Final = Amounts()


class Want(msgspec.Struct, array_like=True, frozen=True):
    """The wish of a partition: the least with which it can go on, all of it at once, and the most that it could use."""

    least: Amounts
    most: Amounts


class Use(NamedTuple):
    """The use by a partition: for good, and at the most by the URIs that are out."""

    used: Amounts
    out: Amounts


class PartitionWork(NamedTuple):
    """The work of a partition: URIs that wait, queues that may have one leased now, and the average cost of a URI."""

    waiting: int
    ready: int
    cost: int

    def of_uris(self, count: int) -> Amounts:
        """Return what so many URIs will use, about."""
        return Amounts(count, count * self.cost)


class Statement(NamedTuple):
    """A statement to the treasurer: the return of a partition (less than nothing: a debt), and its request."""

    returned: Amounts
    want: Want | None


class Slice(msgspec.Struct, frozen=True):
    """The slice of a partition."""

    limited: tuple[bool, bool] = (False, False)
    """Whether there is a total of URIs, and of spend."""
    granted: Amounts = NOTHING
    """The grants to it, less what it has given back: the most that it may use over its whole life."""
    last: Amounts = NOTHING
    """The latest grant of each."""
    want: Want | None = None
    """The request that was sent to the treasurer and is not granted yet."""
    recalled: bool = False
    """Whether others want the unused rest: until the next grant, it is returned as it becomes free."""


def room(part: Slice, use: Use) -> Amounts:
    """Return the rest that may be leased beyond the URIs out; below zero if more was used than the slice holds."""
    rows = zip(part.limited, part.granted, use.used, use.out, strict=True)
    return Amounts(*(granted - used - out if limited else UNLIMITED for limited, granted, used, out in rows))


def is_used_up(part: Slice, use: Use) -> bool:
    """Return whether a slice allows no further lease."""
    return any(left <= 0 for left in room(part, use))


def wanted(part: Slice, use: Use, work: PartitionWork) -> Want | None:
    """Return the request of a partition with work once it has used half of its last grant.

    If nothing may be leased, the least is just the amount that one URI lacks, debts included.
    """
    left = room(part, use)
    stuck = any(each <= 0 for each in left)
    least, most = [], []
    for limited, granted, used, each, last, useful in zip(
        part.limited, part.granted, use.used, left, part.last, work.of_uris(work.waiting), strict=True
    ):
        need = may_need = 0
        if limited and each <= 0:
            need = max(1, used - granted + 1)
            may_need = max(need, used - granted + useful)
        elif limited and each <= last // 2 and each < useful:
            need, may_need = int(not stuck), useful - each
        least.append(need)
        most.append(may_need)
    return Want(Amounts(*least), Amounts(*most)) if work.waiting and any(most) else None


def excess(part: Slice, use: Use, work: PartitionWork, *, everything: bool) -> Amounts:
    """Return the rest that a partition returns if others want it: all but its use at once, or all."""
    left = room(part, use)
    kept = NOTHING if everything or any(each <= 0 for each in left) else work.of_uris(work.ready)
    rows = zip(part.limited, left, kept, strict=True)
    return Amounts(*(max(0, each - keep) if limited else 0 for limited, each, keep in rows))


def stated(
    part: Slice, use: Use, work: PartitionWork, *, leased: bool = False, everything: bool = False
) -> tuple[Slice, Statement | None]:
    """Return a slice after an entry, and the statement to the treasurer, if any. `leased`: URIs were asked for.

    Only partitions that are asked for URIs request more, so that idle ones do not pass amounts to and fro.
    """
    returned = excess(part, use, work, everything=everything) if part.recalled or everything else NOTHING
    remaining = replace(part, granted=part.granted - returned)
    want = part.want
    if (leased and want is None) or (want is not None and returned):
        want = wanted(remaining, use, work)
    if not returned and not everything and want == part.want:
        return part, None
    return replace(remaining, want=want), Statement(returned, want)


def granted(part: Slice, amounts: Amounts) -> Slice:
    """Return a slice after a grant."""
    last = Amounts(*(new or old for new, old in zip(amounts, part.last, strict=True)))
    return replace(part, granted=part.granted + amounts, last=last, want=None, recalled=False)


def limited(part: Slice, limits: tuple[bool, bool], use: Use) -> tuple[Slice, Statement | None]:
    """Return a slice after totals were added or removed. A new one counts earlier use as well."""
    if limits == part.limited:
        return part, None
    rows = zip(part.limited, limits, part.granted, use.used + use.out, strict=True)
    holds = Amounts(*(used if new and not old else has for old, new, has, used in rows))
    remaining = replace(part, limited=limits, granted=holds)
    if not any(limits):
        return replace(remaining, want=None, recalled=False), None
    return remaining, Statement(part.granted - holds, part.want)
