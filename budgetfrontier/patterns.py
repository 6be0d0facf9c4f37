"""Regular expressions that operators write, searched for in bounded time.

Python's `re` goes back and tries again: `(a+)+$` takes years for forty characters. It is asked where its steps surely
are few, as they nearly always are. The rest is left to `regex`, which reads the same patterns and gives up after some
processor time: what it has not found until then counts as not found, and is logged.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

from budgetfrontier.uris import MAX_LENGTH

SECONDS = 0.02
"""Of processor time that one search takes at the most."""

_STEPS = 1_000_000  # of `re`, some 10 ms

_ESCAPE_OR_SET = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_COMMENTS = re.compile(r"\(\?(?:#|[a-zA-Z]*x)")
_REPEATED_GROUP = re.compile(r"\)[*+{]")
_BACK_REFERENCE = re.compile(r"\\[1-9]|\(\?P=")
_MANNER = re.compile(r"(?<=[*+?}])[?+]")  # lazy or possessive: the same steps, or fewer
_COUNT = re.compile(r"\{(\d+)\}")

# What `regex` reads in another way: a brace that is no count, and "[:" in a set.
_READ_OTHERWISE = re.compile(r"\\N\{[^}]*\}|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(?!(?:\d+|\d*,\d*)\})", re.DOTALL)
_CLASS = re.compile(r"\\.|\[:", re.DOTALL)

log = logging.getLogger("budgetfrontier.patterns")


class Pattern:
    """A regular expression as Python's `re` reads it. Raises ValueError for what is none.

    `search(text)` is true if it is found, and takes some hundredths of a second at the most. `given_up` counts the
    texts that would have taken longer.
    """

    __slots__ = ("_bounded", "_longest", "_quick", "given_up", "search", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.given_up = 0
        try:
            self._quick = re.compile(text).search
            self._longest = longest(text)
            self.search: Callable[[str], Any] = self._quick
            if self._longest < MAX_LENGTH:
                import regex  # only now: most patterns do without it

                self._bounded = regex.compile(_as_read(text), regex.VERSION0).search
                self.search = self._search
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(str(error)) from None
        except ValueError as error:  # an error of `regex` is one, too
            raise ValueError(f"it cannot be searched for in bounded time ({error}); write it more simply") from None

    def _search(self, text: str) -> bool:
        if len(text) <= self._longest:
            return self._quick(text) is not None
        try:
            return self._bounded(text, timeout=SECONDS) is not None
        except TimeoutError:
            self.given_up += 1
            if self.given_up == 1:
                log.warning(
                    "the regular expression %.200r takes too long for %.200r, which counts as not matched; write it "
                    "without repetitions of what repeats",
                    self.text,
                    text,
                )
            return False


def longest(pattern: str) -> int:
    """Characters of a text in which `re` finds a pattern in bounded time, whatever the text says; 0: nobody knows.

    Each repetition may end at any character, and each "?" and "|" is a choice: `re` tries no more than their product.
    """
    bare = _MANNER.sub("", _ESCAPE_OR_SET.sub("x", pattern))
    if _COMMENTS.search(pattern) or _REPEATED_GROUP.search(bare):
        return 0
    counts, bare = _COUNT.findall(bare), _COUNT.sub("", bare)
    repetitions = sum(map(bare.count, "*+{")) + len(_BACK_REFERENCE.findall(pattern))
    starts = 0 if bare.startswith("^") and "|" not in bare else 1
    choices, groups, branches = len(re.findall(r"(?<!\()\?", bare)), bare.count("("), bare.count("|")
    try:
        steps = 2.0**choices
        if branches:
            steps *= (branches / min(groups + 1, branches) + 1) ** min(groups + 1, branches)
        for count in counts:
            steps *= max(float(count), 1.0)
        most = (_STEPS / steps) ** (1 / max(repetitions + starts, 1))
    except OverflowError:
        return 0
    return MAX_LENGTH if most >= MAX_LENGTH else int(most)


def _as_read(pattern: str) -> str:
    """The pattern, written so that `regex` reads it as `re` does."""

    def same(found: re.Match[str]) -> str:
        text = found[0]
        if text[0] == "[":
            return "[" + _CLASS.sub(lambda inner: r"\[:" if inner[0] == "[:" else inner[0], text[1:])
        return r"\{" if text == "{" else text

    return _READ_OTHERWISE.sub(same, pattern)
