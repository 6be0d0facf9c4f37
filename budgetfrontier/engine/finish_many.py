"""Finishes by the batch: common ends of leases in one loop, all others one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any, cast

from budgetfrontier.core.model import CrawlState, CrawlUri, Directive, Finish, Lease, Outcome
from budgetfrontier.engine import arguments, batches
from budgetfrontier.engine.finish import Finisher
from budgetfrontier.engine.guard import Guard
from budgetfrontier.errors import PolicyError, WrongType
from budgetfrontier.rules import queue_states
from budgetfrontier.rules.queue_states import IN_PROCESS, INELIGIBLE, READY, RETIRED
from budgetfrontier.rules.seeds import SeedFate
from budgetfrontier.rules.uri_order import NORMAL
from budgetfrontier.rules.uri_outcomes import ERROR
from budgetfrontier.settings.overrides import QueueSettings
from budgetfrontier.storage.keys import DIRECTIVE, pending

BATCH = 1000
"""Leases ended, and URIs found on them, in one operation; its URIs carry `batches.PART` bytes at the most. A single
finish may have more."""

_TAKES = "finish_many takes leases, or Finish(lease, ...) for each"
_RUNNING, _SUCCESS = CrawlState.RUNNING, Outcome.SUCCESS
_BARE, _TIMED, _OTHER = range(3)
_HIGHEST = int(Directive.HIGHEST)
_EMPTY = b""  # there is only one
_SEQUENCES = (list, tuple)
_ONLY_TEXT = {str}


class BatchFinisher:
    """Ends leases by the batch, as `Finisher.finish` does one by one. O(1) each."""

    def __init__(self, guard: Guard, finisher: Finisher) -> None:
        self._guard = guard
        self._kernel = guard.kernel
        self._tables = guard.tables
        self._counters = guard.tables.counters
        self._out = guard.tables.leases.out
        self._finisher = finisher

    def finish(self, finished: Iterable[Lease | Finish]) -> list[Lease]:
        """End leases in order; return those that had already ended. Arguments are checked before anything changes."""
        guard = self._guard
        guard.enter()
        if isinstance(finished, str | bytes | Lease | Finish):
            raise WrongType(f"{_TAKES}; one alone goes into a list")
        given = guard.materialize(finished, "leases, or Finish(lease, ...) for each")
        bare = set(map(type, given)) == {Lease}  # then nothing is asked of each
        if not bare:
            given = [self._plain(item) for item in given]
        leases = given if bare else [item.lease if item.__class__ is Finish else item for item in given]
        if not set(map(type, [lease.id for lease in cast("list[Lease]", leases)])) <= {int}:
            raise WrongType(f"{_TAKES}, with the ids that they were given")
        if not bare:
            for item in given:
                if item.__class__ is Finish:
                    self._read_links(item)
        late: list[Lease] = []
        for part, changes in _bare_parts(given) if bare else _parts(given):
            failed = guard.operate(partial(self._end, part, bare, late), changes=changes)
            if failed is not None:
                raise failed
        return late

    def _plain(self, item: object) -> Lease | Finish:
        """Return an item with arguments that can be used as they are, except for links."""
        if isinstance(item, Lease):
            return item
        if not isinstance(item, Finish):
            raise WrongType(f"{_TAKES}, not {type(item).__name__}")
        if not isinstance(item.lease, Lease):
            raise WrongType(f"{_TAKES}: {item.lease!r:.60} in a Finish is no lease")
        return self._without_links(item)

    def checked(self, item: Finish) -> Finish:
        """Return an ending with arguments that can be used as they are; the lease is not checked."""
        found = self._without_links(item)
        self._read_links(found)
        return found

    def _read_links(self, item: Finish) -> None:
        """Make the links of an ending a sequence. An iterator can be read once: nothing else may be wrong any more."""
        found = item.discovered
        if found.__class__ not in _SEQUENCES:
            item.discovered = self._guard.materialize(found)

    def _without_links(self, item: Finish) -> Finish:
        """Return an ending with arguments that can be used as they are, and links as they were given."""
        outcome, found = item.outcome, item.discovered
        fetch_seconds, crawl_delay, delay = item.fetch_seconds, item.crawl_delay, item.delay
        if fetch_seconds is not None or crawl_delay is not None or delay is not None:
            fetch_seconds, crawl_delay, delay = arguments.waits(fetch_seconds, crawl_delay, delay)
        elif (
            item.__class__ is Finish
            and found.__class__ in _SEQUENCES
            and outcome.__class__ is Outcome
            and item.reason.__class__ is str
            and item.retire_queue.__class__ is bool  # type: ignore[redundant-expr]  # callers may give anything
            and item.size == 0
            and item.status.__class__ is int
            and (item.status == 0 or arguments.status(item.status))
            and item.novel is None
            and item.address == ""
            and item.digest.__class__ is bytes
        ):
            return item  # nothing in it has to be changed, as for most pages with links
        return Finish(
            item.lease,
            outcome if outcome.__class__ is Outcome else arguments.outcome(outcome),
            fetch_seconds=fetch_seconds,
            crawl_delay=crawl_delay,
            discovered=found,
            reason=arguments.reason(item.reason),
            delay=delay,
            retire_queue=arguments.flag(item.retire_queue, "retire_queue"),
            size=arguments.size(item.size) if item.size != 0 else 0,
            status=arguments.status(item.status) if item.status != 0 else 0,
            novel=arguments.novel(item.novel),
            address=arguments.address(item.address),
            digest=arguments.data(item.digest, "digest"),
        )

    def _end(self, part: list[Lease | Finish], bare: bool, late: list[Lease]) -> PolicyError | None:
        """End the leases of one operation. Return the error of a policy, not raised: those before it have ended."""
        try:
            self._end_in_order(part, bare, late)
        except PolicyError as e:
            return e
        return None

    def _end_in_order(self, part: list[Lease | Finish], bare: bool, late: list[Lease]) -> None:
        now = self._guard.now()
        self._kernel.lease_expiry.expire(now)
        if self._tables.leases.next_expiry <= now:  # more have expired than one call ends
            part = self._in_time(part, late, now)
        if self._guard.hooks.on_finish:  # hooks are called in the order of events
            self._end_each([Finish(item) if isinstance(item, Lease) else item for item in part], late, now)
            return
        if bare:
            self.end_successes(part, late, now)
            return
        for kind, group in groupby(part, _kind):
            if kind == _OTHER:
                self._end_each(cast("list[Finish]", list(group)), late, now)
            else:
                self.end_successes(list(group), late, now)

    def _in_time(self, part: list[Lease | Finish], late: list[Lease], now: float) -> list[Lease | Finish]:
        """Return the items before their deadlines; add the leases of the others to `late`."""
        in_time = self._tables.leases.in_time
        kept: list[Lease | Finish] = []
        for item in part:
            lease = item.lease if isinstance(item, Finish) else item
            if in_time(lease.id, now) is None:
                late.append(lease)
            else:
                kept.append(item)
        return kept

    def _end_each(self, finishes: list[Finish], late: list[Lease], now: float) -> None:
        """End leases in any way, with a call for each. Raises PolicyError."""
        counters, hooks, still_out, finish = self._counters, self._guard.hooks, self._out.get, self._finisher.finish
        for item in finishes:
            lease = still_out(item.lease.id)
            if lease is None:
                late.append(item.lease)
                continue
            finish(lease, item if _kind(item) else None, now)  # one that says nothing is a bare lease
            if not counters.queued or counters.state is not _RUNNING:
                self._guard.settle()
            if hooks.on_finish:
                hooks.finished(lease, item.outcome)

    def end_successes(self, items: list[Lease | Finish], late: list[Lease], now: float) -> None:
        """End leases as successes, with no details that change where they go. Raises PolicyError."""
        plain, place = self._kernel.turns.plain, 0
        if plain is None or not self._tables.ends_plainly:
            self._end_successes(items, late, now)
            return
        while (place := plain.end(items, place, late, now)) < len(items):
            self._end_successes(items[place : place + 1], late, now)
            place += 1

    def end(self, lease: Lease, ending: Finish | None, now: float) -> None:
        """End one lease that is out. Raises PolicyError."""
        plain, kind = self._kernel.turns.plain, _BARE if ending is None else _kind(ending)
        if kind == _BARE:
            ending = None  # one that says nothing is a bare lease
        may_be_plain = self._tables.ends_plainly and kind != _OTHER
        if plain is not None and may_be_plain and plain.end([lease if ending is None else ending], 0, [], now):
            return
        self._finisher.finish(lease, ending, now)

    def _end_successes(self, given: list[Lease | Finish], late: list[Lease], now: float) -> None:
        """End such leases. Raises PolicyError.

        This is `Finisher.finish` without a call for each lease, and with the totals changed once: a lease and its end
        take 30 % fewer instructions. Each copy names its rule; tests/engine/test_written_out.py compares them.
        """
        timed = [item if isinstance(item, Finish) and _kind(item) == _TIMED else None for item in given]
        leases = [item.lease if isinstance(item, Finish) else item for item in given]
        tables, counters, in_force = self._tables, self._tables.counters, self._tables.in_force
        queues, rotation, move = tables.queues, tables.rotation, self._kernel.turns.move
        out_now, cached, read, join = tables.leases.out, queues.cache.get, queues.get, rotation.ring.append
        pop, dirty, ended = out_now.pop, queues.dirty.add, list[bytes]()
        same_rest = None if any(timed) else in_force.same_rest
        asked, rest, settings = same_rest is None, same_rest or 0.0, in_force.base
        wake, revision = now + rest, counters.settings_revision
        snooze, latest = rotation.snooze, now + tables.longest_delay
        unlimited = in_force.trivial and settings.queue_total_budget < 0 and not counters.own_budgets
        observe, ranks = self._finisher.observe if tables.observed else None, in_force.ranks_queues
        ring_back, best_waiting = counters.ring_back, rotation.best_waiting
        items = iter(timed)
        charged, cost_before, remember = tables.busiest.charged, -1, tables.history.ended
        written = uncounted = spent = others = size = received = 0
        item: Finish | None = None
        try:
            for lease in leases:
                if asked:
                    item = next(items)
                    size = 0 if item is None else item.size
                    if lease.id in out_now:
                        rest, settings = self._ask(out_now[lease.id], item)
                        wake = now + rest
                mine = pop(lease.id, None)
                if mine is None:
                    late.append(lease)
                    continue
                cost, queue_id = mine.cost, mine.queue_id
                queue = cached(queue_id) or read(queue_id)
                dirty(queue_id)
                if queue.revision != revision:
                    self._remove(ended[written:], now)  # the settings of a queue are those of its head
                    written = len(ended)
                    self._kernel.turns.settings.refresh(queue)
                    best_waiting = rotation.best_waiting
                ended.append(mine.key)
                if mine.landed:
                    queue.landed -= 1
                elif rest > 0.0:  # copies `Finisher._rest`
                    if wake > queue.wake_time:
                        rotation.set_wake(queue, wake)
                    elif queue.rest < wake <= max(queue.block, queue.paced_until, queue.closed_until):
                        queue.rest = wake
                out = queue.out = queue.out - 1
                queue.reserved -= cost
                left = queue.queued = queue.queued - 1  # copies `PendingTable.remove`
                balance = queue.balance = queue.balance - cost  # copies `charges.charge`
                queue.expenditure += cost
                queue.charges += 1
                queue.last_cost = cost
                if cost != cost_before:
                    cost_before, charge = cost, charged[cost].append
                charge(queue_id)
                spent += cost
                if size:
                    queue.bytes += size
                    received += size
                if item is not None:
                    remember(mine, item)
                if observe is not None:
                    if ranks:  # by its head
                        self._remove(ended[written:], now)
                        written = len(ended)
                    counters.ring_back = ring_back
                    observe(queue, mine, item, settings, 0.0 if mine.landed else rest, now)
                    ring_back, best_waiting = counters.ring_back, rotation.best_waiting
                state = queue.state
                if (  # copies `queue_states.after_finish`
                    state is IN_PROCESS
                    and left
                    and balance > 0
                    and not out
                    and unlimited
                    and queue.precedence <= best_waiting
                ):
                    if queue.wake_time <= now:
                        ring_back += 1  # copies `Rotation.move`
                        queue.position = ring_back
                        queue.state = READY
                        join(queue_id)
                    else:
                        others += 1
                        snooze(queue, latest)
                else:
                    others += 1
                    uncounted += state is RETIRED or state is INELIGIBLE  # copies `queued_totals.is_queued`
                    after = queue_states.after_finish(queue, settings, now, best_waiting)
                    if after is not state:
                        counters.ring_back = ring_back
                        move(queue, after, now)
                        ring_back, best_waiting = counters.ring_back, rotation.best_waiting
        finally:
            self._remove(ended[written:], now)
            counters.ring_back = ring_back
            counters.succeeded += len(ended)
            counters.queued -= len(ended) - uncounted
            counters.expenditure += spent
            counters.bytes += received
            counters.in_process -= len(ended) - others

    def _remove(self, ended: list[bytes], now: float) -> None:
        """Take the records of successes from their queues; seeds are noted first, for a look at a head deletes them."""
        counters, directives = self._counters, [key[DIRECTIVE] for key in ended]
        if directives.count(NORMAL) != len(directives):
            prerequisites = directives.count(_HIGHEST)
            counters.prerequisites += prerequisites
            counters.prerequisites_succeeded += prerequisites
            if counters.seeds:
                self._note_seeds(ended, now)
        self._tables.pending.removed += ended

    def _note_seeds(self, ended: Iterable[bytes], now: float) -> None:
        tables = self._tables
        for key in ended:
            if key[DIRECTIVE] != NORMAL:
                name = tables.queues.get(pending.unpack(key)[0]).queue
                tables.seeds.moved(key[DIRECTIVE], tables.pending.value(key), name, SeedFate.SUCCEEDED, now)

    def _ask(self, lease: Lease, timed: Finish | None) -> tuple[float, QueueSettings]:
        """Return for how long the queue of a lease rests, and the settings in force. Raises PolicyError."""
        in_force = self._tables.in_force
        settings = in_force.for_uri(lease.uri.url, lease.queue, lease.uri.source)
        if lease.landed:
            return 0.0, settings
        if timed is None:
            return in_force.rest(lease.uri, settings, None, None), settings
        return in_force.rest(lease.uri, settings, timed.fetch_seconds, timed.crawl_delay), settings


def _bare_parts(given: list[Lease | Finish]) -> Iterator[tuple[list[Lease | Finish], int]]:
    for start in range(0, len(given), BATCH):
        part = given[start : start + BATCH]
        yield part, len(part)


def _parts(given: list[Lease | Finish]) -> Iterator[tuple[list[Lease | Finish], int]]:
    """Yield the items to end in one operation each, with the number of its changes: all of them fit into the map."""
    part: list[Lease | Finish] = []
    changes = size = 0
    for item in given:
        more, carried = 1, 0
        if item.__class__ is Finish and (item.discovered or item.outcome is not _SUCCESS):
            found: Sequence[object] = item.discovered  # type: ignore[assignment]  # it was checked
            if item.outcome is _SUCCESS and set(map(type, found)) == _ONLY_TEXT:
                more += len(found)
            else:
                more, carried = _written(item)
        if part and (changes + more > BATCH or size + carried > batches.PART):
            yield part, changes
            part, changes, size = [], 0, 0
        part.append(item)
        changes += more
        size += carried
    if part:
        yield part, changes


def _written(finish: Finish) -> tuple[int, int]:
    """Return the number of changes of a finish, and the bytes of its URIs, rewritten ones included."""
    found: list[object] = finish.discovered  # type: ignore[assignment]  # it was checked
    written = found if finish.outcome is _SUCCESS else [finish.lease.uri, *found]
    carrying = [
        uri for uri in written if isinstance(uri, CrawlUri) and (uri.payload is not None or uri.body is not _EMPTY)
    ]
    return 1 + len(found), sum(map(batches.bytes_carried, carrying)) if carrying else 0


def _kind(item: Any) -> int:
    if isinstance(item, Lease):
        return _BARE
    if item.outcome is not _SUCCESS or item.discovered or item.reason or item.retire_queue:
        return _OTHER
    if item.status >= ERROR or item.delay is not None:  # it is counted, or the host rests
        return _OTHER
    said = item.status or item.size or item.address or item.digest or item.novel is not None
    return _TIMED if said or item.fetch_seconds is not None or item.crawl_delay is not None else _BARE
