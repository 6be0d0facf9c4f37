"""Hashes by which Heritrix distributes URIs over queues: the same text goes to the queue of the same number here."""

from __future__ import annotations

from bisect import bisect_left
from functools import cache, lru_cache
from ipaddress import ip_address
from typing import Final

_POLYNOMIAL: Final = 0xD74307D3FD3382DB  # of degree 64, the highest coefficients first; x^64 itself is left out
_REPLICAS: Final = 128
"""Places of each bucket on the circle of `bucket_of`."""


def _remainder(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
    return byte


@cache
def _remainders() -> tuple[int, ...]:
    return tuple(map(_remainder, range(256)))


def fp64(text: str) -> int:
    """Return the 64-bit Rabin fingerprint of a text, the `FPGenerator.std64` of Heritrix, as a signed number."""
    found, remainders = _POLYNOMIAL, _remainders()
    for byte in text.encode("utf-16-le", "surrogatepass"):
        found = found >> 8 ^ remainders[(found ^ byte) & 0xFF]
    return _signed(found, 64)


def bucket_of(text: str, buckets: int) -> int:
    """Return the bucket of a text, from 0 to `buckets` - 1, by consistent hashing (`LongToIntConsistentHash`).

    With one bucket more, a text stays in its bucket or goes to the new one.
    """
    places, owners = _circle(buckets)
    return owners[bisect_left(places, fp64(text)) % len(places)]


@lru_cache(maxsize=16)
def _circle(buckets: int) -> tuple[list[int], list[int]]:
    """Return the places of all buckets in ascending order, and the bucket of each."""
    circle = {fp64(f"{bucket}.{replica}"): bucket for bucket in range(buckets) for replica in range(_REPLICAS)}
    places = sorted(circle)
    return places, [circle[place] for place in places]


def text_hash(text: str) -> int:
    """Return the `String.hashCode` of Java."""
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    found = 0
    for unit in units:
        found = found * 31 + unit & 0xFFFFFFFF
    return _signed(found, 32)


def address_hash(address: str) -> int:
    """Return the `InetAddress.hashCode` of Java for an IP address. Raises ValueError for another text."""
    packed = ip_address(address).packed
    if len(packed) == 4:
        return int.from_bytes(packed, signed=True)
    found = sum(_signed(byte, 8) << 8 * (3 - at % 4) for at, byte in enumerate(packed))
    return _signed(found & 0xFFFFFFFF, 32)


def _signed(number: int, bits: int) -> int:
    return number - (1 << bits) if number >> bits - 1 else number
