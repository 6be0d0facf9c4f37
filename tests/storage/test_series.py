"""The records of the time series: what they hold, and how damage is met."""

from __future__ import annotations

from pathlib import Path

import pytest

from budgetfrontier import Reader
from budgetfrontier.clock import ManualClock
from budgetfrontier.core.model import Summary
from budgetfrontier.core.vocabulary import QueueState
from budgetfrontier.rules.busiest import Busy
from budgetfrontier.rules.series_periods import Resolution
from budgetfrontier.storage import keys, series
from budgetfrontier.storage.damage import Damage
from budgetfrontier.storage.encoding import encode
from tests.support import START, memory, on_disk, pages


def test_a_row_has_every_total_of_a_summary() -> None:
    with memory() as f:
        f.schedule_many(pages("AB", 2))
        totals = f.summary()
    row = series.row_of(totals, 5.0)
    numbers = {name for name in Summary.__struct_fields__ if type(getattr(totals, name)) is int}
    assert {name: getattr(row, name) for name in numbers} == {name: getattr(totals, name) for name in numbers}
    states = (row.ready, row.in_process_queues, row.snoozed, row.inactive, row.ineligible, row.retired)
    assert (*states, row.exhausted) == tuple(totals.queues[state] for state in QueueState)
    assert (row.time, row.begins) == (5.0, False)
    assert len(encode(row)) < 120


def test_the_busiest_queues_can_be_read_again() -> None:
    busy = Busy({7: (5, 2), 9: (1 << 40, 3)}, (4, 3), (8, 7))
    assert series.decode_busy(series.encode_busy(busy)) == busy


@pytest.mark.parametrize(
    ("resolution", "value"),
    [
        (Resolution.BUSIEST_OF_HOUR, encode([0, [1, 2]])),
        (Resolution.BUSIEST_OF_DAY, encode([0, [-1, 2, 3]])),
        (Resolution.MINUTE, encode(["then"])),
        (Resolution.DAY, encode([float("inf")])),
        (99, encode([1.0])),
    ],
)
def test_damage_is_found(resolution: int, value: bytes) -> None:
    with pytest.raises(Damage):
        series.check_row(keys.series.pack(resolution, 0), value)


def test_times_beyond_those_of_keys_are_clipped() -> None:
    assert series.series_key(Resolution.MINUTE, -1.0) == series.series_key(Resolution.MINUTE, 0)
    assert series.series_key(Resolution.MINUTE, float("inf")) == series.series_key(Resolution.MINUTE, 2**32)


def test_rows_may_begin_with_the_last_one_before_the_time(tmp_path: Path) -> None:
    hour, day = 3600, 86_400
    today = int(START // day * day)
    noon = today + 3 * hour
    with on_disk(tmp_path, ManualClock(noon + day / 2)) as f:
        env = f._tables.env
        for resolution, key, length in [
            *((Resolution.DAY, today - number * day, day) for number in (2, 1)),
            *((Resolution.HOUR, today + number * hour, hour) for number in range(3)),
            *((Resolution.MINUTE, noon + number * 60, 1) for number in range(3)),
        ]:
            row = series.SeriesRow(key + length - 0.5)  # the last one of its period
            env.txn.put(series.series_key(resolution, key), encode(row), db=env.db[keys.SERIES])
    with Reader(tmp_path / "frontier") as reader:
        assert reader.series(noon + 180, noon + 200) == []
        for since, first in [
            (noon + 121.5, noon + 120.5),
            (noon + 0.7, noon - 0.5),
            (noon - 1, noon - hour - 0.5),
            (today, today - 0.5),
            (today - 1, today - day - 0.5),
            (today - 5 * day, today - day - 0.5),
        ]:
            assert reader.series(since, noon + 200, preceded=True)[0].time == first


def test_the_busiest_queues_of_days_and_hours_are_added_up(tmp_path: Path) -> None:
    with on_disk(tmp_path, ManualClock(START)) as f:
        f.schedule_many(pages("AB", 1))
        a_record = f._tables.queues.find("a.test")
        assert a_record is not None
        a_record.expenditure, a_record.charges = 8, 3
        env, a, b = f._tables.env, f._tables.queues.look_up("a.test"), f._tables.queues.look_up("b.test")
        assert a is not None
        assert b is not None
        day = 86_400
        for resolution, time, queue in [
            (Resolution.BUSIEST_OF_DAY, day, a),
            (Resolution.BUSIEST_OF_HOUR, 2 * day, a),
            (Resolution.BUSIEST_OF_HOUR, 2 * day + 3600, b),
        ]:
            value = series.encode_busy(Busy({queue.id: (3, 1)}, (2, 1), (5, 1)))
            env.txn.put(series.series_key(resolution, time), value, db=env.db[keys.SERIES])
    with Reader(tmp_path / "frontier") as reader:
        found = reader.busiest(day + 5, 2 * day + 10)
        assert [(queue.queue, queue.spent, queue.fetched) for queue in found.queues] == [("a.test", 6, 2)]
        assert [(queue.spent_most, queue.fetched_most) for queue in found.queues] == [(8, 3)], "it has spent 8 in all"
        assert (found.since, found.until, found.others_spent, found.exact) == (day, 2 * day + 3600, 10, False)
        nothing = reader.busiest(3 * day, 4 * day)
        assert (nothing.queues, nothing.others_spent, nothing.exact) == ([], 0, True)
