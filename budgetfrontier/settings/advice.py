"""Warnings about settings that are valid but unwise."""

from __future__ import annotations

from collections.abc import Iterator

from budgetfrontier.settings.schema import FetchSettings
from budgetfrontier.settings.settings import Settings


def advice(settings: Settings) -> Iterator[str]:
    """Yield warnings about valid but unwise settings, one line each: so far, a user agent without a contact address."""
    agent = settings.fetch.user_agent
    if "+http" not in agent and "@" not in agent:
        name = f" is the default, {agent}, and" if agent == FetchSettings().user_agent else f", {agent},"
        yield (f"fetch.user_agent{name} names no contact; add a page or an address, such as +https://example.org/bot")
