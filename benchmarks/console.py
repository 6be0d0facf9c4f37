"""What the console costs at a million queues: `python -m benchmarks.console` measures, and writes `results/console-*`.

A frontier with a million queues is made, unless `--frontier` names one. A writer leases and finishes URIs, in rounds
with a console and without; with one, a browser's stream of the overview is open, and every page is asked for in turn,
also while all queues are scanned. Measured are the writer's processor time, the times of the pages, and the anonymous
memory of the console with its scan. With `--api`, calls of the API on a job that rests are measured instead, each with
the processor time of the console and of the processes that it begins, and `results/console-api-*` are written.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import script
from benchmarks.timing import MIB, quantile
from budgetfrontier import Frontier, Outcome, Settings

Call = Callable[..., None]
QUEUES = 1_000_000
ROUND = 30_000  # URIs
API_ROUNDS = 5
ROUNDS = 6  # with a console, and as many without
PAGES = (
    "/", "/queues", "/queues?sort=expenditure&start=500000", "/queues?state=RETIRED", "/queues?q=host1234",
    "/queues?state=INACTIVE&sort=turn", "/queues?sort=queue", "/queue/host7.example7.test", "/retired", "/leases",
    "/errors", "/dead-letters", "/seeds", "/reports", "/audit",
)  # fmt: skip
_ONE = "host7.example7.test"
CALLS: tuple[tuple[str, dict[str, Any] | None], ...] = (
    *((path, None) for path in (
        "", "/queues?sort=queue", "/queues?sort=expenditure", f"/queue?key={_ONE}", f"/uris?queue={_ONE}&spread=true",
        f"/explain?target={_ONE}", "/retired", "/traps", "/statuses", "/leases", "/dead-letters", "/seeds", "/groups",
        "/quotas", "/labels", "/errors", "/rates", "/busiest", "/curves", "/forecast", "/runs",
        "/compare-runs?run=1&run2=1", "/alerts", "/adjustments", "/audit", "/report?kind=hosts", "/compare/JOB",
    )),
    ("/pause", {}),
    ("/retire", {"queue": _ONE}),
    ("/retire", {"match": "domain:example7.test"}),
    ("/adjust", {"match": f"queue:{_ONE}", "set": {"queue_total_budget": 9}}),
    ("/adjust", {"match": "domain:example7.test", "set": {"queue_total_budget": 9}}),
    ("/import", {"uris": [f"https://{_ONE}/new"]}),
    ("/forget", {"uris": [f"https://{_ONE}/new"]}),
)  # fmt: skip
"""Calls of the API on a job: GET, or dry runs of commands with a body."""
FIRST = ("/statuses", "/report?kind=hosts", "/compare/JOB")
"""Calls that read all queues, and whose answers are kept: the first ones are measured apart."""
SETTINGS: dict[str, Any] = {
    "crawl": "console",
    "frontier": {
        "queue_total_budget": 3,
        "balance_replenish_amount": 2,
        "commit_interval": 0.5,
        "politeness": {"delay_factor": 0.0, "min_delay": 0.0, "max_delay": 0.0},
    },
}


OVERRIDES: list[dict[str, Any]] = [
    {"match": "domain:example7.test", "set": {"queue_total_budget": 50}},
    {"match": "domain:example8.test", "set": {"queue_total_budget": 5, "balance_replenish_amount": 4}},
    {"match": "host:host12.example12.test", "set": {"queue_total_budget": 500}},
    {"match": "host:*.example99.test", "set": {"balance_replenish_amount": 3}},
    {"match": "queue:host77*", "set": {"queue_total_budget": 4}},
    {"match": "queues:host1.example1.test,host2.example2.test", "set": {"queue_total_budget": 40}},
    {"match": "surt:(test,example5,", "set": {"queue_total_budget": 6}},
    {"match": "surt:https://(test,example6,host6,)/section1", "set": {"queue_total_budget": 7}},
    {"match": "regex:[?&]sid=", "set": {"queue_total_budget": 1}},
    {"match": "regex:/section3/", "set": {"balance_replenish_amount": 5}},
]
"""Ten overrides, of each kind."""
ADJUSTMENTS: tuple[dict[str, Any], ...] = (
    {"match": "domain:example9.test", "queue_total_budget": 9},
    {"match": "*", "balance_replenish_amount": 3},
    {"match": "host:host5.example5.test", "queue_total_budget": 70},
)


def fill(path: Path, queues: int) -> None:
    """Make a frontier with 2 URIs in each queue on average; 1 queue of 100 is RETIRED."""
    chance = random.Random(1)
    with Frontier.open(path, Settings.from_dict(SETTINGS)) as frontier:
        frontier.schedule_many(
            f"https://host{n}.example{n % 977}.test/section{page % 7}/page{page}"
            for n in range(queues)
            for page in range(min(int(chance.paretovariate(1.2)), 300))
        )
        work(frontier, queues, chance)
        for n in range(0, queues, 100):
            frontier.retire(f"host{n}.example{n % 977}.test")


def change_settings(path: Path) -> None:
    """Put overrides and adjustments in force on a frontier that was filled, which most of its records do not have."""
    with Frontier.open(path, Settings.from_dict({**SETTINGS, "overrides": OVERRIDES})) as frontier:
        for adjustment in ADJUSTMENTS:
            frontier.adjust(**adjustment, reason="a benchmark")


def work(frontier: Frontier, count: int, chance: random.Random) -> None:
    """Lease and finish so many URIs: one of 20 fails, one of 1,000 is given up."""
    done = 0
    while done < count and (leases := frontier.lease(1000)):
        for lease in leases:
            luck = chance.random()
            outcome = Outcome.DEAD if luck < 0.001 else Outcome.FAILURE if luck < 0.05 else Outcome.SUCCESS
            frontier.finish(lease, outcome, reason="timeout" if luck < 0.05 else "")
        done += len(leases)


def writer(path: str) -> None:
    """Work one round for each line of the input, and print the processor time that a URI took, in microseconds."""
    chance = random.Random(2)
    with Frontier.open(path) as frontier:
        for line in sys.stdin:
            count = int(line)
            frontier.schedule_many(f"https://host{chance.randrange(QUEUES)}.new.test/{n}" for n in range(count))
            frontier.commit()
            start = time.process_time()
            work(frontier, count, chance)
            frontier.commit()
            print((time.process_time() - start) / count * 1e6, flush=True)


class Console:
    """A console that is looked at: its address, the times of its pages, and its memory."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.pid = process.pid
        self.address = address
        self.times: dict[str, list[float]] = {page: [] for page in PAGES}
        self.scanning: list[float] = []
        self.memory = self.with_scan = 0.0
        self.scans = 0
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=target) for target in (self._browse, self._follow, self._weigh)]
        for thread in self._threads:
            thread.start()

    def _browse(self) -> None:
        while not self._stop.is_set():
            for page in PAGES:
                start = time.perf_counter()
                with urllib.request.urlopen(self.address + page) as answer:
                    answer.read()
                took = time.perf_counter() - start
                self.times[page].append(took)
                if children(self.pid):
                    self.scanning.append(took)
                self._stop.wait(0.2)

    def _follow(self) -> None:
        with urllib.request.urlopen(f"{self.address}/?live=1") as stream:
            while not self._stop.is_set():
                stream.readline()

    def _weigh(self) -> None:
        known: set[int] = set()
        while not self._stop.wait(0.05):
            others = children(self.pid)
            own = anonymous(self.pid)
            self.memory = max(self.memory, own)
            self.with_scan = max(self.with_scan, own + sum(map(anonymous, others)))
            known |= set(others)
            self.scans = len(known)

    def end(self) -> None:
        """Stop looking."""
        self._stop.set()
        for thread in self._threads:
            thread.join()


