"""Finishes by the batch: the kernel, if it is there, ends leases in the common ways, all others end one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, cast

from budgetfrontier.core.model import Finish, Lease, Outcome
from budgetfrontier.engine import arguments, batches
from budgetfrontier.engine.finish import Finisher
from budgetfrontier.engine.guard import Guard
from budgetfrontier.errors import PolicyError, WrongType
from budgetfrontier.rules.uri_outcomes import ERROR

BATCH = 1000
"""Leases ended, and URIs found on them, in one operation; its URIs carry `batches.PART` bytes at the most. A single
finish may have more."""

_TAKES = "finish_many takes leases, or Finish(lease, ...) for each"
_SUCCESS = Outcome.SUCCESS
_BARE, _TIMED, _OTHER = range(3)
_SEQUENCES = (list, tuple)
_ONLY_TEXT = {str}


class BatchFinisher:
    """Ends leases by the batch, as `Finisher.finish` does one by one. O(1) each."""

    def __init__(self, guard: Guard, finisher: Finisher) -> None:
        self._guard = guard
        self._kernel = guard.kernel
        self._tables = guard.tables
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
            failed = guard.operate(partial(self._end, part, late), changes=changes)
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

    def _end(self, part: list[Lease | Finish], late: list[Lease]) -> PolicyError | None:
        """End the leases of one operation. Return the error of a policy, not raised: those before it have ended."""
        try:
            self._end_in_order(part, late)
        except PolicyError as e:
            return e
        return None

    def _end_in_order(self, part: list[Lease | Finish], late: list[Lease]) -> None:
        hooks, now = self._guard.hooks, self._guard.now()
        self._kernel.lease_expiry.expire(now)
        if self._tables.leases.next_expiry <= now:  # more have expired than one call ends
            part = self._in_time(part, late, now)
        plain = self._kernel.turns.plain if self._tables.ends_plainly and not hooks.on_finish else None
        out, finish, place = self._out.get, self._finisher.finish, 0
        while place < len(part):
            if plain is not None and _kind(part[place]) != _OTHER:
                place = plain.end(part, place, late, now)
                if place == len(part):
                    return
            item = part[place]
            place += 1
            given = item if isinstance(item, Lease) else item.lease
            ending = None if isinstance(item, Lease) or _kind(item) == _BARE else item
            lease = out(given.id)
            if lease is None:
                late.append(given)
                continue
            finish(lease, ending, now)
            if hooks.on_finish:  # they are called in the order of events
                hooks.finished(lease, _SUCCESS if ending is None else ending.outcome)

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

    def end(self, lease: Lease, ending: Finish | None, now: float) -> None:
        """End one lease that is out, as a success if no ending is given. Raises PolicyError."""
        plain, hooks, kind = self._kernel.turns.plain, self._guard.hooks, _BARE if ending is None else _kind(ending)
        if kind == _BARE:
            ending = None  # one that says nothing is a bare lease
        may_be_plain = self._tables.ends_plainly and kind != _OTHER
        if plain is None or not may_be_plain or not plain.end([lease if ending is None else ending], 0, [], now):
            self._finisher.finish(lease, ending, now)
        if hooks.on_finish:
            hooks.finished(lease, _SUCCESS if ending is None else ending.outcome)


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
    return 1 + len(found), sum(batches.bytes_carried(uri) for uri in written if batches.carries(uri))


def _kind(item: Any) -> int:
    if isinstance(item, Lease):
        return _BARE
    if item.outcome is not _SUCCESS or item.reason or item.retire_queue:
        return _OTHER
    if item.status >= ERROR or item.delay is not None:  # it is counted, or the host rests
        return _OTHER
    said = item.discovered or item.status or item.size or item.address or item.digest or item.novel is not None
    return _TIMED if said or item.fetch_seconds is not None or item.crawl_delay is not None else _BARE
