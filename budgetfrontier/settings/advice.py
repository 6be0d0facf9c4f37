"""What to say about settings that are valid, and yet not what most people want."""

from __future__ import annotations

from collections.abc import Iterator

from budgetfrontier.settings.schema import FetchSettings
from budgetfrontier.settings.settings import Settings


def advice(settings: Settings) -> Iterator[str]:
    """Yield warnings, each a line: that nobody could tell the crawl's owner to stop."""
    agent = settings.fetch.user_agent
    if "+http" not in agent and "@" not in agent:
        name = f" is the default, {agent}, and" if agent == FetchSettings().user_agent else f", {agent},"
        yield (f"fetch.user_agent{name} names no contact; add a page or an address, such as +https://example.org/bot")
