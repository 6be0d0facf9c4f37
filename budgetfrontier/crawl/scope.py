"""Which of the URIs that are found belong to the crawl."""

from __future__ import annotations

from collections.abc import Callable

from budgetfrontier import plugins, uris
from budgetfrontier.model import CrawlUri
from budgetfrontier.settings.matching import parse_match
from budgetfrontier.settings.schema import ScopeSettings

Rule = Callable[[CrawlUri], bool]
_SEED_REDIRECTS = 5


class Scope:
    """The scope rules of a crawl: at most `max_hops` from a seed, by no rule of `reject`, and by one of `accept`.

    `seed-hosts` accepts the hosts of the seeds, with or without "www."; `seed-domains` their registered domains. The
    place that a seed redirects to counts as a seed.
    """

    def __init__(self, settings: ScopeSettings) -> None:
        self._max_hops = settings.max_hops
        self._seed_keys: dict[str, set[str]] = {}
        self._keys: dict[str, Callable[[CrawlUri], str]] = {}
        self._accept = [self._rule(text) for text in settings.accept]
        self._reject = [(text, self._rule(text)) for text in settings.reject]

    def add_seed(self, href: str) -> None:
        """Widen the scope by a seed."""
        for kind, key in self._keys.items():
            self._seed_keys[kind].add(key(CrawlUri(href)))

    def objection(self, uri: CrawlUri) -> str | None:
        """Return why a URI (its url a normalized href) is out of scope, None if it is in."""
        # Prerequisites are no steps away from a seed.
        if 0 <= self._max_hops < len(uri.hops) - uri.hops.count("P"):
            return "max_hops"
        for text, rule in self._reject:
            if rule(uri):
                return text
        return None if redirected_seed(uri) or any(rule(uri) for rule in self._accept) else "not accepted"

    def _rule(self, text: str) -> Rule:
        if text in ("all", "*"):
            return _everything
        if text == "seed-hosts":
            return self._seeds(text, _bare_host)
        if text == "seed-domains":
            return self._seeds(text, plugins.resolve("assignment", "registered-domain"))
        match = parse_match(text)
        return lambda uri: match.matches(uri.url)

    def _seeds(self, kind: str, key: Callable[[CrawlUri], str]) -> Rule:
        known = self._seed_keys.setdefault(kind, set())
        self._keys[kind] = key

        def rule(uri: CrawlUri) -> bool:
            place = key(uri)
            return place in known or (bool(uri.meta) and place == key(CrawlUri(uri.meta["seed"])))

        return rule


def redirected_seed(uri: CrawlUri) -> bool:
    """Tell whether a URI is where a seed leads by a few redirects; what is found there carries it as `meta["seed"]`."""
    return 0 < len(uri.hops) <= _SEED_REDIRECTS and not uri.hops.strip("R")


def _everything(_: CrawlUri) -> bool:
    return True


def _bare_host(uri: CrawlUri) -> str:
    return uris.host(uri.url).removeprefix("www.")
