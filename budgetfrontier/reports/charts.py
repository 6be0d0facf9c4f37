"""Charts for HTML pages, as SVG without styles of its own: the style sheet `style.css` gives the colors.

All texts are escaped here; numbers are drawn to scale.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files

from budgetfrontier.core.model import QueueState
from budgetfrontier.reports.format import clean, percent, span

STATES = (
    QueueState.IN_PROCESS,
    QueueState.READY,
    QueueState.SNOOZED,
    QueueState.INACTIVE,
    QueueState.INELIGIBLE,
    QueueState.RETIRED,
    QueueState.EXHAUSTED,
)
"""The states in the order of the bar and its legend."""


def style_sheet() -> str:
    """Return the style sheet of all HTML pages."""
    return files("budgetfrontier.reports").joinpath("style.css").read_text(encoding="utf-8")


def css_class(state: str) -> str:
    """Return the class of a state's color."""
    return f"s-{state.lower().replace('_', '-')}"


def text(value: str) -> str:
    """Return a text for HTML: unprintable characters are shown as escapes, and markup is quoted."""
    return escape(clean(value), quote=True)


def states_bar(counts: Mapping[str, int], *, link: str = "") -> str:
    """Return a bar of all queues by state, with its legend; `link` is the text before the name of a state."""
    total, left, parts, legend = sum(counts.values()) or 1, 0.0, [], []
    for state in STATES:
        count = counts.get(state, 0)
        if state is QueueState.INELIGIBLE and not count:
            continue  # few crawls have a floor
        width = 1000 * count / total
        if count:
            width = max(width, 2.0)
            shape = f'x="{min(left, 998.0):.1f}" y="0" width="{width:.1f}" height="20"'
            parts.append(f'<rect class="{css_class(state)}" {shape}><title>{state} {count:,}</title></rect>')
        left += width
        name = f'<a href="{escape(link + state, quote=True)}">{state}</a>' if link else str(state)
        share = percent(count / total, 1) if count else "0"
        legend.append(
            f'<li><i class="key {css_class(state)}"></i>{name} <b>{count:,}</b> <small>{escape(share)}</small></li>'
        )
    bar = '<svg class="bar" viewBox="0 0 1000 20" preserveAspectRatio="none" role="img" aria-label="queues by state">'
    return f'{bar}{"".join(parts)}</svg>\n<ul class="legend">{"".join(legend)}</ul>\n'


def share_bar(part: float, whole: float, *, kind: str = "s-ready") -> str:
    """Return a small bar that shows a part of a whole; the excess is drawn in the color of RETIRED."""
    share = part / whole if whole > 0 else 1.0
    inner = f'<rect class="{kind if share <= 1 else "s-retired"}" width="{100 * min(share, 1.0):.1f}" height="8"/>'
    return (
        f'<svg class="share" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(percent(share))}"><rect class="ground" width="100" height="8"/>{inner}</svg>'
    )


def ranking(rows: Iterable[tuple[str, str, int] | tuple[str, str, int, int]]) -> str:
    """Return a list with a bar for each (name, link, amount), scaled to the largest amount; an empty link is none.

    Of an estimate, the least and the most that it may be are given.
    """
    shown = list(rows)
    most = max((row[2] for row in shown), default=0) or 1
    lines = []
    for name, link, amount, *highest in shown:
        label = f"<bdi>{text(name if len(name) <= 80 else name[:79] + '…')}</bdi>"
        label = f'<a href="{escape(link, quote=True)}">{label}</a>' if link else label
        bar = f'<rect class="fill" width="{100 * amount / most:.1f}" height="8"/>'
        svg = f'<svg class="share" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">{bar}</svg>'
        number = span(amount, *highest or [amount])
        lines.append(f'<tr><th scope="row" class="key">{label}</th><td class="n">{number}</td><td>{svg}</td></tr>')
    return f'<table class="ranking">{"".join(lines)}</table>\n' if lines else '<p class="none">None.</p>\n'


def curve(values: Sequence[float], *, label: str) -> str:
    """Return a small curve of values at equal intervals, the newest to the right, scaled from 0 to the largest."""
    most = max(values, default=0.0)
    if len(values) < 2 or most <= 0:
        return f'<svg class="curve" viewBox="0 0 200 40" role="img" aria-label="{escape(label)}: no data"></svg>'
    step = 200 / (len(values) - 1)
    points = [f"{at * step:.1f},{38 - 36 * max(value, 0.0) / most:.1f}" for at, value in enumerate(values)]
    area = f'<polygon class="area" points="0,40 {" ".join(points)} 200,40"/>'
    line = f'<polyline class="line" points="{" ".join(points)}"/>'
    head = '<svg class="curve" viewBox="0 0 200 40" preserveAspectRatio="none" role="img"'
    return f'{head} aria-label="{escape(label)}, at most {most:,.1f}">{area}{line}</svg>'
