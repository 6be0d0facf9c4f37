"""Budgets against a spam farm: `python -m benchmarks.farm` simulates crawls, and writes `results/farm-*`.

A simulated web, the same for each policy, is crawled by the real engine with a clock that the simulation sets: pages
are made from a seed, and a fetch takes no time. Each second of that clock, fetchers lease as many URIs as they are. The
result is the share of the fetches that the farm got. Then crawls without budgets show how many queues `target_active:
auto` activates for how many fetchers. Figures depend on the seed alone, not on the machine.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import accumulate
from typing import Any
from zlib import crc32

from benchmarks import script, table
from budgetfrontier import Frontier, Settings
from budgetfrontier.testing import ManualClock

SEED = 20080421
HONEST = 90_000  # hosts, each a registered domain of its own
FARM = 10_000  # hosts
FARM_DOMAINS = 5
SEEDS = 1000  # the least popular honest hosts and the most popular ones, half of each
FETCHES = 60_000
FETCHERS = 64
POINTS = 50  # of each curve
SPAM = 0.01  # of honest pages, those with a link to the farm: comments
EPOCH = 120  # seconds of the simulated clock
STARVED = (8, 32, 128)  # fetchers
STARVED_FOR = 120  # seconds of the simulated clock


@dataclass(frozen=True)
class Web:
    """Hosts whose pages are made when they are asked for: popularity and sizes of honest hosts follow Zipf's law."""

    honest: int
    farm: int
    farm_domains: int

    @property
    def weights(self) -> list[float]:
        """Return the cumulated popularities of honest hosts."""
        return list(accumulate(1 / (host + 1) for host in range(self.honest)))

    def size(self, host: int) -> int:
        """Return the number of pages of an honest host."""
        return 20 + int(5000 / (host + 1) ** 0.5)

    def farm_page(self, draw: random.Random) -> str:
        """Return the URL of a page of the farm: any host answers, and any page is there."""
        host = draw.randrange(self.farm)
        return f"https://shop{host}.farm{host % self.farm_domains}.test/offer?id={draw.randrange(10**6)}"

    def seeds(self, number: int) -> list[str]:
        """Return the home pages with which a crawl begins."""
        half = min(number, self.honest) // 2
        return [honest_page(host, 0) for host in (*range(half), *range(self.honest - half, self.honest))]


def honest_page(host: int, page: int) -> str:
    """Return the URL of a page of an honest host."""
    return f"https://www.site{host}.test/page-{page}.html"


def is_farm(queue: str) -> bool:
    """Return whether a queue is a host of the farm."""
    return queue.startswith("shop")


def links(web: Web, weights: list[float], url: str) -> list[str]:
    """Return the links of a page: always the same ones."""
    draw = random.Random(crc32(url.encode()) ^ SEED)
    if url.startswith("https://shop"):
        popular = draw.choices(range(web.honest), cum_weights=weights, k=2)
        return [web.farm_page(draw) for _ in range(10)] + [honest_page(host, 0) for host in popular]
    host, page = (int("".join(filter(str.isdigit, part))) for part in url[8:].split("/"))
    found = [honest_page(host, n) for n in range(5 * page + 1, min(5 * page + 6, web.size(host)))]
    for other in draw.choices(range(web.honest), cum_weights=weights, k=4):
        found.append(honest_page(other, 0 if draw.random() < 0.7 else draw.randrange(20)))
    if draw.random() < SPAM:
        found.append(web.farm_page(draw))
    return found


_GROUP: dict[str, Any] = {"name": "domain", "by": "registered-domain"}
_TURNS: dict[str, Any] = {"hold_queues": False, "balance_replenish_amount": 10**9}
_STAR: dict[str, Any] = {"default_budget": 10, "max_budget": 1000, "top": 1000, "epoch": EPOCH}
POLICIES: dict[str, dict[str, Any]] = {
    "no budgets": {"frontier": _TURNS},
    "a total of 20 for each host": {"frontier": {**_TURNS, "queue_total_budget": 20}},
    "a total of 50 for each domain": {"frontier": _TURNS, "groups": [{**_GROUP, "total_budget": 50}]},
    "the same, cost policy wag": {
        "frontier": {**_TURNS, "cost_policy": "wag"},
        "groups": [{**_GROUP, "total_budget": 50}],
    },
    "star": {"frontier": {**_TURNS, "star": _STAR}, "groups": [{**_GROUP, "total_budget": "star"}]},
}
"""The settings of each policy. Queues take turns of one URI each, so that nothing but budgets limits the farm."""

FARMS = {"of 5 domains": FARM_DOMAINS, "of 10,000 domains": FARM}
"""The farm, and one whose hosts are all registered domains: the case that deceives budgets by domain and by links."""


def settings(policy: dict[str, Any]) -> Settings:
    """Return the settings of a crawl."""
    politeness = {"delay_factor": 0, "min_delay": 3, "max_delay": 3}
    frontier = {"politeness": politeness, "retire_when": "reached", "commit_interval": 3600} | policy["frontier"]
    return Settings.from_dict({"crawl": "farm", "groups": policy.get("groups", []), "frontier": frontier})


