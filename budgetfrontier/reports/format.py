"""Text that is safe and readable: numbers with nouns, shares, and lengths of time, for a terminal and one line."""

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


_FOREVER = 1e12  # seconds: a queue may be blocked until any time that a float can hold


def duration(seconds: float) -> str:
    """A length of time in the two largest units that it has, as Heritrix writes it: 2s17ms, 3m20s, 1d4h."""
    left = round(min(max(seconds, 0.0), _FOREVER) * 1000)
    parts = []
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        amount, left = divmod(left, size)
        if amount:
            parts.append(f"{amount}{unit}")
        if parts and (len(parts) == 2 or not amount):
            break
    return "".join(parts) or "0ms"
