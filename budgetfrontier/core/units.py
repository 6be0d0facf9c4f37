"""Units of time and size: how people write them ("1h30m", "50GiB"), and how they are shown."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_BYTES = {"b": 1.0}
for _power, _prefix in enumerate("kmgt", 1):
    _BYTES |= {f"{_prefix}b": 1000.0**_power, f"{_prefix}ib": 1024.0**_power}
# No leading zeros: 010 is eight to some readers and ten to others.
_PART = re.compile(r"\s*((?:0|[1-9][0-9]*)(?:\.[0-9]+)?)\s*([a-zA-Z]*)")
_FOREVER = 1e12  # seconds: a queue may be blocked until any time that a float can hold


def parse_duration(text: str) -> float:
    """Return seconds from "15m", "1h30m", "500ms" or "90"; ValueError if it is none of these.

    >>> parse_duration("1h30m"), parse_duration("90")
    (5400.0, 90.0)
    """
    return _parse(text, _SECONDS, "s")


def parse_size(text: str) -> float:
    """Return bytes from "50GiB", "10 MB" or "4096"; ValueError if it is none of these.

    >>> parse_size("1.5KiB"), parse_size("10 MB")
    (1536.0, 10000000.0)
    """
    return _parse(text, _BYTES, "b")


def _parse(text: str, units: dict[str, float], bare: str) -> float:
    total, at, end = 0.0, 0, len(text.rstrip())
    while at < end or not at:
        part = _PART.match(text, at)
        unit = (part[2].lower() or bare) if part else ""
        # A bare number is a value of its own ("90"), never a part of one ("1h30" may mean minutes or seconds).
        if not part or unit not in units or (not part[2] and (at or part.end() < end)):
            raise ValueError(text)
        total, at = total + float(part[1]) * units[unit], part.end()
    return total


def counted(count: int, noun: str, plural: str = "") -> str:
    """Format a number with its noun, in the plural unless it is 1.

    >>> counted(1, "queue"), counted(1200, "queue")
    ('1 queue', '1,200 queues')
    """
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def format_amount(amount: float) -> str:
    """Return an amount that need not be whole in whole numbers; one below 1 with a decimal, and none above 0 as 0.

    >>> format_amount(1234.5), format_amount(0.34), format_amount(0.01), format_amount(0)
    ('1,234', '0.3', '<0.1', '0')
    """
    return f"{round(amount):,}" if amount >= 0.95 or not amount else f"{amount:.1f}" if amount >= 0.05 else "<0.1"


def format_duration(seconds: float) -> str:
    """Return a duration in its two largest units, as Heritrix writes it; units after a zero are left out.

    >>> format_duration(2.017), format_duration(200), format_duration(100_800), format_duration(3601)
    ('2s17ms', '3m20s', '1d4h', '1h')
    """
    left = round(min(max(seconds, 0.0), _FOREVER) * 1000)
    parts = []
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        amount, left = divmod(left, size)
        if amount:
            parts.append(f"{amount}{unit}")
        if parts and (len(parts) == 2 or not amount):
            break
    return "".join(parts) or "0ms"


def say_duration(seconds: float) -> str:
    """Return a duration for a sentence: in whole seconds, and in its two largest units.

    >>> say_duration(2.017), say_duration(0.34), say_duration(5400.0)
    ('2s', 'less than a second', '1h30m')
    """
    return format_duration(round(seconds)) if seconds >= 1 else "less than a second"


def short_duration(seconds: float) -> str:
    """Return a duration for a cell of a table.

    >>> short_duration(2.017), short_duration(0.34)
    ('2s', '<1s')
    """
    return format_duration(round(seconds)) if seconds >= 1 else "<1s"


def write_duration(seconds: float) -> str:
    """Return a duration in units, exactly: `parse_duration` gives the same number back.

    >>> write_duration(5400.0), write_duration(0.25), write_duration(0.00001), write_duration(0.0)
    ('1h30m', '250ms', '0.00001s', '0s')
    """
    left, text = round(seconds * 1000), ""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        amount, left = divmod(left, size)
        text += f"{amount}{unit}" if amount else ""
    text = text or "0s"
    return text if parse_duration(text) == seconds else f"{Decimal(repr(seconds)):f}s"


def write_size(count: int) -> str | int:
    """Return a number of bytes in the largest binary unit that gives it exactly; 0 as it is.

    >>> write_size(65_536), write_size(100), write_size(0)
    ('64KiB', '100B', 0)
    """
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count and not count % size:
            return f"{count // size}{unit}"
    return f"{count}B" if count else 0


def describe_duration(seconds: float) -> str:
    """Return a duration as people say it, in its two largest units that are not zero.

    >>> describe_duration(900_000), describe_duration(90_001.5), describe_duration(0.0911002), describe_duration(0.0)
    ('10d10h', '1d1h', '91ms', '0s')
    """
    if 0 < seconds < 1:
        return format_duration(seconds)
    words = []
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, seconds = divmod(seconds, length)
        if count:
            words.append(f"{count:g}{unit}")
    return "".join(words[:2]) or "0s"


def format_time(epoch: float, pattern: str = "%Y-%m-%dT%H:%M:%SZ") -> str:
    """Return epoch seconds as a UTC date; in words if it has none: a queue may be blocked until any time.

    >>> format_time(1795457992.1), format_time(1795457992.1, "%Y-%m-%d %H:%M"), format_time(2.0**64)
    ('2026-11-23T18:19:52Z', '2026-11-23 18:19', 'after the year 9999')
    """
    try:
        return datetime.fromtimestamp(epoch, UTC).strftime(pattern)
    except (ValueError, OverflowError, OSError):
        return "after the year 9999" if epoch > 0 else "before the year 1"


def time_or_dash(epoch: float | None) -> str:
    """Return a time as `format_time` does; "-" if it is not known."""
    return "-" if epoch is None else format_time(epoch)


def format_clock(seconds: float) -> str:
    """Return a duration as h:mm:ss.

    >>> format_clock(3661.9)
    '1:01:01'
    """
    whole = int(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def format_size(count: float) -> str:
    """Return a number of bytes in the unit that suits it.

    >>> format_size(1023), format_size(3.2 * 1024**2), format_size(1024**2 - 1)
    ('1023 B', '3.2 MiB', '1.0 MiB')
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if round(count, 1) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def format_count(count: int) -> str:
    """Return a number as people read it: exact below 10,000, otherwise three digits and k, M, G or T (powers of 1000).

    >>> format_count(9999), format_count(12_345), format_count(1_234_567), format_count(-20_000)
    ('9999', '12.3k', '1.23M', '-20.0k')
    """
    if abs(count) < 10_000:
        return str(count)
    amount = float(count)
    for unit in ("k", "M", "G", "T"):
        amount /= 1000
        if abs(amount) < 999.5 or unit == "T":
            break
    digits = 2 if abs(amount) < 9.995 else 1 if abs(amount) < 99.95 else 0
    return f"{amount:.{digits}f}{unit}"
