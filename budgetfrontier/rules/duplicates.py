"""Duplicates: which URIs are the same, by the fingerprint of their canonical form, unless `force`; and Bloom filters.

`engine.admission.seen` admits each fingerprint once, and keeps the table of those. `engine.admission.candidates` writes
the fingerprint of a URL out for speed.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp, log

from budgetfrontier.core import uris
from budgetfrontier.core.model import CrawlUri
from budgetfrontier.errors import pass_on_interruption

BLOOM, NOOP = "bloom", "noop"
"""Values of the setting `duplicates`, besides the default."""
MOST_UNFOLDED = 1_000_000
"""The most fingerprints in the table `seen` that are not in the Bloom filter yet."""


def objection_to_forgetting(duplicates: str) -> str:
    """Return why a frontier with this setting cannot forget a URL; "" if it can."""
    if duplicates == BLOOM:
        return (
            "a Bloom filter cannot forget a URL (`frontier.duplicates: bloom`); schedule the URIs with `force` instead"
        )
    return (
        "no URL is remembered (`frontier.duplicates: noop`): there is nothing to forget" if duplicates == NOOP else ""
    )


def bloom_size(expected: int, error: float) -> tuple[int, int]:
    """Return the bits of a Bloom filter for so many fingerprints with this error, and the hashes of each."""
    bits = -expected * log(error) / log(2) ** 2
    return (int(bits) + 7) // 8 * 8, int(bits / expected * log(2))


def bloom_error(number: int, bits: int, hashes: int) -> float:
    """Return the share of new fingerprints that a Bloom filter with so many takes for known ones."""
    return float((1 - exp(-hashes * number / bits)) ** hashes)


def most_unfolded(expected: int) -> int:
    """Return the number of fingerprints beyond which those in the table `seen` move to the Bloom filter."""
    return min(max(expected // 16, 1), MOST_UNFOLDED)


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
        except Exception as e:  # the truth value of an array raises; admission refuses it as a body
            pass_on_interruption(e)
            return None
        given = given.url
    return given if type(given) is str else None
