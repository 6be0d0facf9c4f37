"""A job that has come to rest with a queue in each state, stopped, and the same job with an engine running on it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from budgetfrontier import CrawlUri, Frontier, Outcome, Settings
from budgetfrontier.rules.run_history import CRAWL
from budgetfrontier.tools.cli import common, main
from tests.engine_process import running_engine
from tests.support import PATIENCE

SETTINGS = {
    "crawl": "resting",
    "frontier": {
        "commit_interval": 0.02,
        "politeness": {"min_delay": "1h", "max_delay": "1h"},  # one URI of each host, then rest
    },
    "overrides": [{"match": "domain:capped.test", "set": {"queue_total_budget": 0}}],
}


@dataclass
class Answer:
    """What a command came to."""

    code: int
    out: str
    err: str


Cli = Callable[..., Answer]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Run a command in this process, which waits for a running engine however busy the machine is."""
    monkeypatch.setattr(common, "ANSWER_TIMEOUT", PATIENCE)

    def run(*arguments: object) -> Answer:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        return Answer(code, *capsys.readouterr())

    return run


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """The job, with no engine running.

    snoozed.test: SNOOZED with 2 URIs; capped.test: RETIRED, over its total budget, with 3; named.test: RETIRED by name
    with 2; dead.test: EXHAUSTED, its URI dead; gone.test: EXHAUSTED; later.test: a URI for tomorrow.
    """
    job = tmp_path / "job"
    with Frontier.open(job / "frontier", Settings.from_dict(SETTINGS), program=CRAWL) as frontier:
        frontier.schedule_many(f"http://snoozed.test/{n}" for n in range(3))
        frontier.schedule_many(f"http://capped.test/{n}" for n in range(4))
        frontier.schedule_many(f"http://named.test/{n}" for n in range(2))
        frontier.retire("named.test", reason="not what we want", who="alice")
        frontier.schedule_many(["http://dead.test/", "http://gone.test/"])
        frontier.schedule(CrawlUri("http://later.test/", not_before=time.time() + 86_400))
        while leases := frontier.lease(1):
            dead = leases[0].queue == "dead.test"
            frontier.finish(leases[0], Outcome.DEAD if dead else Outcome.SUCCESS, reason="poison" if dead else "")
    return job


@pytest.fixture
def running(stopped: Path) -> Iterator[Path]:
    """The job, with an engine running on it in another process."""
    with running_engine(stopped):
        yield stopped


@pytest.fixture(params=["stopped", "running"])
def job(request: pytest.FixtureRequest) -> Path:
    """The job, once stopped and once running."""
    path: Path = request.getfixturevalue(request.param)
    return path
