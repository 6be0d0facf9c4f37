"""Reading of a partition's log: in order, without gaps, and without the changes of owners that had lost it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from budgetfrontier.bus.interface import Received
from budgetfrontier.cluster.log import entries
from budgetfrontier.cluster.log.entries import BadEntry, Changed, Changes, Claimed, Request
from budgetfrontier.cluster.log.state import LogPlace
from budgetfrontier.errors import FrontierError

log = logging.getLogger("budgetfrontier.cluster")

Begins = Callable[[], int | None]
"""Returns the offset from which on a log has all its entries; None if it leaves out no offsets (`Bus.begins`)."""


class LogGap(FrontierError):
    """Entries of a log are missing: restore a later snapshot of the partition."""


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

    def __init__(self, place: LogPlace, *, position: int | None = None, epoch: int | None = None) -> None:
        """Begin at a place, or at another position of its log with the epoch there."""
        self.place = place
        self.position = place.position if position is None else position
        """The offset of the next entry."""
        self.epoch = place.epoch if epoch is None else epoch
        """That of the last claim before it."""
        self._has_told = False
        """Whether the log of this program has a line on an entry that cannot be read: one is enough."""
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
        again = LogReading(self.place, position=self.begins, epoch=self.epoch)
        again._has_told = self._has_told
        return again

    def read(self, batch: Sequence[Received], begins: Begins = lambda: None) -> Iterator[ReadEntry]:
        """Yield what counts of the next entries, after each of which it may be ended; `position` is behind it.

        Offsets may be left out, as those of a transaction's control records are, where the log has all its entries.
        Raises LogGap if entries are missing, or the log has begun again, and NewerEntry.
        """
        if batch and batch[0].offset < self.position:
            raise LogGap(self._begun_again(batch[0].offset))
        begins = cache(begins)
        for _, offset, data, _ in batch:
            if offset > self.position and ((first := begins()) is None or first > self.position):
                raise LogGap(gap(self.place, self.position, offset))
            try:
                body = entries.decode(data, crawl=self.place.crawl)
            except BadEntry as e:
                self._tell(offset, e)
                body = None
            self.position = offset + 1
            if isinstance(body, Changed):
                if (changes := self._joined(offset, body)) is not None:
                    yield ReadEntry(self._first, self.epoch, changes, len(data))
            elif isinstance(body, Claimed):
                self._pieces.clear()
                before, self.epoch = self.epoch, offset
                yield ReadEntry(offset, before, body, len(data))
            elif body is not None:
                yield ReadEntry(offset, self.epoch, body, len(data))

    def _joined(self, offset: int, entry: Changed) -> OwnerChanges | None:
        """Return the changes of which an entry is the last piece; None if it is not, or if they do not count."""
        if entry.epoch != self.epoch:
            return None
        if not self._pieces:
            self._first = offset
        self._pieces.append(entry.piece)
        if not entry.is_last:
            return None
        pieces, self._pieces = self._pieces, []
        return OwnerChanges(entry.epoch, entry.number, entries.decode_changes(pieces))

    def _tell(self, offset: int, why: BadEntry) -> None:
        if not self._has_told:
            self._has_told = True
            log.error(
                "%s: the entry at offset %d is left out, as all others that cannot be read: %s",
                _named(self.place), offset, why, extra={"event": "bad_entry", "partition": self.place.partition},
            )  # fmt: skip

    def _begun_again(self, first: int) -> str:
        """Return the message for a log that has used applied offsets again."""
        return (
            f"{_named(self.place)}: its copy has the entries before offset {self.position}, and the log goes on at "
            f"{first}: the topic {self.place.crawl}-log was made anew, or has lost its end. Nothing was applied. Bring "
            "the topic back, or begin the crawl under another name; `budgetfrontier export` reads the copy"
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


def other_log(place: LogPlace, there: str) -> str:
    """Return the message for another log than a copy was made from."""
    return (
        f"{_named(place)}: its copy was made from another log than the topic {place.crawl}-log, which was made anew "
        f"({place.log}, now {there}). Nothing was applied. Bring the topic back, or begin the crawl under another "
        "name; to begin it anew under this one, move the folders of its workers and its snapshots away"
    )


def _named(place: LogPlace) -> str:
    return f"partition {place.partition} of {place.crawl!r}"
