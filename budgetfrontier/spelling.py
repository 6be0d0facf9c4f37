"""The name that somebody meant who has misspelt it: one rule for all messages on unknown names and values."""

from __future__ import annotations

from collections.abc import Iterable

LONGEST = 200
"""Characters of a text that is compared: difflib is slow with long ones."""


def nearest(text: object, names: Iterable[object], *, alike: float = 0.6) -> str:
    """Return the most similar name, upper and lower case apart; "" if none is similar.

    >>> nearest("retierd", ["READY", "RETIRED"])
    'RETIRED'
    """
    from difflib import get_close_matches  # imported here because only mistakes need it

    if not isinstance(text, str) or len(text) > LONGEST:
        return ""
    lower = {str(name).lower(): str(name) for name in names}
    found = get_close_matches(text.lower(), lower, 1, alike)
    return lower[found[0]] if found else ""


def did_you_mean(text: object, names: Iterable[object], *, quote: str = "") -> str:
    """Return "; did you mean X?", the end of a sentence, for the most similar name; "" if none is similar."""
    found = nearest(text, names)
    return f"; did you mean {quote}{found}{quote}?" if found else ""
