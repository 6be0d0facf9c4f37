"""The findings of the rebuild of a frontier's tables, from which its queues and totals are rebuilt."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from budgetfrontier.settings import Settings
from budgetfrontier.storage.records import Counters

LAST_ORDINAL = 1 << 48  # more than any frontier gives out: higher ordinals and numbers are damaged
LAST_ID = (1 << 32) - (1 << 16)  # of queues and groups: higher ones are damaged


@dataclass
class Findings:
    """The findings of the rebuild of the other tables, by queue id."""

    settings: Settings = field(default_factory=Settings)
    stored: Counters | None = None
    """The stored totals; None if they are lost."""
    names: dict[int, str] = field(default_factory=dict)
    ids: dict[str, int] = field(default_factory=dict)
    made: set[int] = field(default_factory=set)
    """Queues without a record: it is lost, or the queue is new."""
    queued: Counter[int] = field(default_factory=Counter)
    future: Counter[int] = field(default_factory=Counter)
    out: Counter[int] = field(default_factory=Counter)
    reserved: Counter[int] = field(default_factory=Counter)
    landed: Counter[int] = field(default_factory=Counter)
    urls: Counter[int] = field(default_factory=Counter)
    completed: Counter[int] = field(default_factory=Counter)
    ordinal: int = 0
    last_lease: int = 0
    last_audit: int = 0
    removed: int = 0
    """Bytes of what is kept for `undo`."""
    dead_prerequisites: int = 0
    last_command: int = 0
    last_seed: int = 0
    seed_fates: Counter[str] = field(default_factory=Counter)
    successes: Counter[str] = field(default_factory=Counter)
    """With `errors`, the sums of the tallies by kind; `fetched_bytes` has those of queues by key."""
    errors: Counter[str] = field(default_factory=Counter)
    fetched_bytes: dict[str, int] = field(default_factory=dict)
    answers: Counter[str] = field(default_factory=Counter)
    """The sums of the classes of answers, by the names of their totals."""
    attempts: dict[int, int] = field(default_factory=dict)
    """By queue id: the attempts charged to it, as its history knows them."""
    degrees: Counter[int] = field(default_factory=Counter)
    """Registered domains by in-degree; `rankings`: the last one that any of their rows knows of."""
    rankings: int = 0
