"""`adjust`: change budgets and other settings of a crawl, running or stopped."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgetfrontier.tools.cli import adjustments, common, output
from budgetfrontier.tools.cli.common import Commands, add_command, add_job, add_who
from budgetfrontier.tools.cli.exits import OK
from budgetfrontier.tools.cli.on_crawl import give, on_crawl

if TYPE_CHECKING:
    from budgetfrontier.reports.operators import CrawlOperator
    from budgetfrontier.settings.overrides import Override


def register(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "adjust",
        on_crawl(adjust),
        "change budgets and other settings, for all queues or for those that match",
        more="The change is appended to the overrides. Every retired queue is reconsidered, except those retired by "
        "name. Each adjustment has an id, that of its audit entry.",
    )
    add_job(parser, cluster=True)
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument(
        "--match", default="*", metavar="PATTERN",
        help="domain:, host:, queue:, queues:, label:, surt:, regex: or group:, as in overrides (default: *, all)",
    )  # fmt: skip
    chosen.add_argument(
        "--queues",
        metavar="KEY,KEY...",
        help="short for --match queues:KEY,KEY...: these queues; keys with a comma as a JSON list",
    )
    add_settings(parser, "any setting that overrides may set, with a YAML value, repeatable: politeness.min_delay=3s")
    parser.add_argument("--total-budget", type=common.whole, metavar="N", help="short for --set queue_total_budget=N")
    parser.add_argument(
        "--replenish", type=common.whole, metavar="N", help="short for --set balance_replenish_amount=N"
    )
    other = parser.add_mutually_exclusive_group()
    other.add_argument(
        "--file", dest="adjustment_file", type=Path, metavar="FILE",
        help="apply a YAML list of {match, set, reason}, perhaps a gzip: all of them, or none if one is wrong",
    )  # fmt: skip
    other.add_argument("--list", action="store_true", help="list the adjustments in force, the first to apply first")
    other.add_argument(
        "--remove", type=common.entry_id, metavar="ID",
        help="withdraw this adjustment; what it had replaced does not come back",
    )  # fmt: skip
    parser.add_argument("--dry-run", action="store_true", help="only print what would change, for which queues")
    common.add_format(parser)
    add_who(parser)
    parser.set_defaults(usage=parser.error)


def adjust(args: argparse.Namespace, operator: CrawlOperator) -> int:
    """Apply an adjustment, or withdraw one; with --dry-run, print the effect that this would have."""
    override = _read_adjustment(args)
    if args.adjustment_file is not None:
        from budgetfrontier.tools.cli import adjustment_list

        return adjustment_list.apply(args, operator)
    if args.list:
        adjustments.write_list(args, operator.adjustments())
        return OK
    if override is None:
        match = adjustments.match_of(operator, args.remove)
        return change(args, operator, "withdraw", match, {"id": args.remove})
    return change(args, operator, "adjust", override.match, {"match": override.match, "set": override.set})


def change(args: argparse.Namespace, operator: CrawlOperator, op: str, match: str, details: dict[str, Any]) -> int:
    """Change the adjustments for what matches; with --dry-run, print the effect that this would have."""
    adjustments.announce(operator, match)
    if args.dry_run:
        effect = operator.dry_run(op, details)
        adjustments.print_effect(args, match, details, effect | output.missing_partitions(operator))
        return OK
    applied, code = give(args, operator, op, details)
    if applied.entry is not None:
        effect = applied.entry.effect
        if op == "adjust" and effect["matched"] == 0 and code == OK and not match.startswith("sheet:"):
            adjustments.note_no_match(match)
        named = {"id": applied.entry.id} if op == "adjust" else {}
        adjustments.print_effect(args, match, details, named | effect | output.missing_partitions(operator))
    elif args.format == common.JSON:
        adjustments.print_json(args, details, output.missing_partitions(operator))
    return code


def _read_adjustment(args: argparse.Namespace) -> Override | None:
    """Return the override that the arguments of `adjust` ask for; None with --file, --list and --remove."""
    settings = given_settings(args, queue_total_budget=args.total_budget, balance_replenish_amount=args.replenish)
    if args.list or args.remove is not None or args.adjustment_file is not None:
        if settings or args.match != "*" or args.queues is not None:
            args.usage("--file, --list and --remove are given without a pattern and settings")
        return None
    if not settings:
        args.usage("nothing to change: give --set NAME=VALUE, --total-budget N or --replenish N")
    if args.format == "csv":
        args.usage("csv is for --list")
    return validated(args.match if args.queues is None else f"queues:{args.queues}", settings)


def add_settings(parser: argparse.ArgumentParser, what: str) -> None:
    """Add the option --set, which `given_settings` reads, with its help."""
    parser.add_argument(
        "--set", action="append", default=[], type=assignment, metavar="NAME=VALUE", dest="settings", help=what
    )


def validated(match: str, settings: dict[str, Any]) -> Override:
    """Return an adjustment, and print the warnings of its settings. Raises SettingsError.

    It is validated here, so that errors do not have to come back from a running engine.
    """
    from budgetfrontier.settings.overrides import validate_override

    warnings: list[str] = []
    override = validate_override(match, settings, folder=Path(), warnings=warnings)
    common.warn(warnings)
    return override


def given_settings(args: argparse.Namespace, **short: Any) -> dict[str, Any]:
    """Return the settings of --set, and those of the options that are `short` for one; each is given once."""
    from budgetfrontier.settings.names import field_name, per_uri

    settings: dict[str, Any] = {}
    for name, value in [*args.settings, *((name, value) for name, value in short.items() if value is not None)]:
        if (name := field_name(name, per_uri())) in settings:
            args.usage(f"{name} is set twice: give each setting once")
        settings[name] = value
    return settings


def assignment(text: str) -> tuple[str, Any]:
    """Parse NAME=VALUE, a setting and its YAML value."""
    from budgetfrontier.settings.values import plain

    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    if value and value.isascii() and value.replace("-", "").replace(".", "").isalnum() and value[0] not in "-.":
        return name.strip(), plain(value)  # most values; avoids importing YAML
    from budgetfrontier.errors import SettingsError
    from budgetfrontier.settings.loader import parse_value

    try:
        return name.strip(), parse_value(value)
    except SettingsError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
