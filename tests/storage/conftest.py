"""A frontier to be damaged, with a queue in every state and every kind of record."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Frontier
from budgetfrontier.clock import ManualClock
from tests.storage import full_frontier


@pytest.fixture(scope="session")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A frontier with a queue in every state and every kind of record, stopped with leases out."""
    path = tmp_path_factory.mktemp("everything") / "frontier"
    full_frontier.make(path)
    return path


@pytest.fixture(scope="session")
def drained(everything: Path, tmp_path_factory: pytest.TempPathFactory) -> list[list[Any]]:
    """The URIs that are leased from it until it is empty, in order."""
    clock = ManualClock(full_frontier.NOW)
    with Frontier.open(copied(everything, tmp_path_factory.mktemp("drained")), clock=clock) as frontier:
        return full_frontier.drain(frontier, clock)


@pytest.fixture
def path(everything: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return copied(everything, tmp_path)


def copied(everything: Path, folder: Path) -> Path:
    copy = folder / "frontier"
    copy.mkdir()
    shutil.copy(everything / "data.mdb", copy)
    return copy
