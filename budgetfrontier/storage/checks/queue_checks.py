"""The checks of queues and groups: their records, the indexes, and the totals."""

from __future__ import annotations

from collections import Counter, defaultdict

from budgetfrontier.core.model import CrawlState, QueueRecord, QueueState
from budgetfrontier.rules import crawl_states, queue_states, queued_totals
from budgetfrontier.rules.group_limits import add, without_queues
from budgetfrontier.storage import keys, meta
from budgetfrontier.storage.checks.checked_tables import CheckedTables
from budgetfrontier.storage.records import decode_group, decode_queue


def read_queues(tables: CheckedTables) -> None:
    """Read the records of all queues, and compare them with their names."""
    for key, value in tables.items(keys.QUEUES):
        queue = decode_queue(value)
        queue.last_enqueued = queue.last_leased = ""  # to save memory
        tables.queues[queue.id] = queue
        if keys.u32.pack(queue.id) != key:
            tables.report(f"queue {queue.queue}: its id {queue.id} is not its key")
        if tables.get(keys.QUEUE_IDS, queue.queue.encode()) != key:
            tables.report(f"queue {queue.queue}: queue_ids does not lead to it")
        if queue.expenditure < queue.penalties or min(queue.expenditure, queue.charges, queue.errors) < 0:
            tables.report(f"queue {queue.queue}: expenditure {queue.expenditure} with penalties {queue.penalties}")
        if not 0 <= queue.error_answers <= queue.errors or queue.succeeded < 0:
            tables.report(
                f"queue {queue.queue}: {queue.charges} charges, {queue.errors} errors, of which "
                f"{queue.error_answers} are answers"
            )
        if queue.id > tables.counters.queue_id:
            tables.report(f"queue {queue.queue}: id {queue.id} is beyond the last one given out")
        tables.check_times(queue, f"queue {queue.queue}")
    if sum(1 for _ in tables.items(keys.QUEUE_IDS)) != len(tables.queues):
        tables.report("queue_ids and queues differ in number")


def run(tables: CheckedTables) -> None:
    """Report what is wrong with the queues that were read, with their groups, and with the totals."""
    _check_indexes(tables)
    _check_groups(tables)
    _check_totals(tables)


def _check_indexes(tables: CheckedTables) -> None:
    c = tables.counters
    given_out = {
        QueueState.READY: (c.ring_front, c.ring_back),
        QueueState.INACTIVE: (1, c.fifo_back),
        QueueState.INELIGIBLE: (1, c.ineligible_back),
        QueueState.RETIRED: (1, c.retired_back),
    }
    found: dict[int, list[QueueState]] = defaultdict(list)
    for key, value in tables.items(keys.ACTIVE):
        _check_row(tables, found, keys.u32.unpack(value)[0], QueueState.READY, keys.u64.unpack(key)[0])
    for key, value in tables.items(keys.PARKED):
        group_id, position = keys.parked.unpack(key)
        queue_id = keys.u32.unpack(value)[0]
        _check_row(tables, found, queue_id, QueueState.SNOOZED, None)
        if (waiting := tables.queues.get(queue_id)) and (waiting.group, waiting.parked) != (group_id, position):
            tables.report(f"queue {waiting.queue}: waits for group {group_id} at {position}, its record differs")
    for key, _ in tables.items(keys.SNOOZED):
        wake_time, queue_id = keys.timed.unpack(key)
        _check_row(tables, found, queue_id, QueueState.SNOOZED, None)
        if queue_id in tables.queues and tables.queues[queue_id].wake_time != wake_time:
            tables.report(f"queue {tables.queues[queue_id].queue}: snoozed under another wake time")
    for key, value in tables.items(keys.INACTIVE):
        precedence, position = keys.fifo.unpack(key)
        queue_id = keys.u32.unpack(value)[0]
        _check_row(tables, found, queue_id, QueueState.INACTIVE, position)
        if queue_id in tables.queues and tables.queues[queue_id].precedence != precedence:
            tables.report(f"queue {tables.queues[queue_id].queue}: waits in the FIFO of precedence {precedence}")
    for state, table in (QueueState.RETIRED, keys.RETIRED), (QueueState.INELIGIBLE, keys.INELIGIBLE):
        for key, value in tables.items(table):
            _check_row(tables, found, keys.u32.unpack(value)[0], state, keys.u64.unpack(key)[0])
    nowhere = (QueueState.IN_PROCESS, QueueState.EXHAUSTED)
    for queue in tables.queues.values():
        expected = [] if queue.state in nowhere else [queue.state]
        if found.get(queue.id, []) != expected:
            tables.report(f"queue {queue.queue}: {queue.state}, but found in {found.get(queue.id, [])}")
        if not queue_states.is_possible(queue):
            tables.report(
                f"queue {queue.queue}: {queue.state} with {queue.queued} URI{'' if queue.queued == 1 else 's'}"
            )
        if queue.state is QueueState.IN_PROCESS and not queue.out:
            tables.report(f"queue {queue.queue}: IN_PROCESS with no lease out")
        if queue.row != (queue.position if queue.state is QueueState.READY else 0):
            tables.report(f"queue {queue.queue}: {queue.state} at {queue.position}, its record says row {queue.row}")
        first, last = given_out.get(queue.state, (queue.position, queue.position))
        if not first <= queue.position <= last:
            tables.report(f"queue {queue.queue}: {queue.state} at {queue.position}, a position never given out")
        _check_floor(tables, queue)


