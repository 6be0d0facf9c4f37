"""The reports, effects and audits of partitions, merged to those of one crawl: pure rules."""

from __future__ import annotations

import json
from collections import ChainMap, Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from budgetfrontier.cluster.partitions.partition_progress import PartitionProgress as Partition
from budgetfrontier.cluster.partitions.summed_totals import merged_summary
from budgetfrontier.core.model import CrawlState, Process, Run, Summary, Tally
from budgetfrontier.core.units import counted
from budgetfrontier.reports.operators import AdjustmentRow, AuditRow
from budgetfrontier.rules.crawl_states import LIMIT
from budgetfrontier.rules.forecasts import Held, Limit
from budgetfrontier.rules.verdict import Standing
from budgetfrontier.storage.records import NAMED_QUEUES, AuditEntry
from budgetfrontier.storage.report import Report
from budgetfrontier.storage.series import Busiest

_NAMED: Final = 1000
"""Queues whose keys an effect names."""
_GROUPS: Final = 100
_FIRST: Final = 10
"""URIs that a dry run names."""
_USED_BY: Final = {
    "cluster.max_uris": (("succeeded", "failed"), "URIs"),
    "cluster.max_spend": (("spent",), "of spend"),
}
"""The figures that use the crawl-wide totals up, and their units."""
_SUMS: Final = (
    "revived_count",
    "reconsidered_count",
    "retired_count",
    "eligible_count",
    "ineligible_count",
    "regraded_count",
    "still_over",
    "closed_count",
    "still_closed",
    "opened_count",
    "by_name",
    "uris",
    "spend",
    "disregarded",
    "held_back",
)


def merged_report(
    reports: Sequence[Report],
    *,
    job: str,
    workers: int,
    state: CrawlState | None = None,
    limit: str | None = None,
    unanswered: str = "",
) -> Report:
    """Return the reports of partitions, without their queues, as that of one crawl.

    `job` stands for it in commands; `state` is its state if that is known better than from the totals, and `limit` the
    setting whose total is used up. `unanswered` is the sentence on partitions without a report: the state is then
    UNKNOWN, unless the others are TERMINATED.
    """
    totals = merged_summary([one.totals for one in reports])
    if unanswered and totals.state is not CrawlState.TERMINATED:
        totals.state = CrawlState.UNKNOWN
    elif state is not None:
        totals.state = state
    if limit is not None and totals.pause_reason is None and state in (CrawlState.PAUSED, CrawlState.PAUSING):
        totals.pause_reason = LIMIT
    return Report(
        crawl=reports[0].crawl,
        generated=max(one.generated for one in reports),
        state=totals.state,
        pause_reason=totals.pause_reason,
        totals=totals,
        queues=[],
        standing=merged_standing(
            [one.standing for one in reports], totals, job=job, workers=workers, limit=limit, unanswered=unanswered
        ),
        removed=sum(one.removed for one in reports),
    )


def merged_standing(
    standings: Sequence[Standing],
    totals: Summary,
    *,
    job: str,
    workers: int,
    limit: str | None = None,
    unanswered: str = "",
) -> Standing:
    """Return the standing of a crawl, for its verdict, from those of partitions."""
    steered = max(standings, key=lambda one: one.steered_at or 0.0)
    oldest = min(standings, key=lambda one: _or_inf(one.first_lease))
    inactive = [one for one in standings if one.totals.queues.get("INACTIVE", 0)]
    rates = [one.rate for one in standings if one.rate is not None]
    return Standing(
        now=max(one.now for one in standings),
        totals=totals,
        process=_process([one.process for one in standings], workers),
        job=job,
        commit_interval=max(one.commit_interval for one in standings),
        max_queued=sum(one.max_queued for one in standings),
        steered_by=steered.steered_by,
        steered_at=steered.steered_at,
        first_lease=oldest.first_lease,
        first_url=oldest.first_url,
        next_wake=_earliest(one.next_wake for one in standings),
        closed_until=min((one.closed_until for one in standings), default=0.0),
        closed=sum(one.closed for one in standings),
        for_robots=sum(one.for_robots for one in standings),
        for_retry=sum(one.for_retry for one in standings),
        failure=next((one.failure for one in standings if one.failure), ""),
        next_due=_earliest(one.next_due for one in standings),
        over_budget=bool(inactive) and all(one.over_budget for one in inactive),
        held=sum(one.held for one in standings),
        held_future=sum(one.held_future for one in standings),
        retired_by_name=sum(one.retired_by_name for one in standings),
        rate=sum(rates) if rates else None,
        limit=limit,
        unanswered=unanswered,
    )


