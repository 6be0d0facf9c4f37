"""Patterns that are valid and match nothing, because of the form of normalized URLs."""

from __future__ import annotations

import re

from budgetfrontier.settings.matching import has_wildcards, parse_match
from budgetfrontier.settings.values import brief

_SPACE = re.compile(r"\s")
# Characters that stand for themselves, at least once, between a scheme at the start of a URL and the path: no userinfo.
_UPPER_CASE_HOST = re.compile(r"(?:\^|\\A)https?\??://(?=[^/]*[A-Z])(?:[\w-]|\\?\.)+(?::[0-9]+)?/(?![?*{])", re.ASCII)
_FORCED = "unless URIs are scheduled with such a key"


def never_matches(text: str, *, own_keys: bool = False) -> str | None:
    """Return a warning of a valid match or scope rule that can match no URI; None if it may, or if that is unknown.

    Queues may have any keys with `own_keys`, as an assignment policy of one's own gives them.

    >>> never_matches("host:*.example.org:8080")
    '"host:*.example.org:8080" matches nothing: the host is compared, which has no port'
    """
    kind, _, pattern = text.partition(":")
    reason: str | None = None
    match kind:
        case "host":
            reason = _no_host(pattern)
        case "domain" if has_wildcards(pattern.removeprefix("*.")):
            reason = "a domain has no wildcards, and stands for all hosts below it; write host: for a glob"
        case "surt":
            reason = _no_surt(pattern)
        case "queue" | "queues" if not own_keys:
            reason = _no_key(parse_match(text).keys or (pattern,))
        case "regex":
            reason = _no_url(pattern, parse_match(text).needs)
    return _warning(text, reason)


def matches_no_host(pattern: str) -> str | None:
    """Return a warning of a glob that can match no host; None if it may."""
    return _warning(pattern, _no_host(pattern))


def _warning(text: str, reason: str | None) -> str | None:
    return reason and f'"{brief(text)}" matches nothing: {reason}'


def _no_host(pattern: str) -> str | None:
    """Return why a glob matches no host; None if it may."""
    if "://" in pattern:
        return "the host is compared, which has no scheme"
    if "/" in pattern:
        return "the host is compared, which has no path"
    if ":" in pattern and not pattern.startswith("["):  # of an IPv6 address
        return "the host is compared, which has no port"
    return "a host has no spaces" if _SPACE.search(pattern) else None


def _no_surt(prefix: str) -> str | None:
    """Return why no SURT begins with a prefix; None if one may."""
    if _SPACE.search(prefix):
        return "a URL has no spaces; write %20"
    if has_wildcards(prefix.partition(")")[0]):
        return "a SURT prefix has no wildcards, and stands for all that begins with it"
    return None


def _no_key(keys: tuple[str, ...]) -> str | None:
    for key in keys:
        if "://" in key:
            return f"the key of a queue has no scheme, {_FORCED}"
        if _SPACE.search(key):
            return f"the key of a queue has no spaces, {_FORCED}"
    return None


def _no_url(pattern: str, needed: str) -> str | None:
    """Return why no normalized URL matches a regular expression, for which it `needs` a text; None if one may."""
    if _SPACE.search(needed):
        return "a URL has no spaces; write %20"
    has_upper_case_host = needed and _UPPER_CASE_HOST.match(pattern)  # a path or query may hold such a URL
    return "the host of a URL is in lower case" if has_upper_case_host else None
