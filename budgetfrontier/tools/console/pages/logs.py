"""The logs: the last lines of a file, and those before them."""

from __future__ import annotations

from typing import Any

from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.log_files import before, log_files
from budgetfrontier.tools.console.query import NotThere, Query

LINES = 200
_LONGEST = 2000  # characters of a line


def build(job: ConsoleJob, query: Query) -> dict[str, Any]:
    """Return the end of a log, or the lines before a byte of it that contain a text."""
    folder = job.folder / "logs"
    files, text = log_files(folder), query.text("q")
    name = query.text("file") or next((file.name for file in files if file.name == "crawl.log"), "")
    name = name or (files[0].name if files else "")
    end = query.number("before", 0, most=1 << 62)
    context: dict[str, Any] = {"files": files, "file": name, "q": text, "lines": [], "earlier": None, "end": end}
    if not files:
        return context
    if name not in {file.name for file in files}:
        raise NotThere(f"There is no file {name[:200]!r} in the logs of this job.")
    piece = before(folder, name, end or None)
    lines = [line for line in piece.lines if text in line]
    start = piece.start
    if not text and len(lines) > LINES:
        start += sum(len(line.encode("utf-8", "replace")) + 1 for line in lines[:-LINES])
        lines = lines[-LINES:]
    shown = [line if len(line) <= _LONGEST else line[:_LONGEST] + "…" for line in lines]
    return context | {"lines": shown, "earlier": {"before": start} if start else None, "read": len(piece.lines)}
