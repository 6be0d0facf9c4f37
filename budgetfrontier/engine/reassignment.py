"""The consequences if the key that a URI has now is not that of the queue on which it waits.

The waits of its host go along: the queue of the other key takes them. With `frontier.defer_to_previous: false`, the
head of a queue is asked for its key before each lease, and moves if that is another one.
"""

from __future__ import annotations

from collections.abc import Callable

from budgetfrontier.core.model import CrawlUri, QueueRecord
from budgetfrontier.engine.tables import Tables
from budgetfrontier.errors import InvalidUrl, PolicyError
from budgetfrontier.rules import wake_times
from budgetfrontier.rules.backoff import BackOff
from budgetfrontier.rules.wake_times import Waits
from budgetfrontier.settings.overrides import QueueSettings
from budgetfrontier.storage.damage import Damage
from budgetfrontier.storage.uri_values import encode_uri, shorten, tries, with_tries

Move = tuple[str, QueueSettings | None, int | None]
"""The key of the queue that a URI moves to, and the settings and the precedence that this queue takes from it.

Without settings, the URI stays, and its queue waits as long as that of the key.
"""


class Reassignment:
    """Moves URIs whose key has changed, and lets the waits of their hosts go along. O(1) each.

    Nothing of it is asked unless `Tables.reassigns`, but for addresses that are reported.
    """

    def __init__(
        self,
        tables: Tables,
        wait: Callable[[QueueRecord, Waits, float], None],
        arrived: Callable[[QueueRecord, int, str, QueueSettings, int | None, float], None],
        deleted: Callable[[QueueRecord], None],
    ) -> None:
        self._tables = tables
        self._wait = wait
        self._arrived = arrived
        self._deleted = deleted

    # -- the turn of a queue

    def asked(self, queue: QueueRecord, uri: CrawlUri, now: float) -> Move | None:
        """Return where the head of a READY queue, `uri`, goes instead of being leased; None if it may be leased.

        A URI whose key was forced on it may be leased, and so may one that has no key now. Raises PolicyError.
        """
        if uri.queue is not None:
            return None
        try:
            key = self._tables.queue_key(uri)
        except InvalidUrl:
            return None
        if key == queue.queue:
            return None
        in_force = self._tables.in_force
        if in_force.frontier.defer_to_previous:
            other = self._tables.queues.look_up(key)
            return None if other is None or not wake_times.host_waits(other, now) else (key, None, None)
        settings = in_force.for_uri(uri.url, key, uri.source)
        return key, settings, in_force.precedence(uri, settings) if in_force.asks_precedence else None

    def carry_out(self, queue: QueueRecord, uri: CrawlUri, move: Move, now: float) -> None:
        """Do with the head of a queue what `asked` has returned. A URI that moves keeps its rank and its attempts.

        Nothing is charged.
        """
        tables, (key, settings, precedence) = self._tables, move
        target = tables.queues.find_or_create(key)
        if settings is None:
            self._take_waits(queue, target, now)
            return
        head = tables.pending.head(queue.id)
        if head is None:
            raise Damage(f"queue {queue.queue} counts {queue.queued} URIs, and holds none")
        place, value = head
        moved = encode_uri(uri, uri.url, key)
        tables.pending.transfer(queue, place, target, with_tries(moved, *tries(value)) if any(tries(value)) else moved)
        tables.seeds.placed(uri, key)
        self._arrived(target, 1, shorten(uri.url, key), settings, precedence, now)
        self._deleted(queue)

    # -- the waits

    def ended(self, queue: QueueRecord, uri: CrawlUri, now: float) -> None:
        """Let the queue of the key that a URI has now wait as long as the queue from which it was leased.

        If a policy cannot compute the key, it is asked again in the turn of a queue, and `lease` raises.
        """
        if queue.wake_time > now and uri.queue is None:
            self._pass_waits(queue, self._key(uri), now)

    def know_address(self, host: str, address: str, now: float) -> None:
        """Take the address of a host; if its key changes by that, its waits go along."""
        tables, uri = self._tables, CrawlUri(f"http://{host}/")
        by_address = tables.in_force.assigns_by_address
        before = tables.queues.look_up(self._key(uri) or "") if by_address else None
        tables.hosts.reported(host, address, now)
        if before is not None:
            self._pass_waits(before, self._key(uri), now)

    def arrive(self, now: float) -> None:
        """Let waits of hosts go along whose URIs arrive for the first time since the queue assignment has changed."""
        for before, key in self._tables.rekeyed:
            source = self._tables.queues.look_up(before)
            if source is not None:
                self._pass_waits(source, key, now)
        self._tables.rekeyed.clear()

    def _pass_waits(self, source: QueueRecord, key: str | None, now: float) -> None:
        """Let the queue of a key wait as long as another one, if that waits."""
        if key is not None and key != source.queue and wake_times.host_waits(source, now):
            self._take_waits(self._tables.queues.find_or_create(key), source, now)

    def _take_waits(self, queue: QueueRecord, source: QueueRecord, now: float) -> None:
        queue.backoff, queue.overloaded_until = max(BackOff.of(queue), BackOff.of(source), key=lambda one: one.until)
        self._wait(queue, wake_times.joined(queue, source), now)

    def _key(self, uri: CrawlUri) -> str | None:
        """Return the key of a URI; None if it has none, or a policy cannot compute it."""
        try:
            return self._tables.queue_key(uri)
        except (InvalidUrl, PolicyError):
            return None
