"""The command that starts a crawl which no process runs."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from budgetfrontier.rules.run_history import BUS_WORKER, CRAWL, SERVE, WORKER, may_crawl
from budgetfrontier.storage.backup import CACHE
from budgetfrontier.storage.whole_files import atomic_file

NOTE = "crawl.json"
"""The file of a job's folder that has the path of the crawl's configuration, and the other options of its last run."""
SERVED = ".serve.json"
"""The file of a folder of jobs that has the options of the server that served it last."""
ON_BUS = "bus-worker.json"
"""The file of a job's folder that has the options of the database worker that ran on it last."""
AGAIN = "start the program that opened it again, as before"
"""The instruction for a crawl with an unknown start command."""


def start_command(job: str, program: str = "") -> str | None:
    """Return the command that continues a crawl; None if it is not known.

    `program` is the last one that ran it. None is returned if `job` is itself a frontier outside a crawl's folder, such
    as that of a LeaseQueue; for a server without noted options; for a user's own program, unless a crawl has run in the
    folder before; and for a spider that was started neither by `scrapy crawl` nor by `scrapy runspider`, or with
    options that its folder does not show. The command of a crawl has the path of its configuration as of the last run,
    or a placeholder if that is not known or the file is gone.
    """
    folder = Path(job)
    if program == SERVE:
        job_folder = folder.parent if folder.name == "frontier" else folder
        jobs = job_folder.parent if job_folder.name not in ("", "..") else job_folder.resolve().parent
        options = _words(_noted(jobs / SERVED, "options"))
        return None if options is None else shlex.join(("budgetfrontier", "serve", str(jobs), *options))
    if program == BUS_WORKER:
        job_folder = folder.parent if folder.name == "frontier" else folder
        options = _words(_noted(job_folder / ON_BUS, "options"))
        return shlex.join(("budgetfrontier", "bus-worker", str(job_folder), *(options or ("--role", "db"))))
    for jobdir in (folder, folder.parent) if folder.name == "frontier" else (folder,):
        if (noted := _noted(jobdir / "budgetfrontier.json", "spider")) is not None:
            words = _words(_noted(jobdir / "budgetfrontier.json", "command")) if noted else None
            return None if not words else shlex.join(("scrapy", *words, "-s", f"JOBDIR={job}"))
    if (folder / "frontier" / "data.mdb").exists() or not (folder / "data.mdb").exists():
        return _crawl(folder, program)
    return _crawl(folder.parent, program) if (folder / CACHE).is_dir() else None


def note_crawl(job: Path, config: Path, options: Sequence[str] = ()) -> None:
    """Note the path of the configuration and the other options of a crawl, for the command that continues it."""
    _note(job / NOTE, {"config": os.path.abspath(config), "options": options})


def note_server(jobs: Path, options: Sequence[str]) -> None:
    """Note the options of the server of a folder of jobs, for the command that serves it again."""
    _note(jobs / SERVED, {"options": options})


def note_bus_worker(job: Path, options: Sequence[str]) -> None:
    """Note the options of the database worker of a job, for the command that starts it again."""
    _note(job / ON_BUS, {"options": options})


def _note(path: Path, values: dict[str, object]) -> None:
    content = json.dumps(values).encode()
    if not path.exists() or path.read_bytes() != content:
        with atomic_file(path) as file:
            file.write(content)


def _crawl(job: Path, program: str) -> str | None:
    """Return the command of a crawl, with a relative path for a configuration below the current folder."""
    config, options = _noted(job / NOTE, "config"), _words(_noted(job / NOTE, "options")) or []
    if config is None and may_crawl(program) and program not in (CRAWL, WORKER):
        return None
    if not isinstance(config, str) or not os.path.isfile(config):
        config = "CONFIG"
    elif Path(config).is_relative_to(Path.cwd()):
        config = os.path.relpath(config)
    return shlex.join(("budgetfrontier", "crawl", config, "--job", str(job), *options))


def _noted(path: Path, name: str) -> object:
    """Return a value of a file; None if there is none, or it cannot be read."""
    try:
        return json.loads(path.read_bytes())[name]
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _words(noted: object) -> list[str] | None:
    return list(map(str, noted)) if isinstance(noted, list) else None
