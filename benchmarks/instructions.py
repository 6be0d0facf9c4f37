"""Instructions per URI, counted by callgrind: `python -m benchmarks.instructions` (or `make instructions`).

Wall times are noisy, instructions are not. Each workload runs twice in processes of their own, over a copy of the same
prepared frontier, the second time with twice as many URIs: the difference is what those cost, without the start of the
interpreter. The URLs that are scheduled are made before, as many in both runs, so that they cost nothing. Commits are
included: one every COMMIT operations, since under callgrind the clock would make hundreds. Hosts are *cold* where the
caches have room for so few that none is in memory when it comes again, as in a crawl of millions of hosts.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

from benchmarks import ours, script
from benchmarks.streams import Pages
from budgetfrontier import CrawlUri, Finish, Frontier, Lease
from budgetfrontier.engine import pending, queue_cache
from budgetfrontier.engine.admission import candidates, seen
from budgetfrontier.testing import ManualClock

HERE = Path(__file__).parent

COUNT = 8000  # URIs of the shorter run
PENDING = 24_000  # of the prepared frontiers
HOSTS = 500
COLD_HOSTS = 6000
ROOM = 512  # for hosts in the caches of a process to which they are cold
LEASES = 64  # of one lease
COMMIT = 4000  # operations
LINKS = 5  # discovered on each page
BATCH = 1000  # URLs that are scheduled together
PAGE = 50  # links of a page that are scheduled together

_NO_POLITENESS: dict[str, Any] = {"min_delay": 0, "delay_factor": 0, "max_delay": 0}

PAYLOADS = "payloads"
"""The workloads of URIs with a payload and a priority, as those of Scrapy are."""

DRAINS: dict[str, dict[str, Any]] = {
    "rotation": {},
    "cold hosts": {"hold_queues": False},
    "zipf": {},
    "one host": {},
    "politeness": {"politeness": {"min_delay": 1}},
    "total budgets": {"queue_total_budget": 100_000},
    "quotas": {"quotas": {"host": {"urls": 1_000_000, "bytes": 10**12}}},
    "overrides": {
        "overrides": [{"match": f"host:site{i}.example.com", "set": {"error_penalty_amount": 50}} for i in range(50)]
    },
    "concurrency 8": {"politeness": {**_NO_POLITENESS, "per_queue_concurrency": 8}},
    "keep_urls": {"keep_urls": True},
    "groups": {"groups": [{"name": "site", "by": "host", "max_in_flight": 2, "total_budget": 10**9}]},
    "quotas of groups": {"groups": [{"name": "site", "by": "host", "quotas": {"urls": 10**6, "bytes": 10**12}}]},
    "groups that wait": {"groups": [{"name": "fifty", "match": "*", "max_in_flight": 50, "total_budget": 10**9}]},
    "moves": {"defer_to_previous": False},
    "addresses": {"queue_assignment_policy": "ip", "politeness": {"min_delay": 1}},
    "links": {},
    "details": {},
    PAYLOADS: {},
    "windows": {"guards": {"windows": ["daily 00:00-24:00 UTC"]}},
}
"""What is drained, and the settings of the frontier that differ from those of the others."""

PAGES_FILE = "pages.txt"
DRAIN_CALLS = ("finish", "finish_many")

PATTERNS = [
    {"match": "queue:site1*.example.com", "set": {"precedence": 2}},
    {"match": "queue:*9.example.com", "set": {"queue_total_budget": 1_000_000}},
    {"match": "surt:(com,example,site2", "set": {"balance_replenish_amount": 2000}},
    {"match": "surt:(com,example,site33,)/section4", "set": {"error_penalty_amount": 50}},
    {"match": "surt:https://(com,example,", "set": {"politeness": {"jitter": 0}}},
    {"match": "regex:/section[0-9]/", "set": {"balance_replenish_amount": 4000}},
    {"match": r"regex:-\d*77\.html$", "set": {"error_penalty_amount": 10}},
    {"match": "domain:site5.example.com", "set": {"cost_policy": "zero"}},
    {"match": "host:site?.example.com", "set": {"retry": {"max_retries": 3}}},
    {"match": "queue:other.example.org", "set": {"max_queue_size": 0}},
]
"""Overrides of each kind. Some depend on the whole URL, so that URLs of one queue differ."""

SCHEDULES: dict[str, dict[str, Any]] = {
    "schedule": {},
    f"schedule {PAYLOADS}": {},
    "schedule_many": {},
    "schedule_many pages": {},
    "schedule_many cold pages": {"hold_queues": False},
    "schedule_many overrides": DRAINS["overrides"],
    "schedule_many patterns": {"overrides": PATTERNS},
    "schedule_many max_queued": {"max_queued": 1_000_000},
    "schedule_many max_queue_size": {"max_queue_size": 1_000_000},
    "schedule_many full": {"max_queue_size": 20},
    "schedule_many wag": {"cost_policy": "wag"},
    "schedule_many keep_urls": {"keep_urls": True},
    "schedule_each": {},
}
"""How URIs are scheduled, and the settings of the frontier that differ from those of the others."""


def urls(name: str, count: int) -> Iterator[str]:
    """Yield the URLs of a workload: each host in turn, hosts by Zipf's law (exponent 1), or one host."""
    if name == "zipf":
        rnd = random.Random(1)
        hosts = rnd.choices(range(HOSTS), cum_weights=list(accumulate(1 / (i + 1) for i in range(HOSTS))), k=count)
    else:
        hosts = [0 if name == "one host" else i % _hosts(name) for i in range(count)]
    return (_url(i, host) for i, host in enumerate(hosts))


