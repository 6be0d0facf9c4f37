"""Forwarding of links to other partitions, without those that were sent lately."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from msgspec.structs import replace

from budgetfrontier.cluster.partitions.routing import Router
from budgetfrontier.core.bounded_cache import BoundedCache
from budgetfrontier.core.model import CrawlUri, Lease
from budgetfrontier.core.protocol import Ended, Uri
from budgetfrontier.storage.uri_values import link_hops

TOGETHER: Final = 500
"""URIs in one entry for another partition: no more bytes than an entry may have, whatever their length."""
RECENT: Final = 200_000
"""URLs found for other partitions that are remembered, so that they are not sent again soon."""


class LinkForwarding:
    """The URIs that one partition has found for others since it was opened."""

    def __init__(self, own: int) -> None:
        self._own = own
        self._recent: BoundedCache[str, None] = BoundedCache(RECENT)

    def __repr__(self) -> str:
        return f"<LinkForwarding of partition {self._own}>"

    def take(
        self, ended: list[int | Ended], router: Router, leased: Callable[[int], Lease | None]
    ) -> Iterator[tuple[int, list[Uri]]]:
        """Leave the own URIs in the ends of leases; yield the others that are to be sent, by partition, in parts.

        `leased` returns a lease that is out by its id; URIs found under one that has ended are not counted.
        """
        elsewhere: dict[int, list[Uri]] = {}
        for each in ended:
            if isinstance(each, int) or not each.discovered:
                continue
            parts = router.split(each.discovered, otherwise=self._own)
            own = parts.pop(self._own, [])
            if parts:
                each.discovered = own
                if (lease := leased(each.id)) is not None:
                    self._collect(lease.uri, parts, elsewhere)
        for number, found in elsewhere.items():
            for start in range(0, len(found), TOGETHER):
                yield number, found[start : start + TOGETHER]

    def _collect(self, page: CrawlUri, parts: dict[int, list[Uri]], elsewhere: dict[int, list[Uri]]) -> None:
        via, hops, label, recent = page.url, link_hops(page), page.source, self._recent
        for partition, found in parts.items():
            sent = elsewhere.setdefault(partition, [])
            for uri in found:
                if isinstance(uri, str):
                    if uri in recent:
                        continue
                    recent.put(uri, None)
                    sent.append(CrawlUri(uri, via=via, hops=hops, source=label))
                elif uri is not None:
                    own = label if uri.source is None else uri.source
                    sent.append(replace(uri, via=uri.via or via, hops=uri.hops or hops, source=own))
