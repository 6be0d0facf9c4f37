"""The decisions of a crawl's scope, from the stored settings and seeds: for explanations, reports and previews."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import msgspec

from budgetfrontier.core import uris
from budgetfrontier.core.model import CrawlUri
from budgetfrontier.engine.commands.preview import preview
from budgetfrontier.engine.commands.survey import Change
from budgetfrontier.errors import InvalidUrl, SettingsError
from budgetfrontier.reports.explanation import ScopeVerdict
from budgetfrontier.rules.scope import Scope
from budgetfrontier.settings import Settings
from budgetfrontier.settings.schema import ScopeSettings
from budgetfrontier.settings.scope_rules import OF_ANSWER
from budgetfrontier.settings.url_lists import seed_urls
from budgetfrontier.storage.reader import Reader
from budgetfrontier.storage.seed_list import SeedHosts, find, last_position
from budgetfrontier.storage.view import View


def has_scope(view: View) -> bool:
    """Return whether the settings have a scope or seeds, or seeds are listed: else a program schedules the URIs."""
    settings = view.settings()[0]
    return bool(settings.seeds or last_position(view)) or settings.scope != ScopeSettings()


def scope_verdict(reader: Reader, href: str, uri: CrawlUri | None) -> ScopeVerdict | None:
    """Return the verdict of the scope on a href: as the known `uri` if given, otherwise as a link of a seed.

    None if the settings have neither a scope nor seeds, and no seeds are listed, because a program schedules the URIs.
    Reads the files of seeds and SURT prefixes: about 1 us per line.
    """
    settings = reader.settings
    with reader.view() as view:
        return _verdict(settings, href, uri, view, last_position(view)) if has_scope(view) else None


def preview_in_scope(view: View, change: Change) -> dict[str, Any]:
    """Return the effect of a change of adjustments, without the URIs that the stored scope disregards.

    `scope_unknown` says why the scope cannot be applied: then all URIs count. See `preview`.
    """
    scope, unknown = _scope_of(view)
    if scope is None:
        return preview(view, change, now=time.time()) | {"scope_unknown": unknown}
    return preview(view, change, now=time.time(), in_scope=lambda uri: scope.objection(uri) is None)


class ScopeReason(msgspec.Struct):
    """Waiting URIs that the scope would disregard for the same reason: their number, and the first of them."""

    why: str
    urls: int
    example: str


class OutOfScope(msgspec.Struct):
    """The waiting URIs, queued or for later, that the stored scope would disregard, by reason; `of` are all that wait.

    `unknown` says why the scope cannot be applied; "" if it can.
    """

    of: int = 0
    reasons: list[ScopeReason] = []
    unknown: str = ""

    @property
    def urls(self) -> int:
        """The number of waiting URIs that are out of the scope."""
        return sum(one.urls for one in self.reasons)


def out_of_scope(view: View) -> OutOfScope:
    """Return which waiting URIs the stored scope would disregard at their turns. O(URIs), about 6 us each."""
    scope, unknown = _scope_of(view)
    if scope is None:
        return OutOfScope(unknown=unknown)
    of, found = 0, dict[str, ScopeReason]()
    for uri in view.waiting():
        of += 1
        if (why := scope.objection(uri)) is not None:
            found.setdefault(why, ScopeReason(why, 0, uri.url)).urls += 1
    return OutOfScope(of, _most_first(found))


def merged(parts: Iterable[OutOfScope]) -> OutOfScope:
    """Return the URIs of several partitions together."""
    of, unknown, found = 0, "", dict[str, ScopeReason]()
    for part in parts:
        of, unknown = of + part.of, unknown or part.unknown
        for one in part.reasons:
            found.setdefault(one.why, ScopeReason(one.why, 0, one.example)).urls += one.urls
    return OutOfScope(of, _most_first(found), unknown)


def _most_first(found: dict[str, ScopeReason]) -> list[ScopeReason]:
    return sorted(found.values(), key=lambda one: -one.urls)


def _scope_of(view: View) -> tuple[Scope | None, str]:
    """Return the stored scope with its seeds; None, and why, if it cannot be applied."""
    settings, last = view.settings()[0], last_position(view)
    if not has_scope(view):
        return None, "none is stored"
    try:
        scope = Scope(settings.scope)
    except SettingsError as error:
        return None, error.problems[0]
    if unreadable := _add_seeds(scope, settings, "")[1]:
        return None, f"without the seeds of {', '.join(unreadable)}"
    scope.add_listed(SeedHosts(lambda: view, lambda: last))
    return scope, ""


def _verdict(settings: Settings, href: str, uri: CrawlUri | None, view: View, last: int) -> ScopeVerdict:
    try:
        scope = Scope(settings.scope)
    except SettingsError as error:
        return ScopeVerdict(None, f"it cannot be told: {error.problems[0]}")
    is_seed, unreadable = _add_seeds(scope, settings, href)
    scope.add_listed(SeedHosts(lambda: view, lambda: last))
    is_seed = is_seed or find(view.txn, view.db, href) is not None
    known = uri or CrawlUri(href, hops="" if is_seed else "L")
    verdict = scope.verdict(known)
    text = str(verdict)
    if uri is None and not is_seed:
        text += " (taken as a link of a seed; what is imported is always in scope)"
    elif verdict.rule == "seed" and not is_seed:
        text = "accepted because it is no link: it was imported, or scheduled by a program"
    if verdict.accepted and known.hops[-1:] not in ("", "P") and _depends_on_response(settings.scope):
        text += "; type and size are asked once it answers"
    if unreadable:
        text += f"; without the seeds of {', '.join(unreadable)}"
    # A seed in an unreadable file might let the URI in.
    return ScopeVerdict(None if unreadable and not verdict.accepted else verdict.accepted, text, verdict.rule)


def _add_seeds(scope: Scope, settings: Settings, href: str) -> tuple[bool, list[str]]:
    """Add the seeds to the scope; return whether the href is one, and unreadable files with the reason."""
    is_seed, unreadable = False, []
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
            unreadable.append(f"{seed.file}, which cannot be read ({getattr(error, 'strerror', error)})")
    return is_seed, unreadable


def _depends_on_response(settings: ScopeSettings) -> bool:
    texts = (*settings.accept, *settings.reject, *(rule.rule for rule in settings.rules))
    return any(text.partition(":")[0] in OF_ANSWER for text in texts)
