"""The owners of partitions: the worker that has each, and its address."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

import msgspec

from budgetfrontier.cluster.directory.copy_offers import CopyNotice


class Owner(msgspec.Struct, array_like=True, frozen=True):
    """The owner of a partition since its claim with an `epoch`; an empty `address` says that it has given it up."""

    partition: int
    epoch: int
    worker: str
    address: str
    since: float
    """When it was claimed (epoch seconds of the broker's clock)."""
    partitions: int
    """The number of partitions of the crawl."""
    log: str = ""
    """The identity of the log that has the claim, if the bus has any: epochs of another log say nothing."""


class Directory(Protocol):
    """A table of owners that all workers and clients of a crawl share; the claim with the highest epoch counts."""

    def publish(self, *owners: Owner) -> None:
        """Store owners, at once or once the broker answers."""

    def read(self) -> Mapping[int, Owner]:
        """Return the owners as of now, by partition. Raises BusError."""

    def suffix_list(self, own: str | None = None) -> str | None:
        """Return the public suffix list of the crawl; if it has none yet, `own` becomes it, for good. Raises BusError.

        With lists that differ, two processes would look for the URIs of a registered domain in two partitions.
        """

    def close(self) -> None:
        """Close the connection, once the published entries are there."""


class WorkerDirectory(Directory, Protocol):
    """A directory as workers have it, with their searches for copies and their offers."""

    def publish_copies(self, *notices: CopyNotice) -> None:
        """Store searches and offers, at once or once the broker answers."""

    def copies(self) -> Collection[CopyNotice]:
        """Return the last search and the last offer of each worker for each partition. Raises BusError."""


class Owners(dict[int, Owner]):
    """The owners by partition."""

    def note(self, owner: Owner) -> None:
        """Take an owner unless a later one is known: it may have lost the partition, and not know that yet.

        One that gives up ends its own claim only.
        """
        known = self.get(owner.partition)
        is_later = known is None or (
            owner.epoch >= known.epoch if owner.log == known.log else owner.since > known.since
        )
        if is_later:
            self[owner.partition] = owner
