"""The table `audit`: the commands that were applied, and their effects."""

from __future__ import annotations

from budgetfrontier.errors import FrontierError
from budgetfrontier.storage import keys
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.environment import Environment
from budgetfrontier.storage.records import AuditEntry, Counters


class Audit:
    """The audit. An entry is committed in the same transaction as the effect of its command."""

    def __init__(self, env: Environment, counters: Counters) -> None:
        self._env = env
        self._counters = counters

    def record(self, entry: AuditEntry) -> None:
        """Add an entry, which gets its number here."""
        self._counters.audit += 1
        entry.id = self._counters.audit
        self._env.txn.put(keys.u64.pack(entry.id), encode(entry), db=self._env.db[keys.AUDIT])

    def replace(self, entry: AuditEntry) -> None:
        """Write an entry in the place of the one with its number."""
        self._env.txn.put(keys.u64.pack(entry.id), encode(entry), db=self._env.db[keys.AUDIT])


def check(entry: AuditEntry) -> AuditEntry:
    """Return an entry. Raises FrontierError if its command was refused."""
    if entry.error:
        raise FrontierError(entry.error)
    return entry
