"""The totals of a frontier as pages show them: the few that matter, attempts and spend by outcome, and refusals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from budgetfrontier.core.model import Outcome, Summary, Tally
from budgetfrontier.core.units import format_size
from budgetfrontier.reports.format import counted
from budgetfrontier.rules import admission_limits


class OutcomeTotals(NamedTuple):
    """The attempts that ended with one outcome, or additional charges."""

    name: str
    attempts: int | None
    share: float | None
    """Of the attempts that fetched something, or tried to."""
    spent: int
    note: str = ""


def tiles(totals: Summary) -> list[tuple[str, str]]:
    """Return the totals that matter most, each with its title."""
    counts = {
        "queued": totals.queued,
        "in process": totals.in_process,
        "for later": totals.future,
        "discovered": totals.scheduled,
        "succeeded": totals.succeeded,
        "failed": totals.failed,
        "retried": totals.retried,
        "disregarded": totals.disregarded,
        "deferred": totals.deferred,
        "duplicates": totals.duplicates,
        "refused": totals.full + totals.invalid,
        "dead letters": totals.dead,
        "seen": totals.seen,
        "spent": totals.expenditure,
    }
    return [*((name, f"{count:,}") for name, count in counts.items()), ("bytes", format_size(totals.bytes))]


def by_outcome(totals: Summary) -> Iterator[OutcomeTotals]:
    """Yield attempts and spend by outcome, and additional charges."""
    tried = totals.succeeded + totals.failed + totals.retried + totals.given_up

    def ended(outcome: Outcome, attempts: int, spent: int, note: str = "") -> OutcomeTotals:
        return OutcomeTotals(outcome, attempts, attempts / tried if tried else None, spent, note)

    penalties = f"{totals.penalties:,} of it penalties" if totals.penalties else ""
    yield ended(Outcome.SUCCESS, totals.succeeded, totals.succeeded_expenditure)
    yield ended(Outcome.FAILURE, totals.failed, totals.failed_expenditure, penalties)
    yield ended(Outcome.RETRY, totals.retried, totals.retried_expenditure)
    dead = f"{counted(totals.buried, 'dead letter')} ever made, {totals.dead:,} there now" if totals.buried else ""
    yield ended(Outcome.DEAD, totals.given_up, totals.given_up_expenditure, dead)
    yield OutcomeTotals(Outcome.DISREGARDED, totals.disregarded, None, 0, denials(totals))
    yield OutcomeTotals(Outcome.DEFERRED, totals.deferred, None, 0)
    if totals.expired:
        yield OutcomeTotals("no outcome", totals.expired, None, 0, "the lease expired, or the process died")
    if totals.other_expenditure:
        yield OutcomeTotals("other spend", None, None, totals.other_expenditure, "URIs marked as seen")


def denials(totals: Summary) -> str:
    """Return how many URIs robots.txt and quotas have denied; "" if they have denied none."""
    counts = (totals.robots_denials, "robots.txt"), (totals.quota_denials, "quotas")
    return ", ".join(f"{count:,} by {cause}" for count, cause in counts if count)


def refusals(totals: Summary) -> list[tuple[str, int]]:
    """Return how often URIs were refused, by reason, the most frequent first; INVALID ones have their slugs."""
    full = [(f"FULL by {limit}", count) for limit, count in totals.full_reasons.items()]
    return sorted([*totals.invalid_reasons.items(), *full], key=lambda item: -item[1])


def refused_line(totals: Summary) -> str:
    """Return how many URIs were refused, and why, for a line of a summary; "" if none were."""
    if not totals.full + totals.invalid:
        return ""
    reasons = ", ".join(f"{reason}: {count:,}" for reason, count in refusals(totals)[:_REASONS])
    more = ", ..." if len(refusals(totals)) > _REASONS else ""
    return f"{totals.full + totals.invalid:,} refused ({reasons}{more})"


def refused_in(tally: Tally) -> dict[str, str]:
    """Return how many URIs of a tally were FULL and INVALID, and why, as in `full 3 (max_queued 3)`, by these names."""
    named = zip((("full", tally.full), ("invalid", tally.invalid)), reasons_of(tally), strict=True)
    return {name: f"{name} {total:,}{_why(reasons)}" for (name, total), reasons in named}


def _why(reasons: list[tuple[str, int]]) -> str:
    return f" ({', '.join(f'{reason} {count:,}' for reason, count in reasons)})" if reasons else ""


def reasons_of(tally: Tally) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """Return for which limits URIs of a tally were FULL, and for which reasons INVALID, each with its number."""
    found = sorted(tally.reasons.items())
    full = [one for one in found if one[0] in admission_limits.LIMITS]
    return full, [one for one in found if one not in full]


_REASONS = 5
