"""A batch of URIs as it has been read: the candidates for admission, and what else was passed."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from budgetfrontier.core.model import CrawlUri
from budgetfrontier.settings.overrides import QueueSettings


class UriCandidate(msgspec.Struct, gc=False):
    """A URI that may be admitted."""

    queue: str
    value: bytes
    short: str
    """Its URL as in the records of its queue."""
    uri: CrawlUri | None
    """None if nothing but its URL determines its place in the queue."""
    cost: int
    settings: QueueSettings
    precedence: int | None
    """The values that its queue takes from it, if a policy determined them."""
    own_precedence: int | None
    """Its place among the URIs of the queue; None: that of its cost."""


class Batch(NamedTuple):
    """The URIs of a batch that may be new, in order, by fingerprint (with `force`: a number); the first of a form."""

    candidates: dict[Any, UriCandidate]
    forced: list[int]
    invalid: list[Any]
    each: list[tuple[Any, UriCandidate | None]]
    """For each URI, also repeated ones: its key and candidate, or the result and None if it is refused."""
    reasons: list[str]
    """Why each of the invalid is INVALID."""
    seeds: list[tuple[Any, UriCandidate, CrawlUri]]
    """The seeds among them, each with its key and candidate."""
