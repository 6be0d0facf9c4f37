"""The groups of queues that the settings define: which of them a queue belongs to, and its limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from budgetfrontier.core import uris
from budgetfrontier.core.model import CrawlUri
from budgetfrontier.settings import policy_factory
from budgetfrontier.settings.matching import parse_match
from budgetfrontier.settings.overrides import QueueSettings
from budgetfrontier.settings.schema import GroupSettings

LONGEST_NAME = 400
"""The most bytes of the name of a group, so that it can be a key of the table `group_ids`."""


class GroupLimits(msgspec.Struct, frozen=True):
    """The limits of a group. `max_in_flight`: None without one; `total_budget`: -1; `max_bandwidth`: 0."""

    politeness: bool = False
    max_in_flight: int | None = None
    total_budget: int = -1
    max_bandwidth: int = 0


NO_LIMITS = GroupLimits()
"""The limits of a group that the settings do not define any more, until its queues have left it."""


class Grouping:
    """The groups of the settings. A queue belongs to the first that its head fits, or to none."""

    def __init__(self, groups: Sequence[GroupSettings]) -> None:
        self.groups = groups
        self._suffix_list: str | None = None
        self._domain_of: Callable[[CrawlUri], str] | None = None
        self._address: Callable[[str], str | None] = _unknown
        self.by_address = any(group.by == "ip" for group in groups)
        """Whether some group depends on the addresses of hosts."""
        self._tests = [(group.name, self._test(group)) for group in groups]
        self._limits = {
            group.name: GroupLimits(
                group.politeness,
                1 if group.max_in_flight is None and group.politeness else group.max_in_flight,
                group.total_budget,
                group.max_bandwidth,
            )
            for group in groups
        }

    def __repr__(self) -> str:
        return f"<Grouping of {', '.join(group.name for group in self.groups) or 'nothing'}>"

    def use(self, suffix_list: str | None, address: Callable[[str], str | None]) -> None:
        """Take registered domains, and the addresses of hosts, from what is stored in the frontier."""
        self._suffix_list, self._domain_of, self._address = suffix_list, None, address

    def waits_for_address(self, uri: CrawlUri) -> bool:
        """Return whether a queue with this head may belong to another group once the address of its host is known."""
        return self.by_address and self._address(uris.host(uri.url)) is None

    def name_of(self, uri: CrawlUri, queue: str) -> str | None:
        """Return the name of the group of a queue with this head; None if it belongs to none."""
        for name, test in self._tests:
            value = test(uri, queue)
            if value is not None:
                return name + value
        return None

    def limits_of(self, name: str, settings: QueueSettings) -> GroupLimits:
        """Return the limits of a group by its full name, with the settings in force for one of its queues."""
        limits = self._limits.get(name.partition("/")[0])
        if limits is None:
            return NO_LIMITS
        total, most, rate = settings.group_total_budget, settings.group_max_in_flight, settings.group_max_bandwidth
        if total is None and most is None and rate is None:
            return limits
        return GroupLimits(
            limits.politeness,
            limits.max_in_flight if most is None else most,
            limits.total_budget if total is None else total,
            limits.max_bandwidth if rate is None else rate,
        )

    def _test(self, group: GroupSettings) -> Callable[[CrawlUri, str], str | None]:
        """Return a function that returns what follows the name of a group for a URI; None if it does not belong."""
        if group.match is not None:
            match = parse_match(group.match)
            return lambda uri, queue: "" if match.matches(uri.url, queue, uri.source) else None
        value = self._values(group)

        def named(uri: CrawlUri, queue: str) -> str | None:
            found = value(uri)
            return f"/{found}" if found and len(found.encode()) <= LONGEST_NAME else None

        return named

    def _values(self, group: GroupSettings) -> Callable[[CrawlUri], str | None]:
        if group.by == "registered-domain":
            return self._registered_domain
        if group.by == "ip":
            return lambda uri: self._address(uris.host(uri.url))
        if group.by == "label":
            return lambda uri: uri.source
        if group.by == "surt":
            return lambda uri: _segments(uri.url, group.segments)
        return lambda uri: uris.host(uri.url)

    def _registered_domain(self, uri: CrawlUri) -> str:
        if self._domain_of is None:
            self._domain_of = policy_factory.registered_domain(self._suffix_list)
        return self._domain_of(uri)


def _unknown(host: str) -> None:
    """Return the address of a host that has none."""


def _segments(href: str, number: int) -> str:
    """Return the first segments of the SURT of a host, two of www.example.org: `org,example`. Addresses are whole."""
    found = uris.surt_authority(uris.host(href))
    return ",".join(found.rstrip(",").split(",")[:number])
