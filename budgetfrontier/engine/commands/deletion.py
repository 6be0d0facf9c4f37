"""The deletion of URIs, in steps, so that no other call has to wait, and its preview.

It makes one pass over the URIs scheduled for later, then one over the pending URIs of the queues that match. During the
first pass, no URI leaves that table, so that none moves past it. URIs that arrive after the command stay. Nothing is
charged; `rules.queue_states.after_deletion` decides where an emptied queue goes. Each step first copies its records to
the table `removed`, from which `undo` puts them back.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from budgetfrontier.core.bounded_cache import BoundedCache
from budgetfrontier.core.model import Directive, QueueRecord
from budgetfrontier.core.patterns import Pattern
from budgetfrontier.engine.admission.admit import Admitter
from budgetfrontier.engine.commands.selection import (
    check_match,
    check_pattern,
    hands_out,
    states_of,
    test_of_queue,
)
from budgetfrontier.engine.kernel import Kernel
from budgetfrontier.errors import FrontierError
from budgetfrontier.rules.queue_states import RETIRED
from budgetfrontier.rules.seeds import SeedFate
from budgetfrontier.rules.uri_order import MAX_ORDINAL, NORMAL, ordinal_of
from budgetfrontier.settings.matching import may_select_several, parse_match, selects, spellings
from budgetfrontier.storage import keys
from budgetfrontier.storage.kept_places import place_in_future
from budgetfrontier.storage.records import Progress, decode_future
from budgetfrontier.storage.removed import Look
from budgetfrontier.storage.uri_values import PLAIN, subject_of
from budgetfrontier.storage.view import View

LATER, PENDING = range(2)
"""The position of a deletion: `Progress.at` is one of these, a key, and the last queue that lost a pending URI."""

_SLOW = 100  # the number of URIs looked at in the time of one that a pattern gave up on
_LARGE = 1 << 14  # bytes of a URI that counts as two: a step deletes 8 MiB at the most
_BEHIND = b"\xff" * (keys.pending.size - keys.u32.size)  # with a queue's id in front: a key behind all its URIs

LookUp = Callable[[int], QueueRecord]
Taken = tuple[bytes, int | None]
"""The key of the record examined, and the id of its queue if it is to be deleted."""


class Chosen:
    """The choice of a command: queues by a glob on their keys and by states, URIs by a pattern and an expression."""

    def __init__(self, view: View, args: dict[str, Any]) -> None:
        self._glob: str | None = args.get("queue")
        self._states = states_of(args)
        match = None if args.get("match") is None else parse_match(args["match"])
        self._of_queue = None if match is None else test_of_queue(view, match)
        texts = [args.get("pattern"), match.text.removeprefix("regex:") if match and match.kind == "regex" else None]
        self._patterns = [Pattern(text) for text in texts if text]
        self._match = None if self._of_queue or (match and match.kind == "regex") else match
        self.bytes = 0
        """Of the records of URIs that were looked at."""
        self.only: tuple[str, ...] | None = None
        """The keys of the queues, if they are named in full."""
        if self._glob is not None and not may_select_several(self._glob):
            self.only = (self._glob,)
        elif match is not None and match.keys:
            self.only = spellings(match.keys)

    @property
    def given_up(self) -> int:
        """The number of URIs for which an expression took too long: they stay."""
        return sum(pattern.given_up for pattern in self._patterns)

    def queue(self, queue: QueueRecord) -> bool:
        """Return whether a queue matches."""
        if queue.state not in self._states or not (self._of_queue is None or self._of_queue(queue)):
            return False
        return self._glob is None or selects(self._glob, queue.queue)

    def uris(self, name: str) -> Callable[[bytes], bool]:
        """Return the test of whether the URI of a record of such a queue matches."""
        match, patterns = self._match, self._patterns

        def matches(value: bytes) -> bool:
            url, label = subject_of(value, name)
            if match is not None and not match.matches(url, name, label):
                return False
            return all(pattern.search(url) for pattern in patterns)

        if match is None and not patterns:
            return lambda value: True
        if match is None or patterns or not match.by_authority:
            return matches
        of_plain = {mark: match.matches(f"{scheme}{name}/", name) for mark, scheme in PLAIN.items()}
        return lambda value: found if (found := of_plain.get(value[:1])) is not None else matches(value)


def _later(view: View, chosen: Chosen, look: LookUp, at: bytes, upto: int) -> Iterator[Taken]:
    for key, value in view.items(keys.FUTURE, at):
        row = decode_future(value)
        queue = look(row.queue)
        chosen.bytes += len(row.value)
        takes = keys.due.unpack(key)[1] <= upto and chosen.queue(queue) and chosen.uris(queue.queue)(row.value)
        yield key, row.queue if takes else None


def _pending(
    view: View,
    chosen: Chosen,
    look: LookUp,
    at: bytes,
    upto: int,
    out: Container[bytes],
    only: Sequence[int] | None,
) -> Iterator[Taken]:
    """Yield the pending URIs that are not out, from a key on; a queue that does not match is skipped in one step.

    `only`: those of these queues, in order.
    """
    cursor = view.txn.cursor(view.db[keys.PENDING])
    more = cursor.set_range(at or keys.FIRST)
    prefix, queue_id, matches = b"", 0, chosen.uris("")
    while more:
        key, value = cursor.item()
        if key[:4] != prefix:
            prefix = key[:4]
            queue_id = keys.u32.unpack(prefix)[0]
            if only is not None:
                following = only[bisect_left(only, queue_id) :]
                if not following:
                    return
                if following[0] != queue_id:
                    more, prefix = cursor.set_range(keys.u32.pack(following[0])), b""
                    continue
            queue = look(queue_id)
            matches = chosen.uris(queue.queue)
            if not chosen.queue(queue):
                yield prefix + _BEHIND, None
                more, prefix = cursor.set_range(prefix + _BEHIND), b""
                continue
        chosen.bytes += len(value)
        takes = matches(value) and key not in out and ordinal_of(keys.pending.unpack(key)[4]) <= upto
        yield key, queue_id if takes else None
        more = cursor.next()


def _part(found: Iterator[Taken], chosen: Chosen, limit: int) -> tuple[list[Taken], bool]:
    """Return as many of them as one step may process, and whether there may be more."""
    part: list[Taken] = []
    for one in found:
        part.append(one)
        if len(part) + _SLOW * chosen.given_up + chosen.bytes // _LARGE >= limit:
            return part, True
    return part, False


def check(args: dict[str, Any]) -> None:
    """Raise for a deletion that could not be applied, or that names nothing: it would take everything."""
    if all(args.get(name) is None for name in ("queue", "match", "states")) and not args.get("pattern"):
        raise FrontierError("delete what? Give a queue, a pattern, or both; the queue '*' is every queue")
    check_pattern(args.get("pattern") or "")
    if args.get("match") is not None:
        check_match(args)
    states_of(args)


def start(args: dict[str, Any]) -> Progress:
    """Return the progress of a deletion that begins."""
    return Progress([LATER, b"", 0], {"deleted": 0, "queues": 0, "cost": 0})


def step(
    kernel: Kernel, admitter: Admitter, args: dict[str, Any], progress: Progress, upto: int, limit: int, now: float
) -> bool:
    """Delete the next URIs; return whether these were the last. O(limit)."""
    kernel.tables.pending.settle()
    view = kernel.tables.env.view()
    chosen, look, only, more = Chosen(view, args), kernel.tables.queues.look, None, False
    if chosen.only is not None:
        named = [queue for queue in map(kernel.tables.queues.look_up, chosen.only) if queue is not None]
        only = sorted({queue.id for queue in named})
        if not only:
            return True
        if not any(queue.future for queue in named):
            _go_on_to_pending(progress)
    later: list[Taken] = []
    pending: list[Taken] = []
    at = progress.at[1]
    if progress.at[0] == LATER:
        later, more = _part(_later(view, chosen, look, at, upto), chosen, limit)
        at = b""
    if not more:
        found = _pending(view, chosen, look, at, upto, kernel.tables.pending.taken, only)
        pending, more = _part(found, chosen, limit - len(later))
    if not args.get("for_good"):
        _keep(kernel, later, pending, progress)
    _delete_later(kernel, later, progress, now)
    _delete_pending(kernel, pending, progress, now)
    if more and not pending:
        progress.at[1] = later[-1][0] + b"\0"
    else:
        _go_on_to_pending(progress)
        progress.at[1] = pending[-1][0] + b"\0" if more else b""
    if chosen.given_up:
        progress.effect["undecided"] = progress.effect.get("undecided", 0) + chosen.given_up
    return not more


def _go_on_to_pending(progress: Progress) -> None:
    if progress.at[0] == LATER:
        progress.at[:2] = PENDING, b""


def _keep(kernel: Kernel, later: Iterable[Taken], pending: Iterable[Taken], progress: Progress) -> None:
    """Keep the records that a step is about to delete; behind them, the rows of their URLs."""
    look, keep = kernel.tables.queues.look, kernel.tables.removed.keep
    for table, part in (keys.FUTURE, later), (keys.PENDING, pending):
        taken = {key: queue_id for key, queue_id in part if queue_id is not None}
        looks = {
            queue_id: look_after(look(queue_id), count if table == keys.PENDING else None)
            for queue_id, count in Counter(taken.values()).items()
        }
        keep(progress.effect, table, {key: looks[queue_id] for key, queue_id in taken.items()})
    keep(progress.effect, keys.URLS, _rows(kernel, later, pending))


def _rows(kernel: Kernel, later: Iterable[Taken], pending: Iterable[Taken]) -> dict[bytes, Look | None]:
    """Return the fingerprints of the URL rows that a step deletes with their records."""
    tables = kernel.tables
    if tables.urls is None:
        return {}
    places = [(place_in_future(id, key), tables.future.value(key)) for key, id in later if id is not None]
    places += [(key, tables.pending.value(key)) for key, queue_id in pending if queue_id is not None]
    look = tables.queues.look
    rows = tables.urls.waiting_at(places).items()
    return {fingerprint: look_after(look(row.queue), None) for fingerprint, row in rows}


def look_after(queue: QueueRecord, deleted: int | None) -> Look:
    """Return how a queue will look after so many of its pending URIs are deleted; None: only some for later."""
    look = Look(queue.id, queue.queue, bool(queue.by_name))
    if deleted is not None:
        empty = queue.queued == deleted
        look.retired = queue.state is RETIRED and not empty
        look.emptied = queue.enqueued if empty else None
    return look


def _delete_later(kernel: Kernel, part: Iterable[Taken], progress: Progress, now: float) -> None:
    urls, future, seeds = kernel.tables.urls, kernel.tables.future, kernel.tables.seeds
    for key, queue_id in part:
        if queue_id is not None:
            queue = kernel.tables.queues.get(queue_id)
            directive = future.rank(key)[0]
            seeds.moved(directive, future.value(key), queue.queue, SeedFate.DELETED, now)
            kernel.counters.deleted += directive != Directive.HIGHEST
            if urls is not None:
                urls.drop(place_in_future(queue_id, key))
            future.remove(queue, key)
            progress.effect["deleted"] += 1
            progress.effect["later"] = progress.effect.get("later", 0) + 1


def _delete_pending(kernel: Kernel, part: Iterable[Taken], progress: Progress, now: float) -> None:
    urls, pending, seeds = kernel.tables.urls, kernel.tables.pending, kernel.tables.seeds
    for queue_id, group in groupby(part, lambda taken: taken[1]):
        if queue_id is None:
            continue
        queue = kernel.tables.queues.get(queue_id)
        kernel.turns.settings.refresh(queue)  # from the head of now, which may be deleted
        for key, _ in group:
            if urls is not None:
                urls.drop(key)
            kernel.counters.deleted += key[keys.DIRECTIVE] != Directive.HIGHEST
            if key[keys.DIRECTIVE] != NORMAL:
                seeds.moved(key[keys.DIRECTIVE], pending.value(key), queue.queue, SeedFate.DELETED, now)
            pending.delete(queue, key)
            progress.effect["deleted"] += 1
            progress.effect["cost"] += keys.cost_of(key)
        kernel.turns.deleted(queue)
        if queue_id != progress.at[2]:
            progress.at[2] = queue_id
            progress.effect["queues"] += 1


def dry_run(kernel: Kernel, args: dict[str, Any], now: float) -> dict[str, Any]:
    """Return the effect of a deletion now, without deleting; an actual deletion takes steps."""
    return preview(kernel.tables.flushed(), args)


def preview(view: View, args: dict[str, Any]) -> dict[str, Any]:
    """Return the effect of a deletion as of the view; `cost` is the charge that the URIs would have had. O(URIs)."""
    if args.get("queue") is not None:
        args = {**args, "queue": view.named(args["queue"])}
    chosen = Chosen(view, args)
    queues: BoundedCache[int, QueueRecord] = BoundedCache(10_000)

    def look(queue_id: int) -> QueueRecord:
        if queue_id not in queues:
            queues.put(queue_id, view.queue_by_id(queue_id))
        return queues[queue_id]

    only, last = None, 0
    effect = {"deleted": 0, "queues": 0, "later": 0, "cost": 0, "held_back": 0}
    if chosen.only is not None:
        only = sorted({queue.id for queue in map(view.find_queue, chosen.only) if queue is not None})
        if not only:
            return effect
    out = frozenset(view.leased_keys())
    for _, queue_id in _later(view, chosen, look, b"", MAX_ORDINAL):
        effect["later"] += queue_id is not None
    effect["deleted"] = effect["later"]
    for key, queue_id in _pending(view, chosen, look, b"", MAX_ORDINAL, out, only):
        if queue_id is not None:
            effect["deleted"] += 1
            effect["cost"] += keys.cost_of(key)
            effect["held_back"] += hands_out(look(queue_id))
            effect["queues"] += queue_id != last
            last = queue_id
    effect["held_back"] += sum(hands_out(look(keys.u32.unpack(key[:4])[0])) for key in out)  # they are finished first
    effect["held_later"] = effect["later"]
    if chosen.given_up:
        effect["undecided"] = chosen.given_up
    return effect
