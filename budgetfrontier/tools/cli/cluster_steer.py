"""Commands that change a crawl in partitions: to one queue through its owner, to all partitions through their logs."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from typing import Any

from budgetfrontier.cluster import merging, steering_plan
from budgetfrontier.cluster.inspection import InForce, Selection
from budgetfrontier.cluster.operator_client import Operator, OperatorCommand, refused
from budgetfrontier.cluster.steering_plan import NOTHING_KEPT, SteeringPlan
from budgetfrontier.core.vocabulary import CrawlState
from budgetfrontier.engine.remote import whoami
from budgetfrontier.errors import FrontierError
from budgetfrontier.reports.format import clean, counted
from budgetfrontier.settings.matching import may_select_several
from budgetfrontier.storage.records import AuditEntry
from budgetfrontier.tools.cli import adjustments, cluster_show, common, effects, steer, transfer
from budgetfrontier.tools.cli.exits import ERROR, OK
from budgetfrontier.tools.cli.sentences import note, say


def steer_queue(op: str, args: argparse.Namespace, operator: Operator) -> None:
    """Apply a command to a queue, in its partition."""
    details = steer.details_of_queue(op, args)
    args.key = details["queue"] = cluster_show.check_queue(operator, args.key)
    effects.tell_queue(op, args, details, operator.apply(_command(args, op, details)).effect)


def steer_crawl(op: str, args: argparse.Namespace, operator: Operator) -> int:
    """Apply a command to all partitions, once each, and tell what it has changed."""
    steer.confirm_end(op, args)
    details = {"reason": args.reason or "operator"} if op == "pause" else {}
    entries, code = _given(args, operator, op, SteeringPlan(details))
    changes = Counter((one.effect["before"]["state"], one.effect["after"]["state"]) for one in entries.values())
    for (before, after), count in changes.most_common():
        say(f"{before} -> {after}" + (f": {counted(count, 'partition')}" if len(changes) > 1 else ""))
    if op == "resume":
        cluster_show.note_limit(operator)
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
    op = "withdraw" if override is None else "adjust"
    shown = {"id": args.remove} if override is None else {"match": override.match, "set": override.set}
    match = steering_plan.order_of(operator, op, shown).match
    if args.dry_run:
        effect = steering_plan.preview(operator, op, shown)
        adjustments.print_effect(args, match, shown, effect | _missing(operator))
        return OK
    entries, code = _given(args, operator, op, steering_plan.plan(operator, op, shown))
    if entries:
        effect = merging.merged_effect([one.effect for one in entries.values()])
        if op == "adjust" and not effect["matched"] and len(entries) == operator.partitions:
            adjustments.note_no_match(match)
        adjustments.print_effect(args, match, shown, effect | _missing(operator))
    elif args.format == common.JSON:
        adjustments.print_json(args, shown, _missing(operator))
    return code


def undo(args: argparse.Namespace, operator: Operator) -> int:
    """Undo a command in all partitions in which it has changed something; with --dry-run, print what that would do.

    If any of them has changed since, it is refused as a whole, unless with --force.
    """
    if args.discard:
        raise FrontierError(f"{NOTHING_KEPT}: there is nothing to discard")
    details = {"id": args.entry, "force": args.force}
    if args.dry_run:
        effects.tell_undo_preview(steering_plan.preview(operator, "undo", details))
        return OK
    entries, code = _given(args, operator, "undo", steering_plan.plan(operator, "undo", details))
    if entries:
        effects.tell_undo(args.entry, merging.merged_result("undo", [one.effect for one in entries.values()]))
    return code


def delete(args: argparse.Namespace, operator: Operator) -> int:
    """Delete pending URIs in all partitions, or in that of one queue; with --dry-run, only count them."""
    details = steer.details_of_deletion(args)
    if args.queue is not None and not may_select_several(args.queue):
        cluster_show.check_queue(operator, args.queue)
    if args.dry_run:
        effects.tell_deletion_preview(steering_plan.preview(operator, "delete", details), operator.head().totals)
        return OK
    _check_for_good(args)
    entries, code = _given(args, operator, "delete", steering_plan.plan(operator, "delete", details))
    if entries:
        effect = merging.added(one.effect for one in entries.values())
        effects.tell_deletion(effect)
        if args.queue is not None and may_select_several(args.queue) and not effect["deleted"]:
            _note_no_queue(operator, args.queue)
    return code


def _note_no_queue(operator: Operator, glob: str) -> None:
    """Say that a glob matches no queue, if it does not."""
    if not operator.best_queues(Selection(match=glob), sort="queue", reverse=False, count=1) and not operator.missing:
        note(f"no queue matches {clean(glob)}")


def dead_letters(args: argparse.Namespace, operator: Operator) -> int:
    """Replay or drop dead letters, some of them or all; or list them."""
    ids = args.replay or args.drop
    if not ids:
        cluster_show.dead_letters(args, operator)
        return OK
    transfer.check_letters(args, ids)
    op, done = ("replay", "replayed") if args.replay else ("drop", "dropped")
    if args.replay and operator.head().state == CrawlState.TERMINATED:
        raise FrontierError(common.TERMINATED)
    if args.drop:
        _check_for_good(args)
    more = None if "all" in ids else _letters(operator, ids)
    entries, code = _given(args, operator, op, SteeringPlan({"ids": None, "queue": None}, more, more))
    if entries:
        say(f"{done} {sum(one.effect[done] for one in entries.values()):,}")
    return code


def _letters(operator: Operator, ids: Sequence[Any]) -> dict[int, dict[str, Any]]:
    """Return the arguments of each partition for dead letters. Raises FrontierError if one is not there."""
    wanted: dict[int, list[int]] = {}
    for one in ids:
        if not isinstance(one, transfer.LetterId) or one.partition >= operator.partitions:
            raise _no_letter(operator, one)
        wanted.setdefault(one.partition, []).append(one.number)
    for partition, numbers in wanted.items():
        unknown = operator.ask_one(partition, "unknown_letters", list[int], ids=numbers)
        if unknown:
            raise _no_letter(operator, transfer.LetterId(partition, unknown[0]))
    return {partition: {"ids": numbers} for partition, numbers in wanted.items()}


def _no_letter(operator: Operator, name: Any) -> FrontierError:
    return FrontierError(
        f"there is no dead letter {name}; `budgetfrontier dead-letters {operator.job}` lists them as PARTITION/ID, and "
        "nothing was changed"
    )


def _check_for_good(args: argparse.Namespace) -> None:
    """Raise FrontierError if it was not said that nothing is to be kept."""
    if not args.for_good:
        raise FrontierError(f"{NOTHING_KEPT}: it cannot be undone. Say so with --for-good")


def import_(args: argparse.Namespace, operator: Operator) -> int:
    """Import URIs, each into its partition. Once the crawl is found, partitions without an owner are waited for."""
    from budgetfrontier.tools.cli import importing, submission

    if not args.dry_run:
        operator.frontier.connect()
        operator.frontier.retry_for = submission.RETRY_FOR
    return importing.run(args, operator.frontier)


def _list(args: argparse.Namespace, operator: Operator) -> None:
    found = merging.merged_adjustments(operator.ask("adjustments", list[InForce]))
    adjustments.write_list(args, [(name, one.match, one.set, one.entry) for name, one in found])


def _given(
    args: argparse.Namespace, operator: Operator, op: str, plan: SteeringPlan
) -> tuple[dict[int, AuditEntry], int]:
    """Give a command to partitions; return its audit entries, and the exit code. Raises an error if refused."""
    _, entries, left = steering_plan.give(operator, _command(args, op, plan.args), plan)
    if left:
        note(operator.not_applied(left))
    refused(entries)
    errors = {number: one.error for number, one in entries.items() if one.error}
    if errors:
        note(f"refused by {merging.named_partitions(errors)}: {next(iter(errors.values()))}")
    return {number: one for number, one in entries.items() if not one.error}, ERROR if left or errors else OK


def _command(args: argparse.Namespace, op: str, details: dict[str, Any]) -> OperatorCommand:
    return OperatorCommand(op, details, args.who or whoami(), args.reason, getattr(args, "line", ""))


def _missing(operator: Operator) -> dict[str, Any]:
    return {"missing_partitions": sorted(operator.missing)}
