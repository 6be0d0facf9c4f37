"""Reports from the engine itself: of a frontier as it is now, run by this process."""

from __future__ import annotations

from pathlib import Path

from budgetfrontier.engine.tables import Tables
from budgetfrontier.rules.verdict import Verdict, verdict
from budgetfrontier.storage.process import process
from budgetfrontier.storage.report import Report, report
from budgetfrontier.storage.standing import standing


def full_report(tables: Tables, now: float) -> Report:
    """Return a report of all queues and totals. O(queues)."""
    view = tables.flushed()
    return report(view, _folder(tables), generated=now, running=process(view, tables.env.path))


def verdict_now(tables: Tables, now: float, rate: float | None) -> Verdict:
    """Return the verdict on the frontier as it is now. O(queues changed since the last commit)."""
    view = tables.flushed()
    found = standing(view, _folder(tables), now=now, running=process(view, tables.env.path))
    found.rate = found.rate if rate is None else rate
    return verdict(found)


def _folder(tables: Tables) -> Path:
    """Return the folder that commands would name; none for a frontier in memory."""
    return Path() if tables.env.memory else tables.env.path
