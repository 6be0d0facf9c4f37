"""Additions to requests: headers, cookies and passwords from `fetch.requests`, and the proxy.

`${NAME}` is replaced by the value of an environment variable. The value is sent, but never stored: records of the
request have "-" instead of it.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import NamedTuple

import yarl

from budgetfrontier.errors import SettingsError
from budgetfrontier.settings.credentials import VARIABLE, proxy_problems, request_problems, substituted
from budgetfrontier.settings.matching import Match, parse_match
from budgetfrontier.settings.schema import RequestSettings

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

    def __init__(self, settings: Iterable[RequestSettings]) -> None:
        settings = list(settings)
        problems = (
            request_problems(one, ("fetch", "requests", index), os.environ) for index, one in enumerate(settings)
        )
        if messages := [problem.message for problem in chain.from_iterable(problems)]:
            raise SettingsError(messages)
        self._extras = [_extra(one) for one in settings]
        texts = (text for one in settings for text in (*one.headers.values(), *one.cookies.values(), one.auth or ""))
        names = {name for text in texts for name in VARIABLE.findall(text)}
        self._secrets = {os.environ[name] for name in names} - {""}

    def __bool__(self) -> bool:
        return bool(self._extras)

    def headers(self, href: str, label: str | None = None) -> tuple[dict[str, str], dict[str, str]]:
        """Return the headers to add to a request for a URI, and the values to record by lower-case name."""
        headers: dict[str, _Value] = {}
        cookies: dict[str, _Value] = {}
        for extra in self._extras:
            if extra.match.matches(href, "", label):
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


def proxy_of(text: str | None) -> Proxy | None:
    """Return the proxy given by `fetch.proxy`; None if empty. Raises SettingsError, without showing the value."""
    if not text:
        return None
    if messages := [problem.message for problem in proxy_problems(text, ("fetch", "proxy"), os.environ)]:
        raise SettingsError(messages)
    url = yarl.URL(substituted(text, os.environ))
    secret = f"{url.user or ''}:{url.password or ''}" if url.user or url.password else None
    return Proxy(url.origin(), basic(secret) if secret else None)


def basic(credentials: str) -> str:
    """Return the Authorization header for "user:password" (RFC 7617)."""
    return "Basic " + base64.b64encode(credentials.encode()).decode()


def redact(headers: Iterable[tuple[str, str]], recorded: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return request headers with secrets replaced by the values to record; credentials always become "-"."""
    return [(name, "-" if (low := name.lower()) in _HIDDEN else recorded.get(low, value)) for name, value in headers]


def _extra(settings: RequestSettings) -> _Extra:
    headers = {name.lower(): _value(name, text) for name, text in settings.headers.items()}
    cookies = {name: _value(name, text) for name, text in settings.cookies.items()}
    if settings.auth:
        headers["authorization"] = _Value("Authorization", basic(substituted(settings.auth, os.environ)), "-")
    return _Extra(parse_match(settings.match), headers, cookies)


def _value(name: str, text: str) -> _Value:
    value = substituted(text, os.environ)
    return _Value(name, value, "-" if VARIABLE.search(text) else value)
