"""A frontier to be damaged, with a queue in every state and every kind of record."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from budgetfrontier import Frontier
from budgetfrontier.clock import ManualClock
from tests.storage.old_frontiers import NEWEST, found_in, unpack


@pytest.fixture(scope="session")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A frontier with a queue in every state and every kind of record, stopped with leases out."""
    path = unpack(NEWEST, tmp_path_factory.mktemp("everything") / "frontier")
    Frontier.open(path, clock=ManualClock(found_in(NEWEST)["now"]), keep_leases=True).close()
    return path


@pytest.fixture
def path(everything: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    copy = tmp_path / "frontier"
    copy.mkdir()
    shutil.copy(everything / "data.mdb", copy)
    shutil.copytree(everything / "removed", copy / "removed")
    return copy
