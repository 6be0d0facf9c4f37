"""The frontier report as a single HTML file: no scripts, no external resources, for dark and light themes.

It has the parts, charts and style of the console's overview, and lists the queues of each state. It needs no extra.

Queue keys and URLs come from the web: each value is escaped, and a Content-Security-Policy forbids loading anything.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from budgetfrontier.core.model import QueueRecord, QueueState
from budgetfrontier.core.units import format_size, short_duration
from budgetfrontier.reports.charts import chart, ranking, states_bar, style_sheet, text
from budgetfrontier.reports.format import (
    between,
    called,
    counted,
    figure_at_axis,
    limit_in_words,
    percent,
    time_left,
)
from budgetfrontier.reports.over_time import SPAN_WORDS, compared, forecast_sentence, rates_told
from budgetfrontier.reports.overview import ORDER, Overview
from budgetfrontier.reports.text import groups_line, state_line, summary_line
from budgetfrontier.reports.totals import by_outcome, refusals, tiles
from budgetfrontier.reports.wrong_now import PresentProblem, worst
from budgetfrontier.rules.verdict import process_line, standstill

if TYPE_CHECKING:
    from budgetfrontier.reports.over_time import OverTime
    from budgetfrontier.storage.group_listing import GroupRow, GroupsListed
    from budgetfrontier.storage.report import Report

_COLUMNS = (
    ("queue", True), ("precedence", False), ("queued", False), ("enqueued", False), ("balance", False),
    ("last (average) cost", False), ("wakes in", False), ("spent / total budget", False), ("errors", False),
    ("last leased", True), ("last enqueued", True),
)  # fmt: skip

_GROUP_COLUMNS = (
    ("group", True), ("state", True), ("queues", False), ("waiting", False), ("in flight / most", False),
    ("spent / total budget", False), ("bytes", False), ("wakes in", False),
)  # fmt: skip

_NUMBER = ' class="n"'


def render(
    report: Report,
    *,
    limit: int = 100,
    now: float | None = None,
    overview: Overview | None = None,
    over_time: OverTime | None = None,
    wrong: Sequence[PresentProblem] = (),
) -> str:
    """Return the report as an HTML document, with at most `limit` queues in each table; else as the text report.

    `wrong` is the list of present problems: see `reports.wrong_now`.
    """
    now = time.time() if now is None else now
    return "".join(_document(report, overview or Overview(limit).gather(report.queues), over_time, wrong, now))


def _document(
    report: Report, overview: Overview, over_time: OverTime | None, wrong: Sequence[PresentProblem], now: float
) -> Iterator[str]:
    stamp = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(report.generated))
    yield '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
    yield "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield f"<title>Frontier report: {text(report.crawl)}</title>\n<style>{style_sheet()}</style></head><body><main>\n"
    yield f"<h1>Frontier report: {text(report.crawl)}</h1>\n<p>{stamp}, {text(state_line(report))}</p>\n"
    yield f'<p class="dim">{text(summary_line(report))}</p>\n'
    found = report.verdict
    remedy = f"<p><code>{text(found.remedy)}</code></p>" if found.remedy else ""
    level = worst([found.level, *(problem.level for problem in wrong)])
    yield f'<div class="verdict {level}"><p><b>{text(found.text)}</b></p>{remedy}'
    if wrong:
        lines = "".join(f'<li class="{problem.level}">{text(problem.text)}</li>' for problem in wrong)
        yield f'<ul class="wrong" aria-label="What is wrong now">{lines}</ul>\n'
    yield f'<p class="stamp">Process: {text(process_line(report.standing))}</p></div>\n'
    yield f'<section class="card"><h2>Queues by state<small>{sum(report.totals.queues.values()):,}</small></h2>\n'
    yield states_bar(report.totals.queues)
    yield from _totals(report)
    if over_time is not None:
        yield from _over_time(over_time, standstill(report.standing))
    yield from _spend(overview)
    yield from _groups(report.groups, overview.shown(report.groups), now)
    for queue_state in ORDER:
        shown = overview.listed(queue_state)
        if queue_state is QueueState.INELIGIBLE and not shown:
            continue
        yield from _table(queue_state, shown, report.totals.queues.get(queue_state, 0), now)
    yield "</main></body></html>\n"


def _totals(report: Report) -> Iterator[str]:
    shown = "".join(f"<div><dt>{name}</dt><dd>{amount}</dd></div>" for name, amount in tiles(report.totals))
    yield f'<dl class="tiles">{shown}</dl></section>\n<div class="columns wide">\n'
    yield '<section class="card"><h2>Attempts by outcome</h2>\n'
    heads = f"<th>outcome</th><th{_NUMBER}>attempts</th><th{_NUMBER}>share</th><th{_NUMBER}>spent</th><th></th>"
    yield f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>\n'
    for row in by_outcome(report.totals):
        attempts = "" if row.attempts is None else f"{row.attempts:,}"
        share = "" if row.share is None else percent(row.share, 1)
        yield f"<tr><td>{row.name}</td><td{_NUMBER}>{attempts}</td><td{_NUMBER}>{share}</td>"
        yield f"<td{_NUMBER}>{row.spent:,}</td><td>{text(row.note)}</td></tr>\n"
    yield '</tbody></table></div>\n</section>\n<section class="card"><h2>URIs refused by reason</h2>\n'
    yield ranking((reason, "", count) for reason, count in refusals(report.totals))
    yield "</section></div>\n"


def _over_time(found: OverTime, still: str) -> Iterator[str]:
    shown = found.curves
    if shown.known:
        yield f'<section class="card"><h2>Over time<small>per hour, in the last {SPAN_WORDS[shown.span]}; times are UTC'
        yield "</small></h2>\n"
        yield f'<p class="stamp">{text(shown.partly)}</p>\n' if shown.partly else ""
        yield '<div class="charts">\n'
        for one in shown.figures:
            amount, unit = one.amount(shown.known)
            yield f"<figure><figcaption>{called(one.name)} <b>{amount}<small>{unit}</small></b></figcaption>"
            write, label = partial(figure_at_axis, one.name), f"{called(one.name)} per hour"
            yield chart(one.points, since=shown.since, until=shown.until, label=label, write=write)
            yield "</figure>\n"
        yield "</div></section>\n"
    yield f'<section class="card"><h2>Forecast<small>{text(rates_told(found.forecasts))}</small></h2>\n'
    yield f"<p>{text(forecast_sentence(found.forecasts, standstill=still))}</p>\n"
    heads = f"<th>bound</th><th{_NUMBER}>in</th><th>between</th><th>how sure</th><th>why</th>"
    yield f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>\n'
    for bound in compared(found.forecasts):
        name = f"<b>{text(bound.bound)}</b>" if bound.first else text(bound.bound)
        yield f"<tr><td>{name}</td><td{_NUMBER}>{time_left(bound.seconds)}</td>"
        yield f"<td>{between(bound.earliest, bound.latest)}</td><td>{text(bound.sure)}</td>"
        yield f"<td>{text(bound.why)}</td></tr>\n"
    yield "</tbody></table></div></section>\n"


def _spend(overview: Overview) -> Iterator[str]:
    spend = overview.spend()
    yield '<div class="columns">\n<section class="card"><h2>Biggest spenders</h2>\n'
    yield f"<p>{spend.total:,} spent by {counted(spend.spenders, 'queue')}, "
    yield f"{spend.penalties:,} of it in error penalties. "
    yield f"Gini {spend.gini:.2f}; the ten biggest spenders have {text(percent(spend.top10_share))}.</p>\n"
    yield ranking((queue.queue, "", queue.expenditure) for queue in spend.top[:10])
    yield '</section>\n<section class="card"><h2>Longest queues</h2>\n'
    yield ranking((queue.queue, "", queue.queued) for queue in overview.longest(10))
    yield f'</section>\n<section class="card"><h2>Stranded</h2>\n<p>{counted(spend.stranded, "URI")} in '
    yield f"{counted(spend.stranding_count, 'retired queue')}.</p>\n"
    yield ranking((queue.queue, "", queue.queued) for queue in spend.stranding[:10])
    yield "</section></div>\n"


def _groups(groups: GroupsListed, shown: Sequence[GroupRow], now: float) -> Iterator[str]:
    if not groups.count:
        return
    yield f"<h2>Groups: {groups.count:,}<small>{text(groups_line(groups))}</small></h2>\n"
    heads = "".join(f"<th{'' if is_text else _NUMBER}>{name}</th>" for name, is_text in _GROUP_COLUMNS)
    yield f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>\n'
    for row in shown:
        cells = (
            row.group,
            row.state,
            f"{row.queues:,}",
            f"{row.parked:,}",
            f"{row.in_flight:,}" + ("" if row.max_in_flight is None else f" / {row.max_in_flight:,}"),
            f"{row.expenditure:,} / {limit_in_words(row.total_budget)}",
            format_size(row.bytes),
            short_duration(row.wake_time - now) if row.wake_time > now else "-",
        )
        yield from _row(cells, _GROUP_COLUMNS)
    yield "</tbody></table></div>\n"
    if groups.count > len(shown):
        yield f"<p>…and {groups.count - len(shown):,} more</p>\n"


def _table(state: QueueState, rows: Sequence[QueueRecord], count: int, now: float) -> Iterator[str]:
    yield f"<h2>{state.replace('_', '-')} queues: {count:,}</h2>\n"
    if not rows:
        return
    heads = "".join(f"<th{'' if is_text else _NUMBER}>{name}</th>" for name, is_text in _COLUMNS)
    yield f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>\n'
    for queue in rows:
        cells = (
            queue.queue,
            f"{queue.precedence}",
            f"{queue.queued:,}",
            f"{queue.enqueued:,}",
            f"{queue.balance:,}",
            f"{queue.last_cost} ({queue.average_cost:.1f})",
            short_duration(queue.wake_time - now) if queue.wake_time > now else "-",
            f"{queue.expenditure:,} / {limit_in_words(queue.total_budget)}",
            f"{queue.errors:,}",
            queue.last_leased or "-",
            queue.last_enqueued or "-",
        )
        yield from _row(cells, _COLUMNS)
    yield "</tbody></table></div>\n"
    if count > len(rows):
        yield f"<p>…and {count - len(rows):,} more</p>\n"


def _row(cells: Sequence[str], columns: Sequence[tuple[str, bool]]) -> Iterator[str]:
    yield "<tr>"
    for value, (_, is_text) in zip(cells, columns, strict=True):
        shown = text(value)
        yield f'<td class="u" title="{shown}"><bdi>{shown}</bdi></td>' if is_text else f"<td{_NUMBER}>{shown}</td>"
    yield "</tr>\n"
