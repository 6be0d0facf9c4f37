"""Warnings about settings that are valid but unwise."""

from __future__ import annotations

import pytest

from budgetfrontier.settings import Settings
from budgetfrontier.settings.advice import advice


@pytest.mark.parametrize("agent", ["Bot/1.0 (+https://example.org/bot)", "Bot/1.0 (bot@example.org)"])
def test_a_user_agent_with_a_contact_is_no_matter(agent: str) -> None:
    assert list(advice(Settings.from_dict({"fetch": {"user_agent": agent}}))) == []


def test_one_without_is_warned_of_and_the_default_named() -> None:
    [line] = advice(Settings())
    assert "is the default" in line and "names no contact" in line
    [line] = advice(Settings.from_dict({"fetch": {"user_agent": "Bot/1.0"}}))
    assert "Bot/1.0" in line and "is the default" not in line
