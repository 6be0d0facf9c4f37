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
_WANTED = frozenset(
    {"background", "content", "data", "href", "http-equiv", "imagesrcset", "name", "poster", "rel", "src", "srcset"}
    | {"style", "type", "xlink:href"}
)
# No repeat gives back what it took (++, *+), so that no text is looked at twice.
_SPACE = r"[ \t\n\f\r]"
# Nearly all attributes are written like this, which is quick to tell; names are in lower case then. What an <a> is
# asked for is taken along, the first of each.
_HREF, _REL = r'(?(3)(?!)|href="([^"]*+)")', r'(?(4)(?!)|rel="([^"]*+)")'
_PLAIN = rf"""(?:{_SPACE}++(?:{_HREF}|{_REL}|[a-z][a-z0-9:_.-]*+(?:="[^"]*+")?+))*+{_SPACE}*+/?+>"""
# A quote begins a value only after "="; what is missing at the end of the text goes on to it.
_ANY = rf"""(?:[^>=]++|={_SPACE}*+(?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z))?+)*+"""
_NAMED = rf"(?=[abefilmostvxABEFILMOSTVX])(?i:{_NAMES})(?=[ \t\n\f\r/>])"
_STYLED = r"[a-zA-Z][^ \t\n\f\r/>]*+(?=[ \t\n\f\r/](?:[^<>u]++|u(?!rl\())*+u)"


def _pattern(names: str) -> re.Pattern[str]:
    # Elements of other names are met only if their attributes may hold what looks like a tag.
    return re.compile(
        rf"<(?:!--|({names})(?:({_PLAIN})|({_ANY})(>|\Z))"
        rf"""|[a-zA-Z][a-zA-Z0-9]*+[ \n](?:[a-z][a-z0-9-]*+="[^"<]*+"[ \n]?+)*+(?!/?>){_ANY})"""
    )


# Any element may have a style with a URL; few pages have any.
_TAG, _TAG_OR_STYLE = _pattern(_NAMED), _pattern(f"{_NAMED}|{_STYLED}")
_URL = re.compile(r"url\(")  # quicker than "in"
_PLAIN_ATTRIBUTE = re.compile(r'(?<=[ \t\n\f\r])([a-z][a-z0-9:_.-]*+)="([^"]*+)"')
_ATTRIBUTE = re.compile(
    r"""([^ \t\n\f\r/>=][^ \t\n\f\r/>=]*+)"""
    r"""(?:[ \t\n\f\r]*+=[ \t\n\f\r]*+(?:"([^"]*+)|'([^']*+)|([^ \t\n\f\r>]++))?)?"""
)
_NO_COMMENT, _COMMENT_END = re.compile("-?>"), re.compile("--!?>")
_RAW_END = {
    name: re.compile(rf"</{name}(?=[ \t\n\f\r/>])", re.IGNORECASE)
    for name in ("script", "style", "textarea", "title", "xmp")
}
_REFERENCE = re.compile(r"&(?:#[0-9]{1,8};?|#[xX][0-9a-fA-F]{1,8};?|[A-Za-z][A-Za-z0-9]*+(?:;|(?![=A-Za-z0-9])))")


def tags(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield (name, attributes), in lower case, of each start tag that may hold a link, in order. The content of a style
    element is its attribute "#text".

    Comments, and what stands in script, style, textarea, title and xmp, hold no tags; what stands in noscript, noframes
    and template does. Attributes are those that say something of links, their values as written; the first of two with
    one name counts; those without a value are left out or "".
    """
    position = 0
    styled = "(" in text and _URL.search(text) is not None
    pattern = _TAG_OR_STYLE if styled else _TAG
    while True:
        for match in pattern.finditer(text, position):
            name, plain, href, rel, other, closed = match.groups()
            if name == "a" and plain and not (styled and "url(" in plain):
                yield name, {"href": href or ""} if rel is None else {"href": href or "", "rel": rel}
                continue
            if name is not None:
                if closed == "":
                    return
                name = name.lower()
                found = _plain(plain) if plain else _any(other)
                if name not in _RAW_END:
                    if found or name == "body":
                        yield name, found
                    continue
                end = _RAW_END[name].search(text, match.end())
                if name == "style" and end is not None:
                    found["#text"] = text[match.end() : end.start()]
                yield name, found
            elif match[0] == "<!--":
                end = _NO_COMMENT.match(text, match.end()) or _COMMENT_END.search(text, match.end())
            else:
                continue
            if end is None:
                return
            position = end.end()
            break
        else:
            return


def _plain(text: str) -> dict[str, str]:
    # An attribute's name, "=" and a quote cannot stand inside a quoted value.
    found: dict[str, str] = {}
    for match in _PLAIN_ATTRIBUTE.finditer(text):
        if match[1] in _WANTED:
            found.setdefault(match[1], match[2])
    return found


def _any(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for match in _ATTRIBUTE.finditer(text):
        name, double, single, bare = match.groups("")
        if (name := name.lower()) in _WANTED:
            found.setdefault(name, double or single or bare)
    return found


def unescaped(value: str) -> str:
    """Return an attribute's value with its character references replaced.

    Those without ";" count only where neither "=" nor a letter or digit follows, so that "?a=1&copy=2" stays.
    """
    return _REFERENCE.sub(_character, value) if "&" in value else value


def _character(match: re.Match[str]) -> str:
    found = match[0]
    return html.unescape(found) if found[1] == "#" else html5.get(found[1:], found)
