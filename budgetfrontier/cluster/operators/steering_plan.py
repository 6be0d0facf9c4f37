"""Plans of commands to a crawl in partitions: effects, the partitions concerned, and the results."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from budgetfrontier.cluster.operators import merging
from budgetfrontier.cluster.operators.crawl_owners import CrawlOwners
from budgetfrontier.cluster.operators.entry_names import read_name
from budgetfrontier.cluster.operators.inspection import ChangeFigures, Undoing
from budgetfrontier.cluster.partitions.operator_commands import refusal
from budgetfrontier.cluster.partitions.partition_progress import crawl_state, limit_reached
from budgetfrontier.core.model import CrawlState
from budgetfrontier.engine.commands.adjustment import is_foreseen, promise
from budgetfrontier.engine.commands.scheduling import uri_from
from budgetfrontier.errors import ConnectionLost, FrontierError
from budgetfrontier.reports.operators import AdjustmentRow
from budgetfrontier.rules.undoing import ADJUSTING, ENDING, ON_CRAWL, ON_QUEUES, says_nothing, telling
from budgetfrontier.settings.matching import may_select_several


class SteeringPlan(NamedTuple):
    """A command as it is given: its arguments, further ones of some partitions, and the partitions (None: all)."""

    args: dict[str, Any]
    more: Mapping[int, dict[str, Any]] | None = None
    to: Collection[int] | None = None


def dry_run(owners: CrawlOwners, op: str, args: dict[str, Any]) -> dict[str, Any]:
    """Return the effect that a command would have on the crawl. Raises FrontierError if it would be refused."""
    if op in ENDING:
        states, *_ = undoable(
            owners, op, read_name(str(args["id"])), force=bool(args.get("force")), whole=bool(args.get("list"))
        )
        return _on_crawl(owners, states)[0]
    if op not in ("schedule", "delete", "forget", "replay", "drop", *ADJUSTING, *ON_QUEUES, *ON_CRAWL):
        raise FrontierError(f"{op} has no dry run on a crawl in partitions")
    args = _as_asked(owners, op, args)
    if (error := refusal(op, args)) is not None:
        raise error
    if (parts := _parts(owners, args)) is not None:
        given = {number: {"op": op, "args": args | part} for number, part in parts.items()}
        effects = [owners.ask_one(number, "dry_run", dict[str, Any], **given[number]) for number in given]
        return merging.merged_effect(effects)
    found = owners.ask("dry_run", dict[str, Any], of=_concerned(owners, op, args), op=op, args=args)
    if not found:
        raise ConnectionLost(owners.without_owner(owners.missing))
    return _on_crawl(owners, [*found.values()])[0]


def _on_crawl(owners: CrawlOwners, effects: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the effects of a command on partitions as that on the crawl, and the arguments by which that is kept.

    While a total of the crawl is used up, its partitions are RUNNING: one look at all of them tells.
    """
    merged = merging.merged_effect(effects)
    limited = _limited(owners) if merging.is_on_crawl(merged) else None
    if limited is None:
        return merged, {}
    return merging.merged_effect([merging.on_crawl(one, limited) for one in effects]), {"limited": limited}


def _limited(owners: CrawlOwners) -> str | None:
    """Return the state of a crawl of which a total is used up; None for another one, or if it is not known."""
    look = owners.again()  # whose ages are not those of figures that are shown
    standings = look.standings().values()
    if look.lost or limit_reached(standings) is None:
        return None
    state = crawl_state(standings)
    return str(state) if state in (CrawlState.PAUSED, CrawlState.PAUSING) else None


def _parts(owners: CrawlOwners, args: dict[str, Any]) -> dict[int, dict[str, Any]] | None:
    """Return the dead letters or the URIs that a command names, by their partitions; None if it names none."""
    if args.get("ids") is not None:
        return {number: {"ids": ids} for number, ids in _by_partition(args["ids"]).items()}
    if not args.get("uris"):
        return None
    found: dict[int, dict[str, Any]] = {}
    for one in args["uris"]:
        number = owners.partition_of_uri(uri_from(one))
        found.setdefault(number, {"uris": []})["uris"].append(one)
    return found


def _by_partition(ids: Iterable[tuple[int, int]]) -> dict[int, list[int]]:
    """Return the numbers of dead letters by their partitions."""
    letters: dict[int, list[int]] = {}
    for partition, number in ids:
        letters.setdefault(partition, []).append(number)
    return letters


