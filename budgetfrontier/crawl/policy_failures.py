"""Failures of policies: the crawl pauses, says which policy failed on which URL, and ends.

Python imports a module once, so that only another run sees the policy as it was mended; that run goes on by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.errors import PolicyError

_REASON = "policy: "


def is_for_a_policy(pause_reason: str | None) -> bool:
    """Whether a crawl was paused because a policy failed."""
    return (pause_reason or "").startswith(_REASON)


class PolicyFailures:
    """The first failure of a policy in a run, if there was one."""

    def __init__(self) -> None:
        self.failure: PolicyError | None = None

    @contextmanager
    def pausing(self, frontier: Frontier) -> Iterator[None]:
        """Pause the frontier when a policy fails. The call that failed has changed nothing: its lease is still out."""
        try:
            yield
        except PolicyError as e:
            if self.failure is None:
                self.failure = e
                frontier.pause(reason=f"{_REASON}{e}", who="crawl")

    def end(self) -> None:
        """Raise the failure, at the end of the run."""
        if self.failure is not None:
            raise self.failure
