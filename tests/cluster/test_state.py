"""The rows by which a partition goes on, in any of which one wrong bit is found, and never gone by."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier.cluster.log import state
from budgetfrontier.cluster.log.entries import SliceGranted
from budgetfrontier.cluster.log.state import KnownCommands, LogPlace, QuotaState
from budgetfrontier.cluster.partitions.partition_copy import PartitionCopy
from budgetfrontier.cluster.quotas.quota_slices import Amounts
from budgetfrontier.engine.peer_table import PeerTable
from budgetfrontier.errors import CorruptFrontier, FrontierError
from budgetfrontier.settings import Settings
from budgetfrontier.storage import keys, meta
from budgetfrontier.storage.damage import Damage
from budgetfrontier.storage.environment import Environment
from budgetfrontier.storage.reader import Reader
from budgetfrontier.storage.verify import verify
from tests.cluster.log import CRAWL, PARTITIONS, Log, Owner

KINDS: dict[bytes, Any] = {meta.PLACE: LogPlace, meta.NOTE: QuotaState, meta.COMMANDS: KnownCommands}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a copy that has each of the rows."""
    log = Log(Settings.from_dict({"crawl": CRAWL, "cluster": {"max_uris": 1000}}))
    with closing(Owner(tmp_path, log)) as owner:
        owner.schedule("https://a.test/", "https://b.test/")
        owner.lease()
        log.tell((3, 1), SliceGranted(Amounts(7, 0)))
        log.steer(b"command1", "retire", {"queue": "a.test"})
        owner.commit()
    return tmp_path


def stored(folder: Path, name: bytes) -> bytes:
    with Reader(folder / "frontier") as reader:
        row = reader.row(name)
    assert row is not None
    return row


def flipped(row: bytes) -> list[bytes]:
    """Return a row with each of its bits changed, one at a time."""
    number = int.from_bytes(row, "big")
    return [(number ^ 1 << bit).to_bytes(len(row), "big") for bit in range(8 * len(row))]


@pytest.mark.parametrize("name", sorted(KINDS))
def test_one_wrong_bit_in_a_row_is_refused_as_damage(folder: Path, name: bytes) -> None:
    row = stored(folder, name)
    assert state.encode(state.decode(row, KINDS[name])) == row
    wrong = flipped(row)
    assert len(wrong) > 100
    for other in wrong:
        with pytest.raises(CorruptFrontier, match="restore a snapshot"):
            state.decode(other, KINDS[name])


def test_a_copy_at_a_wrong_place_is_not_opened_nor_sound(folder: Path) -> None:
    row = stored(folder, meta.PLACE)
    for other in flipped(row)[:: len(row)]:
        with closing(Environment(folder / "frontier")) as env:
            env.txn.put(meta.PLACE, other, db=env.db[keys.META])
            env.commit()
        with pytest.raises(CorruptFrontier):
            PartitionCopy(folder, CRAWL, 0, PARTITIONS)
        with pytest.raises(CorruptFrontier):
            state.place_in(folder / "frontier")
        with pytest.raises(CorruptFrontier, match=r"meta: place: "):
            verify(folder / "frontier")


def test_without_its_place_a_copy_is_refused(folder: Path) -> None:
    """As it is where a bit of the name is wrong."""
    with closing(Environment(folder / "frontier")) as env:
        env.txn.delete(meta.PLACE, db=env.db[keys.META])
        env.commit()
    with pytest.raises(FrontierError, match="no copy of a partition"):
        PartitionCopy(folder, CRAWL, 0, PARTITIONS)


@pytest.mark.parametrize("name", [meta.NOTE, meta.COMMANDS])
def test_a_wrong_bit_in_quotas_or_commands_is_found_by_the_check(folder: Path, name: bytes) -> None:
    row = stored(folder, name)
    with closing(Environment(folder / "frontier")) as env:
        env.txn.put(name, flipped(row)[len(row)], db=env.db[keys.META])
        env.commit()
    with pytest.raises(CorruptFrontier, match=f"meta: {name.decode()}: "):
        verify(folder / "frontier")


def test_one_wrong_bit_in_what_was_heard_of_a_partition_is_refused(tmp_path: Path) -> None:
    """Its links would be dropped, or its grants be taken twice."""
    with closing(Environment(tmp_path / "frontier")) as env:
        peers = PeerTable(env)
        peers.hear(1, (70, 2))
        peers.tell(1, (9, 0))
        assert (peers.heard(1), peers.told(1)) == ((70, 2), (9, 0))
        key = keys.u32.pack(1)
        for other in flipped(bytes(env.txn.get(key, db=env.db[keys.PEERS]) or b"")):
            env.txn.put(key, other, db=env.db[keys.PEERS])
            with pytest.raises(Damage, match="another checksum"):
                peers.heard(1)
