"""Checks of `fetch.requests` and `fetch.proxy`: environment variables are set, and values can be sent in a header.

`${NAME}` is replaced by the value of an environment variable, which no message contains.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from budgetfrontier.settings.problems import Problem, ValuePath
from budgetfrontier.settings.schema import RequestSettings
from budgetfrontier.settings.values import brief

VARIABLE = re.compile(r"\$\{([^}]*)\}")
UNSENDABLE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
"""Characters that a request header may not contain (RFC 9110, section 5.5), although response headers do."""
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""The form of methods and of names of headers (RFC 9110, section 5.6.2)."""


def substituted(text: str, environment: Mapping[str, str]) -> str:
    """Return a text with its variables, which all have to be set, replaced by their values."""
    return VARIABLE.sub(lambda match: environment[match[1]], text)


def missing(text: str, environment: Mapping[str, str]) -> list[str]:
    """Return the names of the variables in a text that are not set."""
    return [name for name in dict.fromkeys(VARIABLE.findall(text)) if name not in environment]


def request_problems(one: RequestSettings, path: ValuePath, environment: Mapping[str, str]) -> Iterator[Problem]:
    """Yield the problems of an entry of `fetch.requests`; `path` is that of the entry."""
    fields = [((*path, "headers", name), name, text) for name, text in one.headers.items()]
    fields += [((*path, "cookies", name), name, text) for name, text in one.cookies.items()]
    for here, name, text in fields:
        if not TOKEN.fullmatch(name):
            yield Problem(here, f'"{brief(name)}" cannot be a name in a header', at_key=True)
        if absent := list(_absent(here, text, environment)):
            yield from absent
            continue
        value = substituted(text, environment)
        if UNSENDABLE.search(value):
            yield Problem(here, "the value contains a line break or another control character")
        if here[-2] == "cookies" and ";" in value:
            yield Problem(here, "a cookie's value cannot contain a semicolon")
    if one.auth:
        here = (*path, "auth")
        absent = list(_absent(here, one.auth, environment))
        yield from absent
        if not absent and ":" not in substituted(one.auth, environment):
            yield Problem(here, "expected user:password")


def proxy_problems(proxy: str | None, path: ValuePath, environment: Mapping[str, str]) -> Iterator[Problem]:
    """Yield the problems of `fetch.proxy`; `path` is that of the setting."""
    if not proxy:
        return
    if absent := list(_absent(path, proxy, environment)):
        yield from absent
    elif not _is_proxy(substituted(proxy, environment)):
        yield Problem(path, "expected an HTTP proxy, such as http://proxy:3128")


def _is_proxy(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme == "http" and bool(parts.hostname) and parts.port != 0  # `port` raises for an invalid port
    except ValueError:
        return False


def _absent(path: ValuePath, text: str, environment: Mapping[str, str]) -> Iterator[Problem]:
    for name in missing(text, environment):
        yield Problem(path, f"the environment variable {name} is not set")
