"""Arguments and effects of commands as text: their names in words, and their values by what they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from budgetfrontier.core.effect_words import PACE, command_in_words, in_words, pace_in_words, paces_in_words
from budgetfrontier.core.units import format_size, format_time
from budgetfrontier.settings.quantities import in_words as in_words_of_settings
from budgetfrontier.settings.quantities import with_unit

_TIMES = ("wake_time", "block", "delayed", "rest", "closed_until", "until", "as_of")  # values that are epoch seconds
_KEPT = ("inverse", "then", "then_of", "promised")
"""Parts that are told otherwise, or that only another command looks at."""
_LISTED = 20  # items of a list that are shown themselves, unless they have parts of their own


def as_told(name: str, value: object) -> str:
    """Return a value of this name as a text."""
    if name in PACE and (value is None or isinstance(value, int | float)):
        return pace_in_words(name, value)
    if words := in_words_of_settings(name, value):
        return words
    if value is None or isinstance(value, bool):
        return {None: "-", True: "yes", False: "no"}[value]
    if name in _TIMES and isinstance(value, int | float):
        return format_time(value) if value > 0 else "-"
    if name == "command":
        return command_in_words(str(value))
    if isinstance(value, dict):
        return _told_parts(name, value)
    if isinstance(value, list):
        if not value:
            return "none"
        if any(isinstance(one, dict) for one in value):
            return f"({len(value)})"
        more = f", and {len(value) - _LISTED:,} more" if len(value) > _LISTED else ""
        return f"{', '.join(as_told(name, one) for one in value[:_LISTED])}{more}"
    return str(with_unit(name, value))


def _told_parts(name: str, values: Mapping[str, Any]) -> str:
    if name == "kept":  # the rest of it is a place in the frontier
        return format_size(values["bytes"])
    if name in PACE:
        return paces_in_words(name, values)
    if name == "set":
        return " ".join(f"{setting}={as_told(setting, value)}" for setting, value in values.items())
    if name == "states":
        return ", ".join(f"{count:,} {move}" for move, count in values.items())
    return ", ".join(f"{in_words(part)} {as_told(part, value)}" for part, value in values.items())


def changes(values: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return the values in an effect before and after a command, each with its name in words; none if it has none.

    Settings keep their names: those of a queue, or of the crawl, have a state among them.
    """
    before, after = values.get("before"), values.get("after")
    if not isinstance(before, dict) or not isinstance(after, dict):
        return []
    named = in_words if "state" in after else str
    return [(named(name), as_told(name, before.get(name)), as_told(name, value)) for name, value in after.items()]


def others(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the rest of an effect, besides what `changes` returns and what is kept for other commands."""
    left_out = (*_KEPT, *(("before", "after") if changes(values) else ()))
    return {name: value for name, value in values.items() if name not in left_out}
