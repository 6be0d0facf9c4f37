"""Printing adjustments, and which queues a change of them concerns."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from budgetfrontier.core.units import format_time
from budgetfrontier.reports.format import clean, counted, setting_in_words
from budgetfrontier.tools.cli import common
from budgetfrontier.tools.cli.sentences import note, say, tell_end

if TYPE_CHECKING:
    from budgetfrontier.reports.operators import AdjustmentRow, CrawlOperator

_MOST_GROUPS = 10  # that are printed as text
_MOST_NAMES = 20
MANY = 200_000
"""Queues from which on it is said that they are looked at, which takes seconds."""


COLUMNS = ("id", "match", "set", "who", "when", "reason")


def write_list(args: argparse.Namespace, found: Iterable[AdjustmentRow]) -> None:
    """Print the adjustments in force, in the order in which they apply, each with who has made it, when and why."""
    when = format_time if args.format == "text" else float
    rows = (
        (
            one.id,
            one.match,
            one.set,
            one.entry and one.entry.who,
            one.entry and when(one.entry.when),
            one.entry and one.entry.reason,
        )
        for one in found
    )
    common.write_rows(args, rows, COLUMNS, drop=("reason", "when", "who"))


def match_of(operator: CrawlOperator, name: int | str) -> str:
    """Return the pattern of the adjustment with an id; "" if it is not in force, and so cannot be withdrawn."""
    return next((one.match for one in operator.adjustments() if str(one.id) == str(name)), "")


def announce(operator: CrawlOperator, match: str) -> None:
    """Say that many queues are compared with a pattern, if they are."""
    from budgetfrontier.settings.matching import parse_match

    if match and not parse_match(match).keys:
        announce_pass(match, operator)


def announce_pass(compared_with: str, *crawls: CrawlOperator) -> None:
    """Say that many queues are compared with something, if crawls have many."""
    queues = sum(crawl.queue_count() for crawl in crawls)
    if queues >= MANY:
        note(f"comparing {counted(queues, 'queue')} with {clean(compared_with)} ...")


def print_effect(args: argparse.Namespace, match: str, details: dict[str, Any], effect: dict[str, Any]) -> None:
    """Print the effect of a change of the adjustments, or of its dry run."""
    common.warn(map(clean, effect.get("warnings", ())))
    if args.format == "json":
        print_json(args, details, effect)
        return
    if details.get("set", {}).get("quotas.force_retire") is False:
        say("URIs over a quota will be disregarded on their turn, and no `undo` brings them back")
    matched = effect["matched"]
    of_nothing = match.startswith("sheet:") and matched == 0
    for line in [f"{clean(match)}: {settings_of(details)}"] if of_nothing else changes(match, effect):
        say(line)
    if not args.dry_run:
        if matched or of_nothing:
            say(_matched(effect, match))
        _name_unknown(effect.get("unknown", ()) if matched else ())
        for one in effect.get("replaced", ()):
            say(f"replaces adjustment {one['id']}: {settings_of(one)}")
        verb = "is" if effect["reconsidered_count"] == 1 else "are"
        say(f"{counted(effect['reconsidered_count'], 'retired queue')} {verb} reconsidered")
        if waiting := effect.get("regraded_count"):
            verb = "is" if waiting == 1 else "are"
            say(f"{counted(waiting, 'queue that waits', 'queues that wait')} {verb} compared with the precedence floor")
        for line in of_windows(effect.get("promised", {})):
            say(line)
        return
    tell_foreseen(match, effect)
    tell_end(effect)


def tell_foreseen(match: str, effect: dict[str, Any]) -> None:
    """Print the queues that a change of the adjustments would match, and what would become of them."""
    say(_matched(effect, match))
    if effect["matched"]:
        _name_unknown(effect.get("unknown", ()))
        if effect["by_next_uri"]:
            say("each queue counts by its next URI; those behind it may match otherwise")
    for line in _outcome(effect):
        say(line)


def print_json(args: argparse.Namespace, details: dict[str, Any], effect: dict[str, Any]) -> None:
    """Print an adjustment, and the effect of it or of its dry run, as far as that is known."""
    json.dump(details | {"dry_run": args.dry_run} | effect, sys.stdout, indent=1)
    sys.stdout.write("\n")


def _name_unknown(keys: Sequence[str]) -> None:
    """Print the keys without a queue, at most 20."""
    if keys:
        more = f", ...and {len(keys) - _MOST_NAMES:,} more" if len(keys) > _MOST_NAMES else ""
        named = ", ".join(map(clean, keys[:_MOST_NAMES]))
        say(f"no queue yet: {named}{more}; check the spelling (it counts for queues that come later)")


def settings_of(adjustment: dict[str, Any]) -> str:
    """Return the settings of an adjustment as text."""
    return clean(", ".join(f"{name} {setting_in_words(name, value)}" for name, value in adjustment["set"].items()))


def changes(match: str, effect: dict[str, Any]) -> Iterator[str]:
    """Yield the values before and after, for each group of queues with equal ones."""
    match, groups = clean(match), effect["groups"]
    if not effect["after"]:
        return  # a sheet without values
    if len(groups) < 2:
        yield f"{match}: {_values(effect)}"
        return
    for group in groups[:_MOST_GROUPS]:
        yield f"{match}: {_values(group)}: {counted(group['queues'], 'queue')}"
    rest = effect["ungrouped"] + sum(group["queues"] for group in groups[_MOST_GROUPS:])
    if rest:
        yield f"{match}: other values before: {counted(rest, 'queue')}"


def _values(group: dict[str, Any]) -> str:
    """Format values before and after; one that is not known, or not the same for all, is left out."""
    parts = []
    for name, after in group["after"].items():
        before = group["before"][name]
        shown = "?" if after is None else setting_in_words(name, after)
        parts.append(f"{name}{'' if before is None else f' {setting_in_words(name, before)}'} -> {shown}")
    return ", ".join(parts)


def _outcome(effect: dict[str, Any]) -> Iterator[str]:
    """Yield the queues that would retire and revive, and the spend allowed."""
    budget = "budget or quota" if effect.get("quotas") else "budget"
    yield f"would revive {_named(effect, 'revived')}"
    if effect["revived_count"]:
        yield f"  would fetch {_spend(effect)}"
    yield f"would retire {_named(effect, 'retired')}"
    if effect["ineligible_count"]:
        yield f"would become INELIGIBLE, at the precedence floor: {_named(effect, 'ineligible')}"
    if effect["eligible_count"]:
        yield f"would be INELIGIBLE no more: {_named(effect, 'eligible')}"
        yield f"  would fetch {_spend(effect['eligible_spend'])}"
    if effect["still_over"]:
        again = f"{counted(effect['still_over'], 'queue')}; they retire again on their turn"
        yield f"over {budget} before and after: {again}"
    yield from of_windows(effect, "would be ")
    if effect["by_name"]:
        yield f"retired by an operator, and stay so: {counted(effect['by_name'], 'queue')}"
    others = effect["others"]
    if others["queues"]:
        those = "; those that would retire are among them" if effect["retired_count"] else ""
        yield f"not retired now, with another {budget}: {counted(others['queues'], 'queue')}{those}"
        yield f"  would fetch {_spend(others['after'])}"
        yield f"  without the change: {_spend(others['before'])}"
    if effect.get("quotas") and (effect["revived_count"] or others["queues"]):
        yield "what is left of quotas is not considered: they may end queues before these have spent that"
    if disregarded := effect.get("disregarded"):
        verb = "is" if disregarded == 1 else "are"
        yield f"of what they hold, {counted(disregarded, 'URI')} {verb} out of the scope: disregarded, and not charged"
    if unknown := effect.get("scope_unknown"):
        yield f"the scope is not known here ({clean(unknown)}): what a crawler would disregard is counted as fetched"


def of_windows(effect: dict[str, Any], would: str = "") -> Iterator[str]:
    """Yield the queues that a change puts outside their crawl windows, or leaves there no more, or `would` do so."""
    closed, still, opened = (effect.get(name, 0) for name in ("closed_count", "still_closed", "opened_count"))
    if closed or still:
        before = f"; {still:,} of them as before" if still else ""
        yield f"{would}outside their crawl windows now: {counted(closed + still, 'queue')}{before}"
    if opened:
        yield f"{would}outside their crawl windows no more: {counted(opened, 'queue')}"


def _spend(spend: dict[str, Any]) -> str:
    """Format the share of their URIs that queues hand out, and their spend on it and at most."""
    ceiling = "without maximum" if spend["ceiling"] is None else f"at most {spend['ceiling']:,}"
    return f"{spend['uris']:,} of the URIs they hold now and spend {spend['spend']:,}, {ceiling} once more come"


def note_no_match(match: str) -> None:
    """Say that a pattern matches no queue."""
    from budgetfrontier.reports.operators import matches_nothing

    note(matches_nothing(match))


def _matched(effect: dict[str, Any], match: str) -> str:
    from budgetfrontier.reports.operators import no_match

    if effect.get("missing_partitions"):
        return f"matches {counted(effect['matched'], 'queue')} of the partitions that answer"
    return f"matches {counted(effect['matched'], 'queue')}" if effect["matched"] else no_match(match)


def _named(effect: dict[str, Any], what: str) -> str:
    """Format how many queues are affected, and their keys, at most 20."""
    return named_keys(effect[f"{what}_count"], effect[what])


def named_keys(count: int, names: Sequence[str]) -> str:
    """Format a number of queues, and their keys, at most 20."""
    names = names[:_MOST_NAMES]
    more = f", ...and {count - len(names):,} more" if count > len(names) else ""
    return counted(count, "queue") + (f": {', '.join(map(clean, names))}{more}" if names else "")
