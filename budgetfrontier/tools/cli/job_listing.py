"""`jobs`: list jobs with the verdict on each, those with problems first."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from budgetfrontier.core.units import format_time
from budgetfrontier.errors import FrontierError
from budgetfrontier.reports.format import clean
from budgetfrontier.tools.cli import common
from budgetfrontier.tools.cli.common import Commands, add_command, add_format, add_page
from budgetfrontier.tools.cli.sentences import note

COLUMNS = ("level", "job", "crawl", "state", "queued", "rate", "last_commit", "verdict", "text")
DROP = ("verdict", "crawl", "last_commit", "state", "rate", "queued")
"""The columns for which a narrow terminal may have no room, the first of them first."""


def register(commands: Commands) -> None:
    """Add the command of this group."""
    parser = add_command(
        commands,
        "jobs",
        jobs,
        "list jobs with the verdict on each, those with problems first",
        more="`level` is the worst of the verdict and of the present problems: bad, warn, good; `text` has both in "
        "words. `rate` is what was fetched a second in the last minute, unknown for a job that no process runs.",
    )
    parser.add_argument(
        "jobs", metavar="JOB", type=Path, nargs="+", help="a job's folder, or a folder of jobs; they may be running"
    )
    add_format(parser)
    add_page(parser)


def jobs(args: argparse.Namespace) -> None:
    """List jobs, the worst first."""
    from budgetfrontier.reports.wrong_now import LEVELS

    rows = sorted(map(_row, folders(args.jobs)), key=lambda row: (LEVELS.index(row["level"]), row["job"]))
    if args.format == "text":
        for row in rows:
            row |= {name: clean(str(row[name])) for name in ("job", "crawl", "text") if row[name] is not None}
            row["rate"] = None if row["rate"] is None else f"{row['rate']:.1f}/s"
            row["last_commit"] = None if row["last_commit"] is None else format_time(row["last_commit"])
    shown = common.page(rows, args)
    common.write_rows(args, ([row[name] for name in COLUMNS] for row in shown), COLUMNS, drop=DROP)


def _row(folder: Path) -> dict[str, Any]:
    """Return the values of a job by column; those of a job that cannot be read are None."""
    from budgetfrontier.reports.wrong_now import worst, wrong_now
    from budgetfrontier.rules.verdict import last_commit
    from budgetfrontier.tools.job_operator import JobOperator

    unknown = dict.fromkeys(COLUMNS) | {"level": "bad", "job": str(folder)}
    try:
        path = common.frontier_path(folder)
        with JobOperator(folder, path) as operator:
            head = operator.head()
    except (FrontierError, OSError) as error:
        return unknown | {"text": str(error)}
    problems, standing = wrong_now(path, head.standing, None), head.standing
    return unknown | {
        "level": worst([head.verdict.level, *(problem.level for problem in problems)]),
        "crawl": head.crawl,
        "state": head.state,
        "queued": head.totals.queued,
        "rate": standing.rate if standing.process.alive else None,
        "last_commit": last_commit(standing),
        "verdict": head.verdict.slug,
        "text": " ".join([head.verdict.text, *(problem.text for problem in problems)]),
    }


def folders(given: list[Path]) -> list[Path]:
    """Return the folders of the jobs, those in a folder of jobs among them. Raises NotAFrontier if there is none.

    Others beside them are passed over, and named: a pattern such as jobs/* matches the files of a server, too.
    """
    found: dict[Path, None] = {}
    passed: list[Path] = []
    for path in given:
        inside = [path] if _is_job(path) else sorted(filter(_is_job, path.iterdir())) if path.is_dir() else []
        found |= dict.fromkeys(inside)
        passed += [] if inside else [path]
    for path in passed:
        if not found or not path.exists():
            common.frontier_path(path)  # raises
        note(f"passed over, for there is no frontier: {path}")
    return list(found)


def _is_job(path: Path) -> bool:
    """Return whether a path is a job's folder, or a frontier itself."""
    return any((folder / "data.mdb").is_file() for folder in (path / "frontier", path))
