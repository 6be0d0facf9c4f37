"""The client of a crawl in partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import cast

import pytest

from budgetfrontier.bus.interface import BusError
from budgetfrontier.client import RemoteFrontier
from budgetfrontier.cluster.asynchronous import AsyncClusterFrontier
from budgetfrontier.cluster.client import ClusterFrontier
from budgetfrontier.cluster.kafka import Place, place, place_of
from budgetfrontier.cluster.owners import MemoryDirectory, Owner
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


class Away(MemoryDirectory):
    """A directory that answers no more."""

    away = False

    def read(self) -> Mapping[int, Owner]:
        if self.away:
            raise BusError("Kafka: away")
        return super().read()


def test_owners_stay_known_while_the_directory_does_not_answer() -> None:
    directory = Away()
    directory.publish(Owner(0, 1, "w", "127.0.0.1:1", 0.0, 1))
    frontier, twin = ClusterFrontier("test", directory), AsyncClusterFrontier("test", directory)
    assert frontier.partitions == 1
    asyncio.run(twin._refresh())
    directory.away, twin._read_at = True, -1.0
    frontier._refresh()
    asyncio.run(twin._refresh())
    assert frontier._owners == twin._owners == {0: "127.0.0.1:1"}
    with pytest.raises(BusError):
        frontier.owners()
    with pytest.raises(BusError):
        ClusterFrontier("test", directory).owners()


def test_a_crawl_has_its_name_whatever_is_in_it() -> None:
    assert place_of("a?b%41", "h:1,i:2?x=y") == Place("h:1,i:2", "a?b%41", {"x": "y"})
    assert place("kafka://h:1,i:2/a%3Fb%2541?x=y") == place_of("a?b%41", "h:1,i:2?x=y")
