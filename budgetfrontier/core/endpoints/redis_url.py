"""The URL of a Redis server: the server, the database and the options that it names, for imports and for the bus.

Unknown parts are refused, where redis-py ignores them: database 0 may be that of another crawl.
"""

from __future__ import annotations

import os
import re
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from budgetfrontier.core.spelling import did_you_mean
from budgetfrontier.core.units import counted

PASSWORD = "REDISCLI_AUTH"
"""The environment variable with the password if the URL has none: that of `redis-cli`."""
PORT = 6379
_USAGE = "redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE], rediss:// for TLS, or unix:///PATH[?db=DATABASE]"
_TLS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_OPTIONS = {"unix": ("db",), "redis": ("db",), "rediss": ("db", *_TLS)}
SCHEMES = frozenset(_OPTIONS)
"""The schemes of URLs of Redis servers."""


class RedisServer(NamedTuple):
    """A server that a URL names."""

    name: str
    """The URL without the password, for messages."""
    options: dict[str, Any]
    """The arguments of redis-py's client."""


def read(url: str) -> RedisServer:
    """Return the server that a URL names.

    Raises ValueError, which quotes nothing: any part may belong to a password that is not encoded.
    """
    try:
        return _read(url)
    except ValueError as error:
        raise ValueError(f"the URL of the Redis server: {error}; expected {_USAGE}") from None


def _read(url: str) -> RedisServer:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "localhost", parts.port or PORT
    except ValueError:
        raise ValueError("the host or port is invalid; encode special characters of a password, such as %2F") from None
    if "#" in url or re.search(r"[\s\x00-\x1f]", url):
        raise ValueError("spaces and # are written as %20 and %23")
    scheme, query = parts.scheme.lower(), dict(parse_qsl(parts.query, keep_blank_values=True))
    supported = _OPTIONS[scheme]
    if unknown := sorted(query.keys() - set(supported)):
        text = f"{counted(len(unknown), 'unknown option')}; known: {', '.join(supported)}"
        raise ValueError(text + did_you_mean(unknown[0], supported))
    is_socket = scheme == "unix"
    path = unquote(parts.path)
    if is_socket and not path:
        raise ValueError("the path of the socket is missing")
    database = query.pop("db") if "db" in query else ("" if is_socket else path.strip("/")) or "0"
    if not (database.isascii() and database.isdecimal() and len(database) < 10):
        raise ValueError("what follows the host is not the number of a database")
    password = unquote(parts.password) if parts.password else os.environ.get(PASSWORD)
    options: dict[str, Any] = {
        "db": int(database),
        "username": unquote(parts.username) if parts.username else None,
        "password": password or None,
    }
    if is_socket:
        return RedisServer(f"unix://{path}?db={database}", options | {"unix_socket_path": path})
    shown = f"[{host}]" if ":" in host else host
    if scheme == "rediss":
        options |= {"ssl": True, "ssl_cert_reqs": "required", "ssl_check_hostname": True, **query}
    return RedisServer(f"{scheme}://{shown}:{port}/{database}", options | {"host": host, "port": port})
