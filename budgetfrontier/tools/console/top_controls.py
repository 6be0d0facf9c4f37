"""The keys of `top`: each changes the view, or gives a command. No terminal is needed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

from budgetfrontier.tools.console.forms import LONGEST_REASON, SubmittedCommand

SORTS = {"expenditure": "spend", "queued": "size", "errors": "errors"}
"""The orders of the list, each with its name on the screen."""
_LONGEST_FILTER = 200

_SEQUENCES = {
    "\x1b[A": "up", "\x1b[B": "down", "\x1bOA": "up", "\x1bOB": "down", "\x1b[5~": "page up", "\x1b[6~": "page down",
    "\x1b[H": "home", "\x1b[F": "end", "\x1bOH": "home", "\x1bOF": "end",
}  # fmt: skip
_CHARACTERS = {
    "\r": "enter", "\n": "enter", "\x7f": "backspace", "\b": "backspace", "\x1b": "escape",
    "\x03": "interrupt", "\x1a": "suspend",
}  # fmt: skip
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O[@-~])")
_BEGUN = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|O)?")


def split_keys(typed: str) -> tuple[list[str], str]:
    """Return the names of the keys that were pressed, and the beginning of an incomplete sequence.

    A key that prints is its own name; sequences that are not known are left out.
    """
    keys, at = [], 0
    while at < len(typed):
        if found := _SEQUENCE.match(typed, at):
            keys.append(_SEQUENCES.get(found[0], ""))
            at = found.end()
        elif typed[at] == "\x1b" and (begun := _BEGUN.match(typed, at)) and begun.end() == len(typed):
            return [key for key in keys if key], typed[at:]
        else:
            keys.append(_CHARACTERS.get(typed[at], typed[at] if typed[at].isprintable() else ""))
            at += 1
    return [key for key in keys if key], ""


class Mode(StrEnum):
    """The screen that is shown, or the question that is asked below it."""

    LIST = "list"
    QUEUE = "queue"
    HELP = "help"
    FILTER = "filter"
    REASON = "reason"
    CONFIRM = "confirm"


@dataclass
class Controls:
    """The choices made with keys. `key` is the queue that is open, `typed` the text that is being typed."""

    sort: str = "expenditure"
    filter: str = ""
    mode: Mode = Mode.LIST
    key: str = ""
    typed: str = ""
    message: str = ""
    """The result of the last key."""
    start: int = 0
    """The first row of the list that is shown."""
    selected: int = 0
    """The row that is marked, counted from the beginning of the list."""
    paused: bool = False
    """Whether `p` resumes the crawl."""
    keys: list[str] = field(default_factory=list)
    """The keys of the queues that are shown."""
    room: int = 1
    """The number of rows that the screen has room for."""
    quits: bool = False
    _behind: Mode = Mode.LIST

    @property
    def op(self) -> str:
        """The command that `p` gives."""
        return "resume" if self.paused else "pause"

    @property
    def screen(self) -> Mode:
        """The screen that is shown, also while something is asked for below it."""
        return self.mode if self.mode in (Mode.LIST, Mode.QUEUE, Mode.HELP) else self._behind

    def show(self, keys: list[str]) -> None:
        """Note the rows that are shown, from `start` on; the mark stays among them."""
        self.keys = keys
        self.selected = max(min(self.selected, self.start + len(keys) - 1), 0)

    def press(self, key: str) -> SubmittedCommand | None:
        """Take a key; return the command that it confirms, if any."""
        if self.mode in (Mode.FILTER, Mode.REASON):
            self._type(key)
            return None
        self.message = ""
        if self.mode is Mode.CONFIRM:
            return self._confirm(key)
        if key == "q":
            self.quits = True
        elif key == "p":
            self._ask(Mode.REASON)
        elif key == "?":
            self.mode = Mode.LIST if self.mode is Mode.HELP else Mode.HELP
        elif self.mode is Mode.LIST:
            self._in_list(key)
        elif key in ("escape", "enter", "backspace"):
            self.mode = Mode.LIST
        return None

    def _ask(self, mode: Mode, typed: str = "") -> None:
        self._behind, self.mode, self.typed = self.screen, mode, typed

    def _in_list(self, key: str) -> None:
        moves = {"up": -1, "down": 1, "page up": -self.room, "page down": self.room, "home": -self.selected}
        if key in moves:
            self._move(moves[key])
        elif key == "s":
            names = list(SORTS)
            self.sort = names[(names.index(self.sort) + 1) % len(names)]
            self.start = self.selected = 0
        elif key == "/":
            self._ask(Mode.FILTER, self.filter)
        elif key == "escape" and self.filter:
            self.filter, self.start, self.selected = "", 0, 0
        elif key == "enter" and 0 <= self.selected - self.start < len(self.keys):
            self.key, self.mode = self.keys[self.selected - self.start], Mode.QUEUE

    def _move(self, by: int) -> None:
        self.selected = max(self.selected + by, 0)
        self.start = max(min(self.start, self.selected), self.selected - self.room + 1)

    def _type(self, key: str) -> None:
        if key == "escape":
            self.mode = self._behind
        elif key == "backspace":
            self.typed = self.typed[:-1]
        elif key == "enter" and self.mode is Mode.FILTER:
            self.filter, self.mode, self.start, self.selected = self.typed.strip(), self._behind, 0, 0
        elif key == "enter":
            if self.typed.strip():
                self.mode = Mode.CONFIRM
        elif len(key) == 1 and len(self.typed) < (_LONGEST_FILTER if self.mode is Mode.FILTER else LONGEST_REASON):
            self.typed += key

    def _confirm(self, key: str) -> SubmittedCommand | None:
        if key not in ("y", "Y"):
            self.mode, self.message = self._behind, f"no {self.op}: nothing was changed"
            return None
        self.mode = self._behind
        reason = self.typed.strip()
        return SubmittedCommand(self.op, {"reason": reason} if self.op == "pause" else {}, reason)
