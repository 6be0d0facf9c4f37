"""The query of a request: text and numbers that a page asks for, within bounds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from multidict import MultiMapping

from budgetfrontier.core.spelling import did_you_mean
from budgetfrontier.errors import SettingsError
from budgetfrontier.reports.operators import Selection

LIVE = "live"
"""The parameter of every page by which it asks for its live section."""
LONGEST = 2000
"""The most characters of a value; the rest is refused, not cut."""
ROWS = 50
"""The rows of a page of a listing, unless a request asks for another number."""


class BadRequest(Exception):
    """A request that cannot be answered as it is; the message says why."""


class ServiceUnavailable(Exception):
    """More requests than can be answered in a reasonable time."""


class NotAllowed(Exception):
    """A command for which the role of the token is not enough; the message says which would be."""


class NotThere(Exception):
    """A page, queue or file that does not exist; the message says which."""


class BeingMade(Exception):
    """An answer takes longer than a request waits; the message says since when it is being made."""


class NotNow(Exception):
    """A request that the present state does not allow; the message says why."""


def selected(name: str, match: str) -> Selection:
    """Return the selection by the pattern in a value of a request; "": all queues. Raises BadRequest if it is none."""
    selection = Selection(match=match or None)
    try:
        selection.test()
    except SettingsError as error:
        raise BadRequest(f"{name}: {error}") from None
    return selection


class Query:
    """The values of a request by name. Each method raises BadRequest for a value that is out of its bounds."""

    def __init__(self, values: Mapping[str, str], *, target: str = "", rows: int = ROWS) -> None:
        self._values = values
        self._asked: dict[str, None] = {}
        self.target = target
        """What the path names: the key of a queue, the name of a file."""
        self.rows = rows
        """The rows of a page of a listing, at the most."""

    def _value(self, name: str, default: str = "") -> str:
        """Return the value of a name, and note that the page has it. Raises BadRequest if it is given twice."""
        self._asked[name] = None
        if isinstance(self._values, MultiMapping) and len(self._values.getall(name, ())) > 1:
            raise BadRequest(f"{name} is given more than once; give it once")
        return self._values.get(name, default)

    def check_names(self) -> None:
        """Raise BadRequest for a name that the page has not asked for: a wrong filter must not be ignored."""
        for name in self._values:
            if name not in self._asked and name != LIVE:
                has = f"it has {', '.join(self._asked)}" if self._asked else "it has none"
                raise BadRequest(f"{name[:40]!r} is no parameter of this page: {has}{did_you_mean(name, self._asked)}")

    def flag(self, name: str) -> bool:
        """Return whether something is wanted: 1, or nothing."""
        return self.choice(name, ("1",)) == "1"

    def text(self, name: str, default: str = "") -> str:
        """Return a text."""
        value = self._value(name, default)
        if len(value) > LONGEST:
            raise BadRequest(f"{name} has {len(value):,} characters; {LONGEST:,} are allowed")
        return value

    def match(self, name: str) -> str:
        """Return a pattern of queues; "" for all."""
        return selected(name, self.text(name)).match or ""

    def number(self, name: str, default: int, *, most: int, least: int = 0) -> int:
        """Return a whole number."""
        value = self._value(name)
        if not value:
            return default
        if not (value.isascii() and value.isdigit() and len(value) < 20 and least <= int(value) <= most):
            raise BadRequest(f"{name} is a whole number from {least:,} to {most:,}, not {value[:40]!r}")
        return int(value)

    def key(self, name: str, is_key: Callable[[bytes], bool]) -> bytes:
        """Return the key of a row of an index, as links to the next page carry it; `is_key` checks it."""
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
        value = self._value(name) or default
        if value != default and value not in options:
            raise BadRequest(f"{name} is one of {', '.join(options)}; not {value[:40]!r}{did_you_mean(value, options)}")
        return value

    def with_values(self, **changes: object) -> dict[str, str]:
        """Return all values with changes, for a link to the same page; None takes one out."""
        merged: dict[str, object] = {**self._values, **changes}
        return {name: str(value) for name, value in merged.items() if value not in (None, "") and name != LIVE}
