"""The demonstration: a crawl with budgets pauses at its finish, one budget is raised, and the crawl continues."""

from __future__ import annotations

import shlex
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path

from budgetfrontier.core.model import CrawlState, QueueState
from budgetfrontier.crawler.demo import web
from budgetfrontier.crawler.demo.loopback import Loopback
from budgetfrontier.crawler.job import crawl
from budgetfrontier.crawler.progress import ProgressDisplay
from budgetfrontier.engine.remote import steer
from budgetfrontier.errors import FrontierError
from budgetfrontier.reports import text
from budgetfrontier.settings import Settings
from budgetfrontier.storage.report import Report

RAISED = 100
_LISTED = 8


def demo(job: Path | None) -> int:
    """Crawl the synthetic web in a new job folder (None: a temporary one, which is kept); return the exit code.

    Prints the reports and one line about each step to stdout, and the progress to stderr.
    """
    folder = job or Path(tempfile.mkdtemp(prefix="budgetfrontier-demo-"))
    if (folder / "frontier").exists():
        raise FrontierError(f"{folder} holds a crawl already; name a new folder, or remove this one")
    with serve() as addresses:
        settings = _settings(addresses)
        budget = settings.frontier.queue_total_budget
        _say(f"{len(web.HOSTS)} hosts on {addresses['*.test']}; each may spend {budget}; the job is in {folder}")
        if not _crawl(settings, folder):
            return 1
        _report_stop(folder, "every site is crawled; the traps are over their budget, and retired with all they hold")
        change = {"match": f"queue:{web.CALENDAR}", "set": {"queue_total_budget": RAISED}}
        steer(folder / "frontier", "adjust", change, who="demo", reason="a second look at the calendar")
        _say(f"adjusted: {web.CALENDAR} may spend {RAISED} in all; the crawl goes on")
        if not _crawl(settings, folder):
            return 1
        _report_stop(folder, f"{web.CALENDAR} spent what it was given and is retired again; {web.SHOP} was not tried")
    _say("the synthetic web has ended, and cannot be crawled further; the job is kept to be looked at:")
    for command, *more in (("queues",), ("explain", web.CALENDAR), ("audit",), ("runs",), ("console",)):
        print("     ", shlex.join((_program(), command, str(folder), *more)))
    return 0


def _crawl(settings: Settings, folder: Path) -> bool:
    """Crawl until the pause at the finish; return False if the crawl was interrupted."""
    crawl(settings, folder, progress=ProgressDisplay(every=5.0))
    return Report.read(folder / "frontier").state is CrawlState.PAUSED


def _program() -> str:
    """Return the command of this program in the user's shell: the environment of `make demo` may be inactive."""
    called = Path(sys.argv[0])
    return str(called) if called.name == "budgetfrontier" and not shutil.which(called.name) else "budgetfrontier"


def _report_stop(folder: Path, what: str) -> None:
    report = Report.read(folder / "frontier")
    print(text.render(report, limit=_LISTED))
    retired = ", ".join(row.queue for row in report.queues if row.state is QueueState.RETIRED)
    _say(f"paused: {what} (retired: {retired})")


def _say(line: str) -> None:
    print(f"==> {line}", flush=True)


@contextmanager
def serve() -> Iterator[dict[str, str]]:
    """Serve the synthetic web; yield the value of `fetch.resolve` for its hosts."""
    with Loopback(web.respond) as server, socket.socket() as refusing:
        refusing.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        yield {web.DOWN: f"127.0.0.1:{refusing.getsockname()[1]}", "*.test": server.address}


def _settings(addresses: dict[str, str]) -> Settings:
    with as_file(files("budgetfrontier.settings") / "config" / "demo.yaml") as path:
        settings = Settings.from_yaml(path)
    chosen = settings.to_dict()
    chosen["fetch"]["resolve"] = addresses
    return Settings.from_dict(chosen)
