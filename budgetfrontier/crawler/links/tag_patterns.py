"""Regular expressions for tags, as the tokenizer of the HTML standard recognizes them.

All repetitions are possessive (++, *+), so that there is no backtracking.

https://html.spec.whatwg.org/multipage/parsing.html#tokenization
"""

from __future__ import annotations

import re
from itertools import groupby

_SPACE = r"[ \t\n\f\r]"
_NAME = r"[^ \t\n\f\r/>][^ \t\n\f\r/>=]*+"
_BARE = r"""[^ \t\n\f\r>"'][^ \t\n\f\r>]*+"""

ATTRIBUTE = re.compile(rf"""({_NAME})(?:{_SPACE}*+={_SPACE}*+(?:"([^"]*+)(?:"|\Z)|'([^']*+)(?:'|\Z)|({_BARE}))?+)?+""")
"""One attribute. Groups: its name, and its value in double quotes, in single quotes, or without quotes."""

ATTRIBUTES = (
    rf"""(?:[ \t\n\f\r/]++|{_NAME}(?:{_SPACE}*+={_SPACE}*+(?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z)|{_BARE})?+)?+)*+"""
)
"""Everything between the name of a tag and its ">"; in an incomplete tag, everything up to the end of the text."""

# Nearly all attributes have this form, which is fast to match: lower-case names and double quotes. The attributes of
# <a> that are needed are captured in the same pass, the first of each name.
_HREF, _REL = r'(?(3)(?!)|(?:xlink:)?+href="([^"]*+)")', r'(?(4)(?!)|rel="([^"]*+)")'
_PLAIN = rf"""(?:{_SPACE}++(?:{_HREF}|{_REL}|[a-z][a-z0-9:_.-]*+(?:="[^"]*+")?+))*+{_SPACE}*+/?+>"""
PLAIN_ATTRIBUTE = re.compile(r'(?<=[ \t\n\f\r])([a-z][a-z0-9:_.-]*+)="([^"]*+)"')

ANY_NAME = r"[a-zA-Z][^ \t\n\f\r/>]*+"
# Elements with other names are matched only if their attributes may contain text that looks like a tag.
_ODD = (
    r"[a-zA-Z][^ \t\n\f\r/><]*+(?:[ \n](?:[a-zA-Z][a-zA-Z0-9:_.-]*+=\"[^\"<]*+\"[ \n]?+)*+(?!/?>)|[\t\f\r/](?!>)"
    rf"|<[^ \t\n\f\r/>]*+){ATTRIBUTES}"
)
_END_NAME = re.compile(rf"</({ANY_NAME})")
_ODD_END = rf"(?![a-zA-Z][^ \t\n\f\r/><]*+>)(?:{ANY_NAME}{ATTRIBUTES}|[^a-zA-Z>][^>]*+)"
STYLED = r"[a-zA-Z][^ \t\n\f\r/>]*+(?=[ \t\n\f\r/](?:[^<>ui]++|u(?!rl\()|i(?!mage-set\())*+[ui])"
"""Names of tags that may have a style attribute with a URL."""


def named(names: frozenset[str]) -> str:
    """Return a pattern for any of these names as the name of a tag, regardless of case."""
    firsts = "".join(sorted({name[0] + name[0].upper() for name in names}))
    return rf"(?=[{firsts}]){_tree(sorted(names))}(?=[ \t\n\f\r/>])"


def _tree(names: list[str], *, any_case: bool = True) -> str:
    # Common prefixes are factored out; a character set matches faster than the flag IGNORECASE.
    parts = []
    for first, some in groupby(filter(None, names), lambda name: name[0]):
        rest = _tree([name[1:] for name in some], any_case=any_case)
        parts.append((f"[{first}{first.upper()}]" if any_case and first.isalpha() else first) + rest)
    tree = f"(?:{'|'.join(parts)})" if len(parts) > 1 else "".join(parts)
    return f"(?:{tree})?+" if parts and "" in names else tree


def tag_pattern(names: str = ANY_NAME, ends: str = "", *, skipped: frozenset[str] = frozenset()) -> re.Pattern[str]:
    """Return a pattern for start tags named `names` and end tags named `ends`, comments, and CDATA sections.

    The groups are those of a start tag: its name, then either its attributes in plain form, its href and its rel, or
    its attributes in any form and the ">". Other constructs that may contain text like a tag match without groups.

    `skipped` are frequent names, none of them in `names`: with them, the pattern is a third quicker, without `ends`.
    """
    skip = ""
    if skipped:
        skip = rf'(?!/[a-z0-9]++>|{_tree(sorted(skipped), any_case=False)}(?: [a-z][a-z0-9-]*+="[^"<]*+")*+>)'
    # End tags come first: they are the most frequent, and the fastest to match.
    end = rf"{ends}{ATTRIBUTES}|{_ODD_END}" if ends else _ODD_END
    start = rf"({names})(?:({_PLAIN})|({ATTRIBUTES})(>|\Z))"
    return re.compile(rf"<{skip}(?:/(?:{end})|!(?:--|\[CDATA\[|[^>]*+)|\?[^>]*+|{start}|{_ODD})")


def end_name(tag: str) -> str:
    """Return the name of an end tag, in lower case; "" if the text is not an end tag."""
    found = _END_NAME.match(tag)
    return found[1].lower() if found else ""
