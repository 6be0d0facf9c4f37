"""Settings as plain data, with durations and sizes in units: "1h30m", "64KiB"."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import msgspec

from budgetfrontier.core import units
from budgetfrontier.settings.field import Field, Row, all_settings, fields, type_text
from budgetfrontier.settings.names import per_uri
from budgetfrontier.settings.settings import Settings
from budgetfrontier.settings.values import DURATION, PERIOD, POSITIVE_DURATION, POSITIVE_SIZE, SIZE, optional

_DURATIONS = {of.text for one in (DURATION, POSITIVE_DURATION, PERIOD) for of in (one, optional(one))}
_MEANING = re.compile(r"; (-1|0|null): ([^;,]+)")
_SIZES = {of.text for one in (SIZE, POSITIVE_SIZE) for of in (one, optional(one))}


def with_units(settings: Settings) -> dict[str, Any]:
    """Return all settings as plain data with units; reading it gives the same settings."""
    data = _section(Settings, settings.to_dict())
    for override in data["overrides"]:
        override["set"] = _per_uri(override["set"])
    data["sheets"] = {name: _per_uri(values) for name, values in data["sheets"].items()}
    return data


def with_unit(name: str, value: Any) -> Any:
    """Return the value of a setting, as plain data with its unit; others as they are.

    `name` is dotted, and may be without the section `frontier`.
    """
    row = _rows().get(name)
    return _with_unit(row.type, value) if row is not None and isinstance(value, int | float) else value


def in_words(name: str, value: Any) -> str:
    """Return what a value of a setting stands for by its documentation: "no limit" for -1; "" if it is no such value.

    `name` is as for `with_unit`.
    """
    if name not in _rows() or isinstance(value, bool) or not isinstance(value, int | float | None):
        return ""
    written = "null" if value is None else f"{value:g}"
    found: dict[str, str] = dict(_MEANING.findall(_rows()[name].doc))
    return found.get(written, "none" if value is None else "")


@cache
def _rows() -> dict[str, Row]:
    """Return the settings, those of the section `frontier` also by their names within it."""
    rows = all_settings(Settings)
    return {row.name: row for row in rows} | {row.name.removeprefix("frontier."): row for row in rows}


def _per_uri(values: dict[str, Any]) -> dict[str, Any]:
    return {name: _value(per_uri()[name], value) for name, value in values.items()}


def _section(struct: type[msgspec.Struct], data: dict[str, Any]) -> dict[str, Any]:
    known = fields(struct)
    return {name: _value(known[name], value) for name, value in data.items()}


def _value(field: Field | type[msgspec.Struct], value: Any) -> Any:
    if not isinstance(field, Field):
        return _section(field, value)
    return _with_unit(type_text(field.type), value)


def _with_unit(of: str, value: Any) -> Any:
    if value is None or of not in _DURATIONS | _SIZES:
        return value
    return units.write_duration(value) if of in _DURATIONS else units.write_size(value)
