"""What is sent beyond the usual: headers, cookies and passwords of `fetch.requests`, and the proxy.

`${NAME}` stands for an environment variable. Its value is sent and kept nowhere: where what was sent is told, there is
a "-" in its place.
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
"""What cannot stand in a header that is sent (RFC 9110, section 5.5), though answers come with it."""
_HIDDEN = ("authorization", "proxy-authorization")


class _Value(NamedTuple):
    name: str
    sent: str
    told: str


class _Extra(NamedTuple):
    """What one entry of `fetch.requests` adds: headers by their names in lower case, and cookies."""

    match: Match
    headers: dict[str, _Value]
    cookies: dict[str, _Value]


class Requests:
    """The headers that `fetch.requests` adds, by URI: all entries that match apply, later ones win.

    Raises SettingsError for an environment variable that is not set, and for what cannot stand in a header; it names
    the setting and the variable, never the value. Falsy when there is nothing to add.
    """

    def __init__(self, settings: Iterable[RequestSettings], *, environment: Mapping[str, str] = os.environ) -> None:
        self._secrets: set[str] = set()
        fill = filler(environment, self._secrets)
        self._extras = [_extra(f"fetch.requests.{index}", one, fill) for index, one in enumerate(settings)]

    def __bool__(self) -> bool:
        return bool(self._extras)

    def headers(self, href: str) -> tuple[dict[str, str], dict[str, str]]:
        """Return the headers to add to the request for a normalized href, and what to tell of them, by lower name."""
        headers: dict[str, _Value] = {}
        cookies: dict[str, _Value] = {}
        for extra in self._extras:
            if extra.match.matches(href):
                headers |= extra.headers
                cookies |= extra.cookies
        if cookies:
            sent = "; ".join(f"{cookie.name}={cookie.sent}" for cookie in cookies.values())
            told = "; ".join(f"{cookie.name}={cookie.told}" for cookie in cookies.values())
            headers["cookie"] = _Value("Cookie", sent, told)
        return {one.name: one.sent for one in headers.values()}, {low: one.told for low, one in headers.items()}

    def scrub(self, text: str) -> str:
        """Return a text, such as an error's, without the values of environment variables."""
        for secret in self._secrets:
            text = text.replace(secret, "-")
        return text


class Proxy(NamedTuple):
    """The proxy: its URL without userinfo, and the Proxy-Authorization that this made, if any."""

    url: yarl.URL
    authorization: str | None


def proxy_of(text: str | None, *, environment: Mapping[str, str] = os.environ) -> Proxy | None:
    """Return the proxy that `fetch.proxy` names; None if it names none. Raises SettingsError, without the value."""
    if not text:
        return None
    try:
        url = yarl.URL(filler(environment, set())(text, "fetch.proxy"))
        valid = url.scheme == "http" and bool(url.host)
        secret = f"{url.user or ''}:{url.password or ''}" if url.user or url.password else None
    except ValueError:
        valid = False
    if not valid:
        raise SettingsError("fetch.proxy: expected an HTTP proxy, such as http://proxy:3128")
    return Proxy(url.origin(), basic(secret) if secret else None)


def basic(credentials: str) -> str:
    """Return the Authorization of "user:password" (RFC 7617)."""
    return "Basic " + base64.b64encode(credentials.encode()).decode()


def tell(headers: Iterable[tuple[str, str]], told: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the header that was sent with what is told instead of secrets; passwords are never told."""
    return [(name, "-" if (low := name.lower()) in _HIDDEN else told.get(low, value)) for name, value in headers]


Fill = Callable[[str, str], str]


def filler(environment: Mapping[str, str], secrets: set[str]) -> Fill:
    """Return what puts the values of variables into a text, given the setting's name; it adds them to `secrets`."""

    def fill(text: str, setting: str) -> str:
        def value(match: re.Match[str]) -> str:
            name = match[1]
            if name not in environment:
                raise SettingsError(f"{setting}: the environment variable {name} is not set")
            if environment[name]:
                secrets.add(environment[name])
            return environment[name]

        return _VARIABLE.sub(value, text)

    return fill


def _extra(place: str, settings: RequestSettings, fill: Fill) -> _Extra:
    headers = {
        name.lower(): _value(name, text, f"{place}.headers.{name}", fill) for name, text in settings.headers.items()
    }
    cookies = {name: _value(name, text, f"{place}.cookies.{name}", fill) for name, text in settings.cookies.items()}
    for name, cookie in cookies.items():
        if ";" in cookie.sent:
            raise SettingsError(f"{place}.cookies.{name}: a cookie's value cannot hold a semicolon")
    if settings.auth:
        credentials = fill(settings.auth, f"{place}.auth")
        if ":" not in credentials:
            raise SettingsError(f"{place}.auth: expected user:password")
        headers["authorization"] = _Value("Authorization", basic(credentials), "-")
    return _Extra(parse_match(settings.match), headers, cookies)


def _value(name: str, text: str, setting: str, fill: Fill) -> _Value:
    value = fill(text, setting)
    if not _TOKEN.fullmatch(name):
        raise SettingsError(f"{setting}: this cannot be a name in a header")
    if UNSENDABLE.search(value):
        raise SettingsError(f"{setting}: the value holds a line break or another control character")
    return _Value(name, value, "-" if _VARIABLE.search(text) else value)
