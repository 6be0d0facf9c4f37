"""Types of the values of settings: reading, and descriptions for error messages."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from budgetfrontier.core import units
from budgetfrontier.core.endpoints import addresses
from budgetfrontier.core.spelling import did_you_mean
from budgetfrontier.errors import WrongAddress

LARGEST = 10**15
"""The largest whole number accepted: counters are stored in 64 bits."""
LONGEST = 3650 * 86400.0
"""The longest duration accepted, ten years, so that wake times are valid dates."""

OR_NULL = ", or null"
"""The end of the texts of optional types."""
_WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,30})", re.ASCII)
_DECIMAL = re.compile(r"[-+]?(?:(?:0|[1-9][0-9]{0,30})(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}
_WORDS |= {spelling: value for word, value in _WORDS.items() for spelling in (word.title(), word.upper())}


class Type(NamedTuple):
    """A type: `text` completes the message "expected ...", `read` returns a value or raises ValueError.

    `doubt` gets a value as written, the same as read, and the default. It returns why the valid value is probably a
    mistake, or None.
    """

    text: str
    read: Callable[[Any], Any]
    doubt: Callable[[object, Any, Any], str | None] = lambda written, value, default: None


def show(value: object) -> str:
    """Return `value` as error messages quote it: short, and with a recognizable YAML type."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    try:
        return brief(_quoted(value) if isinstance(value, str | bool) else repr(value))
    except ValueError:  # Python does not convert numbers of more than 4,300 digits to text
        return "a very large number"


def _quoted(value: str | bool) -> str:
    """Return a value as JSON with all letters as they are, and what cannot be printed as escape sequences."""
    return "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in json.dumps(value, ensure_ascii=False))


def brief(text: str, longest: int = 60) -> str:
    """Return a text as error messages quote it: only its beginning if it is long."""
    return text if len(text) <= longest else text[: longest - 3] + "..."


def plain(text: str) -> Any:
    """Return the value of an unquoted scalar: true, false, null, a decimal number without leading zeros, else text."""
    if text in _WORDS:
        return _WORDS[text]
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _DECIMAL.fullmatch(text) else text


def read_duration(value: object) -> float:
    """Return seconds from a number of seconds or a text such as "15m", "1h30m", "500ms". Raises ValueError."""
    return _read_quantity(value, units.parse_duration, LONGEST)


def _positive_duration(value: object) -> float:
    seconds = read_duration(value)
    if not seconds:
        raise ValueError(show(value))
    return seconds


def read_size(value: object) -> int:
    """Return bytes from a number of bytes or a text such as "50GiB", "10 MB". Raises ValueError."""
    return int(_read_quantity(value, units.parse_size, LARGEST))


def _positive_size(value: object) -> int:
    size = read_size(value)
    if size == 0:
        raise ValueError(show(value))
    return size


def _read_quantity(value: object, parse: Callable[[str], float], most: float) -> float:
    try:
        quantity = parse(value) if isinstance(value, str) else value
    except ValueError:
        raise ValueError(show(value)) from None
    if isinstance(quantity, bool) or not isinstance(quantity, int | float) or not quantity >= 0:
        raise ValueError(show(value))
    if quantity > most:
        most_words = units.format_duration(most) if most == LONGEST else f"{most:,.0f}"
        raise ValueError(f"{show(value)}, which is more than {most_words}")
    return float(quantity)


def _doubt_duration(written: object, seconds: float, default: float) -> str | None:
    """Doubt durations above a day, and bare numbers, which Heritrix reads as milliseconds."""
    number = show(written).strip('"')
    if not _is_bare(written):
        return f"{number} is more than a day" if seconds > 86400 else None
    if seconds > 86400 or seconds >= max(1000.0, 10 * default):
        words = units.describe_duration(seconds)
        return f"{number} is {words}; write {number}ms if milliseconds are meant, else {number}s"
    return None


def _doubt_size(written: object, size: int, default: int) -> str | None:
    if _is_bare(written) and 0 < size < 1000 and not 0 < default < 1000:
        are = units.counted(size, "byte")
        return f"{size} is {are}; write {size}KB, {size}MB or {size}GB if those are meant, else {size}B"
    return None


def _is_bare(written: object) -> bool:
    return not isinstance(written, str) or written.strip().replace(".", "", 1).isdigit()


