"""The frontier report as a single HTML file: no scripts, no external resources, for dark and light themes.

Queue keys and URLs come from the web: each value is escaped, and a Content-Security-Policy forbids loading anything.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

from budgetfrontier.model import QueueRecord, QueueState
from budgetfrontier.reports.format import clean, counted, percent
from budgetfrontier.reports.overview import ORDER, Overview
from budgetfrontier.reports.text import state_line, summary_line
from budgetfrontier.rules.verdict import process_line
from budgetfrontier.units import format_duration

if TYPE_CHECKING:
    from budgetfrontier.store.report import Report

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; --bar: #3b82c4; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p.summary, td, th { font-variant-numeric: tabular-nums; }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(9rem, 1fr)); gap: .5rem; }
dl div { background: var(--soft); border-radius: .4rem; padding: .5rem .7rem; } dd { margin: 0; font-size: 1.25rem; }
dt { opacity: .75; } .scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; } th, td { padding: .2rem .5rem; text-align: right; }
th, td { border-bottom: 1px solid var(--line); white-space: nowrap; } td.text, th.text { text-align: left; }
td.text { max-width: 26rem; overflow: hidden; text-overflow: ellipsis; }
svg { width: 100%; height: auto; font: 13px system-ui, sans-serif; } svg text { fill: currentColor; }
"""

_COLORS = {
    QueueState.IN_PROCESS: "#2a9d5c",
    QueueState.READY: "#3b82c4",
    QueueState.SNOOZED: "#8e6cc9",
    QueueState.INACTIVE: "#c99a2e",
    QueueState.RETIRED: "#c4504a",
    QueueState.EXHAUSTED: "#8a8f98",
}

_COLUMNS = (
    ("queue", True), ("precedence", False), ("queued", False), ("enqueued", False), ("balance", False),
    ("last (average) cost", False), ("wakes in", False), ("spent / total budget", False), ("errors", False),
    ("last leased", True), ("last enqueued", True),
)  # fmt: skip


def render(report: Report, *, limit: int = 100, now: float | None = None, overview: Overview | None = None) -> str:
    """Return the report as an HTML document, with at most `limit` queues in each table; else as the text report."""
    now = time.time() if now is None else now
    return "".join(_document(report, overview or Overview(limit).gather(report.queues), now))


def _document(report: Report, overview: Overview, now: float) -> Iterator[str]:
    stamp = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(report.generated))
    yield '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
    yield "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield f"<title>Frontier report: {_text(report.crawl)}</title>\n<style>{_STYLE}</style></head><body>\n"
    yield f"<h1>Frontier report: {_text(report.crawl)}</h1>\n<p>{stamp}, {_text(state_line(report))}</p>\n"
    yield f'<p class="summary">{_text(summary_line(report))}</p>\n'
    yield f"<p>Process: {_text(process_line(report.standing))}</p>\n"
    found = report.verdict
    remedy = f" <code>{_text(found.remedy)}</code>" if found.remedy else ""
    yield f"<p><strong>{_text(found.text)}</strong>{remedy}</p>\n"
    yield from _totals(report)
    yield "<h2>Queues by state</h2>\n" + _states_bar(report.totals.queues)
    yield from _spend(overview)
    yield "<h2>Longest queues</h2>\n"
    yield _bars([(queue.queue, queue.queued) for queue in overview.longest(10)])
    for queue_state in ORDER:
        shown = overview.listed(queue_state)
        yield from _table(queue_state, shown, report.totals.queues.get(queue_state, 0), now)
    yield "</body></html>\n"


def _totals(report: Report) -> Iterator[str]:
    totals = report.totals
    tiles = {
        "queued": totals.queued,
        "in process": totals.in_process,
        "future": totals.future,
        "succeeded": totals.succeeded,
        "failed": totals.failed,
        "retried": totals.retried,
        "deferred": totals.deferred,
        "disregarded": totals.disregarded,
        "duplicates": totals.duplicates,
        "dead letters": totals.dead,
        "seen": totals.seen,
        "expenditure": totals.expenditure,
    }
    yield "<dl>" + "".join(f"<div><dt>{name}</dt><dd>{n:,}</dd></div>" for name, n in tiles.items()) + "</dl>\n"


