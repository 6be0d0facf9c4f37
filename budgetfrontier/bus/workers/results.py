"""The effects on leases of the results that spiders report. Pure rules.

| result | outcome |
| --- | --- |
| `PageCrawled`, status below 500 | SUCCESS |
| `PageCrawled`, status 500 or above | FAILURE |
| `RequestError` of a request that was never sent, as robots.txt demands | DISREGARDED |
| `RequestError` of a request that no spider can make again (`RequestLost`) | DEAD |
| any other `RequestError` | RETRY, or FAILURE if the frontier retries nothing |

After a `PageCrawled` with status 429 or 503 the host rests, as `frontier.backoff` says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from budgetfrontier.bus import request_meta
from budgetfrontier.bus.messages import PageCrawled, RequestError
from budgetfrontier.core.model import SIZES, CrawlUri, Finish, Lease, Outcome
from budgetfrontier.engine import arguments
from budgetfrontier.rules.backoff import OVERLOADED

NOT_TRIED = frozenset(("IgnoreRequest", "NotSupported", "robots"))
"""Errors of requests that no server was asked for."""
LOST = "RequestLost"
"""The beginning of the error of a request that its spider could not restore."""
LONGEST_REASON = 200

_NO_URI = CrawlUri("")


def meta_of(result: PageCrawled | RequestError) -> Mapping[Any, Any]:
    """Return the meta of the request that a result is about."""
    return (result.response if isinstance(result, PageCrawled) else result.request).meta


def dead(lease_id: int, reason: str) -> Finish:
    """Return the end of a lease with a request that can reach no spider."""
    return Finish(_lease(lease_id), Outcome.DEAD, reason=reason[:LONGEST_REASON])


def _lease(lease_id: int) -> Lease:
    return Lease(lease_id, "", _NO_URI, 0, 0.0, 0)


def _seconds(meta: Mapping[Any, Any], key: bytes) -> float | None:
    seconds = request_meta.get(meta, key, float)
    return seconds if seconds is not None and 0.0 <= seconds < 1e9 else None


def _address(meta: Mapping[Any, Any]) -> str:
    """Return the address that the response came from; "" if it is missing, or none."""
    try:
        return arguments.address(request_meta.get(meta, request_meta.ADDRESS, str) or "")
    except ValueError:
        return ""


def ending_of(result: PageCrawled | RequestError, lease_id: int, *, retries: bool) -> Finish:
    """Return how a lease ends with a result. `retries` is whether errors are retried."""
    meta, lease = meta_of(result), _lease(lease_id)
    seconds = _seconds(meta, request_meta.FETCH_SECONDS)
    if isinstance(result, PageCrawled):
        outcome = Outcome.SUCCESS if result.response.status_code < 500 else Outcome.FAILURE
        size = request_meta.get(meta, request_meta.SIZE, int)
        if size is None:
            size = len(result.response.body or b"")
        reason = "" if outcome is Outcome.SUCCESS else f"status {result.response.status_code}"
        status = result.response.status_code
        delay = _seconds(meta, request_meta.RETRY_AFTER) if status in OVERLOADED else None
        return Finish(
            lease,
            outcome,
            fetch_seconds=seconds,
            size=min(max(0, size), SIZES - 1),
            reason=reason,
            status=status,
            delay=delay,
            novel=request_meta.get(meta, request_meta.NOVEL, bool),
            address=_address(meta),
            digest=request_meta.get(meta, request_meta.DIGEST, bytes) or b"",
        )
    if result.error in NOT_TRIED:
        return Finish(lease, Outcome.DISREGARDED, reason=result.error)
    if result.error.startswith(LOST):
        return Finish(lease, Outcome.DEAD, reason=result.error[:LONGEST_REASON])
    outcome = Outcome.RETRY if retries else Outcome.FAILURE
    return Finish(lease, outcome, fetch_seconds=seconds, reason=result.error[:LONGEST_REASON])
