"""Batches of calls that are one transaction, with a note of the caller's in it."""

from __future__ import annotations

from math import inf
from types import TracebackType
from typing import TYPE_CHECKING, Self

from budgetfrontier.core.errors import CommandInProgress, FrontierError, StorageFull
from budgetfrontier.engine.commands.mailbox import Command, checked
from budgetfrontier.engine.commands.runner import STEP
from budgetfrontier.storage import keys, meta
from budgetfrontier.storage.records import AuditEntry

if TYPE_CHECKING:
    from budgetfrontier.engine.guard import Guard

MOST_OPERATIONS = 100_000
"""Operations of an atomic batch: URIs admitted, leased and finished, and other changes. They are in memory."""
LONGEST_NOTE = 16 << 20
"""Bytes of a note."""


class AtomicBatch:
    """The calls in one `with frontier.atomic()` block: committed together at its end, or not at all.

    `note` is stored with them; set it anywhere in the block. Raises TypeError for one that is not bytes.
    """

    def __init__(self, guard: Guard, note: bytes | None) -> None:
        self.note = note
        self._guard = guard
        self._next_tick = inf
        self._first = self._soon = self._limit = 0

    def __repr__(self) -> str:
        return f"<AtomicBatch of {self._guard!r}>"

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

    def replicate(self, first_lease: int) -> None:
        """Begin an entry of the log of a replicated frontier: a log that is applied again gives the same frontier.

        Leases have the ids from `first_lease` on, which no other entry may give (64 bits), and jitter depends on it
        alone. The caller has set the clock to the time of the entry. Raises FrontierError if the frontier is not
        replicated.
        """
        if not self._guard.replicated:
            raise FrontierError("this frontier is not replicated: open it with `replicated=True`")
        tables = self._guard.tables
        tables.leases.number_from(first_lease, tables.counters)
        tables.random.seed(first_lease)

    def apply(self, command: Command) -> AuditEntry | None:
        """Apply a command of the log of a replicated frontier; return its audit entry, which says if it was refused.

        Of a long one, such as a deletion, the first step is applied, and None returned: `go_on` takes the others.
        Raises CommandInProgress for one that has to wait for a long one, and FrontierError for one that is none.
        """
        guard, command = self._guard, checked(command)
        if guard.commands.must_wait(command):
            raise CommandInProgress(guard.commands.told(command))
        return self._ended(guard.operate(lambda: guard.delivery.begin(command, 0).entry))

    def refuse(self, command: Command, why: str) -> AuditEntry:
        """Refuse a command of the log, whatever it is; return its audit entry."""
        guard, command = self._guard, checked(command)
        return guard.operate(lambda: guard.commands.refuse(command, why, guard.now()))

    def go_on(self) -> AuditEntry | None:
        """Do a step of what is left to be done whatever is called, see `Frontier.goes_on_at`.

        The leases that have expired end; a long command and a change of settings take their next steps. Returns the
        audit entry of a command that has ended with that.
        """
        guard = self._guard
        job = guard.commands.job

        def step() -> None:
            now = guard.now()
            guard.kernel.unfinished_leases.expire(now)
            if job is not None:
                guard.commands.step(now)
                guard.commits.changes += STEP
            guard.kernel.rollout.step()

        guard.operate(step)
        return None if job is None else self._ended(job.entry)

    def _ended(self, entry: AuditEntry | None) -> AuditEntry | None:
        """Return the entry of a command that has ended. On a full disk it is not to be applied, instead of refused."""
        if entry is not None and entry.disk_full:
            self._guard.abort(StorageFull(entry.error))
        return entry

    def __enter__(self) -> Self:
        guard = self._guard
        guard.enter()
        if guard.batch is not None:
            raise FrontierError("an atomic batch is in progress: batches cannot be nested")
        commits = guard.commits
        if guard.is_commit_due(commits.most // 2):
            guard.attempt(guard.commit)  # what came before must not use up the room
        self._next_tick = commits.next_tick
        self._first = commits.changes
        self._soon = self._first + min(commits.most, MOST_OPERATIONS // 2)
        self._limit = min(self._first + MOST_OPERATIONS, guard.tables.env.operations)
        commits.next_tick, commits.most = inf, self._limit
        guard.batch = self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        guard = self._guard
        if guard.batch is not self or guard.forked:
            return
        if error is not None:
            guard.drop(error)
        elif guard.closed is not None:
            guard.refuse()
        else:
            guard.attempt(self._commit)
            guard.leave(0)

    def check_size(self) -> None:
        """Raise FrontierError if the batch has become too large."""
        if self._guard.commits.changes >= self._limit:
            most = self._limit - self._first - 1
            raise FrontierError(
                f"this atomic batch has more than {most:,} operations, and nothing of it was stored: end it "
                "when `full` says so"
            )

    def _commit(self) -> None:
        guard = self._guard
        if self.note is not None:
            meta.write_note(guard.tables.env.txn, guard.tables.env.db[keys.META], self.note)
            guard.commits.changes += 1
        guard.commit()
        guard.batch, guard.commits.next_tick = None, self._next_tick


def _checked(note: bytes) -> bytes:
    if not isinstance(note, bytes):
        raise TypeError(f"a note is bytes, not {type(note).__name__}")
    if len(note) > LONGEST_NOTE:
        raise ValueError(f"a note may have {LONGEST_NOTE:,} bytes, not {len(note):,}")
    return note