def _check_row(
    tables: CheckedTables, found: dict[int, list[QueueState]], queue_id: int, state: QueueState, at: int | None
) -> None:
    queue = tables.queues.get(queue_id)
    if queue is None:
        tables.report(f"{state}: queue {queue_id} does not exist")
        return
    found[queue_id].append(state)
    if at is not None and queue.position != at:
        tables.report(f"queue {queue.queue}: its record says position {queue.position}, the index says {at}")


def _check_floor(tables: CheckedTables, queue: QueueRecord) -> None:
    """Report a queue that waits on the wrong side of the precedence floor, if no change is rolled out."""
    if tables.settings is None or tables.counters.regrade_upto:
        return
    floor = tables.settings.frontier.precedence_floor
    waits = queue_states.while_waiting(queue.precedence, floor)
    if queue.state in (QueueState.INACTIVE, QueueState.INELIGIBLE) and queue.state is not waits:
        tables.report(f"queue {queue.queue}: {queue.state} at precedence {queue.precedence}, the floor is {floor}")


def _check_groups(tables: CheckedTables) -> None:
    """Compare the groups with their queues: a group with queues that wait has to have something that ends that."""
    members: dict[int, list[QueueRecord]] = defaultdict(list)
    for queue in tables.queues.values():
        if queue.group:
            members[queue.group].append(queue)
        if queue.parked and (queue.state is not QueueState.SNOOZED or not queue.group):
            tables.report(f"queue {queue.queue}: {queue.state}, and said to wait for its group")
    known: set[int] = set()
    rows = {keys.timed.unpack(key)[1]: keys.timed.unpack(key)[0] for key, _ in tables.items(keys.GROUP_WAKES)}
    for key, value in tables.items(keys.GROUPS):
        group = decode_group(value)
        tables.check_times(group, f"group {group.name}")
        known.add(group.id)
        if keys.u32.pack(group.id) != key or group.id > tables.counters.group_id:
            tables.report(f"group {group.name}: its id {group.id} is not its key, or was never given out")
        if tables.get(keys.GROUP_IDS, group.name.encode()) != key:
            tables.report(f"group {group.name}: group_ids does not lead to it")
        if group.row != rows.pop(group.id, None):
            tables.report(f"group {group.name}: its record says that it wakes at {group.row}, the index differs")
        found = without_queues(group)
        for queue in members[group.id]:
            add(found, queue)
            found.parked += queue.parked > 0
        if group != found:
            tables.report(f"group {group.name}: its record says {group}, its queues say {found}")
        ready = any(queue.state is QueueState.READY for queue in members[group.id])
        if group.parked and group.row is None and not group.out and not ready:
            tables.report(f"group {group.name}: {group.parked} queues wait for it, and nothing ends that")
        if any(queue.parked > group.parked_back for queue in members[group.id]):
            tables.report(f"group {group.name}: a queue waits at a position never given out")
        if not group.queues:
            tables.report(f"group {group.name}: it has no queues")
    for group_id in members.keys() - known:
        tables.report(f"group {group_id} has queues, and no record")
    for group_id in rows:
        tables.report(f"group_wakes: group {group_id} does not wake, or does not exist")
    if sum(1 for _ in tables.items(keys.GROUP_IDS)) != len(known):
        tables.report("group_ids and groups differ in number")
    if tables.counters.groups != len(known):
        tables.report(f"totals: {tables.counters.groups} groups, {len(known)} in the table")


def _check_totals(tables: CheckedTables) -> None:
    c, all_queues = tables.counters, tables.queues.values()
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
            tables.report(f"totals: {name} is {getattr(c, name)}, the queues say {value}")
    tables.check_times(c, "totals")
    parts = [c.failed_expenditure, c.retried_expenditure, c.given_up_expenditure, c.other_expenditure]
    if min(parts) < 0 or sum(parts) > c.expenditure:
        tables.report(f"totals: expenditure is {c.expenditure}, its parts without that of successes are {parts}")
    if c.found > c.scheduled:
        tables.report(f"totals: scheduled is {c.scheduled}, but {c.found} of them were found")
    if c.prerequisites_succeeded + sum(c.error_answers.values()) > c.succeeded:
        tables.report(f"totals: succeeded is {c.succeeded}, its parts are more")
    if c.prerequisites_succeeded + c.prerequisites_disregarded > c.prerequisites:
        tables.report(f"totals: prerequisites is {c.prerequisites}, its parts are more")
    empty = crawl_states.is_empty(queued=c.queued, leases=c.leases, future=c.future, future_retired=c.future_retired)
    at_work = c.rolls_out or meta.read_begun(tables.txn, tables.db[keys.META])
    if c.state is CrawlState.FINISHED and not empty:
        tables.report("the crawl is FINISHED, but not empty")
    if c.state is CrawlState.RUNNING and empty and not at_work:
        tables.report("the crawl is RUNNING, but empty")
