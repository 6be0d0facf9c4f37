"""Grants of the crawl-wide limits to partitions. Pure rules.

One partition, the treasurer, has them in its state. Each partition sends it requests and returns, and gets grants.
Grants that were not returned never exceed the limits.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from budgetfrontier.cluster.quotas.quota_slices import NOTHING, UNLIMITED, Amounts, Statement, Want

TREASURER: Final = 0
"""The partition that makes the grants."""


class QuotaGrants(msgspec.Struct):
    """The totals and their slices."""

    totals: Amounts = NOTHING
    """0: no limit."""
    granted: dict[int, Amounts] = {}
    """By partition: its grants less its returns."""
    out: Amounts = NOTHING
    """The sum of all grants less all returns."""
    wants: dict[int, Want] = {}
    """By partition: its request, in the order in which they have asked."""
    recalled: dict[int, None] = {}
    """Partitions that return all that they do not use, until their next grant."""
    uncounted: dict[int, None] = {}
    """Partitions that have not reported yet their use before there was a total. Nothing is granted until then."""


class Grant(NamedTuple):
    """A grant to a partition."""

    partition: int
    amounts: Amounts


class Recall(NamedTuple):
    """A partition is asked for its unused rest; `everything`: for all that is not out, and for an answer."""

    partition: int
    everything: bool


def left(treasury: QuotaGrants) -> Amounts:
    """Return the amount that may still be granted; below zero after the totals were lowered."""
    rows = zip(treasury.totals, treasury.out, strict=True)
    return Amounts(*(total - out if total else UNLIMITED for total, out in rows))


def start(totals: Amounts) -> QuotaGrants:
    """Return the treasury of a crawl that begins."""
    return QuotaGrants(totals)


def set_totals(treasury: QuotaGrants, totals: Amounts, partitions: int) -> list[Grant | Recall]:
    """Change the totals. A raised one is granted at once; a lowered one, or a new one, takes back all slices first."""
    before, treasury.totals = treasury.totals, totals
    if totals == before:
        return []
    if any(new and not old for old, new in zip(before, totals, strict=True)):
        treasury.uncounted = dict.fromkeys(range(partitions))
        asked = list(treasury.uncounted)
    elif any(each < 0 for each in left(treasury)):
        asked = sorted(treasury.granted)
    else:
        return serve(treasury, partitions)
    treasury.recalled |= dict.fromkeys(asked)
    return [Recall(partition, True) for partition in asked]


def hear(
    treasury: QuotaGrants, partition: int, statement: Statement, limits: tuple[bool, bool], partitions: int
) -> list[Grant | Recall]:
    """Take a statement of a partition, and the limits that it keeps."""
    _add(treasury, partition, NOTHING - statement.returned)
    if all(kept or not total for kept, total in zip(limits, treasury.totals, strict=True)):
        treasury.uncounted.pop(partition, None)
    if statement.want is None:
        treasury.wants.pop(partition, None)
    else:
        treasury.wants[partition] = statement.want
    return serve(treasury, partitions)


def serve(treasury: QuotaGrants, partitions: int) -> list[Grant | Recall]:
    """Grant the requests in turn, as far as there is something left; ask the others for their unused rests."""
    if treasury.uncounted:
        return []
    done: list[Grant | Recall] = []
    for partition, want in list(treasury.wants.items()):
        available = left(treasury)
        if any(least > each for least, each in zip(want.least, available, strict=True)):
            continue
        amounts = Amounts(
            *(
                max(0, min(each, most, max(least, each // (2 * partitions))))
                for each, least, most in zip(available, want.least, want.most, strict=True)
            )
        )
        _add(treasury, partition, amounts)
        del treasury.wants[partition]
        treasury.recalled.pop(partition, None)
        done.append(Grant(partition, amounts))
    return done + _recalls(treasury)


def _recalls(treasury: QuotaGrants) -> list[Grant | Recall]:
    """Recall from all partitions that may have some of the totals that are short."""
    short = [
        available < 0 or any(tuple(want.least)[place] > available for want in treasury.wants.values())
        for place, available in enumerate(left(treasury))
    ]
    if not any(short):
        return []
    asked = [
        partition
        for partition, amounts in sorted(treasury.granted.items())
        if partition not in treasury.recalled
        and any(is_short and each > 0 for is_short, each in zip(short, amounts, strict=True))
    ]
    treasury.recalled |= dict.fromkeys(asked)
    return [Recall(partition, False) for partition in asked]


def _add(treasury: QuotaGrants, partition: int, amounts: Amounts) -> None:
    treasury.granted[partition] = treasury.granted.get(partition, NOTHING) + amounts
    treasury.out += amounts
