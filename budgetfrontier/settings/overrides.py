"""Settings per URI: the flat form that the engine uses, computed from overrides and adjustments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from budgetfrontier.core import uris
from budgetfrontier.core.bounded_cache import BoundedCache
from budgetfrontier.core.vocabulary import QUOTA_KINDS
from budgetfrontier.errors import SettingsError
from budgetfrontier.settings import windows
from budgetfrontier.settings.authority_index import AuthorityIndex
from budgetfrontier.settings.grouping import misplaced
from budgetfrontier.settings.matching import Match, parse_match
from budgetfrontier.settings.names import SHEET, WITHOUT_SHEET, is_of_groups, per_uri
from budgetfrontier.settings.schema import FrontierSettings, Override
from budgetfrontier.settings.unmatchable import never_matches
from budgetfrontier.settings.validation import Validator
from budgetfrontier.settings.values import brief

__all__ = [
    "Effective",
    "Match",
    "Override",
    "QueueSettings",
    "compacted",
    "objections",
    "parse_match",
    "validate_override",
    "value_in",
]

Limits = tuple[tuple[str, int], ...]
"""The amounts that a quota limits, each with its limit."""
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
    uri_precedence_policy: Any
    lifo: bool
    max_queue_size: int
    delay_factor: float
    min_delay: float
    max_delay: float
    respect_crawl_delay_up_to: float
    jitter: float
    per_queue_concurrency: int
    min_interval: float
    max_bandwidth: int
    max_retries: int
    retry_delay: float
    revisit_after: float
    retry_uri: bool
    """Whether a retry delays only the URI, not its queue."""
    retry_statuses: frozenset[int]
    status_retries: int
    status_delay: float
    backoff_delay: float
    backoff_factor: float
    backoff_max_delay: float
    backoff_forgive_after: float
    quota_host: Limits
    quota_queue: Limits
    quota_label: Limits
    force_retire: bool
    windows: tuple[str, ...]
    total_adjusted: bool = False
    """Whether `queue_total_budget` is that of an adjustment."""


# Settings that have another name as a field: the field, and the conversions of the value to it and back.
_RENAMED: dict[str, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "retire_when": ("reached", "reached".__eq__, ("exceeded", "reached").__getitem__),
    "order": ("lifo", "lifo".__eq__, ("fifo", "lifo").__getitem__),
    "retry.delay": ("retry_delay", float, float),
    "retry.scope": ("retry_uri", "uri".__eq__, ("queue", "uri").__getitem__),
    "retry.statuses": ("retry_statuses", frozenset, sorted),
    windows.NAME: ("windows", tuple, list),
    "revisit.after": ("revisit_after", float, float),
    **{
        f"backoff.{name}": (f"backoff_{name}", float, float)
        for name in ("delay", "factor", "max_delay", "forgive_after")
    },
    **{f"quotas.{kind}": (f"quota_{kind}", lambda quota: tuple(quota.items()), dict) for kind in QUOTA_KINDS},
}


def _field(name: str) -> str:
    if is_of_groups(name):
        return name  # of no URI
    return _RENAMED[name][0] if name in _RENAMED else name.rpartition(".")[2]


def _flat(name: str, value: Any) -> tuple[str, Any]:
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


Test = tuple[int, str, Callable[[str], Any]]
"""A power of two, a text contained in every href that an override matches, and the test for a match."""


class ByAuthority(msgspec.Struct, frozen=True, gc=False):
    """The result of comparing overrides with the URIs of one authority in one queue."""

    matching: tuple[int, ...]
    """The overrides that match all of them, in order, without those for all URIs."""
    settings: QueueSettings
    """The settings where no other override matches."""
    tests: tuple[Test, ...]
    """The tests for the others."""
    tested: tuple[int, ...]
    """The overrides that these tests are for."""
    number: int
    """A number for all this: with the powers of two of the tests that succeed, it is the number of the settings."""


class Effective:
    """The settings in force for each URI: `base`, then all matching overrides in order; later ones win per setting.

    `for_uri` costs one dictionary look-up for a cached authority, a search for each override with a regex, and a
    comparison for each SURT prefix with a path on this authority. For a new authority it costs one look-up per label of
    the host, a test for each override with a glob, and a comparison for each SURT prefix at one of its domains. The
    cache is bounded. `adjustments` are overrides that come after the others.
    """

    def __init__(
        self, base: FrontierSettings, overrides: Sequence[Override] = (), adjustments: Iterable[Override] = ()
    ) -> None:
        first, overrides = len(overrides), [*overrides, *adjustments]
        self.base = QueueSettings(
            **dict(_flat(name, _value(base, name)) for name in per_uri() if not is_of_groups(name))
        )
        self.trivial = not overrides
        self._patches = [dict(_flat(*item) for item in override.set.items()) for override in overrides]
        for patch in self._patches[first:]:
            if "queue_total_budget" in patch:
                patch["total_adjusted"] = True
        self.limits_queues = any(patch.get("max_queue_size") for patch in self._patches)
        """Whether an override limits the size of queues."""
        self.quotas = frozenset(
            kind
            for kind in QUOTA_KINDS
            if getattr(self.base, f"quota_{kind}") or any(patch.get(f"quota_{kind}") for patch in self._patches)
        )
        """What has quotas, for any URI."""
        self._always: list[int] = []
        self._index = AuthorityIndex()
        self._labels: dict[str, list[int]] = {}
        self._regexes: list[tuple[int, Match]] = []  # they look at the whole href
        self.mixes_precedences = False
        """Whether URIs of one queue may have different precedences."""
        for index, override in enumerate(overrides):
            self._file(index, parse_match(override.match))
        self._on_all = tuple((1 << n, match.needs, match.test) for n, (_, match) in enumerate(self._regexes))
        self._tested_on_all = tuple(index for index, _ in self._regexes)
        self._authorities: BoundedCache[tuple[str | None, ...], ByAuthority] = BoundedCache(_CACHED)
        self._settings: BoundedCache[tuple[int, ...], QueueSettings] = BoundedCache(_CACHED)
        self._by_number: BoundedCache[int, QueueSettings] = BoundedCache(_CACHED)
        self._numbers: BoundedCache[tuple[tuple[int, ...], tuple[int, ...]], int] = BoundedCache(_CACHED)
        self._next_number = 1
        self._known: BoundedCache[tuple[int, ...], ByAuthority] = BoundedCache(_CACHED)
        some = len(self._always) < len(overrides)
        self._of_all = self.base if self.trivial else None if some else self._combined(())

    def for_uri(self, href: str, queue: str, label: str | None = None) -> QueueSettings:
        """Return the settings for the URI with this normalized href and label (`source`), in this queue.

        It is the same object for all URIs that the same overrides match, unless there are very many combinations.
        """
        return self._of_all or self.settings_of(self.by_authority(href, queue, label), href)

    def for_all_like(self, href: str, queue: str, label: str | None) -> tuple[QueueSettings, bool]:
        """Return the result of `for_uri`, and whether it is that of all URIs with the same authority and label, too."""
        if self._of_all is not None:
            return self._of_all, True
        known = self.by_authority(href, queue, label)
        return self.settings_of(known, href), not known.tests

    def for_one(self, href: str, queue: str, label: str | None = None) -> QueueSettings:
        """Return the result of `for_uri`, for one URI of each of very many queues: nothing is cached."""
        if self._of_all is not None:
            return self._of_all
        return self.settings_of(self._unkept(href[: href.find("/", 8)], queue, self._of_label(label)), href)

    def by_authority(self, href: str, queue: str, label: str | None = None) -> ByAuthority:
        """Return the overrides of a href's authority and label, in this queue: `settings_of` needs it."""
        prefix = href[: href.find("/", 8)]
        if self._labels and label in self._labels:
            return self._authorities.get((prefix, queue, label)) or self._look_at(prefix, queue, label)
        return self._authorities.get((prefix, queue)) or self._look_at(prefix, queue)

    def _of_label(self, label: str | None) -> Sequence[int]:
        return self._labels.get(label, ()) if label else ()

    def settings_of(self, known: ByAuthority, href: str) -> QueueSettings:
        """Return the result of `for_uri`, for a href with a known authority."""
        if not known.tests:
            return known.settings
        number = known.number
        for power, needed, test in known.tests:
            if needed in href and test(href):
                number += power
        return self._by_number.get(number) or self._numbered(known, number)

    def _numbered(self, known: ByAuthority, number: int) -> QueueSettings:
        succeeded = number - known.number
        matching = [index for place, index in enumerate(known.tested) if succeeded >> place & 1]
        settings = self._combined(tuple(sorted([*known.matching, *matching])))
        self._by_number.put(number, settings)
        return settings

    def applying(self, href: str, queue: str, label: str | None = None) -> list[int]:
        """Return the indexes of the overrides that match the URI with this href and label, in this queue, in order."""
        known = self.by_authority(href, queue, label)
        tested = zip(known.tested, known.tests, strict=True)
        found = (index for index, (_, needed, test) in tested if needed in href and test(href))
        return sorted([*self._always, *known.matching, *found])

    def is_uniform(self, name: str) -> bool:
        """Return whether a setting has the same value for all URIs.

        It has if no override that comes after the last one for everything gives it another value.
        """
        field = _field(name)
        last = next((index for index in reversed(self._always) if field in self._patches[index]), -1)
        value = getattr(self.base, field) if last < 0 else self._patches[last][field]
        return all(patch.get(field, value) == value for patch in self._patches[last + 1 :])

    def variants(self) -> Iterator[QueueSettings]:
        """Yield the settings without overrides, then those with each single override."""
        yield self.base
        for patch in self._patches:
            yield msgspec.structs.replace(self.base, **patch)

    def _file(self, index: int, match: Match) -> None:
        """Index a match: exact names go into a table, so that thousands of them cost nothing."""
        self.mixes_precedences |= "precedence" in self._patches[index] and not match.by_key
        if match.kind == "*":
            self._always.append(index)
        elif match.kind == "regex":
            self._regexes.append((index, match))
        elif match.kind == "label":
            self._labels.setdefault(match.text.partition(":")[2], []).append(index)
        else:
            self._index.add(index, match)

    def _look_at(self, prefix: str, queue: str, label: str | None = None) -> ByAuthority:
        """Find out which overrides match an authority in a queue, with a label, and which depend on the rest of a href.

        Keep it if the authority is short.
        """
        known = self._unkept(prefix, queue, self._of_label(label))
        if len(prefix) < 512:  # long userinfo, which may be arbitrary, is not cached
            self._authorities.put((prefix, queue) if label is None else (prefix, queue, label), known)
        return known

    def _unkept(self, prefix: str, queue: str, by_label: Sequence[int]) -> ByAuthority:
        """Return the overrides of an authority, the start of a href up to its path, without caching them."""
        matching, near = self._index.find(prefix, queue)
        if by_label:
            matching = tuple(sorted((*matching, *by_label)))
        paths = self._path_tests(prefix, near) if near else ()
        if not paths and (known := self._known.get(matching)) is not None:
            return known
        tested = self._tested_on_all + tuple(index for index, _ in paths)
        tests = self._on_all + tuple((1 << place, *test) for place, (_, test) in enumerate(paths, len(self._on_all)))
        number = self._number(matching, tested)
        known = ByAuthority(matching, self._combined(matching), tests, tested, number)
        if not paths:
            self._known.put(matching, known)
        return known

    def _number(self, matching: tuple[int, ...], tested: tuple[int, ...]) -> int:
        """Return the number of authorities that these overrides match, and these may; as many more are theirs alone."""
        number = self._numbers.get((matching, tested))
        if number is None:
            number = self._next_number
            self._next_number += 1 << len(tested)
            self._numbers.put((matching, tested), number)
        return number

    @staticmethod
    def _path_tests(
        prefix: str, near: Iterable[tuple[int, Match]]
    ) -> list[tuple[int, tuple[str, Callable[[str], Any]]]]:
        """Return the tests for SURT prefixes with a path, as far as the authority of a href may match them, by index.

        A SURT is that of the authority alone, and then the rest of the href.
        """
        start = uris.surt(prefix + "/")[:-1]
        found: list[tuple[int, tuple[str, Callable[[str], Any]]]] = []
        for index, match in near:
            rests = tuple(wanted[len(start) :] for wanted in match.prefixes if _may_begin(wanted, start))
            if rests:
                found.append((index, (rests[0] if len(rests) == 1 else "", _path_test(rests, len(prefix)))))
        return found

    def _combined(self, matching: tuple[int, ...]) -> QueueSettings:
        settings = self._settings.get(matching)
        if settings is None:
            changes: dict[str, Any] = {}
            for index in sorted([*self._always, *matching]):
                changes |= self._patches[index]
            settings = msgspec.structs.replace(self.base, **changes)
            self._settings.put(matching, settings)
        return settings


