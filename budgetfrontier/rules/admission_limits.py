"""The limits on how many URIs may be queued, and which URIs they do not hold up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from budgetfrontier.model import Directive
from budgetfrontier.rules.uri_outcomes import comes_again

if TYPE_CHECKING:
    from budgetfrontier.model import CrawlUri


def is_full(count: int, limit: int) -> bool:
    """Whether a queue, or the frontier, takes no further URI. A limit of 0 is none."""
    return 0 < limit <= count


def may_overfill(uri: CrawlUri | None, via: CrawlUri | None) -> bool:
    """Whether a URI is admitted over all limits.

    A prerequisite is, such as robots.txt, for what fills the queue waits for it; so is a revisit, for it takes the
    place of the URI that is finished.
    """
    return uri is not None and ((uri.force and uri.directive is Directive.HIGHEST) or comes_again(uri, via))
