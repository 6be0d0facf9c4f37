"""Formatting for one line of a terminal or a cell: safe text, numbers with nouns, settings, figures, times."""

from __future__ import annotations

import json
import re
from math import ceil

from budgetfrontier.core.units import counted, describe_duration, format_amount, format_count, format_size

__all__ = (
    "as_written",
    "between",
    "called",
    "clean",
    "counted",
    "figure",
    "limit_in_words",
    "percent",
    "setting_as_written",
    "setting_in_words",
    "time_left",
    "without_password",
)


def clean(text: str) -> str:
    """Return `text` with control and other unprintable characters escaped: safe for a terminal, and one line."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


_PASSWORD = re.compile(r"((?:rediss?|unix)://[^\s/:@]*):\S*@", re.IGNORECASE)


def without_password(text: str) -> str:
    """Return a text with *** for the password of a Redis URL in it, up to its last @.

    >>> without_password("import news redis://bob:se/cr@et@host/0 http://a.test/:@")
    'import news redis://bob:***@host/0 http://a.test/:@'
    """
    return _PASSWORD.sub(r"\1:***@", text)


def span(least: int, most: int) -> str:
    """Return a count as text: an estimate as the least and the most that it may be, `20..24`."""
    return f"{least:,}" if least == most else f"{least:,}..{most:,}"


def percent(share: float, digits: int = 0) -> str:
    """Format a share, 0.0 to 1.0, as a percentage. A share above 0 is never shown as 0.

    >>> percent(1 / 3, 1), percent(1e-6, 1), percent(1e-6), percent(0)
    ('33.3%', '<0.1%', '<1%', '0%')
    """
    text = f"{share:.{digits}%}"
    return f"<{10**-digits:g}%" if share > 0 and not float(text[:-1]) else text


def called(figure: str) -> str:
    """Return the usual name of a figure over time.

    >>> called("buried"), called("fetched"), called("answers_2xx")
    ('dead letters', 'fetched', 'answers 2xx')
    """
    return {"buried": "dead letters"}.get(figure, figure.replace("_", " "))


def figure(name: str, amount: float | None) -> str:
    """Format the amount or the rate of a figure over time; "-" if it is not known. One above 0 is never shown as 0.

    >>> figure("bytes", 2048.0), figure("fetched", 1234.5), figure("fetched", 0.34), figure("fetched", None)
    ('2.0 KiB', '1,234', '0.3', '-')
    """
    if amount is None:
        return "-"
    if name == "bytes":
        return format_size(ceil(amount))
    return format_amount(amount)


def figure_at_axis(name: str, amount: float) -> str:
    """Format an amount of a figure briefly, for the axis of a chart.

    >>> figure_at_axis("bytes", 2048.0), figure_at_axis("fetched", 50_000.0), figure_at_axis("fetched", 0.5)
    ('2.0 KiB', '50k', '0.5')
    >>> figure_at_axis("fetched", 11.384615), figure_at_axis("fetched", 0.0419284)
    ('11.4', '0.042')
    """
    if name == "bytes":
        return format_size(round(amount))
    if amount < 10_000:
        return f"{round(amount, 1):,g}" if amount >= 1 else f"{amount:.2g}"
    number = format_count(round(amount))
    return f"{float(number[:-1]):g}{number[-1]}"


_FAR = 100 * 365 * 86_400.0  # seconds


def time_left(seconds: float | None) -> str:
    """Format the time until something is reached, in whole seconds; "-" if that is not known.

    >>> time_left(90_000.5), time_left(0.0), time_left(None), time_left(1e11)
    ('1d1h', 'now', '-', 'over 100 years')
    """
    if seconds is None:
        return "-"
    if seconds > _FAR:
        return "over 100 years"
    return describe_duration(ceil(seconds)) if seconds else "now"


def between(earliest: float | None, latest: float | None) -> str:
    """Format the times between which something is reached; "" if they are one. None as `latest` is no bound.

    >>> between(60.0, 3600.0), between(60.0, None), between(60.0, 60.0)
    ('1m and 1h', 'from 1m on', '')
    """
    if earliest == latest:
        return ""
    if latest is None:
        return f"from {time_left(earliest)} on"
    return f"{time_left(earliest)} and {time_left(latest)}"


def setting_as_written(name: str, value: object) -> str:
    """Return the value of a setting as `--set` and YAML take it, a duration or a size with its unit."""
    from budgetfrontier.settings.quantities import with_unit  # commands without settings do not wait for it

    return as_written(with_unit(name, value))


def setting_in_words(name: str, value: object) -> str:
    """Return the value of a setting for people: with its unit, or as the words for a number that stands for none.

    >>> setting_in_words("queue_total_budget", -1), setting_in_words("queue_total_budget", 3)
    ('no limit', '3')
    >>> setting_in_words("revisit.after", 0), setting_in_words("politeness.min_delay", 0)
    ('never', '0s')
    """
    from budgetfrontier.settings.quantities import in_words

    return in_words(name, value) or ("none" if value is None else setting_as_written(name, value))


def limit_in_words(value: int | None) -> str:
    """Return a limit: a number below zero, or None, is none.

    >>> limit_in_words(1500), limit_in_words(-1)
    ('1,500', 'no limit')
    """
    return "no limit" if value is None or value < 0 else f"{value:,}"


def as_written(value: object) -> str:
    """Return plain data as `--set` and YAML take it."""
    if isinstance(value, list | tuple | frozenset | dict | bool | None):
        return json.dumps(value, ensure_ascii=False, default=sorted)
    return str(value)
