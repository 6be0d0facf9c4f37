"""A directory of a crawl in the memory of this process."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence

from msgspec import structs

from budgetfrontier.cluster.directory.copy_offers import CopyNotice
from budgetfrontier.cluster.directory.owners import Owner, Owners
from budgetfrontier.cluster.directory.summaries import PartitionSummary


class MemoryDirectory:
    """A directory that workers and clients of this process share."""

    def __init__(self) -> None:
        self._owners = Owners()
        self._summaries = dict[int, PartitionSummary]()
        self._copies = dict[str, CopyNotice]()
        self._suffix_list: str | None = None

    def publish(self, *owners: Owner) -> None:
        """Store owners."""
        for owner in owners:
            self._owners.note(owner)

    def read(self) -> Mapping[int, Owner]:
        """Return the owners as of now."""
        return Owners(self._owners)

    def forget_owners(self) -> None:
        """Lose all owners, as a topic does whose rows are deleted."""
        self._owners.clear()

    def publish_copies(self, *notices: CopyNotice) -> None:
        """Store searches for copies, and offers."""
        now = time.time()
        self._copies |= {notice.key: structs.replace(notice, at=now) for notice in notices}

    def copies(self) -> Collection[CopyNotice]:
        """Return the last ones."""
        return [*self._copies.values()]

    def publish_summaries(self, found: Sequence[PartitionSummary]) -> None:
        """Store summaries."""
        now = time.time()
        self._summaries |= {one.standing.partition: structs.replace(one, at=now) for one in found}

    def summaries(self) -> Mapping[int, PartitionSummary]:
        """Return the summaries."""
        return dict(self._summaries)

    def forget_summaries(self) -> None:
        """Lose all summaries."""
        self._summaries.clear()

    def suffix_list(self, own: str | None = None) -> str | None:
        """Return the list that was given first."""
        if self._suffix_list is None:
            self._suffix_list = own
        return self._suffix_list

    def close(self) -> None:
        """Do nothing."""