def _hosts(name: str) -> int:
    return COLD_HOSTS if "cold" in name else HOSTS


def forget_hosts() -> None:
    """Make all hosts cold to this process: it has no more of a queue in memory than its next URI."""
    queue_cache.CACHE = candidates.AUTHORITIES = seen.RECENT = ROOM
    pending.MOST_READ = 0


def _url(number: int, host: int) -> str:
    return f"https://site{host}.example.com/section{number % 50}/page-{number}.html"


def _carrying(urls: Iterable[str]) -> Iterator[CrawlUri]:
    return (CrawlUri(url, payload=b"request" * 10, priority=4095) for url in urls)


def _settings(changes: dict[str, Any]) -> Any:
    frontier = {"commit_interval": 86_400, "commit_operations": COMMIT, **changes}
    others: dict[str, Any] = {name: frontier.pop(name) for name in ("overrides", "groups") if name in frontier}
    settings = ours.impatient(**frontier)
    return type(settings).from_dict({**settings.to_dict(), **others}) if others else settings


def prepare_pages(name: str, file: Path) -> None:
    """Write the links of pages, half of them known, each page a line after one with the seeds."""
    pages = Pages(_hosts(name))
    lines = [pages.seeds(), *(pages.page() for _ in range(2 * COUNT // PAGE))]
    file.write_text("".join(f"{' '.join(line)}\n" for line in lines))


def prepare(name: str, folder: Path) -> None:
    """Fill the frontier of a drain."""
    count = COUNT if name == "links" else PENDING
    with Frontier.open(folder, _settings(DRAINS[name])) as frontier:
        found = urls(name, count)
        frontier.schedule_many(_carrying(found) if name == PAYLOADS else found)


def drain(name: str, call: str, folder: Path, count: int) -> None:
    """Lease and finish `count` URIs; each URL is read."""
    clock = ManualClock()
    frontier = Frontier.open(folder, clock=clock)
    finish: Callable[[list[Any]], object]
    finish = frontier.finish_many if call == "finish_many" else partial(_finish_each, frontier)
    if name in ("links", "details"):
        finish = partial(_finish_with_links if name == "links" else _finish_with_details, frontier, call)
    done = 0
    while done < count:
        leases = frontier.lease(min(LEASES, count - done))
        if not leases:
            wait = frontier.next_ready_in()
            assert wait is not None, f"only {done} URIs"
            clock.advance(max(wait, 0.001))
            continue
        for lease in leases:
            assert lease.uri.url
        finish(leases)
        done += len(leases)
    frontier.close()


def _finish_each(frontier: Frontier, leases: list[Lease]) -> None:
    for lease in leases:
        frontier.finish(lease)


def _finish_with_details(frontier: Frontier, call: str, leases: list[Lease]) -> None:
    """Finish pages as a crawler does that schedules their links itself."""
    if call == "finish_many":
        frontier.finish_many([Finish(lease, fetch_seconds=0.25, size=20_000, status=200) for lease in leases])
        return
    for lease in leases:
        frontier.finish(lease, fetch_seconds=0.25, size=20_000, status=200)


def _finish_with_links(frontier: Frontier, call: str, leases: list[Lease]) -> None:
    """Finish pages that link to LINKS others, of which one is new."""
    ended = []
    for lease in leases:
        number = int(lease.uri.url.rpartition("-")[2][:-5])
        new = COUNT + number
        numbers = (new, *((number * 7 + i) % new for i in range(1, LINKS)))
        links = [_url(i, i % HOSTS) for i in numbers]
        if call == "finish_many":
            ended.append(Finish(lease, discovered=links))
        else:
            frontier.finish(lease, discovered=links)
    if ended:
        frontier.finish_many(ended)


def schedule(name: str, folder: Path, count: int) -> None:
    """Schedule `count` new URIs in an empty frontier; with "full" in the name, some are refused."""
    if name.endswith("pages"):
        pages = [line.split() for line in (folder.parent / PAGES_FILE).read_text().splitlines()]
        batches = pages[: 1 + count // PAGE]
    else:
        links = urls("zipf", 2 * COUNT)
        made: list[Any] = list(_carrying(links) if name.endswith(PAYLOADS) else links)
        batches = [made[start : min(start + BATCH, count)] for start in range(0, count, BATCH)]
    frontier = Frontier.open(folder, _settings(SCHEDULES[name]))
    admit = frontier.schedule_each if name == "schedule_each" else frontier.schedule_many
    for batch in batches:
        if name in ("schedule", f"schedule {PAYLOADS}"):
            for url in batch:
                frontier.schedule(url)
        else:
            admit(batch)
    frontier.close()


def _counted(arguments: list[str]) -> int:
    """Return the instructions of one run of this module."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", sys.executable, "-m"]
    command += ["benchmarks.instructions", "--workload", *arguments]
    environment = os.environ | {"PYTHONHASHSEED": "0"}
    done = subprocess.run(command, cwd=HERE.parent, env=environment, capture_output=True, text=True, check=False)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or found is None:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    return int(found[1])


def measure(name: str, call: str, room: Path) -> float:
    """Return the instructions per URI of a workload."""
    totals = []
    prepared = room / "prepared"
    if name in DRAINS:
        prepare(name, prepared)
    prepare_pages(name, room / PAGES_FILE)
    for count in (COUNT, 2 * COUNT):
        folder = room / "measured"
        if name in DRAINS:
            shutil.copytree(prepared, folder)
        totals.append(_counted([name, call, str(folder), str(count)]))
        shutil.rmtree(folder)
    shutil.rmtree(prepared, ignore_errors=True)
    return (totals[1] - totals[0]) / COUNT


def _workload(arguments: list[str]) -> None:
    name, call, folder, count = arguments
    if "cold" in name:
        forget_hosts()
    if name in DRAINS:
        drain(name, call, Path(folder), int(count))
    else:
        schedule(name, Path(folder), int(count))
    os._exit(0)  # what the end of the interpreter costs is none of the URIs' business


def main() -> None:
    """Measure all workloads, or those that are named, and print and write the table."""
    if sys.argv[1:2] == ["--workload"]:
        return _workload(sys.argv[2:])
    parser = script.parser("benchmarks.instructions", __doc__)
    parser.add_argument("names", nargs="*", metavar="WORKLOAD", help="a drain or a way of scheduling (default: all)")
    options = script.parse(parser)
    if shutil.which("valgrind") is None:
        parser.error("valgrind is not installed: apt-get install valgrind")
    about = script.describe(options)
    measured: dict[str, float] = {}
    with script.temporary("instructions", options.folder) as room:
        for name in options.names or [*SCHEDULES, *DRAINS]:
            for call in DRAIN_CALLS if name in DRAINS else ("",):
                measured[f"{name}, {call}" if call else name] = measure(name, call, room)
                print(f"{list(measured)[-1]}: {measured[list(measured)[-1]]:,.0f}", file=sys.stderr)
    lines = ["| workload | thousand instructions per URI |", "| --- | --- |"]
    lines += [f"| {name} | {figure / 1000:.1f} |" for name, figure in measured.items()]
    record = script.record(about, instructions=measured)
    results = options.results or (None if options.names else script.RESULTS)
    script.write("instructions", "Instructions per URI", ["\n".join(lines), script.facts(about)], record, results)


if __name__ == "__main__":
    main()
