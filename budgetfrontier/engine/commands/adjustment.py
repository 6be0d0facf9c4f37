"""The adjustment of settings: overrides appended to those in force, and taken back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from budgetfrontier import plugins
from budgetfrontier.converters import converter
from budgetfrontier.engine.commands.preview import Change, Survey, appended, preview, survey, survey_of, values_of_none
from budgetfrontier.engine.kernel import Kernel
from budgetfrontier.errors import FrontierError
from budgetfrontier.settings.matching import Match, parse_match, spellings, unknown_keys
from budgetfrontier.settings.overrides import Effective, Override, compacted, validate_override
from budgetfrontier.store import keys
from budgetfrontier.store.meta import write_settings
from budgetfrontier.store.uri_values import expand, short_url
from budgetfrontier.store.view import identified

COUNTED = 1000
"""The most queues of a frontier that a change counts by itself: some milliseconds."""
_survey: Callable[[Any], Survey] = converter(Survey)


class Adjustment(msgspec.Struct, kw_only=True):
    """The effect of `adjust`, or with `dry_run` the effect that it would have. `id` is that of its audit entry.

    `groups` are the queues that `match` names, by equal values: `{"before": ..., "after": ..., "queues": 1000}`, the
    largest hundred; `ungrouped` queues are in the others, and `matched` counts all. `before` and `after` have the
    values that are the same for all of them, else None. A real one counts a frontier with more than 1,000 queues only
    if it names queues by their keys: otherwise `matched` is None, and `groups` is empty.

    `unknown` are the keys that `match` names and no queue has yet.

    `by_next_uri`, of a dry run: some URIs of a queue may match and others not, as with `regex:`; then the next one
    decides for the queue, as it does for its settings, and the figures count until another is the next.

    A dry run counts the queues that would retire and revive, and lists the first 1,000; those matched that are over
    budget before and after (`still_over`), and those that were retired by name, which stay (`by_name`). `uris` is how
    many of the URIs that they hold now the revived would hand out, `spend` what these cost, `ceiling` what their
    budgets leave for these and for all that come (None: no maximum); the last URI of a queue may go beyond it. `others`
    has all three, before and after, for the queues that are not retired and get another budget. A real one only counts
    the retired queues that are reconsidered, and lists the adjustments that it has `replaced`, because all of their
    settings are set by later ones.
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
    by_next_uri: bool = False
    as_of: float = 0.0
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


def check(args: dict[str, Any]) -> None:
    """Raise for an adjustment that could not be applied."""
    policy = validate_override(args["match"], args["set"]).set.get("cost_policy")
    if args.get("survey") is not None:
        _survey(args["survey"])
    if policy is not None:
        plugins.resolve("cost", policy)  # one that cannot be imported would end the engine at the next URI


def adjust(kernel: Kernel, args: dict[str, Any], now: float) -> dict[str, Any]:
    """Append an override to the adjustments, or with `dry_run` only preview it."""
    override = validate_override(args["match"], args["set"])
    if not override.set:
        raise FrontierError("adjust needs at least one setting to change")
    if args.get("dry_run"):
        view = kernel.tables.flushed()
        return preview(view, appended(view, override))
    override = msgspec.structs.replace(override, id=kernel.counters.audit + 1)
    found = _surveyed(kernel, override, args.get("survey"), now)
    return found | edit(kernel, Edit([], [override]), now)


def check_withdrawal(args: dict[str, Any]) -> None:
    """Raise for a withdrawal that could not be applied."""
    int(args["id"])
    if args.get("survey") is not None:
        _survey(args["survey"])


def withdraw(kernel: Kernel, args: dict[str, Any], now: float) -> dict[str, Any]:
    """Take an adjustment out of those in force; what it had replaced does not come back."""
    override = next((one for one in adjustments_of(kernel) if one.id == args["id"]), None)
    if override is None:
        raise not_in_force(args["id"])
    found = msgspec.structs.asdict(_survey(args["survey"])) if args.get("survey") is not None else {}
    return {"withdrawn": plain(override)} | found | edit(kernel, Edit([override.id], []), now)


