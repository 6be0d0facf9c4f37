"""Commands that change a crawl in partitions: to one queue through its owner, to all partitions through their logs."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Any

from budgetfrontier.cli import adjustments, cluster_show, common, steer
from budgetfrontier.cli.exits import ERROR, OK
from budgetfrontier.cli.messages import note, say
from budgetfrontier.cluster import merging
from budgetfrontier.cluster.inspection import InForce, Order
from budgetfrontier.cluster.operation import WAIT, Command, Operator, refused
from budgetfrontier.engine.remote import whoami
from budgetfrontier.errors import FrontierError
from budgetfrontier.reports.format import counted
from budgetfrontier.store.records import AuditEntry
from budgetfrontier.vocabulary import CrawlState


def steer_queue(op: str, args: argparse.Namespace, operator: Operator) -> None:
    """Apply a command to a queue, in its partition."""
    details = steer.details_of_queue(op, args)
    cluster_show.check_queue(operator, args.key)
    steer.tell_queue(op, args, details, operator.apply(_command(args, op, details)).effect)


def steer_crawl(op: str, args: argparse.Namespace, operator: Operator) -> int:
    """Apply a command to all partitions, once each, and tell what it has changed."""
    details = {"reason": args.reason or "operator"} if op == "pause" else {}
    entries, code = _everywhere(args, operator, op, details)
    changes = Counter((one.effect["before"]["state"], one.effect["after"]["state"]) for one in entries.values())
    for (before, after), count in changes.most_common():
        say(f"{before} -> {after}" + (f": {counted(count, 'partition')}" if len(changes) > 1 else ""))
    if op != "terminate" and any(after == CrawlState.TERMINATED for _, after in changes):
        note(common.TERMINATED)
        return ERROR
    return code


def adjust(args: argparse.Namespace, operator: Operator) -> int:
    """Apply an adjustment to all partitions; with --dry-run, print what it would do."""
    override = steer.read_adjustment(args)
    if args.list:
        _list(args, operator)
        return OK
    op: str
    details: dict[str, Any]
    if override is not None:
        op, details = "adjust", {"match": override.match, "set": override.set}
        order = Order(override.match, override.set)
    else:
        op, details = "withdraw", {"id": _id(args.remove)}
        order = _in_force(operator, args.remove)
    shown = {"match": order.match, "set": order.set} if op == "adjust" else {"id": args.remove}
    if args.dry_run:
        effects = operator.ask("preview", dict[str, Any], order=order)
        adjustments.print_effect(
            args, order.match, shown, merging.merged_effect([*effects.values()]) | _missing(operator)
        )
        return OK
    surveys = operator.ask("survey", dict[str, Any], order=order)
    more = {number: {"survey": survey} for number, survey in surveys.items()}
    entries, code = _everywhere(args, operator, op, details, more)
    effect = merging.merged_effect([one.effect for one in entries.values()])
    adjustments.print_effect(args, order.match, shown, effect | _missing(operator))
    return code


def import_(args: argparse.Namespace, operator: Operator) -> int:
    """Import URIs, each into its partition."""
    from budgetfrontier.cli import importing

    return importing.run(args, operator.frontier)


def _list(args: argparse.Namespace, operator: Operator) -> None:
    found = merging.merged_adjustments(operator.ask("adjustments", list[InForce]))
    adjustments.write_list(args, [(name, one.match, one.set, one.entry) for name, one in found])


def _in_force(operator: Operator, name: str | int) -> Order:
    """Return the order for a look at what it would change to withdraw an adjustment."""
    for known, one in merging.merged_adjustments(operator.ask("adjustments", list[InForce])):
        if known == str(name) and one.command is not None:
            return Order(one.match, one.set, one.command)
    raise FrontierError(
        f"adjustment {name} is not in force; `budgetfrontier adjust {operator.job} --list` lists those that are"
    )


def _id(name: str | int) -> bytes:
    try:
        return bytes.fromhex(str(name))
    except ValueError:
        raise FrontierError(f"{name} is no id of an adjustment; `adjust --list` shows them") from None


def _everywhere(
    args: argparse.Namespace,
    operator: Operator,
    op: str,
    details: dict[str, Any],
    more: dict[int, dict[str, Any]] | None = None,
) -> tuple[dict[int, AuditEntry], int]:
    """Give a command to all partitions; return its audit entries, and the exit code. Raises an error if refused."""
    name = operator.apply_everywhere(_command(args, op, details), more)
    entries = operator.applied(name)
    left = set(range(operator.partitions)) - entries.keys()
    if left:
        wait = "it is in their logs" if len(left) > 1 else "it is in its log"
        note(
            f"not applied within {WAIT:.0f} s by {merging.named_partitions(left)} of {operator.partitions}: {wait}, "
            "and counts once an owner reads it; do not give it again"
        )
    refused(entries)
    errors = {number: one.error for number, one in entries.items() if one.error}
    if errors:
        note(f"refused by {merging.named_partitions(errors)}: {next(iter(errors.values()))}")
    return {number: one for number, one in entries.items() if not one.error}, ERROR if left or errors else OK


def _command(args: argparse.Namespace, op: str, details: dict[str, Any]) -> Command:
    return Command(op, details, args.who or whoami(), args.reason, getattr(args, "line", ""))


def _missing(operator: Operator) -> dict[str, Any]:
    return {"missing_partitions": sorted(operator.missing)}
