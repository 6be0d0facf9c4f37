"""The effects that commands would have on a frontier, from its last commit: a running engine is not involved."""

from __future__ import annotations

import time
from typing import Any, Final

import msgspec

from budgetfrontier.core.model import Summary
from budgetfrontier.engine.commands import (
    dead_letters,
    deletion,
    forgetting,
    queue_commands,
    scheduling,
    state_preview,
    undo_checks,
)
from budgetfrontier.engine.commands.adjustment import not_in_force, promise
from budgetfrontier.engine.commands.survey import Change, Survey, appended, changed_to, survey
from budgetfrontier.errors import FrontierError
from budgetfrontier.reports import adjustment_outcomes
from budgetfrontier.reports.scope_check import preview_in_scope
from budgetfrontier.rules.crawl_states import end_sentence
from budgetfrontier.rules.undoing import ADJUSTING, ON_CRAWL, ON_QUEUES, command_of
from budgetfrontier.settings.overrides import validate_override
from budgetfrontier.storage.view import View

_OF_LETTERS: Final = {"replay": "replayed", "drop": "dropped"}
"""The commands on dead letters, each with the name of their number in its effect."""


def dry_run(view: View, op: str, args: dict[str, Any], *, now: float | None = None) -> dict[str, Any]:
    """Return the effect that a command would have on the frontier. Raises FrontierError if it is refused.

    `now` is the time of the frontier's clock, if that is not the view's.
    """
    now = view.now() if now is None else now
    if op in ADJUSTING:
        return preview_in_scope(view, change_of(view, op, args))
    if op == "undo":
        return undo_checks.preview(view, args, now, preview_in_scope)
    if op == "discard":
        return undo_checks.preview_of_discard(view, args)
    if op == "delete":
        deletion.check(args)
        return deletion.preview(view, args)
    if op == "forget":
        return forgetting.preview(view, args)
    if op == "schedule":
        return scheduling.preview(view, args)
    if op in _OF_LETTERS:
        return dead_letters.preview(view, args, _OF_LETTERS[op])
    if op in ON_QUEUES:
        queue_commands.check(op, args)
        if args.get("queue") is None:
            return state_preview.of_queues(view, op, args, now)
        return state_preview.of_queue(view, op, args, now)
    if op in ON_CRAWL:
        return state_preview.of_crawl(view, op, args)
    raise FrontierError(f"{op} has no dry run")


_HELD_BACK: Final = ("held_back", "held_later", "held_until")


def with_end(op: str, args: dict[str, Any], effect: dict[str, Any], totals: Summary | None) -> dict[str, Any]:
    """Return the effect of a dry run, with the sentence `end` if it leaves a crawl with these totals no work."""
    held, later, until = (effect.get(name) or 0 for name in _HELD_BACK)
    shown = {name: value for name, value in effect.items() if name not in _HELD_BACK}
    until = float(args["until"]) if op == "snooze" else until or None
    if totals is None or (until is not None and until <= time.time()):
        return shown
    end = end_sentence(totals, held, later, until=until)
    return shown | {"end": end} if end else shown


def figures(view: View, op: str, args: dict[str, Any], *, preceding: int = 0) -> dict[str, Any]:
    """Return the arguments by which a change of the adjustments keeps which queues it matches, and what it promises;
    or by which its undo keeps what they have come to, and what it promises.

    What a dry run has promised that was shown before is in the arguments already. `preceding` changes are
    given with it, and come into force before; they concern other URIs. O(queues).
    """
    if op == "undo":
        entry = view.audit_entry(int(args["id"]))
        if entry is None or command_of(entry.command, entry.effect) not in ADJUSTING:
            return {}
        then = None if args.get("list") else adjustment_outcomes.standing_of(view, entry)
        found = {} if then is None else {"then": then}
        try:
            return found | {"promised": args.get("promised") or promise(dry_run(view, op, args))}
        except FrontierError:  # the engine refuses it, too, and the audit has that
            return found
    change = change_of(view, op, args)
    if args.get("promised") is not None:
        found, promised = msgspec.structs.asdict(survey(view, change)), args["promised"]
    else:
        effect = preview_in_scope(view, change)
        found = {name: effect[name] for name in Survey.__struct_fields__ if name != "revision"}
        promised = promise(effect)
    return {"survey": found | {"revision": view.counters().settings_revision + preceding}, "promised": promised}


def change_of(view: View, op: str, args: dict[str, Any]) -> Change:
    """Return the change of the adjustments that a command makes. Raises FrontierError."""
    if op == "adjust":
        return appended(view, validate_override(args.get("match", ""), args.get("set", {})))
    override = next((one for one in view.adjustments() if one.id == args["id"]), None)
    if override is None:
        raise not_in_force(args["id"])
    return changed_to(view, [one for one in view.adjustments() if one.id != override.id])
