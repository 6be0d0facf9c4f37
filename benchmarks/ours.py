"""Access to our frontier beyond its API: settings without politeness, numbers of commits, sizes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import disk
from budgetfrontier import Frontier, Settings
from budgetfrontier.storage.environment import Environment, opened_here


def impatient(**frontier: Any) -> Settings:
    """Return the default settings with the given changes, and without politeness unless it is given."""
    politeness = {"min_delay": 0, "delay_factor": 0, "max_delay": 0}
    return Settings.from_dict({"frontier": {"politeness": politeness} | frontier})


def last_commit(path: str | Path) -> Callable[[], int]:
    """Return a function that returns the number of the last commit of the frontier open at `path` in this process."""
    env = _environment(path).env
    return lambda: int(env.info()["last_txnid"])


def sizes(frontier: Frontier, path: str | Path) -> dict[str, Any]:
    """Return how much is stored, and in how many bytes: of the file, and of the pages in use by table."""
    environment, summary = _environment(path), frontier.summary()
    return {
        "pending": summary.queued,
        "seen": summary.seen,
        "queues": sum(summary.queues.values()),
        "file": disk.file_size(Path(path)),
        "live": disk.live(environment.txn, environment.db),
    }


def _environment(path: str | Path) -> Environment:
    environment = opened_here(Path(path))
    assert environment is not None, path
    return environment
