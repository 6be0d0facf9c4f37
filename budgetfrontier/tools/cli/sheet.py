"""The command `sheet`: what the sheets of a crawl are associated with, and their values, are changed while it runs."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from budgetfrontier.tools.cli import common
from budgetfrontier.tools.cli.adjust import add_settings, change, given_settings, validated
from budgetfrontier.tools.cli.common import Commands, add_command, add_job, add_who
from budgetfrontier.tools.cli.exits import OK
from budgetfrontier.tools.cli.on_crawl import on_crawl

if TYPE_CHECKING:
    from budgetfrontier.reports.operators import CrawlOperator
    from budgetfrontier.settings.overrides import Override

COLUMNS = ("sheet", "match", "order", "queues", "set", "adjustment")


def register(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "sheet",
        on_crawl(sheet),
        "associate sheets with hosts, or change their values",
        more="add: associate the sheet NAME with --match. remove: end that. set: change values of the sheet, or make a "
        "new one. list: the sheets, what they are associated with, and how many queues that concerns now. Each change "
        "is an adjustment, which `undo` takes back.",
    )
    add_job(parser, cluster=True)
    parser.add_argument("action", choices=("add", "remove", "set", "list"), help="what to do")
    parser.add_argument("name", nargs="?", metavar="NAME", help="the sheet, such as smallBudget")
    parser.add_argument(
        "--match", metavar="PATTERN", help="with add and remove: surt:, domain:, host:, queue:, label: or regex:"
    )
    parser.add_argument("--order", type=common.whole, metavar="N", help="with add: later than sheets of lower numbers")
    add_settings(
        parser, "with set: a setting that overrides may set, with a YAML value, repeatable: politeness.min_delay=3s"
    )
    parser.add_argument("--dry-run", action="store_true", help="only print what would change, for which queues")
    common.add_format(parser)
    add_who(parser)
    parser.set_defaults(usage=parser.error)


def sheet(args: argparse.Namespace, operator: CrawlOperator) -> int:
    """Apply a change of a sheet, or list the sheets; with --dry-run, print the effect that the change would have."""
    if args.action == "list":
        if args.name or args.match or args.settings or args.order is not None or args.dry_run:
            args.usage("list takes no other arguments; it lists all sheets")
        common.write_rows(args, _rows(operator), COLUMNS, drop=("order",))
        return OK
    override = _read(args)
    return change(args, operator, "adjust", override.match, {"match": override.match, "set": override.set})


def _read(args: argparse.Namespace) -> Override:
    """Return the adjustment that the arguments ask for."""
    if args.format == "csv":
        args.usage("csv is for list")
    if not args.name:
        args.usage(f"{args.action} needs the NAME of a sheet")
    if args.action == "set":
        if not args.settings or args.match is not None or args.order is not None:
            args.usage("set takes --set NAME=VALUE, and changes no association")
        match, settings = f"sheet:{args.name}", given_settings(args)
    else:
        if args.match is None or args.settings or (args.order is not None and args.action == "remove"):
            more = ", and --order N if other sheets set the same" if args.action == "add" else ""
            args.usage(f"{args.action} needs --match PATTERN{more}; --set is for set")
        match, settings = args.match, {"sheet" if args.action == "add" else "without_sheet": args.name}
        settings |= {"sheet_order": args.order} if args.order else {}
    return validated(match, settings)


def _rows(operator: CrawlOperator) -> Iterator[tuple[Any, ...]]:
    """Yield each association in the order in which they apply, and the sheets without one. O(queues) each."""
    from budgetfrontier.settings import sheets
    from budgetfrontier.settings.overrides import Override

    settings, rows = operator.settings, operator.adjustments()
    changes = [Override(row.match, row.set) for row in rows]
    ids = {(row.match, row.set["sheet"]): row.id for row in rows if "sheet" in row.set}
    values, there = sheets.sheets_in_force(settings, changes), sheets.associations_in_force(settings, changes)
    for one in there:
        found = values.get(one.sheet, {})
        queues = operator.dry_run("adjust", {"match": one.match, "set": found})["matched"] if found else None
        yield one.sheet, one.match, one.order, queues, found, ids.get((one.match, one.sheet))
    for name in sorted(values.keys() - {one.sheet for one in there}):
        yield name, None, None, None, values[name], None
