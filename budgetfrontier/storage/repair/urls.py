"""The rebuild of the table `urls` of a frontier that keeps its URLs, after its queues and URIs have been rebuilt.

A row becomes completed if its place holds no such URI; then each waiting URI gets a row, or is counted in its URL's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from budgetfrontier.core.model import CrawlUri
from budgetfrontier.storage import keys
from budgetfrontier.storage.kept_places import future_key, place_in_future, waits_at
from budgetfrontier.storage.records import UrlRow, decode_future, decode_url
from budgetfrontier.storage.repair.findings import Findings
from budgetfrontier.storage.repair.record_copies import RecordCopies
from budgetfrontier.storage.uri_values import check_url, decode_uri, expand, shorten


class UrlRebuild:
    """The rebuild of the kept URLs. `fingerprint` returns that of a URI; None if this frontier keeps no URLs."""

    def __init__(
        self,
        copies: RecordCopies,
        found: Findings,
        fingerprint: Callable[[CrawlUri], bytes] | None,
        *,
        now: float,
    ) -> None:
        self._copies, self._tables, self._notes = copies, copies.tables, copies.notes
        self._findings = found
        self._fingerprint = fingerprint
        self._now = int(now)
        self._more: dict[bytes, tuple[int, int]] = {}
        """By fingerprint: how many more records of a URL wait, as its row has said, and its due time, where any do."""

    def run(self, alias: dict[int, int], moved: dict[bytes, bytes]) -> None:
        """Copy the rows that can be read, and add missing ones.

        `alias` maps ids of queues to the ids that replace them, `moved` keys of pending records to their new keys.
        """
        self._copy(alias, moved)
        if self._fingerprint is not None:
            self._add_missing(self._fingerprint)

    def _copy(self, alias: dict[int, int], moved: dict[bytes, bytes]) -> None:
        lost = 0

        def read(key: bytes, value: bytes) -> UrlRow:
            row = decode_url(value)
            if self._fingerprint is None:
                raise ValueError("this frontier keeps no URLs")
            if len(key) != keys.FINGERPRINT:
                raise ValueError("not a fingerprint")
            row.queue = alias.get(row.queue, row.queue)
            if row.queue not in self._findings.names:
                raise ValueError("its queue is unknown")
            check_url(expand(row.url, self._findings.names[row.queue]))
            return row

        for key, value, row in self._copies.readable(keys.URLS, read):
            later = future_key(row.place)
            row.place = moved.get(row.place, row.place) if later is None else place_in_future(row.queue, later)
            if row.place and not waits_at(row, self._findings.names[row.queue], self._tables.get):
                row.place = b""
                lost += 1
            if row.more:
                self._more[key] = row.more, row.due
                row.more = 0
            if not row.place:
                row.due = 0
            if self._copies.store(keys.URLS, key, row.value(), (key, value)):
                self._count(row, 1)
        if lost:
            self._notes.note_change(f"urls: {lost:,} that waited nowhere {_become(lost)} completed")

    def _add_missing(self, fingerprint: Callable[[CrawlUri], bytes]) -> None:
        added = 0
        more: Counter[bytes] = Counter()
        for queue, url, place, due, key in self._waiting(fingerprint):
            value = self._tables.get(keys.URLS, key)
            row = None if value is None else decode_url(value)
            if row is not None and (row.place or key in self._more):
                if row.place != place:
                    more[key] += 1
                    self._one_more(key, row)
                continue
            added += 1
            if row is not None:
                self._count(row, -1)
            made = UrlRow(queue, url, place, self._now if row is None else row.created, due or self._now)
            self._tables.put(keys.URLS, key, made.value(), overwrite=True)
            self._count(made, 1)
        if added:
            self._notes.note_change(f"urls: {added:,} that {'waits' if added == 1 else 'wait'} had no row, or another")
        wrong = sum(more[key] != self._more.get(key, (0, 0))[0] for key in more.keys() | self._more.keys())
        if wrong:
            self._notes.note_change(f"urls: {wrong:,} had another number of URIs that wait")

    def _one_more(self, key: bytes, row: UrlRow) -> None:
        """Count one more waiting record of a row's URL; a row without a place gets a due time."""
        self._count(row, -1)
        row.more += 1
        if not row.place:
            row.due = self._more[key][1] or self._now
        self._tables.put(keys.URLS, key, row.value(), overwrite=True)
        self._count(row, 1)

    def _waiting(self, fingerprint: Callable[[CrawlUri], bytes]) -> Iterator[tuple[int, str, bytes, int, bytes]]:
        """Yield each waiting URI: its queue, URL, place, due time (0: in `pending`) and fingerprint."""
        for key, value in self._tables.records(keys.PENDING):
            queue = keys.u32.unpack(key[:4])[0]
            uri = decode_uri(value, self._findings.names[queue])
            yield queue, shorten(uri.url, self._findings.names[queue]), key, 0, fingerprint(uri)
        for key, value in self._tables.records(keys.FUTURE):
            row = decode_future(value)
            uri, due = decode_uri(row.value, self._findings.names[row.queue]), int(keys.due.unpack(key)[0])
            url = shorten(uri.url, self._findings.names[row.queue])
            yield row.queue, url, place_in_future(row.queue, key), due, fingerprint(uri)

    def _count(self, row: UrlRow, change: int) -> None:
        self._findings.urls[row.queue] += change
        self._findings.completed[row.queue] += change * (not row.waits)


def _become(count: int) -> str:
    return "is" if count == 1 else "are"
