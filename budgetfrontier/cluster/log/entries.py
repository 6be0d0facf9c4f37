"""The entries of a partition's log, as MessagePack: claims, changes of rows, and what others ask of its owner.

The owner of a partition applies calls and requests, and appends the rows that they have changed. All others write these
rows and nothing else: they call no policy, and read no clock, so that any release has the same tables after an entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from budgetfrontier.cluster.quotas.quota_slices import Amounts, Want
from budgetfrontier.core import protocol
from budgetfrontier.core.protocol import Uri
from budgetfrontier.engine.commands.mailbox import Command
from budgetfrontier.errors import FrontierError

VERSION: Final = 3
"""The version of entries, which is another one with each change of their encoding, of that of the changes of rows in
them, and of `keys.SCHEMA`. An entry of another version ends the worker; its first two fields stay what they are."""
LONGEST: Final = 16 << 20
"""Bytes of an entry that the topic takes."""
PIECE: Final = protocol.MOST_BYTES
"""Bytes of changes in one entry: more of them are several entries."""


class ForeignEntry(FrontierError):
    """An entry of a log is of another program or crawl; it is skipped."""


class OtherVersion(FrontierError):
    """The log has an entry of another version of budgetfrontier; start this worker with that version."""


class UnreadableEntry(FrontierError):
    """An entry of this crawl and version cannot be read: nothing after it is applied."""


# Tags are numbers: small, and the same whatever a class is called.


class Claimed(msgspec.Struct, array_like=True, tag=0, frozen=True):
    """A worker takes the partition over. The offset of this entry is the epoch of its changes; earlier ones end."""

    worker: str
    nonce: bytes
    log: str = ""
    """The identity of the log, if the bus has any: that of the topic."""


class Changed(msgspec.Struct, array_like=True, tag=1, frozen=True):
    """A piece of the changes that the owner has made; it counts if no later claim than its epoch comes before it.

    `number` counts the changes of an epoch, from 1 on; the last piece of each has `is_last`.
    """

    epoch: int
    number: int
    is_last: bool
    piece: bytes


class Found(msgspec.Struct, array_like=True, tag=2, frozen=True):
    """URIs found in another partition."""

    uris: list[Uri]


class SliceWanted(msgspec.Struct, array_like=True, tag=3, frozen=True):
    """A partition's return to the treasurer, and its request, which replaces the one before.

    `limits`: which of the totals it keeps.
    """

    returned: Amounts
    want: Want | None
    limits: tuple[bool, bool]


class SliceGranted(msgspec.Struct, array_like=True, tag=4, frozen=True):
    """The treasurer grants a partition another slice of the totals."""

    amounts: Amounts


class SliceRecalled(msgspec.Struct, array_like=True, tag=5, frozen=True):
    """The treasurer recalls the unused rest of a slice; `everything`: all but that of URIs out, with an answer."""

    everything: bool


class Steered(msgspec.Struct, array_like=True, tag=6, frozen=True):
    """A command of an operator to one partition, or from the treasurer: it is applied once, however often it comes."""

    command: bytes
    order: Command


class Given(msgspec.Struct, array_like=True, tag=7, frozen=True):
    """A command of an operator to several partitions, in the log of the treasurer, which sends it to all of them.

    So all partitions apply such commands in one order. `more` are further arguments for some partitions; `to` are the
    partitions (None: all).
    """

    command: bytes
    order: Command
    more: dict[int, dict[str, Any]]
    to: list[int] | None

    def steered(self, partitions: int) -> dict[int, Steered]:
        """Return the command as each of so many partitions applies it."""
        return {
            number: Steered(self.command, replace(self.order, args=self.order.args | self.more.get(number, {})))
            for number in (range(partitions) if self.to is None else self.to)
            if 0 <= number < partitions
        }


Message = Found | SliceWanted | SliceGranted | SliceRecalled | Steered
"""A message of one partition to another: a part of its changes until it is in the other's log."""


class Told(msgspec.Struct, array_like=True, tag=8, frozen=True):
    """A message of another partition, `source`; `origin`, the offset of its changes there and its place, is unique."""

    source: int
    origin: tuple[int, int]
    message: Message


Request = Steered | Given | Told
"""An entry that its partition's owner applies when it reads it."""
Body = Claimed | Changed | Request


class Changes(msgspec.Struct, array_like=True, frozen=True):
    """The rows that an owner has changed (`Changelog.take`), and its encoded messages, each with its partition."""

    rows: bytes | None
    """None if there are messages alone."""
    messages: list[tuple[int, msgspec.Raw]]


class LogEntry(msgspec.Struct, array_like=True, frozen=True):
    """An entry: its version, its crawl, and its body."""

    version: int
    crawl: str
    body: msgspec.Raw


_T = TypeVar("_T")
_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_encode: Final = msgspec.msgpack.Encoder().encode
_decode_entry: Final = msgspec.msgpack.Decoder(LogEntry).decode
_decode_body: Final = msgspec.msgpack.Decoder(Body).decode
_decode_changes: Final = msgspec.msgpack.Decoder(Changes).decode


def encode(body: Body, *, crawl: str) -> bytes:
    """Return an entry as it is in the log."""
    return _encode((VERSION, crawl, body))


def encode_message(message: Message) -> msgspec.Raw:
    """Return a message as it is among changes, and in a `Told`."""
    return msgspec.Raw(_encode(message))


def encode_changes(changes: Changes, *, epoch: int, number: int, crawl: str) -> Iterator[bytes]:
    """Yield the entries with some changes: one, unless they are large."""
    data = _encode(changes)
    for start in range(0, len(data), PIECE):
        is_last = start + PIECE >= len(data)
        yield encode(Changed(epoch, number, is_last, data[start : start + PIECE]), crawl=crawl)


def decode(data: bytes, *, crawl: str) -> Body:
    """Return the body of an entry. Raises ForeignEntry, OtherVersion and UnreadableEntry."""
    try:
        entry = _decode_entry(data)
    except _ERRORS as e:
        raise ForeignEntry(f"no entry of a log: {e}") from None
    if entry.crawl != crawl:
        raise ForeignEntry(f"an entry of the crawl {entry.crawl[:100]!r}: give each crawl a name of its own")
    if entry.version != VERSION:
        raise OtherVersion(
            f"the log of crawl {crawl!r} has an entry of version {entry.version}, and this budgetfrontier reads "
            f"version {VERSION} only: start this worker with the release that wrote it; it has changed nothing"
        )
    return _decoded(_decode_body, entry.body)


def decode_changes(pieces: Sequence[bytes]) -> Changes:
    """Return the changes in the pieces of some entries. Raises UnreadableEntry."""
    return _decoded(_decode_changes, pieces[0] if len(pieces) == 1 else b"".join(pieces))


def _decoded(decode: Callable[[bytes], _T], data: bytes) -> _T:
    try:
        return decode(data)
    except _ERRORS as e:
        raise UnreadableEntry(str(e)) from None
