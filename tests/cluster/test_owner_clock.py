"""The time of a partition: that of its owner's clock, which a claim sets back if the clock before was ahead."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from time import time

import pytest

from budgetfrontier import CrawlState, Settings
from budgetfrontier.bus.kafka import KafkaBus
from budgetfrontier.cluster.entries import Claimed, Found, NewerEntry, Steered, encode
from budgetfrontier.cluster.owners import MemoryDirectory
from budgetfrontier.cluster.partition import AHEAD
from budgetfrontier.core import protocol
from budgetfrontier.core.protocol import Uris, Wanted
from tests.cluster.log import CRAWL, Log, Owner, contents
from tests.cluster.test_partition import OWN, replica_contents
from tests.cluster.test_worker import bus, crawl, running
from tests.support import START, until

__all__ = ["bus", "crawl"]


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    with closing(Owner(tmp_path / "one", Log())) as owner:
        yield owner


def test_what_others_write_does_not_move_the_time(owner: Owner) -> None:
    owner.log.time += 600
    owner.log.find(1, f"https://{OWN[0]}/")
    owner.log.append(Found(2, (1, 0), [f"https://{OWN[1]}/"]))
    owner.apply()
    assert owner.partition.state.time == START
    owner.log.time = START + 1
    assert len(owner.lease(2)) == 2
    assert owner.partition.state.time == START + 1


def test_a_claim_sets_the_time_back_and_cuts_waits_and_keeps_leases(owner: Owner, tmp_path: Path) -> None:
    owner.schedule(*(f"https://{host}/{page}" for host in OWN[:2] for page in range(2)))
    owner.log.time += 6000  # the clock of this owner is ahead
    first, second = owner.lease(2)
    owner.finish(first.id)
    owner.log.time = START + 10  # the next owner's is right
    owner.epoch = owner.log.claim("two")
    owner.apply()
    assert owner.partition.state.time == START + 10
    owner.log.time = START + 10 + 299
    assert owner.finish(second.id) == []
    owner.log.time = START + 10 + 900  # the longest delay
    assert {lease.queue for lease in owner.lease(2)} == {first.queue, second.queue}
    assert replica_contents(tmp_path / "other", owner.log) == contents(owner.partition)


def test_a_small_difference_of_clocks_does_not_set_the_time_back(owner: Owner) -> None:
    owner.log.time -= AHEAD - 1
    owner.epoch = owner.log.claim("two")
    owner.apply()
    assert owner.partition.state.time == START


def test_an_owner_sets_the_time_of_its_partitions_back_to_its_clock(bus: KafkaBus, tmp_path: Path, crawl: str) -> None:
    with running(bus, crawl, tmp_path / "one", MemoryDirectory()) as one:
        until(lambda: len(one.worker.owned) == 4)
        one.call(0, protocol.SCHEDULE_MANY, Uris([f"https://{OWN[0]}/"]))
        ahead = encode(Steered(b"12345678", "apply", ["pause", {}, "me", "", ""], {}), crawl=crawl, time=time() + 900)
        one.worker._writer.write(0, ahead)
        until(lambda: one.worker._open[0].state.time < time() + 1 and one.worker._open[0].state.commands)
        until(lambda: 0 in one.worker.owned)
        one.worker.append(0, Steered(b"87654321", "apply", ["resume", {}, "me", "", ""], {}))
        until(lambda: len(one.worker._open[0].state.commands) == 2)
        assert len(one.call(0, protocol.LEASE, Wanted(1, 300.0))) == 1
    assert one.error is None


def test_a_partition_that_has_nothing_left_for_now_does_not_pause_at_its_finish(tmp_path: Path) -> None:
    settings = Settings.from_dict({"crawl": CRAWL, "frontier": {"pause_at_finish": True}})
    with closing(Owner(tmp_path / "one", Log(settings))) as owner:
        owner.schedule(f"https://{OWN[0]}/")
        (lease,) = owner.lease()
        owner.finish(lease.id)
        assert owner.partition.frontier.state is CrawlState.FINISHED
        owner.log.find(1, f"https://{OWN[1]}/")
        owner.apply()
        assert len(owner.lease()) == 1


def test_a_claim_with_settings_of_a_newer_release_says_so(owner: Owner) -> None:
    settings = owner.log.settings.to_dict() | {"new_setting": 1}
    offset = owner.log.append(Claimed("newer", b"newer", settings))
    owner.partition.commit()
    with pytest.raises(NewerEntry, match=f"partition 0 of 'test': the worker newer .* offset {offset} .*new_setting"):
        owner.apply()
