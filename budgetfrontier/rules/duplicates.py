"""Duplicates: which URIs are the same, by the fingerprint of their canonical form, unless `force`.

`engine.admission.seen` admits each fingerprint once, and keeps the table of those. `engine.admission.candidates` writes
the fingerprint of a URL out for speed.
"""

from __future__ import annotations

from collections.abc import Callable

from budgetfrontier.core import uris
from budgetfrontier.core.model import CrawlUri


def fingerprint(uri: CrawlUri, url: str, canonical: Callable[[str], str]) -> bytes | None:
    """Return the fingerprint of a URI with the normalized URL `url`: a URI with a known fingerprint is a DUPLICATE.

    None with `force`: the check is skipped, and nothing is recorded. Method and body count unless GET and empty.
    """
    return None if uri.force else fingerprint_of(uri, url, canonical)


def fingerprint_of(uri: CrawlUri, url: str, canonical: Callable[[str], str]) -> bytes:
    """Return the fingerprint of a URI with the normalized URL `url`, forced or not."""
    return uris.fingerprint(canonical(url), uri.method, uri.body)


def identifying_url(given: object) -> str | None:
    """Return the URL if it alone identifies a URI (GET, no body, not forced); otherwise None."""
    if type(given) is CrawlUri:
        try:
            if given.force or given.body or given.method != "GET":
                return None
        except Exception:  # the truth value of an array raises; admission refuses it as a body
            return None
        given = given.url
    return given if type(given) is str else None