def not_in_force(number: int) -> FrontierError:
    """Return the error for an adjustment that is not in force, of a job or of a partition of a crawl."""
    return FrontierError(f"adjustment {number} is not in force; `adjust --list` lists those that are")


class Edit(NamedTuple):
    """A change of the adjustments: the ids of those that go, and those that come, each at its place."""

    remove: Sequence[int]
    restore: Sequence[Override]


def adjustments_of(kernel: Kernel) -> list[Override]:
    """Return the adjustments of an engine, with their ids."""
    return identified(kernel.tables.in_force.adjustments, kernel.tables.env.view().newest_commands())


def edit(kernel: Kernel, change: Edit, now: float) -> dict[str, Any]:
    """Change the adjustments: a change of settings. Return its part of the effect, with what would take it back.

    Adjustments are in the order of their ids, which is that in which they were made.
    """
    tables, counters = kernel.tables, kernel.counters
    before, settings = adjustments_of(kernel), tables.in_force.settings
    kept = [one for one in before if one.id not in change.remove]
    after = compacted(sorted([*kept, *change.restore], key=attrgetter("id")))
    stay, were = {one.id for one in after}, {one.id for one in before}
    gone = [one for one in before if one.id not in stay]
    come = [one for one in after if one.id not in were]
    revived = counters.retired - counters.retired_by_name
    precedence = any("precedence" in one.set for one in (*gone, *come))
    kernel.rollout.change_settings(settings, after, now, precedence=precedence)
    write_settings(tables.env.txn, tables.env.db[keys.META], settings, after)
    effect: dict[str, Any] = {"revived_count": revived}
    if replaced := [one for one in gone if one.id not in change.remove]:
        effect["replaced"] = [plain(one) for one in replaced]
    return effect | {"inverse": {"remove": [one.id for one in come], "restore": [plain(one) for one in gone]}}


def plain(override: Override) -> dict[str, Any]:
    """Return an adjustment as plain data."""
    return {"id": override.id, "match": override.match, "set": override.set}


def _surveyed(kernel: Kernel, override: Override, given: Any, now: float) -> dict[str, Any]:
    """Return which queues an override matches, and their values before and after, as the audit keeps them.

    The command line has counted them before it sent the command. Otherwise they are counted here if they are few; if
    they are not, `matched` is None, and `before` has only the values that are the same for all URIs.
    """
    if given is not None:
        return msgspec.structs.asdict(_survey(given))
    tables, match = kernel.tables, parse_match(override.match)
    after = Effective(tables.in_force.frontier, (), [Override("*", override.set)])  # it is the last one, and wins
    change = Change(match, tuple(override.set), tables.in_force.effective, after, override.set)
    named = _named(kernel, match) if match.keys else None
    if named is not None:
        unknown = unknown_keys(match, kernel.tables.queues.look_up)
        return msgspec.structs.asdict(survey_of(named, change, now, unknown=unknown))
    if kernel.counters.queues <= COUNTED:
        return msgspec.structs.asdict(survey(tables.flushed(), change)) | {"as_of": now}
    old, _ = values_of_none(change)
    known = {name: value if change.before.is_uniform(name) else None for name, value in old.items()}
    return {"matched": None, "groups": [], "ungrouped": 0, "before": known, "after": dict(override.set), "as_of": now}


def _named(kernel: Kernel, match: Match) -> list[tuple[str, str]] | None:
    """Return the URLs and keys of the queues that a match names; None if the URL of one is not in its record."""
    tables, found = kernel.tables, []
    for key in spellings(match.keys):
        queue = tables.queues.look_up(key)
        if queue is None:
            continue
        head = tables.pending.head(queue.id) if queue.queued else None
        url = short_url(head[1]) if head else queue.last_enqueued
        if not url:
            return None
        found.append((expand(url, key), key))
    return found
