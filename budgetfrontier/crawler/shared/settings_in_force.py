"""The settings in force for URIs of a crawl in another process, as of the last look."""

from __future__ import annotations

from collections.abc import Sequence

from budgetfrontier.core.model import Lease
from budgetfrontier.settings import Settings
from budgetfrontier.settings.overrides import Effective, Override, QueueSettings


class CrawlSettingsInForce:
    """The settings of a crawl with its adjustments."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._adjustments: list[Override] = []
        self._effective = Effective(settings.frontier, settings.overrides)

    def __repr__(self) -> str:
        return f"<CrawlSettingsInForce with {len(self._adjustments)} adjustments>"

    def adjust(self, found: Sequence[Override]) -> None:
        """Put adjustments in force, in place of those before."""
        if list(found) != self._adjustments:
            self._adjustments = list(found)
            self._effective = Effective(self._settings.frontier, self._settings.overrides, self._adjustments)

    def for_lease(self, lease: Lease) -> QueueSettings:
        """Return the settings for a leased URI."""
        effective = self._effective
        return effective.base if effective.trivial else effective.for_uri(lease.uri.url, lease.queue)
