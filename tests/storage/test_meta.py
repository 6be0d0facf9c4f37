"""The table `meta`: what is written is read again, and what cannot be read is named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier.errors import CorruptFrontier
from budgetfrontier.settings import Settings
from budgetfrontier.settings.overrides import validate_override
from budgetfrontier.storage import keys, lock_table, meta
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.lmdb_env import create_environment, open_lmdb
from budgetfrontier.storage.records import Counters, Progress, StartedCommand

BEGUN = StartedCommand(5, "delete", {"queue": "a*"}, "somebody", "a reason", 9)


class Meta:
    """The table of a new environment, in one transaction."""

    def __init__(self, txn: keys.Txn, db: Any) -> None:
        self.txn, self.db = txn, db

    def read(self, name: str) -> Any:
        return getattr(meta, f"read_{name}")(self.txn, self.db)

    def write(self, name: str, *values: Any) -> None:
        getattr(meta, f"write_{name}")(self.txn, self.db, *values)


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Meta]:
    env = open_lmdb(create_environment(tmp_path))
    with env.begin(write=True) as txn:
        yield Meta(txn, env.open_db(keys.META.encode(), txn=txn))
    lock_table.close(env)


def test_a_new_frontier_has_neither_settings_nor_a_command(table: Meta) -> None:
    assert table.read("settings") == (None, [])
    assert table.read("suffixes") is None and table.read("begun") is None
    assert table.read("counters") == Counters()


def test_what_is_written_is_read_again(table: Meta) -> None:
    settings = Settings.from_dict({"crawl": "news", "frontier": {"queue_total_budget": 5}})
    adjustments = [validate_override("host:a.test", {"retry.delay": "1h"})]
    table.write("settings", settings, adjustments)
    assert table.read("settings") == (settings, adjustments)
    table.write("suffixes", "com\nco.uk\n")
    assert table.read("suffixes") == "com\nco.uk\n"


def test_a_command_in_progress_is_there_until_it_ends(table: Meta) -> None:
    begun, progress = BEGUN, Progress([7, "a.test"], {"deleted": 3})
    table.write("begun", begun)
    assert table.read("begun") is None  # both parts are written with one transaction
    table.write("progress", progress)
    assert table.read("begun") == (begun, progress)
    meta.end_begun(table.txn, table.db)
    assert table.read("begun") is None


@pytest.mark.parametrize(
    ("record", "read", "told"),
    [
        (b"counters", "counters", "the totals cannot be read"),
        (b"settings", "settings", "the stored settings cannot be read"),
        (b"adjustments", "settings", "the stored settings cannot be read"),
        (b"suffixes", "suffixes", "the stored public suffix list cannot be read"),
        (b"command", "begun", "the command in progress cannot be read"),
        (b"progress", "begun", "the command in progress cannot be read"),
    ],
)
def test_what_cannot_be_read_is_named(table: Meta, record: bytes, read: str, told: str) -> None:
    table.write("begun", BEGUN)
    table.write("progress", Progress([], {}))
    assert table.txn.put(record, b"\xc1", db=table.db) and record in meta.NAMES
    with pytest.raises(CorruptFrontier, match=told):
        table.read(read)


def test_positions_beyond_the_end_of_the_ring_are_damage(table: Meta) -> None:
    table.txn.put(b"counters", encode(Counters(ring_back=(1 << 62) + 1)), db=table.db)
    with pytest.raises(CorruptFrontier, match="totals cannot be read"):
        table.read("counters")
