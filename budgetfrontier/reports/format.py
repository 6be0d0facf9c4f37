"""Formatting for one line of a terminal: safe text, numbers with nouns, percentages."""

from __future__ import annotations

import re

from budgetfrontier.units import counted

__all__ = ("clean", "counted", "percent", "without_password")


def clean(text: str) -> str:
    """Return `text` with control and other unprintable characters escaped: safe for a terminal, and one line."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


_PASSWORD = re.compile(r"((?:rediss?|unix)://[^\s/:@]*):\S*@", re.IGNORECASE)


def without_password(text: str) -> str:
    """Return a text with *** for the password of a Redis URL in it, up to its last @.

    >>> without_password("import news redis://bob:se/cr@et@host/0 http://a.test/:@")
    'import news redis://bob:***@host/0 http://a.test/:@'
    """
    return _PASSWORD.sub(r"\1:***@", text)


def percent(share: float, digits: int = 0) -> str:
    """Format a share, 0.0 to 1.0, as a percentage. A share above 0 is never shown as 0.

    >>> percent(1 / 3, 1), percent(1e-6, 1), percent(1e-6), percent(0)
    ('33.3%', '<0.1%', '<1%', '0%')
    """
    text = f"{share:.{digits}%}"
    return f"<{10**-digits:g}%" if share > 0 and not float(text[:-1]) else text
