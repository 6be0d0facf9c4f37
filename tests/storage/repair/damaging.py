"""Damage to the tables of a frontier that nobody has open, and what a repair makes of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import lmdb
import msgspec
import pytest

from budgetfrontier import Frontier
from budgetfrontier.clock import ManualClock
from budgetfrontier.errors import (
    CorruptFrontier,
)
from budgetfrontier.storage import keys, lock_table, verify
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.lmdb_env import open_lmdb
from budgetfrontier.storage.lmdb_pages import File, Trees
from budgetfrontier.storage.records import UrlRow, decode_counters, decode_queue, decode_url
from budgetfrontier.storage.repair.repair_steps import Repaired, repair
from tests.storage.full_frontier import NOW

PAGE = 4096
Change = Callable[["Damage"], object]


class Damage:
    """The tables of a frontier that nobody has open, to be spoilt with one transaction."""

    def __init__(self, env: lmdb.Environment) -> None:
        self._env = env
        self.txn = env.begin(write=True)

    def db(self, table: str) -> Any:
        return self._env.open_db(table.encode(), txn=self.txn, create=False)

    def put(self, table: str, key: bytes, value: bytes) -> None:
        self.txn.put(key, value, db=self.db(table))

    def delete(self, table: str, key: bytes) -> None:
        assert self.txn.delete(key, db=self.db(table)), key

    def items(self, table: str) -> list[tuple[bytes, bytes]]:
        return [item for item in self.txn.cursor(self.db(table)) if item[0] != keys.SENTINEL]

    def queue(self, name: str) -> bytes:
        """The key of a queue's record."""
        key = self.txn.get(name.encode(), db=self.db(keys.QUEUE_IDS))
        assert key is not None, name
        return key

    def change_queue(self, name: str, **fields: Any) -> None:
        key = self.queue(name)
        queue = decode_queue(self.txn.get(key, db=self.db(keys.QUEUES)) or b"")
        self.put(keys.QUEUES, key, encode(msgspec.structs.replace(queue, **fields)))

    def change_totals(self, **fields: Any) -> None:
        totals = decode_counters(self.txn.get(b"counters", db=self.db(keys.META)) or b"")
        self.put(keys.META, b"counters", encode(msgspec.structs.replace(totals, **fields)))


def leaves(data: Path, table: str) -> list[int]:
    """The pages with the records of a table, in the order of their keys."""
    with closing(File(data)) as file:
        trees = Trees(file, file.roots()[0])
        return list(trees.walk(table, {name: root for name, _, root in trees.tables()}[table]))


@contextmanager
def damaging(path: Path) -> Iterator[Damage]:
    env = open_lmdb(path)
    damage = Damage(env)
    yield damage
    damage.txn.commit()
    lock_table.close(env)


def assert_repaired(path: Path, **options: Any) -> Repaired:
    """`verify` finds damage; after a repair it finds none, and neither does the engine."""
    with pytest.raises(CorruptFrontier):
        verify.verify(path)
    done = repair(path, **options)
    verify.verify(path)
    with Frontier.open(path, clock=ManualClock(NOW), keep_leases=True) as frontier:
        frontier.check()
    return done


def aside(done: Repaired) -> list[dict[str, Any]]:
    """What was set aside."""
    file = done.folder / "set-aside.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def change_rows(change: Callable[[UrlRow], object]) -> Change:
    """Change the rows of the kept URLs that wait."""

    def spoil(damage: Damage) -> None:
        for key, value in damage.items(keys.URLS):
            row = decode_url(value)
            if row.place:
                change(row)
                damage.put(keys.URLS, key, encode(row))

    return spoil


def each(table: str) -> Change:
    """Lose all rows of a table."""

    def change(damage: Damage) -> None:
        for key, _ in damage.items(table):
            damage.delete(table, key)

    return change
