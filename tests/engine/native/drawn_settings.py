"""Settings of a frontier, drawn from the schema: whatever setting it has or will have, some history has it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum, auto
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from budgetfrontier import Settings
from budgetfrontier.errors import SettingsError
from budgetfrontier.settings.field import Field, fields
from budgetfrontier.settings.schema import FrontierSettings, GroupSettings
from budgetfrontier.settings.values import Type
from tests.stateful.model import PRELOADED


class Kind(Enum):
    """The kinds of histories."""

    ANY = auto()
    PLAIN = auto()
    """What the kernel does by itself, mostly."""
    GROUPED = auto()
    """The same, with the turns and leases of queues in groups."""


POOL = (None, True, False, -1, 0, 1, 2, 3, 9, 0.25, 1.5, 40.0, 429, 503)
"""Values, of which a type reads some; the words of its description are tried, too."""

PLAYER = "tests.engine.native.player"
_HERE = Path(__file__).parent
_RULES = {"rules": [{"when": "depth", "add-each": 1}, {"when": "query-args", "over": 0, "add": 2}]}
_QUOTAS = [{"urls": 4}, {"successes": 3, "errors": 1}, {"bytes": 900, "novel": 2}, {"novel_bytes": 200}]
STRUCTURED: dict[str, list[Any]] = {
    "quota": _QUOTAS,
    "optional_quota": _QUOTAS,
    "windows": [["daily 13:47-13:50 UTC"], ["tue-sun 00:00-24:00 UTC"], ["daily 00:00-24:00 UTC"]],
    "file": [str(_HERE / "suffixes.dat")],
    "policy:cost": ["zero", "unit", "wag", "anti-calendar", {"additive": _RULES}, f"{PLAYER}:failing"],
    "policy:assignment": [
        *("hostname", "surt-authority", "registered-domain", "single", "ip", "bucket", "topmost-assigned-surt"),
        {"hostname": {"parallel_queues": 2}},
        f"{PLAYER}:by_path",
    ],
    "policy:precedence": ["base", {"success-counts": {"tiers": [2, 1]}}, "highest-uri"],
    "policy:uri_precedence": ["cost", "base", {"hops": {"base": 1}}, {"preloaded": {"file": str(PRELOADED)}}],
    "policy:politeness": ["standard", f"{PLAYER}:unhurried"],
    "policy:canonicalization": ["standard", "rules", f"{PLAYER}:as_it_is"],
    "group_match": ["*", "domain:a.test", "queue:?.test"],
}
"""Values of the types that have no reader of their own."""

UNDRAWN = ("commit_interval",)
"""Settings that are drawn elsewhere: commits are never by time, or after each call, for the two clocks differ."""


def settings_in(section: type, prefix: str) -> Iterator[tuple[str, Field]]:
    """Yield all settings of a section by their dotted names."""
    for name, field in fields(section).items():
        if isinstance(field, Field):
            yield prefix + name, field
        else:
            yield from settings_in(field, f"{prefix}{name}.")


def values_of(field: Field) -> list[Any]:
    """Return some values that a setting may have."""
    if isinstance(field.type, str):
        return STRUCTURED[field.type]
    words = re.findall(r"\b[a-z-]+\b", field.type.text)
    return [value for value in (*POOL, *words) if _is_read(field.type, value)]


def _is_read(of: Type, value: Any) -> bool:
    try:
        of.read(value)
    except ValueError:
        return False
    return True


ALL = dict(settings_in(FrontierSettings, ""))
PER_URI = {name: field for name, field in ALL.items() if field.per_uri}
OF_GROUPS = dict(settings_in(GroupSettings, ""))
GROUPED_BY = ("registered-domain", "host", "ip", "surt", "label")
MATCHES = (
    *("*", "domain:a.test", "host:b.test", "queue:?.test", "surt:(test,c,", "surt:https://(test,b,"),
    *("regex:[02468]$", "label:one"),
)
_DRAWN = {name: field for name, field in ALL.items() if name not in UNDRAWN}
USUAL: dict[str, tuple[Any, ...]] = {
    "commit_interval": (3600.0, 3600.0, 3600.0, 0.0),
    "balance_replenish_amount": (1, 2, 4, 4, 9, 3000),
    "queue_total_budget": (-1, -1, -1, 6, 15),
    "retire_when": ("exceeded", "reached"),
    "cost_policy": ("unit", "unit", "zero", "wag"),
    "hold_queues": (True, False),
    "keep_urls": (False, False, False, True),
    "politeness.per_queue_concurrency": (1, 1, 2, 3),
    "politeness.min_delay": (0.0, 0.0, 1.0),
    "politeness.delay_factor": (0.0, 0.0, 5.0),
    "politeness.max_delay": (9.0,),
    "politeness.jitter": (0.0, 0.0, 0.0, 0.5),
    "politeness.min_interval": (0.0, 0.0, 2.0),
    "quotas.host": ({}, {}, {}, {"urls": 4}, {"bytes": 900, "novel": 2}),
    "quotas.force_retire": (True, False),
}
"""Values that have much happen in a short history; others are drawn on top of them."""
USUAL_OF_GROUPS: dict[str, tuple[Any, ...]] = {
    "politeness": (True, True, False),
    "max_in_flight": (None, 1, 2),
    "total_budget": (-1, -1, 3, 6),
}
"""The same of groups: queues wait for their group, and go on."""


def _some(of: dict[str, Field], most: int, *, least: int = 0) -> st.SearchStrategy[dict[str, Any]]:
    """Draw values for some settings."""
    one = st.sampled_from(sorted(of)).flatmap(
        lambda name: st.tuples(st.just(name), st.sampled_from(values_of(of[name])))
    )
    return st.lists(one, min_size=least, max_size=most, unique_by=lambda pair: pair[0]).map(dict)


def nested(values: dict[str, Any]) -> dict[str, Any]:
    """Return settings by their dotted names as sections."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        *path, last = name.split(".")
        at = found
        for part in path:
            at = at.setdefault(part, {})
        at[last] = value
    return found


