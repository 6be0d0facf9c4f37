"""Access control: the token, sessions, CSRF, and the check of Origin."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from aiohttp import web

from budgetfrontier.core.effect_words import command_in_words
from budgetfrontier.core.endpoints.tokens import TokenFile
from budgetfrontier.reports.host_allowlist import HostAllowlist
from budgetfrontier.tools.console.forms import SubmittedCommand, role_for
from budgetfrontier.tools.console.named_tokens import NamedTokens, Role, TokenHolder
from budgetfrontier.tools.console.query import NotAllowed
from budgetfrontier.tools.console.static_files import STYLE_HASH

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


class BrowserSession(NamedTuple):
    """A browser that has given a token. `who` is the name for the audit, `csrf` what its forms carry."""

    who: str
    csrf: str
    until: float
    role: Role = Role.ADMIN


SESSION = web.RequestKey("session", BrowserSession)
"""The session of a request, if it has one."""


def check_role(session: BrowserSession, asked: SubmittedCommand) -> None:
    """Raise NotAllowed if the role of a session is not enough for a command."""
    needed = role_for(asked)
    if session.role < needed:
        whose = f"that of {session.who}" if session.who else "this one"
        raise NotAllowed(
            f"{command_in_words(asked.op)} needs a token with the role {needed.name.lower()}; {whose} has the role "
            f"{session.role.name.lower()}."
        )


def cookie_name(headers: Mapping[str, str]) -> str:
    """Return the name of the session's cookie: browsers send one server's cookies to all ports of its host."""
    port = headers.get("Host", "").rpartition(":")[2]
    return f"budgetfrontier-session-{port if port.isascii() and port.isdigit() else 'default'}"


def is_inside(target: str) -> bool:
    """Return whether a link leads to a page of this console: "//elsewhere" and "/\\elsewhere" lead to other sites."""
    return target.startswith("/") and target[1:2] not in ("/", "\\") and target.isprintable()


class Access:
    """The rules of access. Without a token, everything can be read and nothing changed; with any, both need one.

    `token` is the one that everybody shares, who says who he is; `named` are those that name their holders.
    """

    def __init__(self, token: TokenFile | None, *, named: NamedTokens | None = None, hosts: Iterable[str] = ()) -> None:
        self._token, self._named, self._changes = token, named, [0, 0]
        self.hosts = HostAllowlist(hosts)
        self._sessions: dict[str, BrowserSession] = {}

    @property
    def has_token(self) -> bool:
        """Whether jobs can be steered at all."""
        return self._token is not None or self._named is not None

    def holder(self, text: str) -> TokenHolder | None:
        """Return the holder of a token, without a name for the one that everybody shares; None if it is none."""
        if self._token is not None and self._token.accepts(text):
            return TokenHolder("", Role.ADMIN)
        return None if self._named is None else self._named.holder(text)

    @staticmethod
    def refused_origin(headers: Mapping[str, str]) -> bool:
        """Return whether a form comes from another site, or does not say where it comes from."""
        origin, host = headers.get("Origin", ""), headers.get("Host", "")
        return origin.partition("://")[2].lower() != host.lower() or not host

    def bearer(self, headers: Mapping[str, str]) -> BrowserSession | None:
        """Return a session for a request that carries the token itself, as scripts do."""
        kind, _, text = headers.get("Authorization", "").partition(" ")
        holder = self.holder(text.strip()) if kind.lower() == "bearer" else None
        return holder and BrowserSession(holder.name, "", 0.0, holder.role)

    def begin(self, who: str, role: Role = Role.ADMIN) -> str:
        """Begin a session; return its id, for the cookie."""
        now = time.monotonic()
        for key in [key for key, session in self._sessions.items() if session.until <= now]:
            del self._sessions[key]
        while len(self._sessions) >= _SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        name = secrets.token_urlsafe(32)
        self._sessions[name] = BrowserSession(who, secrets.token_urlsafe(32), now + _LIFETIME, role)
        return name

    def session(self, name: str | None) -> BrowserSession | None:
        """Return the session of a cookie; None if there is none, or if it is over: a change of tokens ends all."""
        changes = [0 if tokens is None else tokens.changes for tokens in (self._token, self._named)]
        if changes != self._changes:
            self._changes = changes
            self._sessions.clear()
        found = self._sessions.get(name or "")
        return found if found is not None and found.until > time.monotonic() else None

    def end(self, name: str | None) -> None:
        """End a session."""
        self._sessions.pop(name or "", None)
