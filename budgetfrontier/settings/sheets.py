"""Sheets: named settings, associated with URIs by patterns. They are overrides that come before the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, Protocol, runtime_checkable

from msgspec.structs import asdict

from budgetfrontier.core.spelling import did_you_mean
from budgetfrontier.errors import FrontierError
from budgetfrontier.settings import grouping, windows
from budgetfrontier.settings.grouping import Grouping
from budgetfrontier.settings.matching import GROUP, Match, any_of, parse_match
from budgetfrontier.settings.names import OF_GROUPS, SHEET, SHEET_ORDER, WITHOUT_SHEET
from budgetfrontier.settings.overrides import Effective
from budgetfrontier.settings.schema import Association, FrontierSettings, GroupSettings, Override

_KIND = "sheet:"
WindowsOf = tuple[str, tuple[str, ...]]
"""A pattern of URIs, and their crawl windows."""


@runtime_checkable
class SettingsOfUris(Protocol):
    """The sections of the settings that decide which values are in force for a URI."""

    @property
    def frontier(self) -> FrontierSettings: ...
    @property
    def sheets(self) -> Mapping[str, Mapping[str, Any]]: ...
    @property
    def associations(self) -> Sequence[Association]: ...
    @property
    def overrides(self) -> Sequence[Override]: ...
    @property
    def groups(self) -> Sequence[GroupSettings]: ...


class SheetAssociation(NamedTuple):
    """A sheet and a pattern that it is associated with; `id` is that of the adjustment that has added it, else 0."""

    sheet: str
    match: str
    order: int = 0
    id: int = 0


def is_about_sheets(adjustment: Override) -> bool:
    """Return whether an adjustment changes a sheet, or what it is associated with."""
    return adjustment.match.startswith(_KIND) or not adjustment.set.keys().isdisjoint((SHEET, WITHOUT_SHEET))


def sheet_of(adjustment: Override) -> str:
    """Return the name of the sheet that an adjustment is about; "" for any other adjustment."""
    if adjustment.match.startswith(_KIND):
        return adjustment.match.removeprefix(_KIND)
    return str(adjustment.set.get(SHEET) or adjustment.set.get(WITHOUT_SHEET) or "")


def sheets_in_force(settings: SettingsOfUris, adjustments: Iterable[Override]) -> dict[str, dict[str, Any]]:
    """Return the values of all sheets: those of the settings, changed by operators in the order of their commands."""
    found = {name: dict(values) for name, values in settings.sheets.items()}
    for one in adjustments:
        if one.match.startswith(_KIND):
            found.setdefault(sheet_of(one), {}).update(one.set)
    return found


def associations_in_force(settings: SettingsOfUris, adjustments: Iterable[Override]) -> list[SheetAssociation]:
    """Return what the sheets are associated with, in the order in which they apply; the last wins per setting.

    SURT prefixes from the shortest to the longest, then the others by `order`; then by the name of the sheet.
    """
    found: dict[tuple[str, str], SheetAssociation] = {}
    for association in settings.associations:
        for sheet in association.sheets:
            for match in association.match:
                found[sheet, match] = SheetAssociation(sheet, match, association.order)
    for one in adjustments:
        if SHEET in one.set:
            name = one.set[SHEET]
            found[name, one.match] = SheetAssociation(name, one.match, one.set.get(SHEET_ORDER, 0), one.id)
        elif WITHOUT_SHEET in one.set:
            found.pop((one.set[WITHOUT_SHEET], one.match), None)
    return sorted(found.values(), key=_place)


def _place(association: SheetAssociation) -> tuple[bool, int, int, str, str]:
    match = parse_match(association.match)
    length = len(match.prefixes[0].partition("://")[2]) if match.prefixes else 0
    return not match.prefixes, length, association.order, association.sheet, association.match


def uri_precedence_policies(settings: SettingsOfUris, adjustments: Iterable[Override] = ()) -> list[Any]:
    """Return the precedence policies of URIs that settings and adjustments name, also in sheets without association."""
    name = "uri_precedence_policy"
    sets = [*settings.sheets.values(), *(one.set for one in (*settings.overrides, *adjustments))]
    return [settings.frontier.uri_precedence_policy, *(found[name] for found in sets if name in found)]


def layers(settings: SettingsOfUris, adjustments: Sequence[Override]) -> tuple[Sequence[Override], Sequence[Override]]:
    """Return the overrides of URIs in force, those of sheets first, and the adjustments that come after them."""
    overrides, adjustments = (grouping.of_uris(ones, settings.groups) for ones in (settings.overrides, adjustments))
    changes = [one for one in adjustments if is_about_sheets(one)]
    if not changes and not settings.associations:
        return overrides, adjustments
    values = sheets_in_force(settings, changes)
    of_sheets = [
        Override(one.match, values[one.sheet], id=one.id, sheet=one.sheet)
        for one in associations_in_force(settings, changes)
        if values.get(one.sheet)
    ]
    return [*of_sheets, *overrides], [one for one in adjustments if not is_about_sheets(one)]


def windows_in_force(settings: SettingsOfUris, adjustments: Sequence[Override]) -> tuple[WindowsOf, ...]:
    """Return the crawl windows of the URIs that each pattern matches, the last one wins; of "*" those of all others.

    Empty if no setting has any.
    """
    found: list[WindowsOf] = [("*", settings.frontier.guards.windows)]
    for one in chain(*layers(settings, adjustments)):
        if (given := one.set.get(windows.NAME)) is not None:
            found = [(one.match, tuple(given))] if one.match == "*" else [*found, (one.match, tuple(given))]
    return tuple(found) if any(given for _, given in found) else ()


def groups_in_force(
    settings: SettingsOfUris, adjustments: Iterable[Override] = (), *, like: Grouping | None = None
) -> Grouping:
    """Return the groups of queues with their limits; registered domains and addresses are taken as `like` does."""
    limits = asdict(settings.frontier.group)
    for_all = {f"{OF_GROUPS}{name}": limit for name, limit in limits.items() if limit is not None}
    found = Grouping(settings.groups, [Override(f"{GROUP}*", for_all), *settings.overrides, *adjustments])
    if like is not None:
        found.use(*like.uses)
    return found


def effective(settings: SettingsOfUris, adjustments: Sequence[Override] = ()) -> Effective:
    """Return the settings in force for each URI: sheets, then overrides, then adjustments."""
    return Effective(settings.frontier, *layers(settings, adjustments))


def concerned(
    settings: SettingsOfUris, adjustments: Sequence[Override], change: Override, groups: Grouping
) -> tuple[Match, tuple[str, ...]]:
    """Return the pattern of the URIs that a change of the adjustments concerns, and the settings that it changes."""
    if change.match.startswith(GROUP):
        return groups.match(change.match), tuple(change.set)
    if not is_about_sheets(change):
        return parse_match(change.match), tuple(change.set)
    name = sheet_of(change)
    if change.match.startswith(_KIND):
        there = associations_in_force(settings, adjustments)
        return any_of(change.match, [parse_match(one.match) for one in there if one.sheet == name]), tuple(change.set)
    return parse_match(change.match), tuple(sheets_in_force(settings, adjustments).get(name, ()))


def certain_values(settings: SettingsOfUris, adjustments: Sequence[Override], change: Override) -> dict[str, Any]:
    """Return the values of an associated sheet that hold wherever it applies: nothing that comes after it sets others.

    `adjustments` are those in force, with `change`; of one that associates no sheet there are none.
    """
    if SHEET not in change.set:
        return {}
    first, last = layers(settings, adjustments)
    there = [*first, *last]
    name = sheet_of(change)
    place = next((n for n, one in enumerate(there) if (one.sheet, one.match) == (name, change.match)), len(there))
    values = there[place].set if place < len(there) else {}
    return {
        name: value for name, value in values.items() if all(one.set.get(name, value) == value for one in there[place:])
    }


def check_change(settings: SettingsOfUris, adjustments: Sequence[Override], change: Override) -> None:
    """Raise FrontierError for a sheet, an association or a group that does not exist."""
    if found := grouping.objection(change, settings.groups):
        raise FrontierError(found)
    name = sheet_of(change)
    if SHEET in change.set and name not in (known := sheets_in_force(settings, adjustments)):
        hint = did_you_mean(name, list(known)).rstrip("?") or (f"; there are {', '.join(known)}" if known else "")
        raise FrontierError(f'there is no sheet "{name}"{hint}; `budgetfrontier sheet JOB set NAME` makes one')
    if WITHOUT_SHEET in change.set:
        there = [one.match for one in associations_in_force(settings, adjustments) if one.sheet == name]
        if change.match not in there:
            known_as = f": it is with {', '.join(there[:5])}" if there else ""
            raise FrontierError(f'the sheet "{name}" is not associated with {change.match}{known_as}')
