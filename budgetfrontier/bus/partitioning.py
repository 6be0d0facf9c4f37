"""Partitioners: the partition that a key belongs to, the same in every process, version and machine."""

from __future__ import annotations

import re
from zlib import crc32

from xxhash import xxh3_64_intdigest

from budgetfrontier.core import uris
from budgetfrontier.errors import InvalidUrl

_WWW = re.compile(r"^www[0-9]*\.(?=.)")


def by_host(url: str, partitions: int) -> int:
    """Return the partition of a URL's host: all URLs of a host have one, whatever their scheme, port and case.

    It is that of the host's name (`by_host_name`). URLs that are not valid have partition 0.
    """
    try:
        host = uris.host(uris.parse(url))
    except InvalidUrl:
        return 0
    return by_host_name(host, partitions)


def by_host_name(host: str, partitions: int) -> int:
    """Return the partition of a host: the CRC-32 of its name in lower case, as a signed number, modulo `partitions`.

    So does Frontera's Crc32NamePartitioner, to which www.example.org is another host. Here "www.", "www2." and so on do
    not count: most frontiers take URLs with and without it for one URI, so they must be in one partition.
    """
    checksum = crc32(_WWW.sub("", uris.without_root_dot(host.lower())).encode("utf-8", "ignore"))
    return (checksum - (1 << 32) if checksum >> 31 else checksum) % partitions


def by_fingerprint(fingerprint: bytes, partitions: int) -> int:
    """Return the partition of a fingerprint: its XXH3 hash of 64 bits, modulo `partitions`.

    With the fingerprint of a host, a host has one partition. Frontera hashes with CityHash64, so partitions differ.
    """
    return int(xxh3_64_intdigest(fingerprint)) % partitions
