"""A frontier much larger than memory: `python -m benchmarks.small_memory --gib 4` measures, as root.

Pages are scheduled until 30 million URLs of three million hosts are pending, in a memory cgroup: LMDB's pages are
evicted and read again there. Each site is as likely as any other, which is the worst case for a B-tree. Rates are links
per second of processor time, million by million, and URIs leased and finished at the end. What makes the pages runs in
the cgroup, too, and has up to 0.1 GiB of it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import script
from benchmarks.growth import Process
from benchmarks.timing import MIB

PENDING = 30_000_000
HOSTS = 3_000_000
STEP = 1_000_000
DRAINED = 1_000_000
CGROUPS = Path("/sys/fs/cgroup")
GIB = 1 << 30


@contextmanager
def limited(gib: float) -> Iterator[None]:
    """Move this process into a memory cgroup of its own, and back at the end. Ends the process if it may not."""
    old = CGROUPS / "memory"
    first = old.is_dir()  # version 1
    home = old if first else CGROUPS
    made = home / f"budgetfrontier-{os.getpid()}"
    try:
        made.mkdir()
        limit = made / ("memory.limit_in_bytes" if first else "memory.max")
        limit.write_text(str(int(gib * GIB)))
        (made / "cgroup.procs").write_text(str(os.getpid()))
    except OSError as error:
        sys.exit(f"no memory cgroup can be made: {error}; run this as root")
    try:
        yield
    finally:
        (home / "cgroup.procs").write_text(str(os.getpid()))
        made.rmdir()


def measure(folder: Path, *, pending: int, hosts: int, step: int, drained: int) -> dict[str, Any]:
    """Return a point for each million links, and what leasing and finishing takes at the end."""
    points = []
    with Process("ours", folder, hosts) as ours:
        ours("seed")
        for size in range(hosts + step, pending + 1, step):
            point = ours("grow_to", size=size)
            points.append(
                {name: point[name] for name in ("pending", "links", "seconds", "cpu_seconds", "peak", "file")}
            )
            rate = point["links"] / point["cpu_seconds"]
            print(f"  {point['pending']:,} pending: {rate:,.0f} links/s, {point['peak']:.0f} MiB", file=sys.stderr)
        drain = ours("drain", count=drained)
        ours("close")
    return {"points": points, "drain": drain}


def table(measured: dict[str, Any]) -> str:
    """Return the curve and the drain as tables in Markdown."""
    rows = [
        "| URLs pending | links/s of processor time | by the clock | anonymous memory, MiB | file, MiB |",
        "| ---: | ---: | ---: | ---: | ---: |",
    ]
    for point in measured["points"]:
        by_cpu, by_clock = point["links"] / point["cpu_seconds"], point["links"] / point["seconds"]
        cells = f"{by_cpu:,.0f} | {by_clock:,.0f} | {point['peak']:.0f} | {point['file'] / MIB:,.0f}"
        rows.append(f"| {point['pending']:,} | {cells} |")
    drain = measured["drain"]
    by_cpu, by_clock = drain["taken"] / drain["cpu_seconds"], drain["taken"] / drain["seconds"]
    told = f"`lease(64)` and `finish_many` then: {by_cpu:,.0f} URIs/s of processor time, {by_clock:,.0f} by the clock"
    return "\n".join([*rows, "", f"{told}; {drain['peak']:.0f} MiB of anonymous memory."])


def main() -> None:
    """Measure, and write the results."""
    parser = script.parser("benchmarks.small_memory", __doc__, scaled="the URLs and hosts")
    parser.add_argument("--gib", type=float, default=4, help="memory of the cgroup (default: 4)")
    options = script.parse(parser)
    about = script.describe(options)
    about["memory of the cgroup"] = f"{options.gib:g} GiB"
    sizes = {"pending": PENDING, "hosts": HOSTS, "step": STEP, "drained": DRAINED}
    with script.temporary("small-memory", options.folder) as room, limited(options.gib):
        measured = measure(room, **{name: int(size * options.scale) for name, size in sizes.items()})
    record = script.record(about, **measured)
    title = f"30 million URLs in {options.gib:g} GiB"
    parts = [table(measured), script.facts(about)]
    script.write(f"small-memory-{options.gib:g}-gib", title, parts, record, options.results or script.RESULTS)


if __name__ == "__main__":
    main()
