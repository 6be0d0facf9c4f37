"""The commands in the audit that made a queue what it is: its retirement, its block, the deletion of its URIs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from budgetfrontier.core.model import QueueRecord
from budgetfrontier.engine.commands.restoring import change_since
from budgetfrontier.errors import SettingsError
from budgetfrontier.reports.audit_filter import BRIEF_URIS, coverage
from budgetfrontier.reports.audit_sentences import selection
from budgetfrontier.rules.undoing import ENDING
from budgetfrontier.settings.matching import parse_match, selects
from budgetfrontier.storage import removed
from budgetfrontier.storage.records import AuditEntry
from budgetfrontier.storage.removed import Look
from budgetfrontier.storage.uri_values import expand, short_url
from budgetfrontier.storage.view import View

MOST_ENTRIES = 100_000
"""The newest entries of the audit that are looked at."""
MOST_BLOCKS = 1000
"""The blocks of deleted URIs that are looked at, of up to 60 kB each, from the newest deletion on."""


class Cause(NamedTuple):
    """The command that made a queue what it is. Not `is_sure`: it selected the queue, and nothing tells more."""

    entry: AuditEntry
    is_sure: bool = True

    def subject(self) -> str:
        """Return who gave it, before its verb."""
        return "an operator" if self.is_sure else "perhaps an operator"

    @property
    def is_alone(self) -> bool:
        """Whether it has named the queue."""
        return self.entry.args.get("match") is None

    def told(self) -> str:
        """Return its author, time and reason, and by what it selected queues, for the end of a sentence."""
        of_queues = "" if self.is_alone else f" with all queues{selection(self.entry.args)}"
        return f"{told_by(self.entry)}{of_queues}"


class Deletion(NamedTuple):
    """A deletion of URIs of a queue. Not `is_sure`: it may have been. `is_all`: it has left none, and none came since.

    `is_kept`: what it deleted is there, for `undo`, which takes force if the queue `has_changed` since. An entry may
    have `discarded` it.
    """

    entry: AuditEntry
    is_sure: bool
    is_all: bool
    is_kept: bool
    has_changed: bool = False
    discarded: AuditEntry | None = None


class _AppliedChange(NamedTuple):
    """A queue before and after a command, as far as that is known."""

    before: dict[str, Any]
    after: dict[str, Any]
    is_sure: bool = True

    def sets(self, name: str, value: object) -> bool:
        """Return whether a field has this value since."""
        return self.before.get(name) != self.after.get(name) == value


def told_by(entry: AuditEntry) -> str:
    """Return a command's author, time and reason, for the end of a sentence."""
    day = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(entry.when)) if entry.id else "in progress"
    return f" ({entry.who}, {day}" + (f": {entry.reason})" if entry.reason else ")")


def _last(looks: list[Look]) -> Look:
    """Return how a deletion left a queue at last; the looks of URIs for later do not tell its state."""
    return next((look for look in reversed(looks) if look.retired is not None), looks[-1])


