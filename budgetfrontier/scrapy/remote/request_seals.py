"""Seals on requests that other processes run: with a key that they all have, or without one.

The server stores payloads and has no key: who can use its port, or read its disk, can neither sign a request nor have
one unpickled.
"""

from __future__ import annotations

import hmac
from hashlib import blake2b

from budgetfrontier.scrapy.seals import RequestLost
from budgetfrontier.scrapy.serialization import is_stored

_ID_SIZE, _HASH_SIZE = 8, 16
_NO_KEY = bytes(_ID_SIZE)


class OtherKey(RequestLost):
    """A request was written by a process with another BUDGETFRONTIER_KEY, or another spider."""


class SharedKey:
    """A seal with a key that is derived from a secret, for one spider; the payload begins with the key's id."""

    trusted = True

    def __init__(self, secret: str, spider: str) -> None:
        digest = blake2b(spider.encode(), key=blake2b(secret.encode()).digest(), person=b"bf-scrapy-key").digest()
        self._key, self._id = digest[:32], digest[32 : 32 + _ID_SIZE]

    def sealed(self, data: bytes) -> bytes:
        """Return the payload for data."""
        return self._id + self._hash(data) + data

    def content(self, payload: bytes) -> bytes:
        """Return the data of a payload, unchecked."""
        return payload[_ID_SIZE + _HASH_SIZE :]

    def opened(self, payload: bytes) -> bytes:
        """Return the data of a payload. Raises OtherKey, and RequestLost if its hash is wrong, or it is no payload."""
        _check_id(payload, self._id)
        data = self.content(payload)
        if not hmac.compare_digest(payload[_ID_SIZE : _ID_SIZE + _HASH_SIZE], self._hash(data)):
            raise RequestLost("its signature is wrong: it was not written by a spider with BUDGETFRONTIER_KEY")
        return data

    def _hash(self, data: bytes) -> bytes:
        return blake2b(data, digest_size=_HASH_SIZE, key=self._key).digest()


class NoKey:
    """No seal: anybody may have written a payload, so that it is plain data and names public callbacks alone."""

    trusted = False

    def sealed(self, data: bytes) -> bytes:
        """Return the payload for data."""
        return _NO_KEY + data

    def content(self, payload: bytes) -> bytes:
        """Return the data of a payload."""
        return payload[_ID_SIZE:]

    def opened(self, payload: bytes) -> bytes:
        """Return the data of a payload. Raises OtherKey for one with a key, and RequestLost if it is no payload."""
        _check_id(payload, _NO_KEY)
        return self.content(payload)


def _check_id(payload: bytes, expected: bytes) -> None:
    found = payload[:_ID_SIZE]
    if found == expected:
        return
    if not is_stored(payload[_ID_SIZE if found == _NO_KEY else _ID_SIZE + _HASH_SIZE :]):
        raise RequestLost("what was stored of it is no request of a spider, with whatever key")
    if found == _NO_KEY:
        raise OtherKey("it was written by a process without BUDGETFRONTIER_KEY: give all processes the same")
    if expected == _NO_KEY:
        raise OtherKey("it was written by a process with BUDGETFRONTIER_KEY: give this one the same")
    raise OtherKey(
        "it was written with another BUDGETFRONTIER_KEY, or by another spider: give all processes the same key, and "
        "each spider a crawl of its own"
    )
