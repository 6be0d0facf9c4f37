"""Repair of the list of seeds: rows come back with a new index, and lost ones that wait are listed again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from budgetfrontier import CrawlUri, Directive, Outcome, Reader
from budgetfrontier.clock import ManualClock
from budgetfrontier.storage import keys, verify
from budgetfrontier.storage.repair.repair_steps import repair
from budgetfrontier.storage.seed_list import rows
from tests.storage.repair.damaging import Damage, damaging
from tests.support import START, on_disk, one


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A frontier with a seed that is done, one that was imported and waits, and one scheduled for later."""
    with on_disk(tmp_path, ManualClock(START), cost_policy="unit") as f:
        f.schedule(CrawlUri("https://done.test/", directive=Directive.MEDIUM))
        f.finish(one(f), Outcome.SUCCESS, reason="status 200")
        imported = CrawlUri("https://b.test/", directive=Directive.MEDIUM, meta={"seed": "https://b.test/"})
        f.schedule_many([imported, CrawlUri("https://c.test/", directive=Directive.MEDIUM, not_before=START + 9)])
    return tmp_path / "frontier"


def listed(path: Path) -> list[tuple[int, str, str]]:
    with Reader(path) as reader, reader.view() as view:
        return [(position, row.url, str(row.fate)) for position, row in rows(view)]


def test_a_sound_list_comes_through(path: Path) -> None:
    before = listed(path)
    assert before == [
        (1, "https://done.test/", "SUCCEEDED"), (2, "https://b.test/", "WAITING"), (3, "https://c.test/", "WAITING"),
    ]  # fmt: skip
    repair(path)
    assert listed(path) == before


def lose_index(tables: Damage) -> None:
    for key in [key for key, _ in tables.items(keys.SEED_KEYS)]:
        tables.delete(keys.SEED_KEYS, key)


def spoil_row(tables: Damage) -> None:
    tables.put(keys.SEEDS, keys.u64.pack(1), b"\xc1")


@pytest.mark.parametrize(("damage", "left"), [(lose_index, 3), (spoil_row, 2)])
def test_the_index_is_made_anew_and_rows_that_cannot_be_read_are_left_out(
    path: Path, damage: Callable[[Damage], None], left: int
) -> None:
    with damaging(path) as tables:
        damage(tables)
    repair(path)
    verify.verify(path)
    assert len(listed(path)) == left
