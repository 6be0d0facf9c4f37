"""Problems of settings: what is wrong, and with the value at which path."""

from __future__ import annotations

from typing import NamedTuple

from budgetfrontier.settings.values import brief

ValuePath = tuple[str | int, ...]
"""The keys and indexes that lead from the root of the data to a value."""

MOST_PROBLEMS = 100
"""Nobody reads more, and looking for what each unknown name may mean takes its time."""


class Problem(NamedTuple):
    """What is wrong, and where; `at_key`: with the key itself rather than its value; `bare`: with the text as such."""

    path: ValuePath
    text: str
    at_key: bool = False
    bare: bool = False

    @property
    def message(self) -> str:
        """The text, behind the dotted name of what it is about."""
        name = "" if self.bare else dotted(self.path[:-1] if self.at_key else self.path)
        return f"{name}: {self.text}" if name else self.text


def dotted(path: ValuePath) -> str:
    """Return a path as messages write it: overrides[0].set.politeness."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{brief(part)}" for part in path).removeprefix(".")


class TooManyProblems(Exception):
    """Raised to stop reading after MOST_PROBLEMS; never leaves `validation`."""
