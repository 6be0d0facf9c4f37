"""Batches of calls that are one transaction, with a note of the caller's in it."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from budgetfrontier.engine.guard import Guard
from budgetfrontier.errors import FrontierError, WrongType
from budgetfrontier.storage import keys, meta

MOST_OPERATIONS = 100_000
"""Operations of an atomic batch: URIs admitted, leased and finished, and other changes. They are in memory."""
LONGEST_NOTE = 16 << 20
"""Bytes of a note."""


class AtomicBatch:
    """The calls in one `with frontier.atomic()` block: committed together at its end, or not at all.

    `note` is stored with them; set it anywhere in the block. Raises WrongType unless it is bytes.
    """

    def __init__(self, guard: Guard, note: bytes | None) -> None:
        self.note = note
        self._guard = guard
        self._soon = 0

    @property
    def note(self) -> bytes | None:
        """The note to store; None: the one before stays."""
        return self._note

    @note.setter
    def note(self, note: bytes | None) -> None:
        self._note = None if note is None else _checked(note)

    @property
    def full(self) -> bool:
        """Whether the batch should end soon: as much is in memory as is usually committed at a time."""
        return self._guard.is_commit_due(self._soon)

    def __enter__(self) -> Self:
        guard = self._guard
        guard.enter()
        commits = guard.commits
        if commits.in_batch:
            raise FrontierError("an atomic batch is in progress: batches cannot be nested")
        if guard.is_commit_due(commits.most // 2):
            guard.attempt(guard.commit)  # earlier changes must not use up the room
        self._soon = commits.changes + min(commits.most, MOST_OPERATIONS // 2)
        commits.begin_batch(MOST_OPERATIONS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        guard = self._guard
        if guard.forked or not guard.commits.in_batch:
            return
        if error is not None:
            guard.drop(error)
        elif guard.closed is not None:
            guard.refuse()
        else:
            guard.attempt(self._commit)
            guard.leave(0)

    def _commit(self) -> None:
        guard = self._guard
        if self.note is not None:
            meta.write_row(guard.tables.env.txn, guard.tables.env.db[keys.META], meta.NOTE, self.note)
            guard.commits.changes += 1
        guard.commit()
        guard.commits.end_batch()


def _checked(note: bytes) -> bytes:
    if not isinstance(note, bytes):
        raise WrongType(f"a note is bytes, not {type(note).__name__}")
    if len(note) > LONGEST_NOTE:
        raise ValueError(f"a note may have {LONGEST_NOTE:,} bytes, not {len(note):,}")
    return note
