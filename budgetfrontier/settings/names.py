"""The names of settings: their spellings, their sections, and suggestions for unknown ones."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from budgetfrontier.core.spelling import LONGEST, did_you_mean, nearest
from budgetfrontier.settings import synonyms
from budgetfrontier.settings.field import Field, all_settings, fields
from budgetfrontier.settings.problems import ValuePath
from budgetfrontier.settings.schema import (
    AlertSettings,
    AlertSink,
    ClusterSettings,
    FetchSettings,
    FrontierSettings,
    LimitSettings,
    LinkSettings,
    OutputSettings,
    ReportSettings,
    ScopeSettings,
    Seed,
)
from budgetfrontier.settings.values import brief

OTHER_SECTIONS: Mapping[str, type[msgspec.Struct]] = {
    "scope": ScopeSettings, "fetch": FetchSettings, "links": LinkSettings, "output": OutputSettings,
    "limits": LimitSettings, "reports": ReportSettings, "alerts": AlertSettings, "cluster": ClusterSettings,
}  # fmt: skip
"""The sections of settings of the whole crawl, beside that of the frontier."""
OF_GROUPS = "group."
"""The beginning of the names of the limits of groups of queues."""
SHEET, WITHOUT_SHEET, SHEET_ORDER = "sheet", "without_sheet", "sheet_order"
"""The names of the values of an adjustment that associates its match with a sheet, or ends that."""


def snake(key: Any) -> str:
    """Return a key in snake case; kebab-case is accepted too."""
    return str(key).replace("-", "_")


def field_name(key: Any, known: Mapping[str, Any]) -> str:
    """Return the name of the field that a key refers to, possibly by an alias."""
    name = snake(key)
    return ALIASES[name] if ALIASES.get(name, "") in known else name


@cache
def per_uri() -> dict[str, Field]:
    """Return the settings of `frontier` that overrides and adjustments may set, by dotted name."""
    found: dict[str, Field] = {}
    for name, field in fields(FrontierSettings).items():
        rows = {name: field} if isinstance(field, Field) else {f"{name}.{n}": a for n, a in fields(field).items()}
        found |= {row: a for row, a in rows.items() if isinstance(a, Field) and a.per_uri}
    return found


def is_of_groups(name: str) -> bool:
    """Return whether a setting is a limit of groups of queues, by its dotted name."""
    return name.startswith(OF_GROUPS)


ALIASES = {
    alias: name
    for section in (FrontierSettings, Seed)
    for name, field in fields(section).items()
    if isinstance(field, Field)
    for alias in field.aliases
}


@cache
def _homes(root: type[msgspec.Struct]) -> dict[str, list[str]]:
    homes: dict[str, list[str]] = {}
    for row in all_settings(root):
        parts = row.name.split(".")
        for depth, part in enumerate(parts):
            home = ".".join(parts[:depth])
            if home not in homes.setdefault(part, []):
                homes[part].append(home)
    for alias, name in ALIASES.items():
        homes[alias] = homes.get(name, [])
    return homes


@cache
def _folded(root: type[msgspec.Struct]) -> dict[str, list[str]]:
    """Return the settings of the root, by dotted name, for the folded name of each."""
    found: dict[str, list[str]] = {}
    for row in all_settings(root):
        found.setdefault(synonyms.folded(row.name.rpartition(".")[2]), []).append(row.name)
    return found


def unknown(name: str, known: Mapping[str, Any], path: ValuePath, root: type[msgspec.Struct], value: Any) -> str:
    """Return the message for an unknown key.

    It names a section with a similar name, if the value is a mapping; or else the setting of the same name in other
    crawlers, or the right section, or a similar name, or else all names.
    """
    sections = [each for each, field in known.items() if not isinstance(field, Field)]
    if isinstance(value, Mapping) and (meant_section := nearest(name, sections)):
        return f'unknown key "{name}"; did you mean "{meant_section}"?'
    folded, homes = synonyms.folded(name[:LONGEST]), _homes(root)
    if (text := synonyms.elsewhere().get(folded)) is not None:
        return f'unknown key "{brief(name)}"; {text}'
    target = synonyms.IN_PLACE.get(".".join(map(str, (*path, name)))) or synonyms.targets().get(folded, "")
    if (meant := _meant(target, homes)) is not None:
        return f'unknown key "{brief(name)}"; did you mean {_placed(meant, path)}?'
    if path == ("alerts",) and name in AlertSink.__struct_fields__:
        return f'"{name}" belongs to an entry of alerts.sinks'
    if name in homes and (elsewhere := [home for home in homes[name] if home]):
        return f'"{name}" belongs under {" or ".join(home + ":" for home in elsewhere)}'
    if name in homes or (name == "profile" and path):
        return f'"{name}" belongs at the top level'
    if len(same := _folded(root).get(folded, [])) == 1:
        return f'unknown key "{name}"; did you mean {_placed(same[0], path)}?'
    names = [*known] if path else [*known, "profile"]
    if hint := did_you_mean(name, names, quote='"'):
        return f'unknown key "{name}"{hint}'
    if near := nearest(name, homes):
        home = homes[near][0]
        return f'unknown key "{name}"; did you mean {_placed(f"{home}.{near}" if home else near, path)}?'
    return f'unknown key "{brief(name)}"; known here: {", ".join(names)}'


def _meant(target: str, homes: Mapping[str, list[str]]) -> str | None:
    """Return the dotted name of a setting that is meant, below the root; None if the sections do not have it."""
    for name in (target, target.removeprefix("frontier.")):
        home, _, last = name.rpartition(".")
        if home in homes.get(last, ()):
            return name
    return None


def _placed(name: str, path: ValuePath) -> str:
    """Return a setting as it is suggested for a place: with its section, unless it is that of the unknown key."""
    home, _, last = name.rpartition(".")
    if home == ".".join(map(str, path)):
        return f'"{last}"'
    return f'"{last}", under {home}' if home else f'"{last}", at the top level'


def _is_there(section: type[msgspec.Struct], name: str) -> bool:
    return any(row.name == name for row in all_settings(section))


def not_per_uri(name: str) -> str:
    """Return the message for a name that overrides and adjustments cannot set."""
    known, short = per_uri(), name.removeprefix("frontier.")  # as reports have it
    if short != name and short in known:
        return f'unknown setting "{name}"; did you mean "{short}"?'
    of_frontier = ALIASES.get(short, short) in fields(FrontierSettings) or _is_there(FrontierSettings, short)
    section, _, rest = name.partition(".")
    if of_frontier or (section in OTHER_SECTIONS and _is_there(OTHER_SECTIONS[section], rest)):
        what = "frontier" if of_frontier else "crawl"
        return f'"{name}" applies to the whole {what} and cannot be set here; these can: {", ".join(known)}'
    target = synonyms.IN_PLACE.get(f"frontier.{name}") or synonyms.targets().get(synonyms.folded(name[:LONGEST]), "")
    full = target.removeprefix("frontier.")
    full = full if full in known else next((n for n in known if n.endswith("." + name)), "")
    hint = f'; did you mean "{full}"?' if full else did_you_mean(name, known, quote='"')
    return f'unknown setting "{brief(name)}"{hint or "; known here: " + ", ".join(known)}'
