"""Text without markup: the ends of comments, CDATA sections and raw text elements."""

from __future__ import annotations

import re

from budgetfrontier.crawler.links.tag_patterns import ATTRIBUTES

NAMES = frozenset({"iframe", "noembed", "noframes", "script", "style", "textarea", "title", "xmp"})
"""Elements with text as content, according to the HTML standard."""

HIDDEN = frozenset({"iframe", "noembed", "noframes"})
"""Elements with markup as content to browsers that do not support them: links in it are extracted."""

_COMMENT, _NO_COMMENT, _COMMENT_END = re.compile("<!--"), re.compile("-?>"), re.compile("--!?>")
_CDATA_END = re.compile(r"\]\]>")
_END = {name: re.compile(rf"</{name}(?=[ \t\n\f\r/>]){ATTRIBUTES}(?:>|\Z)", re.IGNORECASE) for name in NAMES}
# https://html.spec.whatwg.org/multipage/parsing.html#script-data-escaped-state
_SCRIPT = re.compile(r"<!--|-->|</?script(?=[ \t\n\f\r/>])", re.IGNORECASE)
_MOST_STEPS = 16

Span = tuple[int, int]


class Ends:
    """A finder of ends in one text. Results are cached, so that repeated searches take no more time than one."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._known: dict[re.Pattern[str], tuple[int, Span | None]] = {}

    def comment(self, position: int) -> int | None:
        """Return the end of a comment with its text at `position`; None if it is not closed."""
        if match := _NO_COMMENT.match(self._text, position):
            return match.end()
        return self._after(_COMMENT_END, position)

    def cdata(self, position: int) -> int | None:
        """Return the end of a CDATA section with its text at `position`; None if it is not closed."""
        return self._after(_CDATA_END, position)

    def content(self, name: str, position: int, *, sure: bool) -> Span | None:
        """Return start and end of the end tag of an element with its content at `position`; None if there is none.

        In a script, comments may hide end tags. Unless it is `sure` that the element is a script, only a limited number
        of comments is followed, which bounds the time that many nested candidates take.
        """
        found = self._find(_END[name], position)
        if name != "script" or found is None:
            return found
        comment = self._find(_COMMENT, position)
        if comment and comment[0] < found[0]:
            return self._script_end(position, 0 if sure else _MOST_STEPS) or (None if sure else found)
        return found

    def _script_end(self, position: int, most: int) -> Span | None:
        escaped = double = False
        steps = 0
        while match := _SCRIPT.search(self._text, position):
            found, position = match[0], match.end()
            if found == "<!--":
                escaped, position = True, position - 2  # "<!-->" ends at once
            elif found == "-->":
                escaped = double = False
            elif found[1] != "/":
                double = escaped
            elif not double:
                end = _END["script"].match(self._text, match.start())
                return end.span() if end else None
            else:
                double = False
            steps += 1
            if steps == most:
                break
        return None

    def _after(self, pattern: re.Pattern[str], position: int) -> int | None:
        found = self._find(pattern, position)
        return found[1] if found else None

    def _find(self, pattern: re.Pattern[str], position: int) -> Span | None:
        known = self._known.get(pattern)
        if known is not None and known[0] <= position and (known[1] is None or position <= known[1][0]):
            return known[1]
        match = pattern.search(self._text, position)
        found = match.span() if match else None
        self._known[pattern] = position, found
        return found
