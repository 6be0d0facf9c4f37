"""The screen of `top`, line by line: pure text of a reading, for a terminal or for a pipe.

All texts are cleaned of control characters here, so that a URL, a key or a reason cannot move the cursor.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from rich.text import Text

from budgetfrontier.core.model import Process, QueueRecord, QueueState
from budgetfrontier.core.units import counted, format_count, format_duration, format_size
from budgetfrontier.reports.charts import STATES
from budgetfrontier.reports.format import clean, limit_in_words
from budgetfrontier.reports.layout import cells, shortened
from budgetfrontier.reports.over_time import HOUR
from budgetfrontier.rules.rates import SHOWN, curves, window
from budgetfrontier.rules.verdict import Verdict, opener, say_ago
from budgetfrontier.storage.series import SeriesRow
from budgetfrontier.storage.view import PendingUri
from budgetfrontier.tools.console.sampling import RatePerSecond, Sample
from budgetfrontier.tools.console.top_controls import SORTS, Controls, Mode

EXACT = 1_000_000
"""A width for what is not cut: pipes."""

_LEVELS = {"good": "green", "warn": "yellow", "bad": "bold red"}
_STATES = {
    QueueState.IN_PROCESS: "cyan",
    QueueState.READY: "green",
    QueueState.SNOOZED: "yellow",
    QueueState.INACTIVE: "blue",
    QueueState.INELIGIBLE: "magenta",
    QueueState.RETIRED: "red",
    QueueState.EXHAUSTED: "bright_black",
}
_MARKS = dict(zip(STATES, "█▓▒░▤▚·", strict=True))  # distinguish the states without colours
_BLOCKS = " ▁▂▃▄▅▆▇█"
_BAR = 100  # columns at the most
_NUMBERS = ("queued", "expenditure", "errors", "total_budget", "balance", "enqueued")
"""The columns of the list; the last ones are left out where keys would have less than _KEY columns."""
_HEADS = {"expenditure": "spent", "total_budget": "budget"}
_TINY, _LOWEST = 8, 12  # lines below which the screen has the verdict alone, or with it the list
_LOW, _DRAWN = 16, 24  # lines below which the screen has less, and from which on it has a bar and a curve
_END = 2  # lines of a forecast that are shown before warnings
_QUEUES = 4  # queues for which the forecast and the warnings leave room
_KEY = 24
_HELP = {
    "p": "pause the crawl, or resume it: asks for a reason, and whether you mean it",
    "s": "sort the queues by the next amount: spend, size, errors",
    "/": "show only queues whose key contains a text; Escape shows all again",
    "up, down": "mark a queue; also Page Up, Page Down and Home",
    "Enter": "open the queue that is marked; Escape or Enter goes back",
    "?": "show this help, or leave it",
    "q, Ctrl-C": "quit; the crawl goes on",
}
_HELP_BELOW = (
    "Numbers are as of the last commit. The order is as of the latest pass over all queues, at most once a minute."
)


@dataclass
class Opened:
    """A queue that is open: its record and its next URIs. `queue` is None if there is none of that key."""

    queue: QueueRecord | None
    pending: list[PendingUri]
    explanation: str


@dataclass
class Shown:
    """The figures of one screen. Times are epoch seconds."""

    title: str
    now: float
    sample: Sample
    process: Process
    verdict: Verdict
    rates: list[RatePerSecond] = field(default_factory=list)
    series: list[SeriesRow] = field(default_factory=list)
    """The totals over time, of the last hour at least."""
    forecast: str = ""
    """The bound that ends the crawl first, and when, in a sentence."""
    as_of: float | None = None
    """The time of the pass over all queues; None before the first has ended."""
    progress: float | None = None
    scan_error: str = ""
    rows: list[QueueRecord] = field(default_factory=list)
    opened: Opened | None = None
    wrong: list[str] = field(default_factory=list)
    """Sentences that an operator should know."""


def screen(shown: Shown, controls: Controls, *, width: int, height: int) -> list[Text]:
    """Return the lines of a terminal, at most `height`, the last of which is for keys and questions."""
    if controls.screen is Mode.HELP:
        lines = _help(width)
    elif controls.screen is Mode.QUEUE:  # its URIs come last, and what is above the list would leave them no room
        lines = _briefest(shown, width=width, height=height) + _opened(shown, controls.key, width)
    else:
        lines = _above(shown, width=width, height=height)
        lines += listing(shown, controls, width=width, limit=room(shown, width=width, height=height))
    lines = lines[: height - 1]
    lines += [Text()] * (height - 1 - len(lines)) + [_foot(controls, width)]
    return [_fitted(line, width) for line in lines]


def room(shown: Shown, *, width: int, height: int) -> int:
    """Return the number of queues for which a terminal has room."""
    return max(height - len(_above(shown, width=width, height=height)) - 3, 1)


def _above(shown: Shown, *, width: int, height: int) -> list[Text]:
    """Return the lines above the list: more on a high screen than on a low one."""
    if height < _LOWEST:
        return _briefest(shown, width=width, height=height)
    lines = head(shown, width=width, brief=height < _LOW, drawn=height >= _DRAWN)
    end, warnings = foreseen(shown, width), wrong(shown, width)
    left = max(height - len(lines) - 3 - _QUEUES, 0)
    if len(end) + len(warnings) <= left or not left:
        return lines + (end + warnings)[:left]
    shown_first = end[: max(left - len(warnings) - 1, _END)] + warnings
    return [*lines, *shown_first[: left - 1], Text("… A higher terminal has the rest.", style="yellow")]


def _help(width: int) -> list[Text]:
    """Return the help on keys, in lines of the terminal's width."""
    first = max(map(len, _HELP)) + 3
    indent = " " * (first if width > 2 * first else 2)
    keys = (textwrap.wrap(f"{key:{first}}{does}", width, subsequent_indent=indent) for key, does in _HELP.items())
    return [Text(line) for lines in (*keys, [""], textwrap.wrap(_HELP_BELOW, min(width, _BAR))) for line in lines]


