"""Repair of the groups of queues: sums and indexes are made anew, and queues whose group is lost choose one again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from budgetfrontier import Frontier, Settings
from budgetfrontier.clock import ManualClock
from budgetfrontier.errors import CorruptFrontier
from budgetfrontier.storage import keys, verify
from budgetfrontier.storage.repair.repair_steps import repair
from tests.storage.repair.damaging import Damage, damaging
from tests.support import START, make_settings, pages

GROUPS = [{"name": "all", "match": "*", "politeness": True}]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A frontier with a group whose clock is ahead, and three queues that wait for it."""
    settings = Settings.from_dict(make_settings(polite=True, hold_queues=False).to_dict() | {"groups": GROUPS})
    with Frontier.open(tmp_path / "frontier", settings, clock=ManualClock(START)) as f:
        f.schedule_many(pages("abc", 2))
        f.finish(f.lease(1)[0], size=70)
        assert f.lease(9) == []
    return tmp_path / "frontier"


def order(path: Path) -> list[tuple[float, str]]:
    clock = ManualClock(START)
    with Frontier.open(path, clock=clock) as f:
        found = []
        while (wait := f.next_ready_in()) is not None:
            clock.advance(wait)
            for lease in f.lease(9):
                found.append((clock.time() - START, lease.queue[0]))
                f.finish(lease)
        f.check()
    return found


def lose_record(tables: Damage) -> None:
    tables.delete(keys.GROUPS, keys.u32.pack(1))


def lose_all(tables: Damage) -> None:
    lose_record(tables)
    tables.delete(keys.GROUP_IDS, b"all")


def spoil_record(tables: Damage) -> None:
    tables.put(keys.GROUPS, keys.u32.pack(1), b"\xc1")


def lose_parked(tables: Damage) -> None:
    for key, _ in tables.items(keys.PARKED):
        tables.delete(keys.PARKED, key)


def lose_wakes(tables: Damage) -> None:
    for key, _ in tables.items(keys.GROUP_WAKES):
        tables.delete(keys.GROUP_WAKES, key)


def lose_a_queue(tables: Damage) -> None:
    tables.delete(keys.QUEUES, tables.queue("b.test"))


def count_wrongly(tables: Damage) -> None:
    tables.change_queue("b.test", expenditure=900)


def test_a_sound_group_comes_through(path: Path) -> None:
    assert repair(path).changes == 0
    assert order(path) == [(3.0, "b"), (6.0, "c"), (9.0, "a"), (12.0, "b"), (15.0, "c")]


@pytest.mark.parametrize(
    "damage", [lose_record, lose_all, spoil_record, lose_parked, lose_wakes, lose_a_queue, count_wrongly]
)
def test_what_is_lost_is_made_anew(path: Path, damage: Callable[[Damage], None]) -> None:
    with damaging(path) as tables:
        damage(tables)
    with pytest.raises(CorruptFrontier):
        verify.verify(path)
    repair(path)
    verify.verify(path)
    found = order(path)
    assert sorted(letter for _, letter in found) == list("abbcc")
    assert len({when for when, _ in found}) == 5  # one at a time
