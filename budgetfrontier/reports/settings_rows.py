"""The settings of a crawl, one in each row, without secrets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from budgetfrontier.settings import Settings
from budgetfrontier.settings.field import all_settings
from budgetfrontier.settings.quantities import with_units
from budgetfrontier.settings.redaction import redacted

SEEDS = "seeds"
"""The setting that is left out: seeds have a report of their own."""


class SettingRow(NamedTuple):
    """A setting by its dotted name, with its value, secrets hidden, its default, and whether they differ."""

    setting: str
    value: Any
    default: Any
    changed: bool
    hidden: bool
    """Whether a secret in the value is hidden."""


def settings_rows(settings: Settings, *, units: bool = False) -> list[SettingRow]:
    """Return the settings, those first that differ from their defaults; with `units` as people write them."""
    plain = with_units if units else Settings.to_dict
    known, told = replace(settings, seeds=()), redacted(replace(settings, seeds=()))
    values, real, defaults = (dict(_flat(plain(one))) for one in (told, known, Settings()))
    rows = [
        SettingRow(name, values[name], defaults[name], real[name] != defaults[name], values[name] != real[name])
        for name in (row.name for row in all_settings(Settings))
        if name != SEEDS
    ]
    return sorted(rows, key=lambda row: not row.changed)


def _flat(section: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the settings of a section by their dotted names; of a mapping also itself, which may be a setting."""
    for name, value in section.items():
        yield prefix + name, value
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")


def hidden_note(rows: list[SettingRow]) -> str:
    """Return the sentence on settings with secrets; "" if there are none."""
    names = [row.setting for row in rows if row.hidden]
    return f"secrets are hidden in {', '.join(names)}" if names else ""
