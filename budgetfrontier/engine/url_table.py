"""The table `urls` of a frontier that keeps its URLs: each URL with its state.

`PendingTable` and `FutureTable` notify it of every record that comes and goes, in the same transaction. So it follows
admission, retries, revisits, replays, deletions and their undo alike, and nothing else in the engine knows of it. A
finished URI is completed once its record is deleted: at the latest at the commit.

A URL that is scheduled again with `force` has several records. Its row is about the last one, and counts the others.
Once that one leaves, the row says only that the URL waits: finding the others would take a search.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from budgetfrontier.core.model import CrawlUri
from budgetfrontier.errors import FrontierError, pass_on_interruption
from budgetfrontier.rules import duplicates
from budgetfrontier.storage import keys
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.environment import Environment
from budgetfrontier.storage.kept_places import place_in_future
from budgetfrontier.storage.records import Counters, UrlRow, decode_url
from budgetfrontier.storage.uri_values import decode_uri, shorten

if TYPE_CHECKING:
    from budgetfrontier.engine.queue_cache import QueueCache

_queue_of = keys.u32.unpack_from
_by_fingerprint = itemgetter(0)

New = tuple[bytes, int, str, bytes]
"""A URL that was admitted: its fingerprint, its queue, its short form, and the key of its record in `pending`."""

LATEST = 1 << 62
"""The latest date in a row, in epoch seconds; later ones are stored as this."""


class Arrival(Enum):
    """Why a record comes to a place."""

    NEW = "it was scheduled, or replayed"
    MOVED = "it has left another place for this one"
    RETURNED = "its deletion was undone"


class UrlTable:
    """The kept URLs, by fingerprint. One look-up and one put for each record that comes or goes; one put if it is new.

    `canonical` is the policy that returns the canonical form of a URL, `now` returns the time.
    """

    def __init__(
        self,
        env: Environment,
        counters: Counters,
        queues: QueueCache,
        canonical: Callable[[str], str],
        now: Callable[[], float],
    ) -> None:
        self._env = env
        self._table = env.db[keys.URLS]
        self._counters = counters
        self._queues = queues
        self._canonical = canonical
        self._ended: set[bytes] = set()
        """The places of records that are to be deleted, of which the rows say so already."""
        self._replaced: dict[bytes, bytes] = {}
        """The places of records that are no longer, or not, those that their rows are about, with the fingerprints:
        most leave soon, because a revisit has come while its URL was leased. `settle` counts the others."""
        self._dropped: set[bytes] = set()
        """The places of records that are deleted unfetched: with them, their URLs leave the table."""
        self.now = now
        self.shortcut: Callable[[str], bytes | None] = lambda url: None
        """Returns the fingerprint of a URL at a third of the cost, or None."""
        self.kernel: Any = None
        """Completes plain URLs that wait in one place; None where the compiled kernel is not there."""

    def _fingerprint(self, uri: CrawlUri) -> bytes:
        """Return the fingerprint of a URI that was admitted.

        A policy that fails for it now must not leave half an operation, as a PolicyError would in the middle of one.
        """
        try:
            if uri.method == "GET" and not uri.body and (known := self.shortcut(uri.url)) is not None:
                return known
            return duplicates.fingerprint_of(uri, uri.url, self._canonical)
        except Exception as e:
            pass_on_interruption(e)
            raise FrontierError(
                f"the canonicalization policy has failed for {uri.url}, for which it had a form before "
                f"({type(e).__name__}: {e}); repair it, and open the frontier again"
            ) from e

    # -- look-ups

    def find(self, fingerprint: bytes) -> UrlRow | None:
        """Return the row of a fingerprint; None if its URL is not known."""
        value = self._env.txn.get(fingerprint, db=self._table)
        return None if value is None else decode_url(value)

    def page(self, after: bytes, limit: int | None) -> list[tuple[bytes, UrlRow]]:
        """Return the rows that follow a fingerprint, in order. O(limit)."""
        cursor = self._env.txn.cursor(self._table)
        if not cursor.set_range(max(after + b"\0", keys.FIRST)):
            return []
        return [(key, decode_url(value)) for key, value in islice(cursor, limit)]

    def completed(self, fingerprint: bytes, queue_key: str, short: str) -> None:
        """Add a URL, in its short form, that was fetched before it was known here; an existing row stays."""
        if self.find(fingerprint) is None:
            queue = self._queues.find_or_create(queue_key)
            self._put(fingerprint, None, UrlRow(queue.id, short, b"", int(self.now())))

    def set_due(self, fingerprint: bytes, due: int) -> None:
        """Set the time from which a URL that waits may be leased, which may be over."""
        row = self.find(fingerprint)
        if row is not None and row.place:
            row.due = due
            self._put(fingerprint, row, row)

    def complete(self, fingerprint: bytes, row: UrlRow) -> None:
        """Note that the record at the place of a row, as `find` has returned it, is to be deleted after its fetch.

        The URL is completed, unless other records of it wait. None may have come in the meantime.
        """
        if row.more:  # some of them may have left
            row = self.find(fingerprint) or row
        self._ended.add(row.place)
        if row.more:
            self._put(fingerprint, row, self._without_place(row))
        else:
            self._complete(fingerprint, row)

    def forget(self, fingerprint: bytes) -> None:
        """Drop the row of a URL, the record at its place being deleted; it stays while other records of it wait."""
        self.settle()
        row = self.find(fingerprint)
        if row is not None and not row.more:
            self._forget(fingerprint, row)

    def _forget(self, fingerprint: bytes, row: UrlRow) -> None:
        self._count(row.queue, -1, waiting=row.waits)
        self._env.txn.delete(fingerprint, db=self._table)

    def waiting_at(self, records: Iterable[tuple[bytes, bytes]]) -> dict[bytes, UrlRow]:
        """Return the rows that are about the records at these places, or do not know where theirs are, by fingerprint.

        A place is given with its value.
        """
        found: dict[bytes, UrlRow] = {}
        for place, value in records:
            name = self._queues.look(_queue_of(place)[0]).queue
            fingerprint = self._fingerprint(decode_uri(value, name))
            row = self.find(fingerprint)
            if row is not None and row.place in (place, b""):
                found[fingerprint] = row
        return found

    def put_back(self, fingerprint: bytes, kept: UrlRow, queue_id: int) -> None:
        """Give the URL of a record that was put back its old row: since when it is known, and when it is due.

        No record may wait for its deletion. A completed URL gets its row back, on this queue, unless it is known again.
        """
        self.settle()
        row = self.find(fingerprint)
        if row is None:
            if not kept.waits:
                self._put(fingerprint, None, UrlRow(queue_id, kept.url, b"", kept.created))
            return
        created = min(row.created, kept.created)
        is_back = bool(row.place) and row.place == keys.u32.pack(queue_id) + kept.place[keys.u32.size :]
        due = kept.due if is_back else row.due
        self._put(fingerprint, row, UrlRow(row.queue, row.url, row.place, created, due, row.more))

    def drop(self, place: bytes) -> None:
        """Note that the record at a place is about to be deleted unfetched: its URL is not completed by that.

        It is known no more, unless other records of it wait.
        """
        self._dropped.add(place)

    # -- notifications from the tables of URIs

    def leaving(self, place: bytes) -> None:
        """Note that the record at a place is about to be deleted, and comes to another place."""
        self._ended.add(place)

    def admitted(self, new: list[New]) -> None:
        """Note records of URLs that admission has put into `pending`: one put for each URL that is not kept yet."""
        now, added, size = int(self.now()), Counter[int](), 0
        put = self._env.txn.cursor(self._table).put
        known: list[New] = []
        new.sort(key=_by_fingerprint)  # of two for one URL, the later one stays the later
        for each in new:
            fingerprint, queue_id, url, place = each
            value = encode((queue_id, url, place, now, now))  # a UrlRow
            if put(fingerprint, value, True, False):
                size += len(value)
                added[queue_id] += 1
            else:  # with `force`, before
                known.append(each)
        for queue_id, count in added.items():
            self._count(queue_id, count, waiting=True)
        self._env.wrote(size, len(new) - len(known))
        for fingerprint, queue_id, url, place in known:
            self._put_in_place(fingerprint, queue_id, url, place, 0, now, Arrival.NEW)

    def queued(self, records: Sequence[tuple[bytes, bytes]], why: Arrival) -> None:
        """Note records that were put into `pending`."""
        self._place([(_queue_of(key)[0], key, value, 0) for key, value in records], why)

    def postponed(self, queue_id: int, key: bytes, value: bytes, why: Arrival, *, leaving: bytes = b"") -> None:
        """Note a record that was put into `future` under `key`; `leaving` is its place that is yet to be deleted."""
        if leaving:
            self._ended.add(leaving)
        due = min(int(keys.due.unpack(key)[0]), LATEST)
        self._place([(queue_id, place_in_future(queue_id, key), value, due)], why)

    def _place(self, records: Iterable[tuple[int, bytes, bytes, int]], why: Arrival) -> None:
        now = int(self.now())
        placed: list[tuple[bytes, int, str, bytes, int]] = []
        for queue_id, place, value, due in records:
            name = self._queues.look(queue_id).queue
            uri = decode_uri(value, name)
            placed.append((self._fingerprint(uri), queue_id, shorten(uri.url, name), place, due))
        placed.sort(key=_by_fingerprint)
        for fingerprint, queue_id, url, place, due in placed:
            self._put_in_place(fingerprint, queue_id, url, place, due, now, why)

    def _put_in_place(
        self, fingerprint: bytes, queue_id: int, url: str, place: bytes, due: int, now: int, why: Arrival
    ) -> None:
        before = self.find(fingerprint)
        created, more = now, 0
        if before is not None:
            created, more = before.created, before.more
            if before.place and why is Arrival.NEW:
                self._replaced[before.place] = fingerprint
            if more and not before.place and why is Arrival.MOVED:
                more -= 1  # now it is known where this one is
        if not due:  # in `pending`: due since it was known, or since the time that it has waited for
            due = min(before.due, now) if before is not None and before.due else now
        self._put(fingerprint, before, UrlRow(queue_id, url, place, created, due, more))

    def left(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        """Note records that left their places: their URLs are completed, unless other records of them wait.

        Dropped URLs are kept no more.
        """
        others = [record for record in records if not self._has_row(record[0])]
        if self._replaced:
            self.settle()
        if self.kernel is not None and not self._dropped:
            others = self._complete_plain(others)
        found: list[tuple[bytes, bytes]] = []
        for place, value in others:
            name = self._queues.look(_queue_of(place)[0]).queue
            found.append((self._fingerprint(decode_uri(value, name)), place))
        found.sort()
        for fingerprint, place in found:
            row = self.find(fingerprint)
            if row is not None and (row.place == place or row.more):
                self._leave(fingerprint, row, place)
        self._dropped.difference_update(place for place, _ in records)

    def _has_row(self, place: bytes) -> bool:
        """Return whether the row of the record that has left a place says so already, or is about another record."""
        if place in self._ended:
            self._ended.remove(place)
            return True
        return self._replaced.pop(place, None) is not None

    def _complete_plain(self, records: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """Complete the URLs of records as far as the kernel can, and return the other records."""
        others: list[tuple[bytes, bytes]]
        others, completed, inactive, size = self.kernel.complete(records, self._env.txn.cursor(self._table))
        self._counters.completed += completed
        self._counters.active_url_queues -= inactive
        self._env.wrote(size)
        return others

    def _leave(self, fingerprint: bytes, row: UrlRow, place: bytes) -> None:
        if row.place == place and row.more:
            self._put(fingerprint, row, self._without_place(row))
        elif row.more > 1 or (row.more and row.place):
            after = UrlRow(row.queue, row.url, row.place, row.created, row.due, row.more - 1)
            self._put(fingerprint, row, after)
        elif place in self._dropped:
            self._forget(fingerprint, row)
        else:
            self._complete(fingerprint, row)

    def _without_place(self, row: UrlRow) -> UrlRow:
        """Return the row of a URL after its record has left, while others wait in unknown places."""
        return UrlRow(row.queue, row.url, b"", row.created, int(self.now()), row.more)

    def _complete(self, fingerprint: bytes, row: UrlRow) -> None:
        """Put the row of a URL that waits for nothing any more: `_put` in short."""
        queue, counters = self._queues.get(row.queue), self._counters
        queue.completed += 1
        counters.completed += 1
        counters.active_url_queues -= queue.urls == queue.completed
        value = encode((row.queue, row.url, b"", row.created, 0))
        self._env.txn.put(fingerprint, value, db=self._table)
        self._env.wrote(len(value))

    def settle(self) -> None:
        """Count the records that rows are not about and that have not left since, at the latest before a commit."""
        if not self._replaced:
            return
        replaced, self._replaced = self._replaced, {}
        for fingerprint, count in sorted(Counter(replaced.values()).items()):
            row = self.find(fingerprint)
            if row is not None:
                after = UrlRow(row.queue, row.url, row.place, row.created, row.due, row.more + count)
                self._put(fingerprint, row, after)

    def _put(self, fingerprint: bytes, before: UrlRow | None, after: UrlRow) -> None:
        if (
            before is None
            or before.queue != after.queue
            or (not (before.place or before.more)) != (not (after.place or after.more))
        ):
            if before is not None:
                self._count(before.queue, -1, waiting=before.waits)
            self._count(after.queue, 1, waiting=after.waits)
        value = after.value()
        self._env.txn.put(fingerprint, value, db=self._table)
        self._env.wrote(len(value), before is None)

    def _count(self, queue_id: int, change: int, *, waiting: bool) -> None:
        queue, counters = self._queues.get(queue_id), self._counters
        had, waited = queue.urls > 0, queue.urls > queue.completed
        queue.urls += change
        counters.urls += change
        if not waiting:
            queue.completed += change
            counters.completed += change
        counters.url_queues += (queue.urls > 0) - had
        counters.active_url_queues += (queue.urls > queue.completed) - waited
