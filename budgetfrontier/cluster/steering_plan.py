"""Plans of commands to a crawl in partitions: effects, the partitions concerned, and the results."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from budgetfrontier.cluster import merging
from budgetfrontier.cluster.entry_names import read_name
from budgetfrontier.cluster.inspection import InForce, ProposedAdjustment, Undoing
from budgetfrontier.cluster.operator_client import Operator, OperatorCommand
from budgetfrontier.cluster.operator_commands import OF_QUEUES, refusal, replicable
from budgetfrontier.errors import ConnectionLost, FrontierError
from budgetfrontier.settings.matching import may_select_several
from budgetfrontier.storage.records import AuditEntry

CRAWL: Final = ("pause", "resume", "terminate")


NOTHING_KEPT: Final = "what is deleted in a crawl in partitions is not kept"


class SteeringPlan(NamedTuple):
    """A command as it is given: its arguments, further ones of some partitions, and the partitions (None: all)."""

    args: dict[str, Any]
    more: Mapping[int, dict[str, Any]] | None = None
    to: Collection[int] | None = None


def preview(operator: Operator, op: str, args: dict[str, Any]) -> dict[str, Any]:
    """Return the effect that a command would have on the crawl. Raises FrontierError if it would be refused."""
    if op in ("adjust", "withdraw"):
        effects = operator.ask("preview", dict[str, Any], order=order_of(operator, op, args))
        return merging.merged_effect([*_answered(operator, effects).values()])
    if op == "undo":
        states, _ = undoable(operator, read_name(str(args["id"])), force=bool(args.get("force")))
        return merging.merged_undo(states) | merging.merged_states(states)
    if op == "delete":
        if (error := refusal(op, args)) is not None:
            raise error
        to = partitions_of_glob(operator, args.get("queue"))
        found = operator.ask("deletion", dict[str, Any], of=to, args=replicable(op, args))
        return merging.added(_answered(operator, found).values())
    if op in OF_QUEUES:
        number = operator.partition_of_queue(args["queue"])
        effect: dict[str, Any] = operator.ask_one(number, "on_queue", dict[str, Any], op=op, args=args)
        return effect
    if op in CRAWL:
        states = [*_answered(operator, operator.ask("on_crawl", dict[str, Any], op=op, args=args)).values()]
        return merging.added(states, {}) | merging.merged_states(states)
    raise FrontierError(f"{op} has no dry run on a crawl in partitions")


def plan(operator: Operator, op: str, args: dict[str, Any]) -> SteeringPlan:
    """Return how a command is given. Raises FrontierError if it would be refused by all partitions."""
    if op in ("adjust", "withdraw"):
        surveys = operator.ask("survey", dict[str, Any], order=order_of(operator, op, args))
        args = args if op == "adjust" else args | {"id": read_name(str(args["id"]))}
        return SteeringPlan(args, {number: {"survey": survey} for number, survey in surveys.items()})
    if op == "undo":
        entry = read_name(str(args["id"]))
        _, to = undoable(operator, entry, force=bool(args.get("force")))
        return SteeringPlan(args | {"id": entry if isinstance(entry, bytes) else entry[1]}, to=to)
    if op == "delete":
        return SteeringPlan(args, to=partitions_of_glob(operator, args.get("queue")))
    if op in OF_QUEUES:
        return SteeringPlan(args, to=[operator.partition_of_queue(args["queue"])])
    return SteeringPlan(args)


def give(
    operator: Operator, command: OperatorCommand, planned: SteeringPlan
) -> tuple[bytes, dict[int, AuditEntry], set[int]]:
    """Give a command as it is planned, and wait for the partitions that it is for.

    Returns its id, its audit entries by partition, and the partitions that have not applied it yet.
    """
    asked = set(range(operator.partitions) if planned.to is None else planned.to)
    name = operator.give(command, planned.more, to=planned.to)
    entries = operator.applied(name, of=asked)
    return name, entries, asked - entries.keys()


def order_of(operator: Operator, op: str, args: dict[str, Any]) -> ProposedAdjustment:
    """Return an adjustment, or its withdrawal by its name, as partitions are asked what it would change."""
    if op == "adjust":
        return ProposedAdjustment(args["match"], args["set"])
    name = args["id"]
    for known, one in merging.merged_adjustments(operator.ask("adjustments", list[InForce])):
        if known == str(name) and one.command is not None:
            return ProposedAdjustment(one.match, one.set, one.command)
    raise FrontierError(
        f"adjustment {name} is not in force; `budgetfrontier adjust {operator.job} --list` lists those that are"
    )


def undoable(
    operator: Operator, entry: bytes | tuple[int, int], *, force: bool
) -> tuple[list[dict[str, Any]], set[int]]:
    """Return the effect that the undo of a command would have in each partition, and the partitions to give it to.

    Those are the ones in which it has changed something or waits, and those that do not answer. Raises FrontierError:
    also if it is refused in one of them because something was changed since, without `force`.
    """
    number = entry if isinstance(entry, bytes) else entry[1]
    of = None if isinstance(entry, bytes) else [entry[0]]
    if of is not None and of[0] >= operator.partitions:
        raise FrontierError(f"there is no partition {of[0]}: they are 0 to {operator.partitions - 1}")
    found: dict[int, Undoing] = operator.ask("undo", Undoing, of=of, entry=number, force=force)
    changed = {partition: one for partition, one in found.items() if one.can_be_forced}
    if changed:
        raise FrontierError(f"in {merging.named_partitions(changed)}: {next(iter(changed.values())).refusal}")
    effects = {partition: one.effect for partition, one in found.items() if one.effect is not None}
    if not effects:
        if not found:
            raise ConnectionLost(operator.without_owner(operator.missing))
        why = next((one.refusal for one in found.values() if one.is_known), "")
        raise FrontierError(why or f"no partition that answers has it; `budgetfrontier audit {operator.job}` lists all")
    waiting = {partition for partition, one in found.items() if one.waits}
    everywhere = of is None and all(one.is_known or one.waits for one in found.values())
    return [*effects.values()], {*effects, *waiting, *(operator.missing if everywhere else ())}


def partitions_of_glob(operator: Operator, glob: str | None) -> list[int] | None:
    """Return the partition of a queue that a glob names in full; None: all."""
    if glob is None or may_select_several(glob):
        return None
    return [operator.partition_of_queue(glob)]


def _answered(operator: Operator, found: dict[int, Any]) -> dict[int, Any]:
    if not found:
        raise ConnectionLost(operator.without_owner(operator.missing))
    return found
