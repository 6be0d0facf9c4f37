"""How cost grows with size: `python -m benchmarks.growth` (or `make growth`) measures, and writes `results/growth-*`.

Discoveries arrive page by page until ten million URLs are pending; along the way, and with fewer and with more hosts,
ours is compared with the floor. The two are processes of their own on one core, and run in turn, a leg each, so that
whatever disturbs the machine disturbs both. Then hundreds of thousands of queues change at once, and a report
on a million queues is read. `benchmarks.plots` draws the curves.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Any, Self

from benchmarks import script, table
from benchmarks.table import Row, of
from benchmarks.timing import quantile

HERE = Path(__file__).parent

SIZES = (100_000, 1_000_000, 3_000_000, 10_000_000)  # pending URLs, on HOSTS hosts
HOSTS = 10_000
OTHER_HOSTS = (1_000, 100_000, 1_000_000)
HOSTS_AT = 3_000_000  # pending URLs
LEG = 500_000  # URLs at the most
DRAINED = 100_000  # at each size
SNOOZED = 250_000  # queues
AT_ONCE = 300_000  # queues that revive, or are over budget
REPORTS = 3  # times with a reader and without
SECONDS = 6.0  # of each
SMALLEST_COMMIT = 1 << 20  # bytes: the last of a leg may have next to nothing to write

PARTS = ("sizes", "hosts", "stalls")

MEMORY = 200.0  # MiB at the most
BYTES = 200.0  # a pending URL at the most

Point = dict[str, Any]
"""What ours and the floor did in one leg."""


class Process:
    """A process of a contestant that takes orders: see `legs`."""

    def __init__(self, name: str, folder: Path, hosts: int) -> None:
        command = [sys.executable, "-m", "benchmarks.legs", name, str(folder), str(hosts)]
        self._process = subprocess.Popen(
            command, cwd=HERE.parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def __call__(self, order: str, **arguments: Any) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([order, arguments]) + "\n")
        answer = self._process.stdout.readline()
        if not answer:
            sys.exit(f"a contestant failed at {order!r}")
        return json.loads(answer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.communicate()  # which closes both pipes


def begin(name: str, path: Path, count: float, core: int) -> subprocess.Popen[bytes]:
    """Start a measurement of `stalls` on a core."""
    command = [sys.executable, "-m", "benchmarks.stalls", name, str(path), str(int(count)), str(core)]
    return subprocess.Popen(command, cwd=HERE.parent, stdout=subprocess.PIPE)


def end(process: subprocess.Popen[bytes]) -> dict[str, float]:
    """Wait for the figures of a measurement."""
    out, _ = process.communicate()
    if process.returncode:
        sys.exit(f"{process.args!r} failed")
    figures: dict[str, float] = json.loads(out)
    return figures


def ends_of_legs(hosts: int, sizes: list[int]) -> list[int]:
    """Return where the legs end: at each size and at half of it, since when the rate at that size is measured."""
    ends = set(sizes)
    for size in sizes:
        ends.update(range(size // 2, size, max(min(size // 4, LEG), 1)))
    return sorted(end for end in ends if end > hosts)


def grow(
    folder: Path, hosts: int, sizes: list[int], core: int, then: Callable[[Process], None] | None = None
) -> list[Point]:
    """Grow our frontier and the floor, leg by leg.

    At each size, a new process opens our frontier and drains a part of it.
    """
    points: list[Point] = []
    with Process("ours", folder, hosts) as ours, Process("floor", folder, hosts) as floor:
        ours("seed")
        floor("seed")
        for size in ends_of_legs(hosts, sizes):
            point: Point = {"hosts": hosts, "size": size, "ours": ours("grow_to", size=size)}
            point["floor"] = floor("grow", count=point["ours"]["batches"])
            if size in sizes:
                count = min(DRAINED, size // 4)
                ours("close")
                point["drain"] = end(begin("reopen", folder / "ours" / "frontier", count, core))
                ours("open")
                point["floor drain"] = floor("drain", count=count)
            points.append(point)
            print(f"  {_line(point)}", file=sys.stderr)
        if then is not None:
            then(ours)
        ours("close")
        floor("close")
    return points


def _line(point: Point) -> str:
    parts = [f"{point['ours']['queues']:,} hosts, {point['ours']['pending']:,} pending"]
    for name in ("ours", "floor"):
        one = point[name]
        wall, cpu = one["links"] / one["seconds"], one["links"] / one["cpu_seconds"]
        parts.append(
            f"{name} {wall:,.0f}/s ({cpu:,.0f} of processor time), {one['peak']:.0f} MiB, "
            f"{one['file'] / one['pending']:.0f} B a URL, {one['commits']} commits of {sum(one['committing']):.2f} s"
        )
    if "drain" in point:
        one, other = point["drain"], point["floor drain"]
        parts.append(
            f"drain {one['finished'] / one['seconds']:,.0f}/s, floor {other['taken'] / other['seconds']:,.0f}/s, "
            f"reopened in {one['reopen'] * 1000:.0f} ms"
        )
    return "; ".join(parts)


def reports(folder: Path, ours: Process, seconds: float, core: int) -> dict[str, float]:
    """Measure the rate of our frontier, in turn alone and while reports on it are printed on `core`."""
    alone, beside, slowest = [], [], []
    for _ in range(REPORTS):
        alone.append(ours("grow_for", seconds=seconds))
        reader = begin("report", folder / "ours" / "frontier", seconds, core)
        beside.append(ours("grow_for", seconds=seconds))
        slowest.append(end(reader)["slowest"])

    def slower(seconds: str) -> float:
        rates = [
            (leg["links"] / leg[seconds], by["links"] / by[seconds]) for leg, by in zip(alone, beside, strict=True)
        ]
        return 100 * float(median(1 - by / rate for rate, by in rates))

    return {
        "queues": beside[-1]["queues"],
        "seconds": median(slowest),
        "slower": slower("seconds"),
        "slower_cpu": slower("cpu_seconds"),
    }


def stalls(folder: Path, scale: float, core: int) -> dict[str, dict[str, float]]:
    """Measure the longest calls when very many queues change at once."""
    found = {}
    for number, setting, measured in (
        (SNOOZED, "snooze", "wake"),
        (AT_ONCE, "retire", "revive"),
        (AT_ONCE, "ready", "overspend"),
    ):
        path, count = folder / setting / "frontier", number * scale
        found[setting] = end(begin(setting, path, count, core))
        found[measured] = end(begin(measured, path, count, core))
        shutil.rmtree(path.parent)
        print(f"  {measured}: the longest call took {found[measured]['longest'] * 1000:,.0f} ms", file=sys.stderr)
    return found


def prices(legs: list[Point]) -> list[float]:
    """Return the seconds that each byte took which a commit wrote, of the calls in which commits took place."""
    calls = [call for leg in legs for call in zip(leg["committing"], leg["committed"], strict=True)]
    return [seconds / size for seconds, size in calls if size >= SMALLEST_COMMIT]


def compared(ours: list[Point], floor: list[Point]) -> dict[str, float]:
    """Return what our commits took for each byte as a multiple of the floor's; nothing if none is large enough."""
    mine, bare = prices(ours), prices(floor)
    if not (mine and bare):
        return {}
    return {"commit_p50_price": quantile(mine, 0.5) / quantile(bare, 0.5), "commit_max_price": max(mine) / max(bare)}


