"""The undoing of `delete`, `drop` and `forget`: what they have kept returns to its tables, in steps.

It makes one pass over the blocks to find queues that have changed since, and one that takes each block out and puts its
records back: under their old keys, with their tries and costs, past `seen` and limits. Nothing is charged, and nothing
counts as scheduled. `Progress.at` is the pass, the next block of the first one, and the last queue: its look in the
first pass, as a deletion may have left it in a later block, its id in the second. If it fails halfway, the other blocks
stay, so that another undo can continue it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from budgetfrontier.core.converters import converter
from budgetfrontier.core.model import Directive, QueueRecord
from budgetfrontier.core.units import counted
from budgetfrontier.engine.admission.admit import Admitter
from budgetfrontier.engine.kernel import Kernel
from budgetfrontier.engine.url_table import Arrival
from budgetfrontier.errors import FrontierError
from budgetfrontier.rules.queue_states import RETIRED
from budgetfrontier.rules.seeds import SeedFate
from budgetfrontier.rules.undoing import command_of
from budgetfrontier.storage import keys, removed
from budgetfrontier.storage.records import AuditEntry, Progress, decode_dead, decode_future, decode_url
from budgetfrontier.storage.removed import UNRECORDED, Block, Kept, Look, convert_kept, kept
from budgetfrontier.storage.view import View

CHECKING, PLACING = range(2)

NAMED = 1000
"""The most queues that a dry run names; it counts them all."""
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
        why = "was for good: what it has deleted was not kept" if done else "has deleted nothing"
        raise FrontierError(f"{entry.id}, {command}, cannot be undone: it {why}")
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

    `queues` and `changed` name at most NAMED queues, with their changes; their counts are of all. Raises
    FrontierError as the undo would. O(records kept), and a look at each queue.
    """
    found, back = kept_by(entry, command), 0
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
        back += _returning(block, command)
        for look in _left(block):
            if last is not None and last.id != look.id:
                pass_by(last)
            last = look
    pass_by(last)
    effect: dict[str, Any] = {"command": command, "puts back": back}
    effect |= {"queues_count": counts["queues"], "queues": list(names)}
    if counts["changed"]:
        changed = {name: why for name, why in names.items() if why}
        effect |= {"changed_count": counts["changed"], "changed": [f"{name}: {why}" for name, why in changed.items()]}
    return effect


def _returning(block: Block, command: str) -> int:
    """Return how many records of a block an undo counts: URIs and dead letters, or URLs that were forgotten."""
    counted = (keys.SEEN,) if command == "forget" else (keys.PENDING, keys.FUTURE, keys.DEAD)
    return len(block.records) if block.table in counted else 0


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


def _place(kernel: Kernel, admitter: Admitter, blocks: list[Block], progress: Progress, now: float) -> None:
    """Put the records of blocks back. Policies are asked before anything changes."""
    queues, asked = kernel.tables.queues, kernel.returns.asked_precedence
    kernel.tables.pending.settle()
    found: list[tuple[str, int, bytes, bytes, int | None]] = []
    for block in blocks:
        ids = {look.id: queues.find_or_create(look.name).id for look in block.queues}
        for key, value in block.records:
            if block.table == keys.PENDING:
                queue_id = ids[keys.u32.unpack(key[:4])[0]]
                found.append((block.table, queue_id, key[4:], value, asked(queue_id, value)))
            elif block.table == keys.FUTURE:
                found.append((block.table, ids[decode_future(value).queue], key, value, None))
            elif block.table == keys.URLS:
                found.append((block.table, ids[decode_url(value).queue], key, value, None))
            else:
                found.append((block.table, 0, key, value, None))
    for table, queue_id, key, value, precedence in found:
        if table == keys.SEEN:
            if value != UNRECORDED:
                admitter.know(key)
        else:
            _put_back(kernel, table, queue_id, key, value, precedence, now)
        if table == keys.PENDING and queue_id != progress.at[2]:
            progress.at[2] = queue_id
            progress.effect["queues"] += 1
        if table == keys.FUTURE:
            progress.effect["later"] = progress.effect.get("later", 0) + 1
        if table == keys.DEAD and progress.effect["command"] == "drop" and not decode_dead(value).prerequisite:
            kernel.counters.dropped -= kernel.counters.dropped > 0  # after a repair, it may not be counted
    progress.effect["returned"] += sum(_returning(block, progress.effect["command"]) for block in blocks)


def _put_back(
    kernel: Kernel, table: str, queue_id: int, key: bytes, value: bytes, precedence: int | None, now: float
) -> None:
    tables = kernel.tables
    if table == keys.DEAD:
        tables.dead_letters.put_back(key, value)
        return
    if table == keys.URLS:
        if tables.urls is not None:
            tables.urls.put_back(key, decode_url(value), queue_id)
        return
    queue = tables.queues.get(queue_id)
    if table == keys.FUTURE:
        row = decode_future(value)
        _uncount(kernel, row.rank)
        row.queue = queue_id
        tables.future.put_back(queue, key, row)
        tables.seeds.moved(row.rank[0], row.value, queue.queue, SeedFate.WAITING, now)
        return
    _uncount(kernel, key)
    enqueued, last = queue.enqueued, queue.last_enqueued
    kernel.returns.place(queue, key, value, precedence, now, Arrival.RETURNED)
    queue.enqueued = enqueued  # it was counted when it came
    queue.last_enqueued = last or queue.last_enqueued  # it is at its old place: another one may have been placed last


def _uncount(kernel: Kernel, rank: bytes) -> None:
    """Count a URI as deleted no more; after a repair, it may not be counted."""
    if rank[0] != Directive.HIGHEST and kernel.counters.deleted:
        kernel.counters.deleted -= 1
