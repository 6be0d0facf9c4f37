"""A small frontier for tests of the engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from budgetfrontier import Frontier
from budgetfrontier.engine import lease_table
from tests.support import memory, pages


@pytest.fixture(scope="module")
def same_ids() -> Iterator[None]:
    """Let the ids of leases begin at the same number in each run, for twins: otherwise it is random."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lease_table, "randbits", lambda bits: 0)
        yield


@pytest.fixture
def f() -> Iterator[Frontier]:
    """In memory, with three pages of two hosts."""
    with memory() as frontier:
        frontier.schedule_many(pages("AB", 3))
        yield frontier
