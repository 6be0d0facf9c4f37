"""Fixtures of the tests of clients."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from budgetfrontier.clock import ManualClock
from tests.remote.served import Served
from tests.support import START, make_settings


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: ManualClock) -> Iterator[Served]:
    with Served(tmp_path, make_settings(), monkeypatch, clock) as served:
        yield served
