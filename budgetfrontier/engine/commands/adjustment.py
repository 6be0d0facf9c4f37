"""The adjustment of settings: overrides appended to those in force, and taken back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Annotated, Any, NamedTuple

import msgspec

from budgetfrontier.core.converters import converter
from budgetfrontier.engine.commands.preview import preview
from budgetfrontier.engine.commands.survey import (
    Change,
    QueueSums,
    Survey,
    appended,
    change_by,
    change_to,
    effect_of,
    is_uniform,
    override_of,
    standing,
    survey,
    survey_of,
    values_of_none,
)
from budgetfrontier.engine.kernel import Kernel
from budgetfrontier.errors import FrontierError
from budgetfrontier.rules.quotas import counted_from_now
from budgetfrontier.settings import delay_conflicts, plugins, sheets
from budgetfrontier.settings.matching import GROUP, Match, parse_match, spellings, unknown_keys
from budgetfrontier.settings.overrides import Effective, Override, compacted, validate_override
from budgetfrontier.storage import keys
from budgetfrontier.storage.meta import write_settings
from budgetfrontier.storage.records import AuditEntry
from budgetfrontier.storage.uri_values import expand, label_of, short_url

LONGEST_NAME = 300
"""Characters of the name of a list of adjustments."""
COUNTED = 1000
"""The most queues of a frontier that a change counts by itself: some milliseconds."""
_survey: Callable[[Any], Survey] = converter(Survey)
_sums: Callable[[Any], dict[str, int]] = converter(dict[str, int])


class ListPlace(msgspec.Struct, forbid_unknown_fields=True):
    """The place of an adjustment in a list that was given at once: the number `place`, from 1, `of` so many."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_NAME)]
    """The name of the list, which no other list of the crawl has."""
    place: Annotated[int, msgspec.Meta(ge=1)]
    of: int


class Promise(msgspec.Struct, kw_only=True):
    """The figures of a dry run, as the audit keeps them with the adjustment that was applied after it was shown."""

    as_of: float
    matched: int
    revived_count: int
    retired_count: int
    still_over: int
    by_name: int
    uris: int
    spend: int
    ceiling: int | None
    others: dict[str, Any] = {}
    disregarded: int = 0
    scope_unknown: str = ""
    eligible_count: int = 0
    ineligible_count: int = 0
    quotas: bool = False
    closed_count: int = 0
    still_closed: int = 0
    opened_count: int = 0
    eligible_spend: dict[str, int | None] = {}


_promise: Callable[[Any], Promise] = converter(Promise)
_place: Callable[[Any], ListPlace] = converter(ListPlace)


