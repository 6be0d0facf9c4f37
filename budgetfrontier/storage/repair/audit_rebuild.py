"""The rebuild of the audit, and of what its commands, and the one in progress, have kept for `undo`."""

from __future__ import annotations

from collections import Counter
from typing import Any

from budgetfrontier.rules import undoing
from budgetfrontier.storage import keys, removed
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.records import AuditEntry, decode_audit, decode_begun, decode_progress
from budgetfrontier.storage.repair.findings import LAST_ORDINAL, Findings
from budgetfrontier.storage.repair.record_copies import RecordCopies

COMMAND, PROGRESS = b"command", b"progress"
"""The keys of the two records of the command in progress, in the table `meta`."""


class AuditRebuild:
    """The rebuild of the tables `audit` and `removed`: what was kept is cut to what can be read of it."""

    def __init__(self, copies: RecordCopies, found: Findings) -> None:
        self._copies, self._findings = copies, found
        self._kept: Counter[int] = Counter()
        """Bytes of what is kept for `undo`, by the numbers of commands; `_needed` are those that can be undone."""
        self._needed: set[int] = set()
        self._tried: set[int] = set()
        """Audit entries of which an undo has begun, and has not ended."""

    def copy_kept(self) -> None:
        """Copy what was kept: before the rest, which is compared with it."""

        def read(key: bytes, value: bytes) -> tuple[int, int]:
            number, _ = keys.removed.unpack(key)
            removed.check_block(removed.decode_block(value))
            return number, len(value)

        for number, size in self._copies.copied(keys.REMOVED, read, Exception):  # a damaged record may cause any error
            self._kept[number] += size

    def copy_command(self, records: dict[bytes, bytes]) -> None:
        """Store the records of the command in progress; one without the other is useless."""
        if len(records) == 1:
            self._copies.notes.note_change(
                "the command in progress is lost; what it has done so far remains: give it again"
            )
        if len(records) != 2:
            return
        begun, progress = decode_begun(records[COMMAND]), decode_progress(records[PROGRESS])
        if begun.op in undoing.ENDING:
            self._tried.add(int(begun.args["id"]))
        is_cut = self._cut_to_readable(progress.effect, "the command in progress", is_whole=True)
        self._copies.tables.put(keys.META, COMMAND, records[COMMAND])
        self._copies.tables.put(keys.META, PROGRESS, encode(progress) if is_cut else records[PROGRESS])

    def copy_entries(self) -> None:
        """Copy the entries, and set aside what is kept of no command that can be undone."""
        with_kept: list[tuple[int, bytes, bytes]] = []
        ended: set[int] = set()
        for key, value, (number, entry) in self._copies.readable(keys.AUDIT, _read):
            if entry.command in undoing.ENDING:
                (self._tried if entry.error else ended).add(int(entry.args["id"]))
            if removed.kept(entry.effect) is not None:
                with_kept.append((number, key, value))
            else:
                self._copies.store(keys.AUDIT, key, value, (key, value))
            self._findings.last_audit = max(self._findings.last_audit, number)
            if self._findings.stored is None or entry.number not in self._findings.stored.ahead:
                self._findings.last_command = max(self._findings.last_command, entry.number)
        for number, key, value in with_kept:
            entry = decode_audit(value)
            is_cut = number not in ended and self._cut_to_readable(
                entry.effect, f"audit entry {number}", is_whole=number not in self._tried
            )
            self._copies.store(keys.AUDIT, key, encode(entry) if is_cut else value, (key, value))
        self._drop_unneeded()

    def _cut_to_readable(self, effect: dict[str, Any], command: str, *, is_whole: bool) -> bool:
        """Cut what a command has kept to what can be read of it; return whether that is less."""
        found = removed.kept(effect)
        if found is None:
            return False
        self._needed.add(found.number)
        there = self._kept[found.number]
        if there == found.bytes or (there and not is_whole):
            return False
        self._copies.notes.note_change(
            f"{command}: {found.bytes - there:,} of the {found.bytes:,} bytes that it has kept for `undo` are lost"
        )
        if there:
            effect["kept"]["bytes"] = there
        else:
            del effect["kept"]
        return True

    def _drop_unneeded(self) -> None:
        """Set aside what is kept of no command that can be undone, such as one whose audit entry is lost."""
        for number in self._kept.keys() - self._needed:
            del self._kept[number]
        for key, value in self._copies.tables.records(keys.REMOVED):
            if keys.removed.unpack(key)[0] not in self._needed:
                self._copies.set_aside(keys.REMOVED, key, value, "no command can be undone with it")
                self._copies.tables.delete(keys.REMOVED, key)
        self._findings.removed = self._kept.total()


def _read(key: bytes, value: bytes) -> tuple[int, AuditEntry]:
    number, entry = keys.u64.unpack(key)[0], decode_audit(value)
    if max(number, entry.number) > LAST_ORDINAL:
        raise ValueError("its number was never given out")
    return number, entry
