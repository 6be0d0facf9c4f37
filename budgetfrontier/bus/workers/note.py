"""The checkpoint of a database worker, stored in its frontier in one transaction with the effects of messages."""

from __future__ import annotations

import os
from collections.abc import Iterable

import msgspec

from budgetfrontier.bus.streams import Stream
from budgetfrontier.errors import FrontierError


class WorkerNote(msgspec.Struct, array_like=True, tag="budgetfrontier.bus 1"):
    """The place of a worker in its logs, and the requests that it has to send."""

    stream: str
    """The name of the spider log, which differs between crawls."""
    partitions: tuple[int, ...]
    """The partitions of the spider log and the scoring log for the hosts of this frontier: they never change."""
    of: int
    """The number of partitions that there are."""
    frontier: bytes
    """A random name of the frontier, which its leases have with them: ids of leases begin anew in each frontier."""
    spider_log: dict[int, int] = {}
    """The offset of the next message, of each partition."""
    scoring_log: dict[int, int] = {}
    job: int = 0
    unsent: list[tuple[int, bytes]] = []
    """Requests that were leased for the spider feed, with their partitions, and may not have been sent."""
    spider_log_id: bytes = b""
    """The id of the log that the offsets belong to, for a log made anew begins with the same ones; empty: not known."""
    scoring_log_id: bytes = b""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(WorkerNote).decode


def encode(note: WorkerNote) -> bytes:
    return _encode(note)


def opened(stored: bytes | None, spider_log: Stream, partitions: Iterable[int]) -> WorkerNote:
    """Return the note of a frontier, a new one if it has none, for a worker with these partitions (none: all).

    Raises FrontierError if the frontier is that of another crawl or of other partitions, or another program's.
    """
    of = spider_log.partitions
    own = tuple(sorted(set(partitions))) or tuple(range(of))
    if stored is None:
        return WorkerNote(spider_log.name, own, of, os.urandom(8))
    try:
        note = _decode(stored)
    except ValueError:  # msgspec's errors are ValueErrors
        raise FrontierError(
            "another program, or another version of this one, reads its messages into this frontier: give this worker "
            "a job of its own, or start that version"
        ) from None
    if note.stream != spider_log.name:
        raise FrontierError(
            f"this frontier has the messages of the stream {note.stream}, not those of {spider_log.name}: start the "
            "worker with the --prefix it was started with at first, or give it a job of its own"
        )
    if (note.partitions, note.of) != (own, of):
        raise FrontierError(
            f"this frontier has the hosts of {_listed(note.partitions, note.of)} of the spider log, not those of "
            f"{_listed(own, of)}: start the worker with the options it was started with at first"
        )
    return note


def _listed(partitions: tuple[int, ...], of: int) -> str:
    if len(partitions) == of:
        return f"all {of} partitions" if of > 1 else "the only partition"
    return f"partition {', '.join(map(str, partitions))} of {of}"
