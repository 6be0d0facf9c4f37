"""The connection to a Redis server for imports: it only reads, and explains errors to the user."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from budgetfrontier.core.endpoints import redis_url
from budgetfrontier.core.endpoints.redis_url import PASSWORD
from budgetfrontier.errors import FrontierError, MissingExtra, WrongAddress

TIMEOUT = 30
"""Seconds to connect, and to wait for an answer."""
RETRIES = 3
"""Further tries of a read that fails because the connection is lost. The first connection is tried once."""
_PLAIN = re.compile("WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE|PACKET_LENGTH_TOO_LONG", re.IGNORECASE)
_CUT_OFF = re.compile("closed by server|reset by peer", re.IGNORECASE)


class RedisConnection(NamedTuple):
    """A server that was reached."""

    name: str
    """Its URL without the password, for messages."""
    client: Any


@contextmanager
def connected(url: str) -> Iterator[RedisConnection]:
    """Connect to a server. Raises FrontierError if the URL, the server or its answer is not right."""
    try:
        import redis
        from redis.backoff import ExponentialBackoff, NoBackoff
        from redis.retry import Retry
    except ModuleNotFoundError as error:
        raise MissingExtra("redis") from error
    try:
        name, options = redis_url.read(url)
    except ValueError as error:
        raise WrongAddress(str(error)) from None
    client = redis.Redis(
        **options,
        decode_responses=False,
        retry=Retry(NoBackoff(), 0),
        socket_timeout=TIMEOUT,
        socket_connect_timeout=TIMEOUT,
    )
    try:
        with explained(name, first=True):
            client.ping()
        client.set_retry(Retry(ExponentialBackoff(), RETRIES))
        yield RedisConnection(name, client)
    finally:
        client.close()


@contextmanager
def explained(name: str, *, first: bool = False) -> Iterator[None]:
    """Turn an error of the client into a FrontierError with advice; `first` is for that of the first try."""
    from redis import RedisError

    try:
        yield
    except (RedisError, OSError) as error:
        text = (_about_tls(name, error) if first else "") or explanation(error, tries=1 if first else RETRIES + 1)
        raise FrontierError(f"{name}: {text}") from error


def _about_tls(name: str, error: Exception) -> str:
    """Return the sentence on a failed first try if only one side may have TLS; "" otherwise.

    A server without TLS waits for the rest of a command, or answers in plain text, as the bytes of the handshake are.
    """
    from redis import exceptions

    if name.startswith("rediss:"):
        if isinstance(error, exceptions.TimeoutError):
            return f"it did not answer within {TIMEOUT} s; if it has no TLS at this port, write redis:// instead"
        if _PLAIN.search(str(error)):
            return "it has no TLS at this port; write redis:// instead"
    elif name.startswith("redis:") and _CUT_OFF.search(str(error)):
        return "it has closed the connection; if it has TLS at this port, write rediss:// instead"
    return ""


def explanation(error: Exception, *, tries: int = RETRIES + 1) -> str:
    """Return the meaning of an error of the client, after so many tries of a read."""
    from redis import exceptions

    text = str(error).rstrip(". ")
    if isinstance(error, exceptions.AuthenticationError) or text.startswith(("NOAUTH", "WRONGPASS")):
        return f"it refuses the password, or wants one ({text}); give it in the URL or in the variable {PASSWORD}"
    if isinstance(error, exceptions.NoPermissionError) or text.startswith("NOPERM"):
        return f"its user may not do that ({text}); reading needs +@read, +scan and +type on the keys"
    if isinstance(error, exceptions.BusyLoadingError):
        return "it is still loading its data; try again later"
    if isinstance(error, exceptions.TimeoutError):
        return f"it did not answer within {TIMEOUT} s" + (f", {tries} times in a row" if tries > 1 else "")
    if text.startswith(("MOVED", "ASK", "CROSSSLOT")):
        return "it is a part of a Redis Cluster, which cannot be imported as a whole; name the server that has the keys"
    if isinstance(error, exceptions.ResponseError):
        return text
    return f"it cannot be reached ({text})"
