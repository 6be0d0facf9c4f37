"""How a running engine is told of commands: a tiny LMDB environment beside the frontier.

Any process may post; the engine looks there once every commit interval and applies what is new, in order and exactly
once, for the number of the last command applied is part of the frontier's own commit.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lmdb
import msgspec

from budgetfrontier.errors import FrontierError
from budgetfrontier.store import keys
from budgetfrontier.store.environment import explain, open_lmdb
from budgetfrontier.store.records import encode


class Command(msgspec.Struct, array_like=True):
    """One command in the mailbox."""

    op: str
    args: dict[str, Any]
    who: str
    reason: str


_MAILBOX = "mailbox"
_decode = msgspec.msgpack.Decoder(Command).decode
_open_mailboxes: dict[str, lmdb.Environment] = {}


def checked(command: Command) -> Command:
    """The command as a mailbox would deliver it. Raises FrontierError for what could not be told to anybody."""
    try:
        return _decode(encode(command))
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as e:
        raise FrontierError(f"{command.op}: {e}; names and reasons are text, numbers have 64 bits") from None


def _drop_unfinished(data: Path) -> None:
    """Delete a data file that a full disk left cut short as it was made: no command ever was in it."""
    if data.exists() and 0 < data.stat().st_size < 8192:
        data.unlink()


class Mailbox:
    """Commands on their way to a running engine. Any process may post; the engine takes them out once applied."""

    def __init__(self, path: Path) -> None:
        self._key = os.path.realpath(path / _MAILBOX)
        self._shared = self._key in _open_mailboxes
        if self._shared:
            self._env = _open_mailboxes[self._key]
        else:
            os.makedirs(self._key, exist_ok=True)
            _drop_unfinished(Path(self._key, "data.mdb"))
            self._env = open_lmdb(Path(self._key), map_size=1 << 28)
            _open_mailboxes[self._key] = self._env

    def post(self, command: Command) -> int:
        """Leave a command; its number, which the audit entry will carry."""
        with self._begin() as txn:
            number = int(txn.get(b"next") or 1)
            txn.put(b"next", str(number + 1).encode())
            txn.put(b"\xff" + keys.u64.pack(number), encode(command))
        return number

    @contextmanager
    def _begin(self) -> Iterator[keys.Txn]:
        """A transaction that writes; a full disk is a StorageFull."""
        try:
            with self._env.begin(write=True) as txn:
                yield txn
        except lmdb.Error as e:
            raise explain(e, Path(self._key)) from e

    def begin_after(self, last: int) -> None:
        """Never give out the numbers up to `last` again, even if this mailbox was lost and made anew."""
        with self._env.begin() as txn:
            known = int(txn.get(b"next") or 1)
        if known <= last:
            self.done(last)

    def waiting(self, after: int) -> list[tuple[int, Command]]:
        """The commands with numbers above `after`, in order. Takes no lock."""
        with self._env.begin() as txn:
            cursor = txn.cursor()
            if not cursor.set_range(b"\xff" + keys.u64.pack(after + 1)):
                return []
            return [(keys.u64.unpack(key[1:])[0], _decode(value)) for key, value in cursor]

    def done(self, upto: int) -> None:
        """Take out the commands up to a number, and never give out those numbers again."""
        with self._begin() as txn:
            if int(txn.get(b"next") or 1) <= upto:
                txn.put(b"next", str(upto + 1).encode())
            cursor = txn.cursor()
            while cursor.set_range(b"\xff") and keys.u64.unpack(cursor.key()[1:])[0] <= upto:
                cursor.delete()

    def close(self) -> None:
        """Close the files, if this object opened them."""
        if not self._shared:
            _open_mailboxes.pop(self._key, None)
            self._env.close()
