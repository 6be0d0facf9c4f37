"""The simulation of a job with changed settings, beside one with the settings in force."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from functools import partial

from msgspec.structs import replace

from budgetfrontier.core.model import CrawlState
from budgetfrontier.core.units import format_size
from budgetfrontier.engine.remote import describe_progress
from budgetfrontier.errors import FrontierError
from budgetfrontier.reports.over_time import limits_left
from budgetfrontier.reports.scope_check import has_scope
from budgetfrontier.rules.crawl_states import FINISH
from budgetfrontier.rules.simulation import Question, Simulated, SimulationRequest, Step, middles
from budgetfrontier.rules.verdict import GONE, are_leases_held
from budgetfrontier.settings import delay_conflicts
from budgetfrontier.settings.schema import Override
from budgetfrontier.storage import keys
from budgetfrontier.storage.process import process
from budgetfrontier.storage.reader import Reader
from budgetfrontier.tools.simulation.copies import copied, place, remove_abandoned
from budgetfrontier.tools.simulation.simulation_process import Steps
from budgetfrontier.tools.simulation.simulation_process import simulate as simulate_all

OVER = "this crawl was terminated, for good: it hands out nothing ever again"
NO_HISTORY = (
    "nothing is known of fetches in this crawl: its interface says nothing but that they ended. All of them are taken "
    "for successes of a second, without links"
)
NO_FETCHES = "nothing was fetched in this crawl so far: all fetches are taken for successes of a second, without links"


def simulate(
    reader: Reader,
    asked: SimulationRequest,
    say: Callable[[str], object],
    steps: Steps,
) -> list[Simulated]:
    """Simulate on copies of a frontier: with today's settings, and with the changes if there are any.

    All draws begin as the frontier was at one commit.
    """
    return middles(draws(reader, asked, say, steps))


def draws(
    reader: Reader, asked: SimulationRequest, say: Callable[[str], object], steps: Steps
) -> list[list[Simulated]]:
    """Return the simulations of each draw, which `simulate` returns the middle ones of."""
    with reader.view() as view:
        counters, (settings, adjustments) = view.counters(), view.settings()
        left = {name: limit.left for name, limit in limits_left(view, reader.path, time.time()).items()}
        is_known = view.size(keys.HISTORY) > 0
        scoped, begun = has_scope(view), view.in_progress()
        leases_held = are_leases_held(process(view, reader.path))
    size = reader.space().used
    if counters.state is CrawlState.TERMINATED:
        raise FrontierError(OVER)
    if counters.state in (CrawlState.PAUSED, CrawlState.PAUSING) and counters.pause_reason != FINISH:
        say("the crawl is paused; it is simulated as if it was resumed now")
    if begun is not None:
        say(f"{describe_progress(*begun)}; it is simulated as done")
    if counters.leases and not leases_held:
        say(f"URIs out: {counters.leases:,}, with {GONE}, and so does the simulation")
    if not is_known:
        say(NO_HISTORY if counters.succeeded + counters.failed + counters.retried else NO_FETCHES)
    after = [*adjustments, *(Override(match, values) for match, values in asked.changes)]
    for warning in delay_conflicts.of_change(settings, adjustments, after):
        say(warning)
    today = Question(
        start=time.time(),
        leases_held=leases_held,
        fetchers=asked.fetchers or settings.fetch.concurrency,
        seconds=asked.seconds,
        most=asked.most,
        max_hops=settings.scope.max_hops if scoped else -1,
        uris=left.get("max_uris"),
        bytes=left.get("max_bytes"),
        time=left.get("max_time"),
    )
    questions = [today] + [replace(today, changes=asked.changes)] * bool(asked.changes)
    remove_abandoned()
    where = place(size, len(questions), memory=asked.memory)
    say(
        f"simulated on a copy of {format_size(size)} in {where.folder}, which has {format_size(where.free)}; up to "
        f"{format_size(where.needed)} may be needed"
    )
    drawn = []
    with copied(partial(reader.backup, bare=True), 1, where.folder) as (first,):
        for number in range(asked.draws):
            with copied(partial(shutil.copytree, first), len(questions), where.folder) as folders:
                seeded = [replace(question, seed=asked.seed + number) for question in questions]
                of_all = partial(part_of_all, steps, number, asked.draws)
                drawn.append(simulate_all(list(zip(folders, seeded, strict=True)), of_all))
    return drawn


def part_of_all(steps: Steps, before: int, parts: int, done: Sequence[Step]) -> None:
    """Pass on how far simulations are that are one of several equal parts, after so many before it."""
    steps([replace(step, share=(before + step.share) / parts) for step in done])
