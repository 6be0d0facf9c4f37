"""Fixtures of the tests of the scheduler for asyncio."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.aio.places import Place


@pytest.fixture(params=["own", "shared", "ahead"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """Makes schedulers of each kind, for tests of what all promise."""
    place = Place(request.param, tmp_path, monkeypatch)
    yield place
    place.close()


@pytest.fixture(params=["own", "shared"])
def exact(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """Makes schedulers that lease nothing ahead."""
    exact = Place(request.param, tmp_path, monkeypatch)
    yield exact
    exact.close()
