"""Crawlers that look often what has changed, so that tests do not wait for it."""

from __future__ import annotations

import pytest

from budgetfrontier.core import leasing_ahead
from budgetfrontier.crawler.shared import leasing_frontier


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leasing_ahead, "LEASE_WAIT", 0.1)
    monkeypatch.setattr(leasing_frontier, "LOOK_EVERY", 0.1)
