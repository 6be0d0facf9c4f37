"""Links out of sitemaps and feeds, read as a stream: whatever their length, little of them is in memory.

https://www.sitemaps.org/protocol.html, https://www.rssboard.org/rss-specification, RFC 4287 (Atom)
"""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Iterable, Iterator
from xml.parsers import expat

import can_ada

from budgetfrontier import uris
from budgetfrontier.crawl.links.urls import resolve

SITEMAPS = frozenset({"urlset", "sitemapindex"})
FEEDS = frozenset({"rss", "rdf", "feed"})
MAX_SIZE = 50 * 1024 * 1024
"""No more of a sitemap or feed is read, decompressed; the sitemap protocol allows as much."""

SNIFFED = 4096
_PIECE, _PART = 1 << 16, 1 << 14
_LONGEST_TOKEN = 1 << 20
_DEEPEST = 100
_ROOT = re.compile(
    r"\s*+(?:<\?.*?\?>\s*+|<!--.*?-->\s*+|<!doctype[^>\[]*+>\s*+)*+<(?:[^\s:<>/]++:)?+([^\s:<>/!]++)", re.I | re.S
)
_URL_LINE = re.compile(r"\s*+https?://\S++[ \t\r]*+(?:\n|\Z)", re.IGNORECASE)

# What the text of an element is, and what an attribute is.
_TEXTS = {
    **dict.fromkeys(("loc", "link", "guid", "comments"), "L"),
    **dict.fromkeys(("url", "icon", "logo", "content_loc", "player_loc", "thumbnail_loc"), "E"),
}
_ATTRIBUTES = {
    "link": ("href", "L"),
    "source": ("url", "L"),
    **dict.fromkeys(("enclosure", "thumbnail"), ("url", "E")),
}


def pieces(body: bytes) -> Iterator[bytes]:
    """Yield a body in pieces of at most 64 KiB, decompressed if it is in gzip: at most MAX_SIZE, as far as valid."""
    parts = (body[start : start + _PART] for start in range(0, len(body), _PART))
    size = 0
    for piece in _gunzip(parts) if body.startswith(b"\x1f\x8b") else parts:
        yield piece
        size += len(piece)
        if size >= MAX_SIZE:
            return


def _gunzip(parts: Iterable[bytes]) -> Iterator[bytes]:
    # What is left of the input is copied with each member and each piece: so it is given in small parts.
    member = zlib.decompressobj(31)
    for data in parts:
        piece = b""
        while data or len(piece) == _PIECE:
            if member.eof:
                member = zlib.decompressobj(31)
            try:
                piece = member.decompress(data, _PIECE)
            except zlib.error:
                return
            data = member.unused_data if member.eof else member.unconsumed_tail
            if piece:
                yield piece


def kind(head: str) -> str:
    """Tell what a text that begins so is: its root element in lower case without prefix ("urlset", "rss"); "text" if
    its first line is a URL and nothing else; "" if it is neither.
    """
    if match := _ROOT.match(head):
        return match[1].lower()
    return "text" if _URL_LINE.match(head) else ""


def decoded(pieces: Iterable[bytes], codec: str) -> Iterator[str]:
    """Yield pieces of bytes as pieces of text, without a byte order mark and space at the beginning."""
    decoder = codecs.getincrementaldecoder(codec)("replace")
    begun = False
    for piece in pieces:
        text = decoder.decode(piece)
        if not begun:
            text = text.lstrip("\ufeff \t\r\n")
        if text:
            begun = True
            yield text


def lines(texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield (URL, "L") for each line of a text sitemap that begins as a URL."""
    rest = ""
    for text in texts:
        *whole, rest = (rest + text).split("\n")
        yield from ((line, "L") for line in map(str.strip, whole) if line[:4].lower() == "http")
        if len(rest) > uris.MAX_LENGTH:
            rest = " "  # no URL
    if rest[:4].lower() == "http":
        yield rest.strip(), "L"


def references(texts: Iterable[str], url: str) -> Iterator[tuple[str, str]]:
    """Yield (reference, hop) of a sitemap, a sitemap index or a feed: I for the sitemaps of an index, E for images,
    enclosures and the like, L for all else. References are absolute where xml:base counts.

    Ends where the XML is not well-formed, and where it is hostile: a document type with declarations of its own (no
    entities, no default attributes), 100 elements within each other, a token of 1 MiB.
    """
    reader = _Reader(url)
    for text in texts:
        going = reader.feed(text)
        yield from reader.found
        reader.found.clear()
        if not going:
            return


class _Refused(Exception):
    """The XML is one that no sitemap and no feed needs."""


class _Reader:
    """One XML text: feed it, take what is `found`.

    Names are compared without their prefix: elements of several vocabularies are told by name alone, and expanding
    namespaces would let a long one be repeated with each element.
    """

    def __init__(self, url: str) -> None:
        self.found: list[tuple[str, str]] = []
        self._own = can_ada.parse(url)
        self._bases = [self._own]  # of each open element
        self._path = [""]
        self._text: list[str] | None = None  # of the element that was opened last
        self._size = self._fed = 0
        self._parser = parser = expat.ParserCreate("utf-8")  # whatever the declaration says: it is given UTF-8
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = self._doctype
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters

    def feed(self, text: str) -> bool:
        """Read on; tell whether there may be more."""
        data = text.encode()
        self._fed += len(data)
        try:
            self._parser.Parse(data, False)
        except (expat.ExpatError, _Refused):
            return False
        # A token that is not at its end is read again from its beginning with every piece.
        return self._fed - self._parser.CurrentByteIndex <= _LONGEST_TOKEN

    def _doctype(self, name: str, system: str | None, public: str | None, internal: int) -> None:
        if internal:
            raise _Refused

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self._path) > _DEEPEST:
            raise _Refused
        name = name.rpartition(":")[2]
        base = self._bases[-1]
        if own := resolve(base, attributes.get("xml:base")):
            base = can_ada.parse(own)
        self._bases.append(base)
        if name in _ATTRIBUTES:
            key, hop = _ATTRIBUTES[name]
            if key in attributes:
                self._add(attributes[key], "E" if attributes.get("rel") == "enclosure" else hop)
        elif name == "content":  # of media, and of Atom
            self._add(attributes.get("url") or attributes.get("src") or "", "E")
        self._text = None
        if name in _TEXTS and attributes.get("isPermaLink") != "false":
            self._text, self._size = [], 0
        self._path.append(name)

    def _characters(self, text: str) -> None:
        if self._text is None:
            return
        self._size += len(text)
        if self._size > uris.MAX_LENGTH:
            self._text = None
        else:
            self._text.append(text)

    def _end(self, _: str) -> None:
        name, parent = self._path.pop(), self._path[-1]
        if self._text:
            hop = _TEXTS[name]
            if name == "loc":
                hop = {"url": "L", "sitemap": "I"}.get(parent, "E")
            reference = "".join(self._text).strip()
            if name == "guid" and not reference.startswith(("http://", "https://")):
                reference = ""
            if name != "url" or parent == "image":
                self._add(reference, hop)
        self._text = None
        self._bases.pop()

    def _add(self, reference: str, hop: str) -> None:
        base = self._bases[-1]
        absolute = reference if base is self._own else resolve(base, reference)
        if absolute:
            self.found.append((absolute, hop))
