"""Progress of a crawl on stderr: a live table on a terminal, otherwise a line at intervals."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import NamedTuple, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from budgetfrontier.core.model import CrawlState, QueueState, Summary
from budgetfrontier.core.units import format_clock, format_size
from budgetfrontier.crawler.crawl_limits import CrawlLimit
from budgetfrontier.reports.format import clean, percent
from budgetfrontier.rules.crawled import crawled
from budgetfrontier.rules.verdict import Verdict

LIVE_EVERY = 0.5
LINE_EVERY = 10.0
RATE_OVER = 30.0
"""Seconds over which current rates are averaged, so that they do not jump."""

log = logging.getLogger("budgetfrontier.crawl")


class _ProgressSample(NamedTuple):
    """The counters at a point in time; `used` has the used part of each limit."""

    time: float
    fetched: int
    size: int
    used: dict[str, float]


class ProgressDisplay:
    """The progress display on a console; `every` is the seconds between plain lines. Use with `with`.

    A terminal that can move its cursor shows a live table, other outputs get lines of `key value` pairs. Inside the
    `with` block, warnings of `logging` are printed here, unless the program has configured logging itself. Control
    characters are removed from all text. If the output cannot be written (a closed pipe, a full disk), nothing more is
    printed, and the crawl continues. `fetched` and `bytes` count this run.
    """

    def __init__(
        self,
        *,
        console: Console | None = None,
        every: float = LINE_EVERY,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console = console or Console(stderr=True, highlight=False, soft_wrap=True)
        self._console.on_broken_pipe = self._silence  # type: ignore[method-assign] # the default exits the program
        movable = self._console.is_terminal and not self._console.is_dumb_terminal
        self._live = Live(console=self._console, auto_refresh=False, transient=True) if movable else None
        self._every = LIVE_EVERY if self._live else every
        self._now = now
        self._begin = self._last = now()
        self.fetched = self.bytes = 0
        self._samples = deque([_ProgressSample(self._begin, 0, 0, {})])
        self._handler: _PrintingHandler | None = None

    def __enter__(self) -> Self:
        if not log.hasHandlers():
            self._handler = _PrintingHandler(self)
            logging.getLogger().addHandler(self._handler)
        if self._live:
            try:
                self._live.start()
            except OSError:
                self._silence()
                self._live = None  # partly started, it cannot be stopped
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            with self._silenced_on_error():
                self._live.stop()
        if self._handler:
            logging.getLogger().removeHandler(self._handler)
            self._handler = None

    @property
    def due(self) -> bool:
        """Whether it is time to `show` again."""
        return self._now() - self._last >= self._every

    @property
    def elapsed(self) -> float:
        """Seconds since the run began."""
        return self._now() - self._begin

    def count(self, size: int) -> None:
        """Count one fetch of `size` bytes."""
        self.fetched += 1
        self.bytes += size

    def say(self, message: str) -> None:
        """Print one line on an event."""
        with self._silenced_on_error():
            self._console.print(Text(clean(message)), soft_wrap=True)

    def warn(self, message: str) -> None:
        """Print a warning, and log it if the program has configured logging."""
        self.say(f"warning: {message}")
        if not self._handler and log.hasHandlers():  # otherwise it would be printed twice
            log.warning("%s", message)

    def show(
        self, summary: Summary, *, in_flight: int, limits: Sequence[CrawlLimit] = (), verdict: Verdict | None = None
    ) -> None:
        """Show the state of the crawl: the verdict, rates, queues by state, spend, and the use of limits. O(1)."""
        self._last = self._now()
        sample = _ProgressSample(self._last, self.fetched, self.bytes, {limit.name: limit.used for limit in limits})
        samples = self._samples
        samples.append(sample)
        while len(samples) > 2 and samples[1].time <= sample.time - RATE_OVER:
            samples.popleft()
        if self._live:
            with self._silenced_on_error():
                self._live.update(self._table(summary, in_flight, limits, verdict), refresh=True)
        else:
            pairs = self._pairs(summary, in_flight, limits, verdict)
            self.say("progress " + " ".join(f"{key} {value}" for key, value in pairs))

    @contextmanager
    def _silenced_on_error(self) -> Iterator[None]:
        """Print nothing more if output in this context cannot be written."""
        try:
            yield
        except OSError:
            self._silence()

    def _silence(self) -> None:
        self._console.quiet = True

    # Figures

    @property
    def rate(self) -> float:
        """The fetches a second of late, until now."""
        first = self._samples[0]
        return (self.fetched - first.fetched) / max(self._now() - first.time, 1e-9)

    @property
    def _average(self) -> float:
        return self.fetched / max(self.elapsed, 1e-9)

    def _left(self, limit: CrawlLimit) -> float | None:
        """Return the seconds until a limit is reached at the current rate; None if that is never, or not known."""
        last = self._samples[-1]
        first = next(sample for sample in self._samples if limit.name in sample.used)
        used, seconds = limit.used - first.used[limit.name], last.time - first.time
        if used <= 0 or seconds <= 0:
            return None
        return max(limit.most - limit.used, 0.0) * seconds / used

    # Formats

    def _pairs(
        self, summary: Summary, in_flight: int, limits: Sequence[CrawlLimit], verdict: Verdict | None
    ) -> Iterator[tuple[str, object]]:
        """Yield the plain format: keys and values without spaces; times in seconds, sizes in bytes."""
        yield "state", summary.state.value
        yield "elapsed", f"{self.elapsed:.0f}"
        yield "fetched", self.fetched
        yield "rate", f"{self.rate:.1f}"
        yield "average", f"{self._average:.1f}"
        yield "bytes", self.bytes
        yield "in_flight", in_flight
        for name in ("queued", "future", "dead", "seen", "succeeded", "failed", "retried", "disregarded"):
            yield name, summary[name]
        yield "spend", summary.expenditure
        for state in QueueState:
            yield f"{state.lower()}_queues", summary.queues.get(state, 0)
        for limit in limits:
            yield f"{limit.name}_used", f"{limit.used:.0f}"
            yield limit.name, f"{limit.most:.0f}"
            if (left := self._left(limit)) is not None:
                yield f"{limit.name}_left", f"{left:.0f}"
        if verdict:
            yield "verdict", verdict.slug

    def _table(self, summary: Summary, in_flight: int, limits: Sequence[CrawlLimit], verdict: Verdict | None) -> Table:
        table = Table.grid(padding=(0, 2))
        table.add_column(style="bold", no_wrap=True)
        table.add_column()
        since = "after" if summary.state in (CrawlState.FINISHED, CrawlState.TERMINATED) else "for"
        for name, words in (
            ("crawl", f"{state_text(summary)} {since} {format_clock(self.elapsed)}, {in_flight:,} in flight"),
            (
                "fetched",
                f"{self.fetched:,} ({self.rate:.1f}/s now, {self._average:.1f}/s on average), "
                f"{format_size(self.bytes)}",
            ),
            ("URIs", f"{backlog(summary)}, {summary.seen:,} seen"),
            ("spend", f"{summary.expenditure:,}: {ends(summary)}"),
            ("queues", queues(summary)),
            *((limit.name, self._limit(limit)) for limit in limits),
            *([("now", clean(verdict.text))] if verdict else []),
        ):
            table.add_row(name, Text(words))  # Text, so that markup is not interpreted
        return table

    def _limit(self, limit: CrawlLimit) -> str:
        left = self._left(limit)
        when = "" if left is None else f", about {format_clock(left)} left at this rate"
        share = percent(min(limit.used / limit.most, 1.0))
        return f"{share} ({amount(limit.name, limit.used)} of {amount(limit.name, limit.most)}){when}"


class _PrintingHandler(logging.Handler):
    """A logging handler that prints warnings above the live table, line by line."""

    def __init__(self, progress: ProgressDisplay) -> None:
        super().__init__(logging.WARNING)
        self._progress = progress

    def emit(self, record: logging.LogRecord) -> None:
        try:
            for line in f"{record.levelname.lower()}: {self.format(record)}".splitlines():
                self._progress.say(line)
        except Exception:
            self.handleError(record)


def state_text(summary: Summary) -> str:
    """Return the state of the crawl, with the reason of a pause."""
    why = clean(summary.pause_reason or "")
    return summary.state.lower() + (f" ({why})" if why else "")


def queues(summary: Summary) -> str:
    """Return the number of queues in each state: "3 ready, 1 retired"."""
    counts = ((state, summary.queues.get(state, 0)) for state in QueueState)
    return ", ".join(f"{count:,} {state.lower().replace('_', '-')}" for state, count in counts if count) or "none"


def backlog(summary: Summary) -> str:
    """Return the number of URIs that are queued, future and dead."""
    return f"{summary.queued:,} queued, {summary.future:,} for later, {summary.dead:,} dead"


def ends(summary: Summary) -> str:
    """Return the number of attempts by outcome, without prerequisites such as robots.txt files."""
    done = crawled(summary)
    answers = sum(done.error_answers.values())
    errors = f"{answers:,} answered with an error status, " if answers else ""
    return f"{done.crawled:,} crawled, {errors}{summary.failed:,} failed, {summary.retried:,} retried"


def amount(name: str, used: float) -> str:
    """Return an amount of the limit `name`, formatted in its unit.

    >>> amount("max_uris", 1234), amount("max_time", 61), amount("max_bytes", 2048)
    ('1,234', '0:01:01', '2.0 KiB')
    """
    return {"max_time": format_clock, "max_bytes": format_size}.get(name, "{:,.0f}".format)(used)
