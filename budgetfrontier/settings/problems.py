"""Problems of settings: a message, and the path of the value."""

from __future__ import annotations

from typing import NamedTuple

from budgetfrontier.settings.values import brief

ValuePath = tuple[str | int, ...]
"""The keys and indexes that lead from the root of the data to a value."""

MOST_PROBLEMS = 100
"""The most problems reported: nobody reads more, and suggestions for unknown names take time."""


class Problem(NamedTuple):
    """A problem and its path. `at_key`: the key itself is wrong, not its value; `bare`: messages omit the path."""

    path: ValuePath
    text: str
    at_key: bool = False
    bare: bool = False

    @property
    def message(self) -> str:
        """The text, after the dotted name of the value."""
        name = "" if self.bare else dotted(self.path[:-1] if self.at_key else self.path)
        return f"{name}: {self.text}" if name else self.text


def dotted(path: ValuePath) -> str:
    """Return a path in the form used by messages: overrides[0].set.politeness."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{brief(part)}" for part in path).removeprefix(".")


class TooManyProblems(Exception):
    """Raised to stop reading after MOST_PROBLEMS; never leaves `validation`."""
