"""Precedence policies: queues with a lower precedence are served first.

The precedence is a setting, so that overrides can raise or lower single hosts. A built-in policy with a method
`of_queue` adds to it what depends on the queue, with `by_uris` on the precedences of the URIs that it holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from budgetfrontier.core.model import CrawlUri, QueueRecord
from budgetfrontier.errors import PolicyError


class Base:
    """The setting `precedence` in force for the URI (Heritrix: BaseQueuePrecedencePolicy)."""

    def __call__(self, uri: CrawlUri, *, precedence: int) -> int:
        return precedence


class SuccessCounts:
    """One more for each tier of successes that the queue has completed (Heritrix: SuccessCountsQueuePrecedencePolicy).

    `tiers` are numbers of successes, the last of which repeats: with the default, [100, 1000], the precedence is
    `base` for the first 100 successes, 1 more for the next 1,000, and 1 more after each 1,000 from there on. It may be
    text, "100,1000", as in Heritrix. Without `base`, the setting `precedence` is the base.
    """

    def __init__(self, *, tiers: Sequence[int] | str = (100, 1000), base: int | None = None) -> None:
        try:
            given = tiers.split(",") if isinstance(tiers, str) else list(tiers)
            self._tiers = [int(tier) for tier in given if not isinstance(tier, (bool, float))]
        except (TypeError, ValueError):
            given, self._tiers = [], []
        if not self._tiers or len(self._tiers) < len(given) or min(self._tiers) < 1:
            raise PolicyError(f"success-counts: tiers is a list of whole numbers above 0, not {tiers!r:.100}")
        self._base = _checked("success-counts", base)

    def __call__(self, uri: CrawlUri, *, precedence: int) -> int:
        return precedence if self._base is None else self._base

    def of_queue(self, queue: QueueRecord, precedence: int) -> int:
        """Return the precedence of a queue, given that for its successes so far being 0."""
        left = queue.succeeded
        for completed, tier in enumerate(self._tiers):
            if left < tier:
                return precedence + completed
            left -= tier
        return precedence + len(self._tiers) + left // self._tiers[-1]


class HighestUri:
    """`base` plus the lowest precedence of the URIs in the queue (Heritrix: HighestUriQueuePrecedencePolicy).

    Without `base`, the setting `precedence` is the base.
    """

    by_uris: Final = True

    def __init__(self, *, base: int | None = None) -> None:
        self._base = _checked("highest-uri", base)

    def __call__(self, uri: CrawlUri, *, precedence: int) -> int:
        return precedence if self._base is None else self._base

    def of_queue(self, queue: QueueRecord, precedence: int, lowest: int | None) -> int:
        """Return the precedence of a queue whose URIs have `lowest` as their lowest precedence, None if it is empty."""
        return precedence + (lowest or 0)


def _checked(name: str, base: int | None) -> int | None:
    if base is not None and (type(base) is not int or not 0 <= base <= 65535):
        raise PolicyError(f"{name}: base is a whole number from 0 to 65535, not {base!r:.100}")
    return base


BUILTIN: dict[str, type] = {"base": Base, "success-counts": SuccessCounts, "highest-uri": HighestUri}
HERITRIX = {
    "BaseQueuePrecedencePolicy": "base",
    "SuccessCountsQueuePrecedencePolicy": "success-counts",
    "HighestUriQueuePrecedencePolicy": "highest-uri",
}
HERITRIX_OPTIONS = {"incrementCounts": "tiers", "basePrecedence": "base"}
