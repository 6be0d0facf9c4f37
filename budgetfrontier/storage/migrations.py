"""Migrations from each schema to the next, run by the first writer that opens an older frontier.

All run in the writer's transaction, which is committed at the end of the opening: after a kill before that, the file is
unchanged. Readers run none: they have to understand every schema.
"""

from __future__ import annotations

from collections.abc import Callable

import lmdb

from budgetfrontier.core.model import QueueState
from budgetfrontier.storage import keys, meta
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.records import decode_queue

Step = Callable[[keys.Txn, keys.Tables], None]


def upgrade(env: lmdb.Environment, txn: keys.Txn, db: keys.Tables, stored: int) -> None:
    """Migrate the tables from schema `stored` to that of this version; the handles of new tables are added to `db`."""
    for schema in range(stored, keys.SCHEMA):
        for name in keys.tables_of(schema + 1)[len(keys.tables_of(schema)) :]:
            db[name] = env.open_db(name.encode(), txn=txn)
            txn.put(keys.SENTINEL, b"", db=db[name])
        STEPS[schema](txn, db)
    txn.put(b"schema", str(keys.SCHEMA).encode(), db=db[keys.META])


def _count_retired_by_name(txn: keys.Txn, db: keys.Tables) -> None:
    """Count the queues that were retired by name. Schema 2 also adds a short form of URIs; the old one stays valid."""
    counters = meta.read_counters(txn, db[keys.META])
    found = (txn.get(queue_id, db=db[keys.QUEUES]) for _, queue_id in txn.cursor(db[keys.RETIRED]) if queue_id)
    queues = (decode_queue(value) for value in found if value is not None)
    counters.retired_by_name = sum(queue.by_name and queue.state is QueueState.RETIRED for queue in queues)
    txn.put(b"counters", encode(counters), db=db[keys.META])


def _add_runs_and_series(txn: keys.Txn, db: keys.Tables) -> None:
    """Leave the new tables empty: what happened before schema 3 was not recorded. Penalties are summed, O(queues)."""
    counters = meta.read_counters(txn, db[keys.META])
    counters.penalties = sum(decode_queue(value).penalties for _, value in txn.cursor(db[keys.QUEUES]) if value)
    counters.other_expenditure = counters.expenditure
    txn.put(b"counters", encode(counters), db=db[keys.META])


def _add_urls(txn: keys.Txn, db: keys.Tables) -> None:
    """Leave the new table empty: no frontier of schema 3 keeps its URLs."""


def _add_seeds(txn: keys.Txn, db: keys.Tables) -> None:
    """Leave the new tables empty: seeds are listed when they are scheduled, as a crawl does at each start."""


STEPS: dict[int, Step] = {1: _count_retired_by_name, 2: _add_runs_and_series, 3: _add_urls, 4: _add_seeds}
"""The migrations, by the schema that each starts from; the tables that the next one adds exist already."""
