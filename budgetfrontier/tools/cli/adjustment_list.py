"""`adjust --file`: a list of adjustments from a file, of which all are applied, or none."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from budgetfrontier.errors import FrontierError, SettingsError
from budgetfrontier.reports.format import clean, counted
from budgetfrontier.settings import sheets
from budgetfrontier.settings.loader import ListedAdjustment, load_adjustments
from budgetfrontier.settings.overrides import Override
from budgetfrontier.tools.cli import adjustments, common, output
from budgetfrontier.tools.cli.exits import ERROR, OK
from budgetfrontier.tools.cli.sentences import note, say

if TYPE_CHECKING:
    from budgetfrontier.reports.operators import Applied, CrawlOperator

    Give = Callable[..., tuple[Applied, int]]


def apply(args: argparse.Namespace, operator: CrawlOperator, give: Give) -> int:
    """Apply the adjustments of a file in order; with --dry-run, print the effect that each would have by itself.

    `give` gives a command to a crawl. Raises SettingsError, before any is applied, with every problem and its place.
    """
    if args.format == "csv":
        args.usage("csv is for --list")
    try:
        found, warnings = load_adjustments(args.adjustment_file)
    except SettingsError as error:
        common.warn(error.warnings)
        raise
    common.warn(warnings)
    _check(operator, found)
    if args.dry_run:
        return _preview(args, operator, found)
    done: list[dict[str, Any]] = []
    code = OK
    try:
        for one in found:
            details = {"match": one.match, "set": one.set}
            applied, code_of_one = give(args, operator, "adjust", details, reason=one.reason)
            code = max(code, code_of_one)
            if applied.entry is not None:
                done.append({"id": applied.entry.id} | details | applied.entry.effect)
                _tell(args, done[-1])
    except FrontierError:
        for effect in reversed(done):
            give(args, operator, "undo", {"id": effect["id"], "force": False})
            note(f"adjustment {effect['id']} is undone")
        note(f"{one.at}: this adjustment was refused, so none of the file is in force")
        raise
    if args.format == "json":
        _print_json(args, operator, done)
    else:
        say(f"{counted(len(done), 'adjustment')} applied")
    return code


def _check(operator: CrawlOperator, found: Sequence[ListedAdjustment]) -> None:
    """Raise SettingsError if the crawl has not the sheets or groups of one, with those of the adjustments before it."""
    settings, problems = operator.settings, list[str]()
    changes = [Override(row.match, row.set) for row in operator.adjustments()]
    for one in found:
        change = Override(one.match, one.set)
        try:
            sheets.check_change(settings, changes, change)
        except FrontierError as error:
            problems.append(f"{one.at}: {error}")
        changes.append(change)
    if problems:
        raise SettingsError(problems)


def _tell(args: argparse.Namespace, effect: dict[str, Any]) -> None:
    """Print an adjustment that was applied."""
    if args.format != "json":
        common.warn(map(clean, effect.get("warnings", ())))
        matched = effect["matched"]
        queues = "" if matched is None else f", matches {counted(matched, 'queue')}"
        say(f"adjustment {effect['id']}: {clean(effect['match'])}: {adjustments.settings_of(effect)}{queues}")


def _preview(args: argparse.Namespace, operator: CrawlOperator, found: Sequence[ListedAdjustment]) -> int:
    """Print the effect of each adjustment by itself: those before it may change it."""
    effects: list[dict[str, Any]] = []
    for one in found:
        details = {"match": one.match, "set": one.set}
        adjustments.announce(operator, one.match)
        try:
            effect = operator.dry_run("adjust", details)
        except FrontierError as error:  # of a sheet that an adjustment before it makes
            note(f"{one.at}: its effect is known once those before it are in force: {error}")
            continue
        effects.append(details | effect)
        if args.format != "json":
            say(f"{one.at}:")
            adjustments.print_effect(args, one.match, details, effect | output.missing_partitions(operator))
    if args.format == "json":
        _print_json(args, operator, effects)
    return ERROR if operator.missing else OK


def _print_json(args: argparse.Namespace, operator: CrawlOperator, effects: Sequence[dict[str, Any]]) -> None:
    whole = {"dry_run": args.dry_run, "adjustments": effects} | output.missing_partitions(operator)
    json.dump(whole, sys.stdout, indent=1)
    sys.stdout.write("\n")
