"""Filters of the audit: by queue, who, time and operation; which adjustments concern a queue."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING

from budgetfrontier.errors import SettingsError
from budgetfrontier.rules.undoing import PAUSING, command_of
from budgetfrontier.settings.matching import Match, disjoint, parse_match, selects, spellings
from budgetfrontier.storage.records import NAMED_QUEUES, AuditEntry

if TYPE_CHECKING:
    from budgetfrontier.storage.view import View

MANY_URIS, BRIEF_URIS = 1000, 20
"""The URIs of a queue that a pattern is tested on, for a listing and for a page that is read again and again."""

_BY_SETTINGS = {"label", "sheet", "group"}  # kinds of patterns that a queue may match without it being known here
_OF_URIS = {"delete", "drop", "forget", "replay"}  # commands whose patterns are of URIs, which are gone
_COUNTED = {"delete": "deleted", "drop": "dropped", "forget": "forgotten", "replay": "replayed"}
"""The counts in the effects of commands that have changed nothing if these are 0."""
_OF_NO_QUEUE = PAUSING | {"terminate", "drop", "discard"}

Covers = Callable[[AuditEntry], str | None]


def coverage(view: View, key: str, *, looked_at: int = MANY_URIS) -> Covers:
    """Return a function for the relation of an entry to a queue: "named", "yes", "partly", "perhaps", or None: not.

    "yes" and "partly" are of patterns: all or some of the queue's first URIs match. "perhaps": the queue is empty, or
    an opening brought other settings. A command that has selected nothing, or changed nothing of it, concerns no queue.
    """
    queue = view.find_queue(key)
    held = [] if queue is None else [(item.uri.url, item.uri.source) for item in view.pending(queue, looked_at)]
    if not held and queue is not None and queue.last_enqueued:
        held = [(queue.last_enqueued, None)]

    def covers_match(text: str, *, is_past: bool = False) -> str | None:
        """Return how a pattern concerns the queue; `is_past`: one of URIs that were there then."""
        try:
            match = parse_match(text)
        except SettingsError:
            return None
        if match.kind == "group":
            match = view.grouping().match(text)
        if match.kind == "sheet":
            return "perhaps"
        if match.by_key:
            return "yes" if match.matches("", key) else None
        if is_past or not held:
            return "perhaps"
        hits = sum(match.matches(url, key, label) for url, label in held)
        return None if not hits else "yes" if hits == len(held) else "partly"

    def covers(entry: AuditEntry) -> str | None:
        """Return how an entry concerns the queue: by its pattern, its queue, or its possible changes."""
        effect = entry.effect
        if _changed_nothing(entry):
            return None
        if entry.command == "undo" and "inverse" not in effect and "queue" not in effect:
            undone = view.audit_entry(int(entry.args["id"]))  # it is of the same queues
            return None if undone is None or entry.error else covers(undone)
        withdrawn = effect.get("withdrawn")
        match = entry.args.get("match") or (withdrawn["match"] if withdrawn else None)
        about = command_of(entry.command, effect)
        letters = effect.get("of_queues", ())
        if about in ("drop", "replay") and (key in letters or 0 < len(letters) < NAMED_QUEUES):
            return "named" if key in letters else None
        named = entry.args.get("queue", effect.get("queue"))
        if match is not None:
            if named is not None and not selects(str(named), key):
                return None
            relation = covers_match(str(match), is_past=about in _OF_URIS)
            return "perhaps" if relation and (entry.args.get("states") or about in _OF_URIS) else relation
        changes = effect.get("inverse")
        if entry.command == "undo" and changes is not None:
            found = [covers_match(one["match"]) for one in changes["restore"]]
            return next((one for one in found if one), "perhaps" if changes["remove"] else None)
        if named is not None:
            return "named" if named == key or selects(str(named), key) else None
        if about in _OF_URIS:
            return "perhaps"
        settings = entry.command == "settings" and any(
            name in ("overrides", "sheets", "associations") or name.startswith("frontier.")
            for name in effect.get("after", {})
        )
        return "perhaps" if settings else None

    return covers


def _changed_nothing(entry: AuditEntry) -> bool:
    """Return whether a command on what it has selected, if there was something, has left all as it was."""
    count = _COUNTED.get(entry.command, "changed" if "states" in entry.effect else "")
    return bool(entry.effect.get(count, 1) == 0)


def touches(view: View, match: Match) -> Callable[[AuditEntry], bool]:
    """Return a function that returns whether a command may have changed a queue that a pattern matches.

    Only a command that surely has not is excluded: it concerns others, or no queue at all.
    """

    def is_matched(key: str) -> bool:
        if match.kind in _BY_SETTINGS:
            return True  # perhaps one of its URIs has it
        queue = view.find_queue(key)
        url = view.first_url(key) or (queue.last_enqueued if queue else "")
        return match.matches(url, key) if url or match.by_key else False

    def may_overlap(other: Match) -> bool:
        if other.keys:
            return any(map(is_matched, spellings(other.keys)))
        if not _BY_SETTINGS.isdisjoint((match.kind, other.kind)):
            return not disjoint(match, other)
        if match.keys:
            covers = [other.matches(view.first_url(key) or f"http://{key}/", key) for key in spellings(match.keys)]
            return any(covers)
        if match.exact and other.exact:  # hosts or domains
            urls = [f"http://{match.exact}/", f"http://{other.exact}/"]
            return other.matches(urls[0]) or match.matches(urls[1])
        return True

    def may_touch(entry: AuditEntry) -> bool:
        if command_of(entry.command, entry.effect) in _OF_NO_QUEUE:
            return False
        named = entry.args.get("queue", entry.effect.get("queue"))
        if named is not None:
            return may_overlap(_by_key(str(named)))
        withdrawn, changes = entry.effect.get("withdrawn"), entry.effect.get("inverse")
        of_undo = (one["match"] for one in changes["restore"]) if entry.command == "undo" and changes else ()
        texts = [*filter(None, chain((entry.args.get("match"), withdrawn and withdrawn["match"]), of_undo))]
        try:
            return not texts or any(may_overlap(parse_match(str(text))) for text in texts)
        except SettingsError:
            return True

    return may_touch


def deleted_queues(glob: str | None) -> Match:
    """Return the pattern of the queues that a deletion is about; None: all of them."""
    return parse_match("*") if glob is None else _by_key(glob)


def _by_key(glob: str) -> Match:
    """Return the pattern for a glob with sets of characters, which those of overrides do not have: then for all."""
    try:
        return parse_match("*" if "[" in glob else f"queue:{glob}")
    except SettingsError:
        return parse_match("*")
