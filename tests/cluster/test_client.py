"""The client of a crawl in partitions."""

from __future__ import annotations

from typing import cast

from budgetfrontier.client import RemoteFrontier
from budgetfrontier.cluster.client import ClusterFrontier
from budgetfrontier.cluster.owners import MemoryDirectory
from budgetfrontier.errors import NotOwner


class Remote:
    """A connection to a worker."""

    closed = False

    def close(self) -> None:
        self.closed = True
        raise NotOwner


def test_it_closes_although_partitions_have_moved_since_it_leased() -> None:
    frontier, remotes = ClusterFrontier("test", MemoryDirectory()), {"a": Remote(), "b": Remote()}
    frontier._remotes = cast("dict[str, RemoteFrontier]", remotes)
    frontier.close()
    assert all(remote.closed for remote in remotes.values())
