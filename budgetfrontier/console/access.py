"""Who may ask for what: the token, sessions, CSRF, and the check of Origin."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import secrets
import stat
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from budgetfrontier.console.static_files import STYLE_HASH
from budgetfrontier.errors import FrontierError
from budgetfrontier.reports.known_hosts import KnownHosts

SHORTEST = 16
"""Characters that a token has at least."""
_LIFETIME = 12 * 3600.0  # seconds of a session
_SESSIONS = 100

HEADERS = {
    "Content-Security-Policy": f"default-src 'none'; style-src '{STYLE_HASH}'; script-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not no-referrer: with it, browsers send `Origin: null` with a form.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""The headers of every answer."""


class Session(NamedTuple):
    """A browser that has given the token. `who` is the name for the audit, `csrf` what its forms carry."""

    who: str
    csrf: str
    until: float


def read_token(path: Path) -> str:
    """Return the token in a file. Raises FrontierError if others may read the file, or if the token is short."""
    try:
        mode, text = os.stat(path).st_mode, path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as e:
        raise FrontierError(f"{path}: the token cannot be read ({getattr(e, 'strerror', e)})") from None
    if mode & (stat.S_IROTH | stat.S_IWOTH):
        raise FrontierError(f"{path}: everybody may read this token; `chmod 600 {path}`")
    if len(text) < SHORTEST or not text.isprintable():
        raise FrontierError(
            f"{path}: a token is a line of at least {SHORTEST} characters, such as the output of `openssl rand -hex 20`"
        )
    return text


def cookie_name(headers: Mapping[str, str]) -> str:
    """Return the name of the session's cookie: browsers send one server's cookies to all ports of its host."""
    port = headers.get("Host", "").rpartition(":")[2]
    return f"budgetfrontier-session-{port if port.isascii() and port.isdigit() else 'default'}"


def is_inside(target: str) -> bool:
    """Tell whether a link leads to a page of this console: "//elsewhere" and "/\\elsewhere" lead to other sites."""
    return target.startswith("/") and target[1:2] not in ("/", "\\") and target.isprintable()


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches what listens on `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Access:
    """The rules of access. Without a `token`, everything can be read and nothing changed; with one, both need it."""

    def __init__(self, token: str | None, *, hosts: Iterable[str] = ()) -> None:
        self._token = None if token is None else _digest(token)
        self.hosts = KnownHosts(hosts)
        self._sessions: dict[str, Session] = {}

    @property
    def has_token(self) -> bool:
        """Whether jobs can be steered at all."""
        return self._token is not None

    def is_token(self, text: str) -> bool:
        """Compare with the token; how long that takes does not depend on how much of it is right."""
        return self._token is not None and hmac.compare_digest(_digest(text), self._token)

    @staticmethod
    def refused_origin(headers: Mapping[str, str]) -> bool:
        """Tell whether a form comes from another site, or does not say where it comes from."""
        origin, host = headers.get("Origin", ""), headers.get("Host", "")
        return origin.partition("://")[2].lower() != host.lower() or not host

    def bearer(self, headers: Mapping[str, str]) -> Session | None:
        """Return a session for a request that carries the token itself, as scripts do."""
        kind, _, text = headers.get("Authorization", "").partition(" ")
        if kind.lower() == "bearer" and self.is_token(text.strip()):
            return Session("", "", 0.0)
        return None

    def begin(self, who: str) -> str:
        """Begin a session; return its id, for the cookie."""
        now = time.monotonic()
        for key in [key for key, session in self._sessions.items() if session.until <= now]:
            del self._sessions[key]
        while len(self._sessions) >= _SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        name = secrets.token_urlsafe(32)
        self._sessions[name] = Session(who, secrets.token_urlsafe(32), now + _LIFETIME)
        return name

    def session(self, name: str | None) -> Session | None:
        """Return the session of a cookie; None if there is none, or if it is over."""
        found = self._sessions.get(name or "")
        return found if found is not None and found.until > time.monotonic() else None

    def end(self, name: str | None) -> None:
        """End a session."""
        self._sessions.pop(name or "", None)


def same_text(one: str, other: str) -> bool:
    """Compare two texts in constant time."""
    return hmac.compare_digest(_digest(one), _digest(other))


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
