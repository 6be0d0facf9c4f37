"""The check of a frontier's invariants: the tables are compared with each other and with the totals.

It reads every record, and keeps those of all queues in memory. Tests run it after each step, operators by `verify`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from math import inf, isfinite
from pathlib import Path
from typing import Any

import lmdb

from budgetfrontier.core import uris
from budgetfrontier.core.model import CrawlState, CrawlUri, GroupRecord, QueueRecord, QueueState
from budgetfrontier.core.units import counted
from budgetfrontier.core.vocabulary import ANSWERS
from budgetfrontier.errors import CorruptFrontier, SettingsError, pass_on_interruption
from budgetfrontier.rules import (
    crawl_states,
    duplicates,
    queue_answers,
    queue_history,
    queue_states,
    queued_totals,
    star,
)
from budgetfrontier.rules.group_limits import add, without_queues
from budgetfrontier.rules.uri_order import ordinal_of
from budgetfrontier.settings import policy_factory
from budgetfrontier.storage import bloom_file, keys, meta, removed
from budgetfrontier.storage.damage import Damage, report
from budgetfrontier.storage.encoding import without_checksum
from budgetfrontier.storage.kept_places import place_in_future, waits_at
from budgetfrontier.storage.recognition import SHAPES, SHAPES_OF_INDEXES
from budgetfrontier.storage.records import (
    Counters,
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
    host_objection,
    tally_objection,
    tally_of,
    times_of,
)
from budgetfrontier.storage.seed_list import decode_seed, keys_of
from budgetfrontier.storage.series import check_row
from budgetfrontier.storage.uri_values import check_url, expand, restore_uri
from budgetfrontier.storage.view import View


def check(txn: keys.Txn, db: dict[str, Any], folder: Path | None = None) -> None:
    """Raise CorruptFrontier, listing every invariant that is violated. `folder` has the Bloom filter, if there is one.

    Without a folder, the frontier is in memory.
    """
    checker = _Checker(txn, db, folder)
    try:
        problems = checker.run()
    except (lmdb.Error, LookupError, ValueError) as e:
        problems = [
            *checker.problems,
            f"a record cannot be read ({type(e).__name__}: {e})",
        ]
    if problems:
        raise CorruptFrontier(report(problems))


_TIMES = {kind: times_of(kind) for kind in (QueueRecord, GroupRecord, Counters)}


class _Checker:
    def __init__(self, txn: keys.Txn, db: dict[str, Any], folder: Path | None) -> None:
        self._txn = txn
        self._folder = folder
        self._db = db
        self.problems: list[str] = []
        self._counters: Counters = meta.read_counters(txn, db[keys.META])
        self._queues: dict[int, QueueRecord] = {}
        self._settings, _ = meta.read_settings(txn, db[keys.META])
        self._canonical = self._canonicalization()
        self._others: Counter[bytes] = Counter()
        """By fingerprint: how many records of a kept URL wait besides the one that its row is about."""
        c = self._counters
        self._given_out = {
            QueueState.READY: (c.ring_front, c.ring_back),
            QueueState.INACTIVE: (1, c.fifo_back),
            QueueState.INELIGIBLE: (1, c.ineligible_back),
            QueueState.RETIRED: (1, c.retired_back),
        }

    def run(self) -> list[str]:
        for name, is_of_table in (SHAPES | SHAPES_OF_INDEXES).items():
            self._check_shapes(name, is_of_table)
        self._read_queues()
        self._check_pending()
        self._check_indexes()
        self._check_leases()
        self._check_groups()
        self._check_future_and_dead()
        self._check_urls()
        self._check_filter()
        meta.read_assignments(self._txn, self._db[keys.META])
        meta.read_changes(self._txn, self._db[keys.META])
        self._check_rows_of_partition()
        self._check_audit()
        self._check_removed()
        self._check_runs()
        self._check_seeds()
        self._check_hosts()
        self._check_peers()
        self._check_history()
        self._check_answers()
        self._check_tallies()
        self._check_links()
        self._check_preloaded()
        self._check_totals()
        return self.problems

    def _canonicalization(self) -> Callable[[str], str] | None:
        """Return the canonicalization policy; None if URLs are not kept, or it cannot be loaded here."""
        if self._settings is None or not self._settings.frontier.keep_urls:
            return None
        try:
            return policy_factory.canonicalization(self._settings.frontier)
        except SettingsError:
            return None

    def _report(self, problem: str) -> None:
        self.problems.append(problem)

    def _items(self, table: str) -> Any:
        return (item for item in self._txn.cursor(self._db[table]) if item[0] != keys.SENTINEL)

    def _check_shapes(self, table: str, is_of_table: Callable[[bytes, bytes], bool]) -> None:
        """Report the rows of a table that can be none by their key or their value alone."""
        if self._txn.get(keys.SENTINEL, db=self._db[table]) is None:
            self._report(f"table {table}: the sentinel is missing")
        wrong = [key for key, value in self._items(table) if not is_of_table(key, value)]
        if wrong:
            self._report(f"{table}: {counted(len(wrong), 'row')} that cannot be one, the first under {wrong[0]!r}")

    def _check_times(self, record: QueueRecord | GroupRecord | Counters, what: str) -> None:
        for name in _TIMES[type(record)]:
            if not 0 <= getattr(record, name) < inf:
                self._report(f"{what}: {name} is {getattr(record, name)}")

    def _read_queues(self) -> None:
        for key, value in self._items(keys.QUEUES):
            queue = decode_queue(value)
            queue.last_enqueued = queue.last_leased = ""  # to save memory
            self._queues[queue.id] = queue
            if keys.u32.pack(queue.id) != key:
                self._report(f"queue {queue.queue}: its id {queue.id} is not its key")
            if self._txn.get(queue.queue.encode(), db=self._db[keys.QUEUE_IDS]) != key:
                self._report(f"queue {queue.queue}: queue_ids does not lead to it")
            if queue.expenditure < queue.penalties or min(queue.expenditure, queue.charges, queue.errors) < 0:
                self._report(f"queue {queue.queue}: expenditure {queue.expenditure} with penalties {queue.penalties}")
            if not 0 <= queue.error_answers <= queue.errors or queue.succeeded < 0:
                self._report(
                    f"queue {queue.queue}: {queue.charges} charges, {queue.errors} errors, of which "
                    f"{queue.error_answers} are answers"
                )
            if queue.id > self._counters.queue_id:
                self._report(f"queue {queue.queue}: id {queue.id} is beyond the last one given out")
            self._check_times(queue, f"queue {queue.queue}")
        if sum(1 for _ in self._items(keys.QUEUE_IDS)) != len(self._queues):
            self._report("queue_ids and queues differ in number")

    def _check_pending(self) -> None:
        count: Counter[int] = Counter()
        names = {queue.id: queue.queue for queue in self._queues.values()}
        for key, value in self._items(keys.PENDING):
            queue_id, _, _, _, ordinal, *_ = keys.pending.unpack(key)
            count[queue_id] += 1
            if ordinal_of(ordinal) > self._counters.ordinal:
                self._report(f"pending: ordinal {ordinal} is beyond the last one given out")
            try:
                uri = restore_uri(key[4:], value, names.get(queue_id, ""))
                check_url(uri.url)
                self._check_row_of(uri, key, f"pending {key.hex()}")
            except Exception as e:  # a damaged record may cause any error
                self._report(f"pending {key.hex()}: unreadable ({e})")
        for queue in self._queues.values():
            if queue.queued != count.pop(queue.id, 0):
                self._report(f"queue {queue.queue}: its record says {queue.queued} queued, pending differs")
        for queue_id in count:
            self._report(f"pending: URIs of queue {queue_id}, which does not exist")

    def _check_indexes(self) -> None:
        found: dict[int, list[QueueState]] = defaultdict(list)
        for key, value in self._items(keys.ACTIVE):
            self._check_row(found, keys.u32.unpack(value)[0], QueueState.READY, keys.u64.unpack(key)[0])
        for key, value in self._items(keys.PARKED):
            group_id, position = keys.parked.unpack(key)
            queue_id = keys.u32.unpack(value)[0]
            self._check_row(found, queue_id, QueueState.SNOOZED, None)
            if (waiting := self._queues.get(queue_id)) and (waiting.group, waiting.parked) != (group_id, position):
                self._report(f"queue {waiting.queue}: waits for group {group_id} at {position}, its record differs")
        for key, _ in self._items(keys.SNOOZED):
            wake_time, queue_id = keys.timed.unpack(key)
            self._check_row(found, queue_id, QueueState.SNOOZED, None)
            if queue_id in self._queues and self._queues[queue_id].wake_time != wake_time:
                self._report(f"queue {self._queues[queue_id].queue}: snoozed under another wake time")
        for key, value in self._items(keys.INACTIVE):
            precedence, position = keys.fifo.unpack(key)
            queue_id = keys.u32.unpack(value)[0]
            self._check_row(found, queue_id, QueueState.INACTIVE, position)
            if queue_id in self._queues and self._queues[queue_id].precedence != precedence:
                self._report(f"queue {self._queues[queue_id].queue}: waits in the FIFO of precedence {precedence}")
        for state, table in (QueueState.RETIRED, keys.RETIRED), (QueueState.INELIGIBLE, keys.INELIGIBLE):
            for key, value in self._items(table):
                self._check_row(found, keys.u32.unpack(value)[0], state, keys.u64.unpack(key)[0])
        nowhere = (QueueState.IN_PROCESS, QueueState.EXHAUSTED)
        for queue in self._queues.values():
            expected = [] if queue.state in nowhere else [queue.state]
            if found.get(queue.id, []) != expected:
                self._report(f"queue {queue.queue}: {queue.state}, but found in {found.get(queue.id, [])}")
            if not queue_states.is_possible(queue):
                self._report(
                    f"queue {queue.queue}: {queue.state} with {queue.queued} URI{'' if queue.queued == 1 else 's'}"
                )
            if queue.state is QueueState.IN_PROCESS and not queue.out:
                self._report(f"queue {queue.queue}: IN_PROCESS with no lease out")
            if queue.row != (queue.position if queue.state is QueueState.READY else 0):
                self._report(f"queue {queue.queue}: {queue.state} at {queue.position}, its record says row {queue.row}")
            first, last = self._given_out.get(queue.state, (queue.position, queue.position))
            if not first <= queue.position <= last:
                self._report(f"queue {queue.queue}: {queue.state} at {queue.position}, a position never given out")
            self._check_floor(queue)

    def _check_groups(self) -> None:
        """Compare the groups with their queues: a group with queues that wait has to have something that ends that."""
        members: dict[int, list[QueueRecord]] = defaultdict(list)
        for queue in self._queues.values():
            if queue.group:
                members[queue.group].append(queue)
            if queue.parked and (queue.state is not QueueState.SNOOZED or not queue.group):
                self._report(f"queue {queue.queue}: {queue.state}, and said to wait for its group")
        known: set[int] = set()
        rows = {keys.timed.unpack(key)[1]: keys.timed.unpack(key)[0] for key, _ in self._items(keys.GROUP_WAKES)}
        for key, value in self._items(keys.GROUPS):
            group = decode_group(value)
            self._check_times(group, f"group {group.name}")
            known.add(group.id)
            if keys.u32.pack(group.id) != key or group.id > self._counters.group_id:
                self._report(f"group {group.name}: its id {group.id} is not its key, or was never given out")
            if self._get(keys.GROUP_IDS, group.name.encode()) != key:
                self._report(f"group {group.name}: group_ids does not lead to it")
            if group.row != rows.pop(group.id, None):
                self._report(f"group {group.name}: its record says that it wakes at {group.row}, the index differs")
            found = without_queues(group)
            for queue in members[group.id]:
                add(found, queue)
                found.parked += queue.parked > 0
            if group != found:
                self._report(f"group {group.name}: its record says {group}, its queues say {found}")
            ready = any(queue.state is QueueState.READY for queue in members[group.id])
            if group.parked and group.row is None and not group.out and not ready:
                self._report(f"group {group.name}: {group.parked} queues wait for it, and nothing ends that")
            if any(queue.parked > group.parked_back for queue in members[group.id]):
                self._report(f"group {group.name}: a queue waits at a position never given out")
            if not group.queues:
                self._report(f"group {group.name}: it has no queues")
        for group_id in members.keys() - known:
            self._report(f"group {group_id} has queues, and no record")
        for group_id in rows:
            self._report(f"group_wakes: group {group_id} does not wake, or does not exist")
        if sum(1 for _ in self._items(keys.GROUP_IDS)) != len(known):
            self._report("group_ids and groups differ in number")
        if self._counters.groups != len(known):
            self._report(f"totals: {self._counters.groups} groups, {len(known)} in the table")

    def _check_row(self, found: dict[int, list[QueueState]], queue_id: int, state: QueueState, at: int | None) -> None:
        queue = self._queues.get(queue_id)
        if queue is None:
            self._report(f"{state}: queue {queue_id} does not exist")
            return
        found[queue_id].append(state)
        if at is not None and queue.position != at:
            self._report(f"queue {queue.queue}: its record says position {queue.position}, the index says {at}")

    def _check_floor(self, queue: QueueRecord) -> None:
        """Report a queue that waits on the wrong side of the precedence floor, if no change is rolled out."""
        if self._settings is None or self._counters.regrade_upto:
            return
        floor = self._settings.frontier.precedence_floor
        waits = queue_states.while_waiting(queue.precedence, floor)
        if queue.state in (QueueState.INACTIVE, QueueState.INELIGIBLE) and queue.state is not waits:
            self._report(f"queue {queue.queue}: {queue.state} at precedence {queue.precedence}, the floor is {floor}")

    def _check_leases(self) -> None:
        out: Counter[int] = Counter()
        reserved: Counter[int] = Counter()
        landed: Counter[int] = Counter()
        leased: set[bytes] = set()
        for key, value in self._items(keys.LEASES):
            lease, number = decode_lease(value), keys.u64.unpack(key)[0]
            if self._txn.get(lease.key, db=self._db[keys.PENDING]) is None:
                self._report(f"lease {number}: its URI is not pending")
            if lease.key in leased:
                self._report(f"lease {number}: its URI has another lease")
            if number >> keys.EPOCH_SHIFT > self._counters.epoch:
                self._report(f"lease {number}: its number was never given out")
            if not (isfinite(lease.expires) and isfinite(lease.began)):
                self._report(f"lease {number}: from {lease.began} to {lease.expires}")
            leased.add(lease.key)
            out[lease.queue] += 1
            reserved[lease.queue] += keys.cost_of(lease.key)
            landed[lease.queue] += lease.landed
        for queue in self._queues.values():
            recorded = queue.out, queue.reserved, queue.landed
            found = out[queue.id], reserved[queue.id], landed[queue.id]
            if recorded != found:
                self._report(f"queue {queue.queue}: leases, reserved, landed: {recorded}, the table says {found}")
        if sum(out.values()) != self._counters.leases:
            self._report(f"totals: {self._counters.leases} leases, {sum(out.values())} in the table")

    def _check_future_and_dead(self) -> None:
        future: Counter[int] = Counter()
        kept: set[bytes] = set()
        for key, value in self._items(keys.FUTURE):
            (when, ordinal), row = keys.due.unpack(key), decode_future(value)
            future[row.queue] += 1
            queue = self._queues.get(row.queue)
            if queue is None:
                self._report(f"for later, {key.hex()}: its queue does not exist")
            uri = restore_uri(row.rank, row.value, "" if queue is None else queue.queue)
            check_url(uri.url)
            self._check_row_of(uri, place_in_future(row.queue, key), f"for later, {key.hex()}")
            arrival = keys.rank.unpack(row.rank)[3]
            if not 0 <= when < inf or max(ordinal, ordinal_of(arrival)) > self._counters.ordinal:
                self._report(f"for later, {key.hex()}: its time is {when}, or its ordinal was never given out")
            if arrival:  # a retry, which keeps its rank
                pending = keys.u32.pack(row.queue) + row.rank
                if pending in kept or self._txn.get(pending, db=self._db[keys.PENDING]) is not None:
                    self._report(f"for later, {key.hex()}: another URI has its rank")
                kept.add(pending)
        for queue in self._queues.values():
            if queue.future != future[queue.id]:
                self._report(f"queue {queue.queue}: its record says {queue.future} for later, not {future[queue.id]}")
        prerequisites = 0
        for key, value in self._items(keys.DEAD):
            letter, number = decode_dead(value), keys.u64.unpack(key)[0]
            prerequisites += letter.prerequisite
            check_url(restore_uri(letter.rank, letter.value, letter.name).url)
            if letter.queue not in self._queues:
                self._report(f"dead letter {number}: its queue does not exist")
            if number > self._counters.ordinal or not isfinite(letter.time):
                self._report(f"dead letter {number}: its time is {letter.time}, or its number was never given out")
        if (stored := self._counters.dead_prerequisites) != prerequisites:
            self._report(f"totals: dead_prerequisites is {stored}, the dead letters say {prerequisites}")

    def _check_row_of(self, uri: CrawlUri, place: bytes, where: str) -> None:
        """Report a URI that waits at a place and has no row in `urls`; count it if its row is about another."""
        key = self._fingerprint(uri)
        if key is not None:
            value = self._get(keys.URLS, key)
            if value is None:
                self._report(f"{where}: {uri.url} is not among the kept URLs")
            elif decode_url(value).place != place:
                self._others[key] += 1

    def _fingerprint(self, uri: CrawlUri) -> bytes | None:
        """Return the key of a URI in `urls`; None if URLs are not kept, or the policy fails, then and from then on."""
        if self._canonical is None:
            return None
        try:
            return duplicates.fingerprint_of(uri, uri.url, self._canonical)
        except Exception as e:  # of a policy, which says nothing of the file
            pass_on_interruption(e)
            self._canonical = None
            return None

    def _get(self, table: str, key: bytes) -> bytes | None:
        return self._txn.get(key, db=self._db[table])

    def _check_urls(self) -> None:
        found: Counter[int] = Counter()
        completed: Counter[int] = Counter()
        for key, value in self._items(keys.URLS):
            row = decode_url(value)
            found[row.queue] += 1
            completed[row.queue] += not row.waits
            queue = self._queues.get(row.queue)
            if queue is None:
                self._report(f"urls {key.hex()}: its queue {row.queue} does not exist")
                continue
            url = expand(row.url, queue.queue)
            check_url(url)
            if not row.waits and row.due:
                self._report(f"urls {key.hex()}: {url} is completed, and due")
            if self._canonical is not None and row.more != self._others[key]:
                self._report(
                    f"urls {key.hex()}: {url} is said to wait {row.more} more time{'' if row.more == 1 else 's'}, "
                    f"not {self._others[key]}"
                )
            if row.place and not waits_at(row, queue.queue, self._get):
                self._report(f"urls {key.hex()}: {url} is not where it is said to wait")
        if found and self._settings is not None and not self._settings.frontier.keep_urls:
            self._report("urls: this frontier keeps no URLs")
        for queue in self._queues.values():
            recorded, counted = (queue.urls, queue.completed), (found[queue.id], completed[queue.id])
            if recorded != counted:
                self._report(f"queue {queue.queue}: URLs, completed: {recorded}, the table says {counted}")

    def _check_filter(self) -> None:
        """Compare the Bloom filter with its record; without one, nothing of it may be left."""
        row = meta.read_filter(self._txn, self._db[keys.META])
        frontier = self._settings.frontier if self._settings is not None else None
        if row is not None and frontier is not None:
            if frontier.duplicates != duplicates.BLOOM:
                self._report(f"meta: a Bloom filter, and `duplicates: {frontier.duplicates}`")
            elif self._folder is not None and (why := bloom_file.objection(self._folder, row, frontier.bloom)):
                self._report(f"{why}; {bloom_file.REMEDY}")
        if frontier is not None and frontier.duplicates == duplicates.NOOP and any(self._items(keys.SEEN)):
            self._report("seen: `duplicates: noop` records nothing")

    def _check_audit(self) -> None:
        for key, value in self._items(keys.AUDIT):
            number, applied = keys.u64.unpack(key)[0], decode_audit(value).number
            if number > self._counters.audit:
                self._report(f"audit: entry {number} is beyond the last one")
            if applied > self._counters.command and applied not in self._counters.ahead:
                self._report(
                    f"audit: entry {number} is of command {applied}, the last one was {self._counters.command}"
                )

    def _check_removed(self) -> None:
        """Compare what is kept for `undo` with the audit: all that is needed is there, and no more."""
        found: Counter[int] = Counter()
        for key, value in self._items(keys.REMOVED):
            number, _ = keys.removed.unpack(key)
            found[number] += len(value)
            try:
                removed.check_block(removed.decode_block(value))
            except Exception as e:  # a damaged record may cause any error
                self._report(f"removed {key.hex()}: cannot be put back ({e})")
        if found.total() != self._counters.removed:
            self._report(f"totals: removed is {self._counters.removed}, the table has {found.total()} bytes")
        for one in removed.needed(View(self._txn, self._db)):
            there = found.pop(one.kept.number, 0)
            if there > one.kept.bytes or there < (one.kept.bytes if one.is_whole else 1):
                command = f"audit entry {one.entry}" if one.entry else "the command in progress"
                self._report(f"removed: {there:,} of the {one.kept.bytes:,} bytes that {command} has kept are there")
        for number in found:
            self._report(f"removed: blocks under {number}, of no command that can be undone")

    def _check_runs(self) -> None:
        for _, value in self._items(keys.RUNS):
            run = decode_run(value)
            if not (isfinite(run.began) and isfinite(run.ended)):
                self._report(f"runs: one from {run.began} to {run.ended}")
        for key, value in self._items(keys.SERIES):
            check_row(key, value)

    def _check_seeds(self) -> None:
        """Compare the list of seeds with its index and its totals."""
        fates: Counter[str] = Counter()
        for key, value in self._items(keys.SEEDS):
            row = decode_seed(value)
            check_url(row.url)
            fates[row.fate] += 1
            if keys.u64.unpack(key)[0] > self._counters.seeds:
                self._report(f"seeds: {row.url} is beyond the last position")
            for name, is_position in keys_of(row, uris.host(row.url)):
                if self._get(keys.SEED_KEYS, name) != (key if is_position else b""):
                    self._report(f"seeds: seed_keys does not lead to {row.url}")
        if fates.total() != sum(bool(value) for _, value in self._items(keys.SEED_KEYS)):
            self._report("seeds: seed_keys has other seeds")
        recorded = {fate: count for fate, count in self._counters.seed_fates.items() if count}
        if recorded != fates:
            self._report(f"totals: the fates of the seeds are {recorded}, the table says {dict(fates)}")

    def _check_hosts(self) -> None:
        for key, value in self._items(keys.HOSTS):
            if why := host_objection(key, decode_host(value)):
                self._report(f"hosts: {key!r}: {why}")

    def _check_rows_of_partition(self) -> None:
        found = {name: meta.read_row(self._txn, self._db[keys.META], name) for name in sorted(meta.OWNED)}
        if found[meta.PLACE] is None:  # the note is its caller's own
            return
        for name, row in found.items():
            try:
                if row is not None:
                    without_checksum(row)
            except Damage as e:
                self._report(f"meta: {name.decode()}: {e}")

    def _check_peers(self) -> None:
        for _, value in self._items(keys.PEERS):
            keys.peer.unpack(value)

    def _check_history(self) -> None:
        """Compare the histories of queues with their records."""
        for key, value in self._items(keys.HISTORY):
            queue, row = self._queues.get(keys.u32.unpack(key)[0]), keys.history.unpack(value)
            if queue is None:
                self._report(f"history: {key.hex()} is of no queue")
            elif why := queue_history.objection(row):
                self._report(f"history: of queue {queue.queue}: {why}")
            elif queue_history.charged(row) > queue.charges:
                self._report(f"history: of queue {queue.queue}: more attempts than the {queue.charges} charged to it")

    def _check_answers(self) -> None:
        """Compare the answers to attempts with the queues and the totals."""
        sums = [0] * len(ANSWERS)
        for key, value in self._items(keys.ANSWERS):
            queue, row = self._queues.get(keys.u32.unpack(key)[0]), decode_answers(value)
            if why := "it is of no queue" if queue is None else queue_answers.objection(row):
                self._report(f"answers: {key.hex()}: {why}")
                continue
            sums = [total + count for total, count in zip(sums, row.classes, strict=True)]
        for name, count in zip(ANSWERS, sums, strict=True):
            if getattr(self._counters, name) != count:
                self._report(f"totals: {name} is {getattr(self._counters, name)}, the table of answers says {count}")

    def _check_tallies(self) -> None:
        """Compare what was fetched of hosts, of queues and with labels with the totals, which count all of it."""
        successes, errors = Counter[str](), Counter[str]()
        for key, value in self._items(keys.TALLIES):
            (kind, name), stats = tally_of(key), decode_tally(value)
            successes[kind] += stats.successes
            errors[kind] += stats.errors
            if why := tally_objection(stats):
                self._report(f"tallies: of {kind} {name}: {why}")
            if kind == "queue":
                found = self._get(keys.QUEUE_IDS, key[1:])
                queue = None if found is None else self._queues.get(keys.u32.unpack(found)[0])
                if queue is None or stats.bytes > queue.bytes:
                    self._report(f"tallies: of queue {name}, which has no record, or one with fewer bytes")
        c = self._counters
        for kind in successes:
            if successes[kind] > c.succeeded or errors[kind] > c.failed + c.given_up:
                self._report(f"tallies: the URIs of kind {kind} are more than the totals have")

    def _check_links(self) -> None:
        """Compare the in-degrees of registered domains with the numbers of domains that have each."""
        found: Counter[int] = Counter()
        for key, value in self._items(keys.LINKS):
            row = decode_links(value)
            found[row.degree] += 1
            if why := star.objection(row):
                self._report(f"links: {key.decode()}: {why}")
            if row.changed_after > self._counters.rankings:
                self._report(f"links: {key.decode()}: changed after ranking {row.changed_after}, which never was")
        stored = {keys.u32.unpack(key)[0]: keys.u32.unpack(value)[0] for key, value in self._items(keys.DEGREES)}
        if stored != found:
            self._report(f"degrees: {stored}, the table of links says {dict(found)}")
        if not 0 <= self._counters.lowest_degree <= self._counters.highest_degree:
            self._report("totals: the lowest in-degree of the last ranking is above the highest")

    def _check_preloaded(self) -> None:
        """Count the precedences that were read from each file."""
        found = Counter[int]()
        for key, value in self._items(keys.PRELOADED):
            found[keys.preloaded.unpack(key)[0]] += 1
            keys.value.unpack(value)
        rows = {row.number: row for row in meta.read_preloaded(self._txn, self._db[keys.META])}
        for number in sorted(found.keys() - rows.keys()):
            self._report(f"preloaded: {found[number]:,} precedences of file {number}, which has no record")
        for row in rows.values():
            if row.whole and row.uris != found[row.number]:
                self._report(f"preloaded: {row.path} has {found[row.number]:,} precedences, not {row.uris:,}")

    def _check_totals(self) -> None:
        c, all_queues = self._counters, self._queues.values()
        states = Counter(q.state for q in all_queues)
        truth = {
            "queued": sum(queued_totals.share(q, q.state)[0] for q in all_queues),
            "expenditure": sum(q.expenditure for q in all_queues),
            "bytes": sum(q.bytes for q in all_queues),
            "future": sum(q.future for q in all_queues),
            "future_retired": sum(queued_totals.share(q, q.state)[1] for q in all_queues),
            "queues": len(all_queues),
            "ready": states[QueueState.READY],
            "in_process": states[QueueState.IN_PROCESS],
            "snoozed": states[QueueState.SNOOZED],
            "inactive": states[QueueState.INACTIVE],
            "parked": sum(q.parked > 0 for q in all_queues),
            "ineligible": states[QueueState.INELIGIBLE],
            "retired": states[QueueState.RETIRED],
            "retired_by_name": sum(q.by_name for q in all_queues if q.state is QueueState.RETIRED),
            "penalties": sum(q.penalties for q in all_queues),
            "urls": sum(q.urls for q in all_queues),
            "completed": sum(q.completed for q in all_queues),
            "url_queues": sum(q.urls > 0 for q in all_queues),
            "active_url_queues": sum(q.urls > q.completed for q in all_queues),
        }
        for name, value in truth.items():
            if getattr(c, name) != value:
                self._report(f"totals: {name} is {getattr(c, name)}, the queues say {value}")
        self._check_times(c, "totals")
        parts = [c.failed_expenditure, c.retried_expenditure, c.given_up_expenditure, c.other_expenditure]
        if min(parts) < 0 or sum(parts) > c.expenditure:
            self._report(f"totals: expenditure is {c.expenditure}, its parts without that of successes are {parts}")
        if c.found > c.scheduled:
            self._report(f"totals: scheduled is {c.scheduled}, but {c.found} of them were found")
        if c.prerequisites_succeeded + sum(c.error_answers.values()) > c.succeeded:
            self._report(f"totals: succeeded is {c.succeeded}, its parts are more")
        if c.prerequisites_succeeded + c.prerequisites_disregarded > c.prerequisites:
            self._report(f"totals: prerequisites is {c.prerequisites}, its parts are more")
        empty = crawl_states.is_empty(
            queued=c.queued, leases=c.leases, future=c.future, future_retired=c.future_retired
        )
        at_work = c.rolls_out or meta.read_begun(self._txn, self._db[keys.META])
        if c.state is CrawlState.FINISHED and not empty:
            self._report("the crawl is FINISHED, but not empty")
        if c.state is CrawlState.RUNNING and empty and not at_work:
            self._report("the crawl is RUNNING, but empty")
