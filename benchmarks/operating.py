"""What operators' commands cost at a million queues: `python -m benchmarks.operating` measures, and writes
`results/operating-*`.

A stopped frontier with a million queues is made, unless `--frontier` names one. Each command runs in a process of its
own, with its output thrown away. Those that change something come last, each followed by its undo. `--version` is the
start of the interpreter and of the command line. At the end, ten overrides and three adjustments are put in force, and
what passes over all queues is measured again: few queues have had a turn since then.
"""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from benchmarks import script
from benchmarks.command import Measured, measure
from benchmarks.console import QUEUES, change_settings, fill
from budgetfrontier import Reader

LOOKS = (
    "--version",
    "report {job}",
    "report {job} --kind busiest",
    "report {job} --kind rates",
    "report {job} --kind forecast",
    "queues {job}",
    "queues {job} --state RETIRED",
    "queues {job} --state RETIRED --limit 0",
    "queues {job} --over-budget",
    "queues {job} --sort expenditure",
    "queue {job} host7.example7.test",
    "traps {job}",
    "explain {job} host7.example7.test",
    "explain {job} https://host7.example7.test/section0/page0",
    "leases {job}",
    "runs {job}",
    "audit {job}",
    "adjust {job} --list",
    "top {job} --once",
    "adjust {job} --match host:host7.example7.test --total-budget 500 --dry-run",
    "adjust {job} --match * --total-budget 500 --dry-run",
)
PASSES = (
    "report {job}",
    "report {job} --format json",
    "report {job} --kind forecast",
    "queues {job} --over-budget",
    "queues {job} --sort expenditure",
    "traps {job}",
    "top {job} --once",
)
"""Commands that pass over all queues, run with overrides and adjustments."""
DELETED = "host8.example8.test"
CHANGES = (
    "adjust {job} --match * --total-budget 500",
    "undo {job} LAST",
    "retire {job} host7.example7.test",
    "undo {job} LAST",
    f"delete {{job}} --queue {DELETED}",
    "undo {job} LAST",
)
""""LAST" is the number of the newest entry of the audit."""


def run(frontier: Path, commands: tuple[str, ...], note: str = "") -> dict[str, Measured]:
    """Run commands on a frontier, and return what each costs; `note` is added to their names."""
    found: dict[str, Measured] = {}
    for command in commands:
        with Reader(frontier) as reader:
            last = reader.audit(limit=1)
        number = str(last[-1].id) if last else "none"
        name = f"{len(found) + 1}. {command.format(job='JOB')}{note}"
        found[name] = measure(*(number if word == "LAST" else word for word in command.format(job=frontier).split()))
    return found


def table(found: dict[str, Measured]) -> str:
    """Return the costs as a table in Markdown."""
    rows = ["| command | seconds | of processor time | MiB resident | of them anonymous |", "| --- |" + " --- |" * 4]
    for name, cost in found.items():
        figures = (f"{cost.passed:.2f}", f"{cost.processor:.2f}", f"{cost.memory:.0f}", f"{cost.anonymous:.0f}")
        rows.append(f"| `{name}` | {' | '.join(figures)} |")
    return "\n".join(rows)


def main() -> None:
    """Measure, and write the results."""
    parser = script.parser("benchmarks.operating", __doc__, scaled="the queues")
    parser.add_argument("--frontier", type=Path, help="a frontier of `benchmarks.console`, instead of a new one")
    options: Namespace = script.parse(parser)
    about = script.describe(options)
    with script.temporary("operating", options.folder) as room:
        frontier = options.frontier or room / "frontier"
        if options.frontier is None:
            fill(frontier, int(QUEUES * options.scale))
        found = run(frontier, LOOKS + CHANGES)
        change_settings(frontier)
        found |= run(frontier, PASSES, ", with overrides")
    record = script.record(about, measured={name: cost._asdict() for name, cost in found.items()})
    parts = [table(found), script.facts(about)]
    script.write("operating", "Commands of operators", parts, record, options.results or script.RESULTS)


if __name__ == "__main__":
    main()
