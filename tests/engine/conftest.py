"""A small frontier for tests of the engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from budgetfrontier import Frontier
from tests.support import memory, pages


@pytest.fixture
def f() -> Iterator[Frontier]:
    """In memory, with three pages of two hosts."""
    with memory() as frontier:
        frontier.schedule_many(pages("AB", 3))
        yield frontier
