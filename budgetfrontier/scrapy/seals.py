"""Seals on stored requests, which identify their writer."""

from __future__ import annotations

import hmac
from hashlib import blake2b
from typing import Protocol

_HASH_SIZE = 16


class RequestLost(ValueError):
    """A stored request cannot be restored; the message says why."""


class Seal(Protocol):
    """A way to seal the data of requests."""

    @property
    def trusted(self) -> bool:
        """Whether the data that `opened` returns can only be from a writer that may run code here."""

    def sealed(self, data: bytes) -> bytes:
        """Return the payload for data."""

    def content(self, payload: bytes) -> bytes:
        """Return the data of an own payload, unchecked."""

    def opened(self, payload: bytes) -> bytes:
        """Return the data of a payload. Raises RequestLost if its writer is another."""


class KeyedHash:
    """A keyed hash (BLAKE2b, 16 bytes) before the data, whose key only this job has."""

    trusted = True

    def __init__(self, key: bytes) -> None:
        self._key = key

    def sealed(self, data: bytes) -> bytes:
        """Return the payload for data."""
        return self._hash(data) + data

    def content(self, payload: bytes) -> bytes:
        """Return the data of a payload, unchecked."""
        return payload[_HASH_SIZE:]

    def opened(self, payload: bytes) -> bytes:
        """Return the data of a payload. Raises RequestLost if its hash is wrong."""
        data = payload[_HASH_SIZE:]
        if not hmac.compare_digest(payload[:_HASH_SIZE], self._hash(data)):
            raise RequestLost("its payload was not written by this job")
        return data

    def _hash(self, data: bytes) -> bytes:
        return blake2b(data, digest_size=_HASH_SIZE, key=self._key).digest()
