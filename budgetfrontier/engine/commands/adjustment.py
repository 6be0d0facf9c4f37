"""The adjustment of settings: an override appended to those in force, and its preview.

A preview changes nothing, and takes any view: that of the engine, or that of a Reader, which does not delay an engine.
"""

from __future__ import annotations

from typing import Any

import msgspec

from budgetfrontier import plugins
from budgetfrontier.engine.kernel import Kernel
from budgetfrontier.errors import FrontierError
from budgetfrontier.model import QueueRecord
from budgetfrontier.rules import budgets
from budgetfrontier.rules.queue_states import EXHAUSTED, RETIRED, is_revived_by_change
from budgetfrontier.settings.matching import Match, parse_match
from budgetfrontier.settings.overrides import (
    Effective,
    Override,
    QueueSettings,
    compacted,
    validate_override,
    value_in,
)
from budgetfrontier.settings.schema import FrontierSettings
from budgetfrontier.store import keys
from budgetfrontier.store.meta import write_settings
from budgetfrontier.store.records import decode_future, expand, short_url
from budgetfrontier.store.view import HeadUrls, View

NAMED = 1000  # queues that a dry run names; it counts them all
_PRICED = 100_000  # URIs of one queue that a dry run adds up


class Adjustment(msgspec.Struct, kw_only=True):
    """The effect of `adjust`, or with `dry_run` the effect that it would have.

    `before` and `after` are the values in force for what `match` names. A dry run counts the queues that it matches,
    and lists those that would retire and revive (the first 1,000; it counts them all), and what the revived could then
    spend; a real one only counts the retired queues that are reconsidered. `id` is that of its audit entry.
    """

    id: int
    match: str
    set: dict[str, Any]
    dry_run: bool
    before: dict[str, Any]
    after: dict[str, Any]
    matched: int = 0
    retired: list[str] = []
    revived: list[str] = []
    retired_count: int = 0
    revived_count: int = 0
    spend: int = 0


def check(args: dict[str, Any]) -> None:
    """Raise for an adjustment that could not be applied."""
    policy = validate_override(args["match"], args["set"]).set.get("cost_policy")
    if policy is not None:
        plugins.resolve("cost", policy)  # one that cannot be imported would end the engine at the next URI


def adjust(kernel: Kernel, args: dict[str, Any], now: float) -> dict[str, Any]:
    """Append an override to the adjustments, or with `dry_run` only preview it."""
    override = validate_override(args["match"], args["set"])
    if not override.set:
        raise FrontierError("adjust needs at least one setting to change")
    tables, counters = kernel.tables, kernel.counters
    env, settings = tables.env, tables.in_force.settings
    if args.get("dry_run"):
        return preview(tables.flushed(), override)
    adjustments = compacted([*tables.in_force.adjustments, override])
    before, revived = tables.in_force.effective, counters.retired - counters.retired_by_name
    kernel.rollout.change_settings(settings, adjustments, now, precedence="precedence" in override.set)
    tables.pending.settle()  # an example is looked for among the pending URIs
    effect = values(env.view(), override, before, tables.in_force.effective) | {"revived_count": revived}
    write_settings(env.txn, env.db[keys.META], settings, adjustments)
    return effect


def values(view: View, override: Override, before: Effective, after: Effective) -> dict[str, Any]:
    """Return what an override sets, before and after, for one URI that it names: a queue's first, or a host's root.

    A glob stands for what it is with an x for each wildcard. Of SURT prefixes and regular expressions no URI is known:
    what they set comes after what counts for all.
    """
    match = parse_match(override.match)
    name = match.exact or (_sample(override.match) if match.kind in ("host", "queue") else "")
    url = view.first_url(name) or f"http://{name or 'none.invalid'}/"
    if not match.matches(url, name):
        after = Effective(FrontierSettings(), [Override("*", override.set)])
    return {
        "before": _chosen(before.for_uri(url, name), override),
        "after": _chosen(after.for_uri(url, name), override),
    }


def _sample(glob: str) -> str:
    return glob.partition(":")[2].replace("*", "x").replace("?", "x").lower()


def _chosen(settings: QueueSettings, override: Override) -> dict[str, Any]:
    return {name: value_in(settings, name) for name in override.set}


def preview(view: View, override: Override) -> dict[str, Any]:
    """Return which queues an override matches, would retire or revive, and what the revived could then spend.

    As of the view. O(queues), about 4 us each, and the pending URIs of those that would revive.
    """
    after = view.in_force([override])
    effect = values(view, override, view.in_force(), after)
    match, heads = parse_match(override.match), HeadUrls(view)
    by_key = match.kind in ("*", "queue")
    unseen: dict[int, str] = {}
    matched = spend = 0
    retired: list[str] = []
    revived: list[str] = []
    counts = {"retired_count": 0, "revived_count": 0}
    for queue in view.stored_queues():
        url = heads.url(queue) or queue.last_enqueued
        if url or by_key:
            matched += match.matches(url, queue.queue)
        elif queue.future:
            unseen[queue.id] = queue.queue
        if queue.state is EXHAUSTED or not is_revived_by_change(queue) or not queue.queued:
            continue
        settings = after.for_uri(url, queue.queue)
        budgets.take_budgets(queue, settings, queue.revision)
        stays_out = budgets.must_retire(queue, settings.reached)
        if queue.state is RETIRED and not stays_out:
            counts["revived_count"] += 1
            spend += _affordable(view, queue, settings.reached)
            if len(revived) < NAMED:
                revived.append(queue.queue)
        elif queue.state is not RETIRED and stays_out:
            counts["retired_count"] += 1
            if len(retired) < NAMED:
                retired.append(queue.queue)
    matched += _matched_later(view, match, unseen)
    return {**effect, "matched": matched, "retired": retired, "revived": revived, **counts, "spend": spend}


def is_matched(view: View, override: Override) -> bool:
    """Tell whether an override names any queue that there is, as `preview` counts them. O(queues) if it does not."""
    match, heads = parse_match(override.match), HeadUrls(view)
    unseen: dict[int, str] = {}
    for queue in view.stored_queues():
        url = heads.url(queue) or queue.last_enqueued
        if (url or match.kind in ("*", "queue")) and match.matches(url, queue.queue):
            return True
        if not url and queue.future:
            unseen[queue.id] = queue.queue
    return match.kind == "*" or _matched_later(view, match, unseen) > 0


def _matched_later(view: View, match: Match, unseen: dict[int, str]) -> int:
    """Count the queues matched that never held a URI: the URLs scheduled for later decide."""
    matched = set()
    for _, value in view.items(keys.FUTURE) if unseen else ():
        row = decode_future(value)
        name = unseen.get(row.queue)
        if name is not None and match.matches(expand(short_url(row.value), name), name):
            matched.add(row.queue)
    return len(matched)


def _affordable(view: View, queue: QueueRecord, reached: bool) -> int:
    """Return what a queue spends on its URIs before it is empty or over its total budget."""
    spent = 0
    for cost in view.costs(queue, _PRICED):
        if budgets.is_over_total(queue.expenditure + spent, queue.total_budget, reached):
            break
        spent += cost
    return spent
