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


def test_an_agent_without_a_name_of_its_own_is_warned_of() -> None:
    browser = {"user_agent": "Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 (+https://example.org/bot)"}
    [line] = advice(Settings.from_dict({"fetch": browser}))
    assert 'robots.txt is searched for "mozilla"' in line and "fetch.robots_name" in line
    assert not [*advice(Settings.from_dict({"fetch": browser | {"robots_name": "ExampleBot"}}))]
    assert not [*advice(Settings.from_dict({"fetch": browser | {"robots": "ignore"}}))]
