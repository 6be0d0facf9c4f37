"""Checks of settings that are valid one by one: what they contradict in others, and what has no effect beside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from budgetfrontier.core.units import write_duration
from budgetfrontier.errors import SettingsError
from budgetfrontier.settings import grouping, policy_factory, schema
from budgetfrontier.settings.checks import BY_ADDRESS, is_named, policy_name, topics_objection
from budgetfrontier.settings.problems import ValuePath

NEEDS_URLS = (
    "update_priority has to find the URI that waits: set `frontier.keep_urls: true`, too, which is fixed when a "
    "frontier is created"
)

NEEDS_EXACT = "keep_urls records every URL with its state: leave `frontier.duplicates` as it is by default, exact"
NO_PARTITIONS = "a crawl in partitions cannot have a Bloom filter: `frontier.duplicates` is exact or noop there"
NO_TOTAL_BANDWIDTH = (
    "a crawl in partitions (cluster.kafka) has no bandwidth of its own, for each partition is crawled by itself: limit "
    "queues with frontier.politeness.max_bandwidth"
)
LABELS_IN_PARTITIONS = (
    "quotas.label is not possible in a crawl in partitions: the URIs with a label are in all of them; give quotas.host "
    "or quotas.queue"
)
NO_LIMIT = "set politeness, max_in_flight, total_budget, max_bandwidth or quotas, here or for `group:NAME` in overrides"
"""The remedy for a group of queues that has no limit."""


class WholeSettings(Protocol):
    """The sections of the settings that have to fit each other."""

    @property
    def frontier(self) -> schema.FrontierSettings: ...
    @property
    def sheets(self) -> Mapping[str, Mapping[str, Any]]: ...
    @property
    def overrides(self) -> Sequence[schema.Override]: ...
    @property
    def groups(self) -> Sequence[schema.GroupSettings]: ...
    @property
    def crawl(self) -> str: ...
    @property
    def cluster(self) -> schema.ClusterSettings: ...


def longer(min_delay: float, max_delay: float) -> str:
    """Return the problem of delays of which the least is more than the most."""
    return f"min_delay ({write_duration(min_delay)}) is longer than max_delay ({write_duration(max_delay)})"


def conflict(section: msgspec.Struct) -> str | None:
    """Return the conflict between valid values of one section; None if there is none."""
    match section:
        case schema.PolitenessSettings() if section.min_delay > section.max_delay:
            return longer(section.min_delay, section.max_delay)
        case schema.GuardSettings() if section.resume_at is not None and section.resume_at < section.min_free:
            return "resume_at is less than min_free: the crawl would pause again at once"
        case schema.CanonicalizationSettings() if section.ignore_params and section.keep_params:
            return "ignore_params and keep_params exclude each other; use one of them"
        case schema.FrontierSettings() if section.update_priority and not section.keep_urls:
            return NEEDS_URLS
        case schema.FrontierSettings(keep_urls=True) if section.duplicates != "exact":
            return NEEDS_EXACT
        case schema.StarSettings() if section.max_budget < section.default_budget:
            return f"max_budget is {section.max_budget}, less than the default_budget, {section.default_budget}"
        case schema.GroupSettings():
            return _group_objection(section)
        case schema.Seed() if (section.url is None) == (section.file is None):
            return "a seed has either a url or a file"
        case _:
            return None


def _group_objection(group: schema.GroupSettings) -> str | None:
    if not group.name:
        return "a group needs a name"
    if (group.match is None) == (group.by is None):
        return "a group has either a match, which its queues fit, or a by: then there is a group for each value"
    if group.total_budget == grouping.STAR and group.by != "registered-domain":
        return "total_budget: star needs by: registered-domain, for its budgets follow from the links to these domains"
    return None


def group_problems(settings: WholeSettings) -> Iterator[tuple[ValuePath, str]]:
    """Yield the overrides of groups that are not defined."""
    for index, override in enumerate(settings.overrides):
        if found := grouping.objection(override, settings.groups):
            yield ("overrides", index, "match"), found


def doubts(settings: WholeSettings) -> Iterator[tuple[ValuePath, str]]:
    """Yield what is probably a mistake: groups without a limit or an effect, and a floor that all queues are at."""
    limited = grouping.Grouping(settings.groups, settings.overrides)
    for index, group in enumerate(settings.groups):
        if limited.has_no_limit(group.name):
            yield ("groups", index), f'"{group.name}" has no limit: {NO_LIMIT}'
    yield from grouping.without_effect(settings.frontier, settings.groups)
    floor, precedence = settings.frontier.precedence_floor, settings.frontier.precedence
    if floor is None or precedence < floor or settings.frontier.precedence_policy != "base":
        return
    if not any(name.startswith("precedence") for _, values in _values_of_some(settings) for name in values):
        doubt = f"no queue is crawled: the precedence of all is {precedence}, and from {floor} on they are INELIGIBLE"
        yield ("frontier", "precedence_floor"), doubt


def seed_problems(
    frontier: schema.FrontierSettings, seeds: Iterable[tuple[ValuePath, str]]
) -> Iterator[tuple[ValuePath, str]]:
    """Yield the `seeds` with budgets or sheets whose queues are not known before they are fetched."""
    try:
        by_address = policy_factory.goes_by_address(frontier)
    except SettingsError:  # there is no such policy: said elsewhere
        return
    for path, url in seeds if by_address else ():
        if is_named(url):
            yield path, BY_ADDRESS


def partition_problems(settings: WholeSettings) -> Iterator[tuple[ValuePath, str]]:
    """Yield what no crawl in partitions can have: what no partition can know by itself."""
    frontier = settings.frontier
    if frontier.duplicates == "bloom":
        yield (), NO_PARTITIONS
    if found := topics_objection(settings.crawl):
        yield ("crawl",), found
    for index, group in enumerate(settings.groups):
        if found := _partitions_objection(group, policy_name(frontier.queue_assignment_policy)):
            yield ("groups", index), found
    if frontier.max_bandwidth:
        yield ("frontier", "max_bandwidth"), NO_TOTAL_BANDWIDTH
    try:
        refused = policy_factory.partition_objection(frontier)
    except SettingsError:  # there is no such policy, or it cannot be imported: said elsewhere
        refused = None
    if refused is not None:
        name, why = refused
        yield ("frontier", name), why
    if frontier.quotas.label:
        yield ("frontier", "quotas", "label"), LABELS_IN_PARTITIONS
    for number, override in enumerate(settings.overrides):
        if override.set.get("quotas.label"):
            yield ("overrides", number, "set"), LABELS_IN_PARTITIONS
    for path, values in _values_of_some(settings):
        if policy_factory.preloaded_file(values.get("uri_precedence_policy", "cost")) is not None:
            yield path, policy_factory.PRELOADED_IN_PARTITIONS


def _partitions_objection(group: schema.GroupSettings, assignment: str | None) -> str | None:
    """Return why a group cannot be in a crawl in partitions; None if one partition knows all about it."""
    if group.total_budget == grouping.STAR:
        return (
            "total_budget: star is not possible in a crawl in partitions (cluster.kafka): its ranks are those of all "
            "domains, and no partition sees all links; give a number"
        )
    if group.by == "registered-domain" and assignment == "registered-domain":
        return None
    return (
        "the queues of this group may be in several partitions (cluster.kafka), which do not know of each other; only "
        "a group `by: registered-domain` is whole, with `queue_assignment_policy: registered-domain`"
    )


def _values_of_some(settings: WholeSettings) -> Iterator[tuple[ValuePath, Mapping[str, Any]]]:
    """Yield the values that overrides and sheets set, with their places."""
    for number, override in enumerate(settings.overrides):
        yield ("overrides", number, "set"), override.set
    for name, values in settings.sheets.items():
        yield ("sheets", name), values
