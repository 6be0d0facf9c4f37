"""Warnings about settings that are valid but unwise."""

from __future__ import annotations

from collections.abc import Iterator

from budgetfrontier.settings.robots_name import is_browser, robots_name
from budgetfrontier.settings.schema import FetchSettings
from budgetfrontier.settings.seed_settings import parallel_note
from budgetfrontier.settings.settings import Settings


def advice(settings: Settings) -> Iterator[str]:
    """Yield warnings about valid but unwise settings, one line each.

    So far, a user agent without a contact address, and one without a name to look for in robots.txt; and budgets and
    sheets of seeds for one of several queues of a host. Raises OSError if a file of seeds cannot be read.
    """
    agent = settings.fetch.user_agent
    if "+http" not in agent and "@" not in agent:
        name = f" is the default, {agent}, and" if agent == FetchSettings().user_agent else f", {agent},"
        yield (f"fetch.user_agent{name} names no contact; add a page or an address, such as +https://example.org/bot")
    if settings.fetch.robots is True and is_browser(name := robots_name(settings.fetch)):
        yield (
            f"fetch.user_agent, {agent}, has no name that sites could give rules to: robots.txt is searched for "
            f'"{name}"; name your crawler, as in "Mozilla/5.0 (compatible; ExampleBot/1.0; +https://example.org/bot)", '
            "or set fetch.robots_name"
        )
    yield from parallel_note(settings)
