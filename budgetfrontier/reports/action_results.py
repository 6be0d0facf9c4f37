"""The results of files that were put into a job's action directory: those that failed are problems of the crawl."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from budgetfrontier.reports.format import clean, counted

ACTION, DONE = "action", "done"
"""The folder of a job, and the folder in it of the files that were applied, or refused."""
RESULT, ERROR = ".result.json", ".error.json"
"""The endings of the results of both."""


def failed(frontier: Path) -> str | None:
    """Return a sentence about the files of a job that failed and whose result is still there; None if none has."""
    if frontier.name != "frontier":  # not that of a crawl
        return None
    done, names = frontier.parent / ACTION / DONE, list[str]()
    with suppress(OSError), os.scandir(done) as entries:
        names = [entry.name for entry in entries if entry.name.endswith(ERROR)]
    if not names:
        return None
    last = max(names, key=lambda name: name.removesuffix(ERROR)[-len("20260101T000000Z") :])
    files = counted(len(names), "file")
    return f"{files} of {ACTION}/ failed: see {clean(os.fspath(done / last))}, and delete that once it is dealt with."
