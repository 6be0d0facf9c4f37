"""Arguments and effects of commands as text, for the audit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from budgetfrontier.core.units import format_time

_TIMES = ("wake_time", "block", "delayed", "rest", "until", "as_of")  # the names of values that are epoch seconds
_LISTED = 20  # items of a list that are shown themselves, unless they have parts of their own


def as_told(name: str, value: object) -> str:
    """Return a value of this name as a text."""
    if value is None or isinstance(value, bool):
        return {None: "-", True: "yes", False: "no"}[value]
    if name in _TIMES and isinstance(value, int | float):
        return format_time(value) if value > 0 else "-"
    if isinstance(value, dict):
        return " ".join(f"{key}={as_told(key, inner)}" for key, inner in value.items())
    if isinstance(value, list):
        if any(isinstance(one, dict) for one in value):
            return f"({len(value)})"
        more = f", and {len(value) - _LISTED:,} more" if len(value) > _LISTED else ""
        return f"{', '.join(as_told(name, one) for one in value[:_LISTED])}{more}"
    return str(value)


def changes(values: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return the values in an effect before and after a command, each with its name; none if it has none."""
    before, after = values.get("before"), values.get("after")
    if not isinstance(before, dict) or not isinstance(after, dict):
        return []
    return [(name, as_told(name, before.get(name)), as_told(name, value)) for name, value in after.items()]


def others(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the rest of an effect, besides what `changes` returns."""
    shown = ("before", "after") if changes(values) else ()
    return {name: value for name, value in values.items() if name not in shown}
