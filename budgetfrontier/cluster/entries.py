"""The entries of a partition's log: everything that changes its frontier, in order, as MessagePack.

A partition is a state machine: the same entries give the same frontier in any process. So an entry contains all its
data, the time included, and the owner of a partition applies its own calls only when it reads them in the log.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from budgetfrontier.cluster.quota_slices import Amounts, Want
from budgetfrontier.core.protocol import Uri
from budgetfrontier.errors import FrontierError

VERSION: Final = 1
"""The version of entries: one of another version ends the worker."""
LONGEST: Final = 16 << 20
"""Bytes of an entry."""


class BadEntry(FrontierError):
    """An entry of a log cannot be read, or is of another crawl; it is skipped."""


class NewerEntry(FrontierError):
    """The log has an entry of another version of budgetfrontier; start this worker with that version."""


class Claimed(msgspec.Struct, array_like=True, tag=True, frozen=True):
    """A worker takes the partition over. The offset of this entry is the epoch of its calls; earlier ones end.

    `settings` are those of the crawl, as plain data: they are in force from here on.
    """

    worker: str
    nonce: bytes
    settings: dict[str, Any]
    log: str = ""
    """The identity of the log, if the bus has any: that of the topic."""


class Called(msgspec.Struct, array_like=True, tag=True, frozen=True):
    """A call of a client, which the owner of the partition has taken: an RPC of `protocol` and its arguments.

    It has no effect if another worker has claimed the partition before it.
    """

    epoch: int
    number: int
    method: str
    arguments: bytes


class Found(msgspec.Struct, array_like=True, tag=True, frozen=True):
    """URIs found in another partition. `origin`, the offset and the part there, identifies repeats."""

    source: int
    origin: tuple[int, int]
    uris: list[Uri]


class Steered(msgspec.Struct, array_like=True, tag=True, frozen=True):
    """A command of an operator to all partitions; each applies it once, however often it is in the log."""

    command: bytes
    name: str
    positional: list[Any]
    named: dict[str, Any]


class Given(msgspec.Struct, array_like=True, tag=True, frozen=True):
    """A command of an operator to several partitions, in the log of the treasurer, which sends it to all of them.

    So all partitions apply such commands in one order. `more` are further arguments for some partitions; `to` are the
    partitions (None: all).
    """

    command: bytes
    op: str
    args: dict[str, Any]
    by: list[str]
    more: dict[int, dict[str, Any]]
    to: list[int] | None

    def steered(self, partitions: int) -> dict[int, Steered]:
        """Return the command as each of so many partitions applies it."""
        return {
            number: Steered(self.command, "apply", [self.op, self.args | self.more.get(number, {}), *self.by], {})
            for number in (range(partitions) if self.to is None else self.to)
            if 0 <= number < partitions
        }


class Ticked(msgspec.Struct, array_like=True, tag=True, frozen=True):
    """A tick of a partition with work of its own: expired leases end, and long commands take a step.

    Its effect does not depend on the worker that appends it; the owner's ticks advance the time.
    """

    epoch: int = -1


class SliceWanted(msgspec.Struct, array_like=True, tag=True, frozen=True):
    """A partition's return to the treasurer, and its request, which replaces the one before.

    `limits`: which of the totals it keeps.
    """

    source: int
    origin: tuple[int, int]
    returned: Amounts
    want: Want | None
    limits: tuple[bool, bool]


class SliceGranted(msgspec.Struct, array_like=True, tag=True, frozen=True):
    """The treasurer grants a partition another slice of the totals."""

    source: int
    origin: tuple[int, int]
    amounts: Amounts


class SliceRecalled(msgspec.Struct, array_like=True, tag=True, frozen=True):
    """The treasurer recalls the unused rest of a slice; `everything`: all but that of URIs out, with an answer."""

    source: int
    origin: tuple[int, int]
    everything: bool


class Sent(msgspec.Struct, array_like=True, tag=True, frozen=True):
    """The treasurer sends a command that was given to several partitions to one of them."""

    source: int
    origin: tuple[int, int]
    steered: Steered


Told = Found | SliceWanted | SliceGranted | SliceRecalled | Sent
"""An entry in which one partition tells another something. `source` and `origin` are as in `Found`."""
Body = Claimed | Called | Steered | Given | Ticked | Told


class LogEntry(msgspec.Struct, array_like=True, frozen=True):
    """An entry: its version, its crawl, the time at which it was written (epoch seconds), and its body."""

    version: int
    crawl: str
    time: float
    body: msgspec.Raw


_encode: Final = msgspec.msgpack.Encoder().encode
_decode_entry: Final = msgspec.msgpack.Decoder(LogEntry).decode
_decode_body: Final = msgspec.msgpack.Decoder(Body).decode


def encode(body: Body, *, crawl: str, time: float) -> bytes:
    """Return an entry as it is in the log."""
    return _encode((VERSION, crawl, time, body))


def decode(data: bytes, *, crawl: str) -> tuple[float, Body]:
    """Return the time and the body of an entry. Raises BadEntry, and NewerEntry."""
    try:
        entry = _decode_entry(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as e:
        raise BadEntry(f"no entry of a log: {e}") from None
    if entry.version != VERSION:
        raise NewerEntry(
            f"the log of crawl {crawl!r} has an entry of version {entry.version}, and this budgetfrontier reads "
            f"version {VERSION} only: start this worker with the release that wrote it; it has changed nothing"
        )
    if entry.crawl != crawl:
        raise BadEntry(f"an entry of the crawl {entry.crawl[:100]!r}: give each crawl a name of its own")
    try:
        return entry.time, _decode_body(entry.body)
    except (msgspec.DecodeError, UnicodeDecodeError) as e:
        raise BadEntry(f"an entry that cannot be read: {e}") from None
