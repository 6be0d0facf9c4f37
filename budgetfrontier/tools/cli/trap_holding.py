"""`traps`: list the queues that look like crawler traps, with the evidence, and hold one."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from budgetfrontier.errors import FrontierError
from budgetfrontier.tools.cli import common
from budgetfrontier.tools.cli.adjust import change
from budgetfrontier.tools.cli.common import Commands, add_command, add_job
from budgetfrontier.tools.cli.exits import OK
from budgetfrontier.tools.cli.name_arguments import noting_none
from budgetfrontier.tools.cli.on_crawl import on_crawl
from budgetfrontier.tools.cli.sentences import say

if TYPE_CHECKING:
    from budgetfrontier.reports.operators import CrawlOperator
    from budgetfrontier.reports.trap_list import Suspect

COLUMNS = (
    "queue", "state", "score", "queued", "finished", "spent", "evidence", "patterns", "total_budget", "rule", "command",
)  # fmt: skip


def register(commands: Commands) -> None:
    """Add the command of this group."""
    parser = add_command(
        commands,
        "traps",
        on_crawl(traps),
        "list the queues that look like crawler traps, with the evidence",
        more="The most suspicious queue comes first, with the budget that would hold it, as a dry run to begin with, "
        "and the rule for `scope.reject` that would reject the URIs in question. The numbers of all queues are looked "
        "at, and 300 URIs of each of the 500 most interesting ones.",
    )
    add_job(parser, cluster=True)
    common.add_match(parser)
    parser.add_argument(
        "--limit", type=common.most, default=20, metavar="N", help="list at most N queues (default: 20; 0: all)"
    )
    parser.add_argument(
        "--apply", metavar="KEY", help="hold this queue, if it is suspicious: set its total budget to what it has spent"
    )
    parser.add_argument("--dry-run", action="store_true", help="with --apply: only print what would change")
    common.add_format(parser)
    common.add_who(parser)
    parser.set_defaults(usage=parser.error)


def traps(args: argparse.Namespace, operator: CrawlOperator) -> int:
    """List the queues that look like traps, or hold one of them."""
    from budgetfrontier.reports.operators import Selection

    if args.apply is not None:
        return _hold(args, operator)
    if args.dry_run:
        args.usage("--dry-run is for --apply")
    matched = f" among those that match {args.match}" if args.match else ""
    rows = noting_none(
        operator.traps(Selection(match=args.match), args.limit),
        f"no queue whose URIs were read looks like a trap{matched}",
        operator,
    )
    if args.format == "text":
        for number, suspect in enumerate(rows):
            for line in [""] * bool(number) + [*_lines(suspect, operator.job)]:
                say(line)
    else:
        common.write_rows(args, (_row(one, operator.job) for one in rows), COLUMNS)
    return OK


def _hold(args: argparse.Namespace, operator: CrawlOperator) -> int:
    """Give a suspicious queue its spend as its total budget; with --dry-run, print the effect that this would have."""
    suspect = _suspect(args, operator)
    details = holding(suspect)
    args.reason = args.reason or f"trap: {suspect.evidence[0].text}"
    return change(args, operator, "adjust", details["match"], details)


def _suspect(args: argparse.Namespace, operator: CrawlOperator) -> Suspect:
    from budgetfrontier.reports.format import clean
    from budgetfrontier.reports.operators import Selection
    from budgetfrontier.settings.matching import queue_match

    key = operator.key_of(args.apply)
    found = next((one for one in operator.traps(Selection(match=queue_match(key)), None) if one.queue == key), None)
    if found is None:
        raise FrontierError(f"{clean(key)} does not look like a trap; `budgetfrontier adjust` sets any budget")
    if found.total_budget is None:
        raise FrontierError(f"{clean(key)} is held already: {_held(found)}")
    return found


def holding(suspect: Suspect) -> dict[str, Any]:
    """Return the arguments of the adjustment that holds a suspicious queue."""
    from budgetfrontier.settings.matching import queue_match

    return {"match": queue_match(suspect.queue), "set": {"queue_total_budget": suspect.total_budget}}


def _command(suspect: Suspect, job: str) -> str:
    """Return the dry run of the adjustment that holds a queue; "" if it is held already."""
    if suspect.total_budget is None:
        return ""
    words = ("--match", holding(suspect)["match"], "--total-budget", str(suspect.total_budget), "--dry-run")
    return shlex.join(("budgetfrontier", "adjust", job, *words))


def _held(suspect: Suspect) -> str:
    """Return what holds a queue without a command."""
    if suspect.state == "RETIRED":
        return "it is RETIRED, and hands out none of its URIs"
    return "it is over its budget, and retires at its next turn"


def _row(suspect: Suspect, job: str) -> Sequence[object]:
    evidence = [{name: getattr(one, name) for name in one.__struct_fields__} for one in suspect.evidence]
    values = {"evidence": evidence, "rule": suspect.rule, "command": _command(suspect, job)}
    return [values[name] if name in values else getattr(suspect, name) for name in COLUMNS]


def _lines(suspect: Suspect, job: str) -> Iterator[str]:
    from budgetfrontier.reports.format import clean

    yield (
        f"{clean(suspect.queue)}: {suspect.score:.2f}, {suspect.state}, {suspect.queued:,} queued, "
        f"{suspect.finished:,} finished, {suspect.spent:,} spent"
    )
    for one in suspect.evidence:
        yield f"  {one.code}: {clean(one.text)}" + (f", such as {clean(one.example)}" if one.example else "")
    yield f"  paths: {clean(', '.join(suspect.patterns))}"
    command = _command(suspect, job)
    yield f"  hold it: {clean(command)}" if command else f"  held: {_held(suspect)}"
    if suspect.rule:
        yield f"  or in scope.reject: {_quoted(suspect.rule)}"


def _quoted(rule: str) -> str:
    """Return text as a scalar of YAML."""
    return "'" + rule.replace("'", "''") + "'"
