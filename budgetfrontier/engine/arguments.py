"""The arguments of the public API, checked before anything is changed."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf, isnan
from sys import float_info, maxsize

from budgetfrontier.core.model import CrawlUri, DeadLetter, Lease

_LONGEST_INT = 128  # bits
LONGEST_KEY = 511
"""Bytes of a key of LMDB: no row has a longer one."""
Letters = DeadLetter | int | Iterable[DeadLetter | int] | None
"""Dead letters as callers pass them: one or several, as objects or ids; None means all."""


def uri(value: object) -> None:
    """Raise TypeError unless a value is a str or a CrawlUri: a mistake of the caller, not a bad URL of a page."""
    if not isinstance(value, str | CrawlUri):
        raise TypeError(f"a URI is a str or a CrawlUri, not a value of type {type(value).__name__}")


def crawl_uri(value: object) -> CrawlUri:
    """Return a CrawlUri. Raises TypeError for anything else."""
    if not isinstance(value, CrawlUri):
        raise TypeError(f"this takes a CrawlUri, not a value of type {type(value).__name__}")
    return value


def uris(values: object) -> None:
    """Raise TypeError for one URI in the place of several: the characters of a str would be taken for URIs."""
    if isinstance(values, str | bytes | CrawlUri):
        raise TypeError("this takes an iterable of URIs; one alone goes into a list")


def number(value: float, name: str) -> float:
    """Return a number as a float. Raises ValueError if no float can hold it, TypeError if it is no number."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} is a number, not {value!r:.60}") from None
    except OverflowError:
        raise ValueError(f"{name} is a number up to {float_info.max:.1e}, not {_brief(value)}") from None


def seconds(value: float, name: str) -> float:
    """Return a number of seconds of at least 0, and not -0.0."""
    value = number(value, name)
    if not 0 <= value < inf:
        raise ValueError(f"{name} is a number of seconds from 0 to {float_info.max:.1e}, not {value!r}")
    return abs(value)


def whole(value: float, name: str) -> int:
    """Return a whole number. Raises ValueError for infinity, and if it is no number."""
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} is a whole number, not {_brief(value)}") from None


def asked(count: int, ttl: float | None, wait: float) -> tuple[int, float | None, float]:
    """Return how many URIs a caller asks for, for how long, and for how many seconds it waits for the first one."""
    return whole(count, "count"), None if ttl is None else seconds(ttl, "ttl"), seconds(wait, "wait")


def exactly(value: object, least: int, below: int) -> int | None:
    """Return a whole number in a range as a plain int, as it is stored; None for any other value: a bool is none."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < below:
        return None
    return int(value)


def text(value: object, name: str) -> str:
    """Return text that can be stored as a plain str, also if it is of a subclass, such as `numpy.str_`."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is a str, not {type(value).__name__}")
    plain = str.__str__(value)
    try:
        plain.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} is text without lone surrogates, not {plain[:60]!r}") from None
    return plain


def data(value: object, name: str) -> bytes:
    """Return the key of a row, as bytes. Raises TypeError for anything else."""
    if not isinstance(value, bytes):
        raise TypeError(f"{name} is bytes, not {type(value).__name__}")
    return value


def lease(value: object, call: str) -> Lease:
    """Return a lease. Raises TypeError for anything else, such as the id of one."""
    if not isinstance(value, Lease):
        raise TypeError(f"{call} takes a Lease, not {type(value).__name__}")
    if type(value.id) is not int:
        raise TypeError(f"{call} takes a Lease with the id that it was given, not {value.id!r:.60}")
    return value


def limit(value: int | None) -> int | None:
    """Return how many results a caller asks for at the most; None: all."""
    if value is None:
        return None
    given: object = value
    if not isinstance(given, int) or given < 0:
        raise ValueError(f"limit is a whole number of at least 0, not {_brief(value)}")
    return min(given, maxsize)


def _brief(value: object) -> str:
    """Return a value as messages quote it: an int may have more digits than Python shows."""
    if isinstance(value, int) and value.bit_length() > _LONGEST_INT:
        return f"a number of {value.bit_length()} bits"
    return repr(value)


def waits(
    fetch_seconds: float | None, crawl_delay: float | None, delay: float | None = None
) -> tuple[float | None, float | None, float | None]:
    """Return the numbers that determine a queue's politeness delay. A crawl-delay of robots.txt may be any number."""
    if fetch_seconds is not None:
        fetch_seconds = seconds(fetch_seconds, "fetch_seconds")
    if crawl_delay is not None:
        crawl_delay = number(crawl_delay, "crawl_delay")
        if isnan(crawl_delay):
            raise ValueError("crawl_delay is a number of seconds")
    if delay is not None:
        delay = seconds(delay, "delay")
    return fetch_seconds, crawl_delay, delay


def size(value: object) -> int:
    """Return the size of a response, a whole number of bytes of at least 0."""
    if type(value) is int and 0 <= value < 1 << 48:
        return value  # the common case, without a call
    found = exactly(value, 0, 1 << 48)
    if found is None:
        raise ValueError(f"size is a number of bytes below {1 << 48:,}, not {_brief(value)}")
    return found


def status(value: object) -> int:
    """Return the status of an answer, a whole number; 0 if it is not known, below 0 if there was none."""
    if type(value) is int and -(1 << 15) <= value < 1 << 15:
        return value
    found = exactly(value, -(1 << 15), 1 << 15)
    if found is None:
        raise ValueError(f"status is that of an HTTP response, not {_brief(value)}")
    return found


def queue_key(key: object) -> str:
    """Return a queue key, whether there is such a queue or not."""
    if not isinstance(key, str):
        raise TypeError(f"a queue key is a str, not {type(key).__name__}")
    return str.__str__(key)


def letter_ids(letters: Letters) -> list[int] | None:
    """Return the ids of dead letters, None for all."""
    if letters is None:
        return None
    if isinstance(letters, DeadLetter | int):
        letters = [letters]
    if isinstance(letters, str | bytes):  # its characters would be taken for ids
        raise TypeError(f"this takes dead letters or their ids, whole numbers, not {letters!r}")
    return [letter.id if isinstance(letter, DeadLetter) else _id(letter) for letter in letters]


def _id(value: object) -> int:
    found = exactly(value, 0, 1 << 64)
    if found is None:
        raise TypeError(f"this takes dead letters or their ids, whole numbers, not {_brief(value)}")
    return found
