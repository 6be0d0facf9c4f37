"""The undoing of `delete`, `drop` and `forget`: what they have kept returns to its tables, in steps.

It makes one pass over the blocks to find queues that have changed since, and one that takes each block out and puts its
records back: under their old keys, with their tries and costs, past `seen` and limits, and known again if they were
forgotten since. In a frontier that keeps its URLs, a URL that waits already does not come back a second time. Nothing
is charged, and nothing counts as scheduled. `Progress.at` is the pass, the next block of the first one, and the last
queue: its look in the first pass, as a deletion may have left it in a later block, its id in the second. If it fails
halfway, the other blocks stay, so that another undo can continue it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from budgetfrontier.core.converters import converter
from budgetfrontier.core.effect_words import entry_in_words
from budgetfrontier.core.model import Directive, QueueRecord
from budgetfrontier.core.units import counted
from budgetfrontier.engine.admission.admit import Admitter
from budgetfrontier.engine.kernel import Kernel
from budgetfrontier.engine.url_table import Arrival
from budgetfrontier.errors import FrontierError
from budgetfrontier.rules.duplicates import objection_to_forgetting
from budgetfrontier.rules.queue_states import RETIRED
from budgetfrontier.rules.seeds import SeedFate
from budgetfrontier.rules.undoing import NOTHING, command_of
from budgetfrontier.storage import keys, removed
from budgetfrontier.storage.records import AuditEntry, Progress, decode_dead, decode_future, decode_url
from budgetfrontier.storage.removed import UNRECORDED, Block, Kept, Look, convert_kept, kept
from budgetfrontier.storage.uri_values import decode_uri
from budgetfrontier.storage.url_search import knows, waits_in
from budgetfrontier.storage.view import View

CHECKING, PLACING = range(2)

NAMED = 1000
"""The most queues that a dry run names; it counts them all."""
_DELETED = (keys.PENDING, keys.FUTURE, keys.DEAD)
_CHECKED = 20  # URIs that are checked in the time in which one is placed, or less
_look: Callable[[Any], Look] = converter(Look)


def kept_by(entry: AuditEntry, command: str) -> Kept:
    """Return the place of a command's deleted records. Raises FrontierError if it has kept none."""
    found = kept(entry.effect)
    if found is None and entry.command == "undo":
        again = "undo the bury" if command == "bury" else f"give the {command}"
        raise FrontierError(f"{entry.id} has put back what was deleted; to delete it again, {again} again")
    if found is None:
        done = next((entry.effect[name] for name in ("deleted", "dropped", "forgotten") if name in entry.effect), 0)
        if not done:
            raise FrontierError(f"{entry_in_words(entry.id, command)}, {NOTHING}")
        raise FrontierError(
            f"{entry_in_words(entry.id, command)}, cannot be undone: it was for good: nothing was kept of it"
        )
    return found


def start(entry: AuditEntry, found: Kept, *, force: bool) -> Progress:
    """Return the progress of an undo that begins, or that continues one which has failed halfway."""
    effect = {"command": command_of(entry.command, entry.effect), "returned": 0, "queues": 0}
    return Progress([PLACING if force else CHECKING, 0, None], effect | {"source": msgspec.to_builtins(found)})


def step(kernel: Kernel, admitter: Admitter, args: dict[str, Any], progress: Progress, limit: int, now: float) -> bool:
    """Check, or put back, the next records; return whether these were the last. O(limit)."""
    number, table = convert_kept(progress.effect["source"]).number, kernel.tables.removed
    if progress.at[0] == CHECKING:
        blocks, following = table.read(number, progress.at[1], limit * _CHECKED)
        for block in blocks:
            _check(kernel, int(args["id"]), block, progress)
        progress.at[1] = following
        if following is None:
            _refuse_changed(kernel, int(args["id"]), progress.at[2])
            progress.at = [PLACING, None, None]
        return False
    blocks, _ = table.read(number, 0, limit)
    _place(kernel, admitter, blocks, progress, now)
    done = table.remove(number, len(blocks))
    if done:
        del progress.effect["source"]
    return done


def _check(kernel: Kernel, number: int, block: Block, progress: Progress) -> None:
    """Raise FrontierError if a queue of a block has changed; the last one may be left otherwise by the next block."""
    for look in _left(block):
        before = progress.at[2]
        if before is not None and before[0] != look.id:
            _refuse_changed(kernel, number, before)
        progress.at[2] = msgspec.to_builtins(look)


