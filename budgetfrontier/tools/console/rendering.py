"""The templates of the pages. Every text is escaped, since any may come from the web."""

from __future__ import annotations

import functools
import json
import re
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from budgetfrontier.core.effect_words import command_in_words, in_words
from budgetfrontier.core.units import format_duration, format_size, format_time
from budgetfrontier.reports import charts, effect_text
from budgetfrontier.reports.audit_sentences import sentence
from budgetfrontier.reports.format import (
    as_written,
    between,
    called,
    clean,
    counted,
    figure,
    figure_at_axis,
    percent,
    setting_in_words,
    time_left,
)
from budgetfrontier.reports.over_time import SPAN_WORDS
from budgetfrontier.settings.redaction import without_passwords
from budgetfrontier.tools.console.static_files import STYLE

LONGEST = 2000
"""The most characters that are shown of any text."""


@functools.cache  # to compile the templates takes a second
def environment() -> Environment:
    """Return the environment of the templates, compiled, with their filters and charts: one for all consoles."""
    made = Environment(
        loader=PackageLoader("budgetfrontier.tools.console"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {
        "n": lambda number: f"{number:,}",
        "duration": format_duration,
        "size": format_size,
        "percent": percent,
        "counted": counted,
        "utc": utc,
        "ago": ago,
        "day": day,
        "called": called,
        "short": short,
        "as_written": as_written,
        "setting_in_words": setting_in_words,
        "sentence": sentence,
        "in_words": in_words,
        "command": command_in_words,
        "changes": effect_text.changes,
        "others": effect_text.others,
        "data": data,
        "coded": coded,
        "state": state,
        "css": charts.css_class,
        "key_path": key_path,
    }
    made.globals |= {
        "states_bar": _markup(charts.states_bar),
        "share_bar": _markup(charts.share_bar),
        "ranking": _markup(charts.ranking),
        "curve": _markup(charts.curve),
        "chart": _chart,
        "stacked_chart": _markup(partial(charts.stacked_chart, write=partial(figure_at_axis, "fetched"))),
        "horizon": _markup(charts.horizon),
        "strip": _markup(charts.strip),
        "figure": figure,
        "time_left": time_left,
        "between": between,
        "link": link,
        "style": STYLE,
        "span_words": SPAN_WORDS,
        "as_told": effect_text.as_told,
    }
    for name in made.list_templates():
        made.get_template(name)  # the first request need not wait until it is compiled
    return made


def _shown(value: Any) -> Any:
    """Return a value as a template prints it: texts without control characters and within bounds, "-" for nothing."""
    if value is None:
        return "-"
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    value = clean(value[: LONGEST + 1])
    return value if len(value) <= LONGEST else value[:LONGEST] + "…"


def _markup(function: Any) -> Any:
    return lambda *args, **options: Markup(function(*args, **options))


def _chart(points: Sequence[float | None], *, name: str, **options: Any) -> Markup:
    """Return a chart of a figure over time; `name` is that of the figure."""
    write = partial(figure_at_axis, name)
    return Markup(charts.chart(points, write=write, binary=name == "bytes", **options))


def short(value: str, most: int = 160) -> Markup:
    """Return a text from the web, isolated from the direction of the text around it, and cut if it is long."""
    if not value:
        return Markup("")
    value = without_passwords(value)  # before it is cut
    if len(value) <= most:
        return Markup("<bdi>{}</bdi>").format(clean(value))
    title = clean(value[:LONGEST]) + ("" if len(value) <= LONGEST else f"… ({len(value):,} characters)")
    return Markup('<bdi title="{}">{}</bdi>').format(title, clean(value[:most]) + "…")


def coded(value: str) -> Markup:
    """Return a sentence, also one from `short`, with what is between backquotes, such as a command, as code."""
    markup = value if isinstance(value, Markup) else Markup("{}").format(clean(value))
    return Markup(re.sub("(<[^>]*>)|`([^`<>]+)`", lambda part: part[1] or f"<code>{part[2]}</code>", str(markup)))


def data(value: object) -> Markup:
    """Return plain data as ASCII for a hidden field of a form: no browser changes line ends in it."""
    return Markup("{}").format(json.dumps(value))


def state(value: str) -> Markup:
    """Return the state of a queue with the color that it has in charts."""
    return Markup('<span class="state {}">{}</span>').format(charts.css_class(value), value)


def as_sentence(text: str) -> str:
    """Return a message as a sentence of a page; "" for ""."""
    return text and f"{text[:1].upper()}{text[1:]}."


def key_path(key: str) -> str:
    """Return the path of the page of a queue below that of the job."""
    # Browsers take dots and slashes out of paths, written as %2F too.
    if "/" in key or "\\" in key or key.strip(".") == "":
        return f"/queue?{urlencode({'key': key})}"
    return f"/queue/{quote(key, safe='')}"


@pass_context
def link(context: Context, path: str, /, **values: object) -> str:
    """Return a link to a page of the same job."""
    return link_to(context["base"], path, **values)


def link_to(base: str, path: str, /, **values: object) -> str:
    """Return a link to a page below `base`, with the values that are not empty."""
    query = urlencode({name: value for name, value in values.items() if value not in (None, "")})
    return f"{base}{path}" + (f"?{query}" if query else "") if base or path else f"/?{query}".rstrip("?")


def utc(when: float) -> Markup:
    """Return a time with its zone, in words if it has no date; "-" for never."""
    if when <= 0:
        return Markup("-")
    stamp, shown = format_time(when), format_time(when, "%Y-%m-%d %H:%M:%S UTC")
    return Markup(shown) if shown == stamp else Markup('<time datetime="{}">{}</time>').format(stamp, shown)


def ago(when: float) -> str:
    """Return how long ago a time is, or in how long it will be."""
    if when <= 0:
        return "-"
    seconds = round(time.time() - when)
    if seconds == 0:
        return "now"
    return f"{format_duration(seconds)} ago" if seconds > 0 else f"in {format_duration(-seconds)}"


def day(when: float) -> Markup:
    """Return a time in UTC to the minute, with the day of the week."""
    return Markup('<time datetime="{}">{}</time>').format(format_time(when), format_time(when, "%a %d %b %H:%M"))


def page(made: Environment, template: str, context: Mapping[str, Any]) -> str:
    """Return a whole page."""
    return made.get_template(template).render(context, frame="layout.html")


def live(made: Environment, template: str, context: Mapping[str, Any]) -> str:
    """Return the part of a page that is replaced when something has changed."""
    return without_passwords(made.get_template(template).render(context, frame="live.html"))


def problem(text: str) -> str:
    """Return the content of a live section that cannot be read."""
    return str(Markup('<p class="verdict bad" role="alert">{}</p>').format(clean(text[:LONGEST])))
