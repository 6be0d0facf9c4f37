"""The reports, effects and audits of partitions, merged to those of one crawl: pure rules."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

import msgspec

from budgetfrontier.cluster.partitions.partition_progress import PartitionProgress as Partition
from budgetfrontier.cluster.partitions.summed_totals import least, merged_summary, sums
from budgetfrontier.core.model import CrawlState, Process, Run, RunEnd, Summary
from budgetfrontier.core.units import counted
from budgetfrontier.engine.commands.undo_checks import FORCE
from budgetfrontier.reports.adjustment_outcomes import AdjustmentOutcome, summed
from budgetfrontier.reports.operators import AdjustmentRow, AuditRow
from budgetfrontier.rules.crawl_states import LIMIT
from budgetfrontier.rules.forecasts import Held, Limit
from budgetfrontier.rules.run_history import SHARED_ANEW
from budgetfrontier.rules.undoing import says_nothing, telling
from budgetfrontier.rules.verdict import Standing, is_recent
from budgetfrontier.storage.records import NAMED_QUEUES, AuditEntry
from budgetfrontier.storage.report import Report
from budgetfrontier.storage.series import Busiest

_NAMED: Final = 1000
"""Queues whose keys an effect names; those of a command on selected queues are `NAMED_QUEUES`."""
_GROUPS: Final = 100
_URIS: Final = 10
"""URIs that a dry run names."""
_USED_BY: Final = {
    "cluster.max_uris": (("succeeded", "failed"), "URIs"),
    "cluster.max_spend": (("spent",), "of spend"),
}
"""The figures that use the crawl-wide totals up, and their units."""
_ADDED: Final = (
    "max_queued",
    "closed",
    "for_robots",
    "for_retry",
    "parked",
    "held",
    "held_future",
    "retired_by_name",
)
_FIRST: Final = ("failure", "group", "hold")
_EARLIEST: Final = ("next_wake", "next_due", "free")
"""The parts of a standing that are added, or that are taken from the first partition that tells something."""


class CrawlFacts(NamedTuple):
    """The facts about a crawl that the reports of its partitions have not."""

    job: str
    """The word that stands for it in commands."""
    workers: int
    state: CrawlState | None = None
    """Its state, if that is known better than from the totals."""
    limit: str | None = None
    """The setting whose total is used up."""
    unanswered: str = ""
    """The sentence on partitions without a report."""
    now: float = 0.0
    """The time as of which ages are said, if reports are older."""
    asked: float = 0.0
    """When a crawler asked a worker for URIs last; 0.0 if that is not known better than from the reports."""


def merged_report(reports: Sequence[Report], facts: CrawlFacts) -> Report:
    """Return the reports of partitions, without their queues, as that of one crawl.

    While partitions are without a report, its state is UNKNOWN, unless the others are TERMINATED.
    """
    totals = merged_summary([one.totals for one in reports])
    if facts.unanswered and totals.state is not CrawlState.TERMINATED:
        totals.state = CrawlState.UNKNOWN
    elif facts.state is not None:
        totals.state = facts.state
    if facts.limit and totals.pause_reason is None and facts.state in (CrawlState.PAUSED, CrawlState.PAUSING):
        totals.pause_reason = LIMIT
    return Report(
        crawl=reports[0].crawl,
        generated=max(facts.now, *(one.generated for one in reports)),
        state=totals.state,
        pause_reason=totals.pause_reason,
        totals=totals,
        queues=[],
        standing=_merged_standing([one.standing for one in reports], totals, facts),
        removed=sum(one.removed for one in reports),
    )


def _merged_standing(standings: Sequence[Standing], totals: Summary, facts: CrawlFacts) -> Standing:
    """Return the standing of a crawl, for its verdict, from those of partitions."""
    steered = max(standings, key=lambda one: one.steered_at or 0.0)
    oldest = min(standings, key=lambda one: _or_inf(one.first_lease))
    inactive = [one for one in standings if one.totals.queues.get("INACTIVE", 0)]
    now = max(facts.now, *(one.now for one in standings))
    rates = [one.rate for one in standings if one.rate is not None and is_recent(one, now)]

    def of_each(name: str) -> list[Any]:
        return [getattr(one, name) for one in standings]

    values: dict[str, Any] = {
        **{name: sum(of_each(name)) for name in _ADDED},
        **{name: next(filter(None, of_each(name)), "") for name in _FIRST},
        **{name: least(of_each(name)) for name in _EARLIEST},
    }
    return Standing(
        now=now,
        commit_interval=max(of_each("commit_interval")),
        asked=facts.asked or max(of_each("asked")),
        totals=totals,
        process=_process([one.process for one in standings], facts.workers),
        job=facts.job,
        steered_by=steered.steered_by,
        steered_at=steered.steered_at,
        first_lease=oldest.first_lease,
        first_url=oldest.first_url,
        last_expiry=max((one.last_expiry for one in standings if one.last_expiry is not None), default=None),
        renewed=max(of_each("renewed")),
        closed_until=min(of_each("closed_until"), default=0.0),
        over_budget=bool(inactive) and all(one.over_budget for one in inactive),
        rate=sum(rates) if rates else None,
        limit=facts.limit,
        unanswered=facts.unanswered,
        **values,
    )


def _told(found: Sequence[Any]) -> Any:
    """Return the first that tells something."""
    return next(filter(None, found), found[0])


def _named(found: Sequence[Any]) -> Any:
    """Return all keys of queues, or how many there are if an effect has no more than their number."""
    return [*chain.from_iterable(found)][:_NAMED] if isinstance(found[0], list) else _usual(found)


def _usual(found: Sequence[Any]) -> Any:
    """Return the sum of numbers, the first of others."""
    are_numbers = all(isinstance(one, int | None) and not isinstance(one, bool) for one in found)
    return sums(found) if are_numbers else found[0]


_RULES: Final[dict[str, Callable[[Sequence[Any]], Any]]] = {
    "first": lambda found: [*chain.from_iterable(found)][:_URIS],
    "held_until": lambda found: min(filter(None, found), default=0.0),
    "as_of": min,
    "kept": lambda found: {"bytes": sum(one["bytes"] for one in found if one)},
    **dict.fromkeys(("by_next_uri", "quotas"), any),
    **dict.fromkeys(
        ("queues", "queue_names", "changed", "of_queues", "retired", "revived", "eligible", "ineligible"), _named
    ),
    **dict.fromkeys(("others", "eligible_spend", "then", "states", "reasons", "paces", "paces_again"), sums),
    **dict.fromkeys(("promised", "replaced", "withdrawn", "scope_unknown", "warnings"), _told),
}
"""The rules by which parts of effects are merged that are not merged as usual."""
_OF_ONE: Final = ("inverse", "retired_upto", "then_of")
"""Parts of effects that mean something in their partition alone."""


def merged_effect(effects: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Merge the effects of a command, or of its dry run, on partitions to that on the crawl."""
    found = {
        name: _RULES.get(name, _usual)([one[name] for one in effects if name in one])
        for name in dict.fromkeys(chain.from_iterable(effects))
        if name not in _OF_ONE
    }
    found.get("then", {}).pop("retired_upto", None)
    if "groups" in found:
        found |= _merged_survey(effects)
    if "states" in found:
        del found["queues"][NAMED_QUEUES:]
    return found | _merged_states(effects)


