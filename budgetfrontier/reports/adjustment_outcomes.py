"""The outcome of an adjustment, or of its undo: spend and fetches of the queues that it matches since then.

They are those of the queues that match now; one whose next URI decides may have been another then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

import msgspec

from budgetfrontier.core.units import say_duration
from budgetfrontier.engine.commands import survey
from budgetfrontier.engine.commands.survey import override_of
from budgetfrontier.errors import FrontierError
from budgetfrontier.reports.format import counted
from budgetfrontier.rules.undoing import ADJUSTING
from budgetfrontier.settings.matching import Match
from budgetfrontier.settings.sheets import concerned
from budgetfrontier.storage.records import AuditEntry
from budgetfrontier.storage.view import View

_Name = TypeVar("_Name", str, int | str)


class AdjustmentOutcome(msgspec.Struct, kw_only=True):
    """The outcome of an adjustment so far, or until it `ended`; None for what was not counted then."""

    queues: int
    """The queues that it matches now."""
    seconds: float
    """The time since then, or until the end."""
    spent: int | None
    """Their spend in that time."""
    fetched: int | None
    """Their fetches that were charged in that time."""
    retired: int | None
    """The number of those RETIRED now, or at the end."""
    retired_again: int | None
    """The number of them that became RETIRED since then; None if it ended."""
    retired_before: int | None
    """The number of those RETIRED then."""
    ended: str = ""
    """"undone", "taken back" or "replaced", if it is not in force any more."""
    ended_by: int | None = None
    """The audit entry of the command that ended it; None in partitions."""


def outcomes_of(view: View, entries: Mapping[_Name, AuditEntry], now: float) -> dict[_Name, AdjustmentOutcome]:
    """Return what followed those that changed the adjustments. O(queues) for each, or O(queues named); and O(audit)."""
    ends = _ends(view, list(entries.values()))
    found = {name: _outcome_of(view, entry, ends.get(entry.id), now) for name, entry in entries.items()}
    return {name: one for name, one in found.items() if one is not None}


def _outcome_of(view: View, entry: AuditEntry, end: AuditEntry | None, now: float) -> AdjustmentOutcome | None:
    then = entry.effect.get("then")
    match = _match_of(view, entry)
    if then is None or match is None:
        return None
    spent, charges, retired = (then.get(name) for name in ("expenditure", "charges", "retired"))
    began = entry.effect.get("as_of") or entry.when
    found, again = survey.standing(view, match, since=then["retired_upto"])
    if end is None:
        return AdjustmentOutcome(
            queues=found.queues,
            seconds=max(now - began, 0.0),
            spent=None if spent is None else found.expenditure - spent,
            fetched=None if charges is None else found.charges - charges,
            retired=found.retired,
            retired_again=again,
            retired_before=retired,
        )
    until = _kept_of(view, entry, end)
    return AdjustmentOutcome(
        queues=found.queues,
        seconds=max(end.when - began, 0.0),
        spent=_sum([until.get("expenditure"), None if spent is None else -spent]),
        fetched=_sum([until.get("charges"), None if charges is None else -charges]),
        retired=until.get("retired"),
        retired_again=None,
        retired_before=retired,
        ended={"undo": "undone", "withdraw": "taken back"}.get(end.command, "replaced"),
        ended_by=end.id,
    )


def standing_of(view: View, entry: AuditEntry) -> dict[str, int] | None:
    """Return what the queues of a change of the adjustments have come to; None for another entry. O(queues)."""
    match = _match_of(view, entry)
    return None if match is None else survey.standing(view, match, since=0)[0].then()


def _match_of(view: View, entry: AuditEntry) -> Match | None:
    override = override_of(view, entry)
    if override is None:
        return None
    try:
        return concerned(view.settings()[0], view.adjustments(), override, view.grouping())[0]
    except FrontierError:
        return None


def _ends(view: View, entries: list[AuditEntry]) -> dict[int, AuditEntry]:
    """Return by which entries changes have ended that are not in force: the newest that took them back. O(audit)."""
    in_force = {one.id for one in view.adjustments()}
    gone: dict[int, list[int]] = {}
    """The changes by the adjustments that they have put in force, and that are not any more."""
    back: dict[int, list[int]] = {}
    """The changes by the adjustments that they have taken out of those in force, and that are in force again."""
    for entry in entries:
        for number in _put_by(entry):
            if number not in in_force:
                gone.setdefault(number, []).append(entry.id)
        for number in _taken_by(entry):
            if number in in_force:
                back.setdefault(number, []).append(entry.id)
    found: dict[int, AuditEntry] = {}
    first = min(chain.from_iterable((*gone.values(), *back.values())), default=None)
    for later in view.newest_commands() if first is not None else ():
        if first is None or later.id <= first:
            break
        for ids, changes in ((_gone_by(later), gone), (_put_by(later), back)):
            for change in chain.from_iterable(changes.get(number, ()) for number in ids):
                if change < later.id:
                    found.setdefault(change, later)
    return found


def _put_by(entry: AuditEntry) -> list[int]:
    """Return the ids of the adjustments that a change of them has put in force."""
    if entry.command == "undo" and entry.effect.get("command") in ADJUSTING:
        return [*entry.effect.get("restored", ())]
    return [entry.id] if entry.command == "adjust" and not entry.error else []


def _taken_by(entry: AuditEntry) -> list[int]:
    """Return the ids of the adjustments that a change is there to take out of those in force."""
    if entry.command == "undo" and entry.effect.get("command") in ADJUSTING:
        return [*entry.effect.get("removed", ())]
    return [entry.effect["withdrawn"]["id"]] if entry.command == "withdraw" and not entry.error else []


def _gone_by(entry: AuditEntry) -> list[int]:
    """Return the ids of the adjustments that a command has taken out of those in force."""
    return [*_taken_by(entry), *(one["id"] for one in entry.effect.get("replaced", ()))]


def _kept_of(view: View, entry: AuditEntry, end: AuditEntry) -> dict[str, int]:
    """Return what an end has kept of the queues of a change; the undo of a list keeps it for each adjustment."""
    found: dict[str, int]
    if "then_of" in end.effect:
        found = end.effect["then_of"].get(str(entry.id), {})
    else:
        found = end.effect.get("then", {}) if _is_of_same(view, entry, end) else {}
    return found


def _is_of_same(view: View, entry: AuditEntry, end: AuditEntry) -> bool:
    """Return whether what an end has kept is of the queues that a change matches."""
    one, other = override_of(view, entry), override_of(view, end)
    return one is not None and other is not None and one.match == other.match


def summed(found: Iterable[AdjustmentOutcome]) -> AdjustmentOutcome:
    """Return the outcomes of an adjustment in partitions as that in the crawl."""
    parts = [msgspec.structs.asdict(one) for one in found]
    of_all = ("seconds", "ended", "ended_by")
    totals: dict[str, Any] = {name: _sum([part[name] for part in parts]) for name in parts[0] if name not in of_all}
    last = max(parts, key=itemgetter("seconds"))
    return AdjustmentOutcome(**totals, seconds=last["seconds"], ended=last["ended"])


def _sum(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def sentence(found: AdjustmentOutcome, effect: dict[str, Any]) -> str:
    """Return the outcome in words, beside the promised fetches and spend."""
    promise = promise_of(effect)
    ended = f", until it was {found.ended}" if found.ended else ""
    ended += f" by {found.ended_by}" if found.ended_by else ""
    parts = [f"in {say_duration(found.seconds)}{ended}"]
    if found.spent is None or found.fetched is None:
        when = "applied, or ended" if ended else "applied"
        parts.append(f"spend unknown: its queues were not counted when it was {when}")
    else:
        parts += _beside(found.fetched, found.spent, promise)
    was = "" if found.retired_before is None else f", {found.retired_before:,} before"
    since = f" ({found.retired_again:,} since then)" if found.retired_again else ""
    if found.retired is not None:
        parts.append(f"{found.retired:,} of {counted(found.queues, 'queue')} RETIRED{since}{was}")
    return ", ".join(parts)


class AdjustmentPromise(NamedTuple):
    """The URIs and the spend that an adjustment promised, of how many queues; `ceiling` None: without a maximum.

    They are those of the queues that it would revive or make eligible, and of the others with another budget.
    """

    queues: int
    uris: int
    spend: int
    ceiling: int | None
    is_of_all: bool
    """Whether these are all the queues that it matched."""


def promise_of(effect: dict[str, Any]) -> AdjustmentPromise | None:
    """Return what an adjustment with an effect promised; None if it promised nothing."""
    figures = effect.get("promised") or {}
    others = figures.get("others", {})
    promises = [
        (figures.get("revived_count", 0), figures),
        (figures.get("eligible_count", 0), figures.get("eligible_spend")),
        (others.get("queues", 0), others.get("after")),
    ]
    known = [(queues, spend) for queues, spend in promises if queues and spend]
    if not known:
        return None
    queues = sum(q for q, _ in known)
    uris, spend = (sum(one[name] for _, one in known) for name in ("uris", "spend"))
    return AdjustmentPromise(
        queues, uris, spend, _sum([one["ceiling"] for _, one in known]), queues == figures["matched"]
    )


def _beside(fetched: int, spent: int, promise: AdjustmentPromise | None) -> tuple[str, str]:
    """Return fetches and spend in words, beside the promised ones: of these, or more than these."""
    if promise is None:
        return f"fetched {fetched:,}", f"spent {spent:,}"
    of = "" if promise.is_of_all else f" for {counted(promise.queues, 'queue')}"
    most = "without a maximum" if promise.ceiling is None else f"up to {promise.ceiling:,} with URIs that come later"
    fetches = f"of the {promise.uris:,} promised" if fetched <= promise.uris else _where_promised(promise.uris)
    spend = f"of {promise.spend:,}" if spent <= promise.spend else _where_promised(promise.spend)
    return f"fetched {fetched:,} {fetches}{of}", f"spent {spent:,} {spend} ({most})"


def _where_promised(count: int) -> str:
    return f"where {counted(count, 'was', 'were')} promised"
