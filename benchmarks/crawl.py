"""How fast a whole crawl is: `python -m benchmarks.crawl` (or `make crawl-bench`) measures, and writes a table to
`results/crawl-*`.

Ours, Scrapy, and Scrapy on our frontier crawl the same 200 hosts, one after the other in each round, each in a process
of its own on one core; the server, which is several times faster than any, has another core and counts what is asked
for. Politeness is off and the concurrency is equal. Then ours alone crawls ten times as many pages, to see whether its
memory grows, and 500 hosts with a delay, to see whether each is asked as soon as the delay allows.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import machine, script, table
from benchmarks.crawl_site import HOSTS, Server
from benchmarks.table import Row, of
from benchmarks.timing import MIB

HERE = Path(__file__).parent

PAGES = 20_000
LEAST = 100  # pages of a host
MANY = 200_000  # pages of the crawl whose memory is watched
SAMPLES = 20  # of the memory, in even steps
CONCURRENCY, PER_HOST = 64, 8
PACED, PACED_HOSTS, PACED_EACH, DELAY = "ours, polite", 500, 30, 0.5  # hosts, pages of each, seconds
PARTS = ("race", "memory", "pace")
WATCH_EVERY = 0.2  # seconds

OURS = ("ours", "ours, WARC")
JOB = "a folder of its own"
SCRAPY: dict[str, tuple[str, ...]] = {  # what else is given to `crawl_scrapy`
    "scrapy in memory": (),
    "scrapy JOBDIR": (JOB,),
    "scrapy, budgetfrontier": (JOB, "budgetfrontier.scrapy.Scheduler"),
}
PACKAGES = ("aiohttp", "fastwarc", "scrapy", "twisted", "lxml")

Watch = Callable[[int], None]
"""Called with the process id of a client now and then."""


def served(pages: float, core: int) -> Server:
    """Return a server of that many pages, on fewer hosts if the scale leaves each less than a hundred."""
    return Server(max(min(HOSTS, int(pages) // LEAST), 1), int(pages), core)


def command(name: str, room: Path, server: Server) -> list[str]:
    """Return the command that starts a contestant, and write the files that it needs into `room`."""
    seeds = room / "seeds"
    seeds.write_text("\n".join(server.seeds))
    if name in SCRAPY:
        more = [str(room / "job") if given == JOB else given for given in SCRAPY[name]]
        arguments = [str(seeds), str(CONCURRENCY), str(PER_HOST), *more]
        return [sys.executable, "-m", "benchmarks.crawl_scrapy", *arguments]
    politeness: dict[str, float] = {"delay_factor": 0, "min_delay": 0, "max_delay": 0}
    politeness |= {"min_delay": DELAY, "delay_factor": 5, "max_delay": 30} if name == PACED else {}
    politeness["per_queue_concurrency"] = 1 if name == PACED else PER_HOST
    settings = {
        "seeds": [{"file": str(seeds)}],
        "frontier": {"politeness": politeness},
        "fetch": {"concurrency": CONCURRENCY, "robots": "ignore", "resolve": {"*.test": f"127.0.0.1:{server.port}"}},
        "output": {"warc": name == "ours, WARC"},
    }
    (room / "crawl.yaml").write_text(json.dumps(settings))
    return [sys.executable, "-m", "budgetfrontier", "crawl", str(room / "crawl.yaml"), "--job", str(room / "job")]


def crawl(name: str, folder: Path, server: Server, core: int, watch: Watch | None = None) -> dict[str, float]:
    """Let a contestant crawl all pages; return its rates, processor time and memory.

    Fails unless the crawl was complete.
    """
    room = Path(tempfile.mkdtemp(dir=folder))
    server.reset()
    begin = time.perf_counter()
    with (room / "said").open("w") as said:
        process = subprocess.Popen(
            command(name, room, server),
            cwd=HERE.parent,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
        )
        os.sched_setaffinity(process.pid, {core})
        peak = 0
        while (ended := os.wait4(process.pid, os.WNOHANG))[0] == 0:
            peak = max(peak, memory_of(process.pid)["RssAnon"])
            if watch is not None:
                watch(process.pid)
            time.sleep(WATCH_EVERY)
    wall = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(ended[1])
    counts = server.counts()
    pages = server.pages
    if process.returncode or (counts["requests"], counts["pages"], counts["unknown"]) != (pages, pages, 0):
        sys.exit(f"{name} did not fetch every page once: {counts}\n{(room / 'said').read_text()[-2000:]}")
    cpu = ended[2].ru_utime + ended[2].ru_stime
    figures = {
        "per_second": pages / counts["seconds"],
        "per_cpu_second": pages / cpu,
        "wall": wall,
        "cpu": cpu,
        "memory": peak / MIB,
    }
    if name == "ours, WARC":
        figures |= archived(room / "job" / "warcs", pages)
    shutil.rmtree(room)
    return figures


def memory_of(process: int) -> dict[str, int]:
    """Return the anonymous and the file-backed memory of a process, in bytes; zeros once it has ended."""
    found = {"RssAnon": 0, "RssFile": 0}
    try:
        lines = Path("/proc", str(process), "status").read_text().splitlines()
    except OSError:
        return found
    for line in lines:
        name, _, value = line.partition(":")
        if name in found:
            found[name] = int(value.split()[0]) * 1024
    return found


def archived(folder: Path, pages: int) -> dict[str, float]:
    """Return the bytes of the WARC files per page. Fails unless they hold the response of every page."""
    from fastwarc.warc import ArchiveIterator, WarcRecordType

    urls: set[str] = set()
    for path in folder.iterdir():
        with path.open("rb") as file:
            responses = ArchiveIterator(file, record_types=WarcRecordType.response)
            urls.update(record.headers["WARC-Target-URI"] for record in responses)
    if len(urls) != pages:
        sys.exit(f"{len(urls)} of {pages} pages are in the WARC files")
    return {"warc": sum(path.stat().st_size for path in folder.iterdir()) / pages}


def race(folder: Path, server: Server, contestants: list[str], runs: int, cores: tuple[int, int]) -> list[table.Round]:
    """Run all contestants, one after the other in each round."""
    rounds: list[table.Round] = []
    for number in range(1, runs + 1):
        print(f"round {number} of {runs}", file=sys.stderr)
        rounds.append({"server": {"per_second": alone(server, cores)}})
        for name in contestants:
            rounds[-1][name] = figures = crawl(name, folder, server, cores[0])
            print(f"  {name}: {', '.join(f'{key} {value:,.4g}' for key, value in figures.items())}", file=sys.stderr)
    return rounds


def alone(server: Server, cores: tuple[int, int]) -> float:
    """Return how many pages per second the server delivers to a client on the contestants' core."""
    os.sched_setaffinity(0, {cores[0]})
    try:
        return server.speed()
    finally:
        os.sched_setaffinity(0, {cores[1]})


