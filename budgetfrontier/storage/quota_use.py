"""The use of quotas: what was fetched of each host, queue and label, beside the limits in force for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import nlargest
from typing import NamedTuple

from budgetfrontier.settings.overrides import Effective, Limits
from budgetfrontier.storage import keys
from budgetfrontier.storage.head_urls import NO_URL
from budgetfrontier.storage.records import decode_tally, tally_of
from budgetfrontier.storage.view import View

MOST = 10_000
"""The most rows of a report on quotas."""


class QuotaUse(NamedTuple):
    """One limit of a quota, and how much of it is used."""

    kind: str
    name: str
    amount: str
    used: int
    limit: int

    @property
    def share(self) -> float:
        """The part of the limit that is used; more than 1.0 by what was in flight."""
        return self.used / self.limit if self.limit else 1.0


def fullest(view: View) -> list[QuotaUse]:
    """Return the limits of quotas with their use, the fullest first. O(tallies), some 10 us each."""
    return sorted_uses(_all(view))


def sorted_uses(uses: Iterable[QuotaUse]) -> list[QuotaUse]:
    """Return the fullest limits of quotas, in order."""
    return nlargest(MOST, uses, key=lambda use: (use.share, use.used))


def _all(view: View) -> Iterator[QuotaUse]:
    effective = view.in_force()
    if not effective.quotas:
        return
    for key, value in view.items(keys.TALLIES):
        kind, name = tally_of(key)
        quota = _quota(view, effective, kind, name)
        if quota:
            stats = decode_tally(value)
            for amount, limit in quota:
                yield QuotaUse(kind, name, amount, getattr(stats, amount), limit)


def _quota(view: View, effective: Effective, kind: str, name: str) -> Limits:
    """Return the quota in force for the root of a host, for the next URI of a queue, or for a label anywhere."""
    if kind == "host":
        return effective.for_one(f"http://{name}/", name, None).quota_host
    if kind == "label":
        return effective.for_one(NO_URL, "", name).quota_label
    return effective.for_one(view.first_url(name) or NO_URL, name, None).quota_queue
