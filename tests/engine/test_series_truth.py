"""The totals over time against what was crawled: random runs, killed, interrupted and thinned at random ages."""

from __future__ import annotations

import random
from pathlib import Path
from typing import NamedTuple

import pytest

from budgetfrontier import Frontier, Outcome, Reader
from budgetfrontier.clock import ManualClock
from budgetfrontier.reports import over_time
from budgetfrontier.reports.crawl_comparison import of_run
from budgetfrontier.rules.rates import curves, window
from budgetfrontier.storage.series import SeriesRow
from tests.support import on_disk, one, pages

HOUR, DAY = 3600.0, 86_400.0
START = 20_000 * DAY + 30


class Ran(NamedTuple):
    """A run as the test knows it: when it was, and how much it fetched and spent."""

    began: float
    ended: float
    fetched: int
    spent: int
    scheduled: int
    paused: float = 0.0
    killed: bool = False

    @property
    def crawled(self) -> float:
        """Seconds of crawling: all of it but its pauses."""
        return self.ended - self.began - self.paused


class History:
    """A crawl whose runs the test counts itself."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.draw, self.clock = folder, random.Random(seed), ManualClock(START)
        self.runs: list[Ran] = []
        self.number = 0

    @property
    def path(self) -> Path:
        return self.folder / "frontier"

    def pages(self, count: int, host: str = "A") -> list[str]:
        self.number += count
        return pages(host, count, first=self.number - count)

    def crawl(
        self, lasts: float, fetches: int, *, killed: bool = False, paused: bool = False, stands: bool = True
    ) -> None:
        """Run for some seconds, with fetches at random times; a killed run is as of its last commit.

        If it `stands`, it may do so for hours while it runs, with nothing to commit.
        """
        clock, draw, fetched, spent, rested = self.clock, self.draw, 0, 0, 0.0
        began = start = clock.time()
        moments = sorted(draw.uniform(0, lasts) for _ in range(fetches))
        with on_disk(self.folder, clock, polite=False) as f:
            f.schedule_many(self.pages(fetches))
            if paused:
                f.pause()
                f.commit()
                rested = draw.choice((1.0, 90.0))
                clock.advance(rested)
                f.resume()
                moments = [moment for moment in moments if began + moment > clock.time()]
            for moment in moments:
                clock.advance(max(start + moment - clock.time(), 0.0))
                lease = one(f)
                outcome = draw.choice((Outcome.SUCCESS, Outcome.SUCCESS, Outcome.FAILURE))
                f.finish(lease, outcome)
                fetched, spent = fetched + 1, spent + lease.cost
                if draw.random() < 0.5:
                    f.commit()
                    still = draw.choice((0.0, 0.0, 50.0, 1000.0, 2 * HOUR)) if stands else 0.0
                    start, _ = start + still, clock.advance(still)
                    self.is_true_of_the_living(Ran(began, clock.time(), fetched, spent, fetches, rested))
                if paused and draw.random() < 0.3:
                    pause = self._pause(f, Ran(began, clock.time(), fetched, spent, fetches, rested))
                    rested, start = rested + pause, start + pause
            clock.advance(max(start + lasts - clock.time(), 0.0))
            f.commit()
            if killed:
                copy = self.folder.with_name(f"{self.folder.name}+")
                with Reader(self.path) as reader:
                    reader.backup(copy / "frontier")
        ended = clock.time()
        if killed:  # it ended with its last commit
            self.folder = copy
            with Reader(self.path) as reader:
                ended = reader.runs()[-1].ended or ended
        self.runs.append(Ran(began, ended, fetched, spent, fetches, rested, killed))

    def _pause(self, frontier: Frontier, ran: Ran) -> float:
        """Pause, look, and go on; return for how long that was."""
        frontier.pause()
        frontier.commit()
        lasts = self.draw.choice((2.0, 700.0))
        self.clock.advance(lasts / 2)
        frontier.adjust(match="queue:nobody.test", queue_total_budget=self.draw.randint(1, 9))
        self.clock.advance(lasts / 2)
        self.is_true_of_the_living(ran)
        frontier.resume()
        return lasts

    def is_true_of_the_living(self, ran: Ran) -> None:
        """Look at a run that goes on, which had its last commit at any time before."""
        if ran.fetched:
            told = of_run([self.rows(ran.began, self.clock.time())], ran.began, self.clock.time())
            assert told.rates["fetched"].count == pytest.approx(ran.fetched)
            assert told.seconds == pytest.approx(ran.crawled, abs=1e-3)

    def command(self, program: str = "budgetfrontier import") -> None:
        """Import URIs while nothing crawls, for a moment or some minutes."""
        with Frontier.open(self.path, clock=self.clock, program=program, keep_leases=True) as f:
            for _ in range(self.draw.randint(1, 3)):
                f.schedule_many(self.pages(self.draw.randint(1, 50), "B"))
                self.clock.advance(self.draw.choice((0.0, 0.2, 45.0, 200.0)))
                f.commit()

    def set_back(self, seconds: float) -> None:
        self.clock = ManualClock(self.clock.time() - seconds)

    def rows(self, since: float, until: float) -> list[SeriesRow]:
        with Reader(self.path) as reader, reader.view() as view:
            return over_time.read(view, since, until)

    def is_true(self, *, stops: int = 0) -> None:
        """Look at the totals of all time, of each run, and at the sums of curves.

        With more `stops` in a period than are kept, the times of runs may be estimates, which is said.
        """
        newest = max(run.ended for run in self.runs) + 1
        fetched, spent = (sum(run[place] for run in self.runs) for place in (2, 3))
        kept = [run for run in self.runs if run.scheduled or run.killed or run.paused or run.ended - run.began >= 60]
        ran = sum(run.crawled for run in kept)
        rows = self.rows(0.0, newest)
        found = window(rows, 0.0, newest)
        if not ran:
            return
        assert (round(found.rates["fetched"].count, 6), round(found.rates["spent"].count, 6)) == (fetched, spent)
        assert found.seconds == pytest.approx(ran, abs=1e-3 * len(self.runs)), "time of crawling, and no other"
        assert found.cut == 0
        length = newest - min(run.began for run in self.runs) + DAY
        points = curves(rows, newest - length, newest, 50)["fetched"]
        drawn = window(rows, newest - length, newest)
        assert drawn.rates["fetched"].count == pytest.approx(fetched)
        assert any(points) == bool(fetched)
        for run in self.runs:
            # As commands read it: rows from the beginning of the run on, or of all time.
            for read in (rows, self.rows(run.began, newest)):
                told = of_run([read], run.began, run.ended)
                if not run.fetched or run.ended == run.began or (stops and told.cut):
                    continue
                assert told.rates["fetched"].count == pytest.approx(run.fetched), run
                assert told.rates["spent"].count == pytest.approx(run.spent), run
                assert told.seconds == pytest.approx(run.crawled, abs=1e-3)
                assert told.cut == 0 or stops


@pytest.mark.parametrize("seed", range(40))
def test_what_is_told_of_a_crawl_adds_up_whatever_its_runs_were(tmp_path: Path, seed: int) -> None:
    history = History(tmp_path / "job", seed)
    draw = history.draw
    for _ in range(draw.randint(2, 9)):
        lasts = draw.choice((0.3, 5.0, 59.0, 300.0, 2 * HOUR))
        history.crawl(lasts, draw.randint(0, 12), killed=draw.random() < 0.3, paused=draw.random() < 0.2)
        if draw.random() < 0.4:
            history.clock.advance(draw.choice((0.1, 1.0, 400.0)))
            history.command()
        history.is_true()
        if draw.random() < 0.2:
            history.set_back(draw.choice((0.5, 40.0, 1800.0, 3 * DAY)))
        history.clock.advance(draw.choice((0.0, 0.1, 1.0, 30.0, 900.0, 5 * HOUR, 26 * HOUR, 20 * DAY, 45 * DAY)))
    history.crawl(120.0, 3)
    history.is_true()


@pytest.mark.parametrize("every", [40.0, 1500.0])
def test_of_many_stops_the_shortest_are_added_up(tmp_path: Path, every: float) -> None:
    """More than are kept of an hour, or of a day: what each run did is an estimate then, and all of them is not."""
    history = History(tmp_path / "job", int(every))
    for number in range(70):
        history.crawl(20.0, 2, stands=False)
        history.clock.advance(every if number % 10 else 5 * every)
        if number % 3 == 0:
            history.command()
    for later in (0.0, 2 * DAY, 40 * DAY):
        history.clock.advance(later)
        history.crawl(20.0, 1, stands=False)
        history.is_true(stops=70)
    with Reader(history.path) as reader:
        rows = reader.series(until=history.clock.time() - DAY)
        assert len(rows) < 2 * 70
    estimated = [run for run in history.runs if window(rows, run.began, run.ended).cut]
    assert estimated and len(estimated) < 70
