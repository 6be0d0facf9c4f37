"""The tables and the layout of their keys. Numbers are big-endian, so that bytes sort like the numbers."""

from __future__ import annotations

import struct
from typing import Any, TypeAlias
from zlib import crc32

import lmdb

from budgetfrontier.storage.damage import Damage

Txn: TypeAlias = "lmdb.Transaction[bytes]"
Tables: TypeAlias = dict[str, Any]  # the handles of open tables, by name

SCHEMA = 5  # the version of everything below

META = "meta"  # name -> value
QUEUES = "queues"  # queue id -> QueueRecord
QUEUE_IDS = "queue_ids"  # queue key -> queue id
PENDING = "pending"  # queue id, rank -> CrawlUri, attempts, deliveries
SEEN = "seen"  # authority hash, fingerprint -> nothing
INACTIVE = "inactive"  # precedence, position -> queue id
ACTIVE = "active"  # position in the ring -> queue id (READY queues)
SNOOZED = "snoozed"  # wake time, queue id -> nothing
RETIRED = "retired"  # position -> queue id
INELIGIBLE = "ineligible"  # position -> queue id
LEASES = "leases"  # lease id -> LeaseRow
FUTURE = "future"  # due time, ordinal -> FutureRow
DEAD = "dead"  # ordinal -> DeadRow
AUDIT = "audit"  # ordinal -> AuditEntry
REMOVED = "removed"  # number of a command, place in its sequence -> Block: `storage.removed`
RUNS = "runs"  # number of the run -> RunRow
SERIES = "series"  # resolution, seconds, place -> SeriesRow, or BusyRow
URLS = "urls"  # authority hash, fingerprint -> UrlRow, with `frontier.keep_urls`
SEEDS = "seeds"  # position -> SeedRow
HOSTS = "hosts"  # host -> HostRow
SEED_KEYS = "seed_keys"  # URL hash -> position; host in reverse -> nothing: `storage.seed_list`
TALLIES = "tallies"  # kind, name -> FetchStats
GROUPS = "groups"  # group id -> GroupRecord
GROUP_IDS = "group_ids"  # name of a group -> group id
PARKED = "parked"  # group id, position -> queue id (SNOOZED queues that wait for their group)
GROUP_WAKES = "group_wakes"  # wake time, group id -> nothing
LINKS = "links"  # registered domain -> LinksRow
PRELOADED = "preloaded"  # number of a file, fingerprint -> value: precedences of URIs that were read from it
HISTORY = "history"  # queue id -> counts by outcome, and running means: `rules.queue_history`
ANSWERS = "answers"  # queue id -> QueueAnswers
PEERS = "peers"  # partition -> what was heard from it last and told to it last, each as log offset, part
DEGREES = "degrees"  # in-degree of registered domains -> the number of those that have it

TABLES = (
    META, QUEUES, QUEUE_IDS, PENDING, SEEN, INACTIVE, ACTIVE, SNOOZED, RETIRED, LEASES, FUTURE, DEAD, AUDIT,
    REMOVED, RUNS, SERIES, URLS, SEEDS, SEED_KEYS, HOSTS, GROUPS, GROUP_IDS, PARKED, GROUP_WAKES, INELIGIBLE,
    TALLIES, LINKS, DEGREES, PRELOADED, HISTORY, ANSWERS, PEERS,
)  # fmt: skip

# Every table has one record that is never deleted: a table that becomes empty and fills again within a transaction
# would get a new root page each time, and commits would take hundreds of milliseconds. It sorts first, because LMDB
# fills pages completely only when keys are appended at the end.
SENTINEL = b"\0"
FIRST = b"\0\0"  # not greater than any other key


class Layout(struct.Struct):
    """The layout of a key, or of a value that consists of numbers."""

    def unpack(self, buffer: Any, /) -> tuple[Any, ...]:
        """Return the numbers in stored bytes. Raises Damage if the length is wrong."""
        try:
            return super().unpack(buffer)
        except struct.error as e:
            raise Damage(f"{bytes(buffer).hex()}: {e}") from None


