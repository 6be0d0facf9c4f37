"""Links of sitemaps and feeds, read as a stream: whatever their length, only a small part is in memory.

Many are not well-formed, and XML parsers stop at the first error. Therefore tags are read one by one here, without
checking that the document is well-formed, and entities that it declares are never expanded.

https://www.sitemaps.org/protocol.html, https://www.rssboard.org/rss-specification, RFC 4287 (Atom)
"""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Iterable, Iterator

import can_ada

from budgetfrontier.core import uris
from budgetfrontier.crawler.links.tags import unescaped
from budgetfrontier.crawler.links.url_resolution import resolve

SITEMAPS = frozenset({"urlset", "sitemapindex"})
FEEDS = frozenset({"rss", "rdf", "feed"})
MAX_SIZE = 50 * 1024 * 1024
"""The most bytes of a sitemap or feed that are read, decompressed: the limit of the sitemap protocol."""

SNIFFED = 4096
_PIECE, _PART = 1 << 16, 1 << 14
_LONGEST_TOKEN = 1 << 20
_DEEPEST = 100
_ROOT = re.compile(
    r"\s*+(?:<\?.*?\?>\s*+|<!--.*?-->\s*+|<!doctype[^>\[]*+>\s*+)*+<(?:[^\s:<>/]++:)?+([^\s:<>/!]++)", re.I | re.S
)
_ROOTED = re.compile(r"<(?:[^\s:<>/]++:)?+(urlset|sitemapindex|rss|rdf|feed)(?=[\s>])", re.IGNORECASE)
_NOTES = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_URL_LINE = re.compile(r"\s*+https?://\S++[ \t\r]*+(?:\n|\Z)", re.IGNORECASE)

# A tag, or the beginning of one at the end of the text received: "/", name, attributes, ">".
_TAG = re.compile(r"""<(/?)([^\W\d][^\s<>/]*+)((?:[^<>"']++|"[^"<]*+"|'[^'<]*+')*+)(?:(>)|(?:"[^"<]*+|'[^'<]*+)?+\Z)""")
_ATTRIBUTE = re.compile(r"""([^\s=/"']++)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'>]++))""")
_DOCTYPE = re.compile(r"<!doctype[^\[>]*+([\[>]|\Z)", re.IGNORECASE)
_CDATA, _COMMENT = "<![CDATA[", "<!--"
_ENDS = {_CDATA: re.compile(r"\]\]>"), _COMMENT: re.compile("-->"), "<?": re.compile(r"\?>"), "<!": re.compile(">")}
_BEGINNINGS = (*map(str.lower, _ENDS), "<!doctype")
_DECLARED = re.compile(r"\]\s*>")
_LONGEST_END = 64
_ENTITY = re.compile(r"&[^\W\d][\w.-]*+;")

# The hop of a URL in the text of an element, and in an attribute.
_TEXTS = {
    **dict.fromkeys(("loc", "link", "guid", "comments"), "L"),
    "sitemap": "I",  # in indexes without `loc`
    **dict.fromkeys(("url", "icon", "logo", "content_loc", "player_loc", "thumbnail_loc"), "E"),
}
_LOCATIONS = {"url": "L", "urlset": "L", "sitemap": "I", "sitemapindex": "I"}
"""The hops of a `loc` in these elements."""
_ATTRIBUTES = {
    "link": ("href", "L"),
    "source": ("url", "L"),
    **dict.fromkeys(("enclosure", "thumbnail"), ("url", "E")),
}


def pieces(body: bytes) -> Iterator[bytes]:
    """Yield a body in pieces of at most 64 KiB, decompressed if it is gzip: at most MAX_SIZE, up to the first error."""
    parts = (body[start : start + _PART] for start in range(0, len(body), _PART))
    size = 0
    for piece in _gunzip(parts) if body.startswith(b"\x1f\x8b") else parts:
        yield piece
        size += len(piece)
        if size >= MAX_SIZE:
            return


def _gunzip(parts: Iterable[bytes]) -> Iterator[bytes]:
    # zlib copies the unread input with each member and each piece, so it is fed in small parts.
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
    """Return the kind of a document by its beginning.

    That is its root element in lower case without prefix ("urlset", "rss"); "text" if its first line is a URL; else "".
    """
    match = _ROOT.match(head)
    root = match[1].lower() if match else ""
    if root not in SITEMAPS | FEEDS | {"html"} and (match := _ROOTED.search(_NOTES.sub("", head))):
        return match[1].lower()  # preceded by text, such as the error message of a script
    if root:
        return root
    return "text" if _URL_LINE.match(head) else ""


def decoded(pieces: Iterable[bytes], codec: str) -> Iterator[str]:
    """Yield pieces of bytes decoded as text, without a byte order mark or whitespace at the beginning."""
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
    """Yield (URL, "L") for each line of a text sitemap that begins with "http"."""
    rest = ""
    for text in texts:
        *whole, rest = (rest + text).replace("\r", "\n").split("\n")
        yield from ((line, "L") for line in map(str.strip, whole) if line[:4].lower() == "http")
        if len(rest) > uris.MAX_LENGTH:
            rest = " "  # too long for a URL
    if rest[:4].lower() == "http":
        yield rest.strip(), "L"