def _states_bar(counts: dict[str, int]) -> str:
    """Return a bar of all queues, divided by state, with its legend."""
    total, left = sum(counts.values()) or 1, 0.0
    parts, legend = [], []
    for at, (state, color) in enumerate(_COLORS.items()):
        count = counts.get(state, 0)
        width = 1000 * count / total
        parts.append(f'<rect x="{left:.1f}" y="0" width="{width:.1f}" height="28" fill="{color}"/>')
        legend.append(f'<rect x="{at * 166}" y="42" width="11" height="11" fill="{color}"/>')
        legend.append(f'<text x="{at * 166 + 16}" y="52">{state} {count:,}</text>')
        left += width
    return f'<svg viewBox="0 0 1000 60" role="img" aria-label="queues by state">{"".join(parts + legend)}</svg>\n'


def _bars(amounts: list[tuple[str, int]]) -> str:
    """Return a chart with a horizontal bar for each name, scaled to the largest amount."""
    if not amounts:
        return "<p>None.</p>\n"
    most = max(amount for _, amount in amounts) or 1
    lines = []
    for at, (name, amount) in enumerate(amounts):
        y, short = at * 24, name if len(name) <= 44 else name[:43] + "…"
        lines.append(f'<text x="330" y="{y + 15}" text-anchor="end">{_text(short)}</text>')
        lines.append(f'<rect x="340" y="{y + 3}" width="{560 * amount / most:.1f}" height="16" fill="var(--bar)"/>')
        lines.append(f'<text x="{346 + 560 * amount / most:.1f}" y="{y + 15}">{amount:,}</text>')
    return f'<svg viewBox="0 0 1000 {24 * len(amounts)}" role="img">{"".join(lines)}</svg>\n'


def _spend(overview: Overview) -> Iterator[str]:
    spend = overview.spend()
    yield "<h2>Spend</h2>\n"
    yield f"<p>{spend.total:,} spent by {counted(spend.spenders, 'queue')}, "
    yield f"{spend.penalties:,} of it in error penalties. "
    yield f"Gini {spend.gini:.2f}; the ten biggest spenders have {_text(percent(spend.top10_share))}.</p>\n"
    yield _bars([(queue.queue, queue.expenditure) for queue in spend.top[:10]])
    yield f"<h2>Stranded</h2>\n<p>{counted(spend.stranded, 'URI')} in "
    yield f"{counted(spend.stranding_count, 'retired queue')}.</p>\n"
    if spend.stranding:
        yield _bars([(queue.queue, queue.queued) for queue in spend.stranding[:10]])


def _table(state: QueueState, rows: Sequence[QueueRecord], count: int, now: float) -> Iterator[str]:
    yield f"<h2>{state.replace('_', '-')} queues: {count:,}</h2>\n"
    if not rows:
        return
    yield '<div class="scroll"><table><tr>'
    yield (
        "".join(f'<th class="text">{name}</th>' if text else f"<th>{name}</th>" for name, text in _COLUMNS) + "</tr>\n"
    )
    for queue in rows:
        cells = (
            queue.queue,
            f"{queue.precedence}",
            f"{queue.queued:,}",
            f"{queue.enqueued:,}",
            f"{queue.balance:,}",
            f"{queue.last_cost} ({queue.average_cost:.1f})",
            format_duration(queue.wake_time - now) if queue.wake_time > now else "-",
            f"{queue.expenditure:,} / {queue.total_budget:,}",
            f"{queue.errors:,}",
            queue.last_leased or "-",
            queue.last_enqueued or "-",
        )
        yield "<tr>"
        for value, (_, text) in zip(cells, _COLUMNS, strict=True):
            yield f'<td class="text" title="{_text(value)}">{_text(value)}</td>' if text else f"<td>{_text(value)}</td>"
        yield "</tr>\n"
    yield "</table></div>\n"
    if count > len(rows):
        yield f"<p>…and {count - len(rows):,} more</p>\n"


def _text(value: str) -> str:
    return escape(clean(value), quote=True)
