"""The rows by which a partition goes on, in any of which one wrong bit is found, and never gone by."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from msgspec.structs import replace

from budgetfrontier.cluster.log import state
from budgetfrontier.cluster.log.entries import SliceGranted
from budgetfrontier.cluster.log.log_reading import LogGap
from budgetfrontier.cluster.log.state import KnownCommands, LogPlace, QuotaState
from budgetfrontier.cluster.partitions import partition_copy
from budgetfrontier.cluster.partitions.partition_copy import PartitionCopy
from budgetfrontier.cluster.quotas.quota_slices import Amounts
from budgetfrontier.engine.peer_table import PeerTable
from budgetfrontier.engine.remote import steer
from budgetfrontier.errors import CorruptFrontier, FrontierError
from budgetfrontier.settings import Settings
from budgetfrontier.storage import keys, meta
from budgetfrontier.storage.damage import Damage
from budgetfrontier.storage.environment import Environment
from budgetfrontier.storage.reader import Reader
from budgetfrontier.storage.repair.repair_steps import repair
from budgetfrontier.storage.verify import verify
from budgetfrontier.tools.cli import main
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


def test_commands_on_the_folder_of_a_copy_are_refused_whether_its_worker_runs_or_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody reads a mailbox there: what was left in it would be lost."""
    with closing(Owner(tmp_path / "one", Log())) as owner:
        owner.commit()
        for _ in range(2):
            with pytest.raises(FrontierError, match="is a copy of a partition, which its log alone may change"):
                steer(tmp_path / "one" / state.FRONTIER, "pause", {})
            for command in (["import", "https://a.test/"], ["pause"]):
                assert main([command[0], str(tmp_path / "one"), *command[1:]]) != 0
                told = capsys.readouterr()
                assert told.out == "" and "give the crawl with --cluster" in " ".join(told.err.split())
                assert "not counted" not in told.err
            assert not [*(tmp_path / "one").rglob("*mailbox*")]
            owner.close()


def test_a_copy_that_was_repaired_is_no_copy_any_more(folder: Path) -> None:
    repair(folder / state.FRONTIER)
    with pytest.raises(state.NotACopy, match="a copy that `verify --repair` has changed, and no copy of a partition"):
        PartitionCopy(folder, CRAWL, 0, PARTITIONS)


def placed(folder: Path, change: Callable[[LogPlace], LogPlace]) -> None:
    """Store another place in a copy, with the checksum that it needs: no wrong bit, but a fault of a program."""
    with closing(Environment(folder / state.FRONTIER)) as env:
        row = env.txn.get(meta.PLACE, db=env.db[keys.META])
        assert row is not None
        env.txn.put(meta.PLACE, state.encode(change(state.decode(bytes(row), LogPlace))), db=env.db[keys.META])
        env.commit()


def test_a_copy_whose_epoch_is_not_one_of_its_log_is_damaged(tmp_path: Path) -> None:
    log = Log()
    for number in range(3):
        with closing(Owner(tmp_path / "one", log)) as owner:
            owner.schedule(f"https://a.test/{number}")
            owner.commit()
            owner.schedule(f"https://b.test/{number}")
    placed(tmp_path / "one", lambda place: replace(place, epoch=place.epoch - 1))
    with (
        closing(PartitionCopy(tmp_path / "one", CRAWL, 0, PARTITIONS)) as copy,
        pytest.raises(CorruptFrontier, match="the place of the copy in its log is wrong"),
    ):
        copy.apply(log.entries[copy.reading.position :])


def test_a_copy_with_changes_that_its_log_has_not_is_never_claimed(tmp_path: Path) -> None:
    log = Log()
    with closing(Owner(tmp_path, log)) as owner:
        for number in range(3):
            owner.schedule(f"https://a.test/{number}")
        owner.commit()
    placed(tmp_path, lambda place: replace(place, position=1))
    for end, raises in ((len(log.entries), False), (len(log.entries) - 1, True)):
        with closing(PartitionCopy(tmp_path, CRAWL, 0, PARTITIONS)) as copy:
            copy.claims_behind = end
            assert not copy.may_be_claimed()
            copy.apply(log.entries[copy.reading.position : end])
            if raises:
                with pytest.raises(CorruptFrontier, match="has the changes up to"):
                    copy.may_be_claimed()
            else:
                assert copy.may_be_claimed()


def test_offsets_that_are_no_entries_keep_no_claim_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log may end with control records of a transaction, which nobody is given."""
    with closing(PartitionCopy(tmp_path, CRAWL, 0, PARTITIONS)) as copy:
        copy.claims_behind = 1
        assert not copy.may_be_claimed()
        monkeypatch.setattr(partition_copy, "STILL", 0.0)
        assert copy.may_be_claimed()
        copy.claims_at = monotonic() + 3600
        assert not copy.may_be_claimed()


def test_changes_of_an_owner_that_had_not_all_before_are_told_where_they_are(tmp_path: Path) -> None:
    """Whatever has led there: nobody goes on silently with one half of the changes."""
    log = Log()
    with closing(Owner(tmp_path / "one", log)) as owner:
        owner.schedule("https://a.test/0")
        owner.commit()
        shutil.copytree(tmp_path / "one", tmp_path / "old")
        for number in range(1, 4):
            owner.schedule(f"https://a.test/{number}")
        owner.commit()
    count = len(log.entries)
    placed(tmp_path / "old", lambda place: replace(place, position=count))
    with closing(Owner(tmp_path / "old", log)) as old:
        old.schedule("https://b.test/")
        old.commit()
    for folder in (tmp_path / "one", tmp_path / "new"):
        with (
            closing(PartitionCopy(folder, CRAWL, 0, PARTITIONS)) as copy,
            pytest.raises(LogGap, match=r"the changes at offset \d+ have the number \d, and \d came before them"),
        ):
            copy.apply(log.entries[copy.reading.position :])
