"""Filters of the audit: by queue, who, time and operation; which adjustments concern a queue."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from budgetfrontier.errors import SettingsError
from budgetfrontier.settings.matching import parse_match
from budgetfrontier.store.records import AuditEntry

if TYPE_CHECKING:
    from budgetfrontier.store.view import View

_LOOKED_AT = 1000  # URIs of a queue that a pattern is tested on

Covers = Callable[[AuditEntry], str | None]


def coverage(view: View, key: str) -> Covers:
    """Return a function that tells how an entry concerns a queue: "named", "yes", "partly", "perhaps", or None: not.

    "yes" and "partly" are of patterns: all URIs of the queue match, of its first 1,000, or some. "perhaps": its URIs do
    not tell, because it has none, or other settings were given at an opening.
    """
    queue = view.find_queue(key)
    urls = [] if queue is None else [item.uri.url for item in view.pending(queue, _LOOKED_AT)]
    if not urls and queue is not None and queue.last_enqueued:
        urls = [queue.last_enqueued]

    def covers_match(text: str) -> str | None:
        """Tell how the pattern of an override concerns the queue."""
        try:
            match = parse_match(text)
        except SettingsError:
            return None
        if match.by_key:
            return "yes" if match.matches("", key) else None
        hits = sum(match.matches(url, key) for url in urls)
        if not urls:
            return "perhaps"
        return None if not hits else "yes" if hits == len(urls) else "partly"

    def covers(entry: AuditEntry) -> str | None:
        """Tell how an entry concerns the queue: by its pattern, the queue it names, or what it may have changed."""
        effect = entry.effect
        withdrawn = effect.get("withdrawn")
        match = entry.args.get("match") or (withdrawn["match"] if withdrawn else None)
        if match is not None:
            return covers_match(str(match))
        changes = effect.get("inverse")
        if entry.command == "undo" and changes is not None:
            found = [covers_match(one["match"]) for one in changes["restore"]]
            return next((one for one in found if one), "perhaps" if changes["remove"] else None)
        named = entry.args.get("queue", effect.get("queue"))
        if named is not None:
            return "named" if named == key or fnmatchcase(key, str(named)) else None
        if entry.command in ("delete", "drop", "replay"):
            return "perhaps"
        settings = entry.command == "settings" and any(
            name == "overrides" or name.startswith("frontier.") for name in effect.get("after", {})
        )
        return "perhaps" if settings else None

    return covers
