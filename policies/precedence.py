"""Which queues go first: those of lower precedence. It is a setting, so that overrides lift or lower hosts."""

from __future__ import annotations

from budgetfrontier.model import CrawlUri


class Base:
    """The setting `precedence` as it applies to the URI (Heritrix: BaseQueuePrecedencePolicy)."""

    def __call__(self, uri: CrawlUri, *, precedence: int) -> int:
        return precedence


BUILTIN: dict[str, type] = {"base": Base}
HERITRIX = {"BaseQueuePrecedencePolicy": "base"}