def _left(block: Block) -> list[Look]:
    """Return the queues of a block as its command has left them; rows of URLs only name theirs."""
    return [] if block.table == keys.URLS else block.queues


def _refuse_changed(kernel: Kernel, number: int, left: list[Any] | None) -> None:
    """Raise FrontierError if a queue has changed since a deletion has left it like this."""
    if left is None:
        return
    look = _look(left)
    queue = kernel.tables.queues.look_up(look.name)
    why = "" if queue is None else change_since(queue, look)
    if why:
        raise _refusal(number, look, why)


def _refusal(number: int, look: Look, why: str) -> FrontierError:
    return FrontierError(
        f"{number} is not undone, because queue {look.name} has changed since: {why}; `undo --force` does it "
        "nevertheless"
    )


def preview(view: View, entry: AuditEntry, command: str, *, force: bool) -> dict[str, Any]:
    """Return the records to be put back, and their queues, as of the view.

    `queue_names` and `changed` name at most NAMED queues, with their changes; the counts are of all. Raises
    FrontierError as the undo would. O(records kept), in a frontier that keeps its URLs in memory, too, and a look at
    each queue.
    """
    found, back, waiting = kept_by(entry, command), 0, 0
    waits, returns = _waits_in(view), _returned_by(view, command)
    names: dict[str, str] = {}
    counts = {"queues": 0, "changed": 0}
    last: Look | None = None

    def pass_by(look: Look | None) -> None:
        if look is None:
            return
        queue = view.find_queue(look.name)
        why = "" if queue is None else change_since(queue, look)
        if why and not force:
            raise _refusal(entry.id, look, why)
        if look.name not in names:  # the same again if some of its URIs were scheduled for later
            counts["queues"] += 1
            counts["changed"] += bool(why)
            if len(names) < NAMED:
                names[look.name] = why

    for block in removed.blocks(view, found.number):
        back += returns(block)
        waiting += waits(block)
        for look in _left(block):
            if last is not None and last.id != look.id:
                pass_by(last)
            last = look
    pass_by(last)
    effect: dict[str, Any] = {"command": command, "returned": back - waiting}
    if waiting:
        effect["waiting"] = waiting
    effect |= {"queues": counts["queues"], "queue_names": list(names)}
    if counts["changed"]:
        changed = {name: why for name, why in names.items() if why}
        effect |= {"changed_count": counts["changed"], "changed": [f"{name}: {why}" for name, why in changed.items()]}
    return effect


def _returned_by(view: View, command: str) -> Callable[[Block], int]:
    """Return the function for how many records of a block an undo counts.

    They are URIs and dead letters, or URLs that were forgotten and are not known again.
    """
    if command != "forget":
        return lambda block: len(block.records) if block.table in _DELETED else 0
    known = knows(view)
    return lambda block: block.table == keys.SEEN and sum(not known(key) for key, _ in block.records)


def _waits_in(view: View) -> Callable[[Block], int]:
    """Return the function for how many URIs of the next block an undo would leave out, because their URLs wait.

    So they do once one before them came back.
    """
    if not view.settings()[0].frontier.keep_urls:
        return lambda block: 0
    waits = waits_in(view)

    def count(block: Block) -> int:
        names = {look.id: look.name for look in block.queues}
        return sum(waits(decode_uri(uri, names[queue_id])) for queue_id, _, uri in removed.uris_of(block))

    return count


def change_since(queue: QueueRecord, look: Look) -> str:
    """Return the changes of a queue in fields that a deletion sets, or that decide how it takes URIs; "" if none."""
    if queue.by_name != look.by_name:
        return "it was retired by its operator" if queue.by_name else "its operator's retirement has ended"
    if look.emptied is not None:
        come = queue.enqueued - look.emptied
        return f"{counted(come, 'URI')} {'has' if come == 1 else 'have'} come" if come else ""
    if look.retired is not None and (queue.state is RETIRED) != look.retired:
        return f"it is {queue.state}, and was {'' if look.retired else 'not '}RETIRED"
    return ""