def merged_effect(effects: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Merge the effects of an adjustment, or of its dry run, on partitions.

    `replaced` and the `promised` of a dry run are those of the first: they are the same in all.
    """
    found = _merged_survey(effects)
    for name in ("by_next_uri", "quotas"):
        if any(name in one for one in effects):
            found[name] = any(one.get(name) for one in effects)
    for name in ("retired", "revived", "eligible", "ineligible"):
        if any(name in one for one in effects):
            found[name] = [key for one in effects for key in one.get(name, ())][:_NAMED]
    for name in _SUMS:
        if any(name in one for one in effects):
            found[name] = sum(one.get(name) or 0 for one in effects)
    if until := [one["held_until"] for one in effects if one.get("held_until")]:
        found["held_until"] = min(until)
    if any("ceiling" in one for one in effects):
        found["ceiling"] = _ceiling(one.get("ceiling", 0) for one in effects)
    others = [one["others"] for one in effects if one.get("others")]
    if others:
        found["others"] = {"queues": sum(one["queues"] for one in others)} | {
            when: _spend([one[when] for one in others]) for when in ("before", "after")
        }
    if lifted := [one["eligible_spend"] for one in effects if one.get("eligible_spend")]:
        found["eligible_spend"] = _spend(lifted)
    if then := [one["then"] for one in effects if one.get("then")]:
        found["then"] = {name: value for name, value in added(then).items() if name != "retired_upto"}
    for name in ("replaced", "withdrawn", "scope_unknown", "promised", "warnings"):
        if first := next((one[name] for one in effects if one.get(name)), None):
            found[name] = first
    return found


def _spend(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "uris": sum(one["uris"] for one in parts),
        "spend": sum(one["spend"] for one in parts),
        "ceiling": _ceiling(one["ceiling"] for one in parts),
    }


def _merged_survey(effects: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Merge the matched queues; values that are the same in all are taken from partitions with such queues."""
    matched, changed = ([one.get(name) for one in effects] for name in ("matched", "changed"))
    telling = [one for one in effects if one.get("matched")] or list(effects)
    groups: Counter[str] = Counter()
    for one in effects:
        for group in one.get("groups", ()):
            groups[json.dumps([group["before"], group["after"]])] += group["queues"]
    listed = groups.most_common(_GROUPS)
    unknown = [set(one.get("unknown", ())) for one in effects]
    return {
        "matched": None if None in matched else sum(count or 0 for count in matched),
        "changed": None if None in changed else sum(count or 0 for count in changed),
        "groups": [
            dict(zip(("before", "after"), json.loads(values), strict=True)) | {"queues": count}
            for values, count in listed
        ],
        "ungrouped": sum(one.get("ungrouped", 0) for one in effects)
        + groups.total() - sum(count for _, count in listed),
        **{when: _same([one.get(when, {}) for one in telling]) for when in ("before", "after")},
        "as_of": min((one.get("as_of", 0.0) for one in effects), default=0.0),
        "unknown": sorted(set.intersection(*unknown)) if unknown else [],
    }  # fmt: skip


def merged_audit(entries: Mapping[int, Iterable[AuditRow]]) -> list[AuditRow]:
    """Return the commands in the audits of partitions, oldest first; one to all partitions is one row."""
    found: dict[int | str, dict[int, AuditRow]] = {}
    for partition in sorted(entries):
        for one in entries[partition]:
            found.setdefault(one.id, {})[partition] = one
    rows = [
        AuditRow(
            name,
            merged_entry([one.entry for one in parts.values()]),
            numbers_as_text(parts),
            next(iter(parts.values())).covers,
            max(one.inverse for one in parts.values()),
        )
        for name, parts in found.items()
    ]
    return sorted(rows, key=lambda row: row.entry.when)


def added(effects: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the sums of the figures of effects."""
    total: Counter[str] = Counter()
    for effect in effects:
        total.update({name: value for name, value in effect.items() if isinstance(value, int)})
    return dict(total)


def merged_states(effects: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the states before and after of effects on the state of the crawl; of others, nothing.

    Partitions may be in different ones.
    """
    found = [one for one in effects if "queue" not in one and "state" in (one.get("before") or {})]
    if not found:
        return {}
    states = {when: dict.fromkeys(str(one[when]["state"]) for one in found) for when in ("before", "after")}
    return {when: found[0][when] | {"state": " or ".join(names)} for when, names in states.items()}


def merged_undo(effects: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Merge the effects of an undo, or of its dry run, on partitions.

    Of one about the state of the crawl, `before` and `after` are those of the first partition.
    """
    found = dict(effects[0])
    if "revived_count" in found or "reconsidered_count" in found:
        return found | merged_effect(effects)
    for name, value in ChainMap(*map(dict, effects)).items():  # `later` is in those alone that have some
        if isinstance(value, int) and not isinstance(value, bool):
            found[name] = sum(int(one.get(name) or 0) for one in effects)
        elif isinstance(value, list) and name in ("queues", "changed"):
            found[name] = [each for one in effects for each in one.get(name, ())][:_NAMED]
    return found


def merged_selected(effects: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Merge the effects of a command on selected queues, or of its dry run, on partitions."""
    states: Counter[str] = Counter()
    for one in effects:
        states.update(one["states"])
    named = [key for one in effects for key in one["queues"]][:NAMED_QUEUES]
    return added(effects) | {"states": dict(states), "queues": named}


def merged_result(command: str, effects: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the effects of a command on partitions as that on the crawl."""
    if command in ("adjust", "withdraw"):
        return merged_effect(effects)
    if "states" in effects[0]:
        return merged_selected(effects)
    if command == "schedule":
        tally = Tally()
        for one in effects:
            tally.add(Tally(**one))
        return msgspec.structs.asdict(tally)
    if command in ("delete", "forget", "replay", "drop"):
        first = [url for one in effects for url in one.get("first", ())]
        return added(effects) | ({"first": first[:_FIRST]} if first else {})
    return merged_undo(effects) | merged_states(effects)


def merged_entry(entries: Sequence[AuditEntry]) -> AuditEntry:
    """Merge the entries of one command into one of the earliest time, with a refusal if any has one."""
    entry = next((one for one in entries if one.error), entries[0])
    entry = msgspec.structs.replace(entry, when=min(one.when for one in entries))
    if len(entries) == 1 or entry.error:
        return entry
    args = entry.args
    if isinstance(args.get("ids"), list):
        args = args | {"ids": [number for one in entries for number in one.args.get("ids") or ()][:_NAMED]}
    effect = merged_result(entry.command, [one.effect for one in entries])
    effect.pop("kept", None)
    if kept := sum(one.effect["kept"]["bytes"] for one in entries if one.effect.get("kept")):
        effect["kept"] = {"bytes": kept}
    return msgspec.structs.replace(entry, args=args, effect=effect)


def merged_adjustments(found: Mapping[int, Iterable[AdjustmentRow]]) -> list[AdjustmentRow]:
    """Return the adjustments in force in any partition, in the order of the first that has each."""
    merged: dict[int | str | None, AdjustmentRow] = {}
    for number in sorted(found):
        for one in found[number]:
            merged.setdefault(one.id, one)
    return sorted(merged.values(), key=lambda one: one.entry.when if one.entry else 0.0)


def merged_runs(found: Iterable[Iterable[Run]]) -> list[Run]:
    """Return the times in which any partition had a worker, each as a run that ends as the last one in it."""
    merged: list[Run] = []
    for run in sorted((run for runs in found for run in runs), key=lambda run: run.began):
        last = merged[-1] if merged else None
        if last is None or (last.ended is not None and last.end is not None and run.began > last.ended):
            merged.append(msgspec.structs.replace(run, number=len(merged) + 1))
        elif last.end is not None and (run.end is None or _or_inf(run.ended) > _or_inf(last.ended)):
            last.ended, last.end, last.reason = run.ended, run.end, run.reason
    return merged


def merged_busiest(found: Sequence[Busiest]) -> Busiest:
    """Return the busiest queues of all partitions. Each queue is in one of them."""
    queues = sorted((queue for one in found for queue in one.queues), key=lambda queue: queue.spent, reverse=True)
    return Busiest(
        since=min((one.since for one in found), default=0.0),
        until=max((one.until for one in found), default=0.0),
        queues=queues[:_NAMED],
        others_spent=max(
            [*(one.others_spent for one in found), *(one.spent_most for one in queues[_NAMED:])], default=0
        ),
        others_fetched=max(
            [*(one.others_fetched for one in found), *(one.fetched_most for one in queues[_NAMED:])], default=0
        ),
        as_of=min((one.as_of for one in found if one.as_of), default=0.0),
        untold_spent=sum(one.untold_spent for one in found),
        untold_fetched=sum(one.untold_fetched for one in found),
    )


def merged_held(found: Iterable[Held]) -> Held:
    """Return the holdings of the queues of all partitions."""
    total = Held(0, 0, 0.0, "")
    for one in found:
        longest = max(total, one, key=lambda held: held.tail)
        total = Held(
            total.spendable + one.spendable,
            total.unlimited + one.unlimited,
            longest.tail,
            longest.tail_queue,
            total.under_quota + one.under_quota,
            total.over_quota + one.over_quota,
        )
    return total


def limits_left(standings: Collection[Partition]) -> dict[str, Limit]:
    """Return the rest of the crawl-wide totals: the part not granted yet, and the rest of the slices."""
    left = next((one.left for one in standings if one.left is not None), None) or {}
    return {
        name: Limit(amount + sum(one.room.get(name, 0) for one in standings), *_USED_BY[name])
        for name, amount in left.items()
        if name in _USED_BY
    }


def named_partitions(numbers: Collection[int]) -> str:
    """Return numbers of partitions for a sentence, runs of them as one.

    >>> named_partitions([3]), named_partitions([7, 0, 1, 2])
    ('partition 3', 'partitions 0-2, 7')
    """
    return f"partition{'s' * (len(numbers) > 1)} {numbers_as_text(numbers)}"


def numbers_as_text(numbers: Iterable[int]) -> str:
    """Return numbers as text, runs of them as one.

    >>> numbers_as_text([0, 1, 2, 7])
    '0-2, 7'
    """
    return ", ".join(_runs(sorted(numbers)))


def _runs(numbers: Sequence[int]) -> Iterator[str]:
    first = 0
    for place, number in enumerate(numbers):
        if place + 1 == len(numbers) or numbers[place + 1] != number + 1:
            yield f"{number}" if first == place else f"{numbers[first]}-{number}"
            first = place + 1


def _process(processes: Sequence[Process], workers: int) -> Process:
    """Return the workers as the process of the crawl; they have answered, so that none is said to hang."""
    return Process(
        alive=any(one.alive for one in processes),
        pid=None,
        program=counted(workers, "worker"),
        began=_earliest(one.began for one in processes),
        last_commit=max((one.last_commit for one in processes if one.last_commit is not None), default=None),
    )


def _same(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the values that are the same in all; None where they differ."""
    first, *others = found or [{}]
    return {name: value if all(one.get(name) == value for one in others) else None for name, value in first.items()}


def _ceiling(ceilings: Iterable[int | None]) -> int | None:
    total = 0
    for one in ceilings:
        if one is None:
            return None
        total += one
    return total


def _earliest(times: Iterable[float | None]) -> float | None:
    return min((time for time in times if time is not None), default=None)


def _or_inf(time: float | None) -> float:
    return float("inf") if time is None else time
