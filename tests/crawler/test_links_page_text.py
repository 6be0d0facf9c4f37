"""Which encoding a page is in."""

from __future__ import annotations

import codecs

import pytest

from budgetfrontier.crawler.fetch.response import FetchResult
from budgetfrontier.crawler.links import discover
from budgetfrontier.crawler.links.page_text import _LABELS, decode, encode_query, encoding
from budgetfrontier.settings.schema import LinkSettings


@pytest.mark.parametrize(
    ("body", "charset", "text"),
    [
        (b"\xe9", "iso-8859-1", "é"),
        (b"\x80", "latin1", "€"),
        (b"\xe9", " 'ASCII' ", "é"),
        ("é".encode(), None, "é"),
        (b"\xe9t\xe9", None, "été"),
        ("ét€".encode()[:-1], None, "ét"),
        (b"\xff", "utf-8", "\ufffd"),
        ("日本".encode("shift_jis"), "x-sjis", "日本"),
        ("中文".encode("gb18030"), "gb2312", "中文"),
        (b"<meta charset='koi8-r'>\xc1", None, "\u0430"),
        (b'<META http-equiv=x content="text/html; charset=windows-1251">\xe0', None, "\u0430"),
        (b"<meta charset=utf-16>\xc3\xa9", None, "é"),
        (b"<?xml version='1.0' encoding='koi8-r'?>\xc1", None, "\u0430"),
        (b"<meta charset=koi8-r>\xc3\xa9", "utf-8", "é"),
        (b" " * 5000 + b"<meta charset=koi8-r>\xc1", None, "\u0430"),
        (b" " * 70_000 + b"<meta charset=koi8-r>\xc3\xa9", None, "é"),
        (b"<meta charset=bogus><meta charset=koi8-r>\xc1", None, "\u0430"),
        (b"<?xml version='1.0' encoding='bogus'?><meta charset=koi8-r>\xc1", None, "\u0430"),
        (b"<meta charset=koi8-r><meta charset=windows-1251>\xc1", None, "\u0430"),
        (b"<!-- <meta charset=koi8-r> --><meta charset=windows-1251>\xe0", None, "\u0430"),
        (b"<!-- <meta charset=koi8-r> -->\xc3\xa9", None, "é"),
        (b"<!-- <meta charset=koi8-r>\xc3\xa9", None, "é"),
        (b"<!--><meta charset=koi8-r>\xc1", None, "\u0430"),
        (b"<b title='<meta charset=koi8-r>'>\xc3\xa9", None, "é"),
        (b"<b title=it's><meta charset=koi8-r>\xc1 'x'", None, "\u0430 'x'"),
        (b"<metadata charset=koi8-r>\xc3\xa9", None, "é"),
        (b"\xef\xbb\xbf\xc3\xa9", "latin1", "é"),
        (b"\xff\xfea\x00", "utf-8", "a"),
        (b"\xfe\xff\x00a", None, "a"),
        (b"6162", "hex", "6162"),
        (b"+AGE-", "utf-7", "+AGE-"),
        (b"a", "no-such-charset", "a"),
        (b"a", "idna", "a"),
        (b"a", "\x00", "a"),
    ],
)
def test_charset(body: bytes, charset: str | None, text: str) -> None:
    assert decode(body, charset=charset)[0].removesuffix("\ufffd" if text[-1:] != "\ufffd" else "").endswith(text)


def test_a_byte_order_mark_is_no_text() -> None:
    for codec in ("utf-8-sig", "utf-16"):
        assert decode("a".encode(codec), charset="koi8-r")[0] == "a"


def test_every_label_names_a_codec_that_decodes_bad_bytes_in_pieces() -> None:
    for label, codec in _LABELS.items():
        assert label == label.lower()
        decoder = codecs.getincrementaldecoder(codec)("replace")
        assert isinstance(decoder.decode(bytes(range(256))) + decoder.decode(b"", True), str)
        assert encoding(b"", charset=label.upper()) == codec


def test_a_query_is_encoded_as_its_page_is() -> None:
    assert encode_query("é?é=€&x=a%20b", "cp1252") == "é?%E9=%80&x=a%20b"
    assert encode_query("?\u0430", "cp1252") == "?%26%231072%3B"
    assert encode_query("é", "cp1252") == "é"
    answer = FetchResult(
        status=200,
        headers={"Content-Type": "text/html; charset=iso-8859-1"},
        body="<a href='/é?é'>x</a>".encode("latin-1"),
    )
    page = discover("http://h/", answer, LinkSettings())
    assert list(page.links) == [("http://h/%C3%A9?%E9", "L")]


@pytest.mark.parametrize(
    ("charset", "link", "href"),
    [
        ("iso-8859-1", "?n=Jos&eacute;", "?n=Jos%E9"),
        ("koi8-r", "?k=&#x43c;", "?k=%CD"),
        ("shift_jis", "?k=&#x65E5;", "?k=%93%FA"),
        ("utf-8", "?n=Jos&eacute;", "?n=Jos%C3%A9"),
    ],
)
def test_a_character_reference_in_a_query_is_encoded_as_its_page_is(charset: str, link: str, href: str) -> None:
    """Also in a page that has only ASCII bytes."""
    answer = FetchResult(
        status=200, headers={"Content-Type": f"text/html; charset={charset}"}, body=f"<a href='{link}'>x</a>".encode()
    )
    assert list(discover("http://h/", answer, LinkSettings()).links) == [(f"http://h/{href}", "L")]
