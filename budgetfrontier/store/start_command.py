"""The command that starts a crawl which no process runs."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from budgetfrontier.rules.run_history import SERVE
from budgetfrontier.store.backup import CACHE


def start_command(job: str, program: str = "") -> str | None:
    """Return the command that continues a crawl; None if only the program that created the frontier can.

    `program` is the one that has run it last. None is returned if `job` is itself a frontier and not that of a crawl,
    such as the folder of a LeaseQueue. The command of a crawl has a placeholder for the configuration, whose path is
    not stored; that of a server has none of its options.
    """
    folder = Path(job)
    if program == SERVE:
        job_folder = folder.parent if folder.name == "frontier" else folder
        jobs = job_folder.parent if job_folder.name not in ("", "..") else job_folder.resolve().parent
        return shlex.join(("budgetfrontier", "serve", str(jobs)))
    if spider := _spider(folder):
        return shlex.join(("scrapy", "crawl", spider, "-s", f"JOBDIR={job}"))
    if (folder / "frontier" / "data.mdb").exists() or not (folder / "data.mdb").exists():
        return shlex.join(("budgetfrontier", "crawl", "CONFIG", "--job", job))
    if (folder / CACHE).is_dir():
        return shlex.join(("budgetfrontier", "crawl", "CONFIG", "--job", str(folder.parent)))
    return None


def _spider(folder: Path) -> str | None:
    """Return the name of the spider whose JOBDIR a folder is, or contains it as a frontier; None if there is none."""
    for jobdir in (folder, folder.parent) if folder.name == "frontier" else (folder,):
        try:
            return str(json.loads((jobdir / "budgetfrontier.json").read_bytes())["spider"])
        except (OSError, ValueError, LookupError, TypeError):
            continue
    return None
