"""The choices fixed when a frontier is created: canonical form, suffix list, kept URLs, how duplicates are found.

With another canonical form, URIs that were seen would be admitted again; with another suffix list, URIs of one host
would go to two queues; and a table of some of the URLs, or a filter of some, would be useless. So all but the list are
compared at each opening, and that is stored.
"""

from __future__ import annotations

import json

from budgetfrontier.errors import SettingsError
from budgetfrontier.rules.duplicates import BLOOM
from budgetfrontier.settings import Settings, policy_factory
from budgetfrontier.settings.combinations import NEEDS_EXACT, NEEDS_URLS
from budgetfrontier.settings.differences import changes
from budgetfrontier.storage import keys, meta
from budgetfrontier.storage.environment import Environment
from budgetfrontier.storage.records import Counters


def suffix_list(env: Environment, settings: Settings, given: str | None = None) -> str | None:
    """Return the public suffix list that the frontier was begun with, if its queues or groups need one.

    A new frontier takes the `given` one, else that of the settings.
    """
    db = env.db[keys.META]
    text = meta.read_suffixes(env.txn, db)
    if text is None:
        text = policy_factory.suffix_list(settings.frontier, settings.groups) if given is None else given
        if text is not None:
            meta.write_suffixes(env.txn, db, text)
    return text


def check_canonicalizer(env: Environment, canonicalizer: str, stored: Settings | None, settings: Settings) -> None:
    """Raise SettingsError if `settings` ask for another canonical form than that of the stored fingerprints.

    `canonicalizer` is the identifier of that form; a new frontier stores it. `stored` are the settings before.
    """
    db = env.db[keys.META]
    known = env.txn.get(b"canonicalizer", db=db)
    if known is None:
        env.txn.put(b"canonicalizer", canonicalizer.encode(), db=db)
    elif known != canonicalizer.encode():
        was = _as_it_was(stored, settings)
        remedy = f"set it as it was ({was})" if was else "use the rules, or the version, that it was created with"
        raise SettingsError(
            f"{env.path} was created with another canonical form of URLs than these settings have, so that URLs seen "
            f"would be fetched again: {remedy}, or export the frontier and import it into a new one"
        )


def check_kept_urls(env: Environment, counters: Counters, stored: Settings | None, settings: Settings) -> None:
    """Raise SettingsError if `settings` ask to keep URLs in a frontier that does not, or the other way round.

    `stored` are the settings before; if they were lost, the rows show whether the frontier keeps URLs.
    """
    if stored is not None:
        keeps = stored.frontier.keep_urls
    else:
        keeps = counters.urls > 0 or (settings.frontier.keep_urls and not counters.scheduled)
    if settings.frontier.update_priority and not settings.frontier.keep_urls:
        raise SettingsError(NEEDS_URLS)
    if keeps == settings.frontier.keep_urls:
        return
    if keeps:
        raise SettingsError(f"{env.path} keeps its URLs: set `frontier.keep_urls: true`, or begin a new frontier")
    raise SettingsError(
        f"{env.path} was created without `frontier.keep_urls`, which is fixed at creation: leave it out, or export it "
        "and import it into a new frontier"
    )


def check_duplicates(env: Environment, stored: Settings | None, settings: Settings) -> None:
    """Raise SettingsError if `settings` ask for another way to recognize URIs seen, or for another Bloom filter.

    `stored` are the settings before; if they were lost, the record of a Bloom filter says that there is one.
    """
    asked = settings.frontier
    if asked.keep_urls and asked.duplicates != "exact":
        raise SettingsError(NEEDS_EXACT)
    if stored is None:
        differ = meta.read_filter(env.txn, env.db[keys.META]) is not None and asked.duplicates != BLOOM
        was = "a Bloom filter"
    else:
        kept = stored.frontier
        both = kept.duplicates == asked.duplicates == BLOOM
        differ = kept.duplicates != asked.duplicates or (both and kept.bloom != asked.bloom)
        sizes = f" and `bloom: {{expected: {kept.bloom.expected}, error: {kept.bloom.error}}}`"
        was = f"`duplicates: {kept.duplicates}`{sizes if kept.duplicates == BLOOM else ''}"
    if differ:
        raise SettingsError(
            f"{env.path} was created with {was}, which is fixed at creation: set it as it was, or export the frontier "
            "and import it into a new one"
        )


def _as_it_was(stored: Settings | None, settings: Settings) -> str:
    """Return the stored canonicalization settings that differ, in the notation of YAML."""
    differ = changes(stored, settings) if stored else ()
    was = [f"{c.name}: {json.dumps(c.before)}" for c in differ if c.name.startswith("frontier.canonicalization")]
    return ", ".join(was)
