"""The names of audit entries in a crawl in partitions: an entry has another number in each partition.

A command of an operator is named by its id, 16 hexadecimal digits, whichever partition has applied it; any other entry
is PARTITION/NUMBER.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from budgetfrontier.cluster.log.state import KnownCommands
from budgetfrontier.errors import FrontierError
from budgetfrontier.storage.records import AuditEntry

_NUMBERS: Final = re.compile(
    r"^\d+(?=[ ,])|(?<=adjustment )\d+|(?<=audit entry )\d+|(?<=, by )\d+|(?<=^what )\d+|(?<=nothing left of )\d+"
    r"|(?<=has changed since )\d+(?=:)|(?<=cannot be undone: )\d+(?= has discarded)|(?<=`undo )\d+(?= --force`)"
)
"""Where the refusals of an undo have the numbers of entries."""


def read_name(text: str) -> bytes | tuple[int, int]:
    """Return the command that a name means, or a partition and a number in it. Raises FrontierError.

    >>> read_name("3/17"), read_name("0000000000000041")
    ((3, 17), b'\\x00\\x00\\x00\\x00\\x00\\x00\\x00A')
    """
    partition, slash, number = text.partition("/")
    if slash and partition.isdecimal() and number.isdecimal():
        return int(partition), int(number)
    try:
        command = bytes.fromhex(text)
    except ValueError:
        command = b""
    if len(command) != 8:
        raise FrontierError(
            f"{text[:40]!r} is no id in a crawl in partitions: `audit` lists 16 hexadecimal digits, or PARTITION/NUMBER"
        )
    return command


class EntryNames:
    """The names of the entries of one partition."""

    def __init__(self, partition: int, known: KnownCommands) -> None:
        self._partition = partition
        self._commands = {number: command for command, number in known.entries().items() if number is not None}

    def __repr__(self) -> str:
        return f"<EntryNames of partition {self._partition}>"

    def name(self, number: int) -> str:
        """Return the name of an entry."""
        command = self._commands.get(number)
        return f"{self._partition}/{number}" if command is None else command.hex()

    def entry(self, entry: AuditEntry) -> AuditEntry:
        """Return an entry with other entries by their names."""
        args = self._named(entry.args, "id") if entry.command in ("withdraw", "undo", "discard") else entry.args
        if isinstance(args.get("ids"), list):  # of dead letters
            args["ids"] = [f"{self._partition}/{number}" for number in args["ids"]]
        error = None if entry.error is None else self.text(entry.error)
        return replace(entry, args=args, effect=self.effect(entry.effect), error=error)

    def effect(self, effect: Mapping[str, Any]) -> dict[str, Any]:
        """Return an effect with adjustments by their names."""
        found = {name: value for name, value in effect.items() if name != "inverse"}  # `undo` replaces it
        for name in ("removed", "restored", "entries"):
            if isinstance(found.get(name), list):
                found[name] = [self.name(one) for one in found[name]]
        for name in ("replaced", "adjustments"):
            if isinstance(found.get(name), list):
                found[name] = [self._named(one, "id") for one in found[name]]
        if isinstance(found.get("withdrawn"), dict):
            found["withdrawn"] = self._named(found["withdrawn"], "id")
        return found

    def text(self, text: str) -> str:
        """Return the text of a refusal with the names of entries."""
        return _NUMBERS.sub(lambda found: self.name(int(found[0])), text)

    def _named(self, values: Mapping[str, Any], field: str) -> dict[str, Any]:
        number = values.get(field)
        return dict(values) | ({field: self.name(number)} if isinstance(number, int) else {})
