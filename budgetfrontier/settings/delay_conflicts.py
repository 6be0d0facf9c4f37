"""Warnings about a min_delay for some URIs that is longer than the max_delay in force for them, which wins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from budgetfrontier.core.units import write_duration
from budgetfrontier.settings import sheets
from budgetfrontier.settings.matching import covers, parse_match
from budgetfrontier.settings.problems import Problem, ValuePath
from budgetfrontier.settings.schema import Override
from budgetfrontier.settings.sheets import SettingsOfUris

_LEAST, _MOST = "politeness.min_delay", "politeness.max_delay"


def of_change(settings: SettingsOfUris, before: Sequence[Override], after: Sequence[Override]) -> list[str]:
    """Return the warnings about what a change of the adjustments brings into force, or sets again."""
    old, new = (list(_conflicts(settings, _layers(settings, adjustments))) for adjustments in (before, after))
    known = {(one.match, text) for one, _, text in old}
    stay = {id(one) for one, _, _ in old}
    found = (
        f"{one.match}: {text}"
        for one, _, text in new
        if (one.match, text) not in known or not (one.sheet or id(one) in stay)
    )
    return list(dict.fromkeys(found))


def of_file(settings: SettingsOfUris, data: Any) -> Iterator[Problem]:
    """Yield the warnings about the overrides and sheets of a file, of which `data` is the content."""
    written = data.get("sheets") if isinstance(data, Mapping) else None
    own = written.keys() if isinstance(written, Mapping) else ()
    associated = {name for one in settings.associations for name in one.sheets}
    others = [
        Override(f"sheet:{name}", dict(values), sheet=name)
        for name, values in settings.sheets.items()
        if name in own and name not in associated
    ]
    places: dict[int | str, ValuePath] = {}
    for index, one in enumerate(settings.overrides):  # those of groups are copied for their patterns, with their place
        places[id(one)] = places[one.at] = ("overrides", index, "set")
    found = dict[tuple[ValuePath, str], None]()
    for override, name, text in _conflicts(settings, [*others, *_layers(settings, ())]):
        path = places.get(id(override)) or places.get(override.at) or ("overrides",)
        if override.sheet:
            path = ("sheets", override.sheet)
            if override.sheet not in own:  # that of a profile
                path = ("associations", _association(settings, override))
        found[(*path, *_key(data, path, name)), text] = None
    for path, text in found:
        yield Problem(path, text)


def _key(data: Any, path: ValuePath, name: str) -> Sequence[str]:
    """Return the keys of a setting below a path of the file: its dotted name if that is written there."""
    try:
        for part in path:
            data = data[part]
        return [name] if name in data else name.split(".")
    except (KeyError, IndexError, TypeError):  # written in another way: the nearest place that is known will do
        return name.split(".")


def _association(settings: SettingsOfUris, override: Override) -> int:
    ones = enumerate(settings.associations)
    return next(n for n, one in ones if override.sheet in one.sheets and override.match in one.match)


def _layers(settings: SettingsOfUris, adjustments: Sequence[Override]) -> list[Override]:
    first, last = sheets.layers(settings, adjustments)
    return [*first, *last]


def _conflicts(settings: SettingsOfUris, layers: Sequence[Override]) -> Iterator[tuple[Override, str, str]]:
    """Yield each override that sets one of the delays in conflict with the other one, the name of it and a warning.

    The other one is that in force for everything that the override matches. O(overrides that set a delay beyond the
    extremes of the other one x overrides that set either).
    """
    setting = {name: [one for one in layers if name in one.set] for name in (_LEAST, _MOST)}
    if not any(setting.values()):
        return
    values = {
        name: [attrgetter(name)(settings.frontier), *(one.set[name] for one in ones)] for name, ones in setting.items()
    }
    shortest, longest = min(values[_MOST]), max(values[_LEAST])
    places = {id(one): n for n, one in enumerate(layers)}
    known = set[tuple[int, int]]()
    for override in setting[_LEAST]:
        if override.set[_LEAST] > shortest and _last(override, setting[_LEAST]) is override:
            other = _last(override, setting[_MOST])
            most = values[_MOST][0] if other is None else other.set[_MOST]
            if override.set[_LEAST] > most:
                known.add((places[id(override)], -1 if other is None else places[id(other)]))
                yield override, _LEAST, _text(override.set[_LEAST], most)
    for override in setting[_MOST]:
        if override.set[_MOST] < longest and _last(override, setting[_MOST]) is override:
            other = _last(override, setting[_LEAST])
            least = values[_LEAST][0] if other is None else other.set[_LEAST]
            pair = -1 if other is None else places[id(other)], places[id(override)]
            if override.set[_MOST] < least and pair not in known:
                yield override, _MOST, _text(least, override.set[_MOST])


def _last(override: Override, setting: Sequence[Override]) -> Override | None:
    """Return the last of some overrides that applies to everything that one matches; None if none does."""
    match = parse_match(override.match)
    return next((one for one in reversed(setting) if one is override or covers(parse_match(one.match), match)), None)


def _text(least: float, most: float) -> str:
    return (
        f"min_delay ({write_duration(least)}) is longer than max_delay ({write_duration(most)}), which wins: set both"
    )
