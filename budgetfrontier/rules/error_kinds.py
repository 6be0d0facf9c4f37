"""The kind of an error: its text without what differs from one host, page or attempt to the next. Pure rules."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

LONGEST = 80
"""Characters of a kind."""
_READ = 300  # characters of a text that are looked at
_STATUS = re.compile(r"status [1-9][0-9]{2}")  # of an answer: it is told in full
_LABEL = r"(?:[^\W_](?:[\w-]*[^\W_])?)"
_NO_HOST = r"robots\.txt|fetch\.timeout"
_HEX, _IPV4 = "[0-9a-fA-F]", r"\d{1,3}(?:\.\d{1,3}){3}"
_MASKS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = tuple(
    (re.compile(pattern), mask)
    for pattern, mask in (
        (r"\b[a-z][a-z0-9+.-]*://[^\s'\"<>]+", "URL"),
        (r"(['\"`])[^'\"`]*\d[^'\"`]*\1", "TEXT"),
        (rf"(?<![\w:])(?:{_HEX}{{0,4}}:){{2,7}}(?:{_IPV4}|{_HEX}{{1,4}})?(?:%\w+)?(?![\w:])", "ADDRESS"),
        (rf"(?<![\w.]){_IPV4}(?![\w.]*\w)", "ADDRESS"),
        (
            rf"(?<![\w./-])(?!(?:{_NO_HOST})\b)(?:{_LABEL}\.)+[a-z][a-z0-9-]*[a-z0-9]\.?(?![\w/-]|\.\w|: )",
            "HOST",
        ),
        (r"(?<![\w.])~?(?:/+[^\s/'\"<>:,;)\]]+)+/*", "PATH"),
        (r"\b0x[0-9a-fA-F]+\b|\b(?=[0-9a-fA-F]*\d)[0-9a-fA-F]{8,}\b", "N"),
        (rf"(\b{_STATUS.pattern}\b(?![.,:]?\d))|\d+(?:[.,:]\d+)*", lambda found: found[1] or "N"),
        (r"N(?:[.,:/-]N)+", "N"),
        (r"\s*\(-?N\)", ""),
        (r"\s+", " "),
    )
)


@lru_cache(4096)
def error_kind(reason: str) -> str:
    """Return the kind of an error that is known by a text: numbers, addresses, hosts, URLs and paths are masked.

    The status of an answer, such as "status 500", is not.

    >>> error_kind("Connection to www.example.org:8080 timed out after 30.1 s")
    'Connection to HOST:N timed out after N s'
    """
    text = reason[:_READ].encode("utf-8", "replace").decode()  # lone surrogates cannot be stored
    kind = _masked(text)
    while (masked := _masked(kind)) != kind:  # for what a mask, or the cut, has brought together
        kind = masked
    return kind or "no reason"


def _masked(text: str) -> str:
    """Return a text with each mask applied once: what changes it leaves fewer digits, signs or spaces in it."""
    for pattern, mask in _MASKS:
        text = pattern.sub(mask, text)
    return text.strip()[:LONGEST].strip()


def status_kind(status: int) -> str:
    """Return the kind of an answer with an error status."""
    return f"status {status}"


def status_of(kind: str) -> int:
    """Return the status that is a kind; 0 for other kinds."""
    return int(kind[-3:]) if _STATUS.fullmatch(kind) else 0
