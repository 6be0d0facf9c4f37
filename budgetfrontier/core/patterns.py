"""Regular expressions from settings, searched for in bounded time.

Python's `re` backtracks: `(a+)+$` takes years on forty characters. A search runs in `re` where an upper bound of its
steps is known to be small, which is nearly always so. All others run in the package `regex`, which accepts the same
patterns and has a time limit: a search that exceeds it counts as no match, and the first one of each pattern is logged.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

from budgetfrontier.core.uris import MAX_LENGTH

SECONDS = 0.02
"""The most processor time that one search may take."""

_STEPS = 1_000_000  # steps of `re`, which take about 10 ms

_ESCAPE_OR_SET = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_COMMENTS = re.compile(r"\(\?(?:#|[a-zA-Z]*x)")
_REPEATED_GROUP = re.compile(r"\)[*+{]")
_BACK_REFERENCE = re.compile(r"\\[1-9]|\(\?P=")
_QUANTIFIER_SUFFIX = re.compile(r"(?<=[*+?}])[?+]")  # suffixes of a quantifier, which never add steps
_COUNT = re.compile(r"\{(\d+)\}")

# Text that `regex` parses differently: a brace that is not a quantifier, and "[:" in a set.
_PARSED_DIFFERENTLY = re.compile(r"\\N\{[^}]*\}|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(?!(?:\d+|\d*,\d*)\})", re.DOTALL)
_POSIX_CLASS = re.compile(r"\\.|\[:", re.DOTALL)

# A character that stands for itself, with its quantifier, if any; and constructs that `required_text` skips.
_PLAIN_CHARACTER = re.compile(r"(?:([\w/=&%,;:!@<>~\"' -])|\\([^\w\s]))([{*?+])?", re.ASCII)
_NOT_ON_ONE_LEVEL = re.compile(r"[|(]|\\[0-9xuUN]")
_LONG_ENOUGH = 64

log = logging.getLogger("budgetfrontier.patterns")


class Pattern:
    """A regular expression in the syntax of Python's `re`. Raises ValueError if it is not valid.

    `search(text)` is true if the pattern matches anywhere, `fullmatch(text)` returns the match of the whole text; each
    takes a few hundredths of a second at most. `given_up` counts the searches that ran out of time, and so counted as
    no match.
    """

    __slots__ = ("_bounded", "_longest_bounded", "_unbounded", "given_up", "search", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.given_up = 0
        try:
            self._unbounded = re.compile(text)
            self._longest_bounded = longest_bounded(text)
            self.search: Callable[[str], Any] = self._unbounded.search
            if self._longest_bounded < MAX_LENGTH:
                import regex  # imported here because most patterns do not need it

                self._bounded = regex.compile(_for_regex(text), regex.VERSION0)
                self.search = self._search
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(str(error)) from None
        except ValueError as error:  # regex.error is a ValueError too
            raise ValueError(f"it cannot be searched for in bounded time ({error}); write it more simply") from None

    def _search(self, text: str) -> bool:
        if len(text) <= self._longest_bounded:
            return self._unbounded.search(text) is not None
        return self._in_time(self._bounded.search, text) is not None

    def fullmatch(self, text: str) -> Any:
        """Return the match of the whole text, with its groups; None if there is none."""
        if len(text) <= self._longest_bounded or self._longest_bounded >= MAX_LENGTH:
            return self._unbounded.fullmatch(text)
        return self._in_time(self._bounded.fullmatch, text)

    def _in_time(self, match: Any, text: str) -> Any:
        """Return what a method of `regex` finds; None, which is logged once, if that takes too long."""
        try:
            return match(text, timeout=SECONDS)
        except TimeoutError:
            self.given_up += 1
            if self.given_up == 1:
                log.warning(
                    "the regular expression %.200r takes too long for %.200r, which counts as not matched; write it "
                    "without repetitions of what repeats",
                    self.text,
                    text,
                )
            return None


def longest_bounded(pattern: str) -> int:
    """Return the longest text, in characters, that `re` surely searches in bounded time; 0 if there is no such bound.

    Each repetition may end at any character, and each "?" and "|" is a choice: `re` tries at most the product of these.
    """
    bare = _QUANTIFIER_SUFFIX.sub("", _ESCAPE_OR_SET.sub("x", pattern))
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


def required_text(pattern: str) -> str:
    """Return a text contained in every match of a valid pattern; empty if none is known. O(pattern)."""
    if _NOT_ON_ONE_LEVEL.search(pattern):
        return ""
    longest = text = ""
    place = 0
    while place < len(pattern) and len(longest) < _LONG_ENOUGH:
        plain = _PLAIN_CHARACTER.match(pattern, place)
        if plain is None:  # it may stand for something else
            other = _ESCAPE_OR_SET.match(pattern, place)
            place, text = other.end() if other else place + 1, ""
            if pattern[place : place + 1] == "{":  # how often, and no text
                place = pattern.find("}", place) + 1 or len(pattern)
            continue
        place, quantifier = plain.end(), plain[3]
        if quantifier in (None, "+"):  # else it may be missing
            text += plain[1] or plain[2]
            longest = max(longest, text, key=len)
        if quantifier:
            text = ""
        if quantifier == "{":
            place = pattern.find("}", place) + 1 or len(pattern)
    return longest


def _for_regex(pattern: str) -> str:
    """Return the pattern, escaped so that `regex` parses it as `re` does."""

    def escaped(found: re.Match[str]) -> str:
        text = found[0]
        if text[0] == "[":
            return "[" + _POSIX_CLASS.sub(lambda inner: r"\[:" if inner[0] == "[:" else inner[0], text[1:])
        return r"\{" if text == "{" else text

    return _PARSED_DIFFERENTLY.sub(escaped, pattern)