def _whole(value: object) -> int:
    """Return a whole number, also from a float without fraction such as 1e6."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(show(value))
    return value


def integer(least: int = -LARGEST, most: int = LARGEST) -> Type:
    """Return the type of whole numbers from `least` to `most`."""

    def read(value: object) -> int:
        number = _whole(value)
        if number > most:
            raise ValueError(f"{show(value)}, which is more than {most:,}")
        if number < least:
            raise ValueError(show(value))
        return number

    low = f" of at least {least}" if least > -LARGEST else ""
    return Type(f"a whole number{low if most == LARGEST else f' from {least} to {most}'}", read)


def _read_number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:  # NaN is not
        raise ValueError(show(value))
    if value > LARGEST:
        raise ValueError(f"{show(value)}, which is more than {LARGEST:,}")
    return float(value)


def _read_factor(value: object) -> float:
    number = _read_number(value)
    if number < 1:
        raise ValueError(show(value))
    return number


def _read_probability(value: object) -> float:
    number = _read_number(value)
    if not 0 < number < 1:
        raise ValueError(show(value))
    return number


def _read_score(value: object) -> float:
    number = _read_number(value)
    if not 0.5 <= number <= 1:
        raise ValueError(show(value))
    return number


def _read_flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(show(value))
    return value


def _read_text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{show(value)}, which needs quotes to be text" if _scalar(value) else show(value))
    try:
        value.encode()
    except UnicodeEncodeError:  # lone surrogates cannot be stored
        raise ValueError(show(value)) from None
    return value


def _scalar(value: object) -> bool:
    return isinstance(value, bool | int | float)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def choice(*options: object) -> Type:
    """Return the type of values that are one of a few options."""

    def read(value: object) -> object:
        for option in options:
            if type(value) is type(option) and value == option:
                return option
        raise ValueError(show(value) + did_you_mean(value, filter(_is_text, options), quote='"'))

    return Type(" or ".join(option if isinstance(option, str) else json.dumps(option) for option in options), read)


def named(of: Type, names: Mapping[str, str]) -> Type:
    """Return a type whose values have further names, those of Heritrix's classes with or without their package."""

    def read(value: object) -> object:
        name = value.rpartition(".")[2] if isinstance(value, str) else ""
        return names.get(name) or of.read(value)

    return Type(of.text, read)


def either(option: str, of: Type) -> Type:
    """Return the type of values that are `option`, or one of type `of`."""
    return Type(f"{option}, or {of.text}", lambda value: value if value == option else of.read(value))


def listed(of: Type, *, many: str) -> Type:
    """Return the type of lists of values of one type; a single value is read as a list of one."""

    def read(value: object) -> tuple[Any, ...]:
        if value is None:
            return ()
        return tuple(of.read(item) for item in (value if isinstance(value, list | tuple) else [value]))

    return Type(many, read)


def optional(of: Type) -> Type:
    """Return the type of values that may be null."""
    return Type(f"{of.text}{OR_NULL}", lambda value: None if value is None else of.read(value))


def _read_brokers(value: object) -> str:
    """Return brokers of Kafka, as written, with the properties behind the question mark."""
    text = _read_text(value)
    named, _, properties = text.partition("?")
    try:
        addresses.brokers(named)
    except WrongAddress:
        raise ValueError(show(value)) from None
    if re.search(r"\s", properties):
        raise ValueError(show(value))
    return text


def _read_snapshots(value: object) -> str:
    """Return the URL of a store of snapshots, as written. It holds no credentials, for settings are shown."""
    text = _read_text(value)
    if not re.fullmatch(r"file:///[^?#\s]+|(s3|gs|az)://[^/?#@\s]+(/[^?#\s]*)?", text):
        raise ValueError(show(value))
    return text


def matching(of: Type, pattern: str, text: str) -> Type:
    """Return the type of texts that a regular expression matches as a whole."""
    compiled = re.compile(pattern, re.ASCII)

    def read(value: object) -> str:
        word: str = of.read(value)
        if not compiled.fullmatch(word):
            raise ValueError(show(value))
        return word

    return Type(text, read)


FLAG = Type("true or false", _read_flag)
NUMBER = Type("a number of at least 0", _read_number)
AT_LEAST_1 = Type("a number of at least 1", _read_factor)
PROBABILITY = Type("a number above 0 and below 1", _read_probability)
SCORE = Type("a number of 0.5 to 1", _read_score)
_DURATIONS = '(seconds, or such as 500ms, 3s, 15m, "1h30m", 2d)'
DURATION = Type(f"a duration {_DURATIONS}", read_duration, _doubt_duration)
POSITIVE_DURATION = Type(f"a duration above 0 {_DURATIONS}", _positive_duration, _doubt_duration)
PERIOD = Type(DURATION.text, read_duration)
"""A duration that may well be days, and that Heritrix reads as seconds too."""
SIZE = Type("a size (bytes, or such as 64KiB, 10MB, 50GiB)", read_size, _doubt_size)
POSITIVE_SIZE = Type("a size above 0 (bytes, or such as 64KiB, 10MB, 50GiB)", _positive_size, _doubt_size)
TEXT = Type("text", _read_text)
BROKERS = Type("HOST:PORT,... without kafka:// before or a path behind", _read_brokers)
SNAPSHOT_URL = Type(
    "file:///FOLDER, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX, without credentials",
    _read_snapshots,
)
TEXTS = listed(TEXT, many="a list of texts")
