"""Fields: the annotations of settings, and the list of all settings for the documentation."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple, get_type_hints

import msgspec

from budgetfrontier.settings.values import Type

HOOK = r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*"


class Field(NamedTuple):
    """The annotation of a setting: one line of documentation, and its type.

    `type` is a Type, or for structured values the name of a reader in `validation.py`. `per_uri`: overrides and
    adjustments may set it. `aliases` are further names for it. `secret` is what is hidden of its value from whoever may
    only look at a crawl: "text", all of it; "url", what is behind the host of a URL; "query", what is behind a `?`.
    """

    doc: str
    type: Type | str
    per_uri: bool = False
    aliases: tuple[str, ...] = ()
    secret: str = ""


class Row(NamedTuple):
    """One setting as the documentation lists it."""

    name: str
    type: str
    default: Any
    doc: str
    overridable: bool


@cache
def fields(struct: type[msgspec.Struct]) -> dict[str, Field | type[msgspec.Struct]]:
    """Return the fields of a section by name: each is a setting (Field), or a section in turn."""
    hints = get_type_hints(struct, include_extras=True)
    return {name: hint.__metadata__[0] if hasattr(hint, "__metadata__") else hint for name, hint in hints.items()}


def all_settings(struct: type[msgspec.Struct], *, prefix: str = "") -> list[Row]:
    """List all settings in order: dotted name, type in words, default as plain data, documentation, overridable."""
    rows: list[Row] = []
    defaults = msgspec.json.decode(msgspec.json.encode(msgspec.structs.asdict(struct())))
    for name, field in fields(struct).items():
        if isinstance(field, Field):
            rows.append(Row(prefix + name, type_text(field.type), defaults.get(name), field.doc, field.per_uri))
        else:
            rows += all_settings(field, prefix=f"{prefix}{name}.")
    return rows


_STRUCTURED = {
    "file": "the path of a file, or null",
    "rules": "a list of scope rules",
    "ordered": "a list of {accept: rule} and {reject: rule}",
    "alert_sinks": "a list of {webhook}, {command} or {mail}",
    "requests": "a list of {match, headers, cookies, auth}",
    "texts": "a mapping of names to texts",
    "match": "a match",
    "addresses": 'a mapping of host globs to "ip:port"',
    "seeds": "a list of seeds",
    "overrides": "a list of {match, set}",
    "groups": "a list of {name, match or by, ...}",
    "group_match": "a match",
    "quota": "a mapping of amounts to limits",
    "optional_quota": "a mapping of amounts to limits, or null",
    "windows": "a list of {days, from, to, zone}",
    "sheets": "a mapping of names to settings",
    "associations": "a list of {sheet, surt, order} or other patterns",
    "hooks": "a list of module:name",
}


def type_text(of: Type | str) -> str:
    """Return the type of a setting in words."""
    if isinstance(of, Type):
        return of.text
    policy = of.removeprefix("policy:")
    return _STRUCTURED.get(of) or f"{'an' if policy[0] in 'aeio' else 'a'} {policy} policy"
