"""The download slot of a request: set by the spider, or written by the downloader.

The downloader writes the slot that it uses into the meta of each request, and retries, redirects and everything else
that copies meta inherit it: a redirect to another host would keep the slot of the first. Therefore a second key of meta
records whether the spider set the slot. A slot set by the spider is kept: several hosts may share one, and its delay.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from scrapy.utils.httpobj import urlparse_cached

from budgetfrontier.core import uris

SLOT = "download_slot"

_WRITTEN = "budgetfrontier_slot"
"""Key in meta: the very object that the downloader wrote there as the slot; None if the spider had set one."""


def take_own(request: Any) -> str | None:
    """Return the slot that the spider has set; None if it is the host's. Remove an inherited slot from meta."""
    meta = request.meta
    known, written = _WRITTEN in meta, meta.pop(_WRITTEN, None)
    slot = meta.get(SLOT)
    if slot is None:
        return None
    if slot is written or (not known and slot == _redirected_from(meta)):
        del meta[SLOT]
        return None
    return None if _is_host(slot, request) else str(slot)


def record(request: Any, *, own: bool | None) -> None:
    """Record who set the slot that is now in the meta of a request.

    `own`: whether the spider did; None for a request that did not come from the scheduler, such as a download of a
    pipeline: its slot counts as the spider's unless it is the host's.
    """
    slot = request.meta.get(SLOT)
    if own is None:
        own = not _is_host(slot, request)
    request.meta[_WRITTEN] = None if own else slot


def _is_host(slot: Any, request: Any) -> bool:
    """Return whether a slot is the host of the request, in any spelling."""
    host = urlparse_cached(request).hostname
    return slot == host or (isinstance(slot, str) and host is not None and _form(slot) == _form(host))


def _form(host: str) -> str:
    return uris.key_form(host, any_scheme=True) or host


def _redirected_from(meta: dict[str, Any]) -> str | None:
    """Return the host that a redirect came from: for downloaders that send no signal for the requests they get."""
    try:
        return str(urlsplit(str(meta["redirect_urls"][-1])).hostname)
    except (LookupError, TypeError, ValueError):  # it is the spider's to set, too
        return None
