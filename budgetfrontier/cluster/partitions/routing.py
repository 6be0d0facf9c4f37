"""The partition of a URI: all URIs of a queue are in one, so that its budget and its delays are exact."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final
from zlib import crc32

import msgspec

from budgetfrontier.core import uris
from budgetfrontier.core.bounded_cache import BoundedCache
from budgetfrontier.core.model import CrawlUri
from budgetfrontier.core.protocol import Uri
from budgetfrontier.errors import InvalidUrl, PolicyError, SettingsError
from budgetfrontier.settings import Settings, policy_factory, sheets

AUTHORITIES: Final = 64 << 10
"""Authorities whose partition is kept in memory."""


_WWW: Final = re.compile(r"^www[0-9]*\.|(?<=,)www[0-9]*,(?=:|$)")
_PARALLEL: Final = re.compile(r"\+[0-9]+\Z")


def partition_of_queue(key: str, partitions: int) -> int:
    """Return the partition of a queue: the CRC-32 of its key without "www." and "+n", modulo `partitions`.

    It is the same in all spellings of a host. URLs that differ in "www." alone are duplicates in most canonical forms,
    which only one partition can find; and so may be URLs on parallel queues, which differ in "+n".
    """
    core = _PARALLEL.sub("", key)
    named = _WWW.sub("", uris.key_form(core, any_scheme=True) or core)
    return crc32(named.encode("utf-8", "surrogatepass")) % partitions


class Router:
    """Finds the partition of URIs, by the queue assignment of a crawl's settings.

    Raises SettingsError for one that goes by the addresses of hosts, or by which URIs move, and for settings that name
    files of precedences.
    """

    def __init__(self, settings: Settings, partitions: int, *, suffix_list: str | None = None) -> None:
        if refused := policy_factory.partition_objection(settings.frontier):
            raise SettingsError(f"frontier.{refused[0]}: {refused[1]}")
        if policy_factory.preloaded_files(sheets.uri_precedence_policies(settings)):
            raise SettingsError(policy_factory.PRELOADED_IN_PARTITIONS)
        self._partitions = partitions
        self._assign: Callable[[CrawlUri], str] = policy_factory.assignment(settings.frontier, suffix_list)
        self._by_authority = bool(getattr(self._assign, "by_authority", False))
        self._known: BoundedCache[str, int] = BoundedCache(AUTHORITIES)

    def __repr__(self) -> str:
        return f"<Router to {self._partitions} partitions>"

    def partition(self, uri: Uri, *, otherwise: int = 0) -> int:
        """Return the partition of a URI; `otherwise` for one that has none, because it is INVALID."""
        if isinstance(uri, str):
            return self._of_url(uri, None, otherwise)
        if uri is None:
            return otherwise
        if uri.queue is not None:
            return partition_of_queue(uri.queue, self._partitions)
        return self._of_url(uri.url, uri, otherwise)

    def split(self, found: Iterable[Uri], *, otherwise: int = 0) -> dict[int, list[Uri]]:
        """Return URIs by their partitions, in order. About 0.5 us for a URI of a known authority."""
        parts: dict[int, list[Uri]] = {}
        for uri in found:
            parts.setdefault(self.partition(uri, otherwise=otherwise), []).append(uri)
        return parts

    def _of_url(self, url: str, uri: CrawlUri | None, otherwise: int) -> int:
        end = url.find("/", 8) if self._by_authority else 0
        start = url[:end] if end > 0 else ""
        partition = self._known.get(start)
        if partition is not None and start:
            return partition
        try:
            href = uris.parse(url)
            key = self._assign(CrawlUri(href) if uri is None else msgspec.structs.replace(uri, url=href))
        except (InvalidUrl, PolicyError, ValueError, TypeError):
            return otherwise
        partition = partition_of_queue(key, self._partitions)
        if _PLAIN.fullmatch(start):
            self._known.put(start, partition)
        return partition


_PLAIN: Final = re.compile(r"https?://[A-Za-z0-9.:\[\]_-]+")
"""Texts before the third slash that are scheme, host and port, and nothing else."""
