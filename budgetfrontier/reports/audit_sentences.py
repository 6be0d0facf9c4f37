"""The wording of the audit: a sentence for each entry, with the effect of its command."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from budgetfrontier.core.effect_words import PACE, command_in_words, in_words, pace_in_words, paces_in_words
from budgetfrontier.core.units import format_size, format_time
from budgetfrontier.reports.format import as_written, clean, counted, setting_in_words
from budgetfrontier.storage.records import AuditEntry

_LONGEST = 200  # characters of a pattern, a key or a value

_Values = Mapping[str, Any]


def sentence(entry: AuditEntry) -> str:
    """Return the sentence on the effect of an entry's command; for a refused one, on its error."""
    if entry.error and not entry.effect:
        return clean(f"Refused: {entry.error}")
    says = _SENTENCES.get(entry.command)
    found = says(entry.args, entry.effect) if says else f"Applied {command_in_words(entry.command)}."
    return clean(f"{found} It failed before its end: {entry.error}" if entry.error else found)


def deleted(effect: _Values, *, verb: str = "deleted") -> str:
    """Return how many URIs a deletion has deleted, or would delete, and from how many queues."""
    return f"{verb} {_uris(effect, effect.get('deleted', 0), 'from')}"


def _uris(effect: _Values, total: int, where: str) -> str:
    """Return URIs with their queues; those that are scheduled for later are not counted by queues."""
    later, queues = effect.get("later", 0), counted(effect.get("queues", 0), "queue")
    if not later:
        return f"{counted(total, 'URI')} {where} {queues}"
    return f"{counted(total, 'URI')}: {total - later:,} pending {where} {queues}, {later:,} scheduled for later"


def left_waiting(effect: _Values) -> str:
    """Return the end of a sentence on what an undo or a replay does not return, because its URLs wait already."""
    waiting = effect.get("waiting", 0)
    return f"; not {waiting:,}, whose {'URL waits' if waiting == 1 else 'URLs wait'} already" if waiting else ""


def undone(effect: _Values) -> str:
    """Return the effect of an undo."""
    if "returned" in effect:
        letters = effect["command"] in ("drop", "bury")
        if effect["command"] == "forget":
            return f"{counted(effect['returned'], 'URL')} known again"
        what = counted(effect["returned"], "dead letter") if letters else _uris(effect, effect["returned"], "to")
        return f"returned {what}{left_waiting(effect)}"
    if "dropped" in effect:
        return f"dropped {counted(effect['dropped'], 'dead letter')}, and what was known of their URLs"
    if "left" in effect:
        as_is = "is left as it is" if effect["left"] == 1 else "are left as they are"
        left = f"; {counted(effect['left'], 'queue')} changed since, and {as_is}" if effect["left"] else ""
        return f"restored {counted(effect['restored'], 'queue')}{paces_again(effect)}{left}"
    if "removed" in effect:
        parts = (("removed", effect["removed"]), ("restored", effect.get("restored", ())))
        return "; ".join(f"{what} adjustment {', '.join(map(str, ids))}" for what, ids in parts if ids)
    changed = ", ".join(_changed(effect)) or "nothing changed"
    return f"{effect['queue']}: {changed}" if "queue" in effect else changed


def by_name(effect: _Values) -> str:
    """Return that a queue which stays RETIRED is so by name now, or no more; "" if that has not changed."""
    before, after = effect.get("before", {}), effect.get("after", {})
    stays = before.get("state") == after.get("state") == "RETIRED"
    if not stays or before.get("by_name") == after.get("by_name"):
        return ""
    if after.get("by_name"):
        return "retired by name now, so that no change of settings revives it"
    return "retired by name no more, so that a change of settings may revive it"


def _changed(effect: _Values) -> list[str]:
    before, after = effect.get("before", {}), effect.get("after", {})
    return [name for name in [by_name(effect)] if name] + [
        f"{in_words(name)} {_value(name, before.get(name))} -> {_value(name, value)}"
        for name, value in after.items()
        if value != before.get(name) and name in ("state", "pause_reason", *PACE, "wake_time")
    ]


