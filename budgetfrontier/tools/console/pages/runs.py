"""The runs: when each began and ended, how, and why, the newest first."""

from __future__ import annotations

from typing import Any

from budgetfrontier.core.model import Run, RunEnd
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.query import Query

_BAD = (RunEnd.KILLED, RunEnd.ERROR, RunEnd.DISK_FULL)


def build(job: ConsoleJob, query: Query) -> dict[str, Any]:
    """Return the newest runs."""
    found = job.look(lambda operator: operator.runs())
    shown = found[: -query.rows - 1 : -1]
    return {"rows": [(run, _level(run)) for run in shown], "count": found[-1].number if found else 0}


def _level(run: Run) -> str:
    return "bad" if run.end in _BAD else "good" if run.end is None else "past"
