"""When a commit is due: by time, by operations, by memory, or because a lease has found nothing."""

from __future__ import annotations

import time
from math import inf

from budgetfrontier.engine.tables import Tables
from budgetfrontier.errors import FrontierError

MOST_AT_ONCE = 1000
"""The number of queues that are revived, retired or woken before a commit, so that no call takes long."""


class CommitSchedule:
    """Counts changes since the last commit, and determines when the next one is due.

    `Guard.leave` compares `changes` with `most`, and the time with `next_tick`, after every call, and also the limits
    on memory that `Environment` has: `due` and `most_queues`.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._env, self._queues = tables.env, tables.queues
        self.in_batch = False
        """Whether an atomic batch is in progress: nothing is committed before its end."""
        self._before, self._tick = 0, inf
        self.begin()
        self.begin_interval()

    def begin(self) -> None:
        """Start counting from zero, after a commit."""
        room = self._env.operations
        self.changes = 0
        """Operations since the last commit."""
        self.most = min(self._tables.in_force.frontier.commit_operations or room, room)
        """Operations at which a commit is due: as the settings say, or as many as the map has room for."""

    def begin_interval(self, seconds: float | None = None) -> None:
        """Start the commit interval, or one of so many seconds: in real, monotonic time."""
        interval = self._tables.in_force.frontier.commit_interval if seconds is None else seconds
        self.next_tick = time.monotonic() + interval

    @property
    def has_changes(self) -> bool:
        """Whether anything has changed since the last commit."""
        return self.changes > 0 or self._queues.has_changed

    def is_due_after_lease(self, leased: int, wanted: int, *, cut_short: bool) -> bool:
        """Return whether a lease ends with a commit: it found nothing, or has more to do after moving many queues."""
        if cut_short:
            return len(self._queues.dirty) >= MOST_AT_ONCE
        return wanted > 0 and not leased

    # -- atomic batches

    def begin_batch(self, most: int) -> None:
        """Let no commit be due until the end of a batch, which may have fewer than `most` operations, if they fit."""
        self.in_batch, self._before, self._tick = True, self.changes, self.next_tick
        self.most, self.next_tick = min(self.changes + most, self._env.operations), inf

    def end_batch(self) -> None:
        """Go on as before the batch, which was committed."""
        self.in_batch, self.next_tick = False, self._tick

    def check_batch(self) -> None:
        """Raise FrontierError if the batch in progress has become too large."""
        if self.changes >= self.most:
            raise FrontierError(
                f"this atomic batch has more than {self.most - self._before - 1:,} operations, and nothing of it was "
                "stored: end it when `full` says so"
            )
