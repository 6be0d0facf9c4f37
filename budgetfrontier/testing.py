"""For tests, ours and those of users: a clock that is moved by hand, and a crash without a process to kill."""

from __future__ import annotations

from budgetfrontier.clock import ManualClock
from budgetfrontier.engine.frontier import Frontier

__all__ = ["ManualClock", "crash"]


def crash(frontier: Frontier) -> None:
    """End a frontier as SIGKILL would: nothing since the last commit is kept, no lease is given back."""
    frontier._session.shut("this frontier was crashed by a test; open it again")
