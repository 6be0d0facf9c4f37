"""The checks of what a frontier knows besides its URIs and queues, from the audit to the in-degrees of domains."""

from __future__ import annotations

from collections import Counter
from math import isfinite

from budgetfrontier.core import uris
from budgetfrontier.core.vocabulary import ANSWERS
from budgetfrontier.rules import duplicates, queue_answers, queue_history, star
from budgetfrontier.storage import bloom_file, keys, meta, removed
from budgetfrontier.storage.checks.checked_tables import CheckedTables
from budgetfrontier.storage.damage import Damage
from budgetfrontier.storage.encoding import without_checksum
from budgetfrontier.storage.records import (
    decode_answers,
    decode_audit,
    decode_host,
    decode_links,
    decode_run,
    decode_tally,
    host_objection,
    tally_objection,
    tally_of,
)
from budgetfrontier.storage.seed_list import decode_seed, keys_of
from budgetfrontier.storage.series import check_row
from budgetfrontier.storage.uri_values import check_url
from budgetfrontier.storage.view import View


def run(tables: CheckedTables) -> None:
    """Report what is wrong with these records."""
    meta.read_assignments(tables.txn, tables.db[keys.META])
    meta.read_changes(tables.txn, tables.db[keys.META])
    _check_filter(tables)
    _check_rows_of_partition(tables)
    _check_audit(tables)
    _check_removed(tables)
    _check_runs(tables)
    _check_seeds(tables)
    _check_hosts(tables)
    _check_peers(tables)
    _check_history(tables)
    _check_answers(tables)
    _check_tallies(tables)
    _check_links(tables)
    _check_preloaded(tables)


def _check_filter(tables: CheckedTables) -> None:
    """Compare the Bloom filter with its record; without one, nothing of it may be left."""
    row = meta.read_filter(tables.txn, tables.db[keys.META])
    frontier = tables.settings.frontier if tables.settings is not None else None
    if row is not None and frontier is not None:
        if frontier.duplicates != duplicates.BLOOM:
            tables.report(f"meta: a Bloom filter, and `duplicates: {frontier.duplicates}`")
        elif tables.folder is not None and (why := bloom_file.objection(tables.folder, row, frontier.bloom)):
            tables.report(f"{why}; {bloom_file.REMEDY}")
    if frontier is not None and frontier.duplicates == duplicates.NOOP and any(tables.items(keys.SEEN)):
        tables.report("seen: `duplicates: noop` records nothing")


def _check_rows_of_partition(tables: CheckedTables) -> None:
    found = {name: meta.read_row(tables.txn, tables.db[keys.META], name) for name in sorted(meta.OWNED)}
    if found[meta.PLACE] is None:  # the note is its caller's own
        return
    for name, row in found.items():
        try:
            if row is not None:
                without_checksum(row)
        except Damage as e:
            tables.report(f"meta: {name.decode()}: {e}")


def _check_audit(tables: CheckedTables) -> None:
    for key, value in tables.items(keys.AUDIT):
        number, applied = keys.u64.unpack(key)[0], decode_audit(value).number
        if number > tables.counters.audit:
            tables.report(f"audit: entry {number} is beyond the last one")
        if applied > tables.counters.command and applied not in tables.counters.ahead:
            tables.report(f"audit: entry {number} is of command {applied}, the last one was {tables.counters.command}")


def _check_removed(tables: CheckedTables) -> None:
    """Compare what is kept for `undo` with the audit: all that is needed is there, and no more."""
    found: Counter[int] = Counter()
    for key, value in tables.items(keys.REMOVED):
        number, _ = keys.removed.unpack(key)
        found[number] += len(value)
        try:
            removed.check_block(removed.decode_block(value))
        except Exception as e:  # a damaged record may cause any error
            tables.report(f"removed {key.hex()}: cannot be put back ({e})")
    if found.total() != tables.counters.removed:
        tables.report(f"totals: removed is {tables.counters.removed}, the table has {found.total()} bytes")
    for one in removed.needed(View(tables.txn, tables.db)):
        there = found.pop(one.kept.number, 0)
        if there > one.kept.bytes or there < (one.kept.bytes if one.is_whole else 1):
            command = f"audit entry {one.entry}" if one.entry else "the command in progress"
            tables.report(f"removed: {there:,} of the {one.kept.bytes:,} bytes that {command} has kept are there")
    for number in found:
        tables.report(f"removed: blocks under {number}, of no command that can be undone")


def _check_runs(tables: CheckedTables) -> None:
    for _, value in tables.items(keys.RUNS):
        run = decode_run(value)
        if not (isfinite(run.began) and isfinite(run.ended)):
            tables.report(f"runs: one from {run.began} to {run.ended}")
    for key, value in tables.items(keys.SERIES):
        check_row(key, value)


