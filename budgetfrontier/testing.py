"""Tools for tests of programs that use a frontier: a manual clock, crashes, failing commits, Hypothesis strategies."""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING

from budgetfrontier.clock import ManualClock
from budgetfrontier.core.model import CrawlUri, Directive
from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.errors import StorageFull, WrongThread

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["ManualClock", "crash", "crawl_uris", "fail_commit", "urls"]


def crash(frontier: Frontier) -> None:
    """End a frontier as SIGKILL would: lose everything since the last commit, and give no lease back.

    Raises WrongThread for a frontier of another thread.
    """
    guard = frontier._guard
    if guard.closed is None and guard.thread != get_ident():
        raise WrongThread
    guard.close("this frontier was crashed by a test; open it again")


def fail_commit(frontier: Frontier, *, nth: int = 1, error: BaseException | None = None) -> None:
    """Make the `nth` commit from now fail with `error`; by default with StorageFull, as on a full disk.

    The next commit is the first. Raises ValueError for one before that.
    """
    if nth < 1:
        raise ValueError(f"nth is the number of a commit, from 1, not {nth}")
    env = frontier._guard.kernel.tables.env
    commit, left = env.commit, nth

    def failing() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise error or StorageFull()
        commit()

    env.commit = failing  # type: ignore[method-assign]


def urls(*, hosts: int = 5, pages: int = 20) -> SearchStrategy[str]:
    """Return a Hypothesis strategy of valid URLs on a few hosts, so that queues fill and duplicates occur."""
    from hypothesis import strategies as st

    return st.builds(
        "{}://host{}.example/{}{}".format,
        st.sampled_from(("http", "https")),
        st.integers(0, hosts - 1),
        st.integers(0, pages - 1),
        st.sampled_from(("", "?a=1", "?b=2&a=1", "?utm_source=x")),
    )


def crawl_uris(*, hosts: int = 5, pages: int = 20) -> SearchStrategy[CrawlUri]:
    """Return a Hypothesis strategy of CrawlUris with directives, priorities and costs."""
    from hypothesis import strategies as st

    return st.builds(
        CrawlUri,
        urls(hosts=hosts, pages=pages),
        directive=st.sampled_from(Directive),
        priority=st.integers(-3, 3),
        cost=st.none() | st.integers(0, 5),
        via=st.none() | urls(hosts=hosts, pages=pages),
        force=st.booleans(),
    )