def _briefest(shown: Shown, *, width: int, height: int) -> list[Text]:
    """Return the lines above the list that leave room for queues on the lowest screens, or for the verdict alone."""
    judged = _verdict(shown, width)
    if height < _TINY:
        return [_title(shown), *judged]
    return [_title(shown), *judged[:2], _legend(shown.sample.totals.queues, format_count)]


def foreseen(shown: Shown, width: int) -> list[Text]:
    """Return what ends the crawl first, in lines."""
    return [Text(line, style="dim") for line in textwrap.wrap(clean(shown.forecast), width)]


def wrong(shown: Shown, width: int) -> list[Text]:
    """Return the present faults, in lines."""
    sentences = (part for text in shown.wrong for part in textwrap.wrap(f"! {clean(text)}", width))
    return [Text(line, style="yellow") for line in sentences]


def plain(shown: Shown, lists: Mapping[str, list[QueueRecord]], *, width: int | None) -> list[Text]:
    """Return the lines for a pipe, with a list for each order; `width` None: nothing is cut, and numbers are exact."""
    width = width or EXACT
    lines = head(shown, width=width) + foreseen(shown, width) + wrong(shown, width)
    for sort, rows in lists.items():
        controls = Controls(sort=sort, selected=-1)
        lines += [Text(), *listing(replace(shown, rows=rows), controls, width=width, limit=len(rows))]
    for line in lines:
        line.rstrip()
    return [_fitted(line, width) for line in lines]


def head(shown: Shown, *, width: int, brief: bool = False, drawn: bool = True) -> list[Text]:
    """Return the lines above the list: the verdict, the process, queues by state, totals and rates, `drawn` or not."""
    totals, exact = shown.sample.totals, width >= EXACT
    number = "{:,}".format if exact else format_count
    lines = [_title(shown), *_verdict(shown, width)[: 1 if brief else 3]]
    if shown.verdict.remedy and not brief:
        lines.append(Text(f"$ {clean(shown.verdict.remedy)}", style="dim"))
    lines.append(Text(_process(shown)))
    if drawn:
        lines.append(bar(totals.queues, min(width, _BAR)))
    lines.append(_legend(totals.queues, number))
    begin = f"{number(totals.queued)} queued  {number(totals.in_process)} out  {number(totals.future)} later  "
    seen = f"{number(totals.seen)} seen  "
    end = f"{number(totals.dead)} dead  {number(totals.succeeded)} ok  {number(totals.failed)} failed  "
    end += f"{number(totals.expenditure)} spent"
    lines.append(Text(begin + (seen if len(begin + seen + end) <= width else "") + end))
    return [*lines, *_rates(shown, width, drawn=drawn)]


def _title(shown: Shown) -> Text:
    state = Text(str(shown.sample.totals.state), style="bold")
    when = datetime.fromtimestamp(shown.now, UTC).strftime("%H:%M:%SZ")
    return Text.assemble((clean(shown.title), "bold"), "  ", state, "  ", (when, "dim"))


