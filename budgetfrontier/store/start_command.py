"""The command that starts a crawl which no process runs."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

from budgetfrontier.rules.run_history import SERVE
from budgetfrontier.store.backup import CACHE
from budgetfrontier.store.whole_files import atomic_file

NOTE = "crawl.json"
"""The file of a job's folder that has the path of the crawl's configuration."""


def start_command(job: str, program: str = "") -> str | None:
    """Return the command that continues a crawl; None if only the program that created the frontier can.

    `program` is the one that has run it last. None is returned if `job` is itself a frontier and not that of a crawl,
    such as the folder of a LeaseQueue. The command of a crawl has the path of its configuration as of the last run, or
    a placeholder if that is not known, or nothing is there any more; that of a server has none of its options.
    """
    folder = Path(job)
    if program == SERVE:
        job_folder = folder.parent if folder.name == "frontier" else folder
        jobs = job_folder.parent if job_folder.name not in ("", "..") else job_folder.resolve().parent
        return shlex.join(("budgetfrontier", "serve", str(jobs)))
    if spider := _spider(folder):
        return shlex.join(("scrapy", "crawl", spider, "-s", f"JOBDIR={job}"))
    if (folder / "frontier" / "data.mdb").exists() or not (folder / "data.mdb").exists():
        return _crawl(folder)
    return _crawl(folder.parent) if (folder / CACHE).is_dir() else None


def note_config(job: Path, config: Path) -> None:
    """Note the path of the configuration in the folder of a crawl, for the command that continues it."""
    content = json.dumps({"config": os.path.abspath(config)}).encode()
    path = job / NOTE
    if not path.exists() or path.read_bytes() != content:
        with atomic_file(path) as file:
            file.write(content)


def _crawl(job: Path) -> str:
    """Return the command of a crawl, with a relative path for a configuration below the current folder."""
    config = _noted(job / NOTE, "config")
    if config is None or not os.path.isfile(config):
        config = "CONFIG"
    elif Path(config).is_relative_to(Path.cwd()):
        config = os.path.relpath(config)
    return shlex.join(("budgetfrontier", "crawl", config, "--job", str(job)))


def _spider(folder: Path) -> str | None:
    """Return the name of the spider whose JOBDIR a folder is, or contains it as a frontier; None if there is none."""
    for jobdir in (folder, folder.parent) if folder.name == "frontier" else (folder,):
        if spider := _noted(jobdir / "budgetfrontier.json", "spider"):
            return spider
    return None


def _noted(path: Path, name: str) -> str | None:
    """Return a value of a file; None if there is none, or it cannot be read."""
    try:
        return str(json.loads(path.read_bytes())[name])
    except (OSError, ValueError, LookupError, TypeError):
        return None