def references(texts: Iterable[str], url: str) -> Iterator[tuple[str, str]]:
    """Yield (reference, hop) of a sitemap, a sitemap index or a feed.

    Hops are I for the sitemaps of an index, E for images, enclosures and the like, L for all others. References are
    absolute where xml:base applies. Errors are skipped: text before the root, bad characters, "&" without a reference,
    unmatched end tags. References that contain an entity declared in the document are dropped. Elements nested more
    than 100 deep are not read; a tag of more than 1 MiB ends the reading.
    """
    reader = _XmlReader(url)
    for text in texts:
        more = reader.feed(text)
        yield from reader.found
        reader.found.clear()
        if not more:
            return


class _XmlReader:
    """A reader of one XML text: call `feed` with each piece, and take the references from `found`.

    Names are compared without their prefix. That suffices for the vocabularies read here, while expanding namespaces
    would let a document repeat a long one with each element.
    """

    def __init__(self, url: str) -> None:
        self.found: list[tuple[str, str]] = []
        self._document_url = can_ada.parse(url)
        self._bases = [self._document_url]  # one for each open element
        self._path = [""]
        self._text: list[str] | None = None  # the text of the element opened last, if it is a URL
        self._size = self._deeper = 0
        self._rest = ""
        self._skipped: re.Pattern[str] | None = None  # the end of the construct that is skipped
        self._declared = False

    def feed(self, text: str) -> bool:
        """Read the next piece; return False if reading has to end here."""
        data = self._rest + text
        position = 0
        while True:
            if self._skipped and (position := self._skip(data, position)) < 0:
                return True
            start = data.find("<", position)
            if self._text is not None:
                self._characters(data[position : start if start >= 0 else len(data)])
            if start < 0:
                self._rest = ""
                return True
            match = _TAG.match(data, start)
            if match is None:
                position = self._other(data, start)
            else:
                closing, name, attributes, whole = match.groups()
                position = match.end() if whole else -1
                if ":" in name:
                    name = name[name.rindex(":") + 1 :]
                if whole and closing:
                    self._end(name)
                elif whole:
                    self._open(name, attributes)
            if position < 0:
                self._rest = data[start:]
                return len(self._rest) <= _LONGEST_TOKEN

    def _other(self, data: str, start: int) -> int:
        """Return the position after a "<" that begins no tag; -1 if more text is needed to decide."""
        if data[start + 1 : start + 2] not in ("", "!", "?", "/"):
            return self._literal(start)
        if data.startswith("</", start):
            return self._literal(start) if len(data) - start > len("</") else -1
        if match := _DOCTYPE.match(data, start):
            self._declared = self._declared or match[1] == "["
            self._skipped = _DECLARED if match[1] == "[" else None
            return match.end() if match[1] else -1
        if len(data) - start < len("<!doctype") and any(
            begin.startswith(data[start:].lower()) for begin in _BEGINNINGS if len(begin) > len(data) - start
        ):
            return -1
        for begin, end in _ENDS.items():
            if data.startswith(begin, start):
                self._skipped = end
                return start + len(begin)
        return self._literal(start)

    def _literal(self, start: int) -> int:
        if self._text is not None:
            self._characters("<")
        return start + 1

    def _skip(self, data: str, position: int) -> int:
        """Return the position after the skipped construct; -1 if its end is still missing. CDATA is kept as text."""
        assert self._skipped is not None
        match = self._skipped.search(data, position)
        end = match.start() if match else max(position, len(data) - _LONGEST_END)
        if self._skipped is _ENDS[_CDATA]:
            self._characters(data[position:end].replace("&", "&amp;"))
        if match is None:
            self._rest = data[end:]
            return -1
        self._skipped = None
        return match.end()

    def _open(self, name: str, rest: str) -> None:
        attributes: dict[str, str] = {}
        if "=" in rest:
            for key, double, single, bare in _ATTRIBUTE.findall(rest):
                attributes.setdefault(key, unescaped(double or single or bare))
        closed = rest.endswith("/")
        if len(self._path) <= _DEEPEST:
            self._start(name, attributes)
            if closed:
                self._end(name)
        elif not closed:
            self._deeper += 1

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        base = self._bases[-1]
        if "xml:base" in attributes and (own := resolve(base, attributes["xml:base"])):
            base = can_ada.parse(own)
        self._bases.append(base)
        if name in _ATTRIBUTES:
            key, hop = _ATTRIBUTES[name]
            if key in attributes:
                self._add(attributes[key], "E" if attributes.get("rel") == "enclosure" else hop)
        elif name == "content":  # in Media RSS and Atom
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

    def _end(self, closed: str) -> None:
        if self._deeper:
            self._deeper -= 1
            return
        if closed not in self._path:
            return
        while self._path[-1] != closed:
            self._text = None
            self._path.pop()
            self._bases.pop()
        name, parent = self._path.pop(), self._path[-1]
        if self._text:
            hop = _TEXTS[name]
            if name == "loc":
                hop = _LOCATIONS.get(parent, "E")
            reference = unescaped("".join(self._text)).strip()
            if name == "guid" and not reference.startswith(("http://", "https://")):
                reference = ""
            if name == "url" and parent == "urlset":
                hop = "L"
            if name != "url" or parent in ("image", "urlset"):
                self._add(reference, hop)
        self._text = None
        self._bases.pop()

    def _add(self, reference: str, hop: str) -> None:
        if self._declared and _ENTITY.search(reference):
            return
        base = self._bases[-1]
        absolute = reference if base is self._document_url else resolve(base, reference)
        if absolute:
            self.found.append((absolute, hop))
