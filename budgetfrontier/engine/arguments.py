"""The arguments of the public API, checked before anything is changed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import inf, isnan
from pathlib import Path
from sys import float_info, maxsize
from typing import Final, TypeVar

from budgetfrontier.clock import LAST_TIME, Clock
from budgetfrontier.core import uris
from budgetfrontier.core.model import SIZES, CrawlUri, DeadLetter, Lease, Outcome, RunEnd
from budgetfrontier.errors import FrontierError, InvalidUrl, WrongType
from budgetfrontier.storage import keys

_Named = TypeVar("_Named", Outcome, RunEnd)

_LONGEST_INT = 128  # bits
LONGEST_KEY = 511
"""Bytes of a key of LMDB: no row has a longer one."""
Letters = DeadLetter | int | Iterable[DeadLetter | int] | None
"""Dead letters as callers pass them: one or several, as objects or ids; None means all."""

_INSTEAD: Final = {
    "bytes": "its decode()",
    "datetime": "its timestamp()",
    "timedelta": "its total_seconds()",
    "Lease": "its uri",
    "Adjustment": "its id",
    "AuditEntry": "its id",
    "QueueRecord": "its queue",
}
"""The expressions to write instead of a value of a wrong type, by its name."""


def _kind(value: object, *, instead: str = "") -> str:
    """Return the type of a wrong value for a message, with what to write if it is one of the types `instead`."""
    name = type(value).__name__
    return f"{name}; write {_INSTEAD[name]}" if name in instead.split() else name


def uri(value: object) -> None:
    """Raise WrongType unless a value is a str or a CrawlUri: a mistake of the caller, not a bad URL of a page."""
    if not isinstance(value, str | CrawlUri):
        raise WrongType(f"a URI is a str or a CrawlUri, not {_kind(value, instead='bytes Lease')}")


def crawl_uri(value: object) -> CrawlUri:
    """Return a CrawlUri. Raises WrongType for anything else."""
    if not isinstance(value, CrawlUri):
        raise WrongType(f"this takes a CrawlUri, not {_kind(value, instead='Lease')}")
    return value


_ONE_ALONE = (str, bytes, CrawlUri, Lease)


def several(values: object, what: str = "URIs") -> None:
    """Raise WrongType unless a value is an iterable, and no str: its characters would be taken for the items."""
    if isinstance(values, _ONE_ALONE):
        raise WrongType(f"this takes an iterable of {what}; one alone goes into a list")
    if not hasattr(values, "__iter__") and not hasattr(values, "__getitem__"):
        raise WrongType(f"this takes an iterable of {what}, such as a list, not {_kind(values)}")


def number(value: float, name: str) -> float:
    """Return a number as a float. Raises ValueError if no float can hold it, WrongType if it is no number."""
    try:
        return float(value)
    except (TypeError, ValueError):
        if type(value).__name__ in ("datetime", "timedelta"):
            raise WrongType(f"{name} is a number, not a {_kind(value, instead='datetime timedelta')}") from None
        raise WrongType(f"{name} is a number, not {value!r:.60}") from None
    except OverflowError:
        raise ValueError(f"{name} is a number up to {float_info.max:.1e}, not {_brief(value)}") from None


def seconds(value: float, name: str) -> float:
    """Return a number of seconds of at least 0, and not -0.0."""
    value = number(value, name)
    if not 0 <= value < inf:
        raise ValueError(f"{name} is a number of seconds from 0 to {float_info.max:.1e}, not {value!r}")
    return abs(value)


def rate(value: float) -> float:
    """Return a number of URIs a second of at least 0."""
    value = number(value, "rate")
    if not 0 <= value < inf:
        raise ValueError(f"rate is a number of URIs a second of at least 0, not {value!r}")
    return value


def whole(value: float, name: str) -> int:
    """Return a whole number. Raises ValueError for a fraction or infinity, WrongType for a bool or no number."""
    try:
        if isinstance(value, bool | str | bytes):
            raise TypeError
        found = int(value)
    except TypeError:
        raise WrongType(f"{name} is a whole number, not {value!r:.60}") from None
    except (ValueError, OverflowError):
        found = None
    if found is None or found != value:
        raise ValueError(f"{name} is a whole number, not {_brief(value)}")
    return found


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
        raise WrongType(f"{name} is a str, not {_kind(value, instead='bytes')}")
    plain = str.__str__(value)
    try:
        plain.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} is text without lone surrogates, not {plain[:60]!r}") from None
    return plain


def reason(value: object) -> str:
    """Return the reason of an ending, whatever characters it has."""
    if not isinstance(value, str):
        raise WrongType(f"reason is a str, not {_kind(value, instead='bytes')}")
    return str(value)


def data(value: object, name: str) -> bytes:
    """Return the key of a row, as bytes. Raises WrongType for anything else."""
    if not isinstance(value, bytes):
        raise WrongType(f"{name} is bytes, not {_kind(value)}")
    return value


def lease(value: object, call: str) -> Lease:
    """Return a lease. Raises WrongType for anything else, such as the id of one."""
    if not isinstance(value, Lease):
        raise WrongType(f"{call} takes a Lease, not {_kind(value)}; give the one that `lease` returned")
    if type(value.id) is not int:
        raise WrongType(f"{call} takes a Lease with the id that it was given, not {value.id!r:.60}")
    return value


def limit(value: int | None) -> int | None:
    """Return how many results a caller asks for at the most; None: all."""
    if value is None:
        return None
    given: object = value
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise WrongType(f"limit is a whole number of at least 0, or None, not {_brief(value):.60}")
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
    if type(value) is int and 0 <= value < SIZES:
        return value  # the common case, without a call
    found = exactly(value, 0, SIZES)
    if found is None:
        raise error_of_count(value)(f"size is a number of bytes below {SIZES:,}, not {_brief(value):.60}")
    return found


def status(value: object) -> int:
    """Return the status of an answer, a whole number; 0 if it is not known, below 0 if there was none."""
    if type(value) is int and -(1 << 15) <= value < 1 << 15:
        return value
    found = exactly(value, -(1 << 15), 1 << 15)
    if found is None:
        raise error_of_count(value)(f"status is that of an HTTP response, such as 404, not {_brief(value):.60}")
    return found


def novel(value: object) -> bool | None:
    """Return whether a payload is new; None if that is not known."""
    if value is not None and not isinstance(value, bool):
        raise WrongType(f"novel is True, False or None, not {value!r:.60}")
    return value


def address(value: object) -> str:
    """Return an IP address in its usual spelling, "" if none is known."""
    if not isinstance(value, str):
        raise WrongType(f"address is a str, not {_kind(value)}")
    return _spelled(value) if value else ""


def host(value: object) -> str:
    """Return a host in its one form."""
    try:
        return uris.host_form(text(value, "a host"))
    except InvalidUrl as e:
        raise ValueError(f"this is no host: {e}") from None


@lru_cache(maxsize=4096)
def _spelled(value: str) -> str:
    from ipaddress import ip_address

    try:
        found = ip_address(value)
        return str(getattr(found, "ipv4_mapped", None) or found)
    except ValueError:
        raise ValueError(f"address is an IP address, such as 192.0.2.1 or 2001:db8::1, not {value[:60]!r}") from None


def error_of_count(value: object, of_numbers: type[Exception] = ValueError) -> type[Exception]:
    """Return the error for a wrong count: `of_numbers` for a number, which may be out of range, else WrongType."""
    return of_numbers if isinstance(value, int | float) and not isinstance(value, bool) else WrongType


def outcome(value: object) -> Outcome:
    """Return an outcome. Raises WrongType for another type than text, ValueError for an unknown name."""
    return _member(Outcome, value, "an outcome is an Outcome, such as Outcome.SUCCESS", "outcome {}")


def run_end(value: object) -> RunEnd | None:
    """Return how a run ends; None: not said. Raises WrongType for another type than text, ValueError."""
    if value is None:
        return None
    return _member(RunEnd, value, "an end is a RunEnd, such as RunEnd.LIMIT", "end {} of a run")


def _member(kind: type[_Named], value: object, what: str, named: str) -> _Named:
    """Return the member of an enum that a value is, or names."""
    if not isinstance(value, str):
        raise WrongType(f"{what}, or its name, not {_kind(value)}")
    try:
        return kind(value)
    except ValueError:
        raise ValueError(f"there is no {named.format(f'{value!r:.60}')}; there are {', '.join(kind)}") from None


def queue_key(key: object) -> str:
    """Return a queue key, whether there is such a queue or not."""
    if not isinstance(key, str):
        raise WrongType(f"a queue key is a str, not {_kind(key, instead='bytes QueueRecord')}")
    return str.__str__(key)


def letter_ids(letters: Letters) -> list[int] | None:
    """Return the ids of dead letters, None for all."""
    if letters is None:
        return None
    if isinstance(letters, DeadLetter | int):
        letters = [letters]
    if isinstance(letters, str | bytes) or not isinstance(letters, Iterable):  # characters would be taken for ids
        raise WrongType(f"this takes dead letters or their ids, whole numbers, not {letters!r:.60}")
    return [letter.id if isinstance(letter, DeadLetter) else _id(letter) for letter in letters]


def _id(value: object) -> int:
    found = exactly(value, 0, 1 << 64)
    if found is None:
        raise WrongType(f"this takes dead letters or their ids, whole numbers, not {_brief(value):.60}")
    return found


def entry(value: object, call: str) -> int:
    """Return the id of an audit entry or an adjustment."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise WrongType(f"{call} takes an id, a whole number, not {_kind(value, instead='Adjustment AuditEntry')}")
    return value


