"""The groups of queues that the settings define: which of them a queue belongs to, and its limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from budgetfrontier.core import uris
from budgetfrontier.core.bounded_cache import BoundedCache
from budgetfrontier.core.model import CrawlUri
from budgetfrontier.core.spelling import did_you_mean
from budgetfrontier.settings import policy_factory
from budgetfrontier.settings.matching import GROUP, Match, glob, has_wildcards, key_test, parse_match
from budgetfrontier.settings.names import OF_GROUPS, is_of_groups
from budgetfrontier.settings.problems import ValuePath
from budgetfrontier.settings.schema import FrontierSettings, GroupSettings, Override, StarSettings
from budgetfrontier.settings.values import brief

STAR = "star"
"""The total budget of groups that follows from the links to their registered domains."""
LONGEST_VALUE = 399
"""The most bytes of a value in the name of a group, which is no longer than 500 then: a key of its tables."""
_CACHED = 1 << 14  # groups whose limits are kept in memory


class GroupLimits(msgspec.Struct, frozen=True):
    """The limits of a group. Without one: `max_in_flight` None, `total_budget` -1, `max_bandwidth` 0, `quotas` {}."""

    politeness: bool = False
    max_in_flight: int | None = None
    total_budget: int = -1
    max_bandwidth: int = 0
    quotas: dict[str, int] = {}


NO_LIMITS = GroupLimits()
"""The limits of a group that the settings do not define any more, until its queues have left it."""


class Grouping:
    """The groups of the settings. A queue belongs to the first that its head fits, or to none.

    `overrides` are those in force, adjustments after the others: their limits for `group:...` replace those of the
    definition.
    """

    def __init__(self, groups: Sequence[GroupSettings], overrides: Iterable[Override] = ()) -> None:
        self.groups = groups
        self._changes = [(one, fits(one.match, groups), limits) for one in overrides if (limits := _limits_in(one))]
        self.uses: tuple[str | None, Callable[[str], str | None], Callable[[str], int]] = None, _unknown, _no_budget
        """The public suffix list for registered domains, and functions for the addresses of hosts and the budgets by
        links of domains: see `use`."""
        self._domain_of: Callable[[CrawlUri], str] | None = None
        self.star = frozenset(group.name for group in groups if group.total_budget == STAR)
        """The names of the definitions with `total_budget: star`."""
        self.by_address = any(group.by == "ip" for group in groups)
        """Whether some group depends on the addresses of hosts."""
        self._tests = [(group.name, self._test(group)) for group in groups]
        self._definitions = {
            group.name: GroupLimits(
                group.politeness,
                1 if group.max_in_flight is None and group.politeness else group.max_in_flight,
                group.total_budget if isinstance(group.total_budget, int) else 0,
                group.max_bandwidth,
                group.quotas,
            )
            for group in groups
        }
        limits_in_force = [*map(asdict, self._definitions.values()), *(own for _, _, own in self._changes)]
        self.limits_bandwidth = any(limits.get("max_bandwidth") for limits in limits_in_force)
        """Whether some group has a bandwidth."""
        self.limits_fetches = bool(groups) and any(limits.get("quotas") for limits in limits_in_force)
        """Whether some group has quotas."""
        self._limits: BoundedCache[str, GroupLimits] = BoundedCache(_CACHED)

    def use(
        self,
        suffix_list: str | None,
        address: Callable[[str], str | None],
        star_budget: Callable[[str], int],
    ) -> None:
        """Take registered domains, addresses of hosts, and budgets by links from what is stored in the frontier."""
        self.uses, self._domain_of = (suffix_list, address, star_budget), None

    def waits_for_address(self, uri: CrawlUri) -> bool:
        """Return whether a queue with this head may belong to another group once the address of its host is known."""
        return self.by_address and self._address(uri) is None

    def name_of(self, uri: CrawlUri, queue: str) -> str | None:
        """Return the name of the group of a queue with this head; None if it belongs to none."""
        for name, test in self._tests:
            value = test(uri, queue)
            if value is not None:
                return name + value
        return None

    def match(self, text: str) -> Match:
        """Return a pattern `group:...` as one that matches the heads of the queues in such groups."""
        in_group = fits(text, self.groups)

        def decide(href: str, queue: str, label: str | None) -> bool:
            name = self.name_of(CrawlUri(href, source=label), queue)
            return name is not None and in_group(name)

        return Match("group", text, in_group, by_authority=False, decide=decide)

    def limits_of(self, name: str) -> GroupLimits:
        """Return the limits in force of a group, by its full name."""
        limits = self._limits.get(name)
        if limits is None:
            definition, _, domain = name.partition("/")
            limits = self._definitions.get(definition)
            if limits is None:
                return NO_LIMITS
            changes = self._changes_in_force(name)
            if definition in self.star and "total_budget" not in changes:
                changes["total_budget"] = self.uses[2](domain if len(domain.encode()) <= LONGEST_VALUE else "")
            limits = replace(limits, **changes)
            self._limits.put(name, limits)
        return limits

    def goes_by_links(self, name: str) -> bool:
        """Return whether the total budget of a group, by its full name, follows from the links to its domain."""
        return name.partition("/")[0] in self.star and "total_budget" not in self._changes_in_force(name)

    def _changes_in_force(self, name: str) -> dict[str, Any]:
        changes = {what: value for _, own in self.changes_of(name) for what, value in own.items()}
        return {what: value for what, value in changes.items() if value is not None}

    def has_no_limit(self, definition: str) -> bool:
        """Return whether the groups of a definition have no limit, and no override is for some of them."""
        for_some = (one.match.removeprefix(GROUP).partition("/")[0] for one, _, _ in self._changes)
        return self._definitions[definition] == NO_LIMITS and not any(glob(name)(definition) for name in for_some)

    def changes_of(self, name: str) -> Iterator[tuple[Override, dict[str, Any]]]:
        """Yield the overrides that set limits of a group, by its full name, in order, each with these limits."""
        return ((one, limits) for one, in_group, limits in self._changes if in_group(name))

    def _test(self, group: GroupSettings) -> Callable[[CrawlUri, str], str | None]:
        """Return a function that returns what follows the name of a group for a URI; None if it does not belong."""
        if group.match is not None:
            match = parse_match(group.match)
            return lambda uri, queue: "" if match.matches(uri.url, queue, uri.source) else None
        value = self._values(group)

        def named(uri: CrawlUri, queue: str) -> str | None:
            found = value(uri)
            return f"/{_shortened(found)}" if found else None

        return named

    def _values(self, group: GroupSettings) -> Callable[[CrawlUri], str | None]:
        if group.by == "registered-domain":
            return self.registered_domain
        if group.by == "ip":
            return self._address
        if group.by == "label":
            return lambda uri: uri.source
        if group.by == "surt":
            return lambda uri: _segments(uri.url, group.segments)
        return lambda uri: uris.host(uri.url)

    def _address(self, uri: CrawlUri) -> str | None:
        return self.uses[1](uris.host(uri.url))

    def registered_domain(self, uri: CrawlUri) -> str:
        """Return the registered domain of a URI with a normalized URL."""
        if self._domain_of is None:
            self._domain_of = policy_factory.registered_domain(self.uses[0])
        return self._domain_of(uri)


def fits(text: str, groups: Sequence[GroupSettings]) -> Callable[[str], bool]:
    """Return the test of the full names of groups for `group:NAME`, all groups of a definition, or `group:NAME/VALUE`.

    Both parts may be globs. Values that are hosts or parts of them are meant in any spelling, labels as they are.

    >>> [fits(text, ())("site/a.test") for text in ("group:site", "group:s*/*.test", "group:site/A.test", "group:a")]
    [True, True, True, False]
    """
    of_name, slash, of_value = text.removeprefix(GROUP).partition("/")
    named, as_typed = glob(of_name), glob(of_value if has_wildcards(of_value) else _shortened(of_value))
    as_host = key_test(of_value)
    labels = frozenset(group.name for group in groups if group.by == "label")

    def test(name: str) -> bool:
        definition, has_value, value = name.partition("/")
        fit = named(definition) and (not slash or has_value)
        return bool(fit and (not slash or as_typed(value) or (definition not in labels and as_host(value))))

    return test


def _shortened(value: str) -> str:
    """Return the beginning of a value, as it is in the names of groups."""
    return value.encode()[:LONGEST_VALUE].decode(errors="ignore")


def _limits_in(override: Override) -> dict[str, Any]:
    """Return the limits that an override sets for groups, as fields of GroupLimits."""
    if not override.match.startswith(GROUP):
        return {}
    return {name.removeprefix(OF_GROUPS): value for name, value in override.set.items() if is_of_groups(name)}


def of_uris(overrides: Sequence[Override], groups: Sequence[GroupSettings]) -> Sequence[Override]:
    """Return overrides without limits of groups; `group:...` becomes the patterns of the definitions that it fits."""
    if not any(one.match.startswith(GROUP) for one in overrides):
        return overrides
    found: list[Override] = []
    for number, one in enumerate(overrides, 1):
        if not one.match.startswith(GROUP):
            found.append(one)
            continue
        own = {name: value for name, value in one.set.items() if not is_of_groups(name)}
        at = one.at or (f"override {number}" if not one.id else "")
        found += [replace(one, match=match, set=own, at=at) for match in patterns(one.match, groups) if own]
    return found


def patterns(text: str, groups: Sequence[GroupSettings]) -> list[str]:
    """Return the patterns of the URIs that the definitions of the groups fit which a pattern names; others: itself."""
    if not text.startswith(GROUP):
        return [text]
    of_name, slash, value = text.removeprefix(GROUP).partition("/")
    named = glob(of_name)
    return [
        found
        for group in groups
        if named(group.name) and not (slash and group.match) and (found := _pattern_of(group, value or "*"))
    ]


def _pattern_of(group: GroupSettings, value: str) -> str | None:
    """Return the pattern of the URIs that one group of a definition, or with "*" each, has; None if there is none."""
    if group.match is not None:
        return group.match
    if group.by in ("ip", "label") and value == "*":
        return None
    if value == "*":
        return "*"
    if group.by == "host":
        return f"host:{value}"
    if has_wildcards(value) or group.by == "ip":
        return None
    if len(value.encode()) > LONGEST_VALUE - 4:  # it may be the beginning of several values
        return None
    if group.by == "label":
        return f"label:{value}"
    if group.by == "registered-domain":
        return f"domain:{value}"
    parts = value.split(",")
    return (
        f"surt:({value},"
        if len(parts) == group.segments and uris.own_address(value) is None
        else f"host:{'.'.join(reversed(parts))}"
    )


def misplaced(override: Override) -> str | None:
    """Return that an override sets a limit of groups, and its pattern names none; None if that is not so."""
    name = next(filter(is_of_groups, override.set), None)
    if name is None or override.match.startswith(GROUP):
        return None
    return f"{name} is a limit of groups of queues: set it for {GROUP}NAME, or {GROUP}NAME/VALUE, as the match"


def objection(override: Override, groups: Sequence[GroupSettings]) -> str | None:
    """Return why an override for groups cannot be applied with these definitions; None if it can."""
    if not override.match.startswith(GROUP):
        return None
    of_name, slash, value = override.match.removeprefix(GROUP).partition("/")
    fitting = [group for group in groups if glob(of_name)(group.name)]
    if not fitting:
        names = [group.name for group in groups]
        hint = did_you_mean(of_name, names) or (f"; there are {', '.join(names)}" if names else ": there are none")
        return f'no group is defined as "{brief(of_name)}"{hint}'
    if slash and (whole := next((group.name for group in fitting if group.match), None)):
        return f'"{whole}" is one group, without a value: write "{GROUP}{whole}"'
    others = [name for name in override.set if not is_of_groups(name)]
    for group in fitting if others else ():
        if _pattern_of(group, value or "*") is None:
            return (
                f"{others[0]} is a setting of URIs, and no pattern of URIs stands for {override.match}, by: {group.by};"
                f" set it with another match, such as host:... (the limits {OF_GROUPS}... need no such pattern)"
            )
    return None


def without_effect(frontier: FrontierSettings, groups: Sequence[GroupSettings]) -> Iterator[tuple[ValuePath, str]]:
    """Yield the settings of groups that have no effect, for there are no such groups, each with the reason."""
    for name, value in asdict(frontier.group).items() if not groups else ():
        if value is not None:
            yield ("frontier", "group", name), "it has no effect, for no `groups` are defined"
    if not wants_star(groups) and frontier.star != StarSettings():
        yield ("frontier", "star"), f"it has no effect, for no group has `total_budget: {STAR}`"


def wants_star(groups: Sequence[GroupSettings]) -> bool:
    """Return whether some group gets its budget by the links to its domain."""
    return any(group.total_budget == STAR for group in groups)


def _no_budget(domain: str) -> int:
    """Return the total budget of a domain by its links; "": of one to which none lead. None is known before `use`."""
    raise AssertionError("no budgets yet")


def _unknown(host: str) -> None:
    """Return the address of a host that has none."""


def _segments(href: str, number: int) -> str:
    """Return the first segments of the SURT of a host, two of www.example.org: `org,example`. Addresses are whole."""
    found = uris.surt_authority(uris.host(href))
    return ",".join(found.rstrip(",").split(",")[:number])
