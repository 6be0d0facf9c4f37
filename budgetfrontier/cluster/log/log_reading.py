"""Reading of a partition's log: in order, without gaps, and without the changes of owners that had lost it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from msgspec.structs import replace

from budgetfrontier.bus.interface import Received
from budgetfrontier.cluster.log import entries
from budgetfrontier.cluster.log.entries import (
    Body,
    Changed,
    Changes,
    Claimed,
    ForeignEntry,
    Request,
    UnreadableEntry,
)
from budgetfrontier.cluster.log.state import LogPlace
from budgetfrontier.errors import CorruptFrontier, FrontierError

log = logging.getLogger("budgetfrontier.cluster")

Begins = Callable[[], int | None]
"""Returns the offset from which on a log has all its entries; None if it leaves out no offsets (`Bus.begins`)."""


class LogGap(FrontierError):
    """Entries of a log are missing, or cannot be read: restore a later snapshot of the partition."""


class OwnerChanges(NamedTuple):
    """Changes of an owner, once all their pieces were read; they count."""

    epoch: int
    number: int
    changes: Changes


class ReadEntry(NamedTuple):
    """An entry that counts, with the offset from which the log is read to have it again, and the epoch before that."""

    offset: int
    epoch: int
    body: Claimed | OwnerChanges | Request
    size: int
    """Bytes in the log."""


class LogReading:
    """Reads the log of a partition from a place on."""

    def __init__(self, place: LogPlace, foreign: list[int] | None = None) -> None:
        """Begin at a place. `foreign` is that of an earlier reading of this log."""
        self.place = place
        self.position, self.epoch = place.position, place.epoch
        """The offset of the next entry, and that of the last claim before it."""
        self.foreign: list[int] = [] if foreign is None else foreign
        """The offset of an entry of something else, on which the log of this program has a line: one is enough."""
        self._pieces: list[bytes] = []
        self._first = self.position

    def __repr__(self) -> str:
        return f"<LogReading of partition {self.place.partition} of {self.place.crawl!r} at {self.position}>"

    @property
    def begins(self) -> int:
        """The offset from which the log has to be read again to go on from here: changes may have been read in part."""
        return self._first if self._pieces else self.position

    def again(self) -> LogReading:
        """Return a reading that goes on from where this one `begins`."""
        return self.at(self.begins, self.epoch)

    def at(self, position: int, epoch: int) -> LogReading:
        """Return a reading of the same log from another position on, with the epoch there."""
        return LogReading(replace(self.place, position=position, epoch=epoch), self.foreign)

    def read(self, batch: Sequence[Received], begins: Begins = lambda: None) -> Iterator[ReadEntry]:
        """Yield what counts of the next entries, after each of which it may be ended; `position` is behind it.

        Offsets may be left out, as those of a transaction's control records are, where the log has all its entries.
        Raises LogGap if entries are missing or cannot be read, or the log has begun again, OtherVersion, and
        CorruptFrontier if the place is not one of this log.
        """
        if batch and batch[0].offset < self.position:
            raise LogGap(begun_again(self.place, self.position, f"goes on at {batch[0].offset}"))
        begins = cache(begins)
        for _, offset, data, _ in batch:
            if offset > self.position and ((first := begins()) is None or first > self.position):
                raise LogGap(gap(self.place, self.position, offset))
            try:
                body: Body | OwnerChanges | None = entries.decode(data, crawl=self.place.crawl)
                if isinstance(body, Changed):
                    body = self._joined(offset, body)
            except ForeignEntry as e:
                self._tell(offset, e)
                body = None
            except UnreadableEntry as e:
                raise LogGap(unreadable(self.place, offset, e)) from None
            self.position = offset + 1
            if isinstance(body, OwnerChanges):
                yield ReadEntry(self._first, self.epoch, body, len(data))
            elif isinstance(body, Claimed):
                self._pieces.clear()
                before, self.epoch = self.epoch, offset
                yield ReadEntry(offset, before, body, len(data))
            elif body is not None:
                yield ReadEntry(offset, self.epoch, body, len(data))

    def _joined(self, offset: int, entry: Changed) -> OwnerChanges | None:
        """Return the changes of which an entry is the last piece; None if it is not, or if they do not count."""
        if entry.epoch > self.epoch:
            raise CorruptFrontier(
                f"{_named(self.place)}: the changes at offset {offset} are of the claim at {entry.epoch}, and the last "
                f"one known is that at {self.epoch}: the place of the copy in its log is wrong"
            )
        if entry.epoch < self.epoch:
            return None
        if not self._pieces:
            self._first = offset
        self._pieces.append(entry.piece)
        if not entry.is_last:
            return None
        pieces, self._pieces = self._pieces, []
        return OwnerChanges(entry.epoch, entry.number, entries.decode_changes(pieces))

    def _tell(self, offset: int, why: ForeignEntry) -> None:
        if not self.foreign:
            self.foreign.append(offset)
            log.error(
                "%s: the entry at offset %d is left out, as all others that are of something else: %s",
                _named(self.place), offset, why, extra={"event": "bad_entry", "partition": self.place.partition},
            )  # fmt: skip


def begun_again(place: LogPlace, position: int, there: str) -> str:
    """Return the message for a log that has used applied offsets again, or has not got so far; `there` tells which."""
    return (
        f"{_named(place)}: its copy has the entries before offset {position}, and the log {there}: the topic "
        f"{place.crawl}-log was made anew, or has lost its end. Nothing was applied. Bring the topic back, or begin "
        "the crawl under another name; `budgetfrontier export` reads the copy"
    )


def gap(place: LogPlace, position: int, first: int) -> str:
    """Return the message for a log that begins at `first`, after the position of a copy."""
    return (
        f"{_named(place)}: its copy needs the entries from offset {position} on, and the first that the log still has "
        f"is {first}. Those between are missing, so that nothing was applied. A worker that has such a copy takes the "
        f"partition over; else give `cluster.snapshots` a store with a snapshot of it at {first} or later, or this "
        f"worker a folder with such a copy; a store that did not answer is asked again. Workers delete only what a "
        "snapshot has: look whether the topic "
        f"{place.crawl}-log has retention.ms or retention.bytes, and set them to -1"
    )


def unreadable(place: LogPlace, offset: int, why: FrontierError) -> str:
    """Return the message for an entry of this crawl that cannot be read."""
    return (
        f"{_named(place)}: the entry at offset {offset} is of this crawl and of version {entries.VERSION}, and cannot "
        f"be read: {why}. Neither it nor what comes after it was applied. A worker that has applied it takes the "
        "partition over; else start a worker with the very budgetfrontier that wrote it, or give `cluster.snapshots` a "
        f"store with a snapshot of the partition at {offset + 1} or later"
    )


def gone_on_from_before(place: LogPlace, offset: int, number: int, before: int) -> str:
    """Return the message for changes that do not follow those before them: their owner had not all of these."""
    return (
        f"{_named(place)}: the changes at offset {offset} have the number {number:,}, and {before:,} came before them: "
        "a worker has gone on from a copy that had not all changes. Nothing after them was applied. Its copy alone "
        "goes on with this log: start that worker, or give `cluster.snapshots` a store with a later snapshot of it"
    )


def other_log(place: LogPlace, there: str) -> str:
    """Return the message for another log than a copy was made from."""
    return (
        f"{_named(place)}: its copy was made from another log than the topic {place.crawl}-log, which was made anew "
        f"({place.log}, now {there}). Nothing was applied. Bring the topic back, or begin the crawl under another "
        "name; to begin it anew under this one, move the folders of its workers and its snapshots away"
    )


def _named(place: LogPlace) -> str:
    return f"partition {place.partition} of {place.crawl!r}"
