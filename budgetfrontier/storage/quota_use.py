"""The use of quotas: what was fetched of each host, queue and label, beside the limits in force for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import nlargest
from typing import NamedTuple

from budgetfrontier.core.model import CrawlUri, QueueRecord
from budgetfrontier.rules.quotas import first_reached, quotas_of
from budgetfrontier.settings.overrides import Effective, Limits, QueueSettings
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

    def text(self) -> str:
        """Return a sentence without its end that says that the limit is reached."""
        return f"the quota of {self.kind} {self.name}, {self.amount} {self.limit:,}, is used up, with {self.used:,}"


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


def used_up(view: View, uri: CrawlUri, queue: str, settings: QueueSettings) -> Iterator[tuple[QuotaUse, Limits]]:
    """Yield the first limit that is reached of each quota of a URI, with all limits of that quota."""
    for kind, name, quota in quotas_of(uri, queue, settings):
        stats = view.tally(kind, name)
        if amount := first_reached(stats, quota):
            yield QuotaUse(kind, name, amount, getattr(stats, amount), dict(quota)[amount]), quota


def of_queue(view: View, queue: QueueRecord) -> list[QuotaUse]:
    """Return each limit of the quotas of a queue's next URI, with its use; nothing for a queue that has none."""
    first = next(view.pending(queue, 1), None)
    if first is None:
        return []
    settings = view.in_force().for_one(first.uri.url, queue.queue, first.uri.source)
    return [
        QuotaUse(kind, name, amount, getattr(view.tally(kind, name), amount), limit)
        for kind, name, quota in quotas_of(first.uri, queue.queue, settings)
        for amount, limit in quota
    ]


def holding(view: View, queues: Sequence[QueueRecord]) -> dict[int, tuple[QuotaUse, Limits]]:
    """Return the quota that holds each of some queues, by the id of the queue; those that none holds are left out."""
    effective, found = view.in_force(), dict[int, tuple[QuotaUse, Limits]]()
    for queue in queues if effective.quotas else ():
        if (first := next(view.pending(queue, 1), None)) is not None:
            settings = effective.for_one(first.uri.url, queue.queue, first.uri.source)
            if use := next(used_up(view, first.uri, queue.queue, settings), None):
                found[queue.id] = use
    return found
