"""Warnings about values of a YAML file that have no effect, because adjustments of the frontier apply after them.

And about adjustments that have none any more, with other sheets or groups in the file.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from operator import attrgetter

from budgetfrontier.core.units import counted
from budgetfrontier.settings import grouping, sheets
from budgetfrontier.settings.matching import covers, parse_match
from budgetfrontier.settings.names import OF_GROUPS, is_of_groups, per_uri
from budgetfrontier.settings.schema import FrontierSettings, GroupSettings, Override
from budgetfrontier.settings.seed_settings import with_seed_settings
from budgetfrontier.settings.settings import Settings

_DEFAULTS = FrontierSettings()
_NO_LIMITS = GroupSettings()
MOST = 20
"""The most warnings; a last line counts the others."""


def shadowed(settings: Settings, adjustments: Sequence[Override], job: str) -> Iterator[str]:
    """Yield a warning for each value of the settings that adjustments of a job replace everywhere.

    O(overrides x adjustments) that set the same settings.
    """
    if not adjustments:
        return
    settings, job = with_seed_settings(settings), shlex.quote(job)
    first, last = sheets.layers(settings, adjustments)
    hiding = [*(one for one in first if one.id), *last]
    found = [
        *_in_frontier(settings, hiding, job),
        *_in_sheets(settings, adjustments, job),
        *_in_groups(settings, adjustments, job),
        *_hidden(sheets.layers(settings, ())[0], last, job),
    ]
    yield from found[:MOST]
    if len(found) > MOST:
        more = counted(len(found) - MOST, "more value is", "more values are")
        yield f"{more} set by adjustments: `budgetfrontier adjust {job} --list`"


def _in_frontier(settings: Settings, hiding: Sequence[Override], job: str) -> Iterator[str]:
    for name in per_uri():
        value = attrgetter(name)(settings.frontier)
        last = next((one for one in reversed(hiding) if one.match == "*" and name in one.set), None)
        if last is not None and value not in (last.set[name], attrgetter(name)(_DEFAULTS)):
            yield _warning(f"frontier.{name} {value}", last, name, job)


def _in_sheets(settings: Settings, adjustments: Sequence[Override], job: str) -> Iterator[str]:
    """Yield warnings of values of sheets that operators have changed, and of associations that they have ended."""
    for sheet, values in settings.sheets.items():
        changes = [one for one in reversed(adjustments) if one.match == f"sheet:{sheet}"]
        for name, value in values.items():
            last = next((one for one in changes if name in one.set), None)
            if last is not None and last.set[name] != value:
                yield _warning(f"sheets.{sheet}: {name} {value}", last, name, job)
    known, in_force = sheets.sheets_in_force(settings, adjustments), sheets.associations_in_force(settings, adjustments)
    for one in in_force:
        if one.sheet not in known:
            yield (
                f"adjustment {one.id or '(of unknown id)'} associates {one.match} with the sheet {one.sheet}, which is "
                "not in the settings any more"
            )
    there = {(one.sheet, one.match) for one in in_force}
    for one in sheets.associations_in_force(settings, ()):
        if (one.sheet, one.match) not in there:
            yield (
                f"sheet {one.sheet} ({one.match}) has no effect: an operator has ended this association; "
                f"`budgetfrontier sheet {job} add {one.sheet} --match {shlex.quote(one.match)}` makes it again"
            )


def _in_groups(settings: Settings, adjustments: Sequence[Override], job: str) -> Iterator[str]:
    """Yield warnings of limits of groups that operators have changed, and of adjustments of groups that are gone."""
    for one in adjustments:
        if objection := grouping.objection(one, settings.groups):
            named = f"adjustment {one.id or '(of unknown id)'} ({one.match})"
            yield f"{named} has no effect; {_back(one, job)}: {objection}"
    changes = [(one, grouping.fits(one.match, settings.groups)) for one in reversed(adjustments)]
    for group in settings.groups:
        of_all = [one for one, fits in changes if fits(group.name)]
        for name in filter(is_of_groups, per_uri()):
            value = getattr(group, name.removeprefix(OF_GROUPS))
            last = next((one for one in of_all if name in one.set), None)
            given = value != getattr(_NO_LIMITS, name.removeprefix(OF_GROUPS))
            if last is not None and given and last.set[name] not in (value, None):
                yield _warning(f"groups: {name.removeprefix(OF_GROUPS)} {value} of {group.name}", last, name, job)


def _hidden(overrides: Sequence[Override], adjustments: Sequence[Override], job: str) -> Iterator[str]:
    """Yield warnings of values of overrides and associated sheets that adjustments replace wherever they apply."""
    parsed = [(one, parse_match(one.match)) for one in reversed(adjustments)]
    of_sheets = sum(1 for one in overrides if one.sheet)
    for number, override in enumerate(overrides, 1 - of_sheets):
        match = parse_match(override.match)
        for name, value in override.set.items():
            last = next((one for one, wider in parsed if name in one.set and covers(wider, match)), None)
            if last is not None and last.set[name] != value:
                place = f"sheet {override.sheet}" if override.sheet else override.at or f"override {number}"
                yield _warning(f"{place}: {name} {value} ({override.match})", last, name, job)


def _warning(what: str, adjustment: Override, name: str, job: str) -> str:
    return (
        f"{what} has no effect: adjustment {adjustment.id or '(of unknown id)'} ({adjustment.match}) sets it to "
        f"{adjustment.set[name]}; {_back(adjustment, job)}"
    )


def _back(adjustment: Override, job: str) -> str:
    return f"`budgetfrontier adjust {job} --remove {adjustment.id or 'ID'}` takes it back"
