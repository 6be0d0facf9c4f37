"""Resuming a job: whether it belongs to this crawl, and whether its operator knows what a changed scope would cost."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

from budgetfrontier.crawl.cache import CrawlCache
from budgetfrontier.crawl.scope import Scope
from budgetfrontier.crawl.scope_change import PAUSE_REASON, Narrowing, identity, loss
from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.errors import NotAFrontier, ScopeChanged, SettingsError
from budgetfrontier.model import CrawlState
from budgetfrontier.settings import Settings
from budgetfrontier.settings.changes import changes
from budgetfrontier.store.reader import Reader


def stored_settings(path: Path) -> Settings | None:
    """Return the settings of the last run of the frontier at `path`; None if there is none yet."""
    try:
        with Reader(path) as reader:
            return reader.settings
    except NotAFrontier:
        return None


def check_name(stored: Settings, given: Settings, folder: Path) -> None:
    """Raise SettingsError if the job in `folder` is another crawl's. One that nobody named is anybody's."""
    if stored.crawl not in (given.crawl, Settings().crawl):
        raise SettingsError(
            f"{folder} holds the crawl {stored.crawl!r}, and these settings are those of {given.crawl!r}: name another "
            "folder with --job, or, if this is to go on with it under the new name, add --adopt"
        )


def go_on(
    frontier: Frontier,
    path: Path,
    scope: Scope,
    *,
    cache: CrawlCache,
    settings: Settings,
    stored: Settings | None,
    command: str,
    tell: Callable[[str], None],
) -> None:
    """Tell what has changed since the last run; a changed scope counts for what is queued, or its operator is asked.

    That is to pause, and to raise ScopeChanged. `path` is the frontier's, `stored` the settings of the last run. Looks
    at every URI that waits if the scope, its seeds and files included, is not the one that was agreed on last, or if
    nobody has agreed yet: O(URIs), else O(1). It is agreed on by `resume`, and as soon as it takes little.
    """
    for change in changes(stored, settings) if stored else ():
        tell(f"changed since the last run: {change}")
    this, known = identity(settings.scope, scope), cache.scope()
    asked = frontier.summary().pause_reason == PAUSE_REASON
    if known is None:
        changed = stored is not None and (stored.scope, stored.seeds) != (settings.scope, settings.seeds)
    else:
        changed = known != this
    lost = None
    if (changed or asked) and frontier.state is not CrawlState.TERMINATED:
        frontier.commit()  # a reader sees no more than that
        lost = loss(path, scope, tell=tell)
        _steer(frontier, lost, asked=asked)
    if known != this:  # after the pause is on disk: a kill in between asks again
        cache.put_scope(this)
        cache.commit()
    if lost and lost.too_large:
        raise ScopeChanged(_what_to_do(lost, path.parent, command))


def _steer(frontier: Frontier, lost: Narrowing, *, asked: bool) -> None:
    if not lost.too_large:
        if asked:
            frontier.resume(reason="the scope leaves what is queued", who="crawl")
    elif frontier.state is not CrawlState.PAUSED:
        frontier.pause(reason=PAUSE_REASON, who="crawl")
    frontier.commit()


def _what_to_do(lost: Narrowing, folder: Path, command: str) -> str:
    resume = shlex.join(("budgetfrontier", "resume", str(folder)))
    again = f"`{command}`" if command else "the same command"
    return (
        f"the scope has changed, and would disregard {lost}. The crawl is paused, and nothing is lost. To go on with "
        f"this scope: `{resume}`, then {again}. To keep these URIs: change scope and seeds back, or widen them, and "
        f"run {again}"
    )
