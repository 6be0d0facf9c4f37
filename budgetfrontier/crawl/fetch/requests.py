"""Additions to requests: headers, cookies and passwords from `fetch.requests`, and the proxy.

`${NAME}` is replaced by the value of an environment variable. The value is sent, but never stored: records of the
request have "-" instead of it.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import yarl

from budgetfrontier.errors import SettingsError
from budgetfrontier.settings.matching import Match, parse_match
from budgetfrontier.settings.schema import RequestSettings

_VARIABLE = re.compile(r"\$\{([^}]*)\}")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, section 5.6.2
UNSENDABLE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
"""Characters that a request header may not contain (RFC 9110, section 5.5), although response headers do."""
_HIDDEN = ("authorization", "proxy-authorization")


class _Value(NamedTuple):
    """A header or cookie: its name, the value that is sent, and the value that may be recorded."""

    name: str
    sent: str
    recorded: str


class _Extra(NamedTuple):
    """The additions of one entry of `fetch.requests`: headers by name in lower case, and cookies by name."""

    match: Match
    headers: dict[str, _Value]
    cookies: dict[str, _Value]


class Requests:
    """The headers that `fetch.requests` adds by URI. All entries that match apply; later ones take precedence.

    Raises SettingsError for an environment variable that is not set, and for text that a header cannot contain; the
    message names the setting and the variable, never the value. False if there are no entries.
    """

    def __init__(self, settings: Iterable[RequestSettings], *, environment: Mapping[str, str] = os.environ) -> None:
        self._secrets: set[str] = set()
        substitute = substitution(environment, self._secrets)
        self._extras = [_extra(f"fetch.requests.{index}", one, substitute) for index, one in enumerate(settings)]

    def __bool__(self) -> bool:
        return bool(self._extras)

    def headers(self, href: str) -> tuple[dict[str, str], dict[str, str]]:
        """Return the headers to add to a request for a normalized href, and the values to record by lower-case name."""
        headers: dict[str, _Value] = {}
        cookies: dict[str, _Value] = {}
        for extra in self._extras:
            if extra.match.matches(href):
                headers |= extra.headers
                cookies |= extra.cookies
        if cookies:
            sent = "; ".join(f"{cookie.name}={cookie.sent}" for cookie in cookies.values())
            recorded = "; ".join(f"{cookie.name}={cookie.recorded}" for cookie in cookies.values())
            headers["cookie"] = _Value("Cookie", sent, recorded)
        return {one.name: one.sent for one in headers.values()}, {low: one.recorded for low, one in headers.items()}

    def scrub(self, text: str) -> str:
        """Return a text, such as an error message, with the values of environment variables replaced by "-"."""
        for secret in self._secrets:
            text = text.replace(secret, "-")
        return text


class Proxy(NamedTuple):
    """A proxy: its URL without userinfo, and the Proxy-Authorization header made from the userinfo, if any."""

    url: yarl.URL
    authorization: str | None


def proxy_of(text: str | None, *, environment: Mapping[str, str] = os.environ) -> Proxy | None:
    """Return the proxy given by `fetch.proxy`; None if empty. Raises SettingsError, whose message omits the value."""
    if not text:
        return None
    try:
        url = yarl.URL(substitution(environment, set())(text, "fetch.proxy"))
        valid = url.scheme == "http" and bool(url.host)
        secret = f"{url.user or ''}:{url.password or ''}" if url.user or url.password else None
    except ValueError:
        valid = False
    if not valid:
        raise SettingsError("fetch.proxy: expected an HTTP proxy, such as http://proxy:3128")
    return Proxy(url.origin(), basic(secret) if secret else None)


def basic(credentials: str) -> str:
    """Return the Authorization header for "user:password" (RFC 7617)."""
    return "Basic " + base64.b64encode(credentials.encode()).decode()


def redact(headers: Iterable[tuple[str, str]], recorded: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return request headers with secrets replaced by the values to record; credentials always become "-"."""
    return [(name, "-" if (low := name.lower()) in _HIDDEN else recorded.get(low, value)) for name, value in headers]


Substitute = Callable[[str, str], str]


def substitution(environment: Mapping[str, str], secrets: set[str]) -> Substitute:
    """Return a function of (text, setting's name) that replaces variables by their values, added to `secrets`."""

    def substitute(text: str, setting: str) -> str:
        def value(match: re.Match[str]) -> str:
            name = match[1]
            if name not in environment:
                raise SettingsError(f"{setting}: the environment variable {name} is not set")
            if environment[name]:
                secrets.add(environment[name])
            return environment[name]

        return _VARIABLE.sub(value, text)

    return substitute


def _extra(setting: str, settings: RequestSettings, substitute: Substitute) -> _Extra:
    headers = {
        name.lower(): _value(name, text, f"{setting}.headers.{name}", substitute)
        for name, text in settings.headers.items()
    }
    cookies = {
        name: _value(name, text, f"{setting}.cookies.{name}", substitute) for name, text in settings.cookies.items()
    }
    for name, cookie in cookies.items():
        if ";" in cookie.sent:
            raise SettingsError(f"{setting}.cookies.{name}: a cookie's value cannot hold a semicolon")
    if settings.auth:
        credentials = substitute(settings.auth, f"{setting}.auth")
        if ":" not in credentials:
            raise SettingsError(f"{setting}.auth: expected user:password")
        headers["authorization"] = _Value("Authorization", basic(credentials), "-")
    return _Extra(parse_match(settings.match), headers, cookies)


def _value(name: str, text: str, setting: str, substitute: Substitute) -> _Value:
    value = substitute(text, setting)
    if not _TOKEN.fullmatch(name):
        raise SettingsError(f"{setting}: this cannot be a name in a header")
    if UNSENDABLE.search(value):
        raise SettingsError(f"{setting}: the value holds a line break or another control character")
    return _Value(name, value, "-" if _VARIABLE.search(text) else value)
