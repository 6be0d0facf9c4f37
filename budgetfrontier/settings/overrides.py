"""Settings per URI: the flat form that queues are run by, and how overrides and adjustments lead to it."""

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

_CACHED = 16_384  # entries, a few MiB: what is forgotten is computed again


class QueueSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings in force for one URI and its queue. Durations are seconds."""

    balance_replenish_amount: int
    queue_total_budget: int
    reached: bool
    """Retire when the total budget is reached, not only when it is exceeded."""
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
    """A retry sets only the URI aside, not its queue."""


# The field of a setting whose last name is not its own: what becomes of the value there, and of that to show it.
_RENAMED: dict[str, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "retire_when": ("reached", "reached".__eq__, ("exceeded", "reached").__getitem__),
    "order": ("lifo", "lifo".__eq__, ("fifo", "lifo").__getitem__),
    "retry.delay": ("retry_delay", float, float),
    "retry.scope": ("retry_uri", "uri".__eq__, ("queue", "uri").__getitem__),
    "revisit.after": ("revisit_after", float, float),
}


def _flat(name: str, value: Any) -> tuple[str, Any]:
    """Return the field of QueueSettings that a setting decides, and its value there."""
    if name in _RENAMED:
        field, convert, _ = _RENAMED[name]
        return field, convert(value)
    return name.rpartition(".")[2], value


def value_in(settings: QueueSettings, name: str) -> Any:
    """Return the value of a setting, by its dotted name, as it is written."""
    if name in _RENAMED:
        field, _, show = _RENAMED[name]
        return show(getattr(settings, field))
    return getattr(settings, name.rpartition(".")[2])


def _value(settings: Any, name: str) -> Any:
    for part in name.split("."):
        settings = getattr(settings, part)
    return settings


class Effective:
    """The settings in force for each URI: `base`, then all overrides that match it in order; later wins per setting.

    `for_uri` costs two dictionary look-ups for an authority seen before; else one per label of the host, and a test for
    each override with a glob, SURT prefix or regex. What it remembers is bounded.
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
        """Whether two URIs of one queue may ask for different precedences."""
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
            if len(key[0]) < 512:  # userinfo may be long, and made up
                self._matching.put(key, matching)
        if slow := [index for index, match in self._slow if match.matches(href, queue)]:
            matching = tuple(sorted([*matching, *slow]))
        settings = self._settings.get(matching)
        if settings is None:
            settings = self._patched(matching)
            self._settings.put(matching, settings)
        return settings

    def variants(self) -> Iterator[QueueSettings]:
        """Yield the settings without overrides, then those that each override alone leads to."""
        yield self.base
        for patch in self._patches:
            yield msgspec.structs.replace(self.base, **patch)

    def _file(self, index: int, match: Match) -> None:
        """Put a match where it is found fastest: exact names into a table, so that thousands of them cost nothing."""
        self.mixes_precedences |= "precedence" in self._patches[index] and match.kind not in ("*", "queue")
        if match.kind == "*":
            self._always.append(index)
        elif match.exact is not None:
            self._exact.setdefault((match.kind, match.exact), []).append(index)
        else:
            (self._tests if match.by_authority else self._slow).append((index, match))

    def _matching_authority(self, href: str, queue: str) -> tuple[int, ...]:
        """Return which overrides match by scheme, host, port and queue, in order; not those that match everything."""
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
    """Return the overrides without those that have no effect: later ones with the same match set all that they set.

    Whatever URI such a one matches, the later ones match too, and later wins per setting: nothing changes. O(settings).
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
    """Return an override with its values read, `{"min_delay": "3s"}` in seconds; SettingsError lists every problem.

    `settings` may nest, `{"politeness": {"min_delay": 1}}`, or be dotted, `{"politeness.min_delay": 1}`. With a
    `folder` they are checked as in a YAML file there: a policy of one's own is imported. What is said of values that
    are valid, but probably not what was meant, is appended to `warnings`.
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
