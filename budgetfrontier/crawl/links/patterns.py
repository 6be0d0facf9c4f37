"""What the tokenizer of the HTML standard takes for a tag, as regular expressions.

No repeat gives back what it took (++, *+), so that no text is looked at twice.

https://html.spec.whatwg.org/multipage/parsing.html#tokenization
"""

from __future__ import annotations

import re
from itertools import groupby

_SPACE = r"[ \t\n\f\r]"
_NAME = r"[^ \t\n\f\r/>][^ \t\n\f\r/>=]*+"
_BARE = r"""[^ \t\n\f\r>"'][^ \t\n\f\r>]*+"""

ATTRIBUTE = re.compile(rf"""({_NAME})(?:{_SPACE}*+={_SPACE}*+(?:"([^"]*+)(?:"|\Z)|'([^']*+)(?:'|\Z)|({_BARE}))?+)?+""")
"""One attribute: its name, and its value in double quotes, in single ones, or in none."""

ATTRIBUTES = (
    rf"""(?:[ \t\n\f\r/]++|{_NAME}(?:{_SPACE}*+={_SPACE}*+(?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z)|{_BARE})?+)?+)*+"""
)
"""Whatever follows the name in a tag, up to its ">"; what is missing at the end of the text goes on to it."""

# Nearly all attributes are written like this, which is quick to tell; names are in lower case then. What an <a> is
# asked for is taken along, the first of each.
_HREF, _REL = r'(?(3)(?!)|(?:xlink:)?+href="([^"]*+)")', r'(?(4)(?!)|rel="([^"]*+)")'
_PLAIN = rf"""(?:{_SPACE}++(?:{_HREF}|{_REL}|[a-z][a-z0-9:_.-]*+(?:="[^"]*+")?+))*+{_SPACE}*+/?+>"""
PLAIN_ATTRIBUTE = re.compile(r'(?<=[ \t\n\f\r])([a-z][a-z0-9:_.-]*+)="([^"]*+)"')

ANY_NAME = r"[a-zA-Z][^ \t\n\f\r/>]*+"
# Elements of other names are met only if what they hold may look like a tag.
_ODD = (
    r"[a-zA-Z][^ \t\n\f\r/><]*+(?:[ \n](?:[a-zA-Z][a-zA-Z0-9:_.-]*+=\"[^\"<]*+\"[ \n]?+)*+(?!/?>)|[\t\f\r/](?!>)"
    rf"|<[^ \t\n\f\r/>]*+){ATTRIBUTES}"
)
_END_NAME = re.compile(rf"</({ANY_NAME})")
_ODD_END = rf"(?![a-zA-Z][^ \t\n\f\r/><]*+>)(?:{ANY_NAME}{ATTRIBUTES}|[^a-zA-Z>][^>]*+)"
STYLED = r"[a-zA-Z][^ \t\n\f\r/>]*+(?=[ \t\n\f\r/](?:[^<>u]++|u(?!rl\())*+u)"
"""The names of tags that may hold a style with a URL."""


def named(names: frozenset[str]) -> str:
    """Return a pattern for any of these names, in upper or lower case, as the name of a tag."""
    firsts = "".join(sorted({name[0] + name[0].upper() for name in names}))
    return rf"(?=[{firsts}]){_tree(sorted(names))}(?=[ \t\n\f\r/>])"


def _tree(names: list[str]) -> str:
    # What begins alike is asked for once, and a set of characters is told quicker than a letter without case.
    parts = []
    for first, some in groupby(filter(None, names), lambda name: name[0]):
        rest = _tree([name[1:] for name in some])
        parts.append((f"[{first}{first.upper()}]" if first.isalpha() else first) + rest)
    tree = f"(?:{'|'.join(parts)})" if len(parts) > 1 else "".join(parts)
    return f"(?:{tree})?+" if parts and "" in names else tree


def tag_pattern(names: str = ANY_NAME, ends: str = "") -> re.Pattern[str]:
    """Return a pattern for tags whose start or end tags have names like these, comments, and CDATA sections.

    Its groups: of a start tag its name, then either all its plain attributes, its href and its rel, or all of its
    attributes and the ">". What else might hide a tag is met, without groups.
    """
    # End tags are the most, and soonest told.
    end = rf"{ends}{ATTRIBUTES}|{_ODD_END}" if ends else _ODD_END
    start = rf"({names})(?:({_PLAIN})|({ATTRIBUTES})(>|\Z))"
    return re.compile(rf"<(?:/(?:{end})|!(?:--|\[CDATA\[|[^>]*+)|\?[^>]*+|{start}|{_ODD})")


def end_name(tag: str) -> str:
    """Return the name of an end tag, in lower case; "" if it is none."""
    found = _END_NAME.match(tag)
    return found[1].lower() if found else ""
