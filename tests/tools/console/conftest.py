"""A job with something on every page, and a console that answers without a socket of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pytest
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.web import Application, Request

from budgetfrontier import CrawlUri, Directive, Frontier, Outcome, Settings
from budgetfrontier.core.endpoints.tokens import TokenFile
from budgetfrontier.tools.console import app, made_by_commands
from budgetfrontier.tools.console.access import Access
from budgetfrontier.tools.console.api import api_routes
from budgetfrontier.tools.console.app import Console
from budgetfrontier.tools.console.jobs import ConsoleJob, named
from tests.engine_process import running_engine
from tests.forked import ForkedCommand, begin_forked
from tests.support import PATIENCE, token_file

_T = TypeVar("_T")
Client = TestClient[Request, Application]
Visit = Callable[[Client, Console], Awaitable[_T]]

TOKEN = "a token for the tests"

SETTINGS: dict[str, Any] = {
    "crawl": "resting",
    "seeds": ["http://snoozed.test/0?page=0", "http://dead.test/", "http://never.test/"],
    "frontier": {
        "commit_interval": 0.02,
        "cost_policy": "wag",
        "politeness": {"min_delay": "1h", "max_delay": "1h"},
    },
    "overrides": [{"match": "domain:capped.test", "set": {"queue_total_budget": 0}}],
}


@pytest.fixture(autouse=True)
def _waits_for_scans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pages and answers wait for their scan as long as a busy machine needs for it."""
    monkeypatch.setattr(app, "_FORESEEN", PATIENCE)
    monkeypatch.setattr(api_routes, "_PATIENCE", PATIENCE)


@pytest.fixture(params=["stopped", "running"])
def steered(request: pytest.FixtureRequest, job: Path) -> Iterator[Path]:
    """The job, once stopped and once with an engine running on it in another process."""
    if request.param == "stopped":
        yield job
        return
    with running_engine(job):
        yield job


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages wait for what commands make for them, however busy the machine is."""
    monkeypatch.setattr(made_by_commands, "SHORT", PATIENCE)


@pytest.fixture
def forked_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork what the console of a test begins: scans, dry runs, commands and reports."""
    monkeypatch.setattr(asyncio, "create_subprocess_exec", begin_forked)
    monkeypatch.setattr(made_by_commands, "Popen", ForkedCommand)


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A stopped job.

    snoozed.test: SNOOZED with 40 URIs; capped.test: RETIRED, over its total budget, with 3; named.test: RETIRED by name
    with 2; dead.test: EXHAUSTED, its URI dead; later.test: a URI for tomorrow.
    """
    folder = tmp_path / "job"
    with Frontier.open(folder / "frontier", Settings.from_dict(SETTINGS)) as frontier:
        frontier.schedule_many(CrawlUri(url, directive=Directive.MEDIUM) for url in SETTINGS["seeds"][:2])
        frontier.schedule_many(f"http://snoozed.test/{n}?page={n}" for n in range(1, 41))
        frontier.schedule_many(f"http://capped.test/{n}" for n in range(4))
        frontier.schedule_many(f"http://named.test/{n}" for n in range(2))
        frontier.retire("named.test", reason="not what we want", who="alice")
        frontier.schedule(CrawlUri("http://later.test/", not_before=time.time() + 86_400))
        while leases := frontier.lease(1):
            dead = leases[0].queue == "dead.test"
            frontier.finish(leases[0], Outcome.DEAD if dead else Outcome.SUCCESS, reason="poison" if dead else "")
    return folder


def jobs_at(*folders: Path) -> list[ConsoleJob]:
    """The jobs of a console."""
    return named([(folder, folder / "frontier") for folder in folders])


def visit(folders: Path | tuple[Path, ...], act: Visit[_T], *, token: str | None = None) -> _T:
    """Let `act` use a console of some jobs, as a browser that follows no redirects by itself."""
    places = folders if isinstance(folders, tuple) else (folders,)

    async def run() -> _T:
        console = Console(jobs_at(*places), Access(None if token is None else TokenFile(token_file(Path(room), token))))
        async with TestClient(TestServer(console.application())) as client:
            return await act(client, console)

    with TemporaryDirectory() as room:
        return asyncio.run(run())


def get(folders: Path | tuple[Path, ...], path: str, **options: Any) -> tuple[int, str]:
    """The status and the text of one page."""

    async def act(client: Client, console: Console) -> tuple[int, str]:
        async with client.get(path, allow_redirects=False, **options) as answer:
            return answer.status, await answer.text()

    return visit(folders, act)