def _merged_survey(effects: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Merge the matched queues; values that are the same in all are taken from partitions with such queues."""
    telling = [one for one in effects if one.get("matched")] or list(effects)
    groups: Counter[str] = Counter()
    for one in effects:
        for group in one.get("groups", ()):
            groups[json.dumps([group["before"], group["after"]])] += group["queues"]
    listed = groups.most_common(_GROUPS)
    unknown = [set(one.get("unknown", ())) for one in effects]
    return {
        "groups": [
            dict(zip(("before", "after"), json.loads(values), strict=True)) | {"queues": count}
            for values, count in listed
        ],
        "ungrouped": sum(one.get("ungrouped", 0) for one in effects)
        + groups.total() - sum(count for _, count in listed),
        **{when: _same([one.get(when, {}) for one in telling]) for when in ("before", "after")},
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
            merged_entry({number: one.entry for number, one in parts.items()}),
            numbers_as_text(parts),
            next((one.covers for one in parts.values() if one.covers), None),
            max(one.inverse for one in parts.values()),
        )
        for name, parts in found.items()
    ]
    return sorted(rows, key=lambda row: row.entry.when)


def _merged_states(effects: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the states before and after of effects on the state of the crawl; of others, nothing.

    Partitions may be in different ones.
    """
    found = [one for one in effects if is_on_crawl(one)]
    if not found:
        return {}
    states = {when: dict.fromkeys(str(one[when]["state"]) for one in found) for when in ("before", "after")}
    return {when: found[0][when] | {"state": " or ".join(names)} for when, names in states.items()}


def is_on_crawl(effect: dict[str, Any]) -> bool:
    """Return whether an effect is one on the state of the crawl."""
    return "queue" not in effect and "state" in (effect.get("before") or {})


def on_crawl(effect: dict[str, Any], limited: str | None) -> dict[str, Any]:
    """Return an effect on the state of a partition as that on its crawl, whose state is `limited` by a used-up total.

    The partitions of such a crawl are RUNNING. None: no total is used up.
    """
    if limited is None or not is_on_crawl(effect):
        return effect
    stands = {"state": limited, "pause_reason": LIMIT}
    return effect | {when: stands for when in ("before", "after") if effect[when]["state"] == CrawlState.RUNNING}


def effect_of(entry: AuditEntry) -> dict[str, Any]:
    """Return the effect of an entry in a partition, on the crawl as it was when the command was given."""
    return on_crawl(entry.effect, entry.args.get("limited"))


def merged_entry(entries: Mapping[int, AuditEntry]) -> AuditEntry:
    """Merge the entries of one command, by partition, into one of the earliest time; it tells who has refused it.

    Partitions in which there was nothing for an undo, or a discard, have not refused it, unless all have.
    """
    done = [one for one in entries.values() if one.effect or not one.error]
    entry = msgspec.structs.replace(
        done[0] if done else next(iter(entries.values())), when=min(one.when for one in entries.values())
    )
    if len(entries) == 1:
        return msgspec.structs.replace(entry, effect=effect_of(entry))
    errors = {number: one.error for number, one in entries.items() if one.error}
    if not done:
        return msgspec.structs.replace(entry, error=telling(errors.values()))
    refused = {number: why for number, why in errors.items() if not says_nothing(why)}
    args = entry.args
    if isinstance(args.get("ids"), list):
        args = args | {"ids": [number for one in done for number in one.args.get("ids") or ()][:_NAMED]}
    if isinstance(args.get("uris"), int):  # the number of those that each was given
        args = args | {"uris": sum(one.args["uris"] for one in entries.values())}
    error = f"in {named_partitions(refused)}: {next(iter(refused.values()))}" if refused else None
    return msgspec.structs.replace(entry, args=args, effect=merged_effect([*map(effect_of, done)]), error=error)


def merged_adjustments(found: Mapping[int, Iterable[AdjustmentRow]]) -> list[AdjustmentRow]:
    """Return the adjustments in force in any partition, in the order of the first that has each."""
    merged: dict[int | str | None, AdjustmentRow] = {}
    for number in sorted(found):
        for one in found[number]:
            merged.setdefault(one.id, one)
    return sorted(merged.values(), key=lambda one: one.entry.when if one.entry else 0.0)


def merged_outcomes(found: Iterable[Mapping[str, AdjustmentOutcome]]) -> dict[int | str, AdjustmentOutcome]:
    """Return the outcomes of adjustments by their names, summed over the partitions."""
    parts: dict[str, list[AdjustmentOutcome]] = {}
    for outcomes in found:
        for name, outcome in outcomes.items():
            parts.setdefault(name, []).append(outcome)
    return {name: summed(each) for name, each in parts.items()}


def merged_refusals(names: Iterable[str], found: Mapping[int, Mapping[str, str]]) -> dict[int | str, str]:
    """Return why the undo of audit entries would be refused: by any partition with force, by all without.

    `found` has what each partition says of those that it has, "" if it does not refuse.
    """
    refused: dict[int | str, str] = {}
    for name in names:
        told = {number: why[name] for number, why in found.items() if name in why}
        by_force = {number: why for number, why in told.items() if why.endswith(FORCE)}
        if by_force:
            refused[name] = f"in {named_partitions(by_force)}: {next(iter(by_force.values()))}"
        elif told and all(told.values()):
            refused[name] = telling(told.values())
    return refused


def merged_runs(found: Iterable[Iterable[Run]]) -> list[Run]:
    """Return the times in which any partition had a worker, each as a run that ends as the last one in it.

    Its process is that of the last one, too, or of one that goes on: others in it may have been killed.

    While workers share the partitions anew, none may have one for some seconds: the run goes on.
    """
    merged: list[Run] = []
    for run in _lasting(found):
        last = merged[-1] if merged else None
        is_over = last is not None and last.end is not None and last.reason != SHARED_ANEW
        if last is None or (is_over and run.began > _or_inf(last.ended)):
            merged.append(msgspec.structs.replace(run, number=len(merged) + 1))
            continue
        last.leased = None if last.leased is None or run.leased is None else last.leased + run.leased
        if last.end is not None and (run.end is None or _or_inf(run.ended) > _or_inf(last.ended)):
            merged[-1] = msgspec.structs.replace(run, number=last.number, began=last.began, leased=last.leased)
    return merged


def _lasting(found: Iterable[Iterable[Run]]) -> list[Run]:
    """Return the runs of partitions by their begins, those that were killed until the last begin of the same worker.

    It opens its partitions one after the other, and commits nothing while it waits. Another worker with its pid begins
    a partition of it again.
    """
    runs = sorted(((run, place) for place, runs in enumerate(found) for run in runs), key=lambda one: one[0].began)
    of_worker: dict[tuple[str, int], dict[int, Run]] = {}
    lasting: list[Run] = []
    for run, place in runs:
        own = of_worker.setdefault((run.host, run.pid), {})
        if place in own:
            own.clear()
        for one in own.values():
            if one.end is RunEnd.KILLED:
                one.ended = max(one.ended or 0.0, run.began)
        own[place] = msgspec.structs.replace(run)
        lasting.append(own[place])
    return lasting


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
        known=any(one.known for one in found),
    )


