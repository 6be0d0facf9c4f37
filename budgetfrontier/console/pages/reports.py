"""The reports: those that the crawl has written, and the frontier report as of now."""

from __future__ import annotations

import shlex
from typing import Any

from budgetfrontier.console.jobs import Job
from budgetfrontier.console.log_files import log_files
from budgetfrontier.console.query import Query

FORMATS = {"text": "txt", "json": "json", "csv": "csv", "html": "html"}
"""The formats of the frontier report, each with the ending of its file."""


def build(job: Job, query: Query) -> dict[str, Any]:
    """Return the list of reports."""
    command = shlex.join(("budgetfrontier", "report", str(job.folder)))
    return {"files": log_files(job.folder / "reports"), "formats": FORMATS, "command": command}
