"""The mailbox of commands for a running engine: a tiny LMDB environment beside the frontier.

Any process may post; once every commit interval, the engine applies new commands, in order and exactly once: the number
of the last one applied is part of the frontier's own commit.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import Struct
from typing import Any, TypedDict

import lmdb
import msgspec

from budgetfrontier.core.converters import converter
from budgetfrontier.engine.data_size import excess
from budgetfrontier.errors import FrontierError, WrongType
from budgetfrontier.storage import keys, lock_table
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.lmdb_env import is_unfinished, open_lmdb, translate_error
from budgetfrontier.storage.modes import make_folder


class Command(msgspec.Struct, array_like=True):
    """One command in the mailbox."""

    op: str
    args: dict[str, Any]
    who: str
    reason: str
    line: str = ""
    """The command line, for the audit."""


class _Arguments(TypedDict, total=False):
    """The arguments of commands by these names; `operations.check_command` refuses others."""

    queue: str | None
    pattern: str | None
    until: float
    ids: list[int] | None
    id: int
    force: bool
    for_good: bool
    match: str
    states: list[str] | None
    why: str
    set: dict[str, Any]
    dry_run: bool
    reason: str
    uris: list[Any]
    charge: bool
    in_place: bool
    survey: dict[str, Any]
    promised: dict[str, Any]
    continues: int


LARGEST = 16 << 20
"""Bytes of one command; the engine takes about as many at a time."""
MOST = 1000
"""Commands that the engine takes at a time."""

_MAILBOX = "mailbox"
_NEXT = b"next"
_KEY = Struct(">cQ")  # 0xFF, number
_LAST = (1 << 63) - 1
_DEEPEST = 50
_decode = msgspec.msgpack.Decoder(Command).decode
_check_arguments = converter(_Arguments)
_open_mailboxes: dict[str, lmdb.Environment] = {}


def _after_fork() -> None:
    """Close all mailboxes in a forked child, which opens its own."""
    for env in _open_mailboxes.values():
        lock_table.close(env)
    _open_mailboxes.clear()


os.register_at_fork(after_in_child=_after_fork)


def checked(command: Command) -> Command:
    """Validate a command by encoding and decoding it. Raises FrontierError if it cannot be serialized."""
    if not isinstance(command, Command):
        raise WrongType(f"a command is a Command, not {type(command).__name__}")
    if why := excess(command.args, size=LARGEST, depth=_DEEPEST):
        raise FrontierError(f"{command.op}: arguments are {why}; a command has at most {LARGEST >> 20} MiB")
    try:
        return _read(encode(command))
    except OverflowError:
        raise FrontierError(f"{command.op}: a number is out of range; numbers have 64 bits") from None
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as e:
        raise FrontierError(f"{command.op}: {e}; names and reasons are text, numbers have 64 bits") from None


def _read(value: bytes) -> Command:
    """Decode a command. Raises ValueError or RecursionError for bytes that are none."""
    if len(value) > LARGEST:
        raise ValueError(f"a command has at most {LARGEST >> 20} MiB; give it in parts")
    command = _decode(value)
    if not _is_plain(command.args, 1):
        raise ValueError(f"arguments are plain data, at most {_DEEPEST} deep")
    _check_arguments(command.args)
    return command


def _is_plain(value: object, depth: int) -> bool:
    """Return whether a value can be stored and printed: msgpack has types that JSON lacks."""
    if isinstance(value, dict):
        return depth < _DEEPEST and all(type(k) is str and _is_plain(v, depth + 1) for k, v in value.items())
    if isinstance(value, list):
        return depth < _DEEPEST and all(_is_plain(item, depth + 1) for item in value)
    return value is None or isinstance(value, bool | int | float | str | bytes)


def _drop_unfinished(data: Path) -> None:
    """Delete a data file that a full disk left cut short as it was made: no command ever was in it."""
    if is_unfinished(data) and data.stat().st_size:  # else another process is about to make it
        data.unlink()


class Mailbox:
    """Commands on their way to a running engine. Any process may post; the engine takes them out once applied."""

    def __init__(self, path: Path) -> None:
        self._key = os.path.realpath(path / _MAILBOX)
        self._shared = self._key in _open_mailboxes
        if self._shared:
            self._env = _open_mailboxes[self._key]
        else:
            self._open()

    def _open(self) -> None:
        path = Path(self._key)
        try:
            make_folder(path, like=path.parent)
            _drop_unfinished(path / "data.mdb")
            self._env = open_lmdb(path, map_size=1 << 28)
        except OSError as e:
            raise translate_error(e, path) from e
        _open_mailboxes[self._key] = self._env

    def is_lost(self) -> bool:
        """Return whether somebody has removed it, so that others post to another one. One `stat`."""
        return lock_table.is_lost(self._env, Path(self._key, "lock.mdb"))

    def reopen(self) -> None:
        """Open the mailbox that is there now, or make one."""
        lock_table.close(self._env)
        self._open()

    def post(self, command: Command) -> int:
        """Post a command; return its number, which its audit entry will have. Raises FrontierError if too large."""
        return self.post_all([command])[0]

    def post_all(self, commands: Iterable[Command]) -> range:
        """Post commands, which the engine finds in one look; return their numbers. Raises FrontierError as `post`."""
        values = [encode(checked(command)) for command in commands]
        with self._begin() as txn:
            numbers = range(first := _next(txn), first + len(values))
            txn.put(_NEXT, str(numbers.stop).encode())
            for number, value in zip(numbers, values, strict=True):
                txn.put(_KEY.pack(b"\xff", number), value)
        return numbers

    @contextmanager
    def _begin(self) -> Iterator[keys.Txn]:
        """Begin a write transaction; LMDB errors are translated, so that a full disk is a StorageFull."""
        try:
            with self._env.begin(write=True) as txn:
                yield txn
        except lmdb.Error as e:
            raise translate_error(e, Path(self._key)) from e

    def begin_after(self, last: int) -> None:
        """Reserve the numbers up to `last`, so that they are not reused even if this mailbox was lost and recreated."""
        with self._env.begin() as txn:
            known = _next(txn)
        if known <= last:
            self.done(last)

    def waiting(self, after: int) -> list[tuple[int, Command]]:
        """Return the first commands with numbers above `after`, in order. Takes no lock.

        A posted record that is no command becomes an unknown one, with the reason: it will be refused.
        """
        found: list[tuple[int, Command]] = []
        size = 0
        with self._env.begin() as txn:
            cursor = txn.cursor()
            if not cursor.set_range(_KEY.pack(b"\xff", min(after, _LAST) + 1)):
                return found
            given_out = _next(txn)
            for key, value in cursor:
                number = _number(key)
                if number is None:
                    continue  # no such command was posted; it is removed with the next ones that are done
                if number >= given_out or len(found) == MOST or size > LARGEST:
                    break
                size += len(value)
                try:
                    command = _read(value)
                except (ValueError, RecursionError, msgspec.MsgspecError) as e:
                    command = Command("unreadable", {}, "unknown", f"{len(value)} bytes in the mailbox: {e}")
                found.append((number, command))
        return found

    def done(self, upto: int) -> None:
        """Take out the commands up to a number, and never give out those numbers again."""
        with self._begin() as txn:
            if _next(txn) <= upto:
                txn.put(_NEXT, str(upto + 1).encode())
            cursor = txn.cursor()
            while cursor.set_range(b"\xff") and ((number := _number(cursor.key())) is None or number <= upto):
                cursor.delete()

    def close(self) -> None:
        """Close the files, if this object opened them."""
        if not self._shared:
            _open_mailboxes.pop(self._key, None)
            lock_table.close(self._env)


def _next(txn: keys.Txn) -> int:
    """Return the number that the next command gets; 1 in a new mailbox."""
    stored = txn.get(_NEXT) or b""
    return min(int(stored), _LAST) if stored.isdigit() and len(stored) < 20 else 1


def _number(key: bytes) -> int | None:
    return _KEY.unpack(key)[1] if len(key) == _KEY.size else None
