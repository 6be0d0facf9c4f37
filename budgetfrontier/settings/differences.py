"""The differences between two sets of settings, in the form shown to the operator and stored in the audit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from budgetfrontier.settings.field import Field, fields
from budgetfrontier.settings.quantities import in_words, with_unit
from budgetfrontier.settings.redaction import without_secrets
from budgetfrontier.settings.schema import FrontierSettings, Override
from budgetfrontier.settings.settings import Settings

MOST = 20
"""The most items of a list, such as the seeds, that are shown."""

_LONGEST_LINE = 300  # characters
_NOT_SHOWN = "(not shown)"  # values that differ in their secrets only


class SettingChange(NamedTuple):
    """A setting, by its dotted name, with its values `before` and `after` as plain data.

    Of a long list, only the items that the other one lacks are included, at most 20. Secrets are hidden.
    """

    name: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.name}: {_line(self.name, self.before)} -> {_line(self.name, self.after)}"


def changes(before: Settings, after: Settings) -> Iterator[SettingChange]:
    """Yield the settings that differ, in the order of the schema. O(settings, seeds among them)."""
    return _changes("", before, after)


def _changes(prefix: str, before: msgspec.Struct, after: msgspec.Struct) -> Iterator[SettingChange]:
    for key, field in fields(type(before)).items():
        name, old, new = prefix + key, getattr(before, key), getattr(after, key)
        if old == new:
            continue
        if not isinstance(field, Field):
            yield from _changes(name + ".", old, new)
            continue
        old, new = (_plain(without_secrets(value, field.secret)) for value in (old, new))
        if old == new:
            yield SettingChange(name, _NOT_SHOWN, _NOT_SHOWN)
        else:
            yield SettingChange(name, _excerpt(old, new), _excerpt(new, old))


def _plain(value: Any) -> Any:
    if isinstance(value, tuple) and value and isinstance(value[0], Override):
        value = [{"match": one.match, "set": one.set} for one in value]
    return msgspec.json.decode(msgspec.json.encode(value))


def _line(name: str, value: Any) -> str:
    is_plain = not isinstance(value, list | dict)
    text = str(in_words(name, value) or with_unit(name, value)) if is_plain else msgspec.json.encode(value).decode()
    return text if len(text) <= _LONGEST_LINE else text[:_LONGEST_LINE] + "..."


def _excerpt(value: Any, other: Any) -> Any:
    """Return a value; of a long list, only the first items that the other one lacks."""
    if not isinstance(value, list) or len(value) <= MOST:
        return value
    known = set(map(msgspec.json.encode, other)) if isinstance(other, list) else set()
    own = [item for item in value if msgspec.json.encode(item) not in known]
    return [*own[:MOST], f"...and {len(value) - len(own[:MOST]):,} more"]


def moved_queues(before: FrontierSettings, after: FrontierSettings) -> str | None:
    """Return what becomes of queued URIs if the queue assignment has changed; None if it has not."""
    if before.queue_assignment_policy == after.queue_assignment_policy:
        return None
    if after.defer_to_previous:
        return "the queue assignment has changed: queued URIs stay on their queues (frontier.defer_to_previous)"
    return (
        "the queue assignment has changed: each queued URI moves to its new queue when its turn comes; those of "
        "retired queues stay until these are revived"
    )
