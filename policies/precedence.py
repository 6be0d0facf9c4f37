"""Precedence policies: queues with a lower precedence are served first.

The precedence is a setting, so that overrides can raise or lower single hosts.
"""

from __future__ import annotations

from budgetfrontier.core.model import CrawlUri


class Base:
    """The setting `precedence` in force for the URI (Heritrix: BaseQueuePrecedencePolicy)."""

    def __call__(self, uri: CrawlUri, *, precedence: int) -> int:
        return precedence


BUILTIN: dict[str, type] = {"base": Base}
HERITRIX = {"BaseQueuePrecedencePolicy": "base"}