def _may_begin(wanted: str, start: str) -> bool:
    """Return whether a text that begins with `start` may begin with `wanted`."""
    return wanted.startswith(start) or start.startswith(wanted)


def _path_test(rests: tuple[str, ...], slash: int) -> Callable[[str], bool]:
    """Return a test whether a href goes on with one of `rests` after its authority."""
    return lambda href: href.startswith(rests, slash)


def compacted(overrides: Sequence[Override]) -> list[Override]:
    """Return the overrides without ineffective ones: later ones with the same match set all of their settings.

    The later ones match the same URIs and win, so that the result is the same. O(settings).
    """
    shadowed: dict[str, set[str]] = {}
    kept: list[Override] = []
    for override in reversed(overrides):
        set_later = shadowed.setdefault(override.match, set())
        sheet = override.set.get(SHEET) or override.set.get(WITHOUT_SHEET)
        fields = {f"sheet {sheet}"} if sheet else set(map(_field, override.set))
        if not fields <= set_later:
            set_later |= fields
            kept.append(override)
    return kept[::-1]


def objections(adjustment: Override) -> Iterator[str]:
    """Yield what is wrong with an adjustment whose match and settings are right, each for itself."""
    if adjustment.match.startswith("sheet:") and not adjustment.set.keys().isdisjoint((SHEET, WITHOUT_SHEET)):
        yield f'"{brief(adjustment.match)}": a sheet is associated with URIs or queues, not with a sheet'
    if found := misplaced(adjustment):
        yield found


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
    problems = [*problems, *objections(override)]
    if warnings is not None:
        warnings += [warning.message for warning in validator.warnings]
    if problems:
        raise SettingsError(problems)
    if warnings is not None and (doubt := never_matches(match, own_keys=True)):
        warnings.append(doubt)
    return override
