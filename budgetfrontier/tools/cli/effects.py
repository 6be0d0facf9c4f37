"""The effects of commands as they are printed, whether of a job or of a crawl in partitions."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

from budgetfrontier.core.effect_words import PACE, in_words, pace_in_words
from budgetfrontier.core.units import format_time
from budgetfrontier.tools.cli import common
from budgetfrontier.tools.cli.sentences import note, say, tell_end

if TYPE_CHECKING:
    from budgetfrontier.core.model import Summary


_PAST = "that time is past, so that it changes nothing; `budgetfrontier wake` ends a wait"
_MOST_LEFT = 20  # queues that an undo leaves, and that are named
_MOST_MATCHES = 3  # patterns that are named beside each group of values


def tell_queues(op: str, args: argparse.Namespace, details: dict[str, Any], effect: dict[str, Any]) -> None:
    """Print the changes by a command to a queue, or to those that it has selected."""
    from budgetfrontier.reports.audit_sentences import selected
    from budgetfrontier.reports.format import clean
    from budgetfrontier.settings.matching import has_brackets
    from budgetfrontier.tools.cli.adjustments import named_keys

    if "states" not in effect:
        tell_queue(op, args, details, effect)
        return
    say(selected(op, details, effect, verb="would be" if args.dry_run else ""))
    if not effect["matched"]:
        brackets = " (brackets are no wildcards here)" if has_brackets(details["match"]) else ""
        states = f" in the state {' or '.join(details['states'])}" if details.get("states") else ""
        note(f"no queue{states} is selected by {clean(details['match'])}{brackets}; `budgetfrontier queues` lists them")
    if effect["changed"]:
        say(named_keys(effect["changed"], effect["queues"]))
    elif op == "snooze" and details["until"] <= time.time():
        note(_PAST)


def tell_queue(op: str, args: argparse.Namespace, details: dict[str, Any], effect: dict[str, Any]) -> None:
    """Print the changes by a command to a queue."""
    from budgetfrontier.reports.audit_sentences import by_name, still_over, waits_longer
    from budgetfrontier.reports.format import clean

    key = clean(args.key)
    if op == "set_queue":
        before, after = effect["before"], effect["after"]
        told = (
            f"{in_words(name)} {pace_in_words(name, before[name])} -> {pace_in_words(name, after[name])}"
            for name in details
            if name in PACE
        )
        say(f"{key}: {'; '.join(told)}")
        return
    until, block = effect["after"]["wake_time"], effect["before"].get("block", 0.0)
    wakes = f", until {format_time(until)}" if op == "snooze" else ", blocked no more" if op == "wake" and block else ""
    change = by_name(effect) or f"{effect['before']['state']} -> {effect['after']['state']}"
    say(f"{key}: {change}{wakes}{still_over(effect)}")
    if op == "snooze" and details["until"] <= time.time():
        note(_PAST)
    elif op == "snooze" and (longer := waits_longer(details, effect)):
        note(f"{longer}: a snooze shortens no wait; `budgetfrontier wake` ends it, and then it may be snoozed for less")


def tell_deletion(effect: dict[str, Any]) -> None:
    """Print the effect of a deletion."""
    from budgetfrontier.reports.audit_sentences import deleted

    say(deleted(effect))
    _note_undecided(effect)


def tell_deletion_preview(effect: dict[str, Any], totals: Summary) -> None:
    """Print the effect that a deletion would have."""
    from budgetfrontier.reports.audit_sentences import deleted

    say(f"would {deleted(effect, verb='delete')}")
    say(f"those pending would cost {effect['cost']:,}")
    say(
        f"queues that are neither RETIRED nor INELIGIBLE hold {totals.queued:,} in all; "
        f"scheduled for later: {totals.future:,}"
    )
    _note_undecided(effect)
    tell_end(effect)


def _note_undecided(effect: dict[str, Any]) -> None:
    from budgetfrontier.reports.format import counted

    if effect.get("undecided"):
        note(f"the pattern takes too long for {counted(effect['undecided'], 'URI')}, not counted among them")


def note_disk(effect: dict[str, Any]) -> None:
    """Print that a crawl that goes on was paused because of its disk, if it was."""
    from budgetfrontier.rules.crawl_states import disk_sentence

    if sentence := disk_sentence(effect):
        note(sentence)


def tell_undo(name: int | str, effect: dict[str, Any]) -> None:
    """Print the effect of an undo of the command of an audit entry."""
    from budgetfrontier.reports.audit_sentences import undone
    from budgetfrontier.reports.effect_text import as_told
    from budgetfrontier.reports.format import clean, counted
    from budgetfrontier.tools.cli.adjustments import of_windows

    listed = f", and its list, {counted(len(effect['entries']), 'adjustment')}" if "entries" in effect else ""
    say(clean(f"undone {name}, {as_told('command', effect['command'])}{listed}: {undone(effect)}"))
    for line in of_windows(effect.get("promised", {})):
        say(line)
    _tell_left(effect)
    note_disk(effect)
    common.warn(map(clean, effect.get("warnings", ())))


def _tell_left(effect: dict[str, Any]) -> None:
    """Print some of the queues that an undo leaves as they are, each with what has changed since."""
    from budgetfrontier.reports.format import clean

    for one in effect.get("changed", ())[:_MOST_LEFT] if effect.get("left") else ():
        note(f"left: {clean(one)}")


def tell_undo_preview(effect: dict[str, Any]) -> None:
    """Print the effect that an undo would have."""
    from budgetfrontier.reports.audit_sentences import left_waiting, paces_again
    from budgetfrontier.reports.effect_text import as_told
    from budgetfrontier.reports.format import clean, counted
    from budgetfrontier.tools.cli.adjustments import changes, named_keys, tell_foreseen

    common.warn(map(clean, effect.get("warnings", ())))
    say(clean(f"would undo {effect.pop('undoes')}"))
    if "returned" in effect:
        noun = {"delete": "URI", "forget": "URL"}.get(effect["command"], "dead letter")
        what = counted(effect["returned"], noun)
        where = "" if noun != "URI" else f" to {named_keys(effect['queues'], effect['queue_names'])}"
        would = f"would make {what} known again" if noun == "URL" else f"would return {what}{where}"
        say(f"{would}{left_waiting(effect)}")
        if effect.get("changed_count"):
            say(f"although changed since: {named_keys(effect['changed_count'], effect['changed'])}")
    elif "left" in effect:
        say(f"would restore {named_keys(effect['restored'], effect['queues'])}{paces_again(effect)}")
        if effect["left"]:
            say(f"would leave {counted(effect['left'], 'queue')} that changed since; --force restores them, too")
            _tell_left(effect)
    elif "dropped" in effect:
        say(f"would drop {counted(effect['dropped'], 'dead letter')}, and what is known of their URLs")
        if gone := effect.get("gone"):
            say(f"replayed or dropped since: {gone:,}")
    elif "before" in effect and "state" in effect["before"]:
        for name, before in effect["before"].items():
            if before != effect["after"][name]:
                say(clean(f"{in_words(name)}: {as_told(name, before)} -> {as_told(name, effect['after'][name])}"))
        note_disk(effect)
    else:
        for name in ("removed", "restored"):
            found = [one for one in effect.get("adjustments", ()) if one["id"] in effect[name]]
            named = ", ".join(f"{one['id']} ({one['match']})" for one in found)
            say(clean(f"adjustments {name}: {named or '-'}"))
        matches = dict.fromkeys(one["match"] for one in effect["adjustments"])
        match = ", ".join(matches) if len(matches) <= _MOST_MATCHES else f"{len(matches):,} patterns"
        for line in changes(match, effect):
            say(line)
        tell_foreseen(match, effect)
    tell_end(effect)
