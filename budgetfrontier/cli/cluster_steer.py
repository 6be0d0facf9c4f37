"""Commands that change a crawl in partitions: to one queue through its owner, to all partitions through their logs."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from budgetfrontier.cli import adjustments, cluster_show, common, effects, named, steer, transfer
from budgetfrontier.cli.exits import ERROR, OK
from budgetfrontier.cli.messages import note, say
from budgetfrontier.cluster import merging
from budgetfrontier.cluster.commands import refusal, replicable
from budgetfrontier.cluster.entry_names import read_name
from budgetfrontier.cluster.inspection import InForce, Order, Undoing
from budgetfrontier.cluster.operation import Command, Operator, refused
from budgetfrontier.engine.remote import whoami
from budgetfrontier.errors import ConnectionLost, FrontierError
from budgetfrontier.reports.format import counted
from budgetfrontier.store.records import AuditEntry
from budgetfrontier.vocabulary import CrawlState

NOTHING_KEPT = "what is deleted in a crawl in partitions is not kept"


def steer_queue(op: str, args: argparse.Namespace, operator: Operator) -> None:
    """Apply a command to a queue, in its partition."""
    details = steer.details_of_queue(op, args)
    cluster_show.check_queue(operator, args.key)
    effects.tell_queue(op, args, details, operator.apply(_command(args, op, details)).effect)


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


def undo(args: argparse.Namespace, operator: Operator) -> int:
    """Undo a command in all partitions in which it has changed something; with --dry-run, print what that would do.

    If any of them has changed since, it is refused as a whole, unless with --force.
    """
    if args.discard:
        raise FrontierError(f"{NOTHING_KEPT}: there is nothing to discard")
    name = args.entry if isinstance(args.entry, str) else ""
    entry = read_name(name or f"{args.entry}")
    effects_, to = undoable(operator, entry, force=args.force)
    if args.dry_run:
        told = merging.merged_undo(effects_)
        effects.tell_undo_preview(told | _crawl_states(effects_))
        return OK
    entries, code = _everywhere(args, operator, "undo", {"id": entry, "force": args.force}, to=to)
    if entries:
        done = [one.effect for one in entries.values()]
        effects.tell_undo(name, merging.merged_undo(done) | _crawl_states(done))
    return code


def undoable(operator: Operator, entry: bytes | tuple[int, int], *, force: bool) -> tuple[list[dict[str, Any]], Any]:
    """Return what the undo of a command would do in each partition, and to which it is to be given.

    Those are the ones in which it has changed something, and those that do not answer. Raises FrontierError.
    """
    number = entry if isinstance(entry, bytes) else entry[1]
    of = None if isinstance(entry, bytes) else [entry[0]]
    if of is not None and not of[0] < operator.partitions:
        raise FrontierError(f"there is no partition {of[0]}: they are 0 to {operator.partitions - 1}")
    found: dict[int, Undoing] = operator.ask("undo", Undoing, of=of, entry=number, force=force)
    changed = {partition: one for partition, one in found.items() if one.can_be_forced}
    if changed:
        raise FrontierError(f"in {merging.named_partitions(changed)}: {next(iter(changed.values())).refusal}")
    effects_ = {partition: one.effect for partition, one in found.items() if one.effect is not None}
    if not effects_:
        if not found:
            raise ConnectionLost(operator.without_owner(operator.missing))
        why = next((one.refusal for one in found.values() if one.is_known), "")
        raise FrontierError(why or f"no partition that answers has it; `budgetfrontier audit {operator.job}` lists all")
    everywhere = of is None and all(one.is_known for one in found.values())
    return [*effects_.values()], effects_.keys() | (operator.missing if everywhere else set())


def _crawl_states(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the states before and after of effects on the state of the crawl, of all partitions."""
    if "queue" in found[0] or not isinstance(found[0].get("before"), dict) or "state" not in found[0]["before"]:
        return {}
    states = {
        when: " or ".join(dict.fromkeys(str(one[when]["state"]) for one in found)) for when in ("before", "after")
    }
    return {when: found[0][when] | {"state": states[when]} for when in states}


def delete(args: argparse.Namespace, operator: Operator) -> int:
    """Delete pending URIs in all partitions, or in that of one queue; with --dry-run, only count them."""
    details = steer.details_of_deletion(args)
    to = None
    if args.queue is not None and not named.has_wildcards(args.queue):
        cluster_show.check_queue(operator, args.queue)
        to = [operator.partition_of_queue(args.queue)]
    if (error := refusal("delete", details)) is not None:
        raise error
    if args.dry_run:
        found = operator.ask("deletion", dict[str, Any], of=to, args=replicable("delete", details))
        effects.tell_deletion_preview(merging.added(found.values()), operator.head().totals)
        return OK
    _check_for_good(args)
    entries, code = _everywhere(args, operator, "delete", details, to=to)
    if entries:
        effects.tell_deletion(merging.added(one.effect for one in entries.values()))
    return code


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
    entries, code = _everywhere(args, operator, op, {"ids": None, "queue": None}, more, to=more)
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
    more: Mapping[int, dict[str, Any]] | None = None,
    to: Iterable[int] | None = None,
) -> tuple[dict[int, AuditEntry], int]:
    """Give a command to partitions; return its audit entries, and the exit code. Raises an error if refused."""
    asked = set(range(operator.partitions) if to is None else to)
    name = operator.give(_command(args, op, details), more, to=None if to is None else asked)
    entries = operator.applied(name, of=asked)
    left = asked - entries.keys()
    if left:
        note(operator.not_applied(left))
    refused(entries)
    errors = {number: one.error for number, one in entries.items() if one.error}
    if errors:
        note(f"refused by {merging.named_partitions(errors)}: {next(iter(errors.values()))}")
    return {number: one for number, one in entries.items() if not one.error}, ERROR if left or errors else OK


def _command(args: argparse.Namespace, op: str, details: dict[str, Any]) -> Command:
    return Command(op, details, args.who or whoami(), args.reason, getattr(args, "line", ""))


def _missing(operator: Operator) -> dict[str, Any]:
    return {"missing_partitions": sorted(operator.missing)}
