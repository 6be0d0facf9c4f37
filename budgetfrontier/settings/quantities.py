"""Settings as plain data, with durations and sizes in units: "1h30m", "64KiB"."""

from __future__ import annotations

from typing import Any

import msgspec

from budgetfrontier.core import units
from budgetfrontier.settings.field import Field, fields, type_text
from budgetfrontier.settings.names import per_uri
from budgetfrontier.settings.settings import Settings
from budgetfrontier.settings.values import DURATION, PERIOD, POSITIVE_DURATION, POSITIVE_SIZE, SIZE, optional

_DURATIONS = {of.text for one in (DURATION, POSITIVE_DURATION, PERIOD) for of in (one, optional(one))}
_SIZES = {SIZE.text, POSITIVE_SIZE.text}


def with_units(settings: Settings) -> dict[str, Any]:
    """Return all settings as plain data with units; reading it gives the same settings."""
    data = _section(Settings, settings.to_dict())
    for override in data["overrides"]:
        override["set"] = _per_uri(override["set"])
    data["sheets"] = {name: _per_uri(values) for name, values in data["sheets"].items()}
    return data


def with_unit(name: str, value: Any) -> Any:
    """Return the value of a setting of overrides, as plain data with its unit; others as they are."""
    field = per_uri().get(name)
    return _value(field, value) if field is not None and isinstance(value, int | float) else value


def _per_uri(values: dict[str, Any]) -> dict[str, Any]:
    return {name: _value(per_uri()[name], value) for name, value in values.items()}


def _section(struct: type[msgspec.Struct], data: dict[str, Any]) -> dict[str, Any]:
    known = fields(struct)
    return {name: _value(known[name], value) for name, value in data.items()}


def _value(field: Field | type[msgspec.Struct], value: Any) -> Any:
    if not isinstance(field, Field):
        return _section(field, value)
    text = type_text(field.type)
    if value is None or text not in _DURATIONS | _SIZES:
        return value
    return units.write_duration(value) if text in _DURATIONS else units.write_size(value)
