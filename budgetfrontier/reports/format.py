"""Text that is safe and readable: numbers with nouns, and shares, for a terminal and one line."""

from __future__ import annotations


def clean(text: str) -> str:
    """`text` safe for a terminal and one line: control and other unprintable characters are written as escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def counted(count: int, noun: str, plural: str = "") -> str:
    """A number with its noun, in the plural where it is not one.

    >>> counted(1, "queue"), counted(1200, "queue")
    ('1 queue', '1,200 queues')
    """
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def percent(share: float, digits: int = 0) -> str:
    """A part of a whole; what is something is never shown as nothing.

    >>> percent(1 / 3, 1), percent(1e-6, 1), percent(1e-6), percent(0)
    ('33.3%', '<0.1%', '<1%', '0%')
    """
    text = f"{share:.{digits}%}"
    return f"<{10**-digits:g}%" if share > 0 and not float(text[:-1]) else text
