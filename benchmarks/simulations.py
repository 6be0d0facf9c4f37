"""How well simulations foresee crawls, and how fast they are: `python -m benchmarks.simulations`.

Each of fifteen synthetic webs is crawled by the engine in virtual time, to a quarter of the time that it takes. The
frontier is copied there and simulated, and the crawl goes on to its end: the two are compared from there on. Then
simulations of a frontier of many hosts are timed. The results are written to `results/simulations-*`.
"""

from __future__ import annotations

import shutil
import time
from itertools import product
from pathlib import Path
from typing import NamedTuple

from benchmarks import script
from benchmarks.synthetic_webs import FETCHERS, START, Crawl, Web, begin, webs
from budgetfrontier import Frontier, Settings
from budgetfrontier.clock import ManualClock
from budgetfrontier.core.model import Finish, Lease
from budgetfrontier.rules.simulation import Question
from budgetfrontier.tools.simulation.simulated_crawl import SimulatedCrawl

SHARE = 0.25
"""The part of the time of a crawl that has passed when it is simulated."""
NEAR = 0.15
"""The difference up to which a simulated end counts as right."""
TIMED = 300_000
"""The fetches of the simulations that are timed."""


class Outcome(NamedTuple):
    """What has become of a web from the copy on, and what the simulation has said."""

    web: str
    before: int
    """The fetches before the copy."""
    seconds: float
    said_seconds: float
    fetches: int
    said_fetches: int
    spent: int
    said_spent: int
    retired: int
    said_retired: int

    @property
    def off(self) -> float:
        """By which part the simulated end is off."""
        return self.said_seconds / self.seconds - 1

    @property
    def fetches_off(self) -> float:
        """By which part the simulated number of fetches is off."""
        return self.said_fetches / self.fetches - 1


def foreseen(web: Web, folder: Path, *, share: float = SHARE, seed: int = 0) -> Outcome:
    """Crawl a web and simulate it from a part of its time on; return both."""
    settings = Settings.from_dict({"crawl": "web", "frontier": web.frontier})
    clock = ManualClock(START)
    with Frontier.open(folder / "whole", settings, clock=clock) as frontier:
        begin(web, frontier)
        Crawl(web, frontier, clock).run()
    whole, clock = clock.time() - START, ManualClock(START)
    with Frontier.open(folder / "crawled", settings, clock=clock) as frontier:
        begin(web, frontier)
        crawl = Crawl(web, frontier, clock)
        crawl.run(START + share * whole)
        frontier.commit()
        now, before, done = clock.time(), frontier.summary(), crawl.fetches
        copied = folder / "copied"
        copied.mkdir()
        shutil.copyfile(folder / "crawled" / "data.mdb", copied / "data.mdb")
        crawl.run()
        after, end = frontier.summary(), clock.time()
    question = Question(start=now, fetchers=FETCHERS, seed=seed, most=20 * crawl.fetches)
    said = SimulatedCrawl(copied, question).run(lambda step: None)
    return Outcome(
        web.name,
        done,
        end - now,
        said.seconds,
        crawl.fetches - done,
        said.fetches,
        after.expenditure - before.expenditure,
        said.spent,
        after.queues["RETIRED"],
        said.retired,
    )


class Rate(NamedTuple):
    """The URIs a second of processor time that a simulation fetches, and finds."""

    fetched: float
    found: float


def rate(folder: Path, fetchers: int, fetches: int, *, found: int) -> Rate:
    """Return the rate of a simulation of hosts with `found` new links on each page."""
    clock, hosts = ManualClock(START), max(fetches // 150, 10)
    with Frontier.open(folder, {"frontier": {"balance_replenish_amount": 300}}, clock=clock) as frontier:
        frontier.schedule_many(f"https://host{host}.test/p{page}" for page in range(100) for host in range(hosts))
        for _ in range(20):
            leases = frontier.lease(hosts)
            frontier.finish_many([_fetched(lease, found) for lease in leases])
            clock.advance(60.0)
    simulated = SimulatedCrawl(folder, Question(start=clock.time(), fetchers=fetchers, most=fetches))
    began = time.process_time()
    said = simulated.run(lambda step: None)
    taken = time.process_time() - began
    return Rate(said.fetches / taken, said.discovered / taken)


def _fetched(lease: Lease, found: int) -> Finish:
    links = [f"{lease.uri.url}/{number}" for number in range(found)]
    return Finish(lease, fetch_seconds=0.5, size=20_000, discovered=links)


def table(found: list[Outcome]) -> str:
    """Return the outcomes as a table in Markdown."""
    rows = [
        "| web | fetches before | then it took | simulated | off | fetches | simulated | off | spent | simulated | "
        "retired | simulated |",
        "| --- |" + " --- |" * 11,
    ]
    for one in found:
        figures = (
            f"{one.before:,}",
            f"{one.seconds:,.0f} s",
            f"{one.said_seconds:,.0f} s",
            f"{one.off:+.0%}",
            f"{one.fetches:,}",
            f"{one.said_fetches:,}",
            f"{one.fetches_off:+.0%}",
            f"{one.spent:,}",
            f"{one.said_spent:,}",
            f"{one.retired:,}",
            f"{one.said_retired:,}",
        )
        rows.append(f"| {one.web} | {' | '.join(figures)} |")
    near = sum(abs(one.off) <= NEAR for one in found)
    return "\n".join(rows) + f"\n\nThe simulated end is within {NEAR:.0%} for {near} of {len(found)}."


def main() -> None:
    """Measure, and write the results."""
    parser = script.parser("benchmarks.simulations", __doc__, scaled="the hosts of each web")
    parser.add_argument("--seed", type=int, default=1, help="other webs of the same shapes (default: 1)")
    parser.add_argument("--no-rates", action="store_true", help="do not time simulations")
    options = script.parse(parser)
    about = script.describe(options)
    found, rates = [], dict[str, Rate]()
    for web in webs(options.scale, seed=options.seed):
        with script.temporary("simulations", options.folder) as folder:
            found.append(foreseen(web, folder))
        print(table(found[-1:]).splitlines()[2])
    for fetchers, links in () if options.no_rates else product((32, 500), (0, 1, 5)):
        with script.temporary("simulations", options.folder) as folder:
            name = f"{fetchers} fetchers, {links} new links a page"
            rates[name] = rate(folder / "frontier", fetchers, int(TIMED * options.scale), found=links)
    timed = [f"| {name} | {one.fetched:,.0f} | {one.found:,.0f} | {sum(one):,.0f} |" for name, one in rates.items()]
    heads = ["| simulated, a second of processor time | fetched | found | URIs |", "| --- | --- | --- | --- |"]
    parts = [table(found), "\n".join([*heads, *timed])]
    record = script.record(
        about, webs=[one._asdict() for one in found], rates={name: one._asdict() for name, one in rates.items()}
    )
    results = options.results or (script.RESULTS if options.scale == 1 and options.seed == 1 else None)
    script.write("simulations", "Simulations", [*parts[: 1 + bool(rates)], script.facts(about)], record, results)


if __name__ == "__main__":
    main()
