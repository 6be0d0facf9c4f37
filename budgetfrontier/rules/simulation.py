"""Simulations: what one is asked, and what it returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

FINISHED, UNTIL, FETCHES, MAX_TIME = "finished", "until", "fetches", "max_time"
"""The ends of a simulation, beside the other limits of a crawl: its finish, or the time and the fetches it is for."""
CUT = frozenset({UNTIL, FETCHES})
"""The ends that are no end of the crawl, which would go on."""
DRAWS = 3
"""The number of simulations of a crawl, each with other draws, unless more or fewer are asked for."""
MOST_DRAWS = 100
"""The most simulations of a crawl that one request may be for: they follow each other."""
MOST_FETCHES = 5_000_000
"""The fetches after which a simulation ends, unless it is asked for more."""
MOST = 0.99
"""The share of the fetches that shows when a crawl is as good as done."""


class SimulationRequest(msgspec.Struct, kw_only=True):
    """The request of an operator: how a crawl goes on, and how it would with adjustments, if there are any."""

    changes: list[tuple[str, dict[str, Any]]] = []
    seconds: float | None = None
    """For how long; None: to its end."""
    fetchers: int | None = None
    """The most fetches at a time; None: as many as the settings say."""
    most: int = MOST_FETCHES
    seed: int = 0
    draws: int = DRAWS
    """The number of simulations, each with other draws: their differences show how much is chance."""
    memory: int | None = None
    """The most bytes of memory for copies of the frontier; None: half of what is available."""


class Question(msgspec.Struct, kw_only=True):
    """The terms of a simulation: a crawl from `start` (epoch seconds) on, with adjustments, until something ends it."""

    start: float
    fetchers: int
    """The most fetches at a time."""
    changes: list[tuple[str, dict[str, Any]]] = []
    """Adjustments: a pattern and settings each."""
    leases_held: bool = True
    """Whether the fetches in flight go on: else their leases are taken back first, as at a start of the crawl."""
    seconds: float | None = None
    """The seconds that it lasts at the most."""
    most: int = MOST_FETCHES
    seed: int = 0
    max_hops: int = -1
    """The most links between a seed and a URI; -1: no limit."""
    uris: float | None = None
    """The rest of the limits of the crawl: URIs, bytes, and seconds."""
    bytes: float | None = None
    time: float | None = None


class Step(msgspec.Struct, omit_defaults=True):
    """The progress of a simulation."""

    fetches: int = 0
    seconds: float = 0.0
    share: float = 0.0
    """The part of it that is done, about: URIs that will be found are not known before."""


class Simulated(msgspec.Struct, kw_only=True):
    """The result of a simulation."""

    ended_by: str
    """Its end: finished, until, fetches (`Question.most`), or the name of a limit of the crawl."""
    seconds: float
    fetches: int
    """Attempts that have ended."""
    unsure: int
    """The number of them that were drawn for hosts of which too little is known (`Behaviour.few`), and for those that
    have come to an end which their numbers do not show yet (`Behaviour.endless`)."""
    endless: int = 0
    """The number of them that were drawn for hosts with no end in sight (`Behaviour.endless`), and which hold URIs."""
    overloaded: int = 0
    """The number of them that were answered with 429 or 503, so that their hosts rested."""
    succeeded: int
    failed: int
    """Dead letters included."""
    disregarded: int
    spent: int
    discovered: int
    """URIs added to queues."""
    size: int
    queued: int
    """URIs that still wait at its end, RETIRED and INELIGIBLE queues aside."""
    future: int = 0
    """URIs that are scheduled for later at its end, those for RETIRED and INELIGIBLE queues included."""
    retired: int = 0
    stranded: int = 0
    """URIs in RETIRED queues."""
    starved: int = 0
    """Queues, RETIRED ones aside, that hold URIs, not only for later, and of which none was fetched."""
    most_after: float = 0.0
    """The seconds after which MOST of the fetches had ended: much fewer than all if the end hangs on few hosts."""
    new_hosts: bool = False
    """Whether hosts that nothing is known of yet are simulated: they are not."""
    elsewhere: float | None = None
    """The share of the new URIs of the crawl that were not on the host of their page; None if it is not known."""
    draws: list[tuple[float, int, str]] = []
    """The seconds, the fetches and the end of each simulation that this is the middle one of, by its seconds."""

    def plain(self) -> dict[str, Any]:
        """Return the figures as plain data."""
        return msgspec.structs.asdict(self)


def middle(simulated: Sequence[Simulated]) -> Simulated:
    """Return the simulation that ends in the middle of these, with the ends of all."""
    in_order = sorted(simulated, key=lambda one: (one.seconds, one.fetches))
    found = in_order[(len(in_order) - 1) // 2]
    found.draws = [(one.seconds, one.fetches, one.ended_by) for one in in_order]
    return found


def middles(drawn: Sequence[Sequence[Simulated]]) -> list[Simulated]:
    """Return the `middle` one for each question, from the simulations of each draw."""
    return [middle(of_question) for of_question in zip(*drawn, strict=True)]


def together(parts: Sequence[Simulated]) -> Simulated:
    """Return one simulation of each part of a crawl as one: their sums, and the end of the part that lasts longest."""
    longest = max(parts, key=lambda one: one.seconds)
    cut = next((one.ended_by for one in parts if one.ended_by in CUT), "")
    summed = {name: sum(getattr(one, name) for one in parts) for name in _SUMMED}
    links = [(one.elsewhere, one.discovered) for one in parts]
    shares = [share * found for share, found in links if share is not None]
    is_known, found = len(shares) == len(links), summed["discovered"]
    return msgspec.structs.replace(
        longest,
        **summed,
        ended_by=cut or longest.ended_by,
        most_after=max(one.most_after for one in parts),
        elsewhere=sum(shares) / found if is_known and found else None,
    )


_SUMMED = (
    "fetches", "unsure", "endless", "overloaded", "succeeded", "failed", "disregarded", "spent", "discovered", "size",
    "queued", "future", "retired", "stranded", "starved",
)  # fmt: skip
