"""The outcome of an adjustment: spend and fetches of the queues that it matches since then, and those RETIRED.

They are those of the queues that match now; one whose next URI decides may have been another then.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from budgetfrontier.core.units import format_duration
from budgetfrontier.engine.commands import survey
from budgetfrontier.errors import FrontierError
from budgetfrontier.reports.format import counted
from budgetfrontier.settings.overrides import Override
from budgetfrontier.settings.sheets import concerned
from budgetfrontier.storage.records import AuditEntry
from budgetfrontier.storage.view import View


class AdjustmentOutcome(msgspec.Struct, kw_only=True):
    """The outcome of an adjustment so far; None for what was not counted when it was applied."""

    queues: int
    """The queues that it matches now."""
    seconds: float
    """The time since then."""
    spent: int | None
    """Their spend since then."""
    fetched: int | None
    """Their fetches that were charged since then."""
    retired: int
    """The number of those RETIRED now."""
    retired_again: int
    """The number of them that became RETIRED since then."""
    retired_before: int | None
    """The number of those RETIRED then."""


def outcome_of(view: View, entry: AuditEntry, now: float) -> AdjustmentOutcome | None:
    """Return what followed a change of the adjustments; None for another entry. O(queues), or O(queues named)."""
    then = entry.effect.get("then")
    override = _override(entry)
    if then is None or override is None:
        return None
    try:
        match, _ = concerned(view.settings()[0], view.adjustments(), override, view.grouping())
    except FrontierError:
        return None
    found, again = survey.standing(view, match, since=then["retired_upto"])
    spent, charges, retired = (then.get(name) for name in ("expenditure", "charges", "retired"))
    return AdjustmentOutcome(
        queues=found.queues,
        seconds=max(now - (entry.effect.get("as_of") or entry.when), 0.0),
        spent=None if spent is None else found.expenditure - spent,
        fetched=None if charges is None else found.charges - charges,
        retired=found.retired,
        retired_again=again,
        retired_before=retired,
    )


def _override(entry: AuditEntry) -> Override | None:
    """Return the adjustment that an entry has made, or taken back."""
    one: dict[str, Any] = entry.effect.get("withdrawn") or entry.args
    if entry.error or entry.command not in ("adjust", "withdraw"):
        return None
    return Override(one["match"], one["set"])


def summed(found: Iterable[AdjustmentOutcome]) -> AdjustmentOutcome:
    """Return the outcomes of an adjustment in partitions as that in the crawl."""
    parts = [msgspec.structs.asdict(one) for one in found]
    totals: dict[str, Any] = {name: _sum([part[name] for part in parts]) for name in parts[0] if name != "seconds"}
    return AdjustmentOutcome(**totals, seconds=max(part["seconds"] for part in parts))


def _sum(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def sentence(found: AdjustmentOutcome, effect: dict[str, Any]) -> str:
    """Return the outcome in words, beside the promised fetches and spend."""
    of, for_ = _in_words(promise_of(effect))
    parts = [f"in {format_duration(found.seconds)}"]
    if found.spent is None or found.fetched is None:
        parts.append("spend unknown: its queues were not counted when it was applied")
    else:
        parts += [f"fetched {found.fetched:,}{of}", f"spent {found.spent:,}{for_}"]
    was = "" if found.retired_before is None else f", {found.retired_before:,} before"
    parts.append(f"{found.retired:,} of {counted(found.queues, 'queue')} RETIRED{was}")
    if found.retired_again:
        parts.append(f"{found.retired_again:,} of these since")
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


def _in_words(found: AdjustmentPromise | None) -> tuple[str, str]:
    if found is None:
        return "", ""
    of = "" if found.is_of_all else f" for {counted(found.queues, 'queue')}"
    most = "without a maximum" if found.ceiling is None else f"at most {found.ceiling:,} once more came"
    return f" of {found.uris:,} promised{of}", f" of {found.spend:,} ({most})"
