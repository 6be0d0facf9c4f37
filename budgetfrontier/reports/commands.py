"""Commands that a report proposes to the operator."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from budgetfrontier.model import QueueRecord
from budgetfrontier.store.backup import MEMORY


def start_command(job: str) -> str | None:
    """Return the command that goes on with a crawl; None if only the program that made the frontier can.

    That is so where `job` is a frontier itself and not one of a crawl, as a LeaseQueue makes it. The frontier does not
    know where its configuration is.
    """
    folder = Path(job)
    if spider := _spider(folder):
        return shlex.join(("scrapy", "crawl", spider, "-s", f"JOBDIR={job}"))
    if (folder / "frontier" / "data.mdb").exists() or not (folder / "data.mdb").exists():
        return shlex.join(("budgetfrontier", "crawl", "CONFIG", "--job", job))
    if (folder / MEMORY).is_dir():
        return shlex.join(("budgetfrontier", "crawl", "CONFIG", "--job", str(folder.parent)))
    return None


def _spider(folder: Path) -> str | None:
    """The name of the spider whose JOBDIR a folder is, or that the frontier in it lies in."""
    for jobdir in (folder, folder.parent) if folder.name == "frontier" else (folder,):
        try:
            return str(json.loads((jobdir / "budgetfrontier.json").read_bytes())["spider"])
        except (OSError, ValueError, LookupError, TypeError):
            continue
    return None


def replenish_amount(own: int, of_crawl: int) -> int:
    """Return what a queue gets at its activation: its own amount, or the crawl's where it has none."""
    return own if own > 0 else max(of_crawl, 1)


def revival_command(queue: QueueRecord, job: str, *, replenish: int) -> str:
    """Return the command that brings a RETIRED queue back for one session more; `replenish` is the crawl's amount."""
    more = replenish_amount(queue.balance_replenish_amount, replenish)
    options = []
    if 0 <= queue.total_budget <= queue.expenditure:
        options += ["--total-budget", str(queue.expenditure + more)]
    if queue.balance_replenish_amount <= 0:
        options += ["--replenish", str(more)]
    if queue.by_name or not options:
        dashes = ("--",) if queue.queue.startswith("-") else ()  # a host's name may begin so, and is no option
        return shlex.join(("budgetfrontier", "unretire", job, *dashes, queue.queue))
    return shlex.join(("budgetfrontier", "adjust", job, "--match", f"queue:{queue.queue}", *options))