def plan(owners: CrawlOwners, op: str, args: dict[str, Any]) -> SteeringPlan:
    """Return the plan of a command. Raises FrontierError if it would be refused by all partitions."""
    if op in ADJUSTING:
        [found] = of_changes(owners, op, [_as_asked(owners, op, args)])
        if isinstance(found, FrontierError):
            raise found
        return found
    if op in ON_CRAWL:
        limited = _limited(owners)
        return SteeringPlan(args if limited is None else args | {"limited": limited})
    if op in ENDING:
        entry = read_name(str(args["id"]))
        asked = {"force": bool(args.get("force")), "whole": bool(args.get("list"))}
        effects, to, more = undoable(owners, op, entry, **asked, is_given=True)
        effect, kept = _on_crawl(owners, effects)
        args = args | kept
        if args.get("promised") is None and is_foreseen(effect) and not owners.missing:
            args = args | {"promised": promise(effect)}
        return SteeringPlan(args | {"id": entry if isinstance(entry, bytes) else entry[1]}, more, to)
    if (parts := _parts(owners, args)) is not None:
        rest: dict[str, Any] = {"uris": []} if args.get("ids") is None else {"ids": None}
        return SteeringPlan(args | rest, parts, parts.keys())
    return SteeringPlan(args, to=_concerned(owners, op, args))


def of_changes(owners: CrawlOwners, op: str, changes: Sequence[dict[str, Any]]) -> list[SteeringPlan | FrontierError]:
    """Return the plans of changes of adjustments that are given together, each its refusal if it has none.

    Each owner is asked once.
    """
    found = owners.ask("figures", list[ChangeFigures], op=op, changes=[*changes])
    plans: list[SteeringPlan | FrontierError] = []
    for place, args in enumerate(changes):
        parts = {number: told[place] for number, told in found.items()}
        if refusals := [one.refusal for one in parts.values() if one.refusal]:
            plans.append(FrontierError(telling(refusals)))
            continue
        if args.get("promised") is None and parts and not owners.missing:
            args = args | {"promised": promise(merging.merged_effect([one.promised for one in parts.values()]))}
        plans.append(SteeringPlan(args, {number: {"survey": one.survey} for number, one in parts.items()}))
    return plans


def _as_asked(owners: CrawlOwners, op: str, args: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a command; an adjustment to withdraw is named by the command that made it."""
    if op != "withdraw":
        return args
    name = str(args["id"])
    found = owners.ask("adjustments", list[AdjustmentRow]).values()
    command = read_name(name) if any(one.id == name for rows in found for one in rows) else None
    if not isinstance(command, bytes):
        raise FrontierError(
            f"adjustment {name} is not in force; `budgetfrontier adjust {owners.job} --list` lists those that are"
        )
    return args | {"id": command}


def undoable(
    owners: CrawlOwners,
    op: str,
    entry: bytes | tuple[int, int],
    *,
    force: bool,
    whole: bool = False,
    is_given: bool = False,
) -> tuple[list[dict[str, Any]], set[int], dict[int, dict[str, Any]]]:
    """Return the effect that `undo` or `discard` would have in each partition, and the partitions to give it to.

    The third are the arguments by which partitions keep what the queues of an adjustment have come to, if it
    `is_given`. It is given to the partitions that the command has changed, in which it waits, or that do not answer.
    Raises FrontierError, also if one of them refuses it without `force` because something was changed since.
    """
    number = entry if isinstance(entry, bytes) else entry[1]
    of = None if isinstance(entry, bytes) else [entry[0]]
    if of is not None and of[0] >= owners.partitions:
        raise FrontierError(f"there is no partition {of[0]}: they are 0 to {owners.partitions - 1}")
    found = owners.ask("undo", Undoing, of=of, op=op, entry=number, force=force, whole=whole, is_given=is_given)
    changed = {partition: one for partition, one in found.items() if one.can_be_forced}
    if changed:
        raise FrontierError(f"in {merging.named_partitions(changed)}: {next(iter(changed.values())).refusal}")
    effects = {partition: one.effect for partition, one in found.items() if one.effect is not None}
    if not effects:
        if not found:
            raise ConnectionLost(owners.without_owner(owners.missing))
        why = telling(one.refusal for one in found.values() if one.is_known)
        if owners.missing and of is None and (not why or says_nothing(why)):
            raise ConnectionLost(
                f"no partition that answers has anything of it for `{op}`, and {owners.without_owner(owners.missing)}: "
                "give it again once all answer"
            )
        raise FrontierError(why or f"no partition that answers has it; `budgetfrontier audit {owners.job}` lists all")
    waiting = {partition for partition, one in found.items() if one.waits}
    everywhere = of is None and all(one.is_known or one.waits for one in found.values())
    more = {partition: {"then": one.then} for partition, one in found.items() if one.then}
    return [*effects.values()], {*effects, *waiting, *(owners.missing if everywhere else ())}, more


def _concerned(owners: CrawlOwners, op: str, args: dict[str, Any]) -> list[int] | None:
    """Return the partition of the queue that a command names in full; None: all."""
    key = args.get("queue")
    if key is None or (op not in ON_QUEUES and may_select_several(key)):
        return None
    return [owners.partition_of_queue(key)]