def merged_held(found: Iterable[Held]) -> Held:
    """Return the holdings of the queues of all partitions."""
    total = Held(0, 0, 0.0, "")
    for one in found:
        longest, resting = max(total, one, key=lambda held: held.tail), max(total, one, key=lambda held: held.rest_end)
        total = Held(
            total.spendable + one.spendable,
            total.unlimited + one.unlimited,
            longest.tail,
            longest.tail_queue,
            total.under_quota + one.under_quota,
            total.over_quota + one.over_quota,
            total.resting + one.resting,
            resting.rest_end,
            resting.rest_queue,
            longest.is_due,
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
    """Return the workers as the process of the crawl; they have answered, so that none is said to hang.

    Without any that is not lost, the reports are of summaries, and nothing is alive.
    """
    return Process(
        alive=workers > 0 and any(one.alive for one in processes),
        pid=None,
        program=counted(workers, "worker"),
        began=least(one.began for one in processes),
        last_commit=max((one.last_commit for one in processes if one.last_commit is not None), default=None),
    )


def _same(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the values that are the same in all; None where they differ."""
    first, *others = found or [{}]
    return {name: value if all(one.get(name) == value for one in others) else None for name, value in first.items()}


def _or_inf(time: float | None) -> float:
    return float("inf") if time is None else time
