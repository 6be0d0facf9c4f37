"""The owner of the table `removed`: what commands delete or change, kept for `undo` in the transaction that does it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec

from budgetfrontier.storage import keys
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.environment import Environment
from budgetfrontier.storage.records import Counters
from budgetfrontier.storage.removed import Block, Kept, Look, decode_block, end, kept, values

LARGEST = 60_000
"""Bytes of a block, unless it has only one record."""
AT_ONCE = 4 << 20
"""Bytes of the blocks that are read at once."""
_RECORD, _QUEUE = 30, 20  # bytes that a record takes with its key, and a queue besides its name


class RemovedTable:
    """The blocks that commands have kept, under the number of each. O(1) each."""

    def __init__(self, env: Environment, counters: Counters) -> None:
        self._env = env
        self._counters = counters
        self._table = env.db[keys.REMOVED]

    def keep(
        self,
        effect: dict[str, Any],
        table: str,
        records: Mapping[bytes, Look | None],
        *,
        instead: Mapping[bytes, bytes] | None = None,
    ) -> None:
        """Keep the records of a table that a step of a command is about to delete; its effect says where, from then on.

        They are given by key, each with its queue as it will look then. The values of `instead` are kept in place of
        those in the table. Keys without a value are passed over.
        """
        place = kept(effect) or Kept(self._counters.audit + 1, 0)
        for at, block in enumerate(self._blocks(table, records, instead), end(self._env.view(), place.number)):
            value = encode(block)
            self._env.txn.put(keys.removed.pack(place.number, at), value, db=self._table)
            self._env.wrote(len(value))
            self._counters.removed += len(value)
            place.bytes += len(value)
        if place.bytes:
            effect["kept"] = msgspec.to_builtins(place)

    def _blocks(
        self, table: str, records: Mapping[bytes, Look | None], instead: Mapping[bytes, bytes] | None
    ) -> Iterator[Block]:
        """Yield the records in blocks of a bounded size."""
        txn, db = self._env.txn, self._env.db[table]
        block, size, last = Block(table, [], []), 0, None
        for key, look in records.items():
            value = txn.get(key, db=db) if instead is None else instead.get(key)
            if value is None:
                continue
            if block.records and size + len(value) > LARGEST:
                yield block
                block, size, last = Block(table, [], []), 0, None
            if look is not None and look != last:
                block.queues.append(look)
                size += _QUEUE + len(look.name)
                last = look
            block.records.append((key, value))
            size += _RECORD + len(value)
        if block.records:
            yield block

    def read(self, number: int, start: int, limit: int) -> tuple[list[Block], int | None]:
        """Return the blocks under a number from a place on, with about `limit` records, and the place behind them.

        That is None if these are the last.
        """
        found, size = list[Block](), 0
        for place, value in values(self._env.view(), number, start):
            if limit <= 0 or size >= AT_ONCE:
                return found, place
            found.append(decode_block(value))
            limit -= len(found[-1].records)
            size += len(value)
        return found, None

    def remove(self, number: int, count: int) -> bool:
        """Remove the first `count` blocks under a number; return whether these were the last."""
        found = list(islice(values(self._env.view(), number), count + 1))
        for place, value in found[:count]:
            self._env.txn.delete(keys.removed.pack(number, place), db=self._table)
            self._counters.removed -= len(value)
        return len(found) <= count