class CheckedLayout:
    """The layout of a value that consists of numbers and their CRC-32: a wrong bit in them would do harm unseen."""

    def __init__(self, format: str) -> None:
        self._numbers, self._whole = Layout(format), Layout(format + "I")
        self.size = self._whole.size

    def pack(self, *numbers: int) -> bytes:
        """Return numbers as they are stored."""
        return self._whole.pack(*numbers, crc32(self._numbers.pack(*numbers)))

    def unpack(self, buffer: Any, /) -> tuple[Any, ...]:
        """Return the numbers in stored bytes. Raises Damage if the length or the checksum is wrong."""
        *numbers, crc = self._whole.unpack(buffer)
        if crc != crc32(self._numbers.pack(*numbers)):
            raise Damage(f"{bytes(buffer).hex()}: another checksum")
        return tuple(numbers)


class RankLayout(Layout):
    """The layout of a rank, or of a key that ends with one: with a cost at its end if the URI has a precedence."""

    def __init__(self, format: str) -> None:
        super().__init__(format)
        self.with_cost = Layout(format + "I")
        self.numbers = len(format) - 1

    def unpack(self, buffer: Any, /) -> tuple[Any, ...]:
        """Return the numbers in stored bytes, one more if the URI has a precedence. Raises Damage."""
        return super().unpack(buffer) if len(buffer) == self.size else self.with_cost.unpack(buffer)

    def pack_rank(self, *numbers: int) -> bytes:
        """Return the bytes of a rank, or of the id of a queue and a rank, whether or not the URI has a precedence."""
        return self.with_cost.pack(*numbers) if len(numbers) > self.numbers else self.pack(*numbers)


u32 = Layout(">I")
u64 = Layout(">Q")
fifo = Layout(">HQ")  # precedence, position
timed = Layout(">dI")  # wake time, id of a queue or group; doubles >= 0 sort as bytes
parked = Layout(">IQ")  # group id, position
due = Layout(">dQ")  # due time, ordinal
removed = Layout(">QI")  # number of a command, place in the sequence of its blocks
pending = RankLayout(">IBIIQ")  # queue id, then the rank of a URI in it: `rules.uri_order`
pending_start = Layout(">IBII")  # the same up to the arrival
DIRECTIVE = 4
"""The place of the directive in the key of a pending record."""
PRECEDENCE = 9
"""The place of the cost or precedence there."""
rank = RankLayout(">BIIQ")  # the rank by itself: directive, inverted priority, cost or precedence, arrival
_ARRIVAL = slice(9, 17)
"""The place of the arrival in a rank."""
series = Layout(">BII")  # resolution: `rules.series_periods`; seconds; run * 2, + 1 if it does not begin there
series_from = Layout(">BI")
preloaded = Layout(">H16s")  # number of a file, fingerprint
value = Layout(">b")  # the value of a URI in such a file
history = Layout(">4H4e")
peer = CheckedLayout(">qQqQ")  # log offset and part of what was heard last, and of what was told; -1: nothing
changes = CheckedLayout(">Q")  # the number of the last changes of a partition
delivery = Layout(">HH")  # attempts, deliveries

FINGERPRINT = 16  # bytes of a key of `seen`
FRESH = delivery.pack(0, 0)
EPOCH_SHIFT = 40  # bits of a lease id below the epoch: 800 billion leases or more per run, eight million runs
EPOCH_BITS = 63 - EPOCH_SHIFT
RANDOM_BITS = 38  # of the first id of an epoch
PARTITION_SHIFT = 28  # in a partition: bits below its number, 268 million leases of an epoch
PARTITION_BITS = EPOCH_SHIFT - PARTITION_SHIFT
PARTITION_RANDOM_BITS = PARTITION_SHIFT - 2
PARTITION_RESERVE = 1 << 20  # ids that are left when another epoch begins


def partition_of_lease(lease_id: int) -> int:
    """Return the partition of a crawl that has given a lease."""
    return lease_id >> PARTITION_SHIFT & (1 << PARTITION_BITS) - 1


def cost_of(key: bytes) -> int:
    """Return the cost in the key of a pending record."""
    if len(key) == pending.size:
        return int.from_bytes(key[PRECEDENCE : PRECEDENCE + 4])
    return int(pending.with_cost.unpack(key)[-1])


def arriving(rank: bytes) -> bytes:
    """Return a rank with an arrival of 0, which means now."""
    return rank[: _ARRIVAL.start] + bytes(8) + rank[_ARRIVAL.stop :]