def _check_seeds(tables: CheckedTables) -> None:
    """Compare the list of seeds with its index and its totals."""
    fates: Counter[str] = Counter()
    for key, value in tables.items(keys.SEEDS):
        row = decode_seed(value)
        check_url(row.url)
        fates[row.fate] += 1
        if keys.u64.unpack(key)[0] > tables.counters.seeds:
            tables.report(f"seeds: {row.url} is beyond the last position")
        for name, is_position in keys_of(row, uris.host(row.url)):
            if tables.get(keys.SEED_KEYS, name) != (key if is_position else b""):
                tables.report(f"seeds: seed_keys does not lead to {row.url}")
    if fates.total() != sum(bool(value) for _, value in tables.items(keys.SEED_KEYS)):
        tables.report("seeds: seed_keys has other seeds")
    recorded = {fate: count for fate, count in tables.counters.seed_fates.items() if count}
    if recorded != fates:
        tables.report(f"totals: the fates of the seeds are {recorded}, the table says {dict(fates)}")


def _check_hosts(tables: CheckedTables) -> None:
    for key, value in tables.items(keys.HOSTS):
        if why := host_objection(key, decode_host(value)):
            tables.report(f"hosts: {key!r}: {why}")


def _check_peers(tables: CheckedTables) -> None:
    for _, value in tables.items(keys.PEERS):
        keys.peer.unpack(value)


def _check_history(tables: CheckedTables) -> None:
    """Compare the histories of queues with their records."""
    for key, value in tables.items(keys.HISTORY):
        queue, row = tables.queues.get(keys.u32.unpack(key)[0]), keys.history.unpack(value)
        if queue is None:
            tables.report(f"history: {key.hex()} is of no queue")
        elif why := queue_history.objection(row):
            tables.report(f"history: of queue {queue.queue}: {why}")
        elif queue_history.charged(row) > queue.charges:
            tables.report(f"history: of queue {queue.queue}: more attempts than the {queue.charges} charged to it")


def _check_answers(tables: CheckedTables) -> None:
    """Compare the answers to attempts with the queues and the totals."""
    sums = [0] * len(ANSWERS)
    for key, value in tables.items(keys.ANSWERS):
        queue, row = tables.queues.get(keys.u32.unpack(key)[0]), decode_answers(value)
        if why := "it is of no queue" if queue is None else queue_answers.objection(row):
            tables.report(f"answers: {key.hex()}: {why}")
            continue
        sums = [total + count for total, count in zip(sums, row.classes, strict=True)]
    for name, count in zip(ANSWERS, sums, strict=True):
        if getattr(tables.counters, name) != count:
            tables.report(f"totals: {name} is {getattr(tables.counters, name)}, the table of answers says {count}")


def _check_tallies(tables: CheckedTables) -> None:
    """Compare what was fetched of hosts, of queues and with labels with the totals, which count all of it."""
    successes, errors = Counter[str](), Counter[str]()
    for key, value in tables.items(keys.TALLIES):
        (kind, name), stats = tally_of(key), decode_tally(value)
        successes[kind] += stats.successes
        errors[kind] += stats.errors
        if why := tally_objection(stats):
            tables.report(f"tallies: of {kind} {name}: {why}")
        if kind == "queue":
            found = tables.get(keys.QUEUE_IDS, key[1:])
            queue = None if found is None else tables.queues.get(keys.u32.unpack(found)[0])
            if queue is None or stats.bytes > queue.bytes:
                tables.report(f"tallies: of queue {name}, which has no record, or one with fewer bytes")
    c = tables.counters
    for kind in successes:
        if successes[kind] > c.succeeded or errors[kind] > c.failed + c.given_up:
            tables.report(f"tallies: the URIs of kind {kind} are more than the totals have")


def _check_links(tables: CheckedTables) -> None:
    """Compare the in-degrees of registered domains with the numbers of domains that have each."""
    found: Counter[int] = Counter()
    for key, value in tables.items(keys.LINKS):
        row = decode_links(value)
        found[row.degree] += 1
        if why := star.objection(row):
            tables.report(f"links: {key.decode()}: {why}")
        if row.changed_after > tables.counters.rankings:
            tables.report(f"links: {key.decode()}: changed after ranking {row.changed_after}, which never was")
    stored = {keys.u32.unpack(key)[0]: keys.u32.unpack(value)[0] for key, value in tables.items(keys.DEGREES)}
    if stored != found:
        tables.report(f"degrees: {stored}, the table of links says {dict(found)}")
    if not 0 <= tables.counters.lowest_degree <= tables.counters.highest_degree:
        tables.report("totals: the lowest in-degree of the last ranking is above the highest")


def _check_preloaded(tables: CheckedTables) -> None:
    """Count the precedences that were read from each file."""
    found = Counter[int]()
    for key, value in tables.items(keys.PRELOADED):
        found[keys.preloaded.unpack(key)[0]] += 1
        keys.value.unpack(value)
    rows = {row.number: row for row in meta.read_preloaded(tables.txn, tables.db[keys.META])}
    for number in sorted(found.keys() - rows.keys()):
        tables.report(f"preloaded: {found[number]:,} precedences of file {number}, which has no record")
    for row in rows.values():
        if row.whole and row.uris != found[row.number]:
            tables.report(f"preloaded: {row.path} has {found[row.number]:,} precedences, not {row.uris:,}")
