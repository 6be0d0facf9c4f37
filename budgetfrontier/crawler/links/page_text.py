"""Decoding of pages: the character encoding by the rules of the HTML and Encoding standards."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from urllib.parse import quote

from budgetfrontier.crawler.links.tag_patterns import ATTRIBUTES

_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_PRESCANNED = 1 << 16
_META = rb"""<meta(?=[\s/])[^>]{0,500}?charset\s{0,9}=\s{0,9}["']?\s{0,9}([^\s"'/>;]{1,40})"""
# Constructs in which text may look like a meta element: comments, and the attributes of other elements.
# https://html.spec.whatwg.org/multipage/parsing.html#prescan-a-byte-stream-to-determine-its-encoding
_OTHER = rb"<!--(?:-?>|.*?(?:-->|\Z))|<(?!meta[\s/])/?[a-z][^ \t\n\f\r/>]*+" + ATTRIBUTES.encode()
_SEEMING = re.compile(_META, re.IGNORECASE)
_PRESCAN = re.compile(_META + b"|" + _OTHER, re.IGNORECASE | re.DOTALL)
_DECLARATION = re.compile(rb"""\s{0,99}<\?xml\s[^>]{0,200}?encoding\s{0,9}=\s{0,9}["']([^"'>]{1,40})["']""")

# Python's codec for each encoding, and its labels; of several codecs that fit, that with most characters. The
# encodings that the standard maps to "replacement" (HZ, ISO-2022-KR) are missing: such pages count as unlabelled.
# https://encoding.spec.whatwg.org/#names-and-labels
_LABELS = {
    label: codec
    for codec, labels in {
        "utf-8": "unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf-8 utf8 x-unicode20utf8",
        "cp866": "866 cp866 csibm866 ibm866",
        "iso8859-2": "csisolatin2 iso-8859-2 iso-ir-101 iso8859-2 iso88592 iso_8859-2 iso_8859-2:1987 l2 latin2",
        "iso8859-3": "csisolatin3 iso-8859-3 iso-ir-109 iso8859-3 iso88593 iso_8859-3 iso_8859-3:1988 l3 latin3",
        "iso8859-4": "csisolatin4 iso-8859-4 iso-ir-110 iso8859-4 iso88594 iso_8859-4 iso_8859-4:1988 l4 latin4",
        "iso8859-5": "csisolatincyrillic cyrillic iso-8859-5 iso-ir-144 iso8859-5 iso88595 iso_8859-5 iso_8859-5:1988",
        "iso8859-6": "arabic asmo-708 csiso88596e csiso88596i csisolatinarabic ecma-114 iso-8859-6 iso-8859-6-e"
        " iso-8859-6-i iso-ir-127 iso8859-6 iso88596 iso_8859-6 iso_8859-6:1987",
        "iso8859-7": "csisolatingreek ecma-118 elot_928 greek greek8 iso-8859-7 iso-ir-126 iso8859-7 iso88597"
        " iso_8859-7 iso_8859-7:1987 sun_eu_greek",
        "iso8859-8": "csiso88598e csisolatinhebrew hebrew iso-8859-8 iso-8859-8-e iso-ir-138 iso8859-8 iso88598"
        " iso_8859-8 iso_8859-8:1988 visual csiso88598i iso-8859-8-i logical",
        "iso8859-10": "csisolatin6 iso-8859-10 iso-ir-157 iso8859-10 iso885910 l6 latin6",
        "iso8859-13": "iso-8859-13 iso8859-13 iso885913",
        "iso8859-14": "iso-8859-14 iso8859-14 iso885914",
        "iso8859-15": "csisolatin9 iso-8859-15 iso8859-15 iso885915 iso_8859-15 l9",
        "iso8859-16": "iso-8859-16",
        "koi8-r": "cskoi8r koi koi8 koi8-r koi8_r",
        "koi8-u": "koi8-ru koi8-u",
        "mac-roman": "csmacintosh mac macintosh x-mac-roman",
        "cp874": "dos-874 iso-8859-11 iso8859-11 iso885911 tis-620 windows-874",
        "cp1250": "cp1250 windows-1250 x-cp1250",
        "cp1251": "cp1251 windows-1251 x-cp1251",
        "cp1252": "ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 iso8859-1 iso88591"
        " iso_8859-1 iso_8859-1:1987 l1 latin1 us-ascii windows-1252 x-cp1252",
        "cp1253": "cp1253 windows-1253 x-cp1253",
        "cp1254": "cp1254 csisolatin5 iso-8859-9 iso-ir-148 iso8859-9 iso88599 iso_8859-9 iso_8859-9:1989 l5 latin5"
        " windows-1254 x-cp1254",
        "cp1255": "cp1255 windows-1255 x-cp1255",
        "cp1256": "cp1256 windows-1256 x-cp1256",
        "cp1257": "cp1257 windows-1257 x-cp1257",
        "cp1258": "cp1258 windows-1258 x-cp1258",
        "mac-cyrillic": "x-mac-cyrillic x-mac-ukrainian",
        "gb18030": "chinese csgb2312 csiso58gb231280 gb2312 gb_2312 gb_2312-80 gbk iso-ir-58 x-gbk gb18030",
        "big5hkscs": "big5 big5-hkscs cn-big5 csbig5 x-x-big5",
        "euc_jp": "cseucpkdfmtjapanese euc-jp x-euc-jp",
        "iso2022_jp": "csiso2022jp iso-2022-jp",
        "cp932": "csshiftjis ms932 ms_kanji shift-jis shift_jis sjis windows-31j x-sjis",
        "cp949": "cseuckr csksc56011987 euc-kr iso-ir-149 korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601"
        " windows-949",
        "utf-16-be": "unicodefffe utf-16be",
        "utf-16-le": "csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16 utf-16le",
    }.items()
    for label in labels.split()
}


def decode(body: bytes, *, charset: str | None = None) -> tuple[str, str]:
    """Return a page as text, and the codec that was used. The byte order mark is removed, bad bytes become U+FFFD.

    Without a declared encoding, a page is decoded as UTF-8 if it is valid UTF-8, and as Windows-1252 otherwise.
    """
    codec = encoding(body, charset=charset)
    if codec is None:
        try:
            # Not final: a truncated page may end within a character.
            return codecs.utf_8_decode(body, "strict", False)[0], "utf-8"
        except UnicodeDecodeError:
            codec = "cp1252"
    return body.decode(codec, "replace").removeprefix("\ufeff"), codec


def encode_query(reference: str, codec: str) -> str:
    """Return a reference with its query percent-encoded in the encoding of its page, as browsers do.

    https://url.spec.whatwg.org/#query-state
    """
    start = reference.find("?")
    if start < 0 or reference.isascii():
        return reference
    query = _NOT_ASCII.sub(lambda match: quote(match[0].encode(codec, "xmlcharrefreplace")), reference[start:])
    return reference[:start] + query


def encoding(body: bytes, *, charset: str | None = None) -> str | None:
    """Return the Python codec for the declared encoding of a page; None if none is declared.

    The byte order mark takes precedence, then `charset` (of the Content-Type), then an XML declaration or meta element
    in the first 64 KiB. Labels that the Encoding standard does not define are ignored, and later ones count. Browsers
    look for a meta element in the first 1024 bytes before they begin, and begin anew if they meet one later.
    https://html.spec.whatwg.org/multipage/parsing.html#determining-the-character-encoding
    """
    for mark, name in _BOMS:
        if body.startswith(mark):
            return name
    if charset and (codec := _LABELS.get(charset.strip("\t\n\f\r \"'").lower())):
        return codec
    codec = next(filter(None, map(_codec, _declarations(body))), None)
    # A declaration that is readable as ASCII cannot be in UTF-16.
    return "utf-8" if codec and codec.startswith("utf-16") else codec


def _declarations(body: bytes) -> Iterator[re.Match[bytes]]:
    """Yield the XML declaration of a page, and the meta elements that declare a charset."""
    if match := _DECLARATION.match(body, 0, _PRESCANNED):
        yield match
    if _SEEMING.search(body, 0, _PRESCANNED):
        yield from (match for match in _PRESCAN.finditer(body, 0, _PRESCANNED) if match[1])


def _codec(declaration: re.Match[bytes]) -> str | None:
    return _LABELS.get(declaration[1].decode("latin-1").lower())