def _verdict(shown: Shown, width: int) -> list[Text]:
    sentences = textwrap.wrap(clean(shown.verdict.text), width) or [""]
    return [Text(line, style=_LEVELS.get(shown.verdict.level, "")) for line in sentences]


def bar(counts: Mapping[str, int], width: int) -> Text:
    """Return a bar of all queues by state. A state that has a queue has a column of it."""
    present = [state for state in STATES if counts.get(state, 0)]
    total = sum(counts[state] for state in present)
    found = Text()
    left, room_left = total, max(width, len(present))
    for at, state in enumerate(present):
        others = len(present) - at - 1
        columns = room_left if not others else round(room_left * counts[state] / left)
        columns = min(max(columns, 1), room_left - others)
        found.append(_MARKS[state] * columns, style=_STATES[state])
        left, room_left = left - counts[state], room_left - columns
    return found if present else Text("no queues", style="dim")


def _legend(counts: Mapping[str, int], number: Callable[[int], str]) -> Text:
    found = Text()
    for state in STATES:
        name = "OUT" if state is QueueState.IN_PROCESS else str(state)
        count = counts.get(state, 0)
        if state is QueueState.INELIGIBLE and not count:
            continue  # few crawls have a floor
        found.append(f"{_MARKS[state]} ", style=_STATES[state])
        found.append(f"{name} {number(count)}  ", style="" if count else "dim")
    found.rstrip()
    return found


def _process(shown: Shown) -> str:
    process = shown.process
    if opens := opener(process):
        found = f"no process; {opens}"
    elif not process.alive:
        found = "no process runs this crawl"
    else:
        where = f", pid {process.pid}" if process.pid else ""
        since = f", for {_age(shown.now, process.began)}" if process.began else ""
        found = f"{clean(process.program) or 'a process'}{where}{since}"
    commit = process.last_commit
    return f"{found}; last commit {say_ago(shown.now, commit) if commit else 'unknown'}"


def _age(now: float, since: float) -> str:
    age = max(now - since, 0.0)
    return format_duration(round(age)) if age >= 1 else "0s"


def _rates(shown: Shown, width: int, *, drawn: bool) -> list[Text]:
    """Return the rates of the last minute, from successive samples, and of the last hour, from the stored series."""
    hour, curve = last_hour(shown.series, shown.now)
    now = {rate.name: rate.now for rate in shown.rates}
    line = Text("a second, in a minute (an hour): " if width >= 100 else "/s: ", style="dim")
    for at, name in enumerate(SHOWN):
        minute = _rate(name, now[name]) if name in now else "-"
        of_hour = f" ({_rate(name, hour[name])})" if name in hour else ""
        part = f"{'  ' if at else ''}{name} {minute}{of_hour}"
        if at and line.cell_len + len(part) > width:
            break
        line.append(part, style="not dim")
    lines = [line]
    if drawn and any(curve):
        lines.append(Text.assemble(("fetched, 1 h ", "dim"), spark(curve)))
    return lines


def _rate(name: str, amount: float) -> str:
    if name == "bytes":
        return format_size(round(amount))
    return f"{amount:.1f}" if amount < 1000 else format_count(round(amount))


def last_hour(rows: Sequence[SeriesRow], now: float) -> tuple[dict[str, float], list[float]]:
    """Return the rates a second in the last hour while a process ran, and those of fetches in each minute of it."""
    rates = window(rows, now - HOUR, now).rates
    minutes = curves(rows, now - HOUR, now, 60)["fetched"]
    return {name: rate.per_hour / 3600 for name, rate in rates.items()}, [(rate or 0.0) / 3600 for rate in minutes]


def spark(values: Sequence[float]) -> str:
    """Return a curve of one line."""
    most = max(values, default=0.0)
    steps = len(_BLOCKS) - 1
    return "".join(_BLOCKS[min(max(round(steps * value / most), 1), steps) if value > 0 else 0] for value in values)