OF_TURNS = {
    name: field
    for name, field in PER_URI.items()
    if name != "politeness.max_bandwidth" and name.startswith(("politeness.", "queue_total", "balance"))
}
"""Settings that every turn, or every end of a lease, looks at."""
changed = st.one_of(_some(PER_URI, 3, least=1), _some(OF_TURNS, 3, least=1))
"""What overrides and adjustments change."""
_selecting = st.one_of(
    st.sampled_from(MATCHES).map(lambda match: {"match": match}),
    st.sampled_from(GROUPED_BY).map(lambda by: {"by": by}),
)
_together = st.sampled_from(("*", "*", "domain:test")).map(lambda match: {"match": match})
_limits = _some({name: field for name, field in OF_GROUPS.items() if name not in ("name", "match", "by")}, 3)
_groups = st.builds(
    lambda selecting, usual, limits: selecting | usual | limits,
    st.one_of(_together, _together, _selecting),
    st.fixed_dictionaries({name: st.sampled_from(values) for name, values in USUAL_OF_GROUPS.items()}),
    st.one_of(st.just({}), _limits),
)
_usual = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in USUAL.items()})
_frontiers = st.builds(dict.__or__, _usual, st.sampled_from((0, 0, 2, 8)).flatmap(lambda most: _some(_DRAWN, most)))
_overrides = st.builds(lambda match, chosen: {"match": match, "set": nested(chosen)}, st.sampled_from(MATCHES), changed)


def _whole(
    frontier: dict[str, Any], groups: list[dict[str, Any]], overrides: list[dict[str, Any]], sheet: dict[str, Any]
) -> dict[str, Any]:
    if frontier.get("duplicates") == "bloom":
        frontier = {"bloom.expected": 40} | frontier  # the default takes half a gigabyte
    found = {"crawl": "story", "frontier": nested(frontier), "overrides": overrides}
    found["groups"] = [{"name": f"group{number}", **group} for number, group in enumerate(groups)]
    if sheet:
        found |= {"sheets": {"small": nested(sheet)}, "associations": [{"sheet": "small", "match": "domain:c.test"}]}
    return found


def _is_valid(settings: dict[str, Any]) -> bool:
    try:
        Settings.from_dict(settings)
    except SettingsError:
        return False
    return True


def settings(kind: Kind) -> st.SearchStrategy[dict[str, Any]]:
    """Draw the settings of a frontier, as plain data, for a kind of histories."""
    more = st.tuples(st.booleans(), st.booleans(), st.booleans(), st.booleans())
    drawn = more.flatmap(
        lambda more: st.builds(
            _whole,
            _frontiers if kind is Kind.ANY else _usual,
            st.lists(_groups, min_size=kind is Kind.GROUPED, max_size=2 * (more[1] or kind is Kind.GROUPED)),
            st.lists(_overrides, max_size=3 * (more[0] and more[2])),
            changed if more[0] and more[3] else st.just({}),
        )
    )
    return drawn.filter(_is_valid)