def summary(points: list[Point], size: int) -> dict[str, float]:
    """Return the figures at a size: rates since half of it, all others at that point."""
    legs = [point for point in points if size // 2 < point["size"] <= size]
    ours, floor = ([leg[name] for leg in legs] for name in ("ours", "floor"))
    rate, floor_rate = (sum(leg["links"] for leg in one) / sum(leg["seconds"] for leg in one) for one in (ours, floor))
    commits = [seconds for leg in ours for seconds in leg["committing"]]
    last, drain, bare = legs[-1]["ours"], legs[-1]["drain"], legs[-1]["floor drain"]
    lowest = legs[-1]["floor"]
    return {
        "hosts": legs[-1]["hosts"],
        "pending": last["pending"],
        "rate": rate,
        "floor_rate": floor_rate,
        "share": rate / floor_rate,
        "drain": drain["finished"] / drain["seconds"],
        "drain_written": drain["written"] / drain["finished"],
        "floor_drain": bare["taken"] / bare["seconds"],
        "commit_p50": quantile(commits, 0.5) * 1000,
        "commit_max": max(commits) * 1000,
        **compared(ours, floor),
        "peak": max(leg["peak"] for leg in [*ours, drain]),
        "floor_peak": max(leg["peak"] for leg in floor),
        "file": last["file"] / last["pending"],
        "live": sum(last["live"].values()) / last["pending"],
        "floor_file": lowest["file"] / lowest["pending"],
        "floor_live": sum(lowest["live"].values()) / lowest["pending"],
        "reopen": drain["reopen"],
    }


def by_hosts(record: dict[str, Any]) -> list[dict[str, float]]:
    """Return the figures for more and fewer hosts, and for the usual number at the same size."""
    others = record["hosts"]
    usual = min(record["sizes"], key=lambda size: abs(size["pending"] - others[0]["pending"])) if others else None
    return sorted([*others, *filter(None, [usual])], key=lambda size: size["hosts"])


COLUMNS = {
    "pending": ("URLs pending", ""),
    "hosts": ("hosts", ""),
    "rate": ("links", "/s"),
    "floor_rate": ("floor", "/s"),
    "share": ("share", "x"),
    "drain": ("lease + finish", "/s"),
    "floor_drain": ("floor", "/s"),
    "commit_p50": ("commit p50", "ms"),
    "commit_max": ("max", "ms"),
    "peak": ("memory", "MiB"),
    "file": ("file, a URL", "B"),
    "live": ("in use", "B"),
    "reopen": ("reopened", "s"),
}


def overview(summaries: list[dict[str, float]]) -> str:
    """Return a row for each size."""
    lines = [[table.number(one[name], unit) for name, (_, unit) in COLUMNS.items()] for one in summaries]
    return table.grid([[title for title, _ in COLUMNS.values()], *lines])


def targets(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows with targets, for the parts that were measured.

    Sizes are identified by index, whatever the scale.
    """
    found: table.Round = {f"{size:,}": one for size, one in zip(SIZES, record["sizes"], strict=False)}
    summaries = [*record["sizes"], *record["hosts"]]
    if summaries:
        found["least"] = {"share": min(one["share"] for one in summaries)}
        found["most"] = {name: max(one[name] for one in summaries) for name in ("peak", "reopen", "file")}
    for name, figures in record["stalls"].items():
        found[name] = figures | {"ms": figures.get("longest", 0.0) * 1000}
    if record["reports"]:
        found["reports"] = record["reports"]
    return table.results(ROWS, [found])


def _most_snoozed(figures: table.Round) -> float:
    return max(figures["snooze"]["peak"], figures["wake"]["peak"])


def _flatness(figures: table.Round) -> float:
    return figures["10,000,000"]["drain"] / figures["100,000"]["drain"]


ROWS = (
    Row("links a second, 3,000,000 URLs pending", of("3,000,000", "rate"), at_least=200_000),
    Row("links a second, 10,000,000 URLs pending", of("10,000,000", "rate"), at_least=120_000),
    Row("share of the floor, the least of all sizes and hosts", of("least", "share"), "x", at_least=0.5),
    Row("lease + finish, 10,000,000 URLs pending / 100,000", _flatness, "x", at_least=0.6),
    Row("bytes written for each URI drained, 1,000,000 pending", of("1,000,000", "drain_written"), "B", at_most=1500),
    Row("longest commit, 1,000,000 pending / floor's, a byte", of("1,000,000", "commit_max_price"), "x", at_most=1.3),
    Row("the same, the median commit", of("1,000,000", "commit_p50_price"), "x"),
    Row("anonymous memory, the most of all", of("most", "peak"), "MiB", at_most=MEMORY),
    Row("opening again, the slowest of all", of("most", "reopen"), "s", at_most=1),
    Row("file, bytes a pending URL, 10,000,000 pending", of("10,000,000", "file"), "B", at_most=BYTES),
    Row("the same, the most of all sizes and hosts", of("most", "file"), "B"),
    Row("250,000 snoozed queues: anonymous memory", _most_snoozed, "MiB", at_most=MEMORY),
    Row("250,000 snoozed queues: opening again", of("wake", "reopen"), "s", at_most=1),
    Row("250,000 snoozed queues fall due at once: longest call", of("wake", "ms"), "ms", at_most=50),
    Row("adjust revives 300,000 queues: longest call", of("revive", "ms"), "ms", at_most=50),
    Row("lease meets 300,000 queues over budget: longest call", of("overspend", "ms"), "ms", at_most=50),
    Row("report of 1,000,000 queues", of("reports", "seconds"), "s", at_most=5),
    Row("how much slower the writer is meanwhile", of("reports", "slower"), "%", at_most=10),
    Row("the same by processor time", of("reports", "slower_cpu"), "%"),
)


def write(results: Path | None, record: dict[str, Any]) -> None:
    """Print the tables, and write them together with all figures."""
    parts = [
        "Written by `make growth`; see [growth](../../docs/explanation/growth.md).",
        script.facts(record["machine"]),
        overview([*record["sizes"], *record["hosts"]]) if record["sizes"] or record["hosts"] else "",
        table.markdown(targets(record)),
    ]
    script.write("growth", "Growth", parts, record, results)


def measure(folder: Path, parts: list[str], largest: int, scale: float, core: int, other: int) -> dict[str, Any]:
    """Measure the selected parts, with temporary data in `folder`."""
    record: dict[str, Any] = {"sizes": [], "hosts": [], "stalls": {}, "reports": {}, "points": []}
    hosts = int(HOSTS * scale)

    def run(
        hosts: int, sizes: list[int], then: Callable[[Path, Process], None] | None = None
    ) -> list[dict[str, float]]:
        room = Path(tempfile.mkdtemp(dir=folder))
        points = grow(room, hosts, sizes, core, then and (lambda ours: then(room, ours)))
        shutil.rmtree(room)
        record["points"] += points
        return [summary(points, size) for size in sizes]

    def read(room: Path, ours: Process) -> None:
        record["reports"] = reports(room, ours, max(SECONDS * scale, 1.0), other)

    if "sizes" in parts:
        record["sizes"] = run(hosts, [int(size * scale) for size in SIZES if size <= largest])
    if "hosts" in parts:
        size = min(HOSTS_AT, largest)
        for count in (count for count in OTHER_HOSTS if count < size):
            then = read if count == OTHER_HOSTS[-1] else None
            record["hosts"] += run(int(count * scale), [int(size * scale)], then)
    if "stalls" in parts:
        record["stalls"] = stalls(folder, scale, core)
    return record


def main() -> None:
    """Parse the arguments and run."""
    parser = script.parser("benchmarks.growth", __doc__, scaled="all sizes")
    parser.add_argument("--largest", type=int, default=SIZES[-1], help="leave out larger sizes, before scaling")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="what to measure (default: all)")
    options = script.parse(parser)
    about = script.describe(options)
    other = script.other_core(options.core)
    os.sched_setaffinity(0, {options.core})  # and with it every process started from here
    with script.temporary("growth", options.folder) as folder:
        measured = measure(folder, options.parts, options.largest, options.scale, options.core, other)
    whole = options.scale == 1 and options.parts == PARTS and options.largest >= SIZES[-1]
    results = options.results or (script.RESULTS if whole else None)  # a part is printed only
    write(results, script.record(about, **measured))


if __name__ == "__main__":
    main()
