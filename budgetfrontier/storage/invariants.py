"""The check of a frontier's invariants: the tables are compared with each other and with the totals.

It reads every record, and keeps those of all queues in memory. Tests run it after each step, operators by `verify`.
"""

from __future__ import annotations

from pathlib import Path

import lmdb

from budgetfrontier.errors import CorruptFrontier
from budgetfrontier.storage import keys
from budgetfrontier.storage.checks import queue_checks, record_checks
from budgetfrontier.storage.checks.checked_tables import CheckedTables
from budgetfrontier.storage.checks.uri_checks import UriChecks
from budgetfrontier.storage.damage import report
from budgetfrontier.storage.recognition import SHAPES, SHAPES_OF_INDEXES


def check(txn: keys.Txn, db: keys.Tables, folder: Path | None = None) -> None:
    """Raise CorruptFrontier, listing every invariant that is violated. `folder` has the Bloom filter, if there is one.

    Without a folder, the frontier is in memory.
    """
    tables = CheckedTables(txn, db, folder)
    try:
        for name, is_of_table in (SHAPES | SHAPES_OF_INDEXES).items():
            tables.check_shapes(name, is_of_table)
        queue_checks.read_queues(tables)
        UriChecks(tables).run()
        queue_checks.run(tables)
        record_checks.run(tables)
    except (lmdb.Error, LookupError, ValueError) as e:
        tables.report(f"a record cannot be read ({type(e).__name__}: {e})")
    if tables.problems:
        raise CorruptFrontier(report(tables.problems))
