"""The records of the time series: what they hold, and how damage is met."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
        (Resolution.DAY, encode(series.SeriesRow(7.0, stopped=float("nan")))),
        (99, encode([1.0])),
    ],
)
def test_damage_is_found(resolution: int, value: bytes) -> None:
    with pytest.raises(Damage):
        series.check_row(keys.series.pack(resolution, 0, 0), value)


def test_times_beyond_those_of_keys_are_clipped() -> None:
    assert series.series_key(Resolution.MINUTE, -1.0) == series.series_key(Resolution.MINUTE, 0)
    assert series.series_key(Resolution.MINUTE, float("inf")) == series.series_key(Resolution.MINUTE, 2**32)


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Callable[..., None]]:
    """A function that stores rows of a resolution: each its time and its run, and whether the run begins there."""
    with on_disk(tmp_path, ManualClock(START)) as f:
        env = f._tables.env

        def store(resolution: Resolution, *rows: tuple[float, int, bool]) -> None:
            for time, run, begins in rows:
                row = series.SeriesRow(time, begins, run=run)
                env.txn.put(series.row_key(resolution, row), encode(row), db=env.db[keys.SERIES])
            env.commit()

        yield store


def preceded(tmp_path: Path, since: float) -> list[float]:
    with Reader(tmp_path / "frontier") as reader:
        return [row.time for row in reader.series(since, preceded=True) if row.time < START]


def test_rows_may_begin_with_the_last_one_before_the_time(tmp_path: Path, stored: Callable[..., None]) -> None:
    stored(Resolution.DAY, (50.0, 1, True), (99.5, 1, False))
    stored(Resolution.HOUR, (199.5, 1, False), (299.5, 1, False))
    stored(Resolution.MINUTE, (300.5, 1, False), (400.5, 2, True), (401.5, 2, False))
    times = [50.0, 99.5, 199.5, 299.5, 300.5, 400.5, 401.5]
    for since, first in [(500, 6), (401.2, 5), (401, 5), (400, 4), (299.7, 2), (250, 2), (150, 1), (60, 0), (0, 0)]:
        assert preceded(tmp_path, since) == times[first:], since


def test_if_the_clock_was_set_back_those_of_each_run_that_goes_on_come_first(
    tmp_path: Path, stored: Callable[..., None]
) -> None:
    stored(Resolution.HOUR, (10.0, 1, True), (90.0, 1, False))
    stored(Resolution.MINUTE, (100.0, 2, True), (110.0, 2, False), (120.0, 2, False), (130.0, 1, False))
    assert preceded(tmp_path, 125.0) == [90.0, 120.0, 130.0]
    assert preceded(tmp_path, 115.0) == [90.0, 110.0, 120.0, 130.0]


def test_rows_of_two_runs_in_one_second_are_apart(tmp_path: Path, stored: Callable[..., None]) -> None:
    stored(Resolution.MINUTE, (100.1, 1, True), (100.2, 1, False), (100.3, 2, True), (100.9, 2, False))
    assert preceded(tmp_path, 0.0) == [100.1, 100.2, 100.3, 100.9]


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
