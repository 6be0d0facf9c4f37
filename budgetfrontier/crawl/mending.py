"""What a crawl does when a policy fails on a URL: it pauses, says which policy and URL, and ends until that is mended.

Python does not import a module twice, so that only another run sees the mended policy; it goes on by itself.
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


class Mending:
    """The first failure of a policy in a run, if there was one."""

    def __init__(self) -> None:
        self.failure: PolicyError | None = None

    @contextmanager
    def pausing(self, frontier: Frontier) -> Iterator[None]:
        """Pause the frontier when a policy fails. What it failed in has not happened: that lease is still out."""
        try:
            yield
        except PolicyError as e:
            if self.failure is None:
                self.failure = e
                frontier.pause(reason=f"{_REASON}{e}", who="crawl")

    def end(self) -> None:
        """Raise that failure, at the end of the run."""
        if self.failure is not None:
            raise self.failure
