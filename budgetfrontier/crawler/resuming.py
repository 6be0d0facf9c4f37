"""Resuming a job: whether it belongs to this crawl, and the operator's consent to a changed scope."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path

from budgetfrontier.core.model import CrawlState
from budgetfrontier.crawler.cache import CrawlCache
from budgetfrontier.crawler.scope_change import ScopeLoss, count_loss, identity
from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.errors import NotAFrontier, ScopeChanged, SettingsError
from budgetfrontier.rules.crawl_states import SCOPE, reason_after_pause
from budgetfrontier.rules.run_history import BUS_WORKER
from budgetfrontier.rules.scope import Scope
from budgetfrontier.settings import Settings
from budgetfrontier.settings.differences import changes, moved_queues
from budgetfrontier.storage.reader import Reader
from budgetfrontier.storage.start_command import start_command


def stored_settings(path: Path) -> tuple[Settings | None, str | None]:
    """Return the settings of the last run of the frontier at `path`, and its suffix list; None if there is none yet.

    Raises SettingsError for the frontier of a database worker, which spiders crawl.
    """
    try:
        with Reader(path) as reader:
            worker = next((run for run in reader.runs() if run.program == BUS_WORKER), None)
            with reader.view() as view:
                settings, suffix_list = view.settings()[0], view.suffix_list()
    except NotAFrontier:
        return None, None
    if worker is not None:
        raise SettingsError(
            f"{path.parent} is crawled by spiders at a message bus: start its database worker again, with "
            f"`{start_command(os.fspath(path.parent), BUS_WORKER)}`, or name another folder with --job"
        )
    return settings, suffix_list


ADOPT = "name another folder with --job, or, if this is to go on with it under the new name, add --adopt"


def check_name(stored: Settings, given: Settings, folder: Path, *, remedy: str = ADOPT) -> None:
    """Raise SettingsError if the job in `folder` is a crawl of another name, unless it has the default name."""
    if stored.crawl not in (given.crawl, Settings().crawl):
        raise SettingsError(
            f"{folder} holds the crawl {stored.crawl!r}, and these settings are those of {given.crawl!r}: {remedy}"
        )


def check_changes(
    frontier: Frontier,
    path: Path,
    scope: Scope,
    *,
    cache: CrawlCache,
    settings: Settings,
    stored: Settings | None,
    command: str,
    say: Callable[[str], None],
) -> None:
    """Report settings that have changed since the last run, and apply a changed scope to the queued URIs.

    If the scope would disregard many of them, the crawl is paused and ScopeChanged raised, so that the operator can
    decide. The operator accepts the scope by `resume`; a scope that disregards few URIs is accepted at once. `path` is
    the frontier's folder, `stored` are the settings of the last run. O(1) if the scope, including its seeds and files,
    is the one accepted last; otherwise O(waiting URIs).
    """
    for change in changes(stored, settings) if stored else ():
        say(f"changed since the last run: {change}")
    if stored and (what := moved_queues(stored.frontier, settings.frontier)):
        say(what)
    this, known = identity(settings.scope, scope), cache.scope()
    paused_for_scope = frontier.summary().pause_reason == SCOPE
    if known is None:
        changed = stored is not None and (stored.scope, stored.seeds) != (settings.scope, settings.seeds)
    else:
        changed = known != this
    loss = None
    if (changed or paused_for_scope) and frontier.state is not CrawlState.TERMINATED:
        frontier.commit()  # a reader sees committed data only
        loss = count_loss(path, scope, say=say)
        _pause_or_resume(frontier, loss, paused_for_scope=paused_for_scope)
    if known != this:  # after the pause is on disk, so that a crash in between repeats the question
        cache.put_scope(this)
        cache.commit()
    if loss and loss.too_large:
        raise ScopeChanged(_instructions(loss, path.parent, command))


def _pause_or_resume(frontier: Frontier, loss: ScopeLoss, *, paused_for_scope: bool) -> None:
    if not loss.too_large:
        if paused_for_scope:
            frontier.resume(reason="the scope leaves what is queued", who="crawl")
    else:
        found = frontier.summary()
        if reason_after_pause(found.state, found.pause_reason, SCOPE) != found.pause_reason:
            frontier.pause(reason=SCOPE, who="crawl")
    frontier.commit()


def _instructions(loss: ScopeLoss, folder: Path, command: str) -> str:
    resume = shlex.join(("budgetfrontier", "resume", str(folder)))
    again = f"`{command}`" if command else "the same command"
    return (
        f"the scope has changed, and would disregard {loss}. The crawl is paused, and nothing is lost. To go on with "
        f"this scope: `{resume}`, then {again}. To keep these URIs: change scope and seeds back, or widen them, and "
        f"run {again}"
    )
