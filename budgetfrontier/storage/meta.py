"""The table `meta`: settings, adjustments, suffix list, canonicalizer's id, totals, command begun, note and so on."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

from budgetfrontier.core.converters import converter
from budgetfrontier.errors import CorruptFrontier
from budgetfrontier.settings import Settings
from budgetfrontier.settings.overrides import Override, validate_override
from budgetfrontier.settings.schema import BloomSettings
from budgetfrontier.storage import keys
from budgetfrontier.storage.damage import Damage
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.records import (
    Counters,
    FilterRow,
    PreloadedRow,
    Progress,
    StartedCommand,
    decode_begun,
    decode_counters,
    decode_filter,
    decode_preloaded,
    decode_progress,
)

NAMES = frozenset(
    (b"schema", b"counters", b"settings", b"adjustments", b"suffixes", b"canonicalizer", b"command", b"progress",
     b"sources", b"note", b"place", b"commands", b"filter", b"assignments", b"preloaded",
     b"changes")
)  # fmt: skip
"""The keys of the table."""

NOTE = b"note"
PLACE = b"place"
COMMANDS = b"commands"
CHANGES = b"changes"
OWNED = frozenset((NOTE, PLACE, COMMANDS))
"""The rows that belong to whoever drives the frontier: its note, the place of a partition in its log, and the commands
of operators that were sent to it."""

IS_COPY = "is a copy of a partition, which its log alone may change: give the crawl with --cluster, and no job"
NO_COPY = (
    "is a frontier of its own, or a copy that `verify --repair` has changed, and no copy of a partition as its log has "
    "it"
)
"""The refusals of a copy of a partition where an ordinary frontier is expected, and the other way round."""


def read_counters(txn: keys.Txn, db: Any) -> Counters:
    """Return the stored totals, or those of a new frontier."""
    value = txn.get(b"counters", db=db)
    try:
        return Counters() if value is None else decode_counters(value)
    except Damage as e:
        raise CorruptFrontier(f"the totals cannot be read ({e}); restore a backup") from None


def read_settings(txn: keys.Txn, db: Any) -> tuple[Settings | None, list[Override]]:
    """Return the stored settings, None in a new frontier, and the adjustments on top of them.

    Raises SettingsError for settings that this release does not know; those of a partition, in which workers of several
    releases take turns, are left out.
    """
    value, in_partition = txn.get(b"settings", db=db), txn.get(PLACE, db=db) is not None
    try:
        settings = None if value is None else _settings(value, txn.get(b"sources", db=db), known=in_partition)
        return settings, list(_adjustments(txn.get(b"adjustments", db=db) or b"[]"))
    except (msgspec.DecodeError, UnicodeDecodeError) as e:
        raise CorruptFrontier(f"the stored settings cannot be read ({e}); restore a backup") from None


# Readers need the settings in each call, and decoding them takes longer than most calls.


@lru_cache(maxsize=4)
def _settings(value: bytes, sources: bytes | None, *, known: bool) -> Settings:
    settings = Settings.known_in(msgspec.json.decode(value)) if known else decode_settings(value)
    places = [] if sources is None else decode_sources(sources)
    if len(places) != len(settings.overrides):  # a repair has lost them
        return settings
    found = zip(settings.overrides, places, strict=True)
    return msgspec.structs.replace(settings, overrides=tuple(msgspec.structs.replace(o, at=at) for o, at in found))


def decode_settings(value: bytes) -> Settings:
    """Return stored settings. Raises ValueError and SettingsError."""
    return Settings.from_dict(msgspec.json.decode(value))


decode_sources = msgspec.json.Decoder(list[str]).decode  # FILE:LINE of each override of the settings
decode_overrides = msgspec.json.Decoder(list[Override]).decode


@lru_cache(maxsize=4)
def _adjustments(value: bytes) -> tuple[Override, ...]:
    stored = decode_overrides(value)
    checked = (validate_override(override.match, override.set) for override in stored)
    return tuple(msgspec.structs.replace(one, id=override.id) for one, override in zip(checked, stored, strict=True))


def write_settings(txn: keys.Txn, db: Any, settings: Settings, adjustments: list[Override]) -> None:
    """Store settings and adjustments in the current transaction."""
    txn.put(b"settings", msgspec.json.encode(settings.to_dict()), db=db)
    txn.put(b"sources", msgspec.json.encode([override.at for override in settings.overrides]), db=db)
    txn.put(b"adjustments", msgspec.json.encode(adjustments), db=db)


def read_suffixes(txn: keys.Txn, db: Any) -> str | None:
    """Return the public suffix list, stored when first needed so that upgrades move no queue; None if there is none."""
    value = txn.get(b"suffixes", db=db)
    try:
        return None if value is None else zlib.decompress(value).decode()
    except (zlib.error, UnicodeDecodeError) as e:
        raise CorruptFrontier(f"the stored public suffix list cannot be read ({e}); restore a backup") from None


def write_suffixes(txn: keys.Txn, db: Any, text: str) -> None:
    """Store the public suffix list."""
    txn.put(b"suffixes", zlib.compress(text.encode()), db=db)


decode_assignments = msgspec.json.Decoder(list[str | dict[str, Any]]).decode
_to_bloom: Callable[[Any], BloomSettings] = converter(BloomSettings)


def read_assignments(txn: keys.Txn, db: Any) -> list[str | dict[str, Any]]:
    """Return the queue assignments of settings before, the newest last, as they were written there."""
    value = txn.get(b"assignments", db=db)
    try:
        return [] if value is None else decode_assignments(value)
    except (msgspec.DecodeError, UnicodeDecodeError) as e:
        raise CorruptFrontier(f"the former queue assignments cannot be read ({e}); restore a backup") from None


def write_assignments(txn: keys.Txn, db: Any, former: list[str | dict[str, Any]]) -> None:
    """Store the queue assignments of settings before."""
    txn.put(b"assignments", msgspec.json.encode(former), db=db)


def read_begun(txn: keys.Txn, db: Any) -> tuple[StartedCommand, Progress] | None:
    """Return the command in progress, and its progress; None if there is none."""
    begun, progress = txn.get(b"command", db=db), txn.get(b"progress", db=db)
    if begun is None or progress is None:
        return None
    try:
        return decode_begun(begun), decode_progress(progress)
    except Damage as e:
        raise CorruptFrontier(f"the command in progress cannot be read ({e}); restore a backup") from None


def write_begun(txn: keys.Txn, db: Any, begun: StartedCommand) -> None:
    """Store the command in progress, which takes more than one step."""
    txn.put(b"command", encode(begun), db=db)


def write_progress(txn: keys.Txn, db: Any, progress: Progress) -> None:
    """Store the progress of the command in progress."""
    txn.put(b"progress", encode(progress), db=db)


def end_begun(txn: keys.Txn, db: Any) -> None:
    """Remove the command in progress when it has ended."""
    txn.delete(b"command", db=db)
    txn.delete(b"progress", db=db)


def read_row(txn: keys.Txn, db: Any, name: bytes) -> bytes | None:
    """Return a row of the caller's, one of OWNED; None if there is none."""
    assert name in OWNED
    value = txn.get(name, db=db)
    return None if value is None else bytes(value)


