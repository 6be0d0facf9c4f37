"""Log lines and stats about the frontier, in addition to Scrapy's own."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from budgetfrontier.core.model import CrawlState, DeadLetter, QueueRecord, QueueState
from budgetfrontier.engine.frontier import Frontier

log = logging.getLogger(__name__)


def log_opening(frontier: Frontier, folder: str | None, spider: Any, *, waiting: int | None) -> None:
    """Log the content of a JOBDIR. `waiting` is the number of requests in a resumed crawl; None for a new one."""
    adapter = logging.LoggerAdapter(log, {"spider": spider})
    if waiting is not None:
        adapter.info("Resuming crawl (%(queuesize)d requests scheduled)", {"queuesize": waiting})
        if frontier.state is CrawlState.PAUSED:
            adapter.warning("The frontier is paused; `budgetfrontier resume %s` goes on", folder)
    if folder and any(path.is_file() for path in Path(folder, "requests.queue").rglob("*")):
        adapter.warning(
            "%s/requests.queue is of Scrapy's own scheduler, and is not read; `budgetfrontier import %s %s` does that",
            *(folder,) * 3,
        )


def log_closing(frontier: Frontier, folder: str | None, spider: Any, stats: Any) -> None:
    """Log and count the queues that are over their budgets when the spider closes."""
    if retired := frontier.summary().queues.get(QueueState.RETIRED, 0):
        stats.set_value("budgetfrontier/retired", retired)
        more = f"; `budgetfrontier report {folder}` lists them" if folder else ""
        log.info("Queues over their budgets: %d%s", retired, more, extra={"spider": spider})


class StatsHook:
    """A frontier hook that logs retired queues and counts dead letters."""

    def __init__(self, stats: Any) -> None:
        self._stats = stats

    def on_retire(self, frontier: Frontier, queue: QueueRecord) -> None:
        log.info("The queue %s is over its budget; requests left in it: %d", queue.queue, queue.queued)

    def on_dead_letter(self, frontier: Frontier, letter: DeadLetter) -> None:
        self._stats.inc_value("budgetfrontier/dead_letters")


def count_request(stats: Any, what: str, storage: str) -> None:
    """Count a request that was "enqueued" or "dequeued", by where it is stored and in all, as Scrapy itself does."""
    stats.inc_value(f"scheduler/{what}/{storage}")
    stats.inc_value(f"scheduler/{what}")


class Size:
    """An object that has nothing but a length."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size
