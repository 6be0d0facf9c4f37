"""How a crawl is going: a live table on a terminal, a line now and then when piped. All on stderr."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.table import Table

from budgetfrontier.model import QueueState, Summary

LIVE_EVERY = 0.5
LINE_EVERY = 10.0


class Progress:
    """Shows progress on a console; `every` is the seconds between plain lines. Use with `with`."""

    def __init__(self, *, console: Console | None = None, every: float = LINE_EVERY) -> None:
        self._console = console or Console(stderr=True, highlight=False, soft_wrap=True)
        terminal = self._console.is_terminal
        self._live = Live(console=self._console, auto_refresh=False, transient=True) if terminal else None
        self._every = LIVE_EVERY if self._live else every
        self._begin = self._last = time.monotonic()
        self._fetched = self._fetched_before = 0
        self._bytes = 0

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    @property
    def due(self) -> bool:
        """Whether it is time to `show` again."""
        return time.monotonic() - self._last >= self._every

    @property
    def elapsed(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self._begin

    def count(self, size: int) -> None:
        """Take in one fetch of `size` bytes."""
        self._fetched += 1
        self._bytes += size

    def say(self, message: str) -> None:
        """Print one line about what just happened."""
        self._console.print(message, markup=False)

    def show(self, summary: Summary, *, in_flight: int) -> None:
        """Show the state of the crawl: rates, queues by state, spend."""
        now = time.monotonic()
        rate = (self._fetched - self._fetched_before) / max(now - self._last, 1e-9)
        self._last, self._fetched_before = now, self._fetched
        if self._live:
            self._live.update(self._table(summary, rate, in_flight), refresh=True)
        else:
            self.say(self.line(summary, rate=rate, in_flight=in_flight))

    def line(self, summary: Summary, *, rate: float, in_flight: int) -> str:
        """Return the plain form: one line of words and figures."""
        return (
            f"{clock(self.elapsed)} {summary.state.lower()}: {self._fetched} fetched "
            f"({rate:.1f}/s, {size(self._bytes)}), {in_flight} in flight, {backlog(summary)}, "
            f"spend {summary.expenditure}; queues: {queues(summary)}"
        )

    def _table(self, summary: Summary, rate: float, in_flight: int) -> Table:
        table = Table.grid(padding=(0, 2))
        average = self._fetched / max(self.elapsed, 1e-9)
        for name, words in (
            ("crawl", f"{summary.state.lower()} for {clock(self.elapsed)}, {in_flight} in flight"),
            ("fetched", f"{self._fetched}  ({rate:.1f}/s now, {average:.1f}/s on average, {size(self._bytes)})"),
            ("URIs", f"{backlog(summary)}, {summary.seen} seen"),
            (
                "spend",
                f"{summary.expenditure}: {ends(summary)}",
            ),
            ("queues", queues(summary)),
        ):
            table.add_row(name, words)
        return table


def queues(summary: Summary) -> str:
    """Return how many queues are in each state: "3 ready, 1 retired"."""
    counts = ((state, summary.queues.get(state, 0)) for state in QueueState)
    return ", ".join(f"{count} {state.lower().replace('_', '-')}" for state, count in counts if count) or "none"


def backlog(summary: Summary) -> str:
    """Return how many URIs wait, and how many were given up."""
    return f"{summary.queued} queued, {summary.future} for later, {summary.dead} dead"


def ends(summary: Summary) -> str:
    """Return how the attempts ended."""
    return f"{summary.succeeded} good, {summary.failed} failed, {summary.retried} retried"


def clock(seconds: float) -> str:
    """Return a duration as h:mm:ss."""
    whole = int(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def size(count: float) -> str:
    """Return a number of bytes in the unit that suits it: "3.2 MiB"."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