def _value(name: str, value: Any) -> str:
    if name == "wake_time":
        return format_time(value) if value else "none"
    if name in PACE:
        return pace_in_words(name, value)
    return _short(value)


def _set(name: str, value: object) -> str:
    return _short(setting_in_words(name, value))


def _short(value: object) -> str:
    text = "none" if value is None else as_written(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _adjusted(args: _Values, effect: _Values) -> str:
    before, settings = effect.get("before", {}), args["set"]
    if "sheet" in settings:
        return f"Associated {_short(args['match'])} with sheet {_short(settings['sheet'])}{_concerned(effect)}."
    if "without_sheet" in settings:
        name = _short(settings["without_sheet"])
        return f"Ended the association of {_short(args['match'])} with sheet {name}{_concerned(effect)}."
    parts = (
        f"{name} to {_set(name, value)}{'' if before.get(name) is None else f' (before: {_set(name, before[name])})'}"
        for name, value in settings.items()
    )
    listed = f"; {args['list']['place']:,} of {args['list']['of']:,} of a list" if args.get("list") else ""
    return f"Set {', '.join(parts)} for {_short(args['match'])}{_concerned(effect)}{listed}.{_promised(effect)}"


def _concerned(effect: _Values) -> str:
    """Return how many queues a change of the adjustments concerns, as far as that was counted."""
    parts = []
    if effect.get("matched") is not None:
        changed = "" if effect.get("changed") is None else f", {effect['changed']:,} changed"
        parts.append(f"{counted(effect['matched'], 'queue')} matched{changed}")
    if effect.get("reconsidered_count"):
        parts.append(f"{counted(effect['reconsidered_count'], 'retired queue')} reconsidered")
    if effect.get("replaced"):
        parts.append(f"adjustment {', '.join(str(one['id']) for one in effect['replaced'])} replaced")
    return "".join(f"; {part}" for part in parts)


def _promised(effect: _Values) -> str:
    """Return the figures of the dry run that was shown before the change."""
    figures = effect.get("promised")
    if not figures:
        return ""
    parts = [
        f"{counted(figures['matched'], 'queue')} matched",
        f"{counted(figures['revived_count'], 'queue')} revived{f', for {_spend(figures)}' if figures['uris'] else ''}",
        f"{counted(figures['retired_count'], 'queue')} retired",
    ]
    if closed := figures.get("closed_count", 0) + figures.get("still_closed", 0):
        parts.append(f"{counted(closed, 'queue outside its', 'queues outside their')} crawl windows")
    if opened := figures.get("opened_count"):
        parts.append(f"{counted(opened, 'queue outside its', 'queues outside their')} crawl windows no more")
    if (others := figures["others"]).get("queues"):
        spends = f"{_spend(others['after'])} instead of {_spend(others['before'])}"
        parts.append(f"another budget for {counted(others['queues'], 'queue')} not retired then, {spends}")
    return f" A dry run as of {format_time(figures['as_of'])} promised: {'; '.join(parts)}."


def _spend(figures: _Values) -> str:
    return f"a spend of {figures['spend']:,} on {counted(figures['uris'], 'URI')}"


def _withdrawn(args: _Values, effect: _Values) -> str:
    one = effect.get("withdrawn", {})
    what = ", ".join(f"{name} {_set(name, value)}" for name, value in one.get("set", {}).items())
    of_what = f" ({what} for {_short(one['match'])})" if what else ""
    return f"Withdrew adjustment {args['id']}{of_what}{_concerned(effect)}.{_promised(effect)}"


def _discarded(args: _Values, effect: _Values) -> str:
    size = f": {format_size(effect['bytes'])} of a {command_in_words(effect['command'])}" if "bytes" in effect else ""
    return f"Removed for good what entry {args['id']} had kept for undo{size}."


_DONE = {
    "retire": "retired",
    "unretire": "taken out of retirement",
    "snooze": "blocked",
    "wake": "woken",
    "set_queue": "given another pace",
}


def selection(args: _Values, verb: str = "match") -> str:
    """Return by which states and pattern a command has selected queues, for a place behind "queues"; "" for all."""
    states = f" in state {' or '.join(args['states'])}" if args.get("states") else ""
    return states + ("" if args["match"] == "*" else f" that {verb} {_short(args['match'])}")


def selected(op: str, args: _Values, effect: _Values, *, verb: str = "") -> str:
    """Return what a command on selected queues has done, or with `verb` would do: "would be"."""
    of_queues = selection(args, "matches" if effect["matched"] == 1 else "match")
    moved = ", ".join(f"{count:,} {move}" for move, count in effect["states"].items())
    details = f": {moved}, with {counted(effect['uris'], 'URI')}" if moved else ""
    until = f" until {format_time(args['until'])}" if op == "snooze" else ""
    of = f"{effect['changed']:,} of {counted(effect['matched'], 'queue')}{of_queues}"
    were = {name: f", was {paces_in_words(name, found)}" for name, found in effect.get("paces", {}).items()}
    given = (name for name in PACE if name in args)
    pace = "; ".join(f"{in_words(name)} {pace_in_words(name, args[name])}{were.get(name, '')}" for name in given)
    done = f"{verb or ('was' if effect['changed'] == 1 else 'were')} {_DONE[op]}{until}{pace and f' ({pace})'}{details}"
    return f"{of} {done}{still_over(effect)}{_still_closed(effect)}"


def paces_again(effect: _Values) -> str:
    """Return the paces that queues have again after an undo, behind their number; "" if it is about no pace."""
    found = effect.get("paces_again", {}).items()
    told = "; ".join(f"{in_words(name)} {paces_in_words(name, queues)}" for name, queues in found)
    return told and f" ({told})"


def still_over(effect: _Values) -> str:
    """Return how many of the queues that `unretire` brings back do not stay, as a clause; "" if all do."""
    over, one = effect.get("still_over", 0), "states" not in effect
    if not over:
        return ""
    which = "it is" if one else "all of them are" if over == effect["changed"] > 1 else f"{counted(over, 'is', 'are')}"
    retires = "retires" if one or which.endswith("is") else "retire"
    return f"; {which} over a budget or quota still, and {retires} again at the next turn, with no URI tried"


def _still_closed(effect: _Values) -> str:
    """Return how many of the queues that `wake` woke waited for their crawl windows, as a clause; "" if none did."""
    closed = effect.get("still_closed", 0)
    waits = "is outside its crawl windows, and waits" if closed == 1 else "are outside their crawl windows, and wait"
    return f"; {closed:,} of them {waits} again from the next turn on" if closed else ""


def _on_queue(op: str, verb: str) -> Callable[[_Values, _Values], str]:
    def says(args: _Values, effect: _Values) -> str:
        if "states" in effect:
            return f"{selected(op, args, effect)}."
        changed = ", ".join(_changed(effect)) or "nothing changed"
        return f"{verb} queue {_short(args['queue'])}: {changed}{still_over(effect)}."

    return says


def _snoozed(args: _Values, effect: _Values) -> str:
    if "states" in effect:
        return f"{selected('snooze', args, effect)}."
    key, until = _short(args["queue"]), format_time(args["until"])
    if longer := waits_longer(args, effect):
        return f"Blocked queue {key} until {until}, which changed nothing: {longer}{_new_state(effect)}."
    nothing = ", which changed nothing" if effect.get("before") == effect.get("after") else ""
    return f"Blocked queue {key} until {until}{nothing}{_new_state(effect)}."


def waits_longer(args: _Values, effect: _Values) -> str:
    """Return that a queue waits longer than a `snooze` of it has asked for; "" if it does not."""
    until = effect.get("before", {}).get("wake_time", 0)
    return f"it waits until {format_time(until)} already" if until > args["until"] else ""


def _new_state(effect: _Values) -> str:
    before, after = (effect.get(when, {}).get("state") for when in ("before", "after"))
    return "" if before == after else f": state {before} -> {after}"


def _on_crawl(verb: str) -> Callable[[_Values, _Values], str]:
    return lambda args, effect: f"{verb} the crawl: {', '.join(_changed(effect)) or 'nothing changed'}."


def _tallied(does: str, noun: str) -> Callable[[_Values, _Values], str]:
    """Return the sentence of a command on URIs: how many there were, and their results."""

    def says(args: _Values, effect: _Values) -> str:
        found = ", ".join(f"{effect[name]:,} {word}" for name, word in _TALLY.items() if effect.get(name))
        reasons = ", ".join(f"{reason}: {count:,}" for reason, count in effect.get("reasons", {}).items())
        given = does.format(counted(args["uris"], noun))
        return f"{given}: {found or 'none added'}{f' ({reasons})' if reasons else ''}."

    return says


_TALLY = {
    "added": "added",
    "duplicate": "known already",
    "full": "refused by a limit",
    "invalid": "refused as invalid",
}


def chosen(args: _Values) -> str:
    """Return by what a command has chosen URIs or dead letters; "" if it has chosen all."""
    names = ("queue", "match", "pattern", "why")
    parts = [f"{name} {_short(args[name])}" for name in names if args.get(name) is not None]
    if args.get("states"):
        parts.append(f"state {' or '.join(args['states'])}")
    if args.get("ids") is not None:
        parts.append(f"of {counted(len(args['ids']), 'id')}")
    return ", ".join(parts)


def _chosen(args: _Values) -> str:
    return f" ({found})" if (found := chosen(args)) else ""


def forgotten(effect: _Values) -> str:
    """Return how many URLs are forgotten, and how many are not."""
    waiting = f", and not {counted(effect['waiting'], 'that waits', 'that wait')}" if effect.get("waiting") else ""
    number = effect.get("unknown", 0)
    unknown = f"; {number:,} {'was' if number == 1 else 'were'} not known" if number else ""
    return f"{counted(effect.get('forgotten', 0), 'URL')}{waiting}{unknown}"


def _deleted(args: _Values, effect: _Values) -> str:
    for_good = ", for good" if args.get("for_good") else ""
    undecided = effect.get("undecided")
    note = f" The pattern took too long for {counted(undecided, 'other URI')}." if undecided else ""
    return f"{deleted(effect, verb='Deleted')}{_chosen(args)}{for_good}.{note}"


def _letters(verb: str, name: str) -> Callable[[_Values, _Values], str]:
    def says(args: _Values, effect: _Values) -> str:
        for_good = ", for good" if args.get("for_good") else ""
        return f"{verb} {counted(effect.get(name, 0), 'dead letter')}{_chosen(args)}{for_good}{left_waiting(effect)}."

    return says


def _undone(args: _Values, effect: _Values) -> str:
    forced = ", whatever has changed since" if args.get("force") else ""
    what = f"Undid {command_in_words(effect.get('command', 'the command'))} of entry {args['id']}{forced}"
    if args.get("list"):
        what = f"Undid the list of entry {args['id']}, {counted(len(effect['entries']), 'adjustment')}{forced}"
    return f"{what}: {undone(effect)}.{_promised(effect)}"


def _settings(args: _Values, effect: _Values) -> str:
    before = effect.get("before", {})
    if not effect.get("after"):
        return "Opened with the same settings."
    parts = (
        f"{name} {_set(name, before.get(name))} -> {_set(name, value)}"
        for name, value in effect.get("after", {}).items()
    )
    return f"Opened with other settings: {', '.join(parts)}."


_SENTENCES: dict[str, Callable[[_Values, _Values], str]] = {
    "adjust": _adjusted,
    "withdraw": _withdrawn,
    "discard": _discarded,
    "retire": _on_queue("retire", "Retired"),
    "unretire": _on_queue("unretire", "Took out of retirement"),
    "snooze": _snoozed,
    "wake": _on_queue("wake", "Ended the waits of"),
    "set_queue": _on_queue("set_queue", "Set the pace of"),
    "pause": _on_crawl("Paused"),
    "resume": _on_crawl("Resumed"),
    "terminate": _on_crawl("Terminated"),
    "schedule": _tallied("Scheduled {}", "URI"),
    "mark_seen": _tallied("Marked {} as seen", "URL"),
    "bury": _tallied("Imported {}", "dead letter"),
    "delete": _deleted,
    "forget": lambda args, effect: f"Forgot {forgotten(effect)}{_chosen(args)}.",
    "replay": _letters("Replayed", "replayed"),
    "drop": _letters("Dropped", "dropped"),
    "undo": _undone,
    "settings": _settings,
}
