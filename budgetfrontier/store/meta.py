"""What a frontier keeps about itself: settings, adjustments, the suffix list, the canonicaliser's id, the counters."""

from __future__ import annotations

import zlib
from typing import Any

import msgspec

from budgetfrontier.errors import CorruptFrontier
from budgetfrontier.settings import Settings
from budgetfrontier.settings.overrides import Override
from budgetfrontier.store import keys
from budgetfrontier.store.records import Counters, decode_counters


def read_counters(txn: keys.Txn, db: Any) -> Counters:
    """The totals as of the last commit, or those of a new frontier."""
    value = txn.get(b"counters", db=db)
    try:
        return Counters() if value is None else decode_counters(value)
    except msgspec.DecodeError as e:
        raise CorruptFrontier(f"the totals cannot be read ({e}); restore a backup") from None


def read_settings(txn: keys.Txn, db: Any) -> tuple[Settings | None, list[Override]]:
    """The stored settings, None in a new frontier, and the adjustments made on top of them."""
    value = txn.get(b"settings", db=db)
    try:
        adjustments = msgspec.json.decode(txn.get(b"adjustments", db=db) or b"[]", type=list[Override])
        plain = None if value is None else msgspec.json.decode(value)
    except msgspec.DecodeError as e:
        raise CorruptFrontier(f"the stored settings cannot be read ({e}); restore a backup") from None
    return None if plain is None else Settings.from_dict(plain), adjustments


def write_settings(txn: keys.Txn, db: Any, settings: Settings, adjustments: list[Override]) -> None:
    """Store settings and adjustments with the current transaction."""
    txn.put(b"settings", msgspec.json.encode(settings.to_dict()), db=db)
    txn.put(b"adjustments", msgspec.json.encode(adjustments), db=db)


def read_suffixes(txn: keys.Txn, db: Any) -> str | None:
    """The public suffix list that was stored when it was first needed, so that an upgrade moves no queue."""
    value = txn.get(b"suffixes", db=db)
    return None if value is None else zlib.decompress(value).decode()


def write_suffixes(txn: keys.Txn, db: Any, text: str) -> None:
    """Store the public suffix list."""
    txn.put(b"suffixes", zlib.compress(text.encode()), db=db)
