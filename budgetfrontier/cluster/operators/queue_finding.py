"""The queues of a crawl in partitions, found by their owners: one by its key, or the first in an order."""

from __future__ import annotations

from collections.abc import Mapping

from budgetfrontier.cluster.operators.crawl_owners import CrawlOwners
from budgetfrontier.cluster.operators.inspection import FoundQueue, QueueRow, RowPage
from budgetfrontier.core.model import QueueRecord
from budgetfrontier.reports.format import clean
from budgetfrontier.reports.operators import NoSuchQueue, Selection
from budgetfrontier.storage.view import PendingUri


def asked(owners: CrawlOwners, key: str, *, limit: int | None = 1, spread: bool = False) -> FoundQueue:
    """Return what the owner of its partition knows of a queue. Raises ConnectionLost."""
    number = owners.partition_of_queue(key)
    return owners.ask_one(number, "queue", FoundQueue, key=key, limit=limit, spread=spread)


def queue(owners: CrawlOwners, key: str, *, limit: int | None, spread: bool) -> tuple[QueueRecord, list[PendingUri]]:
    """Return a queue with some of its URIs, given its key, a URL, or another spelling of its host."""
    found = asked(owners, key, limit=limit, spread=spread)
    if found.queue is None:
        others = _asked_all(owners, key)
        meant = next((one.meant for one in others.values() if one.is_sure), None)
        if meant is not None:
            found = asked(owners, meant, limit=limit, spread=spread)
        if found.queue is None:
            raise _no_queue(owners, key, others)
    return found.queue, found.pending


def key_of(owners: CrawlOwners, key: str) -> str:
    """Return the key of a queue that is given in any spelling of its host. Raises NoSuchQueue."""
    found = asked(owners, key)
    if found.queue is None:
        raise _no_queue(owners, key, _asked_all(owners, key))
    return found.queue.queue


def best(owners: CrawlOwners, selection: Selection, *, sort: str, reverse: bool, count: int) -> list[QueueRow]:
    """Return the first `count` of the selected queues, sorted by a column. Each owner sends its best ones only.

    Raises ConnectionLost if none answers.
    """
    rows: list[QueueRow] = []
    wanted = dict.fromkeys(range(owners.partitions), 0)
    while wanted:
        offset = min(wanted.values())
        numbers = [number for number, at in wanted.items() if at == offset]
        found = owners.ask(
            "best", RowPage[QueueRow], of=numbers, selection=selection, sort=sort, reverse=reverse, offset=offset,
            count=count - offset,
        )  # fmt: skip
        for number in numbers:
            page = found.get(number) or RowPage([])
            rows += page.rows
            wanted[number] = count if page.rest is None else page.rest
        wanted = {number: at for number, at in wanted.items() if at < count}
    owners.check_any()
    rows.sort(key=lambda row: getattr(row[0], sort), reverse=reverse)
    return rows[:count]


def _asked_all(owners: CrawlOwners, key: str) -> dict[int, FoundQueue]:
    return owners.ask("queue", FoundQueue, key=key, limit=1, spread=False)


def _no_queue(owners: CrawlOwners, key: str, others: Mapping[int, FoundQueue]) -> NoSuchQueue:
    near = next((f"; did you mean {clean(one.meant)}?" for one in others.values() if one.meant), "")
    return NoSuchQueue(key, near, owners.job)