def partition(value: float) -> int:
    """Return the number of a partition. Raises ValueError and WrongType."""
    number = whole(value, "partition")
    if not 0 <= number < 1 << keys.PARTITION_BITS:
        raise ValueError(f"partition is a number from 0 to {(1 << keys.PARTITION_BITS) - 1}, not {number}")
    return number


def flag(value: object, name: str) -> bool:
    """Return True or False. Raises WrongType for anything else, which may be meant the other way round."""
    if not isinstance(value, bool):
        raise WrongType(f"{name} is True or False, not {value!r:.60}")
    return value


def folder(value: object) -> Path | None:
    """Return the folder that a path names; None for ":memory:"."""
    if not isinstance(value, str | os.PathLike):
        raise WrongType(f"a path is a str or a Path, not {_kind(value, instead='bytes')}")
    return None if str(value) == ":memory:" else Path(value)


def folders(values: Iterable[object]) -> list[Path]:
    """Return the folders of `disks`."""
    several(values, "folders")
    return [one for value in values if (one := folder(value)) is not None]


def not_opened(value: object, name: str) -> WrongType:
    """Return the error for a class that was called with `value`, where its `open` was meant."""
    given = f'"{value}"' if isinstance(value, str | os.PathLike) else "PATH"
    return WrongType(f"write {name}.open({given}), not {name}(...)")


def clock(value: Clock | None) -> Clock | None:
    """Return a clock as it is."""
    if value is not None and not callable(getattr(value, "time", None)):
        raise WrongType(f"a clock has a method `time`, as ManualClock has; {_kind(value)} has none")
    return value


def hooks(value: object) -> Sequence[object]:
    """Return hooks as a list."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise WrongType(f"hooks is a list of objects or functions, not {_kind(value)}; one alone goes into a list")
    return list(value)


def time_of_clock(now: float) -> float:
    """Return a time that a clock gave. Raises FrontierError for one that is no number, or beyond any crawl."""
    if not now <= LAST_TIME:  # NaN is not
        raise FrontierError(f"the clock says {now!r}: it has to give the seconds since 1970, as time.time() does")
    return now
