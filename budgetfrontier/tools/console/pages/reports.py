"""The reports: those that the crawl has written, and the frontier report as of now."""

from __future__ import annotations

import shlex
from typing import Any

from budgetfrontier.reports.kinds import CONTENTS, formats
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.log_files import log_files
from budgetfrontier.tools.console.query import Query


def build(job: ConsoleJob, query: Query) -> dict[str, Any]:
    """Return the lists of reports."""
    command = shlex.join(("budgetfrontier", "report", str(job.folder)))
    return {
        "kinds": [(kind, has, formats(kind)) for kind, has in CONTENTS.items()],
        "files": log_files(job.folder / "reports"),
        "command": command,
    }