def grow(folder: Path, server: Server, core: int) -> list[dict[str, float]]:
    """Measure the memory of our crawler during a long crawl that writes WARC files."""
    points: list[dict[str, float]] = []
    step = server.pages // SAMPLES

    def watch(process: int) -> None:
        pages = server.counts()["requests"]
        if pages >= step * (len(points) + 1):
            memory = memory_of(process)
            points.append({"pages": pages, "memory": memory["RssAnon"] / MIB, "mapped": memory["RssFile"] / MIB})
            print(f"  {pages:,} pages: {points[-1]['memory']:.1f} MiB", file=sys.stderr)

    crawl("ours, WARC", folder, server, core, watch)
    return points


def pace(folder: Path, server: Server, core: int) -> dict[str, float]:
    """Crawl with a delay; return the rate as a part of the ideal one, a page of each host in each delay."""
    figures = crawl(PACED, folder, server, core)
    ideal = server.hosts / DELAY
    figures["of_ideal"] = figures["per_second"] / ideal
    print(f"  {server.hosts} hosts: {figures['per_second']:.0f} of {ideal:.0f} pages/s", file=sys.stderr)
    return figures


def targets(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows with targets, for the parts that were measured."""
    rounds: list[table.Round] = record["rounds"] or [{}]
    points = record["points"]
    if points:
        early, late = (part for part in (points[: len(points) // 2], points[len(points) // 2 :]))
        before, after = (median(point["memory"] for point in part) for part in (early, late))
        most = max(point["memory"] for point in points)
        rounds = [rounds[0] | {"memory": {"grown": after - before, "most": most}}, *rounds[1:]]
    if record.get("pace"):  # older records have none
        rounds = [rounds[0] | {"pace": record["pace"]}, *rounds[1:]]
    return table.results(ROWS, rounds)


ROWS = (
    Row("pages a second / Scrapy in memory", table.ratio("ours", "scrapy in memory"), "x", at_least=3),
    Row("the same by processor time", table.ratio("ours", "scrapy in memory", "per_cpu_second"), "x"),
    Row("with WARC / Scrapy in memory", table.ratio("ours, WARC", "scrapy in memory"), "x", at_least=2),
    Row("the same by processor time", table.ratio("ours, WARC", "scrapy in memory", "per_cpu_second"), "x"),
    Row("pages a second / Scrapy, JOBDIR", table.ratio("ours", "scrapy JOBDIR"), "x"),
    Row("with WARC / Scrapy, JOBDIR", table.ratio("ours, WARC", "scrapy JOBDIR"), "x"),
    Row(
        "Scrapy on budgetfrontier / Scrapy in memory",
        table.ratio("scrapy, budgetfrontier", "scrapy in memory"),
        "x",
        at_least=0.95,
    ),
    Row("the same by processor time", table.ratio("scrapy, budgetfrontier", "scrapy in memory", "per_cpu_second"), "x"),
    Row(
        "Scrapy on budgetfrontier / Scrapy, JOBDIR",
        table.ratio("scrapy, budgetfrontier", "scrapy JOBDIR"),
        "x",
        at_least=1,
    ),
    Row("the same by processor time", table.ratio("scrapy, budgetfrontier", "scrapy JOBDIR", "per_cpu_second"), "x"),
    Row(f"anonymous memory, {MANY:,} pages: the most", of("memory", "most"), "MiB"),
    Row("the second half of them over the first", of("memory", "grown"), "MiB", at_most=5),
    Row(f"{PACED_HOSTS} hosts, a delay of {DELAY} s: of the ideal rate", of("pace", "of_ideal"), "x", at_least=0.95),
)

TITLES = {
    "ours": "budgetfrontier",
    "ours, WARC": "budgetfrontier, WARC",
    "scrapy in memory": "Scrapy, in memory",
    "scrapy JOBDIR": "Scrapy, JOBDIR",
    "scrapy, budgetfrontier": "Scrapy on budgetfrontier",
    "server": "the server alone",
}
COLUMNS = {
    "per_second": ("pages", "/s"),
    "per_cpu_second": ("by processor time", "/s"),
    "wall": ("whole process", "s"),
    "cpu": ("processor time", "s"),
    "memory": ("memory", "MiB"),
    "warc": ("archived, a page", "B"),
}


def overview(rounds: list[table.Round]) -> str:
    """Return a row for each contestant: medians of the rounds."""
    lines = [["", *(title for title, _ in COLUMNS.values())]]
    for name, title in TITLES.items():
        measured = [figures[name] for figures in rounds if name in figures]
        if measured:
            cells = [
                table.number(median(one[column] for one in measured), unit) if column in measured[0] else ""
                for column, (_, unit) in COLUMNS.items()
            ]
            lines.append([title, *cells])
    return table.grid(lines)


def along(points: list[dict[str, float]]) -> str:
    """Return the table of the memory during the long crawl."""
    lines = [
        [f"{point['pages']:,.0f}", table.number(point["memory"], "MiB"), table.number(point["mapped"], "MiB")]
        for point in points
    ]
    return table.grid([["pages", "memory", "of files, mapped"], *lines])


def write(results: Path | None, record: dict[str, Any]) -> None:
    """Print the tables, and write them together with all figures."""
    parts = [
        "Written by `make crawl-bench`; see [crawling](../../docs/explanation/crawling.md).",
        script.facts(record["machine"]),
        overview(record["rounds"]) if record["rounds"] else "",
        along(record["points"]) if record["points"] else "",
        table.markdown(targets(record)),
    ]
    script.write("crawl", "Crawling", parts, record, results)


def main() -> None:
    """Parse the arguments and run."""
    parser = script.parser("benchmarks.crawl", __doc__, scaled="all pages")
    parser.add_argument("--runs", type=int, default=3, help="rounds (default: 3); Scrapy takes minutes in each")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="what to measure (default: all)")
    parser.add_argument("--no-peers", action="store_true", help="leave out Scrapy")
    options = script.parse(parser)
    peers = [] if options.no_peers or not find_spec("scrapy") else [*SCRAPY]
    about = script.describe(options) | {package: machine.version(package) for package in PACKAGES}
    cores = options.core, script.other_core(options.core)
    os.sched_setaffinity(0, {cores[1]})
    measured: dict[str, Any] = {"rounds": [], "points": [], "pace": {}}
    with script.temporary("crawl", options.folder) as folder:
        if "race" in options.parts:
            with served(PAGES * options.scale, cores[1]) as server:
                measured["rounds"] = race(folder, server, [*OURS, *peers], options.runs, cores)
        if "memory" in options.parts:
            with served(MANY * options.scale, cores[1]) as server:
                measured["points"] = grow(folder, server, cores[0])
        if "pace" in options.parts:
            hosts = max(int(PACED_HOSTS * options.scale), 1)
            with Server(hosts, hosts * PACED_EACH, cores[1]) as server:
                measured["pace"] = pace(folder, server, cores[0])
    whole = options.scale == 1 and options.parts == PARTS and peers
    results = options.results or (script.RESULTS if whole else None)  # a part is printed only
    write(results, script.record(about, **measured))


if __name__ == "__main__":
    main()
