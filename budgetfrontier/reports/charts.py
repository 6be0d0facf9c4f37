"""Charts for HTML pages, as SVG without styles of its own: the style sheet `style.css` gives the colors.

All texts are escaped here; numbers are drawn to scale.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from itertools import groupby
from math import ceil, floor, log2, log10

from budgetfrontier.core.model import QueueState
from budgetfrontier.core.units import format_time
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
        share = f" <small>{escape(percent(count / total, 1))}</small>" if count else ""
        legend.append(f'<li><i class="key {css_class(state)}"></i>{name} <b>{count:,}</b>{share}</li>')
    bar = '<svg class="bar" viewBox="0 0 1000 20" preserveAspectRatio="none" role="img" aria-label="queues by state">'
    return f'{bar}{"".join(parts)}</svg>\n<ul class="legend">{"".join(legend)}</ul>\n'


def strip(parts: Iterable[tuple[str, str, float]], *, label: str) -> str:
    """Return a bar of the parts of a whole, each with its name, its class of color, and its amount."""
    shown = [part for part in parts if part[2] > 0]
    whole, left, drawn = sum(part[2] for part in shown) or 1, 0.0, []
    for name, kind, amount in shown:
        width = 1000 * amount / whole
        shape = f'x="{left:.1f}" width="{max(width, 3.0):.1f}" height="10"'
        drawn.append(f'<rect class="{kind}" {shape}><title>{text(name)} {amount:,}</title></rect>')
        left += width
    said = text(f"{label}: " + ", ".join(f"{name} {amount:,}" for name, _, amount in shown))
    head = f'<svg class="strip" viewBox="0 0 1000 10" preserveAspectRatio="none" role="img" aria-label="{said}">'
    return f"{head}{''.join(drawn)}</svg>"


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


def curve(values: Sequence[float | None], *, label: str) -> str:
    """Return a small curve of values at equal intervals, the newest to the right, scaled from 0 to the largest.

    None is a value that is not known: the curve has a gap there.
    """
    most = max((value for value in values if value is not None), default=0.0)
    if len(values) < 2 or most <= 0:
        return f'<svg class="curve" viewBox="0 0 200 40" role="img" aria-label="{escape(label)}: no data"></svg>'
    head = '<svg class="curve" viewBox="0 0 200 40" preserveAspectRatio="none" role="img"'
    return f'{head} aria-label="{escape(label)}, at most {most:,.1f}">{_drawn(values, most, 200, 40)}</svg>'


_LEAST = 4
"""The width of a value alone, of the 200 or more units of a curve."""


def _drawn(values: Sequence[float | None], most: float, width: int, height: int) -> str:
    """Return areas with lines above them, one for each run of values without a gap."""
    step, parts = width / max(len(values) - 1, 1), []
    places = [(at * step, value) for at, value in enumerate(values)]
    for known, run in groupby(places, key=lambda place: place[1] is not None):
        if not known:
            continue
        found = list(run)
        points = " ".join(f"{x:.1f},{height - 1 - (height - 3) * max(y or 0.0, 0.0) / most:.1f}" for x, y in found)
        left, right = found[0][0], found[-1][0]
        if len(found) == 1:  # a value alone has no length
            half, level = max(step / 2, _LEAST / 2), points.partition(",")[2]
            left, right = max(left - half, 0.0), min(right + half, width)
            points = f"{left:.1f},{level} {right:.1f},{level}"
        parts.append(f'<polygon class="area" points="{left:.1f},{height} {points} {right:.1f},{height}"/>')
        parts.append(f'<polyline class="line" points="{points}"/>')
    return "".join(parts)


_STEPS = (60, 300, 600, 900, 1800, *(3600 * hours for hours in (1, 2, 3, 6, 12, 24, 48, 120, 168)))
"""The seconds between two times at an axis."""
_TIMES = 5  # at an axis, at the most
_LEAST_PLACE, _MOST_PLACE = 4, 96  # percent of the width between which a time is written


def chart(
    values: Sequence[float | None],
    *,
    since: float,
    until: float,
    label: str,
    write: Callable[[float], str],
    binary: bool = False,
    hover: bool = False,
) -> str:
    """Return a chart of values at equal intervals between two times (epoch seconds), with both axes.

    Where nothing is known, it is shaded. `write` returns an amount as text; round amounts are `binary` for sizes. With
    `hover`, each value shows its amount and its time.
    """
    top = _round_up(max((value for value in values if value is not None), default=0.0), binary=binary)
    if not any(value is not None for value in values):
        top = 0.0
    inner = _unknown(values) + (_drawn(values, top, 1000, 84) if top else "")
    inner += "".join(_hovered(values, since, until, write)) if hover else ""
    return _framed(inner, since, until, top, text(label), write)


def _framed(inner: str, since: float, until: float, top: float, label: str, write: Callable[[float], str]) -> str:
    """Return a plot with both axes; nothing is known if `top` is 0."""
    grid = "".join(f'<line class="grid" x1="0" x2="100%" y1="{y}" y2="{y}"/>' for y in (16, 58, 100))
    amounts = [(12, top), (54, top / 2)] if write(top / 2) != write(0.0) else [(12, top)] if top else []
    texts = "".join(f'<text class="tick" x="0" y="{y}">{text(write(amount))}</text>' for y, amount in amounts)
    texts += "".join(_time(when, since, until, name) for when, name in _axis(since, until))
    plot = f'<svg class="plot" y="16" height="84" viewBox="0 0 1000 84" preserveAspectRatio="none">{inner}</svg>'
    described = f"{label}, at most {text(write(top))}" if top else f"{label}: nothing is known"
    return f'<svg class="chart" height="118" role="img" aria-label="{described}">{grid}{plot}{texts}</svg>'


def stacked_chart(
    layers: Sequence[tuple[str, str, Sequence[float | None]]],
    *,
    since: float,
    until: float,
    label: str,
    write: Callable[[float], str],
) -> str:
    """Return a chart of several figures over one time, on top of each other, the first at the bottom.

    Each has its name, its class of color, and its values at equal intervals.
    """
    below: list[float | None] = [None] * max(len(values) for _, _, values in layers)
    sums = []
    for name, kind, values in layers:
        below = [
            None if value is None and under is None else (value or 0.0) + (under or 0.0)
            for value, under in zip(values, below, strict=True)
        ]
        sums.append((name, kind, below))
    top = _round_up(max((value for value in below if value is not None), default=0.0), binary=False)
    drawn = (
        f'<g class="layer {kind}"><title>{text(name)}</title>{_drawn(values, top, 1000, 84)}</g>'
        for name, kind, values in reversed(sums)
    )
    return _framed("".join((_unknown(below), *drawn)), since, until, top, text(label), write)


def _round_up(amount: float, *, binary: bool) -> float:
    """Return the next amount that is 1, 2 or 5 times a power of ten, or a power of two of bytes; at least 1."""
    if binary:
        return float(2 ** ceil(log2(max(amount, 1.0))))
    power = 10.0 ** floor(log10(max(amount, 1.0)))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= amount)


def _axis(since: float, until: float) -> Iterator[tuple[float, str]]:
    """Yield round times of an axis, each as text: of a day, or the day."""
    step = next((step for step in _STEPS if (until - since) / step <= _TIMES), _STEPS[-1])
    pattern = "%H:%M" if step < 86_400 else "%d %b"
    when = ceil(since / step) * step
    while when <= until:
        yield when, format_time(when, pattern)
        when += step


def _time(when: float, since: float, until: float, name: str) -> str:
    place = 100 * (when - since) / (until - since)
    if not _LEAST_PLACE <= place <= _MOST_PLACE:
        return ""
    mark = f'<line class="grid" x1="{place:.1f}%" x2="{place:.1f}%" y1="100" y2="104"/>'
    return f'{mark}<text class="tick" x="{place:.1f}%" y="115" text-anchor="middle">{name}</text>'


def _unknown(values: Sequence[float | None]) -> str:
    """Return shades where nothing is known."""
    step, parts = 1000 / max(len(values), 1), []
    for known, run in groupby(enumerate(values), key=lambda place: place[1] is not None):
        found = [at for at, _ in run]
        if not known:
            shape = f'x="{found[0] * step:.1f}" width="{len(found) * step:.1f}" height="84"'
            parts.append(f'<rect class="unknown" {shape}><title>not known: nothing ran</title></rect>')
    return "".join(parts)


def _hovered(
    values: Sequence[float | None], since: float, until: float, write: Callable[[float], str]
) -> Iterator[str]:
    step, length = 1000 / max(len(values), 1), (until - since) / max(len(values), 1)
    for at, value in enumerate(values):
        if value is not None:
            when = format_time(since + at * length, "%Y-%m-%d %H:%M")
            shape = f'x="{at * step:.1f}" width="{step:.1f}" height="84"'
            yield f'<rect class="at" {shape}><title>{when}: {text(write(value))}</title></rect>'


def horizon(seconds: float, earliest: float | None, latest: float | None) -> str:
    """Return a bar from now to a time in the future, with the times between which it may be.

    It is drawn to twice the time, so that what is likely is in its middle. With `earliest` alone, there is no latest.
    """
    whole = 2 * seconds or 1.0
    first = 1000 * min((seconds if earliest is None else earliest) / whole, 1.0)
    end = whole if latest is None and earliest is not None else max(latest or 0.0, seconds)
    last = 1000 * min(end, whole) / whole
    return (
        '<svg class="horizon" viewBox="0 0 1000 12" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="ground" width="1000" height="12"/><rect class="fill" width="{first:.1f}" height="12"/>'
        f'<rect class="maybe" x="{first:.1f}" width="{max(last - first, 0.0):.1f}" height="12"/>'
        '<rect class="now" x="498.5" width="3" height="12"/></svg>'
    )