def listing(shown: Shown, controls: Controls, *, width: int, limit: int) -> list[Text]:
    """Return the list of queues: its title, the heads of its columns, and its rows."""
    title = Text(f"Queues by {SORTS[controls.sort]}", style="bold")
    if controls.filter:
        title.append(f' with "{clean(controls.filter)}"')
    if shown.as_of is not None:
        when = datetime.fromtimestamp(shown.as_of, UTC).strftime("%H:%M:%SZ")
        title.append(f", as of {when}, {_age(shown.now, shown.as_of)} ago", style="not bold dim")
    if shown.progress is not None:
        title.append(f"; all queues are being read: {shown.progress:.0%}", style="not bold dim")
    if shown.scan_error:
        title.append(f"; {clean(shown.scan_error)}", style="not bold red")
    rows = shown.rows[:limit]
    cellular = [[_cell(row, name, exact=width >= EXACT) for name in _NUMBERS] for row in rows]
    heads = [_HEADS.get(name, name) for name in _NUMBERS]
    sizes = [max(map(len, (heads[at], *(cell[at] for cell in cellular)))) for at in range(len(_NUMBERS))]
    while len(sizes) > 2 and width - sum(sizes) - 2 * len(sizes) - 12 < _KEY:
        sizes.pop()
    longest = max((cells(clean(row.queue)) for row in rows), default=0)
    first = max(longest, 5)
    if width < EXACT:
        first = min(max(first, 40), max(width - sum(sizes) - 2 * len(sizes) - 12, 8))
    lines = [title, Text(_row("queue", "state", heads[: len(sizes)], sizes, first), style="dim")]
    for at, (row, values) in enumerate(zip(rows, cellular, strict=True)):
        line = Text(_row(row.queue, str(row.state), values[: len(sizes)], sizes, first))
        line.stylize(_STATES[row.state], first + 2, first + 12)
        if controls.start + at == controls.selected and width < EXACT:
            line.stylize("reverse")
        lines.append(line)
    if not rows and shown.as_of is not None:
        lines.append(Text("none", style="dim"))
    return lines


def _row(key: str, state: str, values: Sequence[str], sizes: Sequence[int], first: int) -> str:
    name = shortened(clean(key), first)
    numbers = "".join(f"  {value:>{size}}" for value, size in zip(values, sizes, strict=True))
    return f"{name}{' ' * (first - cells(name))}  {state:10}{numbers}"


def _cell(queue: QueueRecord, name: str, *, exact: bool) -> str:
    value = getattr(queue, name)
    if name == "total_budget" and value < 0:
        return limit_in_words(value)
    return f"{value}" if exact else format_count(value)


def _opened(shown: Shown, key: str, width: int) -> list[Text]:
    opened = shown.opened
    lines = [Text(f"Queue {shortened(clean(key), max(width - 6, 8))}", style="bold")]
    if opened is None or opened.queue is None:
        return [*lines, Text("There is no such queue any more." if opened else "")]
    queue = opened.queue
    budget = limit_in_words(queue.total_budget)
    lines.append(Text(str(queue.state), style=_STATES[queue.state]))
    lines[-1].append(
        f"  {queue.queued:,} queued of {queue.enqueued:,}  {queue.out:,} out  {counted(queue.errors, 'error')}",
        style="default",
    )
    lines.append(
        Text(f"spent {queue.expenditure:,} of {budget}  balance {queue.balance:,}  average {queue.average_cost:.1f}")
    )
    for line in opened.explanation.splitlines():
        lines += [Text(part) for part in textwrap.wrap(clean(line), width, subsequent_indent="   ")]
    lines.append(Text(f"next URIs ({len(opened.pending):,} of {queue.queued:,})", style="dim"))
    lines += [
        Text(f"{'*' if uri.leased else ' '} {uri.cost:>4}  {shortened(clean(uri.uri.url), max(width - 8, 8))}")
        for uri in opened.pending
    ]
    return lines


def _foot(controls: Controls, width: int) -> Text:
    typed = clean(controls.typed)
    typed = typed if len(typed) < width // 2 else f"…{typed[-(width // 2) :]}"
    if controls.mode is Mode.FILTER:
        return Text.assemble(("show queues with: ", "bold"), typed, ("_", "blink"))
    if controls.mode is Mode.REASON:
        return Text.assemble((f"{controls.op} the crawl? reason: ", "bold"), typed, ("_", "blink"))
    if controls.mode is Mode.CONFIRM:
        return Text(f'{controls.op} the crawl ("{typed}")? y/n', style="bold yellow")
    if controls.message:
        return Text(clean(controls.message), style="bold")
    return Text(f"p {controls.op}  s sort  / filter  Enter open  Esc back  ? help  q quit", style="dim")


def _fitted(line: Text, width: int) -> Text:
    line.truncate(width, overflow="ellipsis")
    line.no_wrap = True
    return line