class Adjustment(msgspec.Struct, kw_only=True):
    """The effect of `adjust`, or with `dry_run` the effect that it would have. `id` is that of its audit entry.

    `groups` are the queues that `match` names, by equal values: `{"before": ..., "after": ..., "queues": 1000}`, the
    largest hundred; `ungrouped` queues are in the others, and `matched` counts all. `before` and `after` have the
    values common to all of them, else None. `changed` counts the queues with different values before and after. A real
    one counts a frontier with more than 1,000 queues only if it names queues by their keys: otherwise `matched` and
    `changed` are None, and `groups` is empty.

    `then` is what the queues that match had come to, as far as they were counted: sums of `expenditure` and `charges`,
    the number of those RETIRED, and the last place in the list of these, `retired_upto`; `audit --outcome` shows what
    followed.

    `unknown` are the keys that `match` names and no queue has yet. `warnings` are about values that would have no
    effect: a `politeness.min_delay` longer than the `max_delay` in force; and about the first quota of a kind, which
    counts from then on only.

    `by_next_uri`, of a dry run: some URIs of a queue may match and others not, as with `regex:`; then the next one
    decides for the queue, as it does for its settings, and the figures count until another is the next.

    `quotas`, of a dry run: some quota is in force before or after the change. A queue with a quota that is used up is
    over it, as over a budget, and hands nothing out; how far the rest of the other quotas goes is left out of `uris`,
    `spend` and `ceiling`.

    A dry run counts the queues that would retire and revive, and lists the first 1,000; matched ones over budget before
    and after (`still_over`), and those retired by name, which stay (`by_name`). `uris` counts the URIs, of those held
    now, that the revived queues would hand out, `spend` is their cost, `ceiling` the rest of the budgets, for these and
    for new URIs (None: no limit); a last URI that costs more than 1 may go beyond it. `others` has all three, before
    and after, for the queues that are not retired and get another budget. With a `precedence_floor` it also counts and
    lists the queues that become INELIGIBLE, and those that are so no more (`eligible`, with `eligible_spend`). A change
    of crawl windows also counts the queues that are outside of theirs at that time after it alone (`closed_count`),
    before and after it (`still_closed`), and before it alone (`opened_count`).

    A real one only counts the retired queues that are reconsidered (`reconsidered_count`), of which those still over a
    budget stay RETIRED or retire again on their turns, with a floor also those that wait
    (`regraded_count`), and lists the adjustments that it has `replaced`, because all of their settings are set by later
    ones.
    """

    id: int
    match: str
    set: dict[str, Any]
    dry_run: bool
    before: dict[str, Any]
    after: dict[str, Any]
    matched: int | None = 0
    groups: list[dict[str, Any]] = []
    ungrouped: int = 0
    changed: int | None = 0
    by_next_uri: bool = False
    quotas: bool = False
    as_of: float = 0.0
    then: dict[str, int] = {}
    retired: list[str] = []
    revived: list[str] = []
    retired_count: int = 0
    revived_count: int = 0
    still_over: int = 0
    by_name: int = 0
    uris: int = 0
    spend: int = 0
    ceiling: int | None = 0
    others: dict[str, Any] = {}
    replaced: list[dict[str, Any]] = []
    unknown: list[str] = []
    warnings: list[str] = []
    eligible: list[str] = []
    eligible_count: int = 0
    eligible_spend: dict[str, int | None] = {}
    ineligible: list[str] = []
    ineligible_count: int = 0
    closed_count: int = 0
    still_closed: int = 0
    opened_count: int = 0
    reconsidered_count: int = 0
    regraded_count: int = 0


def check(args: dict[str, Any]) -> None:
    """Raise for an adjustment that could not be applied."""
    asked = validate_override(args["match"], args["set"]).set
    check_figures(args)
    if args.get("list") is not None:
        _place(args["list"])
    for kind in "cost", "uri_precedence":  # one that cannot be imported would end the engine at the next URI
        if (policy := asked.get(f"{kind}_policy")) is not None:
            plugins.resolve(kind, policy)


def adjust(kernel: Kernel, args: dict[str, Any], now: float) -> dict[str, Any]:
    """Append an override to the adjustments, or with `dry_run` only preview it."""
    override = validate_override(args["match"], args["set"])
    if not override.set:
        raise FrontierError("adjust needs at least one setting to change")
    if args.get("dry_run"):
        kernel.tables.preloaded.check(override.set.get("uri_precedence_policy"))
        view = kernel.tables.flushed()
        found = preview(view, appended(view, override), now=now)
        del found["held_back"], found["held_until"]
        return found
    override = msgspec.structs.replace(override, id=kernel.counters.audit + 1)
    in_force = kernel.tables.in_force
    effective, groups = in_force.effective, in_force.grouping
    if sheets.is_about_sheets(override) or override.match.startswith(GROUP):
        change = change_by(in_force.settings, in_force.adjustments, override, effective, groups)
    else:
        after = Effective(in_force.frontier, (), [Override("*", override.set)])  # it is the last one, and wins
        match = parse_match(override.match)
        change = Change(match, tuple(override.set), effective, after, (groups, groups), override.set)
    return _figures(kernel, change, args, now) | edit(kernel, Edit([], [override]), now)


