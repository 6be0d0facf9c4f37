"""Checks of the results of policies: an invalid one is a PolicyError, which names the policy, the URL and the value.

Policies are called before anything is changed, so that a failing call can simply raise.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

from budgetfrontier.core.model import CrawlUri
from budgetfrontier.errors import PolicyError, pass_on_interruption

_EXPECTED = {
    "cost": "a cost is a whole number of at least 0",
    "queue assignment": "the key of a queue is text",
    "precedence": "a precedence is a whole number",
    "uri_precedence": "the precedence of a URI is a whole number, or None for its cost",
    "politeness": "a queue rests for a finite number of seconds of at least 0",
    "canonicalization": "a canonical form is a URL with a path, as text",
}
_REMEDY = "nothing has changed for this URI: fix the policy and continue"


def wrong(kind: str, spec: str | Mapping[str, Any], url: str, value: object) -> PolicyError:
    name = _name(kind, spec)
    message = f"{name} returned {_shown(value)} for {url}; {_EXPECTED[kind]}; {_REMEDY}"
    return PolicyError(message, policy=name, url=url, value=value)


def raised(kind: str, spec: str | Mapping[str, Any], url: str, error: Exception) -> PolicyError:
    """Return the error of a policy that has raised one. Raises that itself if a signal handler has raised it."""
    pass_on_interruption(error)
    if isinstance(error, PolicyError) and error.url is not None:
        return error
    name = _name(kind, spec)
    message = f"{name} raised {type(error).__name__} for {url}: {_shown(error, str)}; {_REMEDY}"
    return PolicyError(message, policy=name, url=url, value=error)


def form(canonical: Callable[[str], object], spec: str | Mapping[str, Any], url: str) -> str:
    """Return the canonical form of a normalized URL. Raises PolicyError."""
    try:
        found = canonical(url)
    except Exception as e:
        raise raised("canonicalization", spec, url, e) from e
    if not isinstance(found, str) or found.find("/", 8) < 0 or not is_text(found):
        raise wrong("canonicalization", spec, url, found)
    return found


def queue_key(assign: Callable[[CrawlUri], object], spec: str | Mapping[str, Any], uri: CrawlUri) -> str:
    """Return the queue key that a policy assigns to a URI with a normalized URL. Raises PolicyError."""
    try:
        found = assign(uri)
    except Exception as e:
        raise raised("queue assignment", spec, uri.url, e) from e
    if type(found) is str:
        return found
    if not isinstance(found, str):
        raise wrong("queue assignment", spec, uri.url, found)
    return str.__str__(found)  # of a subclass, such as `numpy.str_`, which cannot be stored


def is_text(given: str) -> bool:
    """Return whether a text can be stored: one with lone surrogates cannot."""
    try:
        return bool(given.isascii() or given.encode())
    except UnicodeEncodeError:
        return False


def whole(value: object) -> int | None:
    """Return a whole number as an int, also if it is a NumPy integer or a float; None for other values."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except Exception as e:  # methods of a foreign object may raise anything
        pass_on_interruption(e)
        return None


def seconds(value: Any) -> float | None:
    """Return a value as a number of seconds; None if it is not one."""
    try:
        return float(value) if isfinite(value) and value >= 0 else None
    except Exception as e:  # as above
        pass_on_interruption(e)
        return None


def _name(kind: str, spec: str | Mapping[str, Any]) -> str:
    return f"the {kind} policy {spec if isinstance(spec, str) else dict(spec)}"


def _shown(value: object, show: Any = repr) -> str:
    try:
        return f"{show(value):.200}"
    except Exception as e:  # as above
        pass_on_interruption(e)
        return type(value).__name__