class _Returning(NamedTuple):
    """A record that is put back. `queue` is 0 if it is of none; `fingerprint` is that of a URI, b"" of all others."""

    table: str
    queue: int
    key: bytes
    value: bytes
    fingerprint: bytes
    precedence: int | None


def _place(kernel: Kernel, admitter: Admitter, blocks: list[Block], progress: Progress, now: float) -> None:
    """Put the records of blocks back. Policies are asked before anything changes."""
    kernel.tables.pending.settle()
    effect, urls = progress.effect, kernel.tables.urls
    for one in [each for block in blocks for each in _read(kernel, admitter, block)]:
        row = urls.find(one.fingerprint) if one.fingerprint and urls is not None else None
        if row is not None and row.waits:
            effect["waiting"] = effect.get("waiting", 0) + 1
            continue
        if effect["command"] == "forget":
            is_known = admitter.is_seen(one.key) or (urls is not None and urls.find(one.key) is not None)
            effect["returned"] += one.table == keys.SEEN and not is_known
        else:
            effect["returned"] += one.table in _DELETED
        _put_back(kernel, admitter, one, now)
        if one.table == keys.PENDING and one.queue != progress.at[2]:
            progress.at[2] = one.queue
            effect["queues"] += 1
        if one.table == keys.FUTURE:
            effect["later"] = effect.get("later", 0) + 1
        if one.table == keys.DEAD and effect["command"] == "drop" and not decode_dead(one.value).prerequisite:
            kernel.counters.dropped -= kernel.counters.dropped > 0  # after a repair, it may not be counted


def _read(kernel: Kernel, admitter: Admitter, block: Block) -> Iterator[_Returning]:
    """Yield the records of a block, on the queues that are there now. Raises PolicyError."""
    queues, asked = kernel.tables.queues, kernel.returns.asked_precedence
    ids = {look.id: queues.find_or_create(look.name).id for look in block.queues}
    names = {look.id: look.name for look in block.queues}
    if block.table not in (keys.PENDING, keys.FUTURE):
        for key, value in block.records:
            queue = ids[decode_url(value).queue] if block.table == keys.URLS else 0
            yield _Returning(block.table, queue, key, value, b"", None)
        return
    for (key, value), (queue_id, rank, uri) in zip(block.records, removed.uris_of(block), strict=True):
        fingerprint = admitter.fingerprint(decode_uri(uri, names[queue_id]))
        if block.table == keys.FUTURE:
            yield _Returning(block.table, ids[queue_id], key, value, fingerprint, None)
        else:
            yield _Returning(block.table, ids[queue_id], rank, value, fingerprint, asked(ids[queue_id], value))


def _put_back(kernel: Kernel, admitter: Admitter, one: _Returning, now: float) -> None:
    tables, key, value = kernel.tables, one.key, one.value
    if one.table == keys.SEEN:
        if value != UNRECORDED:
            admitter.know(key)
    elif one.table == keys.DEAD:
        tables.dead_letters.put_back(key, value)
    elif one.table == keys.URLS:
        if tables.urls is not None:
            tables.urls.put_back(key, decode_url(value), one.queue)
    elif one.table == keys.FUTURE:
        queue, row = tables.queues.get(one.queue), decode_future(value)
        _count_again(kernel, admitter, row.rank, one.fingerprint)
        row.queue = one.queue
        tables.future.put_back(queue, key, row)
        tables.seeds.moved(row.rank[0], row.value, queue.queue, SeedFate.WAITING, now)
    else:
        queue = tables.queues.get(one.queue)
        _count_again(kernel, admitter, key, one.fingerprint)
        enqueued, last = queue.enqueued, queue.last_enqueued
        kernel.returns.place(queue, key, value, one.precedence, now, Arrival.RETURNED)
        queue.enqueued = enqueued  # it was counted when it came
        queue.last_enqueued = last or queue.last_enqueued  # it is at its old place: another may have been placed last


def _count_again(kernel: Kernel, admitter: Admitter, rank: bytes, fingerprint: bytes) -> None:
    """Count a URI as deleted no more, which it may not be after a repair, and as known; a prerequisite is neither."""
    if rank[0] == Directive.HIGHEST:
        return
    kernel.counters.deleted -= kernel.counters.deleted > 0
    if not objection_to_forgetting(kernel.tables.in_force.frontier.duplicates):
        admitter.know(fingerprint)
