"""The settings in force for a URI and its queue, with overrides and adjustments; policies are created once."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from copy import deepcopy
from functools import cached_property
from math import inf

import msgspec

from budgetfrontier.core.model import CrawlUri, QueueRecord
from budgetfrontier.core.vocabulary import OF_GROUP
from budgetfrontier.engine import arguments
from budgetfrontier.rules import admission_limits, charges, queue_states, uri_order, wake_times
from budgetfrontier.settings import Settings, plugins, policy_factory, policy_results, sheets
from budgetfrontier.settings.overrides import Override, QueueSettings

log = logging.getLogger(__name__)


class SettingsInForce:
    """Settings with the adjustments on top of them, which can be queried for each URI; replaced at each change."""

    __slots__ = (
        *("base", "trivial", "effective", "frontier", "fixed_precedence", "_precedence"),
        *("standard_politeness", "_politeness", "ranks_queues", "limits_bandwidth", "counts_links", "__dict__"),
    )  # what each URI looks up, as in `Tables`

    def __init__(
        self,
        settings: Settings,
        adjustments: list[Override],
        *,
        random: Callable[[], float] = random.random,
        preloaded: Callable[[str, str], int | None] | None = None,
    ) -> None:
        self.settings = settings
        self._preloaded = preloaded
        """Returns the value of a URL in a file of precedences that the frontier has read."""
        self._random = random
        self.adjustments = adjustments
        self.frontier = frontier = settings.frontier
        self.effective = sheets.effective(settings, adjustments)
        self.base = self.effective.base
        self.trivial = self.effective.trivial
        """The same settings for every URI."""
        self._politeness = plugins.resolve("politeness", frontier.politeness_policy)
        self.standard_politeness = frontier.politeness_policy == "standard"
        """The rest of a queue is by settings, and no policy of one's own is asked."""
        precedence = plugins.resolve("precedence", frontier.precedence_policy)
        self._precedence = None if frontier.precedence_policy == "base" else precedence
        builtin = plugins.is_builtin("precedence", frontier.precedence_policy)
        self._of_queue = getattr(precedence, "of_queue", None) if builtin else None
        self.ranks_queues = self._of_queue is not None
        """Precedences depend on the queue, too."""
        self.ranks_by_uris = self.ranks_queues and bool(getattr(precedence, "by_uris", False))
        """Precedences depend on those of all URIs in the queue."""
        self.asks_precedence = self._precedence is not None
        """Precedences come from a policy that may fail."""
        self.mixes_precedences = self.asks_precedence or self.effective.mixes_precedences
        """Two URIs of one queue may ask for different precedences."""
        self.fixed_precedence = self.trivial and not self.asks_precedence
        """The same settings and the same precedence for every URI."""
        self.has_limits = admission_limits.any_limit(frontier) or self.effective.limits_queues
        """The frontier, or some queue, may be full."""
        self.least_active = frontier.target_active if isinstance(frontier.target_active, int) else 0
        """The queues to keep active; 0: one is activated when none is READY."""
        self.grouping = sheets.groups_in_force(settings, adjustments)
        self.counts_links = bool(self.grouping.star)
        """Some group gets its budget by the links to its domain."""
        self.quotas = self.effective.quotas | ({OF_GROUP} if self.grouping.limits_fetches else frozenset())
        """The kinds of quotas that are in force for anything."""
        self.windows = sheets.windows_in_force(settings, adjustments)
        """The crawl windows by patterns of URIs; empty if there are none."""
        lists = frozenset(given for _, given in self.windows)
        self.closes = frozenset[tuple[str, ...]]() if () in lists else lists
        """The lists of crawl windows that URIs may have; empty if some have none, so that the crawl is never closed."""
        self.guarded = bool(settings.groups or self.quotas or frontier.max_bandwidth or self.windows)
        """Some setting has to be asked before each lease."""
        self.assigns_by_address = policy_factory.goes_by_address(frontier)
        """The queue of a URI depends on the address of its host."""
        self.needs_addresses = self.assigns_by_address or self.grouping.by_address
        """Some setting asks for the addresses of hosts."""
        self.reassigns = self.assigns_by_address or not frontier.defer_to_previous
        """The key of a URI may change."""
        self.limits_bandwidth = bool(frontier.max_bandwidth) or self.grouping.limits_bandwidth
        self.limits_bandwidth |= any(variant.max_bandwidth for variant in self.effective.variants())
        """Queues, groups or the crawl have a bandwidth, so that it counts when fetches began."""
        self.observed = self.guarded or self.needs_addresses or self.limits_bandwidth or self.ranks_queues
        """Some setting asks for more at the end of an attempt than the charge and the rest of its queue."""
        self.orders_by_cost = all(variant.uri_precedence_policy == "cost" for variant in self.effective.variants())
        """The precedence of every URI is its cost, unless one is given with it."""
        self.asks_about_uris = self.asks_precedence or not self.orders_by_cost
        """Precedences come from policies that look at the whole URI."""
        self._uri_precedences: dict[str, Callable[[CrawlUri], object]] = {}
        self._clipped = False
        """Whether the log has a warning of a URI whose precedence was clipped."""
        self._costs: dict[str, tuple[Callable[[CrawlUri], object], int | None]] = {}
        self.constant_costs: dict[str, int] = {}
        """What a URI costs by the policies that have been asked for, if all their costs are the same, by name."""
        self.longest_delay = max(map(wake_times.longest_delay, self.effective.variants()))
        self.longest_backoff = max(one.backoff_max_delay for one in self.effective.variants())
        if frontier.politeness_policy != "standard":  # the delay that a custom policy may return is not known
            self.longest_delay = inf

    @cached_property
    def shown(self) -> Settings:
        """A copy of the settings, for callers that may change it."""
        return deepcopy(self.settings)

    def for_uri(self, url: str, queue: str, label: str | None) -> QueueSettings:
        return self.base if self.trivial else self.effective.for_uri(url, queue, label)

    def lease_ttl(self, given: float | None) -> float:
        """Return the seconds of a lease: those asked for, or the setting if None."""
        return self.frontier.lease_ttl if given is None else arguments.seconds(given, "ttl")

    def _cost_policy(self, settings: QueueSettings) -> tuple[Callable[[CrawlUri], object], int | None]:
        """Return the cost policy that settings name, made once, and its constant cost (None: it looks at the URI)."""
        spec = settings.cost_policy
        name = spec if isinstance(spec, str) else repr(spec)
        found = self._costs.get(name)
        if found is None:
            policy = plugins.resolve("cost", spec)
            constant: object = getattr(policy, "constant", None)
            cost = policy_results.whole(constant)
            if constant is not None and (cost is None or cost < 0):
                raise policy_results.wrong("cost", spec, "any URL", constant)
            found = self._costs[name] = policy, None if cost is None else charges.bounded_cost(cost)
            if found[1] is not None:
                self.constant_costs[name] = found[1]
        return found

    @cached_property
    def constant_cost(self) -> int | None:
        """The cost of every URI without overrides; None if the cost policy looks at the URI."""
        return self._cost_policy(self.base)[1]

    def cost(self, url: str, uri: CrawlUri | None, settings: QueueSettings) -> int:
        """Return the cost of a URI: the one given with it, otherwise the policy's. Raises PolicyError.

        `uri` is the whole URI if there is more to it than its URL.
        """
        given = charges.given_cost(uri)
        if given is not None:
            return given
        policy, constant = self._cost_policy(settings)
        if constant is not None:
            return constant
        try:
            found = policy(CrawlUri(url) if uri is None else renamed(uri, url))
        except Exception as e:
            raise policy_results.raised("cost", settings.cost_policy, url, e) from e
        cost = policy_results.whole(found)
        if cost is None or cost < 0:
            raise policy_results.wrong("cost", settings.cost_policy, url, found)
        return charges.bounded_cost(cost)

    def uri_precedence(self, url: str, uri: CrawlUri | None, settings: QueueSettings) -> int | None:
        """Return the precedence of a URI: the one given with it, otherwise the policy's. Raises PolicyError.

        None stands for its cost. `uri` is as for `cost`.
        """
        if uri is not None and uri.precedence is not None:
            return uri_order.bounded_precedence(uri.precedence)
        spec = settings.uri_precedence_policy
        if spec == "cost":
            return None
        name = spec if isinstance(spec, str) else repr(spec)
        policy = self._uri_precedences.get(name)
        if policy is None:
            policy = self._uri_precedences[name] = policy_factory.uri_precedence(spec, self._preloaded)
        try:
            found = policy(CrawlUri(url) if uri is None else renamed(uri, url))
        except Exception as e:
            raise policy_results.raised("uri_precedence", spec, url, e) from e
        if found is None:
            return None
        precedence = policy_results.whole(found)
        if precedence is None:
            raise policy_results.wrong("uri_precedence", spec, url, found)
        bounded = uri_order.bounded_precedence(precedence)
        if bounded < precedence and not self._clipped:
            self._clipped = True
            log.warning(
                "the uri_precedence policy %s gave %s precedence %d, beyond %d, the last one: it and others like it go "
                "out in the order of arrival", name, url, precedence, bounded,
            )  # fmt: skip
        return bounded

    def precedence(self, uri: CrawlUri, settings: QueueSettings) -> int:
        """Return the precedence that a queue takes from a URI, 0 to 65535. Raises PolicyError."""
        if self._precedence is None:
            return settings.precedence
        name = self.frontier.precedence_policy
        try:
            found: object = self._precedence(uri, precedence=settings.precedence)
        except Exception as e:
            raise policy_results.raised("precedence", name, uri.url, e) from e
        precedence = policy_results.whole(found)
        if precedence is None:
            raise policy_results.wrong("precedence", name, uri.url, found)
        return min(max(precedence, 0), queue_states.WORST_PRECEDENCE)

    def of_queue(self, queue: QueueRecord, precedence: int, lowest: int | None = None) -> int:
        """Return the precedence of a queue that takes `precedence` from a URI.

        With `ranks_by_uris`, `lowest` is the lowest precedence of its URIs, None if it has none.
        """
        if self._of_queue is None:
            return precedence
        found: int = self._of_queue(queue, precedence, *((lowest,) if self.ranks_by_uris else ()))
        return min(found, queue_states.WORST_PRECEDENCE)

    def rest(
        self, uri: CrawlUri, settings: QueueSettings, fetch_seconds: float | None, crawl_delay: float | None
    ) -> float:
        """Return how long a queue rests after the fetch of a URI, in seconds. Raises PolicyError."""
        if fetch_seconds is None and crawl_delay is None and self.standard_politeness and not settings.jitter:
            return settings.min_delay  # as the policy says, without asking it
        name = self.frontier.politeness_policy
        try:
            found: object = self._politeness(
                settings, fetch_seconds=fetch_seconds, crawl_delay=crawl_delay, random=self._random
            )
        except Exception as e:
            raise policy_results.raised("politeness", name, uri.url, e) from e
        if self.standard_politeness and isinstance(found, float):
            return found
        delay = policy_results.seconds(found)
        if delay is None:
            raise policy_results.wrong("politeness", name, uri.url, found)
        return delay


def renamed(uri: CrawlUri, url: str) -> CrawlUri:
    """Return the same URI under its normalized URL."""
    return uri if uri.url == url else msgspec.structs.replace(uri, url=url)
