"""The effect of an undo, and the reasons why it is refused: for the undo itself, and its dry run over a snapshot."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from budgetfrontier.core.effect_words import entry_in_words
from budgetfrontier.core.model import CrawlState, QueueRecord
from budgetfrontier.core.units import counted
from budgetfrontier.engine.commands import restoring, undo_bury, undo_queues
from budgetfrontier.engine.commands.adjustment import Edit, edited, plain
from budgetfrontier.engine.commands.preview import preview as preview_of
from budgetfrontier.engine.commands.restoring import kept_by
from budgetfrontier.engine.commands.state_preview import (
    Terms,
    crawl_after,
    look_at_crawl,
    look_at_queue,
    repace,
    set_waits,
    state_once_revived,
)
from budgetfrontier.engine.commands.survey import Change, changed_to
from budgetfrontier.engine.commands.undo_queues import differences
from budgetfrontier.errors import FrontierError
from budgetfrontier.rules import wake_times
from budgetfrontier.rules.queue_states import READY, RETIRED, SNOOZED
from budgetfrontier.rules.undoing import (
    ADJUSTING,
    BURYING,
    DELETING,
    ENDING,
    NOTHING,
    NOTHING_KEPT,
    ON_QUEUES,
    PACING,
    PAUSING,
    RETIRING,
    command_of,
    has_changed,
    is_as_left,
)
from budgetfrontier.rules.wake_times import Waits
from budgetfrontier.settings.matching import disjoint, parse_match
from budgetfrontier.settings.overrides import Override
from budgetfrontier.settings.sheets import is_about_sheets, sheet_of
from budgetfrontier.settings.values import brief
from budgetfrontier.storage.records import AuditEntry
from budgetfrontier.storage.removed import counts, ended, ended_by, kept, values
from budgetfrontier.storage.view import View

FORCE = "`undo --force` does it nevertheless"
"""The end of the refusals that can be overruled."""
LOOKED_AT = 1 << 18
"""Bytes of what a deletion has kept that are read for one entry of a list."""
PAUSED = frozenset((CrawlState.PAUSING, CrawlState.PAUSED))


def _no_entry(number: int) -> FrontierError:
    return FrontierError(f"there is no audit entry {number}; `audit` lists them")


def find(view: View, number: int, what: str) -> tuple[AuditEntry, str]:
    """Return the audit entry that is to be undone, or discarded, and its command. Raises FrontierError."""
    entry = view.audit_entry(number)
    if entry is None:
        raise _no_entry(number)
    command = command_of(entry.command, entry.effect)
    if entry.error and not entry.effect.get("kept") and not entry.effect.get("letters"):
        raise FrontierError(f"{entry_in_words(number, command)}, was refused: it {NOTHING}")
    if entry.command == "discard":
        raise FrontierError(f"{number} is a discard: what it has removed is gone for good")
    if what == "discard" and entry.command not in DELETING and not kept(entry.effect):
        raise FrontierError(f"{entry_in_words(number, entry.command)}, {NOTHING_KEPT}")
    end = ended(view, number).get(number)
    if end is not None:
        if end.command == "discard" and what == "discard":
            raise FrontierError(f"{entry_in_words(number, command)}, was discarded already, by {end.id}")
        if end.command == "discard":
            raise FrontierError(
                f"{entry_in_words(number, command)}, cannot be undone: {end.id} has discarded what was kept of it"
            )
        rest = ""
        if "left" in end.effect and kept(end.effect) and not ended(view, end.id).get(end.id):
            rest = f"; `undo {end.id} --force` restores what that has left"
        raise FrontierError(f"{entry_in_words(number, command)}, is undone already{rest}")
    return entry, command


def list_of(view: View, number: int) -> list[AuditEntry]:
    """Return the adjustments of the list that an entry is of, but for those that were undone, the newest first.

    Raises FrontierError if it is of none, or all were undone. O(later entries), and those of the list.
    """
    one = view.audit_entry(number)
    if one is None:
        raise _no_entry(number)
    if (name := place_in_list(one)[:1]) == ():
        raise FrontierError(f"{entry_in_words(number, one.command)}, belongs to no list of adjustments: undo it alone")
    found, undone = list[AuditEntry](), dict[int, AuditEntry]()
    for entry in view.newest_commands("adjust", *ENDING):
        place = place_in_list(entry)
        if counts(entry, undone.get(entry.id)):
            undone |= dict.fromkeys(ended_by(entry) - undone.keys(), entry)
        elif place[:1] == name and entry.id not in undone:
            found.append(entry)
        if place[:2] == (*name, 1):
            break
    if not found:
        raise FrontierError(f"{entry_in_words(number, one.command)}, is undone already, with its list")
    return found


def place_in_list(entry: AuditEntry) -> tuple[Any, ...]:
    """Return the name of the list that an adjustment is of, its place, and their number; () if it is of none."""
    given = entry.args.get("list") if entry.command == "adjust" and not entry.error else None
    return (given["name"], given["place"], given["of"]) if isinstance(given, dict) else ()


def cannot(entry: AuditEntry, command: str) -> FrontierError:
    """Return the error for a command that `undo` does not know."""
    return FrontierError(f"{entry_in_words(entry.id, command)}, cannot be undone; the audit says what it has done")


def check_adjusting(entry: AuditEntry, in_force: Sequence[Override], *, force: bool) -> Edit:
    """Return the change of the adjustments that undoes an entry. Raises FrontierError."""
    inverse = entry.effect["inverse"]
    there = {one.id: one for one in in_force}
    restore = [Override(one["match"], one["set"], id=one["id"]) for one in inverse["restore"]]
    restore = [one for one in restore if one.id not in there]
    remove = [number for number in inverse["remove"] if number in there]
    if not remove and not restore:
        raise _replaced(entry)
    changed = [*restore, *(there[number] for number in remove)]
    stay = edited(in_force, Edit(remove, restore))
    restore = [one for one in restore if one in stay]
    if not remove and not restore:
        raise _replaced(entry)
    later = [one for one in there.values() if one.id > entry.id and any(_contend(one, each) for each in changed)]
    gone = len(remove) < len(inverse["remove"])
    if (later or gone) and not force:
        what, where = "a part of it was replaced", ""
        if later:
            what = f"adjustment {later[-1].id} sets the same settings"
            where = f', and "{brief(later[-1].match)}" may match the same queues'
        raise FrontierError(f"{entry.id} is not undone, because {what} since{where}; {FORCE}")
    return Edit(remove, restore)


def check_list(
    entries: Sequence[AuditEntry], in_force: Sequence[Override], *, force: bool
) -> tuple[Edit, list[AuditEntry]]:
    """Return the change of the adjustments that undoes entries, the newest first, and these. Raises FrontierError.

    With `force`, those of which nothing is in force any more are left out, unless that is so of all.
    """
    after, undone = [*in_force], list[AuditEntry]()
    for entry in entries:
        try:
            after = edited(after, check_adjusting(entry, after, force=force))
        except FrontierError as error:
            if not force:
                raise FrontierError(f"{error}{'' if str(error).endswith(FORCE) else f'; {FORCE}'}") from None
        else:
            undone.append(entry)
    there, stay = {one.id for one in in_force}, {one.id for one in after}
    if there == stay:
        raise _replaced(entries[0])
    return Edit(sorted(there - stay), [one for one in after if one.id not in there]), undone


def _replaced(entry: AuditEntry) -> FrontierError:
    return FrontierError(
        f"what {entry.id} has changed is not in force any more: later commands have replaced it: undo these first, the "
        "newest first, or give a new `adjust`"
    )


def _contend(one: Override, other: Override) -> bool:
    """Return whether two adjustments set the same settings, of queues that both may match."""
    shared = not one.set.keys().isdisjoint(other.set)
    if is_about_sheets(one) or is_about_sheets(other):  # values of a sheet, or its association with a pattern
        same = sheet_of(one) == sheet_of(other) and one.match == other.match
        return same and (shared or not one.match.startswith("sheet:"))
    return shared and not disjoint(parse_match(one.match), parse_match(other.match))


def is_of_many(entry: AuditEntry, command: str) -> bool:
    """Return whether an entry is about queues that a command has selected, or the undo of that."""
    return command in ON_QUEUES and "before" not in entry.effect


def key_of(entry: AuditEntry) -> str:
    """Return the key of the queue that an entry is about."""
    return str(entry.args.get("queue", entry.effect.get("queue")))


def check_queue(entry: AuditEntry, command: str, queue: QueueRecord | None, *, force: bool) -> QueueRecord:
    """Return the queue of an entry that can be undone. Raises FrontierError."""
    before, after = entry.effect["before"], entry.effect["after"]
    if queue is None:
        raise FrontierError(f"there is no queue {key_of(entry)!r} any more")
    if not has_changed(before, after, command):
        raise FrontierError(f"{entry_in_words(entry.id, command)}, {NOTHING}")
    found = look_at_queue(queue)
    if not force and not is_as_left(found, before, after, command):
        changes = " and ".join(differences(found, before, after, command))
        raise FrontierError(f"queue {queue.queue} has changed since {entry.id}: {changes}; {FORCE}")
    return queue


def check_crawl(entry: AuditEntry, found: dict[str, Any], *, force: bool) -> None:
    """Raise FrontierError if an entry about the crawl, which is as `found`, cannot be undone."""
    before, after = entry.effect["before"], entry.effect["after"]
    if before == after:
        raise FrontierError(f"{entry.id} {NOTHING}: the crawl was {before['state']} before it, too")
    still = (found["state"] in PAUSED) == (after["state"] in PAUSED)
    if not still or found["state"] is CrawlState.TERMINATED:
        raise FrontierError(f"the crawl is {found['state']}: there is nothing left of {entry.id} to undo")
    same = after["state"] in PAUSED or found["state"] == after["state"]
    if not force and not (same and found["pause_reason"] == after.get("pause_reason")):
        raise FrontierError(f"the crawl has changed since: it is {found['state']}; {FORCE}")


def _restored(view: View, queue: QueueRecord, entry: AuditEntry, command: str, now: float) -> dict[str, Any]:
    """Return a queue before and after the undo of an entry, as `undo` does it; a test compares both."""
    changed, was, after = copy.copy(queue), entry.effect["before"], entry.effect["after"]
    if command in RETIRING:
        changed.by_name = was["by_name"]
        if was["state"] == RETIRED:
            changed.state = RETIRED
        elif queue.state is RETIRED:
            changed.state = state_once_revived(Terms(view), queue)
    elif command in PACING:
        repace(Terms(view), changed, was, after, now)
    else:
        set_waits(changed, wake_times.restored(queue, Waits.told(was), Waits.told(after)))
        if queue.state is READY and changed.wake_time > now:
            changed.state = SNOOZED
    return {"before": look_at_queue(queue), "after": look_at_queue(changed)}


def refusal(view: View, entry: AuditEntry, in_force: Sequence[Override]) -> str:
    """Return why the undo of an entry that was not undone would be refused without force; "" if it would not be.

    `in_force` are the adjustments. What a deletion has kept is read only up to LOOKED_AT bytes: a larger one may be
    refused nevertheless.
    """
    command = command_of(entry.command, entry.effect)
    try:
        _check_begun(view, entry, command)
        if command in ADJUSTING:
            check_adjusting(entry, in_force, force=False)
        elif is_of_many(entry, command):
            undo_queues.kept_by(entry, command)
        elif command in ON_QUEUES:
            check_queue(entry, command, view.find_queue(key_of(entry)), force=False)
        elif command in PAUSING:
            check_crawl(entry, look_at_crawl(view.summary()), force=False)
        elif entry.command == "bury":
            undo_bury.preview(view, entry, force=False)
        elif command in DELETING | BURYING and restoring.kept_by(entry, command).bytes <= LOOKED_AT:
            restoring.preview(view, entry, command, force=False)
    except FrontierError as e:
        return str(e)
    return ""


def _check_begun(view: View, entry: AuditEntry, command: str) -> None:
    """Raise FrontierError if the undo of an entry is in progress."""
    begun = view.in_progress()
    if begun is not None and begun[0].op in ENDING and int(begun[0].args["id"]) == entry.id:
        what = "undone" if begun[0].op == "undo" else "discarded"
        raise FrontierError(
            f"{entry_in_words(entry.id, command)}, is being {what}: that is in progress, and not done yet"
        )


def preview(
    view: View, args: dict[str, Any], now: float, of_change: Callable[[View, Change], dict[str, Any]] | None = None
) -> dict[str, Any]:
    """Return the effect of an undo as of the view, by its names in the audit. Raises FrontierError as the undo would.

    `undoes` is the entry in words; `adjustments` are those that it would remove or restore, with the effect of that as
    `of_change` returns it; None: that on all URIs that queues hold, in scope or not.
    """
    number, force, in_force = int(args["id"]), bool(args.get("force")), view.adjustments()
    look = of_change or partial(preview_of, now=now)
    if args.get("list"):
        change, entries = check_list(list_of(view, number), in_force, force=force)
        undoes = f"{entry_in_words(number, 'adjust')}, and its list: {counted(len(entries), 'adjustment')}"
        return {"undoes": undoes, "entries": [one.id for one in entries]} | _adjusted(view, "adjust", change, look)
    entry, command = find(view, number, "undo")
    _check_begun(view, entry, command)
    why = f": {entry.reason}" if entry.reason else ""
    effect: dict[str, Any] = {"undoes": f"{entry_in_words(entry.id, entry.command)} by {entry.who}{why}"}
    if command in ADJUSTING:
        return effect | _adjusted(view, command, check_adjusting(entry, in_force, force=force), look)
    if is_of_many(entry, command):
        return effect | undo_queues.preview(view, entry, command, force=force)
    if command in ON_QUEUES:
        queue = check_queue(entry, command, view.find_queue(key_of(entry)), force=force)
        return effect | {"queue": queue.queue} | _restored(view, queue, entry, command, now)
    if command in PAUSING:
        totals, was = view.summary(), entry.effect["before"]
        found = look_at_crawl(totals)
        check_crawl(entry, found, force=force)
        op = "pause" if was["state"] in PAUSED else "resume"
        after = crawl_after(view, totals, op, "")
        if op == "pause":
            after["pause_reason"] = was.get("pause_reason") or "operator"
        return effect | {"before": found, "after": after}
    if entry.command == "bury":
        return effect | undo_bury.preview(view, entry, force=force)
    if command in DELETING | BURYING:
        return effect | restoring.preview(view, entry, command, force=force)
    raise cannot(entry, command)


def _adjusted(view: View, command: str, change: Edit, look: Callable[[View, Change], dict[str, Any]]) -> dict[str, Any]:
    """Return the effect of a change of the adjustments that undoes some, with that of it on queues."""
    in_force = view.adjustments()
    removed = [one for one in in_force if one.id in change.remove]
    return {
        "command": command,
        "removed": list(change.remove),
        "restored": [one.id for one in change.restore],
        "adjustments": [plain(one) for one in (*removed, *change.restore)],
        **look(view, changed_to(view, edited(in_force, change))),
    }


def preview_of_discard(view: View, args: dict[str, Any]) -> dict[str, Any]:
    """Return the effect of a `discard` as of the view. Raises FrontierError as it would. O(blocks kept)."""
    entry, command = find(view, int(args["id"]), "discard")
    return {"command": command, "bytes": sum(len(value) for _, value in values(view, kept_by(entry, command).number))}