def write_row(txn: keys.Txn, db: Any, name: bytes, value: bytes) -> None:
    """Store a row of the caller's, unless it is as it was."""
    if read_row(txn, db, name) != value:
        txn.put(name, value, db=db)


def read_changes(txn: keys.Txn, db: Any) -> int:
    """Return the number of the last changes that the tables of a partition have (`storage.table_changes`); 0: none."""
    value = txn.get(CHANGES, db=db)
    if value is None:
        return 0
    try:
        return int(keys.changes.unpack(value)[0])
    except Damage as e:
        raise CorruptFrontier(f"the number of changes cannot be read ({e}); restore a snapshot") from None


def write_changes(txn: keys.Txn, db: Any, number: int) -> None:
    """Store the number of the last changes, with its CRC-32: the next ones of an owner, for all copies, follow it."""
    txn.put(CHANGES, keys.changes.pack(number), db=db)


def read_filter(txn: keys.Txn, db: Any) -> FilterRow | None:
    """Return which file has the Bloom filter of the URIs seen; None before the first fold, or without a filter."""
    value = txn.get(b"filter", db=db)
    try:
        return None if value is None else decode_filter(value)
    except Damage as e:
        raise CorruptFrontier(f"the record of the Bloom filter cannot be read ({e}); restore a backup") from None


def read_bloom(txn: keys.Txn, db: Any) -> BloomSettings:
    """Return the settings of the Bloom filter, which are as they were when the frontier was created."""
    stored = msgspec.json.decode(txn.get(b"settings", db=db) or b"{}")
    return _to_bloom(stored.get("frontier", {}).get("bloom", {}))


def write_filter(txn: keys.Txn, db: Any, row: FilterRow) -> None:
    """Store which file has the Bloom filter from this commit on."""
    txn.put(b"filter", encode(row), db=db)


def read_preloaded(txn: keys.Txn, db: Any) -> list[PreloadedRow]:
    """Return the files of precedences of URIs that were read, wholly or in part."""
    value = txn.get(b"preloaded", db=db)
    try:
        return [] if value is None else decode_preloaded(value)
    except Damage as e:
        raise CorruptFrontier(f"the record of files of precedences cannot be read ({e}); restore a backup") from None


def write_preloaded(txn: keys.Txn, db: Any, rows: list[PreloadedRow]) -> None:
    """Store which files of precedences were read."""
    txn.put(b"preloaded", encode(rows), db=db)
