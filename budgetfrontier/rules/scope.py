"""The scope of a crawl: which of the URIs found belong to it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from budgetfrontier.core import uris
from budgetfrontier.core.bounded_cache import BoundedCache
from budgetfrontier.core.model import CrawlUri
from budgetfrontier.errors import InvalidUrl
from budgetfrontier.rules.seeds import MOST_REDIRECTS
from budgetfrontier.settings import plugins
from budgetfrontier.settings.schema import ScopeSettings
from budgetfrontier.settings.scope_rules import Header, Rule, Test, hops_from_seed, parse_rule

_CACHED = 4096
_NAMED = re.compile(r"((?:.*L)?R*+)P(?:IR{0,5}+)++", re.DOTALL)
"""Hops of sitemaps that the robots.txt of a page names, which is no embedded resource and no sitemap itself."""
_LONGEST_KEY = 1024  # characters of a cached key, because userinfo and seeds may be of any length


class ListedSeeds(Protocol):
    """The seeds that a frontier lists."""

    @property
    def last(self) -> int:
        """The position of the seed that came last."""

    def has_host(self, bare: str) -> bool:
        """Return whether a host, given without "www.", is that of a seed, with or without it."""

    def has_domain(self, domain: str, domain_of: Callable[[CrawlUri], Any]) -> bool:
        """Return whether a registered domain is that of a seed."""


class ResponseHeader(Protocol):
    """The header of a response, as far as rules ask for it."""

    @property
    def location(self) -> str | None:
        """The target of a redirect."""

    @property
    def mime(self) -> str:
        """The media type."""

    @property
    def headers(self) -> Mapping[str, str]:
        """All fields by their names."""


class ScopeDecision(NamedTuple):
    """A decision of the scope: whether a URI is in scope, and the rule that decides.

    `rule` is the text of a rule, such as "seed-hosts", "reject ext:zip" or "rules[1] accept all"; or, where rules are
    not applied or none matches, "seed", "prerequisite", "redirected seed", "sitemap of a site in scope", "max_hops" or
    "not accepted".
    """

    accepted: bool
    rule: str

    def __str__(self) -> str:
        if not self.accepted:
            return f"out of scope: {self.rule}"
        return f"accepted {'as a' if self in _BY_NATURE else 'by'} {self.rule}"


_SEED = ScopeDecision(True, "seed")
_PREREQUISITE = ScopeDecision(True, "prerequisite")
_REDIRECTED_SEED = ScopeDecision(True, "redirected seed")
_NAMED_SITEMAP = ScopeDecision(True, "sitemap of a site in scope")
_BY_NATURE = (_SEED, _PREREQUISITE, _REDIRECTED_SEED, _NAMED_SITEMAP)
_TOO_FAR = ScopeDecision(False, "max_hops")
_NONE_FITS = ScopeDecision(False, "not accepted")

Plan = tuple[tuple[Test | None, ScopeDecision], ...]
"""The rules to apply in their order, each with its decision; None for a rule that matches all URIs."""


class Scope:
    """The scope of a crawl: `accept`, then `reject`, then `rules` in their order; the last rule that matches decides.

    Seeds and imported URIs (those without hops) and prerequisites are always in scope. URIs more than `max_hops` from a
    seed, and URIs that no rule matches, are not, except for sitemaps, on any host, that the robots.txt of a site in
    scope names, and those that their indexes list on the same host. `seed-hosts` matches the hosts of the seeds, with
    or without "www.", `seed-domains` their registered domains. The target of a seed's redirect counts as a seed. The
    seeds are those of the settings (`add_seeds`), in memory, and the frontier's list (`add_listed`).

    Raises SettingsError for a file of SURT prefixes that cannot be read. Decisions for a whole host are
    cached for some thousand hosts: `objection` takes 0.8 us with the default rules, 5 us with twenty of all kinds.
    """

    def __init__(self, settings: ScopeSettings) -> None:
        self._listed: ListedSeeds | None = None
        self._listed_upto = 0
        self._max_hops = settings.max_hops
        ordered = [(True, text, text) for text in settings.accept]
        ordered += [(False, f"reject {text}", text) for text in settings.reject]
        for number, (accept, text) in enumerate((rule.accept, rule.rule) for rule in settings.rules):
            ordered.append((accept, f"rules[{number}] {'accept' if accept else 'reject'} {text}", text))
        # In reverse order, so that the first match decides.
        self._rules = [
            (parse_rule(text), ScopeDecision(accepted, words)) for accepted, words, text in reversed(ordered)
        ]
        self._rules.append((Rule(lambda uri, _: redirected_seed(uri)), _REDIRECTED_SEED))
        kinds = {rule.of_seeds for rule, _ in self._rules if rule.of_seeds}
        self._key_of = {kind: _key_of(kind) for kind in kinds}
        self._known: dict[str, set[str]] = {kind: set() for kind in kinds}
        self._plans: BoundedCache[tuple[str, str | None], Plan] = BoundedCache(_CACHED)

    def add_seed(self, href: str) -> None:
        """Extend the scope by a seed, a normalized href."""
        for kind, key in self._key_of.items():
            self._known[kind].add(key(CrawlUri(href)))
        self._plans.clear()

    def add_seeds(self, urls: Iterable[str]) -> None:
        """Extend the scope by seed URLs as written; invalid URLs are skipped."""
        for url in urls:
            with suppress(InvalidUrl):
                self.add_seed(uris.parse(url))

    def add_listed(self, listed: ListedSeeds) -> None:
        """Extend the scope by the hosts of a frontier's list of seeds, also of seeds listed later."""
        self._listed = listed

    def _look_at_list(self) -> None:
        if self._listed is not None and self._listed.last != self._listed_upto:
            self._listed_upto = self._listed.last
            self._plans.clear()

    @property
    def seed_keys(self) -> Mapping[str, Set[str]]:
        """The "hosts" and "domains" of the seeds, each only if a rule uses it."""
        return self._known

    def objection(self, uri: CrawlUri) -> str | None:
        """Return the rule by which a URI (its url a normalized href) is out of scope; None if it is in scope.

        The rules `type` and `size`, which need a response, do not match.
        """
        verdict = self.verdict(uri)
        return None if verdict.accepted else verdict.rule

    def objection_to(self, uri: CrawlUri, response: ResponseHeader) -> str | None:
        """Return the rule by which a URI is out of scope, given the header of its response; None if it is in scope.

        All rules are applied again. `type` and `size` do not match redirects: their header is not about the target.
        """
        verdict = self.verdict(uri, None if response.location else Header(response.mime, _length(response)))
        return None if verdict.accepted else verdict.rule

    def verdict(self, uri: CrawlUri, header: Header | None = None) -> ScopeDecision:
        """Return whether a URI is in scope, and the deciding rule; `header` is that of its response, if received."""
        if verdict := self._by_hops(uri):
            return verdict
        self._look_at_list()
        if verdict := self._by_rules(uri, header):
            return verdict
        return _NAMED_SITEMAP if self._is_named(uri) else _NONE_FITS

    def _by_rules(self, uri: CrawlUri, header: Header | None = None) -> ScopeDecision | None:
        url, seed = uri.url, None if uri.meta is None else _seed_of(uri.meta)
        key = url[: url.find("/", 8) + 1], seed
        for fits, verdict in self._plans.get(key) or self._plan(*key):
            if fits is None or fits(uri, header):
                return verdict
        return None

    def _is_named(self, uri: CrawlUri) -> bool:
        """Return whether a URI that no rule matches is a sitemap named in the right place (sitemaps.org).

        Its `via`, itself in scope, is the robots.txt, an index, or a URL that redirected.
        """
        match = _NAMED.fullmatch(uri.hops)
        if match is None or uri.via is None or uri.hops[-1] == "R":
            return match is not None
        if uri.hops[-2] != "P":
            return uris.host(uri.url) == uris.host(uri.via)
        site = CrawlUri(uri.via[: uri.via.find("/", 8) + 1], hops=match[1] or "L", meta=uri.meta)
        verdict = self._by_rules(site)
        return verdict is not None and verdict.accepted

    def accepted(self, uris: Iterable[CrawlUri]) -> list[CrawlUri]:
        """Return those of some URIs that are in scope, in order: quicker than `verdict` for each."""
        self._look_at_list()
        found: list[CrawlUri] = []
        hops: str | None = None
        by_hops: ScopeDecision | None = None
        plans = self._plans
        for uri in uris:
            if uri.hops is not hops:
                hops, by_hops = uri.hops, self._by_hops(uri)
            if by_hops is not None:
                if by_hops.accepted:
                    found.append(uri)
                continue
            url, seed = uri.url, None if uri.meta is None else _seed_of(uri.meta)
            key = url[: url.find("/", 8) + 1], seed
            for fits, verdict in plans.get(key) or self._plan(*key):
                if fits is None or fits(uri, None):
                    if verdict.accepted:
                        found.append(uri)
                    break
            else:
                if uri.hops[-1] in "IR" and self._is_named(uri):
                    found.append(uri)
        return found

    def _by_hops(self, uri: CrawlUri) -> ScopeDecision | None:
        hops = uri.hops
        if not hops:
            return _SEED
        if hops[-1] == "P":
            return _PREREQUISITE
        if 0 <= self._max_hops < len(hops) and self._max_hops < hops_from_seed(uri):
            return _TOO_FAR
        return None

    def _plan(self, root: str, seed: str | None) -> Plan:
        """Return the rules left to apply to URIs that begin with `root`, up to a rule that matches all of them."""
        plan: list[tuple[Test | None, ScopeDecision]] = []
        for rule, verdict in self._rules:
            settled = self._settled(rule, root, seed)
            if settled:
                plan.append((None, verdict))
                break
            if settled is None:
                plan.append((rule.fits, verdict))
        if len(root) + len(seed or "") <= _LONGEST_KEY:
            self._plans.put((root, seed), tuple(plan))
        return tuple(plan)

    def _settled(self, rule: Rule, root: str, seed: str | None) -> bool | None:
        if rule.of_seeds:
            key, known = self._key_of[rule.of_seeds], self._known[rule.of_seeds]
            here = key(CrawlUri(root))
            if here in known or (seed is not None and here == key(CrawlUri(seed))):
                return True
            if self._listed is None:
                return False
            return self._listed.has_domain(here, key) if rule.of_seeds == "domains" else self._listed.has_host(here)
        return rule.settle(root) if rule.settle else None


def redirected_seed(uri: CrawlUri) -> bool:
    """Return whether a URI is the target of a few redirects from a seed; its links have it as `meta["seed"]`."""
    return 0 < len(uri.hops) <= MOST_REDIRECTS and not uri.hops.strip("R")


def _seed_of(meta: Any) -> str | None:
    """Return the redirected seed that a URI descends from; None if it has none in its meta."""
    seed = meta.get("seed") if isinstance(meta, dict) else None
    return seed if isinstance(seed, str) else None


def _length(response: ResponseHeader) -> int | None:
    length = response.headers.get("Content-Length", "").strip()
    return int(length) if length.isascii() and length.isdigit() and len(length) <= 18 else None


def _key_of(kind: str) -> Callable[[CrawlUri], str]:
    return plugins.resolve("assignment", "registered-domain") if kind == "domains" else _bare_host


def _bare_host(uri: CrawlUri) -> str:
    return uris.host(uri.url).removeprefix("www.")
