"""Faults by the hundred, and what became of the frontiers: `make faults`, or `python -m tests.crash.campaign --help`.

Prints a line for each fault, writes the table to benchmarks/results and puts it into docs/explanation/durability.md.
Some faults need root (disks that are mounted) or strace; the table says which were left out. Ends with 1 if anything
was lost, hung, or had no name.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from datetime import date
from pathlib import Path
from random import Random
from typing import NamedTuple

from benchmarks import machine
from tests.crash import clocks, damage, disks, kills, readers, tools
from tests.crash.figures import Figures, Unavailable

REPOSITORY = Path(__file__).parents[2]
RESULTS = REPOSITORY / "benchmarks" / "results"
PAGE = REPOSITORY / "docs" / "explanation" / "durability.md"
PLACE = re.compile(r"(?<=^<!-- table: faults -->\n).*?(?=^<!-- end -->$)", re.MULTILINE | re.DOTALL)
SEED = 20261121


class Fault(NamedTuple):
    """How to do it, how often in the campaign, and how often in everyday tests: enough to come to each place."""

    run: Callable[[Path, Random, int], Figures]
    often: int
    seldom: int


def _slug(name: str) -> str:
    return name.replace(" ", "-")


FAULTS: dict[str, Fault] = {
    "kill-commits": Fault(kills.at_commits, 200, 6),
    "kill-operations": Fault(kills.before_operations, 120, 4),
    "kill-calls": Fault(kills.in_calls, 120, 3),
    "kill-lines": Fault(kills.at_any_line, 120, 3),
    "kill-moments": Fault(kills.at_moments, 120, 3),
    "kill-making": Fault(kills.at_making, 80, 2),
    "kill-opening": Fault(kills.at_opening, 80, 3),
    "kill-adjusting": Fault(kills.at_adjusting, 80, 2),
    "kill-posting": Fault(tools.at_posting, 60, 3),
    "kill-compacting": Fault(tools.at_compacting, 60, 3),
    "kill-backing-up": Fault(tools.at_backing_up, 60, 3),
    "kill-repairing": Fault(tools.at_repairing, 60, 3),
    "power": Fault(disks.power_cuts, 60, 2),
    "power-compacting": Fault(tools.power_while_compacting, 60, 2),
    "power-in-commits": Fault(disks.torn, 120, 3),
    "full": Fault(disks.full, 80, 3),
    "full-adjusting": Fault(disks.full_while_adjusting, 40, 2),
    "full-posting": Fault(tools.full_while_posting, 40, 3),
    "full-compacting": Fault(tools.full_while_compacting, 60, 2),
    "errors": Fault(disks.errors, 80, 3),
    "limited": Fault(disks.limited, 40, 2),
    "read-only": Fault(disks.only_read, 40, 2),
    **{
        f"clock-{_slug(name)}{'-between' * between}": Fault(clocks.jumping(name, between=between), 40, 2)
        for name in clocks.JUMPS
        for between in (False, True)
    },
    "reader-endless": Fault(readers.never_ending, 5, 1),
    "readers-killed": Fault(readers.killed_readers, 300, 12),
    "writers": Fault(readers.racing, 100, 4),
    **{f"damage-{_slug(name)}": Fault(damage.damaged(name), 100, 1) for name in damage.DAMAGES},
}


def run(name: str, folder: Path, *, seed: int = SEED, seldom: bool = False, scale: float = 1.0) -> Figures:
    """Try one fault so often, in an empty folder. Raises Unavailable where this machine cannot do it."""
    fault = FAULTS[name]
    tries = fault.seldom if seldom else max(int(fault.often * scale), 1)
    return fault.run(folder, Random(f"{seed} {name}"), tries)


def table(figures: Iterable[Figures], left_out: dict[str, str], *, folder: Path, seconds: float) -> str:
    """The table in Markdown, with the machine and a sum of all kills."""
    rows = list(figures)
    lines = ["| fault | tried | ended with a named error | whole again | lost, hung or unnamed |"]
    lines += ["| --- | ---: | ---: | ---: | ---: |"]
    for row in rows:
        lines.append(f"| {row.fault} | {row.tried:,} | {row.named:,} | {row.whole:,} | {len(row.problems):,} |")
    killed = sum(row.tried for row in rows if row.fault.startswith("SIGKILL"))
    lines.append(
        f"| **all {len(rows)} faults** ({killed:,} of them SIGKILL) | {sum(row.tried for row in rows):,} | "
        f"{sum(row.named for row in rows):,} | {sum(row.whole for row in rows):,} | "
        f"{sum(len(row.problems) for row in rows):,} |"
    )
    notes = [
        f"- {row.fault}: " + ", ".join(f"{count:,} {note}" for note, count in sorted(row.notes.items()))
        for row in rows
        if row.notes
    ]
    notes += [f"- left out: {name} ({why})" for name, why in left_out.items()]
    about = (
        f"{date.today()}, commit {machine.commit()}: {machine.processor()}, {machine.file_system(folder)} and what is "
        f"mounted on it, LMDB {machine.lmdb_version()}, {seconds:.0f} s."
    )
    return "\n".join([*lines, "", "Of these:", "", *notes, "", about, ""])


def main(argv: list[str] | None = None) -> int:
    """Run the campaign; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.campaign", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=FAULTS, metavar="FAULT", help=f"some of: {', '.join(FAULTS)}")
    parser.add_argument(
        "--scale",
        type=float,
        default=1.0,
        help="how often, as a multiple of what is usual; only 1 and more are put on record",
    )
    parser.add_argument("--seed", type=int, default=SEED, help="for other random choices")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="a folder on the disk to use")
    args = parser.parse_args(argv)
    figures, left_out, began = [], {}, time.monotonic()
    for name in args.only or FAULTS:
        folder = Path(tempfile.mkdtemp(prefix="faults-", dir=args.folder))
        try:
            row = run(name, folder, seed=args.seed, scale=args.scale)
        except Unavailable as reason:
            left_out[name] = str(reason)
            print(f"{name}: left out: {reason}", flush=True)
            continue
        finally:
            shutil.rmtree(folder)
        figures.append(row)
        print(f"{row.fault}: {row.tried} tried, {row.named} named, {row.whole} whole", flush=True)
        for problem in row.problems:
            print(f"  {problem}", file=sys.stderr, flush=True)
    text = table(figures, left_out, folder=args.folder, seconds=time.monotonic() - began)
    print(f"\n{text}")
    if args.only is None and args.scale >= 1:
        (RESULTS / f"faults-{date.today()}.md").write_text(text, encoding="utf-8")
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(PLACE.sub(lambda _: f"\n{text}\n", page), encoding="utf-8")
    return int(any(row.problems for row in figures))


if __name__ == "__main__":
    sys.exit(main())
