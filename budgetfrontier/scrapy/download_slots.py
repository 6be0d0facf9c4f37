"""The download slot of a request: its spider's own, or merely what the downloader wrote.

The downloader writes the slot that it uses into each request's meta, where retries, redirects and all who copy meta
find it: a redirect to another host would take the slot of the first along. So it is noted beside the slot whether the
spider had set it, for what the spider has set holds: several hosts may share a slot, and its delay.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from scrapy.utils.httpobj import urlparse_cached

SLOT = "download_slot"

_WRITTEN = "budgetfrontier_slot"
"""In meta: the very object that the downloader wrote there as the slot; None if the spider had set one."""


def settle(request: Any) -> str | None:
    """Return the slot that the spider has set, None if it is the host's. One that was inherited leaves meta."""
    meta = request.meta
    known, written = _WRITTEN in meta, meta.pop(_WRITTEN, None)
    slot = meta.get(SLOT)
    if slot is None:
        return None
    if slot is written or (not known and slot == _redirected_from(meta)):
        del meta[SLOT]
        return None
    return None if slot == urlparse_cached(request).hostname else str(slot)


def note(request: Any, *, own: bool | None) -> None:
    """The downloader has written the slot of a request. `own`: the spider had set one; None: nobody knows.

    What did not come from the scheduler, such as what pipelines download, is taken to have none if it is the host's.
    """
    slot = request.meta.get(SLOT)
    if own is None:
        own = slot != urlparse_cached(request).hostname
    request.meta[_WRITTEN] = None if own else slot


def _redirected_from(meta: dict[str, Any]) -> str | None:
    """The host that a redirect came from: for downloaders that do not tell of the requests that they get."""
    try:
        [last] = meta.get("redirect_urls", ())[-1:]
        return str(urlsplit(last).hostname)
    except ValueError:
        return None
