"""The start tags of an HTML text, as the tokenizer of the HTML standard finds them, without building a tree.

A tree is what links do not need, and what hostile pages attack: a few kB of unclosed <b> make a DOM of hundreds of MiB,
and nested <div> take quadratic time. Here every character is looked at once or twice, and nothing is kept.

https://html.spec.whatwg.org/multipage/parsing.html#tokenization
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from html.entities import html5

_NAMES = (
    "a|area|audio|base|body|embed|frame|iframe|image|img|input|link|meta|object|script|source|style|table|td|textarea"
    "|th|title|track|video|xmp"
)
# Nearly all attributes are written like this, which is quick to tell; names are in lower case then.
_PLAIN = r"""(?:[ \t\n\f\r]++[a-z][a-z0-9:_.-]*+(?:="[^"]*+")?+)*+[ \t\n\f\r]*+/?+>"""
# A quote begins a value only after "="; an end that is missing is the end of the text.
_ANY = r"""(?:[^>=]++|=[ \t\n\f\r]*+(?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z))?+)*+(?:>|\Z)"""
# No repeat gives back what it took (++, *+), so that no text is looked at twice.
_TAG = re.compile(
    r"<(?=[!abefilmostvxABEFILMOSTVX])"
    rf"(?:!(--)|((?i:{_NAMES}))(?=[ \t\n\f\r/>])(?:({_PLAIN})|({_ANY})))"
)
_PLAIN_ATTRIBUTE = re.compile(r'([a-z][a-z0-9:_.-]*+)="([^"]*+)"')
_ATTRIBUTE = re.compile(
    r"""([^ \t\n\f\r/>=][^ \t\n\f\r/>=]*+)"""
    r"""(?:[ \t\n\f\r]*+=[ \t\n\f\r]*+(?:"([^"]*+)|'([^']*+)|([^ \t\n\f\r>]++))?)?"""
)
_COMMENT_END = re.compile("-?>|--!?>")
_RAW_END = {
    name: re.compile(rf"</{name}(?=[ \t\n\f\r/>])", re.IGNORECASE)
    for name in ("script", "style", "textarea", "title", "xmp")
}
_REFERENCE = re.compile(r"&(?:#[0-9]{1,8};?|#[xX][0-9a-fA-F]{1,8};?|[A-Za-z][A-Za-z0-9]*+(?:;|(?![=A-Za-z0-9])))")


def tags(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield (name, attributes), in lower case, of each start tag that may hold a link, in order.

    Comments, and what stands in script, style, textarea, title and xmp, hold no tags; what stands in noscript, noframes
    and template does. The first of two attributes with one name counts; those without a value are left out or "".
    """
    position = 0
    while True:
        for match in _TAG.finditer(text, position):
            comment, name, plain, other = match.groups()
            if comment:
                # "<!-->" and "<!--->" are comments too: "--" may belong to both ends.
                end = _COMMENT_END.match(text, match.end()) or _COMMENT_END.search(text, match.end())
                if end is None:
                    return
                position = end.end()
                break
            if not name.islower():
                name = name.lower()
            if plain:
                # An attribute's name, "=" and a quote cannot stand inside a quoted value.
                found = dict(reversed(_PLAIN_ATTRIBUTE.findall(plain)))
            else:
                found = {}
                for key, double, single, bare in _ATTRIBUTE.findall(other):
                    found.setdefault(key.lower(), double or single or bare)
            yield name, found
            if name in _RAW_END:
                end = _RAW_END[name].search(text, match.end())
                if end is None:
                    return
                position = end.end()
                break
        else:
            return


def unescaped(value: str) -> str:
    """Return an attribute's value with its character references replaced.

    Those without ";" count only where neither "=" nor a letter or digit follows, so that "?a=1&copy=2" stays.
    """
    return _REFERENCE.sub(_character, value) if "&" in value else value


def _character(match: re.Match[str]) -> str:
    found = match[0]
    return html.unescape(found) if found[1] == "#" else html5.get(found[1:], found)
