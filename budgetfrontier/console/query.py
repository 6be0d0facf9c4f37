"""The query of a request: text and numbers that a page asks for, within bounds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

LONGEST = 2000
"""The most characters of a value; the rest is refused, not cut."""


class BadRequest(Exception):
    """A request that cannot be answered as it is; the message says why."""


class Busy(Exception):
    """More requests than can be answered in a reasonable time."""


class NotThere(Exception):
    """A page, queue or file that does not exist; the message says which."""


class Query:
    """The values of a request by name. Each method raises BadRequest for a value that is out of its bounds."""

    def __init__(self, values: Mapping[str, str], *, target: str = "") -> None:
        self._values = values
        self.target = target
        """What the path names: the key of a queue, the name of a file."""

    def text(self, name: str, default: str = "") -> str:
        """Return a text."""
        value = self._values.get(name, default)
        if len(value) > LONGEST:
            raise BadRequest(f"{name} has {len(value):,} characters; {LONGEST:,} are allowed")
        return value

    def number(self, name: str, default: int, *, most: int, least: int = 0) -> int:
        """Return a whole number."""
        value = self._values.get(name, "")
        if not value:
            return default
        if not (value.isascii() and value.isdigit() and len(value) < 20 and least <= int(value) <= most):
            raise BadRequest(f"{name} is a whole number from {least:,} to {most:,}, not {value[:40]!a}")
        return int(value)

    def key(self, name: str, is_key: Callable[[bytes], bool]) -> bytes:
        """Return the key of a row of an index, as links to the next page carry it; `is_key` tells what may be one."""
        text = self.text(name)
        try:
            key = bytes.fromhex(text)
        except ValueError:
            key = b""
        if text and not is_key(key):
            raise BadRequest(f"{name} is not the end of a page; go back to the first")
        return key

    def choice(self, name: str, options: Collection[str], default: str = "") -> str:
        """Return one of the options, or the default."""
        value = self._values.get(name, "") or default
        if value != default and value not in options:
            raise BadRequest(f"{name} is one of {', '.join(options)}; not {value[:40]!a}")
        return value

    def with_values(self, **changes: object) -> dict[str, str]:
        """Return all values with changes, for a link to the same page; None takes one out."""
        merged: dict[str, object] = {**self._values, **changes}
        return {name: str(value) for name, value in merged.items() if value not in (None, "") and name != "live"}
