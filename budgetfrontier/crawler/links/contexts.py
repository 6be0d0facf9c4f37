"""Parsing contexts of a page in which raw text elements may be ordinary ones: SVG, MathML and framesets.

Within these, the content of `<title>`, `<style>` and others may be markup, while in plain HTML it is text. Which
applies depends on the tree of the page, which is not built. A context is the list of open foreign elements, () in plain
HTML. It is conservative: it may contain elements that are closed already, but never lacks one that is open.

https://html.spec.whatwg.org/multipage/parsing.html#parsing-main-inforeign
"""

from __future__ import annotations

Context = tuple[str, ...]

HTML: Context = ()
UNKNOWN: Context = ("?",)
"""The context is unknown, until the end of the page."""

_DEEPEST = 64


def names(text: str) -> frozenset[str]:
    """Return the set of the names in a list separated by spaces."""
    return frozenset(text.split())


_ROOTS = names("svg math")
# Integration points: foreign elements that may contain HTML elements.
_POINTS = names("title desc foreignobject annotation-xml mi mo mn ms mtext")
# Start tags that end SVG and MathML. <font> does too, but only with some attributes, and is left out.
_BREAKOUT = names(
    "b big blockquote body br center code dd div dl dt em embed h1 h2 h3 h4 h5 h6 head hr i img li listing menu meta"
    " nobr ol p pre ruby s small span strong strike sub sup table tt u ul var"
)
_VOID = names(
    "area base basefont bgsound br col embed frame hr image img input keygen link meta param source track wbr"
)
OPENING = _ROOTS | {"frameset"}
CONTEXT_CHANGING = OPENING | _POINTS | _BREAKOUT
"""Names of elements; their start tags change a context that is not `nested`."""
CLOSING = _ROOTS
"""Names of elements; their end tags change a context that is not `nested`."""


def nested(context: Context) -> bool:
    """Return whether every tag may change the context, which is so within an integration point."""
    return bool(context) and context is not UNKNOWN and context[-1] not in _ROOTS


def opened(context: Context, name: str, *, closed: bool) -> Context:
    """Return the context after a start tag; `closed` says whether it ends in "/>"."""
    if context is UNKNOWN or name == "frameset":
        return UNKNOWN
    top = context[-1] if context else ""
    if top in _ROOTS:
        if name in _BREAKOUT:
            while context and context[-1] in _ROOTS:
                context = context[:-1]
            return opened(context, name, closed=closed) if context else HTML
        pushed = name in _ROOTS or name in _POINTS
    elif not context:
        pushed = name in _ROOTS
    else:
        closed = closed and name in _ROOTS  # the "/" has no effect on other elements
        pushed = name not in _VOID
    if not pushed or closed:
        return context
    return (*context, name) if len(context) < _DEEPEST else UNKNOWN


def closed(context: Context, name: str) -> Context:
    """Return the context after an end tag; UNKNOWN if an element within the closed one is still open."""
    if not context or context is UNKNOWN or name not in context:
        return context
    kept = context
    while kept[-1] != name:
        if kept[-1] not in _POINTS:
            return UNKNOWN
        kept = kept[:-1]
    return kept[:-1]


def merged(one: Context, other: Context) -> Context:
    """Return the context where two interpretations of a page have converged."""
    if one == other or not other:
        return one
    return UNKNOWN if one else other


def is_foreign(context: Context) -> bool:
    """Return whether an element in this context belongs to SVG or MathML."""
    return bool(context) and context[-1] in _ROOTS
