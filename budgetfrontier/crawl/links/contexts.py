"""Where in a page text may not be what it looks like: in SVG and MathML, and in a frameset.

There `<title>`, `<style>` and others may be elements like any other, though elsewhere what follows them is no markup.
Which it is depends on the tree of the page, which is not built. So what is kept here is where it *may* be so: a context
is what is open of such elements, () where all is plain HTML. It may say too much, never too little.

https://html.spec.whatwg.org/multipage/parsing.html#parsing-main-inforeign
"""

from __future__ import annotations

Context = tuple[str, ...]

HTML: Context = ()
UNSURE: Context = ("?",)
"""Anything may be the case, until the end of the page."""

_DEEPEST = 64


def names(text: str) -> frozenset[str]:
    """Return names that stand one after the other."""
    return frozenset(text.split())


_ROOTS = names("svg math")
# Integration points: HTML elements may stand in them.
_POINTS = names("title desc foreignobject annotation-xml mi mo mn ms mtext")
# Start tags that end SVG and MathML. A font does, too, but only with some attributes.
_ENDING = names(
    "b big blockquote body br center code dd div dl dt em embed h1 h2 h3 h4 h5 h6 head hr i img li listing menu meta"
    " nobr ol p pre ruby s small span strong strike sub sup table tt u ul var"
)
_VOID = names(
    "area base basefont bgsound br col embed frame hr image img input keygen link meta param source track wbr"
)
OPENING = _ROOTS | {"frameset"}
TELLING = OPENING | _POINTS | _ENDING
"""The names whose start tags matter in a context that is not `nested`."""
CLOSING = _ROOTS
"""The names whose end tags do."""


def nested(context: Context) -> bool:
    """Tell whether every tag matters: within an integration point."""
    return bool(context) and context is not UNSURE and context[-1] not in _ROOTS


def opened(context: Context, name: str, *, closed: bool) -> Context:
    """Return the context after a start tag, `closed` if it ends in "/>"."""
    if context is UNSURE or name == "frameset":
        return UNSURE
    top = context[-1] if context else ""
    if top in _ROOTS:
        if name in _ENDING:
            while context and context[-1] in _ROOTS:
                context = context[:-1]
            return opened(context, name, closed=closed) if context else HTML
        pushed = name in _ROOTS or name in _POINTS
    elif not context:
        pushed = name in _ROOTS
    else:
        closed = closed and name in _ROOTS  # of other elements, the "/" means nothing
        pushed = name not in _VOID
    if not pushed or closed:
        return context
    return (*context, name) if len(context) < _DEEPEST else UNSURE


def closed(context: Context, name: str) -> Context:
    """Return the context after an end tag: what it closes, if everything within that was closed before."""
    if not context or context is UNSURE or name not in context:
        return context
    kept = context
    while kept[-1] != name:
        if kept[-1] not in _POINTS:
            return UNSURE
        kept = kept[:-1]
    return kept[:-1]


def merged(one: Context, other: Context) -> Context:
    """Return the context where two ways to read a page have met."""
    if one == other or not other:
        return one
    return UNSURE if one else other


def is_foreign(context: Context) -> bool:
    """Tell whether an element would be one of SVG or MathML."""
    return bool(context) and context[-1] in _ROOTS
