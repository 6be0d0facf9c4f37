"""Regular expressions of Java as those of Python. DecideRules ask whether one matches a URL as a whole.

URLs are ASCII without line breaks, so what differs for other text does not matter. What Python's `re` cannot express
raises ValueError, which says what it is.
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import NamedTuple

_QUANTIFIER = re.compile(r"(?:[*+?]|\{\d+(?:,\d*)?\})[?+]?")
_NAMED = re.compile(r"\(\?<([A-Za-z][A-Za-z0-9]*)>")
_GROUP = re.compile(r"\(\?(?:[:=!>]|<[=!])")
_FLAGS = re.compile(r"\(\?([A-Za-z]*)(?:-([A-Za-z]+))?([:)])")
_CODE = re.compile(r"\\(?:x\{([0-9A-Fa-f]{1,6})\}|x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|0([0-3]?[0-7]{1,2}))")
_PROPERTY = re.compile(r"\\[pP](?:\{(?:Is)?(\w+)\}|(\w))")
_QUOTED = re.compile(r"\\Q(.*?)(?:\\E|\Z)", re.DOTALL)
_SAME = frozenset("bBdDwWsStnrfaA")
"""Letters that mean the same behind a backslash."""
_OTHER = {"z": r"\Z", "Z": r"(?=\n?\Z)", "e": r"\x1b"}
_PROPERTIES = {
    "Lower": "a-z", "Upper": "A-Z", "Alpha": "a-zA-Z", "Digit": "0-9", "Alnum": "a-zA-Z0-9", "XDigit": "0-9a-fA-F",
    "Punct": r"!-/:-@\[-`{-~", "Graph": "!-~", "Print": " -~", "Blank": r" \t", "Space": r" \t-\r",
    "Cntrl": r"\x00-\x1f\x7f", "ASCII": r"\x00-\x7f",
    "L": "a-zA-Z", "Lu": "A-Z", "Ll": "a-z", "N": "0-9", "Nd": "0-9", "Alphabetic": "a-zA-Z",
}  # fmt: skip
"""Properties of ASCII characters as the contents of a set."""


class _Item(NamedTuple):
    """A part of an alternative: its flags, text, and quantifier."""

    flags: frozenset[str]
    text: str
    quantifier: str


def translate(text: str) -> str:
    r"""Return a Java expression in Python's syntax. Raises ValueError.

    >>> translate(r"a(?i)b|c\z")
    'a(?i:b)|(?i:c\\Z)'
    """
    return "|".join(map(_written, _JavaRegex(text).alternatives()))


def searched(text: str) -> str:
    r"""Return an expression that is found in a URL exactly if a Java expression matches all of it. Raises ValueError.

    Where an alternative begins or ends with `.*`, no anchor is needed there, and the search is much faster.

    >>> searched(r".*\.pdf"), searched(".*a.*|b"), searched(r"a|b\.*")
    ('\\.pdf\\Z', 'a|\\Ab\\Z', '\\A(?:a|b\\.*)\\Z')
    """
    alternatives = _JavaRegex(text).alternatives()
    if not any(map(_is_any, (item for items in alternatives for item in (*items[:1], *items[-1:])))):
        return rf"\A(?:{'|'.join(map(_written, alternatives))})\Z"
    return "|".join(map(_anchored, alternatives))


def _anchored(items: list[_Item]) -> str:
    start, end = 0, len(items)
    while start < end and _is_any(items[start]):
        start += 1
    while end > start and _is_any(items[end - 1]):
        end -= 1
    return ("" if start else r"\A") + _written(items[start:end]) + ("" if end < len(items) else r"\Z")


def _is_any(item: _Item) -> bool:
    return item.text == "." and item.quantifier in ("*", "*?")


def _written(items: list[_Item], outer: frozenset[str] = frozenset()) -> str:
    """Return an alternative within a group that has the flags `outer`."""
    text = ""
    for flags, run in groupby(items, lambda item: item.flags):
        part = "".join(item.text + item.quantifier for item in run)
        on, off = "".join(sorted(flags - outer)), "".join(sorted(outer - flags))
        text += f"(?{on}{'-' if off else ''}{off}:{part})" if on or off else part
    return text


class _JavaRegex:
    """A reader of a Java expression."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def alternatives(self) -> list[list[_Item]]:
        """Return the alternatives of the whole expression. Raises ValueError."""
        found = self._alternatives(frozenset())
        if self._at < len(self._text):
            raise ValueError("a closing parenthesis without an opening one")
        return found

    def _alternatives(self, flags: frozenset[str]) -> list[list[_Item]]:
        """Read to the end of the group. Flags that it sets also hold in the alternatives that follow."""
        found: list[list[_Item]] = [[]]
        while (here := self._text[self._at : self._at + 1]) not in ("", ")"):
            if here == "|":
                self._at += 1
                found.append([])
            elif (set_here := _FLAGS.match(self._text, self._at)) and set_here[3] == ")":
                self._at = set_here.end()
                flags = _flags(flags, set_here)
            elif quoted := _QUOTED.match(self._text, self._at):
                self._at = quoted.end()
                found[-1] += [_Item(flags, re.escape(each), "") for each in quoted[1]]
                if quoted[1]:
                    found[-1][-1] = found[-1][-1]._replace(quantifier=self._quantifier())
            else:
                found[-1].append(_Item(flags, self._atom(flags), self._quantifier()))
        return found

    def _quantifier(self) -> str:
        found = _QUANTIFIER.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return found[0] if found else ""

    def _atom(self, flags: frozenset[str]) -> str:
        here = self._text[self._at]
        if here == "(":
            return self._group(flags)
        if here == "[":
            return self._set()
        if here == "\\":
            return self._escaped()
        if here in "*+?{":
            raise ValueError(f"{here} repeats nothing")
        self._at += 1
        return "\\}" if here == "}" else here

    def _group(self, flags: frozenset[str]) -> str:
        inner = flags
        if named := _NAMED.match(self._text, self._at):
            opening, self._at = f"(?P<{named[1]}>", named.end()
        elif plain := _GROUP.match(self._text, self._at):
            opening, self._at = plain[0], plain.end()
        elif with_flags := _FLAGS.match(self._text, self._at):
            opening, self._at, inner = "(?:", with_flags.end(), _flags(flags, with_flags)
        elif self._text.startswith("(?", self._at):
            raise ValueError(f"{self._text[self._at : self._at + 4]} opens no group that is known here")
        else:
            opening, self._at = "(", self._at + 1
        text = "|".join(_written(items, flags) for items in self._alternatives(inner))
        if self._text[self._at : self._at + 1] != ")":
            raise ValueError("a parenthesis is not closed")
        self._at += 1
        return f"{opening}{text})"

    def _escaped(self) -> str:
        """Return what a backslash begins, outside of a set."""
        if self._text.startswith(("\\p", "\\P"), self._at):
            inner, negated = self._property()
            return f"[{'^' if negated else ''}{inner}]"
        if back := re.compile(r"\\(?:([1-9])(?!\d)|k<(\w+)>)").match(self._text, self._at):
            self._at = back.end()
            return f"(?P={back[2]})" if back[2] else back[0]
        return self._character()

    def _character(self) -> str:
        """Return an escaped character, or a class of characters such as \\d."""
        if code := _CODE.match(self._text, self._at):
            self._at = code.end()
            number = int(code[4], 8) if code[4] else int(code[1] or code[2] or code[3], 16)
            if number > 0x10FFFF:
                raise ValueError(f"{code[0]} is no character")
            return f"\\U{number:08x}"
        letter = self._text[self._at + 1 : self._at + 2]
        known = letter in _SAME or letter in _OTHER or not (letter.isascii() and letter.isalnum())
        if not letter or not known:
            raise ValueError(f"\\{letter} is not known here")
        self._at += 2
        return _OTHER.get(letter, re.escape(letter) if not letter.isalnum() else f"\\{letter}")

    def _property(self) -> tuple[str, bool]:
        """Return the characters of a property as the contents of a set, and whether it is negated."""
        found = _PROPERTY.match(self._text, self._at)
        if found is None or (inner := _PROPERTIES.get(found[1] or found[2])) is None:
            raise ValueError(f"{found[0] if found else self._text[self._at : self._at + 2]} is not known here")
        self._at = found.end()
        return inner, found[0][1] == "P"

    def _set(self) -> str:
        self._at += 1
        text = "["
        if self._text.startswith("^", self._at):
            self._at += 1
            text += "^"
        first = True
        while first or not self._text.startswith("]", self._at):
            part, single = self._element()
            text += part
            follows = self._text[self._at + 1 : self._at + 2]
            if self._text.startswith("-", self._at) and follows not in ("]", ""):
                self._at += 1
                text += "-" if single else r"\-"
                if single:
                    last, is_single = self._element()
                    if not is_single:
                        raise ValueError("a range in a set ends with a class of characters")
                    text += last
            first = False
        self._at += 1
        return text + "]"

    def _element(self) -> tuple[str, bool]:
        """Return an element of a set, and whether it is a single character."""
        here = self._text[self._at : self._at + 1]
        if here == "[" or self._text.startswith("&&", self._at):
            raise ValueError("a set within a set, or &&, is not known here")
        if not here:
            raise ValueError("a set is not closed")
        if here != "\\":
            self._at += 1
            doubled = here in "&|~" and self._text.startswith(here, self._at)  # reserved in Python
            return (f"\\{here}" if here in "[]^-" or doubled else here), True
        if self._text.startswith(("\\p", "\\P"), self._at):
            inner, negated = self._property()
            if negated:
                raise ValueError(r"\P in a set is not known here")
            return inner, False
        if self._text[self._at + 1 : self._at + 2] in ("b", "B", "A", "z", "Z", "Q", *"123456789"):
            raise ValueError(f"{self._text[self._at : self._at + 2]} in a set is not known here")
        text = self._character()
        return text, text[1:] not in tuple("dDwWsS")


def _flags(before: frozenset[str], found: re.Match[str]) -> frozenset[str]:
    """Return the flags behind `(?i)`, `(?s-i:` and the like. Java's u, d and U make no difference for ASCII."""
    if unknown := set(found[1] + (found[2] or "")) - set("imsudU"):
        raise ValueError(f"the flag {min(unknown)} is not known here")
    return (before | set(found[1]) & set("ims")) - set(found[2] or "")
