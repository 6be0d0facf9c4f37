"""A clock that jumps an hour back or a year ahead, within a run and between runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from budgetfrontier import CrawlState, Frontier, Outcome
from budgetfrontier.clock import ManualClock
from budgetfrontier.errors import LeaseExpired
from budgetfrontier.testing import crash
from tests.crash.figures import Figures
from tests.crash.processes import in_child
from tests.support import START, make_settings, pages

HOUR, YEAR = 3600.0, 365 * 86400.0
MIN_DELAY, RETRY_DELAY = 3.0, 900.0
LONGEST = RETRY_DELAY + 1.0
"""Seconds that nothing has to wait longer than, whatever the clock says."""

HOSTS, PAGES = "ABCDE", 8


class Crawl:
    """One worker whose clock jumps."""

    def __init__(self, path: Path, chance: Random) -> None:
        self._path, self._chance = path, chance
        self._settings = make_settings(
            hold_queues=chance.random() < 0.5,
            concurrency=chance.choice((1, 2)),
            balance_replenish_amount=3,
            politeness={"min_delay": MIN_DELAY, "delay_factor": 0.0, "max_delay": MIN_DELAY},
            retry={"delay": RETRY_DELAY},
        )
        self._clock = ManualClock(START)
        self._frontier = self._open()
        self._frontier.schedule_many(pages(HOSTS, PAGES))
        self.finished: Counter[str] = Counter()
        self.charges = 0

    def _open(self) -> Frontier:
        return Frontier.open(self._path, self._settings, clock=self._clock)

    def jump(self, seconds: float) -> None:
        """Set the clock; nobody tells the frontier."""
        self._clock.advance(seconds)

    def restart(self) -> None:
        """End the process after a commit, as a kill would or in good order, and begin the next."""
        self._frontier.lease(self._chance.choice((0, 2)))
        self._frontier.commit()
        if self._chance.random() < 0.5:
            crash(self._frontier)
        else:
            self._frontier.close()
        self._frontier = self._open()

    def work(self, steps: int) -> bool:
        """Crawl on, now and then too late; True at the end. Nothing may have to wait longer than settings allow."""
        for _ in range(steps):
            leases = self._frontier.lease(2)
            for lease in leases:
                self._clock.advance(0.5)
                outcome = Outcome.RETRY if self._chance.random() < 0.1 else Outcome.SUCCESS
                try:
                    self._frontier.finish(lease, outcome)
                except LeaseExpired:
                    continue
                self.charges += 1
                self.finished[lease.uri.url] += outcome is Outcome.SUCCESS
            if not leases:
                if self._frontier.state is CrawlState.FINISHED:
                    return True
                wait = self._frontier.next_ready_in()
                assert wait is not None and wait <= LONGEST, f"something is to wait {wait} s"
                self._clock.advance(wait + self._chance.choice((0.0, 0.0, 5.0)))
        return False

    def end(self) -> None:
        """Crawl to the end, and see that every URI was finished once and every attempt charged once."""
        while not self.work(1000):
            pass
        self._frontier.check()
        assert self.finished == Counter(pages(HOSTS, PAGES)), self.finished
        assert self._frontier.summary().expenditure == self.charges
        self._frontier.close()


JUMPS: dict[str, tuple[float, ...]] = {
    "back an hour": (-HOUR,),
    "forward a year": (YEAR,),
    "forward a year and set right": (YEAR, -YEAR),
}


def jumping(what: str, *, between: bool) -> Callable[[Path, Random, int], Figures]:
    """The fault of a clock that jumps within a run, or between two."""

    def fault(folder: Path, chance: Random, tries: int) -> Figures:
        figures = Figures(f"clock {what}, {'between runs' if between else 'while running'}")
        for number in range(tries):
            ended = in_child(lambda: _crawl(folder / str(number), chance, JUMPS[what], between=between))  # noqa: B023
            chance.random()  # the child's copy of it is gone
            figures.tried += 1
            figures.whole += bool(ended.answer)
            if not ended.answer:
                figures.problems.append(f"{figures.fault}, number {number}: {ended}")
        return figures

    return fault


def _crawl(path: Path, chance: Random, jumps: tuple[float, ...], *, between: bool) -> bool:
    crawl = Crawl(path, chance)
    for seconds in jumps * 2:
        crawl.work(chance.randint(0, 15))
        crawl.jump(seconds)
        if between:
            crawl.restart()
    crawl.end()
    return True
