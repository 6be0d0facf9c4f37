"""The items of PutURLs as they arrive; the compiled kernel reads those of URLs that were found."""

from __future__ import annotations

from typing import Any

from budgetfrontier.engine.native import kernel, panic
from budgetfrontier.server.urlfrontier import urlfrontier_pb2 as messages

FoundUrl = tuple[str, str, bytes | None]
"""A URL that was found, its key, and its metadata as they are stored; they have nothing with a meaning here."""


def read(data: bytes) -> tuple[str, str, Any]:
    """Return the crawlID of an item, the ID with which it is acknowledged, and a FoundUrl or a URLItem.

    Raises DecodeError.
    """
    try:
        found: tuple[str, str, FoundUrl] | None = None if kernel is None else kernel.read_found(data)
    except BaseException as e:
        if (failure := panic(e)) is None:
            raise
        raise failure from e
    if found is not None:
        return found
    item: Any = messages.URLItem.FromString(data)
    info = item.known.info if item.HasField("known") else item.discovered.info
    return info.crawlID, item.ID or info.url, item


def info_of(found: FoundUrl) -> Any:
    """Return a FoundUrl as a URLInfo."""
    url, key, metadata = found
    info = messages.URLInfo(url=url, key=key)
    info.MergeFromString(metadata or b"")
    return info
