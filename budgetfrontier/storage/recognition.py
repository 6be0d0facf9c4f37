"""Recognition of a frontier's tables in a damaged file, by the form of their records."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from budgetfrontier.errors import CorruptFrontier
from budgetfrontier.storage import keys, meta
from budgetfrontier.storage.lmdb_pages import NOWHERE, File, Trees, is_leaf
from budgetfrontier.storage.records import (
    decode_answers,
    decode_audit,
    decode_dead,
    decode_future,
    decode_group,
    decode_host,
    decode_lease,
    decode_links,
    decode_queue,
    decode_run,
    decode_tally,
    decode_url,
    tally_of,
)
from budgetfrontier.storage.removed import decode_block
from budgetfrontier.storage.seed_list import decode_seed


def was_frontier(data: Path) -> bool:
    """Return whether a data file, without a frontier's tables to LMDB, contained one, and so is damaged.

    Reads a few pages; if the tables do not match their root, all pages until one is recognized. A file of another
    program is not taken for a frontier.
    """
    with closing(File(data)) as file:
        try:
            roots = file.roots()
        except CorruptFrontier:  # LMDB could open it, so that it is in a newer format
            return False
        if any(_names_tables(Trees(file, root)) for root in roots):
            return True
        trees = Trees(file, roots[0])
        return not _is_consistent(trees) and any(_is_known(trees, number) for number in range(2, len(trees.seen)))


def _names_tables(trees: Trees) -> bool:
    """Return whether the tree of tables, which is one leaf in every frontier, names most tables of a frontier."""
    page = trees.page(trees.root.main, "main", b"", None)
    names = set() if page is None or not is_leaf(page) else set(trees.keys(page))
    return 2 * sum(table.encode() in names for table in keys.TABLES) > len(keys.TABLES)


def _is_consistent(trees: Trees) -> bool:
    """Return whether the first page of the tree of tables is as its root describes."""
    if trees.root.main == NOWHERE:
        return not trees.root.entries
    page = trees.page(trees.root.main, "main", b"", None)
    if page is None or is_leaf(page) != (trees.root.depth == 1):
        return False
    return trees.root.depth > 1 or sum(1 for _ in trees.nodes(page)) == trees.root.entries


def _is_known(trees: Trees, number: int) -> bool:
    """Return whether a page has records of a frontier's table `meta`, or of queues."""
    page = trees.read(number)
    if trees.unsound(page, number) or not is_leaf(page):
        return False
    records = {key: value for key, value in trees.records("", number, page) if key != keys.SENTINEL}
    trees.lost.clear()
    if records.keys() >= {b"schema", b"counters"}:
        return True
    return bool(records) and all(SHAPES[keys.QUEUES](key, value) for key, value in records.items())


def _decodes(decode: Callable[[bytes], object], value: bytes) -> bool:
    try:
        decode(value)
    except ValueError:
        return False
    return True


SHAPES: dict[str, Callable[[bytes, bytes], bool]] = {
    keys.META: lambda key, value: key in meta.NAMES,
    keys.QUEUES: lambda key, value: len(key) == keys.u32.size and _decodes(decode_queue, value),
    keys.QUEUE_IDS: lambda key, value: len(value) == keys.u32.size and b"\0" not in key,
    keys.PENDING: lambda key, value: len(key) in (keys.pending.size, keys.pending.with_cost.size),
    keys.SEEN: lambda key, value: len(key) == keys.FINGERPRINT and not value,
    keys.LEASES: lambda key, value: len(key) == keys.u64.size and _decodes(decode_lease, value),
    keys.FUTURE: lambda key, value: len(key) == keys.due.size and _decodes(decode_future, value),
    keys.DEAD: lambda key, value: len(key) == keys.u64.size and _decodes(decode_dead, value),
    keys.AUDIT: lambda key, value: len(key) == keys.u64.size and _decodes(decode_audit, value),
    keys.REMOVED: lambda key, value: len(key) == keys.removed.size and _decodes(decode_block, value),
    keys.RUNS: lambda key, value: len(key) == keys.u32.size and _decodes(decode_run, value),
    keys.SERIES: lambda key, value: len(key) == keys.series.size,
    keys.SEEDS: lambda key, value: len(key) == keys.u64.size and _decodes(decode_seed, value),
    keys.HOSTS: lambda key, value: b"\0" not in key and _decodes(decode_host, value),
    keys.PEERS: lambda key, value: len(key) == keys.u32.size and len(value) == keys.peer.size,
    keys.LINKS: lambda key, value: b"\0" not in key and _decodes(decode_links, value),
    keys.PRELOADED: lambda key, value: len(key) == keys.preloaded.size and len(value) == keys.value.size,
    keys.URLS: lambda key, value: len(key) == keys.FINGERPRINT and _decodes(decode_url, value),
    keys.HISTORY: lambda key, value: len(key) == keys.u32.size and len(value) == keys.history.size,
    keys.ANSWERS: lambda key, value: len(key) == keys.u32.size and _decodes(decode_answers, value),
    keys.TALLIES: lambda key, value: _decodes(tally_of, key) and _decodes(decode_tally, value),
    keys.GROUPS: lambda key, value: len(key) == keys.u32.size and _decodes(decode_group, value),
}
"""Tests for the records of each table. Tables that are rebuilt from others are left out."""
SHAPES_OF_INDEXES: dict[str, Callable[[bytes, bytes], bool]] = {
    keys.INACTIVE: lambda key, value: len(key) == keys.fifo.size and len(value) == keys.u32.size,
    keys.ACTIVE: lambda key, value: len(key) == keys.u64.size and len(value) == keys.u32.size,
    keys.SNOOZED: lambda key, value: len(key) == keys.timed.size and not value,
    keys.RETIRED: lambda key, value: len(key) == keys.u64.size and len(value) == keys.u32.size,
    keys.INELIGIBLE: lambda key, value: len(key) == keys.u64.size and len(value) == keys.u32.size,
    keys.SEED_KEYS: lambda key, value: len(value) in (0, keys.u64.size),
    keys.GROUP_IDS: lambda key, value: len(value) == keys.u32.size,
    keys.PARKED: lambda key, value: len(key) == keys.parked.size and len(value) == keys.u32.size,
    keys.GROUP_WAKES: lambda key, value: len(key) == keys.timed.size and not value,
    keys.DEGREES: lambda key, value: len(key) == len(value) == keys.u32.size,
}
"""Tests for the records of the tables that are rebuilt from others."""
