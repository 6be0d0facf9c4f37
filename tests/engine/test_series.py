"""The time series: a row a minute, thinned with age, and the busiest queues of each hour."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from budgetfrontier import Frontier, Outcome, Reader
from budgetfrontier.clock import ManualClock
from budgetfrontier.core.model import RunEnd
from budgetfrontier.engine.commands.mailbox import Command
from budgetfrontier.reports import over_time
from budgetfrontier.rules.rates import window
from budgetfrontier.rules.run_history import CRAWL, WORKER
from budgetfrontier.rules.series_periods import Resolution
from budgetfrontier.storage import keys
from budgetfrontier.storage.series import decode_row, series_key
from budgetfrontier.testing import crash
from tests.support import make_settings, on_disk, one, pages

HOUR, DAY = 3600, 86_400
START = 20_000.0 * DAY + 30  # half a minute after midnight


def resolutions(path: Path) -> list[tuple[str, int]]:
    """The keys of the table: resolution and second of the day."""
    with Reader(path) as reader, reader.view() as view:
        found = [keys.series.unpack(key) for key, _ in view.items(keys.SERIES)]
    return [(Resolution(number).name, time - 20_000 * DAY) for number, time, _ in found]


def test_a_row_is_written_with_the_first_commit_of_each_minute(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with on_disk(tmp_path, clock, polite=False) as f:
        f.schedule_many(pages("A", 3))
        f.commit()
        clock.advance(29)
        f.finish(one(f))
        f.commit()
        clock.advance(1)
        f.finish(one(f))
        f.commit()
        clock.advance(20)
        f.finish(one(f))
        f.commit()
        with Reader(tmp_path / "frontier") as reader:
            rows = reader.series()
        assert [(row.time - START, row.begins, row.scheduled, row.succeeded) for row in rows] == [
            (0, True, 0, 0),
            (30, False, 3, 2),
        ]
    with Reader(tmp_path / "frontier") as reader:
        last = reader.series()[-1]
        assert (last.time - START, last.succeeded, last.queued, last.exhausted) == (50, 3, 0, 1)


@pytest.mark.parametrize("idle", [45, 88, 5 * HOUR])
@pytest.mark.parametrize("tick", [False, True])
def test_what_came_before_and_after_an_idle_time_is_not_spread_over_it(tmp_path: Path, idle: int, tick: bool) -> None:
    clock, path = ManualClock(START), tmp_path / "frontier"
    with on_disk(tmp_path, clock, polite=False, hold_queues=False, commit_interval=0) as f:
        f.schedule_many(f"https://{host}.test/" for host in range(60))
        clock.advance(2)
        f.finish_many(f.lease(40))
        f.commit()
        clock.advance(idle - 10)
        if tick:
            f.lease(0)
        clock.advance(10)
        leases = f.lease(10)
        clock.advance(1)
        f.finish_many(leases)
        f.commit()
        now = clock.time()
        with Reader(path) as reader, reader.view() as view:
            rows = over_time.read(view, START, now)
        counts = [
            round(window(rows, since, until).rates["fetched"].count, 6)
            for since, until in ((START, START + 2), (START + 2, now - 11), (now - 30, now), (START, now))
        ]
        assert counts == [40, 0, 10, 50]
        assert window(rows, START, now).seconds == idle + 3, "a crawl that waits runs"
        f.check()


def test_a_crawl_that_commits_rarely_by_its_settings_does_not_idle(tmp_path: Path) -> None:
    clock = ManualClock(START + 30)
    with on_disk(tmp_path, clock, polite=False, commit_interval=60) as f:
        f.schedule_many(pages("A", 60))
        f.commit()
        for _ in range(3):
            clock.advance(60)
            f.finish(one(f))
            f.commit()
    with Reader(tmp_path / "frontier") as reader:
        assert [row.time - START - 30 for row in reader.series()] == [0, 60, 120, 180]


def test_a_run_that_changes_nothing_writes_no_row(tmp_path: Path) -> None:
    on_disk(tmp_path, ManualClock(START), polite=False).close()
    on_disk(tmp_path, ManualClock(START + HOUR)).close()
    assert resolutions(tmp_path / "frontier") == []


def test_the_first_row_of_a_run_says_that_it_begins(tmp_path: Path) -> None:
    for run in range(2):
        with on_disk(tmp_path, ManualClock(START + run * HOUR), polite=False) as f:
            f.schedule_many(pages("A", 1, first=run))
    with Reader(tmp_path / "frontier") as reader:
        assert [(row.begins, row.scheduled) for row in reader.series()] == [
            *[(True, 0), (False, 1)],
            *[(True, 1), (False, 2)],
        ]


def test_rows_are_thinned_to_hours_and_days(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with on_disk(tmp_path, clock, polite=False, commit_interval=60) as f:
        for minute in range(3 * 60):
            f.schedule_many(pages("A", 1, first=minute))
            f.commit()
            clock.advance(60)
        clock.advance(DAY - HOUR)
        f.schedule_many(pages("B", 1))
        f.commit()
        path = tmp_path / "frontier"
        found = resolutions(path)
        assert [time for name, time in found if name == "HOUR"] == [30, 3570], "the beginning of the run, and the end"
        assert len([time for name, time in found if name == "MINUTE"]) == 2 * 60 + 2, "and the end of the idle day"
        with Reader(path) as reader:
            scheduled = [row.scheduled for row in reader.series()]
        assert scheduled[:2] == [0, 60], "the last row of the hour"
        assert scheduled == sorted(scheduled)
        clock.advance(40 * DAY)
        for day in range(3):
            f.schedule_many(pages("C", 1, first=day))
            f.commit()
            clock.advance(60)
        assert [name for name, _ in resolutions(path)].count("DAY") >= 1
        f.check()


def test_the_busiest_queues_of_an_hour_are_kept(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with on_disk(tmp_path, clock, polite=False, error_penalty_amount=10) as f:
        f.schedule_many([*pages("A", 4), *pages("B", 2)])
        for lease in [*f.lease(1), *f.lease(1)]:
            f.finish(lease, Outcome.FAILURE if lease.queue == "b.test" else Outcome.SUCCESS)
        clock.advance(HOUR)
        leases = f.lease(10)
        f.commit()  # what was charged before it belongs to the hour that is over
        f.finish_many(leases)
        rest = f.lease(10)
        f.finish_many(rest)
    with Reader(tmp_path / "frontier") as reader:
        first = reader.busiest(START, START + 60)
        assert [(queue.queue, queue.spent, queue.fetched) for queue in first.queues] == [
            ("b.test", 11, 1),
            ("a.test", 1, 1),
        ]
        assert (first.since, first.until, first.exact) == (START - 30, START - 30 + HOUR, True)
        both = reader.busiest(START, START + HOUR)
        assert sum(queue.fetched for queue in both.queues) == 2 + len(leases) + len(rest)


def test_the_busiest_queues_of_an_hour_go_on_in_the_next_run(tmp_path: Path) -> None:
    for run in range(2):
        with on_disk(tmp_path, ManualClock(START + run * 60), polite=False) as f:
            f.schedule_many(pages("A", 1, first=run))
            f.finish_many(f.lease(10))
    with Reader(tmp_path / "frontier") as reader:
        (queue,) = reader.busiest(START, START + 60).queues
        assert (queue.spent, queue.fetched) == (2, 2)


@pytest.mark.parametrize(
    ("program", "leases", "ran"),
    [("budgetfrontier import", 0, 600.0), ("budgetfrontier import", 1, 900.0), ("spider", 0, 900.0)],
)
def test_the_time_of_a_command_on_a_stopped_crawl_is_none_of_crawling(
    tmp_path: Path, program: str, leases: int, ran: float
) -> None:
    clock, path = ManualClock(START), tmp_path / "frontier"

    def crawl() -> None:
        with on_disk(tmp_path, clock, polite=False) as f:
            for _ in range(10):
                f.schedule_many(pages("A", 1, first=int(clock.time())))
                f.finish(one(f))
                clock.advance(30)
                f.commit()

    crawl()
    clock.advance(60)
    with Frontier.open(path, clock=clock, program=program, keep_leases=True) as f:
        for minute in range(5):
            f.schedule_many(pages("B", 100, first=100 * minute))
            if leases and not minute:
                f.finish_many(f.lease(leases))
            clock.advance(60)
            f.commit()
    clock.advance(60)
    crawl()
    with Reader(path) as reader, reader.view() as view:
        found = window(over_time.read(view, START, clock.time()), START, clock.time())
    assert found.seconds == pytest.approx(ran, abs=1)
    assert found.rates["fetched"].count == 20 + leases
    assert found.rates["discovered"].count == (20 if ran == 600 else 520)


def counted(path: Path, since: float = START, until: float = START + HOUR) -> tuple[list[tuple[int, int]], int, bool]:
    """The least and the most that queues spent, what is not told apart, and whether that is exact."""
    with Reader(path) as reader:
        found = reader.busiest(since, until)
    return [(one.spent, one.spent_most) for one in found.queues], found.untold_spent, found.exact


def test_what_came_after_the_last_row_may_be_of_any_queue(tmp_path: Path) -> None:
    clock, path = ManualClock(START), tmp_path / "frontier"
    with on_disk(tmp_path, clock, polite=False) as f:
        f.schedule_many(pages("A", 9))
        f.finish(one(f))
        f.commit()
        assert counted(path) == ([], 1, False), "nothing is stored yet"
        clock.advance(30)
        f.finish(one(f))
        f.commit()
        assert counted(path) == ([(2, 2)], 0, True)
        clock.advance(20)
        f.schedule_many(pages("B", 3))
        f.finish_many(f.lease(4))
        f.commit()
        assert counted(path) == ([(2, 3)], 2, False), "a.test has spent 3 in all"
        with Reader(path) as reader:
            found = reader.busiest(START, START + HOUR)
            assert "as of 00:01:00 UTC; 2 spent and 2 fetched since then" in over_time.busiest_known(found)
            assert found.others_spent == 2
        assert counted(path, START - HOUR, START - 60) == ([], 0, True), "another hour"
        assert counted(path, START + HOUR, START + 2 * HOUR) == ([], 0, True)
    assert (sum(spent for spent, _ in counted(path)[0]), counted(path)[1:]) == (4, (0, True))


def test_an_idle_frontier_stores_what_its_last_queues_spent(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with on_disk(tmp_path, clock, polite=False, commit_interval=0) as f:
        f.schedule_many(pages("A", 1))
        f.finish(one(f))
        f.commit()
        clock.advance(60)
        f.lease(0)
        f.lease(0)
        assert counted(tmp_path / "frontier") == ([(1, 1)], 0, True)
        stored = resolutions(tmp_path / "frontier")
        clock.advance(60)
        f.lease(0)
        assert resolutions(tmp_path / "frontier") == stored, "nothing has changed since"


@pytest.mark.parametrize("later", [5, 2 * HOUR])
def test_what_a_killed_run_spent_after_its_last_row_stays_not_told_apart(tmp_path: Path, later: float) -> None:
    clock = ManualClock(START)
    path, killed = tmp_path / "frontier", tmp_path / "killed"
    with on_disk(tmp_path, clock, polite=False) as f:
        f.schedule_many([*pages("A", 9), *pages("B", 2)])
        f.finish(one(f))
        clock.advance(60)
        f.commit()
        f.finish_many(f.lease(4))
        f.commit()
        with Reader(path) as reader:
            reader.backup(killed / "frontier")
    assert counted(killed / "frontier")[1:] == (2, False)
    clock = ManualClock(clock.time() + later)
    with on_disk(killed, clock, polite=False) as f:
        assert counted(killed / "frontier")[1:] == (0, False)
        f.finish(one(f))
        f.commit()
    told, untold, exact = counted(killed / "frontier")
    assert (untold, exact) == (0, False)
    with Reader(killed / "frontier") as reader:
        assert reader.busiest(START, START + 60).others_spent == 2
        (lost,) = (one for one in reader.busiest(START, START + 60).queues if one.queue == "a.test")
        assert lost.spent < lost.spent_most and len(told) <= 2


@pytest.mark.parametrize("minutes", [0, 3])
@pytest.mark.parametrize("later", [5, 2 * HOUR])
def test_the_last_minute_of_a_killed_run_counts_as_that_of_any_other(
    tmp_path: Path, minutes: int, later: float
) -> None:
    """Before and after the frontier is opened again; with rows of that run, and of one killed before its first."""
    clock, path = ManualClock(START), tmp_path / "frontier"

    def crawl(folder: Path, minutes: int) -> None:
        with on_disk(folder, clock, polite=False) as f:
            for _ in range(minutes):
                f.schedule_many(pages("A", 6, first=int(clock.time())))
                for _ in range(6):
                    f.finish(one(f))
                clock.advance(60)
                f.commit()

    crawl(tmp_path, 2)
    for number in range(2):
        clock.advance(later)
        killed = tmp_path / f"killed {number}"
        with on_disk(path.parent, clock, polite=False) as f:
            for second in range(60 * minutes + 55):
                clock.advance(1)
                if second % 5 == 0:
                    f.schedule_many(pages("A", 1, first=int(clock.time())))
                    f.finish(one(f))
            f.commit()
            with Reader(path) as reader:
                reader.backup(killed / "frontier")
        path = killed / "frontier"
        ran, fetched = 120 + (number + 1) * (60 * minutes + 55), 12 + (number + 1) * (12 * minutes + 11)
        with Reader(path) as reader, reader.view() as view:
            found = window(over_time.read(view, START, clock.time()), START, clock.time())
        assert found.seconds == pytest.approx(ran, abs=1)
        assert found.rates["fetched"].count == pytest.approx(fetched)
    clock.advance(later)
    crawl(killed, 2)
    with Reader(path) as reader, reader.view() as view:
        found = window(over_time.read(view, START, clock.time()), START, clock.time())
    assert found.seconds == pytest.approx(ran + 120, abs=1)
    assert found.rates["fetched"].count == pytest.approx(fetched + 12)


def test_the_rate_of_the_first_minute_is_that_of_its_run(tmp_path: Path) -> None:
    clock, path = ManualClock(START), tmp_path / "frontier"
    for later in (0, HOUR):
        clock.advance(later)
        with on_disk(tmp_path, clock, polite=False) as f:
            f.schedule_many(pages("A", 40, first=int(later)))
            for _ in range(20):
                f.finish(one(f))
                clock.advance(1)
            f.commit()
            with Reader(path) as reader:
                assert reader.standing(now=clock.time()).rate == pytest.approx(1.0)


def test_a_command_just_after_a_crawl_is_no_time_of_crawling(tmp_path: Path) -> None:
    clock, path = ManualClock(START), tmp_path / "frontier"
    with on_disk(tmp_path, clock, polite=False) as f:
        f.schedule_many(pages("A", 30))
        for _ in range(20):
            f.finish(one(f))
            clock.advance(30)
            f.commit()
    ended = clock.time()

    def drawn() -> list[float | None]:
        with Reader(path) as reader, reader.view() as view:
            rows = over_time.read(view, START, clock.time())
        assert window(rows, START, clock.time()).seconds == pytest.approx(600, abs=1)
        return over_time.curves_of([rows], ended + 600, "10m", ["fetched"]).figures[0].points

    for adjusts in (False, True):
        clock.advance(20)
        with Frontier.open(path, clock=clock, program="budgetfrontier adjust", keep_leases=True) as f:
            clock.advance(5)
            if adjusts:
                f.adjust(queue_total_budget=500)
            else:
                f.retire("a.test")
            f.commit()
            assert not any(drawn()), "while it goes on"
            clock.advance(5)
        assert drawn() == [None] * 20


@pytest.mark.parametrize("start", [-1e8, 5e9])
def test_a_clock_that_keys_cannot_hold_ends_no_call(tmp_path: Path, start: float) -> None:
    clock = ManualClock(start)
    with on_disk(tmp_path, clock, polite=False) as f:
        f.schedule_many(pages("A", 1))
        f.commit()
        clock.advance(61)
        f.commit()
    with Reader(tmp_path / "frontier") as reader:
        assert reader.series()[-1].scheduled == 1


def test_runs_within_a_second_are_told_apart(tmp_path: Path) -> None:
    for run in range(3):
        with on_disk(tmp_path, ManualClock(START), polite=False) as f:
            f.schedule_many(pages("A", 1, first=run))
    with Reader(tmp_path / "frontier") as reader:
        assert [(row.begins, row.scheduled) for row in reader.series()] == [
            *[(True, 0), (False, 1)],
            *[(True, 1), (False, 2)],
            *[(True, 2), (False, 3)],
        ]


def test_a_run_of_crawling_that_only_waits_has_its_time(tmp_path: Path) -> None:
    on_disk(tmp_path, ManualClock(START), polite=False).close()
    for waited, rows in ((59, 0), (60, 2)):
        clock = ManualClock(START + HOUR)
        with on_disk(tmp_path, clock):
            clock.advance(waited)
        assert len(resolutions(tmp_path / "frontier")) == rows
        with Frontier.open(tmp_path / "frontier", clock=clock, program="budgetfrontier adjust"):
            clock.advance(waited)
        assert len(resolutions(tmp_path / "frontier")) == rows, "a command has none"


@pytest.mark.parametrize("program", [WORKER, CRAWL])
@pytest.mark.parametrize("killed", [False, True])
def test_the_time_of_short_runs_that_only_wait_is_that_of_the_history_of_runs(
    tmp_path: Path, program: str, killed: bool
) -> None:
    """After each of them, and while it goes on."""
    clock, path = ManualClock(START), tmp_path / "frontier"

    def check(ran: float) -> None:
        with Reader(path) as reader, reader.view() as view:
            seconds = window(over_time.read(view, START, clock.time()), START, clock.time()).seconds
            runs = reader.runs()
        assert (
            seconds == ran == sum((clock.time() if run.end is None else run.ended or 0.0) - run.began for run in runs)
        )

    ran = 0.0
    for first, waits in ((True, 3), (False, 45), (False, 54), (False, 1)):
        f = Frontier.open(path, make_settings(polite=False), clock=clock, program=program, keep_leases=True)
        if first:
            f.schedule_many(pages("A", 9))
            f.finish(one(f))
            f.commit()
        clock.advance(waits)
        check(ran + waits)
        if killed and not first:
            crash(f)
            check(ran)
        else:
            f.close(end=RunEnd.SIGNAL)
            ran += waits
            check(ran)
        clock.advance(HOUR / 10)
        check(ran)


def test_the_time_before_a_pause_in_the_first_minute_is_time_of_crawling(tmp_path: Path) -> None:
    clock, path = ManualClock(START), tmp_path / "frontier"
    with on_disk(tmp_path, clock, polite=False) as f:
        f.schedule_many(pages("A", 9))
        f.commit()
    clock.advance(HOUR)
    with Frontier.open(path, clock=clock, program=WORKER) as f:
        for _ in range(2):
            clock.advance(20)
            f.pause()
            f.commit()
            clock.advance(20)
            f.resume()
            f.commit()
        f.close(end=RunEnd.SIGNAL)
    with Reader(path) as reader:
        assert window(reader.series(), START + 1, clock.time()).seconds == 40


def test_a_command_within_the_second_of_a_crawl_leaves_it_its_time(tmp_path: Path) -> None:
    clock = ManualClock(START + 0.2)
    with on_disk(tmp_path, clock, polite=False) as f:
        f.schedule_many(pages("A", 1))
        f.finish(one(f))
        clock.advance(0.3)
    with Frontier.open(tmp_path / "frontier", clock=clock, program="budgetfrontier import") as f:
        f.schedule_many(pages("B", 1))
        clock.advance(0.2)
    with Reader(tmp_path / "frontier") as reader:
        found = window(reader.series(), START, START + 1)
    assert found.seconds == pytest.approx(0.3)
    assert found.rates["fetched"].count == 1


def test_what_a_clock_set_back_has_counted_twice_counts_once(tmp_path: Path) -> None:
    for run in range(2):
        clock = ManualClock(START + 20 * run)
        with on_disk(tmp_path, clock, polite=False) as f:
            for minute in range(5):
                f.schedule_many(pages("A", 10, first=50 * run + 10 * minute))
                f.commit()
                clock.advance(60)
                f.commit()
    with Reader(tmp_path / "frontier") as reader:
        assert window(reader.series(), START, START + HOUR).rates["discovered"].count == 100


@pytest.mark.parametrize("later", [2 * DAY, 60 * DAY])
def test_time_without_a_process_is_known_when_its_rows_are_thinned(tmp_path: Path, later: float) -> None:
    starts = [START, START + 5 * HOUR, START + 5 * HOUR + 900, START + 4 * DAY, START + 4 * DAY + later]
    for run, start in enumerate(starts):
        clock = ManualClock(start)
        with on_disk(tmp_path, clock, polite=False) as f:
            for minute in range(10):
                f.schedule_many(pages("A", 6, first=60 * run + 6 * minute))
                clock.advance(60)
                f.commit()
    with Reader(tmp_path / "frontier") as reader:
        rows = reader.series()
    found = window(rows, 0.0, START + 90 * DAY)
    assert found.rates["discovered"].per_hour == pytest.approx(360, rel=0.01)
    assert found.seconds == pytest.approx(600 * len(starts))


def test_the_busiest_queues_of_hours_to_which_the_clock_was_set_back_are_those_of_all_runs(tmp_path: Path) -> None:
    for run, start in enumerate((START, START - 2 * HOUR, START)):
        clock = ManualClock(start)
        with on_disk(tmp_path, clock, polite=False) as f:
            for page in range(30):
                f.schedule_many(pages("A", 1, first=30 * run + page))
                f.finish(one(f))
                clock.advance(360)
                f.commit()
    with Reader(tmp_path / "frontier") as reader:
        assert [queue.fetched for queue in reader.busiest(0.0).queues] == [90]


@pytest.mark.parametrize("back", [5 * DAY, 40 * DAY])
def test_a_clock_set_back_to_hours_and_days_that_are_thinned_overwrites_none(tmp_path: Path, back: float) -> None:
    path = tmp_path / "frontier"

    def crawl(host: str, start: float, count: int) -> None:
        clock = ManualClock(start)
        with on_disk(tmp_path, clock, polite=False) as f:
            for page in range(count):
                f.schedule_many(pages(host, 1, first=page))
                f.finish(one(f))
                clock.advance(60)
                f.commit()

    crawl("A", START, 30)
    crawl("B", START + back, 40)  # thins the rows above
    with Reader(path) as reader:
        before = reader.series()[0]
    crawl("C", START + 600, 5)  # the clock is set back
    crawl("D", START + back + DAY, 40)  # and put right
    with Reader(path) as reader:
        rows = reader.series()
        assert before in rows, "the beginning of the first run"
        assert window(rows, 0.0, START + 60 * DAY).rates["fetched"].count == 30 + 40 + 5 + 40
        spent = {queue.queue: queue.fetched for queue in reader.busiest(START, START + 60).queues}
    assert spent == {"a.test": 30, "c.test": 5}


def test_rows_tell_their_runs_apart(tmp_path: Path) -> None:
    """Those that are thinned, and the one as of the last commit, too."""
    clock = ManualClock(START)
    for _ in range(2):
        with on_disk(tmp_path, clock, polite=False) as f:
            for _ in range(3):
                f.schedule_many(pages("A", 1, first=int(clock.time())))
                f.commit()
                clock.advance(61)
    clock.advance(5)
    with on_disk(tmp_path, clock, polite=False) as f:
        clock.advance(5)
        f.schedule_many(pages("A", 1, first=int(clock.time())))
        f.commit()
        with Reader(tmp_path / "frontier") as reader, reader.view() as view:
            rows = over_time.read(view, START, clock.time())
        runs = [row.run for row in rows]
        assert runs == sorted(runs) and len(set(runs)) == 3 and 0 not in runs
        clock.advance(2 * DAY)
        f.schedule_many(pages("A", 1))
        f.commit()
        with Reader(tmp_path / "frontier") as reader, reader.view() as view:
            thinned = [decode_row(value) for _, value in view.items(keys.SERIES, series_key(Resolution.HOUR, 0))]
        assert [row.run for row in thinned] == [1, 1, 2, 2, 3, 3], "the third one, which goes on, until it idled"


def test_what_crawling_finds_is_counted_apart_from_what_is_brought(tmp_path: Path) -> None:
    clock, found = ManualClock(START), []
    with on_disk(tmp_path, clock, polite=False) as f:
        f.schedule_many(pages("A", 5))
        f.schedule_each(pages("B", 5))
        f.schedule(pages("C", 1)[0])
        found.append(f.summary().found)
        lease = one(f)
        f.finish(lease, discovered=pages("D", 3) + pages("A", 2))
        found.append(f.summary().found)
        f.internals.apply(Command("schedule", {"uris": pages("E", 4)}, "somebody", ""))
        found.append(f.summary().found)
        f.schedule_many(pages("F", 2))  # a program that gives the links of a page after its end
        f.schedule_each(pages("F", 4))
        for url in pages("G", 6):
            f.schedule(url)
        found.append(f.summary().found)
        f.commit()
        assert f.summary().scheduled == 11 + 3 + 4 + 2 + 2 + 6
    with on_disk(tmp_path, clock) as f:
        f.schedule_many(pages("H", 2))  # those with which a run begins
        found.append(f.summary().found)
    assert found == [0, 3, 3, 13, 13]


def test_time_in_which_a_crawl_stands_still_is_time_of_crawling_while_its_process_is_at_work(tmp_path: Path) -> None:
    clock, path = ManualClock(START), tmp_path / "frontier"

    def seconds() -> float:
        with Reader(path) as reader, reader.view() as view:
            return window(over_time.read(view, START, clock.time()), START, clock.time()).seconds

    with on_disk(tmp_path, clock, polite=False) as f:
        f.schedule_many(pages("A", 9))
        clock.advance(10)
        f.finish(one(f))
        f.commit()
        clock.advance(600)
        assert seconds() == 610
        os.utime(path / "lock", (START + 100, START + 100))  # when the process was last seen at work
        assert seconds() == 100
        os.utime(path / "lock", (START + 5, START + 5))
        assert seconds() == 10
        os.utime(path / "lock")
        f.pause()
        f.commit()
        clock.advance(600)
        assert seconds() == 610
        f.adjust(match="queue:a.test", queue_total_budget=5)
        clock.advance(600)
        assert seconds() == 610
        f.resume()
        f.commit()
        clock.advance(100)
        assert seconds() == 710
        f.terminate()
        f.commit()
        clock.advance(100)
        assert seconds() == 710
    clock.advance(100)
    assert seconds() == 710


@pytest.mark.parametrize(("program", "ran"), [(WORKER, 610), (CRAWL, 10)])
def test_a_worker_crawls_in_a_partition_to_which_no_entry_comes(tmp_path: Path, program: str, ran: float) -> None:
    """It does not use it, unlike a process that crawls by itself, which hangs then."""
    clock, path = ManualClock(START), tmp_path / "frontier"
    with Frontier.open(path, make_settings(polite=False), clock=clock, program=program) as f:
        f.schedule_many(pages("A", 9))
        clock.advance(10)
        f.finish(one(f))
        f.commit()
        os.utime(path / "lock", (START + 10, START + 10))
        clock.advance(600)
        with Reader(path) as reader, reader.view() as view:
            found = window(over_time.read(view, START, clock.time()), START, clock.time())
        assert (found.seconds, found.rates["fetched"].count) == (ran, 1)
