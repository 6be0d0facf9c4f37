"""The use of quotas: what was fetched of each host, queue, label and group, beside the limits in force for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import nlargest

import msgspec

from budgetfrontier.core.model import CrawlUri, QueueRecord
from budgetfrontier.core.vocabulary import OF_GROUP
from budgetfrontier.rules.quotas import first_reached, quotas_of
from budgetfrontier.settings.grouping import Grouping
from budgetfrontier.settings.overrides import Effective, Limits, QueueSettings
from budgetfrontier.storage import keys
from budgetfrontier.storage.group_listing import GroupsInTurn
from budgetfrontier.storage.head_urls import NO_URL, HeadUrls
from budgetfrontier.storage.records import decode_tally, tally_of
from budgetfrontier.storage.view import View

MOST = 10_000
"""The most rows of a report on quotas."""


class QuotaUse(msgspec.Struct):
    """One limit of a quota, and how much of it is used; its `share` is more than 1.0 by what was in flight."""

    kind: str
    name: str
    amount: str
    used: int
    limit: int
    share: float = 1.0

    def __post_init__(self) -> None:
        """Set the share, from the other fields alone."""
        self.share = self.used / self.limit if self.limit else 1.0

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
    quotas = QuotasInForce(view)
    for key, value in view.items(keys.TALLIES) if quotas.kinds else ():
        kind, name = tally_of(key)
        quota = quotas.of(kind, name)
        if quota:
            stats = decode_tally(value)
            for amount, limit in quota:
                yield QuotaUse(kind, name, amount, getattr(stats, amount), limit)


class QuotasInForce:
    """The quotas in force of URIs and their queues. About 10 us for each look-up."""

    def __init__(self, view: View, effective: Effective | None = None, grouping: Grouping | None = None) -> None:
        """Take the settings of a view, or others."""
        self._view, self._groups = view, GroupsInTurn(view, grouping)
        self._effective = view.in_force() if effective is None else effective
        self._grouping = view.grouping() if grouping is None else grouping
        self.kinds = self._effective.quotas | ({OF_GROUP} if self._grouping.limits_fetches else frozenset())
        """The kinds of quotas that are in force for anything."""

    def of(self, kind: str, name: str) -> Limits:
        """Return the quota of the root of a host, of the next URI of a queue, of a label anywhere, or of a group."""
        effective = self._effective
        if kind == "host":
            return effective.for_one(f"http://{name}/", name, None).quota_host
        if kind == "label":
            return effective.for_one(NO_URL, "", name).quota_label
        if kind == OF_GROUP:
            return tuple(self._grouping.limits_of(name).quotas.items())
        return effective.for_one(self._view.first_url(name) or NO_URL, name, None).quota_queue

    def of_uri(self, uri: CrawlUri, queue: QueueRecord) -> list[tuple[str, str, Limits]]:
        """Return the quotas of a URI of a queue, as `quotas_of` does."""
        return quotas_of(uri, queue.queue, self.settings_of(uri, queue), self._group(uri, queue))

    def settings_of(self, uri: CrawlUri, queue: QueueRecord) -> QueueSettings:
        """Return the settings in force for a URI of a queue."""
        return self._effective.for_one(uri.url, queue.queue, uri.source)

    def _group(self, uri: CrawlUri, queue: QueueRecord) -> tuple[str, Limits] | None:
        """Return the group that a queue belongs to in its next turn, with its quota; None without quotas of groups."""
        if OF_GROUP not in self.kinds:
            return None
        group = self._groups.of(queue, uri.url, uri.source)
        return None if group is None else (group.name, self.of(OF_GROUP, group.name))

    def used_up(self, uri: CrawlUri, queue: QueueRecord) -> Iterator[tuple[QuotaUse, Limits]]:
        """Yield the first limit that is reached of each quota of a URI, with all limits of that quota."""
        for kind, name, quota in self.of_uri(uri, queue) if self.kinds else ():
            stats = self._view.tally(kind, name)
            if amount := first_reached(stats, quota):
                yield QuotaUse(kind, name, amount, getattr(stats, amount), dict(quota)[amount]), quota


def of_queue(view: View, queue: QueueRecord) -> list[QuotaUse]:
    """Return each limit of the quotas of a queue's next URI, with its use; nothing for a queue that has none."""
    first = next(view.pending(queue, 1), None)
    if first is None:
        return []
    return [
        QuotaUse(kind, name, amount, getattr(view.tally(kind, name), amount), limit)
        for kind, name, quota in QuotasInForce(view).of_uri(first.uri, queue)
        for amount, limit in quota
    ]


def of_heads(view: View) -> Callable[[QueueRecord], bool | None]:
    """Return the function that returns whether a quota of a queue's next URI is used up; None if it has no quota."""
    quotas, heads = QuotasInForce(view), HeadUrls(view)

    def quota_used(queue: QueueRecord) -> bool | None:
        if not quotas.kinds:
            return None
        url, label = heads.subject(queue)
        uri = CrawlUri(url or NO_URL, source=label)
        if url is None or not quotas.of_uri(uri, queue):
            return None
        return any(quotas.used_up(uri, queue))

    return quota_used
