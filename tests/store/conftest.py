"""A frontier to be damaged, with a queue in every state and every kind of record."""

from __future__ import annotations

import lzma
import shutil
from pathlib import Path

import pytest

from budgetfrontier import Frontier
from budgetfrontier.clock import ManualClock
from tests.store.test_migrations import DATA, FOUND


@pytest.fixture(scope="session")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A frontier with a queue in every state and every kind of record, stopped with leases out."""
    path = tmp_path_factory.mktemp("everything") / "frontier"
    path.mkdir()
    (path / "data.mdb").write_bytes(lzma.decompress((DATA / "frontier-v1.mdb.xz").read_bytes()))
    Frontier.open(path, clock=ManualClock(FOUND["now"]), keep_leases=True).close()
    return path


@pytest.fixture
def path(everything: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    copy = tmp_path / "frontier"
    copy.mkdir()
    shutil.copy(everything / "data.mdb", copy)
    return copy
