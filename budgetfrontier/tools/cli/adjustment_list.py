"""`adjust --file`: a list of adjustments from a file, of which all are applied, or none."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from budgetfrontier.engine.commands.adjustment import promise
from budgetfrontier.errors import FrontierError, SettingsError
from budgetfrontier.reports.format import clean, counted
from budgetfrontier.settings import sheets
from budgetfrontier.settings.loader import ListedAdjustment, load_adjustments
from budgetfrontier.settings.matching import Match, disjoint, parse_match
from budgetfrontier.settings.overrides import Override
from budgetfrontier.tools.cli import adjustments, common, output
from budgetfrontier.tools.cli.exits import ERROR, OK
from budgetfrontier.tools.cli.on_crawl import command_of, give, noting_continued
from budgetfrontier.tools.cli.sentences import note, say

if TYPE_CHECKING:
    from budgetfrontier.reports.operators import Applied, CrawlOperator, OperatorCommand

TOGETHER = 25
"""The most adjustments that a crawl applies in one commit: some tens of milliseconds, in which it does nothing else."""


def apply(args: argparse.Namespace, operator: CrawlOperator) -> int:
    """Apply the adjustments of a file in order; with --dry-run, print the effect that each would have by itself.

    Raises SettingsError, before any is applied, with every problem and its place.
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
    code, commands = OK, _commands(args, operator, found)
    for batch in _batches(found):
        refused: list[tuple[ListedAdjustment, str]] = []
        for one, applied in zip(
            batch, _given(args, operator, batch, [*islice(commands, len(batch))], len(done)), strict=True
        ):
            if applied.entry is None and applied.refused:
                refused.append((one, applied.refused))
                continue
            if told := applied.left or applied.refused:
                note(told)
                code = ERROR
            if applied.entry is not None:
                done.append({"id": applied.entry.id, "match": one.match, "set": one.set} | applied.entry.effect)
                _tell(args, done[-1])
        if refused:
            if done:
                give(args, operator, "undo", {"id": done[-1]["id"], "force": False, "list": True})
                note(counted(len(done), "adjustment is undone", "adjustments are undone"))
            one, why = refused[0]
            note(f"{one.at}: this adjustment was refused, so none of the file is in force")
            raise FrontierError(why)
    if args.format == "json":
        _print_json(args, operator, done)
    else:
        say(f"{counted(len(done), 'adjustment')} applied")
        if len(done) > 1:
            note(f"`undo {done[-1]['id']} --list` takes them back")
    return code


def _batches(found: Sequence[ListedAdjustment]) -> Iterator[list[ListedAdjustment]]:
    """Yield adjustments in order, those together that concern different URIs: none changes what another one finds."""
    batch: list[tuple[ListedAdjustment, Match]] = []
    for one in found:
        match = parse_match(one.match)
        alone = len(batch) == TOGETHER or not all(_independent(other, (one, match)) for other in batch)
        if batch and alone:
            yield [each for each, _ in batch]
            batch = []
        batch.append((one, match))
    yield [each for each, _ in batch]


def _independent(*both: tuple[ListedAdjustment, Match]) -> bool:
    about_sheets = any(sheets.is_about_sheets(Override(one.match, one.set)) for one, _ in both)
    return not about_sheets and disjoint(*(match for _, match in both))


def _commands(
    args: argparse.Namespace, operator: CrawlOperator, found: Sequence[ListedAdjustment]
) -> Iterator[OperatorCommand]:
    """Return the commands of a list, each with what its dry run promises, as that of the file tells it."""
    name = f"{args.adjustment_file.name[:200]} {token_hex(4)}"
    commands: list[OperatorCommand] = []
    for place, one in enumerate(found, 1):
        details = {"match": one.match, "set": one.set}
        with suppress(FrontierError):  # of a sheet that an adjustment before it makes
            effect = operator.dry_run("adjust", details)
            details |= {} if operator.missing else {"promised": promise(effect)}
        if len(found) > 1:
            details |= {"list": {"name": name, "place": place, "of": len(found)}}
        commands.append(command_of(args, "adjust", details, one.reason))
    return iter(commands)


def _given(
    args: argparse.Namespace,
    operator: CrawlOperator,
    batch: Sequence[ListedAdjustment],
    commands: Sequence[OperatorCommand],
    before: int,
) -> list[Applied]:
    """Give some adjustments to the crawl, after some that are in force `before`; return the results."""
    try:
        with noting_continued(operator) as own, common.noting_interruption(args):
            done = operator.apply_all(commands)
            own += [one.entry.id for one in done if one.entry is not None]
    except FrontierError:
        note(f"{batch[0].at}: {before:,} before this are in force: give the file again once this is dealt with")
        raise
    return done


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
