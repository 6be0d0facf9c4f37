"""Every table and how its keys are written. All numbers are big-endian, so that bytes sort as the numbers do."""

from __future__ import annotations

from struct import Struct
from typing import TypeAlias

import lmdb

Txn: TypeAlias = "lmdb.Transaction[bytes]"

SCHEMA = 2  # of all that is below

META = "meta"  # name -> value
QUEUES = "queues"  # queue id -> QueueRecord
QUEUE_IDS = "queue_ids"  # queue key -> queue id
PENDING = "pending"  # queue id, directive, inverted priority, cost, ordinal -> CrawlUri, attempts, deliveries
SEEN = "seen"  # authority hash, fingerprint -> nothing
INACTIVE = "inactive"  # precedence, position -> queue id
ACTIVE = "active"  # position in the ring -> queue id (READY queues)
SNOOZED = "snoozed"  # wake time, queue id -> nothing
RETIRED = "retired"  # position -> queue id
LEASES = "leases"  # lease id -> LeaseRow
FUTURE = "future"  # due time, ordinal -> FutureRow
DEAD = "dead"  # ordinal -> DeadRow
AUDIT = "audit"  # ordinal -> AuditEntry

TABLES = (META, QUEUES, QUEUE_IDS, PENDING, SEEN, INACTIVE, ACTIVE, SNOOZED, RETIRED, LEASES, FUTURE, DEAD, AUDIT)

# A table that becomes empty and fills again within one transaction gets a new root page each time, and commits then
# take hundreds of milliseconds: one record stays in every table. It sorts first: LMDB fills its pages when keys are
# put at the end, and leaves them half empty when there is always one more behind.
SENTINEL = b"\0"
FIRST = b"\0\0"  # not above any other key

u32 = Struct(">I")
u64 = Struct(">Q")
fifo = Struct(">HQ")  # precedence, position
timed = Struct(">dI")  # wake time, queue id; doubles >= 0 sort as bytes
due = Struct(">dQ")  # due time, ordinal
pending = Struct(">IBIIQ")  # queue id, directive, inverted priority, cost, ordinal
pending_start = Struct(">IBII")  # the same without the ordinal
place = Struct(">BIIQ")  # the same without the queue: a URI's place
delivery = Struct(">HH")  # attempts, deliveries

FRESH = delivery.pack(0, 0)
MAX_ORDINAL = (1 << 64) - 1
MAX_COST = (1 << 32) - 1
MAX_QUEUE_KEY = 255  # bytes; LMDB takes 511
PRIORITY_ZERO = 1 << 31  # where priority 0 lies among the 32 bits of an inverted one


def invert_priority(priority: int) -> int:
    """The 32 bits under which a priority is stored: higher ones sort first. Clamps."""
    return min(max(PRIORITY_ZERO - priority, 0), MAX_COST)


def priority_of(inverted: int) -> int:
    """The priority that `invert_priority` was given, clamped."""
    return PRIORITY_ZERO - inverted
