"""The keys of queues: which queue a URI is placed on, which text may be a key, and how one is stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from budgetfrontier.core import uris

if TYPE_CHECKING:
    from budgetfrontier.core.model import CrawlUri

MAX_QUEUE_KEY = 255
"""Bytes of a queue key in UTF-8; LMDB takes 511."""


def queue_key_for(uri: CrawlUri, assign: Callable[[CrawlUri], str]) -> str:
    """Return the key of the queue that a URI is placed on: one forced on it wins over the policy's.

    A forced key that is the URI's own host in another spelling is that host's.
    """
    key = uri.queue
    if key is None:
        return assign(uri)
    own = uris.authority(uri.url)
    return own if key != own and uris.key_form(key, any_scheme=True) == own else key


def key_named(text: str, exists: Callable[[str], object]) -> str:
    """Return the key of the queue that somebody names: the text, or the form of it, if only that one `exists`."""
    if exists(text) is not None:
        return text
    form = uris.key_form(text, any_scheme=True)
    return text if form is None or exists(form) is None else form


def queue_key_bytes(key: str) -> bytes | None:
    """Return a queue key as it is stored; None for text that cannot be one."""
    try:
        stored = key.encode()
    except UnicodeEncodeError:  # lone surrogates
        return None
    return stored if 0 < len(stored) <= MAX_QUEUE_KEY and b"\0" not in stored else None


def queue_key_of(stored: bytes) -> str | None:
    """Return the queue key that was stored as these bytes; None if that cannot be one."""
    try:
        key = stored.decode()
    except UnicodeDecodeError:
        return None
    return key if queue_key_bytes(key) is not None else None
