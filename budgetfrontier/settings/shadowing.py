"""Warnings about values of a YAML file that have no effect, because adjustments of the frontier apply after them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter

from budgetfrontier.settings.matching import Match, parse_match
from budgetfrontier.settings.names import per_uri
from budgetfrontier.settings.schema import FrontierSettings, Override
from budgetfrontier.settings.settings import Settings

_DEFAULTS = FrontierSettings()
MOST = 20
"""The most warnings; a last line counts the others."""


def shadowed(settings: Settings, adjustments: Sequence[Override]) -> Iterator[str]:
    """Yield a warning for each value of the settings that adjustments replace everywhere.

    O(overrides x adjustments) that set the same settings.
    """
    found = [*_in_frontier(settings, adjustments), *_in_overrides(settings, adjustments)]
    yield from found[:MOST]
    if len(found) > MOST:
        yield f"{len(found) - MOST:,} more values are set by adjustments: `budgetfrontier adjust JOB --list`"


def _in_frontier(settings: Settings, adjustments: Sequence[Override]) -> Iterator[str]:
    for name in per_uri():
        value = attrgetter(name)(settings.frontier)
        last = next((one for one in reversed(adjustments) if one.match == "*" and name in one.set), None)
        if last is not None and value not in (last.set[name], attrgetter(name)(_DEFAULTS)):
            yield _warning(f"frontier.{name} {value}", last, name)


def _in_overrides(settings: Settings, adjustments: Sequence[Override]) -> Iterator[str]:
    parsed = [(one, parse_match(one.match)) for one in reversed(adjustments)]
    for number, override in enumerate(settings.overrides, 1):
        match = parse_match(override.match)
        for name, value in override.set.items():
            last = next((one for one, wider in parsed if name in one.set and covers(wider, match)), None)
            if last is not None and last.set[name] != value:
                place = override.at or f"override {number}"
                yield _warning(f"{place}: {name} {value} ({override.match})", last, name)


def _warning(what: str, adjustment: Override, name: str) -> str:
    return (
        f"{what} has no effect: adjustment {adjustment.id or '(of unknown id)'} ({adjustment.match}) sets it to "
        f"{adjustment.set[name]}; `budgetfrontier adjust JOB --remove ID` takes it back"
    )


def covers(wider: Match, match: Match) -> bool:
    """Return whether one pattern certainly matches whatever another one does; False where that is not known."""
    if wider.kind == "*" or wider.text == match.text:
        return True
    if match.keys:
        return wider.kind in ("queue", "queues") and all(wider.test(key) for key in match.keys)
    if match.kind in ("domain", "host") and match.exact is not None:
        return wider.kind in ("domain", "host")[: 2 if match.kind == "host" else 1] and bool(wider.test(match.exact))
    return False
