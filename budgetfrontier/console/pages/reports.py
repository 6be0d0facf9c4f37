"""The reports: those that the crawl has written, and the frontier report as of now."""

from __future__ import annotations

import shlex
from typing import Any

from budgetfrontier.console.jobs import Job
from budgetfrontier.console.log_files import log_files
from budgetfrontier.console.query import Query

FORMATS = {"text": "txt", "json": "json", "csv": "csv", "html": "html"}
"""The formats of the frontier report, each with the ending of its file."""
TABLE_FORMATS = {"text": "txt", "json": "json", "csv": "csv"}
"""The same for the other kinds of reports."""
KINDS = (
    *("crawl-summary", "seeds", "hosts", "mimetypes", "responsecodes", "sourcetags", "threads"),
    *("rates", "busiest", "forecast"),
)
"""Heritrix's other reports and those over time, by the names that `report --kind` has for them."""


def build(job: Job, query: Query) -> dict[str, Any]:
    """Return the lists of reports."""
    command = shlex.join(("budgetfrontier", "report", str(job.folder)))
    kinds = dict.fromkeys(KINDS, TABLE_FORMATS) | {"frontier": FORMATS}
    return {
        "kinds": {kind: kinds[kind] for kind in ("frontier", *KINDS)},
        "files": log_files(job.folder / "reports"),
        "command": command,
    }