def check_withdrawal(args: dict[str, Any]) -> None:
    """Raise for a withdrawal that could not be applied."""
    int(args["id"])
    check_figures(args)


def check_figures(args: dict[str, Any]) -> None:
    """Raise for figures of a survey, of a dry run, or of what queues have come to, that are none."""
    for name, convert in (("survey", _survey), ("promised", _promise), ("then", _sums)):
        if args.get(name) is not None:
            convert(args[name])


def is_foreseen(effect: dict[str, Any]) -> bool:
    """Return whether an effect has the figures of a dry run of a change of the adjustments."""
    return "revived_count" in effect


def promise(effect: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of a dry run that are kept with the adjustment that it has shown."""
    return msgspec.structs.asdict(_promise(effect))


def withdraw(kernel: Kernel, args: dict[str, Any], now: float) -> dict[str, Any]:
    """Remove an adjustment from those in force; adjustments that it replaced do not come back."""
    in_force = kernel.tables.in_force
    adjustments = in_force.adjustments
    override = next((one for one in adjustments if one.id == args["id"]), None)
    if override is None:
        raise not_in_force(args["id"])
    rest = [one for one in adjustments if one is not override]
    change = change_to(in_force.settings, adjustments, rest, in_force.effective, in_force.grouping)
    found = _figures(kernel, change, args, now)
    return {"withdrawn": plain(override)} | found | edit(kernel, Edit([override.id], []), now)


def not_in_force(number: int) -> FrontierError:
    """Return the error for an adjustment that is not in force, of a job or of a partition of a crawl."""
    return FrontierError(f"adjustment {number} is not in force; `adjust --list` lists those that are")


class Edit(NamedTuple):
    """A change of the adjustments: the ids to remove, and the adjustments to add, each at its place."""

    remove: Sequence[int]
    restore: Sequence[Override]


def edited(adjustments: Sequence[Override], change: Edit) -> list[Override]:
    """Return adjustments after a change, without those that later ones replace."""
    kept = [one for one in adjustments if one.id not in change.remove]
    return compacted(sorted([*kept, *change.restore], key=attrgetter("id")))


def edit(kernel: Kernel, change: Edit, now: float) -> dict[str, Any]:
    """Change the adjustments: a change of settings. Return its part of the effect, with the values that undo it.

    Adjustments are in the order of their ids, that of their creation. Raises FrontierError for one that needs a file
    that was not read.
    """
    tables, counters = kernel.tables, kernel.counters
    for one in change.restore:
        tables.preloaded.check(one.set.get("uri_precedence_policy"))
    before, settings = tables.in_force.adjustments, tables.in_force.settings
    after = edited(before, change)
    stay, were = {one.id for one in after}, {one.id for one in before}
    gone = [one for one in before if one.id not in stay]
    come = [one for one in after if one.id not in were]
    retired, waiting = counters.retired - counters.retired_by_name, counters.inactive + counters.ineligible
    quotas = tables.in_force.quotas
    precedence = any("precedence" in one.set or sheets.is_about_sheets(one) for one in (*gone, *come))
    kernel.rollout.change_settings(settings, after, now, precedence=precedence)
    write_settings(tables.env.txn, tables.env.db[keys.META], settings, after)
    effect: dict[str, Any] = {"reconsidered_count": retired}
    if settings.frontier.precedence_floor is not None and (precedence or tables.in_force.mixes_precedences):
        effect["regraded_count"] = waiting
    warnings = delay_conflicts.of_change(settings, before, after)
    if counters.succeeded:
        warnings += counted_from_now(quotas, tables.in_force.quotas)
    if warnings:
        effect["warnings"] = warnings
    if replaced := [one for one in gone if one.id not in change.remove]:
        effect["replaced"] = [plain(one) for one in replaced]
    return effect | {"inverse": {"remove": [one.id for one in come], "restore": [plain(one) for one in gone]}}


def plain(override: Override) -> dict[str, Any]:
    """Return an adjustment as plain data."""
    return {"id": override.id, "match": override.match, "set": override.set}


def _figures(kernel: Kernel, change: Change, args: dict[str, Any], now: float) -> dict[str, Any]:
    """Return the figures of a change for the audit: the queues that it matches, and the results of a dry run."""
    found = _surveyed(kernel, change, args.get("survey"), now)
    return found | kept_figures(kernel, found.get("then", {}), args)


def kept_figures(kernel: Kernel, then: dict[str, int], args: dict[str, Any]) -> dict[str, Any]:
    """Return what the effect of a change keeps for what follows: what its queues had come to, and what it promised."""
    return {"then": then | {"retired_upto": kernel.counters.retired_back}, **kept_promise(args)}


def kept_promise(args: dict[str, Any]) -> dict[str, Any]:
    """Return what the effect of a change keeps of what it promised."""
    return {} if args.get("promised") is None else {"promised": promise(args["promised"])}


def _surveyed(kernel: Kernel, change: Change, given: Any, now: float) -> dict[str, Any]:
    """Return which queues a change matches, and their values before and after.

    Few queues are counted here. For many, the command may bring a count, which is valid unless the settings have
    changed since. Otherwise `before` and `after` have only the values common to all URIs, and `matched` is as given.
    """
    tables, match = kernel.tables, change.match
    named = _named(kernel, match) if match.keys else None
    if named is not None:
        found, sums = named
        of_named = survey_of(found, change, now, unknown=unknown_keys(match, tables.queues.look_up))
        return effect_of(of_named) | {"then": sums.then()}
    if kernel.counters.queues <= COUNTED:
        return effect_of(survey(tables.flushed(), change)) | {"as_of": now}
    counted = None if given is None else _survey(given)
    if counted is not None and counted.revision == kernel.counters.settings_revision:
        return effect_of(counted)
    uniform = [
        {name: values[name] if is_uniform(effective, name) else None for name in change.names}
        for effective, values in zip((change.before, change.after), values_of_none(change), strict=True)
    ]
    figures: dict[str, Any] = {
        "before": uniform[0],
        "after": {**uniform[1], **change.sets, **change.certain},
        "groups": [],
        "changed": None,
    }
    if counted is None:
        return figures | {"matched": None, "ungrouped": 0, "as_of": now}
    return effect_of(counted) | figures | {"ungrouped": counted.matched}


def standing_of(kernel: Kernel, entry: AuditEntry, given: Any) -> dict[str, int]:
    """Return the sums over the queues of a change of the adjustments: counted here if they are few, else as given."""
    in_force, tables = kernel.tables.in_force, kernel.tables
    override = override_of(tables.env.view(), entry)
    if override is None:
        return {}
    try:
        match, _ = sheets.concerned(in_force.settings, in_force.adjustments, override, in_force.grouping)
    except FrontierError:  # its sheet or group is gone
        return {}
    named = _named(kernel, match) if match.keys else None
    if named is not None:
        return named[1].then()
    if kernel.counters.queues <= COUNTED:
        return standing(tables.flushed(), match, since=0)[0].then()
    return {} if given is None else _sums(given)


def _named(kernel: Kernel, match: Match) -> tuple[list[tuple[str, str, str | None]], QueueSums] | None:
    """Return URL, key and label of the queues that a match names, and what these have come to.

    None if the URL of one is not in its record.
    """
    tables, sums = kernel.tables, QueueSums()
    found: list[tuple[str, str, str | None]] = []
    for key in spellings(match.keys):
        queue = tables.queues.look_up(key)
        if queue is None:
            continue
        head = tables.pending.head(queue.id) if queue.queued else None
        url = short_url(head[1]) if head else queue.last_enqueued
        if not url:
            return None
        sums.add(queue)
        found.append((expand(url, key), key, label_of(head[1]) if head else None))
    return found, sums
