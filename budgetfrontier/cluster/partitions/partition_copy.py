"""A copy of a partition: tables into which the rows of its log are written, whoever the owner is.

It has no frontier, no policy and no settings; the owner's frontier opens the same folder. No threads, no network.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import Final

from budgetfrontier.bus.interface import Received
from budgetfrontier.cluster.log import state
from budgetfrontier.cluster.log.entries import Claimed
from budgetfrontier.cluster.log.log_reading import (
    Begins,
    LogGap,
    LogReading,
    OwnerChanges,
    gone_on_from_before,
    unreadable,
)
from budgetfrontier.cluster.log.state import FRONTIER, LogPlace
from budgetfrontier.errors import CorruptFrontier, FrontierError
from budgetfrontier.settings import Settings
from budgetfrontier.storage import keys, meta, table_changes
from budgetfrontier.storage.environment import Environment
from budgetfrontier.storage.table_changes import UnreadableChanges

STILL: Final = 5.0
"""Seconds without an entry after which a log has no more of them."""


class PartitionCopy:
    """One partition of a crawl in a folder of its own, as of its log: `apply` takes entries, `commit` stores them.

    Nothing is stored in the folder before there is something in the log.
    """

    def __init__(self, folder: Path, crawl: str, partition: int, partitions: int) -> None:
        """Open the copy as of its last commit. Raises CorruptFrontier, FrontierLocked, NewerSchema, and FrontierError
        for the folder of something else.
        """
        self.folder, self.number = folder, partition
        self._env: Environment | None = None
        self._is_written = False
        wanted = LogPlace(crawl, partition, partitions)
        if (self._path / "data.mdb").is_file():
            self._env = Environment(self._path)
            try:
                wanted = _checked(state.place_of(self._place_row(), self._path), wanted, self._path)
            except BaseException:
                self._env.close()
                raise
        self.reading = LogReading(wanted)
        self.nonce = b""
        """That of the claim which was appended for this copy; empty: none was."""
        self.claims_at = 0.0
        """When to claim the partition (`time.monotonic`), at the earliest."""
        self.claims_behind = 0
        """The offset up to which the log is to be read before the partition is claimed."""
        self._read_at = monotonic()
        self._number: int | None = None
        """That of the last changes that were read."""

    def __repr__(self) -> str:
        return f"<PartitionCopy {self.number} of {self.place.crawl!r} at {self.reading.position}>"

    @property
    def _path(self) -> Path:
        return self.folder / FRONTIER

    @property
    def place(self) -> LogPlace:
        """The place in the log as of the last changes that say one."""
        row = self._place_row()
        return self.reading.place if row is None else state.decode(row, LogPlace)

    @property
    def settings(self) -> Settings | None:
        """The settings with which the partition is, as far as this release knows them; None if nobody has begun it."""
        return None if self._env is None else meta.read_settings(self._env.txn, self._env.db[keys.META])[0]

    def may_be_claimed(self) -> bool:
        """Return whether it is time, and the log was read: a log that this release cannot read gets no claim.

        If nothing has come for `STILL` seconds, the offsets that are left are no entries. Raises CorruptFrontier if the
        copy has changes that the log has not.
        """
        now = monotonic()
        is_read = self.reading.position >= self.claims_behind or now >= self._read_at + STILL
        if self.nonce or not is_read or now < self.claims_at:
            return False
        if self._env is not None and self._number is not None:
            done = meta.read_changes(self._env.txn, self._env.db[keys.META])
            if done != self._number:
                raise CorruptFrontier(f"{self._path} has the changes up to {done:,}, and its log to {self._number:,}")
        return True

    def apply(self, batch: Sequence[Received], *, begins: Begins = lambda: None) -> int | None:
        """Write the changes in entries; return the offset of the own claim, and read no further than that.

        Raises LogGap if entries are missing, cannot be read, or do not follow each other, OtherVersion, NewerChanges,
        and CorruptFrontier if the copy is damaged, or its place is not one of this log.
        """
        self._read_at = monotonic()
        for offset, _, body, _ in self.reading.read(batch, begins):
            if isinstance(body, OwnerChanges):
                if body.changes.rows is not None:
                    self._write(offset, body.changes.rows)
            elif isinstance(body, Claimed) and body.nonce == self.nonce:
                return offset
        return None

    def commit(self) -> None:
        """Store the changes that were written; without any, nothing is written to the disk."""
        if self._env is not None and self._is_written:
            self._env.commit()
            self._is_written = False

    def close(self) -> None:
        """Close the tables as of the last commit."""
        env, self._env = self._env, None
        if env is not None:
            env.close()

    def _write(self, offset: int, rows: bytes) -> None:
        if self._env is None:
            self._env = Environment(self._path)
        try:
            number = table_changes.apply(self._env, rows).number
        except UnreadableChanges as e:
            raise LogGap(unreadable(self.place, offset, e)) from None
        before, self._number = self._number, number
        if before is not None and number != before + 1:
            raise LogGap(gone_on_from_before(self.place, offset, number, before))
        self._is_written = True
        if self._env.due:
            self.commit()

    def _place_row(self) -> bytes | None:
        env = self._env
        return None if env is None else meta.read_row(env.txn, env.db[keys.META], meta.PLACE)


def _checked(found: LogPlace, wanted: LogPlace, folder: Path) -> LogPlace:
    """Return the place that a folder has. Raises FrontierError if it is that of another partition."""
    have, want = found.of, wanted.of
    if have == want:
        return found
    if have[:2] == want[:2]:
        advice = f"the number is fixed when a crawl begins: set cluster.partitions to {have[2]}, or name another crawl"
    else:
        advice = "give another folder, or the crawl's own name"
    raise FrontierError(
        f"{folder} is partition {have[1]} of {have[2]} of the crawl {have[0]!r}, not {want[1]} of {want[2]} of "
        f"{want[0]!r}: {advice}"
    )
