"""Whether a URL is in the scope of a crawl, decided from the stored settings: for `explain`, without the extra."""

from __future__ import annotations

from budgetfrontier import uris
from budgetfrontier.crawl.scope import Scope
from budgetfrontier.crawl.seeds import seed_urls
from budgetfrontier.errors import InvalidUrl, SettingsError
from budgetfrontier.model import CrawlUri
from budgetfrontier.reports.explain import ScopeVerdict
from budgetfrontier.settings import Settings
from budgetfrontier.settings.schema import ScopeSettings
from budgetfrontier.settings.scope_rules import OF_ANSWER


def scope_verdict(settings: Settings, href: str, uri: CrawlUri | None) -> ScopeVerdict | None:
    """Return what the scope says of a href, as the crawl knows it (`uri`), or as a link of a seed if it does not.

    None if nobody has set a scope, nor seeds: the frontier is fed by a program of its own. Reads the files of seeds and
    of SURT prefixes; about 1 us for each of their lines.
    """
    if not settings.seeds and settings.scope == ScopeSettings():
        return None
    try:
        scope = Scope(settings.scope)
    except SettingsError as error:
        return ScopeVerdict(None, f"it cannot be told: {error.problems[0]}")
    is_seed, gone = _add_seeds(scope, settings, href)
    known = uri or CrawlUri(href, hops="" if is_seed else "L")
    verdict = scope.verdict(known)
    text = str(verdict)
    if uri is None and not is_seed:
        text += " (taken as a link of a seed in the settings)"
    if verdict.accepted and known.hops[-1:] not in ("", "P") and _asks_answers(settings.scope):
        text += "; type and size are asked once it answers"
    if gone:
        text += f"; without the seeds of {', '.join(gone)}"
    # A seed more may let a URI in.
    return ScopeVerdict(None if gone and not verdict.accepted else verdict.accepted, text, verdict.rule)


def _add_seeds(scope: Scope, settings: Settings, href: str) -> tuple[bool, list[str]]:
    """Add the seeds; return whether the href is one of them, and the files that cannot be read, with the reason."""
    is_seed, gone = False, []
    for seed in settings.seeds:
        try:
            for url in seed_urls(seed):
                try:
                    parsed = uris.parse(url)
                except InvalidUrl:
                    continue
                scope.add_seed(parsed)
                is_seed = is_seed or parsed == href
        except (OSError, ValueError) as error:  # ValueError: a NUL in the name
            gone.append(f"{seed.file}, which cannot be read ({getattr(error, 'strerror', error)})")
    return is_seed, gone


def _asks_answers(settings: ScopeSettings) -> bool:
    texts = (*settings.accept, *settings.reject, *(rule.rule for rule in settings.rules))
    return any(text.partition(":")[0] in OF_ANSWER for text in texts)
