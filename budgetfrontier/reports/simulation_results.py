"""The results of simulations for people: a table of both settings beside each other, and how sure they are."""

from __future__ import annotations

from collections.abc import Sequence

from budgetfrontier.core.units import describe_duration, format_size
from budgetfrontier.reports.format import percent
from budgetfrontier.rules.host_behaviour import FEW
from budgetfrontier.rules.simulation import FINISHED, MOST, UNTIL, Simulated

NO_SIMULATION = (
    "a crawl in partitions is simulated from its snapshots: give `simulate --cluster`, or the console that shows it, "
    "--config FILE with the configuration of its workers"
)
_HEADS = ("today's settings", "proposed")
_HELD = "RETIRED queues"
_ALIKE = 1.1  # times as long: ends of draws that hardly differ
_HANGS = 0.5  # the part of its time after which a simulation that hangs on few hosts has fetched nearly all
_COUNTS = (
    ("fetches", "fetches"),
    ("succeeded", "succeeded"),
    ("failed", "failed"),
    ("disregarded", "disregarded"),
    ("overloaded", "answers 429 and 503"),
    ("spent", "spent"),
    ("discovered", "URIs found"),
    ("queued", "URIs still queued"),
    ("future", "URIs for later"),
    ("retired", "retired queues"),
    ("stranded", "URIs in retired queues"),
    ("starved", "queues that had no turn"),
)


def table(found: Sequence[Simulated]) -> list[list[str]]:
    """Return rows, each with its name first; the first one has the heads."""
    rows = [["", *_HEADS[: len(found)]], ["ends after", *(describe_duration(one.seconds) for one in found)]]
    if (draws := len(found[0].draws)) > 1:
        rows.append([f"ends of {draws} draws", *map(_ends, found)])
        rows.append([f"fetches of {draws} draws", *map(_fetches, found)])
    rows.append([f"{MOST:.0%} of the fetches", *(describe_duration(one.most_after) for one in found)])
    rows.append(["ended by", *(_HELD if _is_held(one) else one.ended_by for one in found)])
    rows += [[name, *(f"{getattr(one, field):,}" for one in found)] for field, name in _COUNTS]
    rows.append(["downloaded", *(format_size(one.size) for one in found)])
    rows.append(["drawn from few fetches", *(percent(_share(one, one.unsure)) for one in found)])
    rows.append(["no end in sight", *(percent(_share(one, one.endless)) for one in found)])
    return rows


def _is_held(one: Simulated) -> bool:
    """Return whether budgets have ended it: URIs are left, all of them in RETIRED queues."""
    return one.ended_by == FINISHED and one.retired > 0 and one.stranded + one.future > 0


def _ends(one: Simulated) -> str:
    """Return the first and the last end of all draws."""
    ends = [seconds for seconds, *_ in one.draws]
    return _range(describe_duration(min(ends)), describe_duration(max(ends)))


def _fetches(one: Simulated) -> str:
    """Return the fewest and the most fetches of all draws."""
    fetches = [number for _, number, _ in one.draws]
    return _range(f"{min(fetches):,}", f"{max(fetches):,}")


def _range(first: str, last: str) -> str:
    return first if first == last else f"{first} to {last}"


def _share(one: Simulated, fetches: int) -> float:
    return fetches / (one.fetches or 1)


def doubts(found: Sequence[Simulated]) -> list[str]:
    """Return sentences on how sure results are: by chance, by what is known of hosts, and by what is left out."""
    sentences = []
    for head, one in zip(_HEADS, found, strict=False):
        whose = _whose(head)
        if len(one.draws) == 1:
            sentences.append(f"{whose}, it was simulated once: how much is chance does not show.")
        else:
            sentences.append(f"{whose}, the {len(one.draws)} draws {_by_chance(one)}.")
        if one.unsure:
            sentences.append(
                f"{whose}, {percent(_share(one, one.unsure))} of the fetches are of hosts of which too little is known"
                f": fewer than {FEW} attempts had ended before, or so few pages that led on that their end is a guess."
            )
        if one.endless:
            sentences.append(
                f"{whose}, {percent(_share(one, one.endless))} of the fetches are of hosts with no end in sight: their "
                "pages are drawn to lead on as they do now, until a budget or a limit holds them; when that stops, "
                "nobody can tell."
            )
        sentences += _rests(whose, one)
        if one.most_after < _HANGS * one.seconds:
            sentences.append(
                f"{whose}, {MOST:.0%} of the fetches have ended after {describe_duration(one.most_after)}: when the "
                "rest ends hangs on a few hosts."
            )
    return [*sentences, *filter(None, (new_hosts(found),))]


def rests(found: Sequence[Simulated]) -> list[str]:
    """Return the sentences on hosts that rest after answers 429 and 503, and how unsure the end is by that."""
    return [text for head, one in zip(_HEADS, found, strict=False) for text in _rests(_whose(head), one)]


def _rests(whose: str, one: Simulated) -> list[str]:
    if not one.overloaded:
        return []
    ends = ""
    if _ended_by(one) == {FINISHED}:
        ends = ": the end may be far from those of all draws, and rather later than earlier"
    return [
        f"{whose}, {percent(_share(one, one.overloaded))} of the fetches are answered with 429 or 503, as often as "
        f"until now, and their hosts rest{ends}; when a host recovers, or gets worse, nobody can tell."
    ]


def _ended_by(one: Simulated) -> set[str]:
    """Return the ends of all draws."""
    return {one.ended_by, *(ended_by for *_, ended_by in one.draws)}


def _whose(head: str) -> str:
    return f"With {head}" if head == _HEADS[0] else "As proposed"


def _by_chance(one: Simulated) -> str:
    """Return how the draws differ by chance: by their ends, or by their fetches if all are for the same time."""
    told, found = f"end after {_ends(one)}", sorted(seconds for seconds, *_ in one.draws)
    if _ended_by(one) == {UNTIL}:
        told, found = f"have {_fetches(one)} fetches", sorted(float(fetches) for _, fetches, _ in one.draws)
    if found[-1] <= _ALIKE * found[0]:
        return f"{told}: chance makes hardly a difference, as far as so few tell"
    if not found[0]:
        return f"{told}: chance decides"
    return f"{told}: the most is {found[-1] / found[0]:.1f} times the least, by chance, and others may differ more"


def new_hosts(found: Sequence[Simulated]) -> str:
    """Return the sentence on new hosts, which are not simulated, and how much that matters; "" if it does not."""
    elsewhere = found[0].elsewhere
    if elsewhere == 0.0:
        return ""
    known = "" if elsewhere is None else f"; {percent(elsewhere)} of them were on others until now"
    return f"New hosts are not simulated: new URIs are taken to be on the host of the page they are found on{known}."
