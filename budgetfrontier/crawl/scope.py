"""Which of the URIs that are found belong to the crawl."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from budgetfrontier import plugins, uris
from budgetfrontier.bounded_cache import BoundedCache
from budgetfrontier.errors import InvalidUrl
from budgetfrontier.model import CrawlUri
from budgetfrontier.settings.schema import ScopeSettings
from budgetfrontier.settings.scope_rules import Header, Rule, Test, hops_from_seed, parse_rule

if TYPE_CHECKING:
    from budgetfrontier.crawl.fetch.response import Response

_SEED_REDIRECTS = 5
_CACHED = 4096
_LONGEST_PLACE = 1024  # characters of what is cached: userinfo and seeds may be anything


class Verdict(NamedTuple):
    """Whether a URI is in scope, and the rule that had the last word.

    `rule` is "seed-hosts", "reject ext:zip", "rules[1] accept all" and so on, or, where no rule was asked or fits, one
    of "seed", "prerequisite", "redirected seed", "max_hops", "not accepted".
    """

    accepted: bool
    rule: str

    def __str__(self) -> str:
        if not self.accepted:
            return f"out of scope: {self.rule}"
        return f"accepted {'as a' if self in _BY_NATURE else 'by'} {self.rule}"


_SEED = Verdict(True, "seed")
_PREREQUISITE = Verdict(True, "prerequisite")
_REDIRECTED_SEED = Verdict(True, "redirected seed")
_BY_NATURE = (_SEED, _PREREQUISITE, _REDIRECTED_SEED)
_TOO_FAR = Verdict(False, "max_hops")
_NONE_FITS = Verdict(False, "not accepted")

Plan = tuple[tuple[Test, Verdict], ...]


class Scope:
    """The scope of a crawl: `accept`, then `reject`, then `rules` in their order; the last rule that fits decides.

    Seeds and what was imported (no hops) and prerequisites are always in. What is more than `max_hops` from a seed
    never is; nor is what no rule fits. `seed-hosts` fits the hosts of the seeds, with or without "www."; `seed-domains`
    their registered domains. The place that a seed redirects to counts as a seed.

    Raises SettingsError for a file of SURT prefixes that cannot be read. What rules say of a whole host is remembered
    for some thousand hosts: `objection` costs 0.8 us with the default rules, 5 us with twenty of all kinds.
    """

    def __init__(self, settings: ScopeSettings) -> None:
        self._max_hops = settings.max_hops
        ordered = [(True, text, text) for text in settings.accept]
        ordered += [(False, f"reject {text}", text) for text in settings.reject]
        for number, (accept, text) in enumerate((rule.accept, rule.rule) for rule in settings.rules):
            ordered.append((accept, f"rules[{number}] {'accept' if accept else 'reject'} {text}", text))
        # The last one first: the first that fits decides then.
        self._rules = [(parse_rule(text), Verdict(accepted, words)) for accepted, words, text in reversed(ordered)]
        self._rules.append((Rule(lambda uri, _: redirected_seed(uri)), _REDIRECTED_SEED))
        kinds = {rule.of_seeds for rule, _ in self._rules if rule.of_seeds}
        self._key_of = {kind: _key_of(kind) for kind in kinds}
        self._known: dict[str, set[str]] = {kind: set() for kind in kinds}
        self._plans: BoundedCache[tuple[str, str | None], Plan] = BoundedCache(_CACHED)

    def add_seed(self, href: str) -> None:
        """Widen the scope by a seed."""
        for kind, key in self._key_of.items():
            self._known[kind].add(key(CrawlUri(href)))
        self._plans.clear()

    def add_seeds(self, urls: Iterable[str]) -> None:
        """Widen the scope by seeds as they are written; what is no URL is left out."""
        for url in urls:
            with suppress(InvalidUrl):
                self.add_seed(uris.parse(url))

    @property
    def seed_keys(self) -> Mapping[str, Set[str]]:
        """What the rules know of the seeds: "hosts" and "domains", if a rule asks for them."""
        return self._known

    def objection(self, uri: CrawlUri) -> str | None:
        """Return why a URI (its url a normalized href) is out of scope, None if it is in.

        Rules on what only an answer tells, `type` and `size`, do not fit yet.
        """
        verdict = self.verdict(uri)
        return None if verdict.accepted else verdict.rule

    def objection_to(self, uri: CrawlUri, answer: Response) -> str | None:
        """Return why a URI is out of scope now that the header of its answer is in; all rules are asked again.

        What a redirect sends along says nothing of the place it leads to: `type` and `size` do not fit it.
        """
        verdict = self.verdict(uri, None if answer.location else Header(answer.mime, _length(answer)))
        return None if verdict.accepted else verdict.rule

    def verdict(self, uri: CrawlUri, header: Header | None = None) -> Verdict:
        """Return whether a URI is in scope, and the rule that says so; `header`: that of its answer, if it is in."""
        hops = uri.hops
        if not hops:
            return _SEED
        if hops[-1] == "P":
            return _PREREQUISITE
        if 0 <= self._max_hops < len(hops) and self._max_hops < hops_from_seed(uri):
            return _TOO_FAR
        url, seed = uri.url, None if uri.meta is None else _seed_of(uri.meta)
        place = url[: url.find("/", 8) + 1], seed
        for fits, verdict in self._plans.get(place) or self._plan(*place):
            if fits(uri, header):
                return verdict
        return _NONE_FITS

    def _plan(self, root: str, seed: str | None) -> Plan:
        """Return what is left to ask of URIs that begin with `root`, down to the first rule that fits them all."""
        plan: list[tuple[Test, Verdict]] = []
        for rule, verdict in self._rules:
            settled = self._settled(rule, root, seed)
            if settled:
                plan.append((_always, verdict))
                break
            if settled is None:
                plan.append((rule.fits, verdict))
        if len(root) + len(seed or "") <= _LONGEST_PLACE:
            self._plans.put((root, seed), tuple(plan))
        return tuple(plan)

    def _settled(self, rule: Rule, root: str, seed: str | None) -> bool | None:
        if rule.of_seeds:
            key, known = self._key_of[rule.of_seeds], self._known[rule.of_seeds]
            here = key(CrawlUri(root))
            return here in known or (seed is not None and here == key(CrawlUri(seed)))
        return rule.settle(root) if rule.settle else None


def redirected_seed(uri: CrawlUri) -> bool:
    """Tell whether a URI is where a seed leads by a few redirects; what is found there carries it as `meta["seed"]`."""
    return 0 < len(uri.hops) <= _SEED_REDIRECTS and not uri.hops.strip("R")


def _seed_of(meta: Any) -> str | None:
    """The seed that a URI descends from, if it is not among the settings' seeds."""
    seed = meta.get("seed") if isinstance(meta, dict) else None
    return seed if isinstance(seed, str) else None


def _length(answer: Response) -> int | None:
    length = answer.headers.get("Content-Length", "").strip()
    return int(length) if length.isascii() and length.isdigit() and len(length) <= 18 else None


def _key_of(kind: str) -> Callable[[CrawlUri], str]:
    return plugins.resolve("assignment", "registered-domain") if kind == "domains" else _bare_host


def _bare_host(uri: CrawlUri) -> str:
    return uris.host(uri.url).removeprefix("www.")


def _always(_: CrawlUri, __: Header | None) -> bool:
    return True
