"""The checks of URIs: those that wait, their leases, those for later, dead letters, and the kept URLs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import inf, isfinite

from budgetfrontier.core.model import CrawlUri
from budgetfrontier.errors import SettingsError, pass_on_interruption
from budgetfrontier.rules import duplicates
from budgetfrontier.rules.uri_order import ordinal_of
from budgetfrontier.settings import policy_factory
from budgetfrontier.storage import keys
from budgetfrontier.storage.checks.checked_tables import CheckedTables
from budgetfrontier.storage.kept_places import place_in_future, waits_at
from budgetfrontier.storage.records import decode_dead, decode_future, decode_lease, decode_url
from budgetfrontier.storage.uri_values import check_url, expand, restore_uri


class UriChecks:
    """The checks of all tables with URIs, once the queues have been read."""

    def __init__(self, tables: CheckedTables) -> None:
        self._tables = tables
        self._canonical = self._canonicalization()
        self._others: Counter[bytes] = Counter()
        """By fingerprint: how many records of a kept URL wait besides the one that its row is about."""

    def run(self) -> None:
        """Report what is wrong with URIs."""
        self._check_pending()
        self._check_leases()
        self._check_future()
        self._check_dead()
        self._check_urls()

    def _canonicalization(self) -> Callable[[str], str] | None:
        """Return the canonicalization policy; None if URLs are not kept, or it cannot be loaded here."""
        tables = self._tables
        if tables.settings is None or not tables.settings.frontier.keep_urls:
            return None
        try:
            return policy_factory.canonicalization(tables.settings.frontier)
        except SettingsError:
            return None

    def _check_pending(self) -> None:
        tables = self._tables
        count: Counter[int] = Counter()
        names = {queue.id: queue.queue for queue in tables.queues.values()}
        for key, value in tables.items(keys.PENDING):
            queue_id, _, _, _, ordinal, *_ = keys.pending.unpack(key)
            count[queue_id] += 1
            if ordinal_of(ordinal) > tables.counters.ordinal:
                tables.report(f"pending: ordinal {ordinal} is beyond the last one given out")
            try:
                uri = restore_uri(key[4:], value, names.get(queue_id, ""))
                check_url(uri.url)
                self._check_row_of(uri, key, f"pending {key.hex()}")
            except Exception as e:  # a damaged record may cause any error
                tables.report(f"pending {key.hex()}: unreadable ({e})")
        for queue in tables.queues.values():
            if queue.queued != count.pop(queue.id, 0):
                tables.report(f"queue {queue.queue}: its record says {queue.queued} queued, pending differs")
        for queue_id in count:
            tables.report(f"pending: URIs of queue {queue_id}, which does not exist")

    def _check_leases(self) -> None:
        tables = self._tables
        out: Counter[int] = Counter()
        reserved: Counter[int] = Counter()
        landed: Counter[int] = Counter()
        leased: set[bytes] = set()
        for key, value in tables.items(keys.LEASES):
            lease, number = decode_lease(value), keys.u64.unpack(key)[0]
            if tables.get(keys.PENDING, lease.key) is None:
                tables.report(f"lease {number}: its URI is not pending")
            if lease.key in leased:
                tables.report(f"lease {number}: its URI has another lease")
            if number >> keys.EPOCH_SHIFT > tables.counters.epoch:
                tables.report(f"lease {number}: its number was never given out")
            if not (isfinite(lease.expires) and isfinite(lease.began)):
                tables.report(f"lease {number}: from {lease.began} to {lease.expires}")
            leased.add(lease.key)
            out[lease.queue] += 1
            reserved[lease.queue] += keys.cost_of(lease.key)
            landed[lease.queue] += lease.landed
        for queue in tables.queues.values():
            recorded = queue.out, queue.reserved, queue.landed
            found = out[queue.id], reserved[queue.id], landed[queue.id]
            if recorded != found:
                tables.report(f"queue {queue.queue}: leases, reserved, landed: {recorded}, the table says {found}")
        if sum(out.values()) != tables.counters.leases:
            tables.report(f"totals: {tables.counters.leases} leases, {sum(out.values())} in the table")

    def _check_future(self) -> None:
        tables = self._tables
        future: Counter[int] = Counter()
        kept: set[bytes] = set()
        for key, value in tables.items(keys.FUTURE):
            (when, ordinal), row = keys.due.unpack(key), decode_future(value)
            future[row.queue] += 1
            queue = tables.queues.get(row.queue)
            if queue is None:
                tables.report(f"for later, {key.hex()}: its queue does not exist")
            uri = restore_uri(row.rank, row.value, "" if queue is None else queue.queue)
            check_url(uri.url)
            self._check_row_of(uri, place_in_future(row.queue, key), f"for later, {key.hex()}")
            arrival = keys.rank.unpack(row.rank)[3]
            if not 0 <= when < inf or max(ordinal, ordinal_of(arrival)) > tables.counters.ordinal:
                tables.report(f"for later, {key.hex()}: its time is {when}, or its ordinal was never given out")
            if arrival:  # a retry, which keeps its rank
                pending = keys.u32.pack(row.queue) + row.rank
                if pending in kept or tables.get(keys.PENDING, pending) is not None:
                    tables.report(f"for later, {key.hex()}: another URI has its rank")
                kept.add(pending)
        for queue in tables.queues.values():
            if queue.future != future[queue.id]:
                tables.report(f"queue {queue.queue}: its record says {queue.future} for later, not {future[queue.id]}")

    def _check_dead(self) -> None:
        tables = self._tables
        prerequisites = 0
        for key, value in tables.items(keys.DEAD):
            letter, number = decode_dead(value), keys.u64.unpack(key)[0]
            prerequisites += letter.prerequisite
            check_url(restore_uri(letter.rank, letter.value, letter.name).url)
            if letter.queue not in tables.queues:
                tables.report(f"dead letter {number}: its queue does not exist")
            if number > tables.counters.ordinal or not isfinite(letter.time):
                tables.report(f"dead letter {number}: its time is {letter.time}, or its number was never given out")
        if (stored := tables.counters.dead_prerequisites) != prerequisites:
            tables.report(f"totals: dead_prerequisites is {stored}, the dead letters say {prerequisites}")

    def _check_row_of(self, uri: CrawlUri, place: bytes, where: str) -> None:
        """Report a URI that waits at a place and has no row in `urls`; count it if its row is about another."""
        tables = self._tables
        key = self._fingerprint(uri)
        if key is not None:
            value = tables.get(keys.URLS, key)
            if value is None:
                tables.report(f"{where}: {uri.url} is not among the kept URLs")
            elif decode_url(value).place != place:
                self._others[key] += 1

    def _fingerprint(self, uri: CrawlUri) -> bytes | None:
        """Return the key of a URI in `urls`; None if URLs are not kept, or the policy fails, then and from then on."""
        if self._canonical is None:
            return None
        try:
            return duplicates.fingerprint_of(uri, uri.url, self._canonical)
        except Exception as e:  # of a policy, which says nothing of the file
            pass_on_interruption(e)
            self._canonical = None
            return None

    def _check_urls(self) -> None:
        tables = self._tables
        found: Counter[int] = Counter()
        completed: Counter[int] = Counter()
        for key, value in tables.items(keys.URLS):
            row = decode_url(value)
            found[row.queue] += 1
            completed[row.queue] += not row.waits
            queue = tables.queues.get(row.queue)
            if queue is None:
                tables.report(f"urls {key.hex()}: its queue {row.queue} does not exist")
                continue
            url = expand(row.url, queue.queue)
            check_url(url)
            if not row.waits and row.due:
                tables.report(f"urls {key.hex()}: {url} is completed, and due")
            if self._canonical is not None and row.more != self._others[key]:
                tables.report(
                    f"urls {key.hex()}: {url} is said to wait {row.more} more time{'' if row.more == 1 else 's'}, "
                    f"not {self._others[key]}"
                )
            if row.place and not waits_at(row, queue.queue, tables.get):
                tables.report(f"urls {key.hex()}: {url} is not where it is said to wait")
        if found and tables.settings is not None and not tables.settings.frontier.keep_urls:
            tables.report("urls: this frontier keeps no URLs")
        for queue in tables.queues.values():
            recorded, counted = (queue.urls, queue.completed), (found[queue.id], completed[queue.id])
            if recorded != counted:
                tables.report(f"queue {queue.queue}: URLs, completed: {recorded}, the table says {counted}")
