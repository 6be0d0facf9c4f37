"""Failures of policies: the crawl is paused with the failing policy and URL as the reason, and the run ends.

Python imports a module only once, so that a corrected policy takes effect in the next run, which resumes by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from budgetfrontier.errors import PolicyError
from budgetfrontier.rules.crawl_states import POLICY

if TYPE_CHECKING:
    from budgetfrontier.crawler.frontiers import CrawlFrontier


def is_policy_failure(pause_reason: str | None) -> bool:
    """Return whether a crawl was paused because a policy failed, by its pause reason."""
    return (pause_reason or "").startswith(POLICY)


class PolicyFailures:
    """The first failure of a policy in a run, if any."""

    def __init__(self) -> None:
        self.failure: PolicyError | None = None

    @contextmanager
    def pausing(self, frontier: CrawlFrontier) -> Iterator[None]:
        """Pause the frontier if a policy fails in this context; the error is kept in `failure`, and not raised.

        The call that failed has changed nothing: its lease is still out.
        """
        try:
            yield
        except PolicyError as e:
            if self.failure is None:
                self.failure = e
                frontier.pause(reason=f"{POLICY}{e}", who="crawl")

    def raise_failure(self) -> None:
        """Raise the failure, if there was one. Called at the end of the run."""
        if self.failure is not None:
            raise self.failure
