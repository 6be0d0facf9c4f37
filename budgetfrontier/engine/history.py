"""The owner of the table `history`: the outcomes, durations, links and sizes of the attempts of each queue."""

from __future__ import annotations

from typing import Any

from budgetfrontier.core.model import Directive, Finish, Lease, Outcome
from budgetfrontier.rules import queue_history
from budgetfrontier.rules.queue_history import KINDS, LANDED, count
from budgetfrontier.storage import keys
from budgetfrontier.storage.environment import Environment

MOST_ENDED = 1 << 14
"""Attempts kept in memory at the most, before they are counted."""
_SUCCESS, _HIGHEST = Outcome.SUCCESS, int(Directive.HIGHEST)


class History:
    """Counts the attempts of queues. Those since the last commit are counted with it, each queue's row read once."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._ended: list[tuple[int, int, float | None, int, int, int]] = []

    def __repr__(self) -> str:
        return f"<History {len(self._ended)} attempts not counted yet>"

    def ended(self, lease: Lease, ending: Finish, new: int) -> None:
        """Note an attempt that ended with details; `new` of the URIs discovered were admitted."""
        outcome = ending.outcome
        kind = KINDS.get(outcome)
        if kind is None or (
            lease.key[keys.DIRECTIVE] == _HIGHEST and (outcome is _SUCCESS or outcome is Outcome.DISREGARDED)
        ):
            return  # robots.txt files are no pages; that they fail says that their host does
        seconds = None if lease.landed else ending.fetch_seconds
        links = len(ending.discovered)  # type: ignore[arg-type]  # it was checked
        self._ended.append((lease.queue_id, kind, seconds, links, new, ending.size))
        if len(self._ended) >= MOST_ENDED:
            self.flush()

    def landed(self, lease: Lease, fetch_seconds: float) -> None:
        """Note the duration of a download whose lease has landed."""
        self._ended.append((lease.queue_id, LANDED, fetch_seconds, 0, 0, 0))

    def flush(self) -> None:
        """Count the attempts, and write the rows."""
        if not self._ended:
            return
        rows: dict[int, list[Any]] = {}
        for queue_id, kind, seconds, links, new, size in self._ended:
            row = rows.get(queue_id)
            if row is None:
                row = rows[queue_id] = self._row(queue_id)
            count(row, kind, seconds, links, new, size)
        self._ended.clear()
        encoded = [(keys.u32.pack(queue_id), keys.history.pack(*rows[queue_id])) for queue_id in sorted(rows)]
        self._env.txn.cursor(self._env.db[keys.HISTORY]).putmulti(encoded)

    def _row(self, queue_id: int) -> list[Any]:
        value = self._env.txn.get(keys.u32.pack(queue_id), db=self._env.db[keys.HISTORY])
        return list(queue_history.NEW if value is None else keys.history.unpack(value))
