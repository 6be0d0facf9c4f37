"""How the pace of a drain depends on the hosts of its URIs: `python -m benchmarks.concentration` measures, and writes
`results/concentration-*`.

The same number of URIs is drained, without politeness, in batches of 64, with `finish_many` and with `finish` for each:
of 500 hosts in rotation, of hosts by Zipf's law, half of the URIs one host's, and of one host alone, of which each
batch has one URI. The drains run in turn, a leg each, so that whatever disturbs the machine disturbs all of them. The
figures are microseconds of processor time a URI, of the best leg, commits included, and the pace as a share of that of
the rotation.
"""

from __future__ import annotations

import random
import time
from itertools import accumulate
from pathlib import Path

from benchmarks import ours, script
from budgetfrontier import Frontier

COUNT = 60_000  # URIs of a leg
LEGS = 5
HOSTS = 500
BATCH = 64
EXPONENT = 1.73  # of Zipf's law: half of the URIs are of the first host
DRAINS = ("rotation", "zipf", "one host")
CALLS = ("finish_many", "finish")


def urls(drain: str, count: int) -> list[str]:
    """Return the URLs of a drain."""
    weights = list(accumulate((host + 1) ** -EXPONENT for host in range(HOSTS)))
    hosts: list[int] = {
        "rotation": [number % HOSTS for number in range(count)],
        "zipf": random.Random(1).choices(range(HOSTS), cum_weights=weights, k=count),
        "one host": [0] * count,
    }[drain]
    return [f"https://site{host}.example.com/section{n % 50}/page-{n}.html" for n, host in enumerate(hosts)]


def leg(drain: str, call: str, folder: Path, count: int) -> float:
    """Fill a frontier, and return the microseconds of processor time that a URI of its drain takes."""
    with Frontier.open(folder / f"{drain}-{call}-{time.monotonic_ns()}", ours.impatient()) as frontier:
        frontier.schedule_many(urls(drain, count))
        frontier.commit()
        done, start = 0, time.process_time()
        while leases := frontier.lease(BATCH):
            for lease in leases:
                assert lease.uri.url
            if call == "finish_many":
                frontier.finish_many(leases)
            else:
                for lease in leases:
                    frontier.finish(lease)
            done += len(leases)
        frontier.commit()
        taken = time.process_time() - start
    assert done == count, f"{done} of {count} URIs"
    return taken / count * 1e6


def run(folder: Path, count: int, legs: int = LEGS) -> dict[str, dict[str, float]]:
    """Return the microseconds of the best leg of each drain, by call."""
    found: dict[str, dict[str, float]] = {call: {} for call in CALLS}
    for _ in range(legs):
        for call in CALLS:
            for drain in DRAINS:
                taken = leg(drain, call, folder, count)
                found[call][drain] = min(taken, found[call].get(drain, taken))
    return found


def table(found: dict[str, dict[str, float]]) -> str:
    """Return the figures as a table in Markdown."""
    lines = ["| hosts | call | microseconds a URI | pace, of the rotation's |", "| --- |" + " --- |" * 3]
    for call, drains in found.items():
        for drain, taken in drains.items():
            lines.append(f"| {drain} | `{call}` | {taken:.2f} | {drains[DRAINS[0]] / taken:.2f} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, and write the results."""
    options = script.parse(script.parser("benchmarks.concentration", __doc__, scaled="the URIs"))
    about = script.describe(options)
    with script.temporary("concentration", options.folder) as room:
        found = run(room, int(COUNT * options.scale))
    record = script.record(about, measured=found)
    parts = [table(found), script.facts(about)]
    script.write("concentration", "Drains of few hosts", parts, record, options.results or script.RESULTS)


if __name__ == "__main__":
    main()
