"""Settings per URI: the flat form that the engine uses, computed from overrides and adjustments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from budgetfrontier.bounded_cache import BoundedCache
from budgetfrontier.errors import SettingsError
from budgetfrontier.settings.matching import Match, parse_match, subject_of
from budgetfrontier.settings.names import per_uri
from budgetfrontier.settings.schema import FrontierSettings, Override
from budgetfrontier.settings.validation import Validator

__all__ = [
    "Effective",
    "Match",
    "Override",
    "QueueSettings",
    "compacted",
    "parse_match",
    "validate_override",
    "value_in",
]

_CACHED = 16_384  # entries of the cache, a few MiB


class QueueSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings in force for one URI and its queue. Durations are seconds."""

    balance_replenish_amount: int
    queue_total_budget: int
    reached: bool
    """Whether to retire a queue when its total budget is reached, not only when it is exceeded."""
    error_penalty_amount: int
    precedence: int
    cost_policy: Any
    lifo: bool
    max_queue_size: int
    delay_factor: float
    min_delay: float
    max_delay: float
    respect_crawl_delay_up_to: float
    jitter: float
    per_queue_concurrency: int
    max_retries: int
    retry_delay: float
    revisit_after: float
    retry_uri: bool
    """Whether a retry delays only the URI, not its queue."""


# Settings whose field has another name: the field, and the conversions of the value to it and back.
_RENAMED: dict[str, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "retire_when": ("reached", "reached".__eq__, ("exceeded", "reached").__getitem__),
    "order": ("lifo", "lifo".__eq__, ("fifo", "lifo").__getitem__),
    "retry.delay": ("retry_delay", float, float),
    "retry.scope": ("retry_uri", "uri".__eq__, ("queue", "uri").__getitem__),
    "revisit.after": ("revisit_after", float, float),
}


def _flat(name: str, value: Any) -> tuple[str, Any]:
    """Return the field of QueueSettings for a setting, and the value of the field."""
    if name in _RENAMED:
        field, convert, _ = _RENAMED[name]
        return field, convert(value)
    return name.rpartition(".")[2], value


def value_in(settings: QueueSettings, name: str) -> Any:
    """Return the value of a setting by its dotted name, as written in the settings."""
    if name in _RENAMED:
        field, _, show = _RENAMED[name]
        return show(getattr(settings, field))
    return getattr(settings, name.rpartition(".")[2])


def _value(settings: Any, name: str) -> Any:
    for part in name.split("."):
        settings = getattr(settings, part)
    return settings


class Effective:
    """The settings in force for each URI: `base`, then all matching overrides in order; later ones win per setting.

    `for_uri` costs two dictionary look-ups for a cached authority; otherwise one per label of the host, and a test for
    each override with a glob, SURT prefix or regex. The cache is bounded.
    """

    def __init__(self, base: FrontierSettings, overrides: Sequence[Override] = ()) -> None:
        self.base = QueueSettings(**dict(_flat(name, _value(base, name)) for name in per_uri()))
        self.trivial = not overrides
        self._patches = [dict(_flat(*item) for item in override.set.items()) for override in overrides]
        self._always: list[int] = []
        self._exact: dict[tuple[str, str], list[int]] = {}
        self._tests: list[tuple[int, Match]] = []
        self._slow: list[tuple[int, Match]] = []
        self.mixes_precedences = False
        """Whether URIs of one queue may have different precedences."""
        for index, override in enumerate(overrides):
            self._file(index, parse_match(override.match))
        self._matching: BoundedCache[tuple[str, str], tuple[int, ...]] = BoundedCache(_CACHED)
        self._settings: BoundedCache[tuple[int, ...], QueueSettings] = BoundedCache(_CACHED)

    def for_uri(self, href: str, queue: str) -> QueueSettings:
        """Return the settings for the URI with this normalized href, in this queue."""
        if self.trivial:
            return self.base
        key = (href[: href.find("/", 8)], queue)
        matching = self._matching.get(key)
        if matching is None:
            matching = self._matching_authority(href, queue)
            if len(key[0]) < 512:  # long userinfo, which may be arbitrary, is not cached
                self._matching.put(key, matching)
        if slow := [index for index, match in self._slow if match.matches(href, queue)]:
            matching = tuple(sorted([*matching, *slow]))
        settings = self._settings.get(matching)
        if settings is None:
            settings = self._patched(matching)
            self._settings.put(matching, settings)
        return settings

    def variants(self) -> Iterator[QueueSettings]:
        """Yield the settings without overrides, then those with each single override."""
        yield self.base
        for patch in self._patches:
            yield msgspec.structs.replace(self.base, **patch)

    def _file(self, index: int, match: Match) -> None:
        """Index a match: exact names go into a table, so that thousands of them cost nothing."""
        self.mixes_precedences |= "precedence" in self._patches[index] and match.kind not in ("*", "queue")
        if match.kind == "*":
            self._always.append(index)
        elif match.exact is not None:
            self._exact.setdefault((match.kind, match.exact), []).append(index)
        else:
            (self._tests if match.by_authority else self._slow).append((index, match))

    def _matching_authority(self, href: str, queue: str) -> tuple[int, ...]:
        """Return the indexes of overrides that match by authority and queue, in order, without those for all URIs."""
        exact = self._exact
        host = subject_of("host", href, queue)
        matching = [*exact.get(("host", host), ()), *exact.get(("queue", queue), ())]
        domain = host
        while domain:
            matching += exact.get(("domain", domain), ())
            domain = domain.partition(".")[2]
        matching += [index for index, match in self._tests if match.matches(href, queue)]
        return tuple(sorted(matching))

    def _patched(self, matching: tuple[int, ...]) -> QueueSettings:
        changes: dict[str, Any] = {}
        for index in sorted([*self._always, *matching]):
            changes |= self._patches[index]
        return msgspec.structs.replace(self.base, **changes)


def compacted(overrides: Sequence[Override]) -> list[Override]:
    """Return the overrides without ineffective ones, whose settings are all set by later ones with the same match.

    The later ones match the same URIs and win, so that the result is the same. O(settings).
    """
    shadowed: dict[str, set[str]] = {}
    kept: list[Override] = []
    for override in reversed(overrides):
        set_later = shadowed.setdefault(override.match, set())
        fields = {_flat(name, value)[0] for name, value in override.set.items()}
        if not fields <= set_later:
            set_later |= fields
            kept.append(override)
    return kept[::-1]


def validate_override(
    match: str, settings: Mapping[str, Any], *, folder: Path | None = None, warnings: list[str] | None = None
) -> Override:
    """Return an override with its values parsed, `{"min_delay": "3s"}` in seconds. SettingsError lists every problem.

    `settings` may be nested, `{"politeness": {"min_delay": 1}}`, or dotted, `{"politeness.min_delay": 1}`. With a
    `folder`, they are checked as in a YAML file there, and policies `module:name` are imported. Warnings about values
    that are valid but probably a mistake are appended to `warnings`.
    """
    validator = Validator(folder=folder)
    problems: list[str] = []
    try:
        parse_match(match)
    except SettingsError as error:
        problems = error.problems
    override = Override(match=match, set=validator.overriding(settings))
    try:
        validator.check()
    except SettingsError as error:
        problems = problems + error.problems
    if warnings is not None:
        warnings += [warning.message for warning in validator.warnings]
    if problems:
        raise SettingsError(problems)
    return override
