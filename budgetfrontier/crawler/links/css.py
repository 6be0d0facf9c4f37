"""References in style sheets: other style sheets, images, fonts."""

from __future__ import annotations

import re
from collections.abc import Iterator

# Comments and strings are matched as a whole, so that text in them is not taken for a URL.
# https://www.w3.org/TR/css-syntax-3/#tokenization
_QUOTED = r"""(?:"((?:[^"\\\n]++|\\.)*+)"?+|'((?:[^'\\\n]++|\\.)*+)'?+"""
_STRING = r""""(?:[^"\\\n]++|\\.)*+"?+|'(?:[^'\\\n]++|\\.)*+'?+"""
_PLAIN = rf"""[^()"';{{}}]++|{_STRING}"""
_PARTS = re.compile(
    r"/\*(?:[^*]++|\*(?!/))*+(?:\*/)?+"
    rf"|(?i:image-set)\((?P<set>(?:{_PLAIN}|\((?:{_PLAIN})*+\))*+)"
    rf"|@[iI][mM][pP][oO][rR][tT]\s*+{_QUOTED})"
    rf"""|[uU][rR][lL]\(\s*+{_QUOTED}|((?:[^\s"'()\\]++|\\(?:[0-9a-fA-F]{{1,6}}\s?|.))*+))"""
    rf"|{_STRING}",
    re.DOTALL,
)
# In an image set, strings are URLs, except for media types: https://www.w3.org/TR/css-images-4/#image-set-notation
_IN_SET = re.compile(
    rf"(?i:type)\(\s*+(?:{_STRING})|(?i:url)\(\s*+{_QUOTED}|([^\s\"'()]++))|{_QUOTED})",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})\s?|(\n|.))", re.DOTALL)


def references(text: str) -> Iterator[tuple[str, str]]:
    """Yield (reference as written, "E") of each `url()`, `@import` and image of an `image-set()`, in order.

    The text is that of a style sheet or a style attribute.

    Raises nothing; takes time linear in the length of the text.
    """
    for part in _PARTS.finditer(text):
        for match in (part,) if part.lastgroup != "set" else _IN_SET.finditer(part["set"]):
            if match.lastindex:
                reference = match[match.lastindex].strip()
                yield _ESCAPE.sub(_character, reference) if "\\" in reference else reference, "E"


def _character(match: re.Match[str]) -> str:
    digits, other = match.groups()
    if digits is None:
        return "" if other == "\n" else str(other)
    number = int(digits, 16)
    return chr(number) if 0 < number < 0xD800 or 0xDFFF < number < 0x110000 else "\ufffd"
