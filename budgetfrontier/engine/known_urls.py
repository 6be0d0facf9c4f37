"""Crawlers' reports on URLs in a frontier that keeps its URLs: fetched ones, and ones to forget.

A crawler reports a fetch by URL, not by lease, and may do so late, twice, or for a URL found elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import msgspec

from budgetfrontier.core import uris
from budgetfrontier.core.model import CrawlUri, Finish, KeptTotals, KeptUrl, Lease, Outcome, Tally
from budgetfrontier.engine.admission.admit import Admitter
from budgetfrontier.engine.finish import Finisher
from budgetfrontier.engine.guard import Guard
from budgetfrontier.engine.tables import Tables
from budgetfrontier.engine.turns import Turns
from budgetfrontier.engine.url_table import LATEST, UrlTable
from budgetfrontier.errors import FrontierError, InvalidUrl
from budgetfrontier.rules import charges
from budgetfrontier.rules.seeds import SeedFate
from budgetfrontier.storage import keys
from budgetfrontier.storage.kept_places import future_key
from budgetfrontier.storage.records import UrlRow
from budgetfrontier.storage.uri_values import decode_uri, expand, shorten

Ended = dict[int, tuple[Lease, bytes, UrlRow]]
"""By id: leases that are to end as successes, with the fingerprints and the rows of their URLs."""


class Known(Enum):
    """The effect of the report of a fetch."""

    FINISHED = "the URL was leased: its lease has ended"
    CHANGED = "the URL waited, or was completed, and its next date was changed"
    UNCHANGED = "all of that was known"
    ADDED = "the URL was not known"
    INVALID = "this is no URL"
    FULL = "the URL was not known, and there is no room for it"


class KnownUrls:
    """Takes reports of fetches by URL, and forgets URLs. A look-up more than a finish for each."""

    def __init__(
        self,
        urls: UrlTable,
        tables: Tables,
        turns: Turns,
        admitter: Admitter,
        finisher: Finisher,
    ) -> None:
        self._urls = urls
        self._tables = tables
        self._turns = turns
        self._admitter = admitter
        self._finisher = finisher
        self._leases: dict[bytes, int] = {}
        """By the key of its pending record: the id of each lease before `_next_id`; some may have ended."""
        self._next_id = 0

    def _lease_of(self, place: bytes) -> Lease | None:
        """Return the lease of the record at a place. O(leases made since the last call), or O(leases out) if less."""
        leases, out, known = self._tables.leases, self._tables.leases.out, self._leases
        if leases.next_id - self._next_id > len(out) or len(known) > 2 * len(out) + 10_000:
            self._leases = known = {lease.key: lease.id for lease in out.values()}
        else:
            for lease_id in range(self._next_id, leases.next_id):
                if (lease := out.get(lease_id)) is not None:
                    known[lease.key] = lease_id
        self._next_id = leases.next_id
        found = known.get(place)
        return None if found is None else out.get(found)

    def _row(self, fingerprint: bytes) -> tuple[UrlRow | None, Lease | None]:
        """Return the row of a URL as it is now, and its lease."""
        self._urls.settle()
        row = self._urls.find(fingerprint)
        if row is not None and row.more and self._tables.pending.taken.removed:  # leaving records count no more
            self._tables.pending.settle()
            row = self._urls.find(fingerprint)
        if row is None or not row.place:
            return row, None
        lease = self._lease_of(row.place)
        if lease is None and row.place in self._tables.pending.taken:  # its record waits for its deletion
            self._tables.pending.settle()
            row = self._urls.find(fingerprint)
        return row, lease

    def find(self, fingerprint: bytes) -> KeptUrl | None:
        row, _ = self._row(fingerprint)
        return None if row is None else self._shown(fingerprint, row)

    def _shown(self, fingerprint: bytes, row: UrlRow) -> KeptUrl:
        name = self._tables.queues.look(row.queue).queue
        uri = None
        if row.place:
            later = future_key(row.place)
            value = self._tables.pending.value(row.place) if later is None else self._tables.future.value(later)
            uri = decode_uri(value, name)
        return _kept_url(fingerprint, row, name, uri)

    def page(self, after: bytes, limit: int | None) -> list[KeptUrl]:
        """Return the URLs that follow a fingerprint, without their `uri`, in the order of fingerprints."""
        self._tables.pending.settle()
        look = self._tables.queues.look
        page = self._urls.page(after, limit)
        return [_kept_url(fingerprint, row, look(row.queue).queue) for fingerprint, row in page]

    def totals(self, key: str | None) -> KeptTotals | None:
        """Return the numbers of all URLs, or of those of a queue; None if there is no such queue."""
        tables = self._tables
        tables.pending.settle()
        if key is None:
            c = tables.counters
            return KeptTotals(
                active=c.urls - c.completed,
                leased=len(tables.leases.out),
                completed=c.completed,
                queues=c.url_queues,
                active_queues=c.active_url_queues,
            )
        queue = tables.queues.look_up(tables.queues.named(key))
        if queue is None or not queue.urls:
            return None
        active = queue.urls - queue.completed
        return KeptTotals(
            active=active, leased=queue.out, completed=queue.completed, queues=1, active_queues=int(active > 0)
        )

    def fetched(self, reports: Iterable[tuple[CrawlUri, float | None]], now: float) -> list[Known]:
        """Take reports of URLs that were fetched, and when each is to be fetched again (None: never), in order.

        A leased URI is finished as a SUCCESS. One that waits in its queue, because its lease has expired or another
        crawler has fetched it, is charged and removed; one scheduled for later is not charged. Raises PolicyError;
        earlier reports have been taken.
        """
        ended: Ended = {}
        try:
            return [self._fetched(uri, again, ended, now) for uri, again in reports]
        finally:
            self._end(ended, now)

    def _fetched(self, uri: CrawlUri, again: float | None, ended: Ended, now: float) -> Known:
        """Take a report. A lease that ends in the common way is added to `ended`, for `_end`."""
        try:
            fingerprint = self._admitter.fingerprint(uri)
            if uri.queue is not None:
                self._admitter.queue_key(uri)
        except InvalidUrl:
            return Known.INVALID
        row, lease = self._row(fingerprint)
        if again is None and row is not None and lease is not None:
            if lease.id in ended:
                return Known.UNCHANGED
            ended[lease.id] = lease, fingerprint, row
            return Known.FINISHED
        self._end(ended, now)  # in order
        row, lease = self._row(fingerprint)
        if row is not None and uri.queue is None:
            uri = msgspec.structs.replace(uri, queue=self._tables.queues.look(row.queue).queue)
        if again is not None:
            return self._fetched_until(fingerprint, uri, again, row, lease, now)
        if row is None:
            return self._completed(fingerprint, uri, now)
        if not row.place:
            return Known.UNCHANGED
        self._take_out(row, now, SeedFate.SUCCEEDED, charged=future_key(row.place) is None)
        return Known.CHANGED

    def _fetched_until(
        self,
        fingerprint: bytes,
        uri: CrawlUri,
        again: float,
        row: UrlRow | None,
        lease: Lease | None,
        now: float,
    ) -> Known:
        """Take the report of a fetch after which the URL waits for a date. Policies are asked before any change."""
        again = min(again, LATEST)
        name, completed = None, 0
        if row is not None:
            queue = self._tables.queues.look(row.queue)
            name, completed = queue.queue, queue.completed
        cost = lease.cost if lease is not None and uri.cost is None else uri.cost
        precedence = lease.uri.precedence if lease is not None and uri.precedence is None else uri.precedence
        revisit = msgspec.structs.replace(uri, force=True, not_before=again, cost=cost, precedence=precedence)
        if lease is not None:
            self._finisher.finish(lease, Finish(lease, discovered=(revisit,)), now)
            known = Known.FINISHED
        elif row is not None and row.place and row.due == int(again) and name == uri.queue:
            return Known.UNCHANGED
        else:
            if row is None and not self._admitter.is_seen(fingerprint):
                revisit = msgspec.structs.replace(revisit, force=False)
            tally = Tally()
            via = None if row is None else revisit  # a known URL comes again: it needs no room
            read = self._admitter.read((revisit,), tally, via)
            if tally.invalid:
                return Known.INVALID
            if row is not None and row.place:
                self._take_out(row, now, SeedFate.SUCCEEDED, charged=future_key(row.place) is None)
            self._admitter.admit(read, tally, now, via)
            if tally.full:
                return Known.FULL
            known = Known.ADDED if row is None else Known.CHANGED
        self._urls.set_due(fingerprint, int(again))
        if row is not None:
            self._turns.below_limit(row.queue, completed)
        return known

    def put_again(self, uri: CrawlUri, now: float) -> Tally:
        """Schedule a URI, seen before or not, in the one place of its URL. Raises PolicyError, nothing changed.

        A waiting one is replaced, uncharged, and needs no room; a leased one is being fetched, and a duplicate.
        """
        tally = Tally()
        try:
            fingerprint = self._admitter.fingerprint(uri)
        except InvalidUrl:
            self._admitter.take([uri], tally, now)  # which counts it
            return tally
        row, lease = self._row(fingerprint)
        if lease is not None:
            self._tables.counters.duplicates += 1
            tally.duplicate = 1
            return tally
        uri, via, completed = msgspec.structs.replace(uri, force=True), None, 0
        if row is not None:
            queue = self._tables.queues.look(row.queue)
            completed = queue.completed
            uri = msgspec.structs.replace(uri, queue=uri.queue or queue.queue)
            via = uri if row.place else None
        read = self._admitter.read((uri,), tally, via)
        if row is not None and row.place and not tally.invalid:
            self._take_out(row, now, SeedFate.DELETED, charged=False)
        self._admitter.admit(read, tally, now, via)
        if tally.added:
            self._admitter.see(fingerprint)  # a later discovery does not add it once more
            self._urls.set_due(fingerprint, int(min(max(uri.not_before or 0.0, now), LATEST)))
            if row is not None:
                self._turns.below_limit(row.queue, completed)
        return tally

    def _end(self, ended: Ended, now: float) -> None:
        """End leases as successes, and complete their URLs, except those with failing policies. Raises PolicyError."""
        if not ended:
            return
        out = self._tables.leases.out
        try:
            for lease, _, _ in ended.values():
                self._finisher.finish(lease, None, now)
        finally:
            for lease, fingerprint, row in ended.values():
                is_leaving = lease.key in self._tables.pending.taken  # else its record has left, and its row says so
                if lease.id not in out and is_leaving:
                    self._urls.complete(fingerprint, row)
            ended.clear()

    def _completed(self, fingerprint: bytes, uri: CrawlUri, now: float) -> Known:
        """Take the report of a URL that was not known, and is not to be fetched again."""
        uri = msgspec.structs.replace(uri, url=uris.parse(uri.url))
        tally = Tally()
        try:
            queue_key = self._admitter.queue_key(uri)
        except InvalidUrl:
            return Known.INVALID
        self._admitter.mark_seen([uri], tally, now, charge=False)
        if tally.invalid:
            return Known.INVALID
        self._urls.completed(fingerprint, queue_key, shorten(uri.url, queue_key))
        return Known.ADDED

    def forget(self, fingerprint: bytes, now: float) -> bool:
        """Forget a URL, waiting or completed, so that it may be discovered again; return whether it was known.

        If it waits more than once, the last URI is removed; the URL is known while the others wait. A leased one is
        taken from its lease: a later report of it is that of an unknown URL.
        """
        row, lease = self._row(fingerprint)
        if row is None:
            return False
        completed = self._tables.queues.look(row.queue).completed
        if lease is not None:
            self._finisher.finish(lease, Finish(lease, Outcome.DISREGARDED), now)
            self._tables.pending.settle()
        elif row.place:
            self._take_out(row, now, SeedFate.DELETED, charged=False)
            self._tables.pending.settle()
        self._urls.forget(fingerprint)
        self._turns.below_limit(row.queue, completed)
        self._admitter.forget(fingerprint)
        return True

    def _take_out(self, row: UrlRow, now: float, fate: SeedFate, *, charged: bool) -> None:
        """Take a URI that is not leased from the place where it waits; `fate` is that of a seed."""
        tables = self._tables
        queue = tables.queues.get(row.queue)
        later = future_key(row.place)
        if later is not None:
            directive, value = tables.future.rank(later)[0], tables.future.value(later)
            tables.seeds.moved(directive, value, queue.queue, fate, now)
            tables.future.remove(queue, later)
            tables.future.next_due = tables.future.first_due()
            return
        self._turns.settings.refresh(queue)
        tables.seeds.moved(row.place[keys.DIRECTIVE], tables.pending.value(row.place), queue.queue, fate, now)
        tables.pending.delete(queue, row.place)
        if charged:
            cost = keys.cost_of(row.place)
            charges.charge_seen(queue, cost)
            if queue.group:
                tables.groups.get(queue.group).expenditure += cost
            tables.counters.expenditure += cost
            tables.counters.other_expenditure += cost
        self._turns.deleted(queue)


def _kept_url(fingerprint: bytes, row: UrlRow, queue: str, uri: CrawlUri | None = None) -> KeptUrl:
    url, due = expand(row.url, queue), row.due or None
    return KeptUrl(fingerprint=fingerprint, url=url, queue=queue, created=row.created, due=due, uri=uri)


def kept(known: KnownUrls | None, guard: Guard) -> KnownUrls:
    """Return the URLs that a frontier keeps, as of now. Raises FrontierError if it keeps none."""
    guard.enter()
    if known is None:
        raise FrontierError("this frontier does not keep its URLs: set `frontier.keep_urls: true` when it is created")
    guard.attempt(lambda: guard.kernel.lease_expiry.expire(guard.now()))
    return known
