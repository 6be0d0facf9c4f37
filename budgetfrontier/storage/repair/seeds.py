"""The rebuild of the list of seeds, after the URIs: with a new index, and lost seeds that wait are listed again."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from budgetfrontier.core import uris
from budgetfrontier.core.model import CrawlUri, Directive
from budgetfrontier.core.units import counted
from budgetfrontier.rules.seeds import is_seed, origin_of
from budgetfrontier.rules.uri_order import NORMAL
from budgetfrontier.storage import keys, seed_list
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.records import decode_future
from budgetfrontier.storage.repair.findings import LAST_ORDINAL, Findings
from budgetfrontier.storage.repair.record_copies import RecordCopies
from budgetfrontier.storage.seed_list import SeedRow, decode_seed
from budgetfrontier.storage.uri_values import check_url, decode_uri


class SeedRebuild:
    """The rebuild of the list of seeds."""

    def __init__(self, copies: RecordCopies, found: Findings) -> None:
        self._copies, self._tables, self._findings = copies, copies.tables, found

    def run(self) -> None:
        """Copy the rows that can be read; if some are lost, list the seeds among the URIs that wait."""
        for key, value, row in self._copies.readable(keys.SEEDS, _read):
            if not self._list(key, row):
                self._copies.set_aside(keys.SEEDS, key, value, "the same seed is listed already")
        if self._copies.source.lacks(keys.SEEDS):
            lost = 0
            for uri, queue in self._waiting():
                row = SeedRow(uri.url, queue, origin_of(uri), uri.source or "", (uri.via or "") if uri.hops else "")
                lost += self._list(keys.u64.pack(self._findings.last_seed + 1), row)
            self._copies.notes.note_change(
                f"seeds: a part of the list is lost; {counted(lost, 'that waits was', 'that wait were')} listed again"
            )

    def _list(self, key: bytes, row: SeedRow) -> bool:
        """Store a row with its keys; return False if its URL is listed already."""
        if self._tables.get(keys.SEED_KEYS, seed_list.url_key(row.url)) is not None:
            return False
        for name, is_position in seed_list.keys_of(row, uris.host(row.url)):
            self._tables.put(keys.SEED_KEYS, name, key if is_position else b"")
        self._tables.put(keys.SEEDS, key, encode(row))
        self._findings.seed_fates[row.fate] += 1
        self._findings.last_seed = max(self._findings.last_seed, keys.u64.unpack(key)[0])
        return True

    def _waiting(self) -> Iterator[tuple[CrawlUri, str]]:
        """Yield the seeds that wait, each with the key of its queue."""
        for table in (keys.PENDING, keys.FUTURE):
            for key, value in self._tables.records(table):
                if table == keys.PENDING:
                    number, directive = keys.u32.unpack(key[:4])[0], key[keys.DIRECTIVE]
                else:
                    row = decode_future(value)
                    number, directive, value = row.queue, row.rank[0], row.value
                if directive != NORMAL:
                    name = self._findings.names[number]
                    uri = replace(decode_uri(value, name), directive=Directive(directive))
                    if is_seed(uri):
                        yield uri, name


def _read(key: bytes, value: bytes) -> SeedRow:
    row = decode_seed(value)
    check_url(row.url)
    if keys.u64.unpack(key)[0] > LAST_ORDINAL:
        raise ValueError("its position was never given out")
    return row