class QueuePast:
    """The commands that have changed a queue, as far as the newest `MOST_ENTRIES` entries of the audit tell."""

    def __init__(self, view: View, queue: QueueRecord) -> None:
        self._view = view
        self._queue = queue
        self._discards: dict[int, AuditEntry] = {}
        """By the ids of commands that hold: the entries that have discarded what these had kept."""

    def audit_has(self) -> str:
        """Return "the audit has", or that its newest entries have, if the others are not looked at."""
        is_all = self._view.counters().audit <= MOST_ENTRIES
        return "the audit has" if is_all else f"the last {MOST_ENTRIES:,} entries of the audit have"

    def retirement(self) -> Cause | None:
        """Return the command that retired the queue in an operator's name."""
        for entry in self._not_undone("retire"):
            found = self._change(entry)
            if found is not None and found.sets("by_name", True):
                return Cause(entry, found.is_sure)
        return None

    def snooze(self) -> Cause | None:
        """Return the command that set the queue's block; None if no command did: crawlers set blocks, too."""
        for entry in self._not_undone("snooze"):
            found = self._change(entry)
            if found is not None and found.sets("block", self._queue.block):
                return Cause(entry, found.is_sure)
        return None

    def deletion(self) -> Deletion | None:
        """Return the newest deletion of URIs of the queue that was not undone. O(`MOST_BLOCKS`)."""
        queue, blocks = self._queue, MOST_BLOCKS
        covers = coverage(self._view, queue.queue, looked_at=BRIEF_URIS)
        entries = (one for one in self._not_undone("delete") if one.effect.get("deleted") and covers(one) is not None)
        for entry in entries:
            number = self._kept(entry.effect)
            looks: list[Look] = []
            if number:
                found = list(islice(removed.queues(self._view, number), blocks + 1))
                looks = [look for each in found[:blocks] for look in each if look.id == queue.id]
                is_read, blocks = len(found) <= blocks, max(blocks - len(found), 0)
                if is_read and not looks:
                    continue
            if looks:
                last = _last(looks)
                return Deletion(entry, True, last.emptied == queue.enqueued, True, bool(change_since(queue, last)))
            named, is_all = entry.args.get("queue") == queue.queue, self._is_of_all(entry)
            if named or not entry.id or queue.last_lease_time < entry.when:
                # The URIs of a queue of which nothing was ever leased have left it by deletions alone.
                is_sure = named or (is_all and not queue.last_lease_time and next(entries, None) is None)
                discarded = self._discards.get(entry.id)
                return Deletion(entry, is_sure, is_all and is_sure, bool(number), discarded=discarded)
        return None

    def deletion_of(self, url: str) -> Deletion | None:
        """Return the newest deletion of a URL that was not undone, if it has kept the URL. O(`MOST_BLOCKS`)."""
        queue, left = self._queue, MOST_BLOCKS
        for entry in self._not_undone("delete"):
            number, looks, is_there = self._kept(entry.effect), list[Look](), False
            for block in removed.blocks_of(self._view, number, queue.id, left) if number else ():
                left -= 1
                if block is not None:
                    looks += [look for look in block.queues if look.id == queue.id]
                    uris = (value for of, _, value in removed.uris_of(block) if of == queue.id)
                    is_there = is_there or any(expand(short_url(value), queue.queue) == url for value in uris)
            if is_there:
                return Deletion(entry, True, False, True, bool(change_since(queue, _last(looks))))
        return None

    def _is_of_all(self, entry: AuditEntry) -> bool:
        """Return whether a deletion that is over has selected all URIs of the queue, by its key alone."""
        key, queue, match = self._queue.queue, entry.args.get("queue"), entry.args.get("match")
        if not entry.id or any(map(entry.args.get, ("pattern", "states"))):
            return False
        try:
            of_key = match is None or ((parsed := parse_match(str(match))).by_key and parsed.matches("", key))
        except SettingsError:
            return False
        return of_key and (queue is None or selects(str(queue), key))

    def _kept(self, effect: dict[str, Any]) -> int:
        """Return the number of the blocks that a command with this effect has kept; 0 if they are not there."""
        place = removed.kept(effect)
        return place.number if place and removed.end(self._view, place.number) else 0

    def _change(self, entry: AuditEntry) -> _AppliedChange | None:
        """Return how a command has changed the queue, or may have; None if it has not."""
        args, effect = entry.args, entry.effect
        if args.get("match") is None:
            is_this = args.get("queue") == self._queue.queue and "after" in effect
            return _AppliedChange(effect["before"], effect["after"]) if is_this else None
        if not effect.get("changed"):
            return None
        if number := self._kept(effect):
            one = removed.changed_queue(self._view, number, self._queue.id)
            return None if one is None else _AppliedChange(one.before, one.after)
        asked = {"by_name": True, "block": args.get("until")}
        if self._queue.queue in effect["queues"]:
            return _AppliedChange({}, asked)
        if effect["changed"] <= len(effect["queues"]):
            return None
        may_be = coverage(self._view, self._queue.queue, looked_at=BRIEF_URIS)(entry)
        return _AppliedChange({}, asked, is_sure=False) if may_be else None

    def _not_undone(self, command: str) -> Iterator[AuditEntry]:
        """Yield the entries of a command that hold, newest first, and before them the command in progress."""
        begun = self._view.in_progress()
        if begun is not None and begun[0].op == command:
            yield AuditEntry(0, command, begun[0].args, begun[0].who, 0.0, begun[0].reason, begun[1].effect)
        ended = dict[int, AuditEntry]()
        for entry in self._view.newest_commands(command, *ENDING, among=MOST_ENTRIES):
            end = ended.get(entry.id)
            if removed.counts(entry, end):
                ended.setdefault(int(entry.args["id"]), entry)
            elif entry.command == command and (end is None or end.command == "discard"):
                if end is not None:
                    self._discards[entry.id] = end
                yield entry
