"""The settings in force: what a URI and its queue are run by, with overrides, adjustments and policies made once."""

from __future__ import annotations

import random
from collections.abc import Callable
from math import inf

from budgetfrontier import plugins
from budgetfrontier.model import CrawlUri
from budgetfrontier.settings import Settings
from budgetfrontier.settings.overrides import Effective, Override, QueueSettings

WORST_PRECEDENCE = 0xFFFF


class InForce:
    """Settings and the adjustments on top of them, ready to be asked for each URI; another one for each change."""

    def __init__(self, settings: Settings, adjustments: list[Override]) -> None:
        self.settings = settings
        self.adjustments = adjustments
        self.frontier = frontier = settings.frontier
        self.effective = Effective(frontier, [*settings.overrides, *adjustments])
        self.base = self.effective.base
        self.trivial = self.effective.trivial
        """The same settings for every URI."""
        self._politeness = plugins.resolve("politeness", frontier.politeness_policy)
        self._standard = frontier.politeness_policy == "standard"
        precedence = plugins.resolve("precedence", frontier.precedence_policy)
        self._precedence = None if frontier.precedence_policy == "base" else precedence
        self.fixed_precedence = self.trivial and self._precedence is None
        self._costs: dict[str, Callable[[CrawlUri], int]] = {}
        self.longest_delay = max(map(_longest_delay, self.effective.variants()))
        if frontier.politeness_policy != "standard":  # nobody knows how long a policy of one's own may ask for
            self.longest_delay = inf

    def for_uri(self, url: str, queue: str) -> QueueSettings:
        """The settings for a URI on a queue."""
        return self.base if self.trivial else self.effective.for_uri(url, queue)

    def cost_policy(self, settings: QueueSettings) -> Callable[[CrawlUri], int]:
        """The cost policy that settings name, made once."""
        spec = settings.cost_policy
        name = spec if isinstance(spec, str) else repr(spec)
        policy = self._costs.get(name)
        if policy is None:
            policy = self._costs[name] = plugins.resolve("cost", spec)
        return policy

    def precedence(self, uri: CrawlUri, settings: QueueSettings) -> int:
        """The precedence that a queue takes from a URI, 0 to 65535."""
        if self._precedence is None:
            return settings.precedence
        return min(max(int(self._precedence(uri, precedence=settings.precedence)), 0), WORST_PRECEDENCE)

    def rest(self, settings: QueueSettings, fetch_seconds: float | None, crawl_delay: float | None) -> float:
        """How long a queue rests after a fetch, in seconds."""
        if fetch_seconds is None and crawl_delay is None and self._standard and not settings.jitter:
            return settings.min_delay  # as the policy says, without asking it
        delay = self._politeness(settings, fetch_seconds=fetch_seconds, crawl_delay=crawl_delay, random=random.random)
        return float(delay)


def _longest_delay(settings: QueueSettings) -> float:
    """The longest wait that settings can give a queue, in seconds."""
    politeness = max(settings.max_delay, settings.respect_crawl_delay_up_to, settings.min_delay)
    return max(politeness + settings.jitter, settings.retry_delay)