class Crawl:
    """A crawl of a web in memory, second by second of its own clock."""

    def __init__(self, web: Web, policy: dict[str, Any], seeds: int) -> None:
        self.web, self.weights = web, web.weights
        self.clock = ManualClock(1_000_000.0)
        self.frontier = Frontier.open(":memory:", settings(policy), clock=self.clock)
        self.frontier.schedule_many(web.seeds(seeds))
        self.fetched = self.of_farm = 0
        self.hosts: set[str] = set()

    def second(self, fetchers: int) -> int:
        """Fetch what can be fetched now; return the number of fetches."""
        leases = self.frontier.lease(fetchers)
        for lease in leases:
            self.of_farm += is_farm(lease.queue)
            if not is_farm(lease.queue):
                self.hosts.add(lease.queue)
            self.frontier.finish(lease, discovered=links(self.web, self.weights, lease.uri.url))
        self.fetched += len(leases)
        return len(leases)

    def wait(self) -> bool:
        """Let a second pass, or as long as nothing can be fetched; return whether there is more to fetch."""
        ready_in = self.frontier.next_ready_in()
        if ready_in is None:
            return False
        self.clock.advance(max(ready_in, 1.0))
        return True


def farm_share(web: Web, policy: dict[str, Any], fetches: int, seeds: int = SEEDS) -> dict[str, Any]:
    """Crawl until so many pages are fetched, or nothing may be; return the share of the farm, along the way too."""
    crawl = Crawl(web, policy, seeds)
    curve: list[list[int]] = []
    with crawl.frontier:
        while crawl.fetched < fetches:
            crawl.second(min(FETCHERS, fetches - crawl.fetched))
            if crawl.fetched >= fetches * (len(curve) + 1) // POINTS:
                curve.append([crawl.fetched, crawl.of_farm])
            if not crawl.wait():
                break
        crawl.frontier.check()
    return {
        "fetches": crawl.fetched,
        "farm": crawl.of_farm,
        "share": round(crawl.of_farm / max(crawl.fetched, 1), 5),
        "honest_hosts": len(crawl.hosts),
        "seconds": round(crawl.clock.time() - 1_000_000.0),
        "curve": curve,
    }


def starving(web: Web, fetchers: int, seconds: int, target: int | str = "auto", seeds: int = SEEDS) -> dict[str, Any]:
    """Crawl without budgets; return how many queues were active, and how often more were activated for no need.

    Before each lease, queues that are due become READY; fetchers starve if they are more than these.
    """
    crawl = Crawl(web, {"frontier": {"target_active": target, "balance_replenish_amount": 10**9}}, seeds)
    most = starved = needless = 0
    with crawl.frontier as frontier:
        for _ in range(seconds):
            frontier.lease(0)
            before = frontier.summary().queues
            crawl.second(fetchers)
            after = frontier.summary().queues
            grown = _active(after) + after["EXHAUSTED"] - _active(before) - before["EXHAUSTED"]
            starved += before["READY"] < fetchers
            needless += grown > 0 and before["READY"] >= fetchers
            most = max(most, _active(after))
            if not crawl.wait():
                break
        known = sum(frontier.summary().queues.values())
    return {
        "fetchers": fetchers,
        "target_active": target,
        "fetches": crawl.fetched,
        "seconds": seconds,
        "active": most,
        "hosts": known,
        "starved": starved,
        "needless": needless,
    }


def _active(states: dict[str, int]) -> int:
    return states["READY"] + states["IN_PROCESS"] + states["SNOOZED"]


def run(honest: int, farm: int, fetches: int, seeds: int) -> list[dict[str, Any]]:
    """Return the result of each policy on the web with each of the farms."""
    found = []
    for kind, domains in FARMS.items():
        web = Web(honest, farm, min(domains, farm))
        for name, policy in POLICIES.items():
            found.append({"farm_kind": kind, "policy": name} | farm_share(web, policy, fetches, seeds))
    return found


def shares(results: list[dict[str, Any]]) -> str:
    """Return the table of the shares of the farms."""
    lines = [["policy", "farm", "fetches", "of the farm", "share", "honest hosts"]]
    for one in results:
        counts = (f"{one[name]:,}" for name in ("fetches", "farm"))
        lines.append([one["policy"], one["farm_kind"], *counts, f"{one['share']:.2%}", f"{one['honest_hosts']:,}"])
    return table.grid(lines)


def activity(results: list[dict[str, Any]]) -> str:
    """Return the table of the queues that were active."""
    names = ("fetchers", "target_active", "fetches", "active", "hosts", "starved", "needless")
    titles = ["fetchers", "`target_active`", "fetches", "most active", "hosts known", "seconds starved", "needless"]
    return table.grid([titles, *([f"{one[name]:,}" if name != "target_active" else str(one[name]) for name in names]
                                 for one in results)])  # fmt: skip


def main() -> None:
    """Simulate, and write the results."""
    options = script.parse(script.parser("benchmarks.farm", __doc__, scaled="the web and the fetches"))
    about = script.describe(options)
    scale = options.scale
    found = run(int(HONEST * scale), int(FARM * scale), int(FETCHES * scale), int(SEEDS * scale))
    web = Web(int(HONEST * scale), int(FARM * scale), FARM_DOMAINS)
    asked = [(fetchers, "auto") for fetchers in STARVED] + [(STARVED[0], 500)]
    active = [starving(web, fetchers, STARVED_FOR, target, int(SEEDS * scale)) for fetchers, target in asked]
    record = script.record(about, seed=SEED, farms=found, active=active)
    parts = [shares(found), activity(active), script.facts(about)]
    script.write("farm", "Budgets against a spam farm", parts, record, options.results or script.RESULTS)


if __name__ == "__main__":
    main()
