"""The move of a URI to another queue, when the queue assignment gives it another key than that of the queue it is on.

With `frontier.defer_to_previous: false` this is asked for the head of a queue before each lease.
"""

from __future__ import annotations

from budgetfrontier.core.model import CrawlUri, QueueRecord
from budgetfrontier.engine.tables import Tables
from budgetfrontier.errors import InvalidUrl
from budgetfrontier.storage.damage import Damage
from budgetfrontier.storage.uri_values import encode_uri, tries, with_tries


def other_key(tables: Tables, queue: QueueRecord, uri: CrawlUri) -> str | None:
    """Return the key that a URI of a queue has now, if it is another one. Raises PolicyError.

    A URI whose key was forced on it stays, and so does one that has no key now.
    """
    if uri.queue is not None:
        return None
    try:
        key = tables.queue_key(uri)
    except InvalidUrl:
        return None
    return None if key == queue.queue else key


def move_head(tables: Tables, queue: QueueRecord, uri: CrawlUri, target: QueueRecord) -> None:
    """Move the head of a queue, which is `uri`, to another queue: to its rank there, with its attempts.

    The counts of the other queue and the states of both are the caller's.
    """
    head = tables.pending.head(queue.id)
    if head is None:
        raise Damage(f"queue {queue.queue} counts {queue.queued} URIs, and holds none")
    place, value = head
    moved = encode_uri(uri, uri.url, target.queue)
    tables.pending.transfer(queue, place, target, with_tries(moved, *tries(value)) if any(tries(value)) else moved)
    tables.seeds.placed(uri, target.queue)