def children(pid: int) -> list[int]:
    """Return the child processes of a process."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:  # a thread has ended
        return []


def anonymous(pid: int) -> float:
    """Return the anonymous memory of a process in MiB; 0.0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) * 1024 / MIB for line in lines if line.startswith("RssAnon")), 0.0)


@contextmanager
def console(frontier: Path) -> Iterator[Console]:
    """Run a console, and look at it."""
    command = [sys.executable, "-m", "budgetfrontier", "console", str(frontier), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        address = process.stderr.readline().partition("listens on ")[2].partition("/;")[0]
        looked = Console(process, address)
        try:
            yield looked
        finally:
            looked.end()
            process.terminate()


def measure(frontier: Path, rounds: int, count: int) -> dict[str, Any]:
    """Measure, in turns without and with a console."""
    alone: list[float] = []
    watched: list[float] = []
    command = [sys.executable, "-m", "benchmarks.console", "--writer", str(frontier)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as other:
        assert other.stdin is not None and other.stdout is not None

        def one() -> float:
            assert other.stdin is not None and other.stdout is not None
            other.stdin.write(f"{count}\n")
            return float(other.stdout.readline())

        one()
        looks: list[Console] = []
        for _ in range(rounds):
            alone.append(one())
            with console(frontier) as looked:
                while not any(looked.times.values()):
                    time.sleep(0.05)
                watched.append(one())
                deadline = time.monotonic() + 120
                while (looked.scans == 0 or children(looked.pid)) and time.monotonic() < deadline:
                    time.sleep(0.1)  # until the scan is over, and each page was seen once more
                seen = len(looked.times[PAGES[-1]])
                while len(looked.times[PAGES[-1]]) < seen + 2:
                    time.sleep(0.1)
            looks.append(looked)
        other.stdin.close()
    pages = {page: [took for looked in looks for took in looked.times[page][1:]] for page in PAGES}
    scanning = [took for looked in looks for took in looked.scanning]
    return {
        "writer alone, us a URI": median(alone),
        "writer watched, us a URI": median(watched),
        "slower, percent (median of pairs)": median(
            (after / before - 1) * 100 for before, after in zip(alone, watched, strict=True)
        ),
        "console, MiB anonymous": max(looked.memory for looked in looks),
        "with its scan, MiB anonymous": max(looked.with_scan for looked in looks),
        "pages while scanning, ms p95": quantile(sorted(scanning), 0.95) * 1000,
        "pages while scanning, ms max": max(scanning) * 1000,
        "pages": {page: {"ms p50": median(took) * 1000, "ms max": max(took) * 1000} for page, took in pages.items()},
    }


def processor_seconds(pid: int) -> float:
    """Return the processor time of a process, and of its children that have ended and were waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def api(frontier: Path) -> Iterator[tuple[int, Call]]:
    """Run a console; yield its pid, and a function for calls on the job, or for dry runs of commands with a body."""
    tokens = frontier.parent / "tokens"
    script_name = [sys.executable, "-m", "budgetfrontier"]
    if tokens.exists():
        tokens.unlink()
    token = subprocess.check_output([*script_name, "token", str(tokens), "add", "a", "--role", "admin"], text=True)
    command = [*script_name, "console", str(frontier), "--listen", "127.0.0.1:0", "--tokens", str(tokens)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        address = process.stderr.readline().partition("listens on ")[2].partition("/;")[0] + "/api/v1/jobs"
        header = {"Authorization": f"Bearer {token.strip()}", "Content-Type": "application/json"}

        def ask(path: str, data: bytes | None = None) -> bytes:
            with urllib.request.urlopen(urllib.request.Request(address + path, data, header)) as answer:
                return bytes(answer.read())

        def call(path: str, body: dict[str, Any] | None = None, *, wait: float = 0.0) -> None:
            """Call; with `wait`, again after so many seconds until what is being made is there."""
            data = None if body is None else json.dumps(body | {"reason": "x", "dry_run": True}).encode()
            while True:
                try:
                    ask(f"/{name}{path.replace('JOB', name)}", data)
                    return
                except urllib.error.HTTPError as error:
                    if error.code != 503 or not wait:
                        raise
                time.sleep(wait)

        try:
            name = json.loads(ask(""))["rows"][0]["name"]
            yield process.pid, call
        finally:
            process.terminate()


def measure_api(frontier: Path, rounds: int) -> dict[str, Any]:
    """Measure each call, once the console has scanned all queues; and the first answers of others, before it has.

    A child counts once it has ended.
    """
    found: dict[str, Any] = {}
    with api(frontier) as (pid, call):
        for path, body in CALLS:
            while children(pid):  # a scan
                time.sleep(0.05)
            clock, processor = [], []
            call(path, body, wait=1.0)  # the first one may wait for the scan
            for _ in range(rounds):
                begun, used = time.perf_counter(), processor_seconds(pid)
                call(path, body)
                clock.append((time.perf_counter() - begun) * 1000)
                processor.append((processor_seconds(pid) - used) * 1000)
            found[f"{'GET' if body is None else 'POST'} JOB{path} {json.dumps(body) if body else ''}".strip()] = {
                "ms p50": median(clock), "ms max": max(clock), "ms processor": sum(processor) / rounds,
            }  # fmt: skip
    first: dict[str, list[float]] = {f"GET JOB{path}": [] for path in FIRST}
    for path in FIRST:
        for _ in range(rounds):
            with api(frontier) as (_, call):
                begun = time.perf_counter()
                call(path, wait=0.02)
                first[f"GET JOB{path}"].append((time.perf_counter() - begun) * 1000)
    return {
        "calls": found,
        "first answers": {name: {"ms p50": median(took), "ms max": max(took)} for name, took in first.items()},
    }


def tables_of_api(figures: dict[str, Any]) -> Iterator[str]:
    """Yield the table of calls, in Markdown."""
    rows = [
        f"| `{call}` | {took['ms processor']:.0f} | {took['ms p50']:.0f} | {took['ms max']:.0f} |"
        for call, took in figures["calls"].items()
    ]
    head = "| call | processor ms, mean | ms, median | ms, at most |"
    yield "\n".join([head, "| --- | --- | --- | --- |", *rows])
    yield (
        "Each call is repeated. What reads all queues (`report`, `compare`) is answered for a minute from what it has "
        "read, and `statuses` from the scan of the console. The first answer of a console that has just begun reads "
        "them; `compare` those of the job twice:"
    )
    rows = [
        f"| `{call}` | {took['ms p50']:.0f} | {took['ms max']:.0f} |" for call, took in figures["first answers"].items()
    ]
    yield "\n".join(["| first answer | ms, median | ms, at most |", "| --- | --- | --- |", *rows])


def tables(figures: dict[str, Any]) -> Iterator[str]:
    """Yield the tables of the figures, in Markdown."""
    rows = [f"| {name} | {value:.1f} |" for name, value in figures.items() if isinstance(value, float)]
    yield "\n".join(["| figure | value |", "| --- | --- |", *rows])
    rows = [f"| `{page}` | {took['ms p50']:.1f} | {took['ms max']:.1f} |" for page, took in figures["pages"].items()]
    yield "\n".join(["| page | ms, median | ms, at most |", "| --- | --- | --- |", *rows])


def main() -> None:
    """Measure, and write the results."""
    if sys.argv[1:2] == ["--writer"]:
        return writer(sys.argv[2])
    parser = script.parser("benchmarks.console", __doc__, scaled="the queues")
    parser.add_argument("--frontier", type=Path, help="a frontier with queues of `fill`, instead of a new one")
    parser.add_argument("--api", action="store_true", help="measure calls of the API instead")
    options: argparse.Namespace = script.parse(parser)
    with script.temporary("console", options.folder) as room:
        about = script.describe(options)
        frontier = options.frontier or room / "frontier"
        if options.frontier is None:
            fill(frontier, int(QUEUES * options.scale))
        name, shown = ("console-api", tables_of_api) if options.api else ("console", tables)
        figures = (
            measure_api(frontier, API_ROUNDS) if options.api else measure(frontier, ROUNDS, int(ROUND * options.scale))
        )
    parts = [script.facts(about), *shown(figures)]
    script.write(name, name, parts, script.record(about, figures=figures), options.results or script.RESULTS)


if __name__ == "__main__":
    main()
