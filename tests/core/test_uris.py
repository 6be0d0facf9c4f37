"""URLs: what is admitted and in which form, why the rest is refused, and what is derived from a href."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from budgetfrontier.core import uris
from budgetfrontier.errors import InvalidUrl

REASONS = {"empty", "too-long", "scheme", "host", "port", "syntax", "encoding", "type"}

ANY_TEXT = st.text(st.characters(exclude_categories=()))  # lone surrogates included
NASTY = st.text(st.sampled_from("aZ09.-_~%/\\?#@:[]&=;+ \t\n\x00\x7fé\u200d\u3002\ud800☃"), max_size=12)
URLS = st.builds(
    "{}{}{}{}{}".format,
    st.sampled_from(["http://", "https://", "HTTP://", "http:", " https:\\\\", "ftp://", "//", ""]),
    st.one_of(st.just(""), NASTY.map("{}@".format)),
    st.one_of(
        st.sampled_from(["example.org", "WWW.Example.ORG.", "bücher.example", "[2001:db8::1]", "127.1", "0x7f.1"]),
        NASTY,
    ),
    st.one_of(st.just(""), st.integers(-1, 70_000).map(":{}".format)),
    st.one_of(NASTY, NASTY.map("/{}".format)),
)


def reason(url: Any) -> str:
    """The slug for which a URL is refused."""
    with pytest.raises(InvalidUrl) as caught:
        uris.parse(url)
    return caught.value.reason


@pytest.mark.parametrize(
    ("url", "href"),
    [
        ("http://example.org", "http://example.org/"),
        ("HTTPS://WWW.Example.ORG:443/A/../b?Q=x#top", "https://www.example.org/b?Q=x"),
        ("http://example.org:80/", "http://example.org/"),
        ("http://example.org:443/", "http://example.org:443/"),
        ("http://example.org:065535/", "http://example.org:65535/"),
        ("  http://example.org/a\tb\nc  ", "http://example.org/abc"),
        ("http://example.org/?", "http://example.org/?"),
        ("http://example.org/?#top", "http://example.org/?"),
        ("http://example.org/a:0/", "http://example.org/a:0/"),
        ("http://bücher.example/ü?ü=☃", "http://xn--bcher-kva.example/%C3%BC?%C3%BC=%E2%98%83"),
        ("http://\uff25\uff38ample\u3002org/", "http://example.org/"),
        ("http://[2001:DB8:0::1]:8080/", "http://[2001:db8::1]:8080/"),
        ("http://[::1]", "http://[::1]/"),
        ("http://127.1/", "http://127.0.0.1/"),
        ("http://0x7f.0.0.1:81/", "http://127.0.0.1:81/"),
        ("http://user:pa ss@example.org/", "http://user:pa%20ss@example.org/"),
        ("http://a@b@example.org/", "http://a%40b@example.org/"),
        ("http:\\\\example.org\\a", "http://example.org/a"),
        ("http://example.org/\x00?\x00a", "http://example.org/%00?%00a"),
    ],
)
def test_what_browsers_take_gets_one_normal_form_without_fragment(url: str, href: str) -> None:
    assert uris.parse(url) == href
    assert uris.parse(href) == href


@pytest.mark.parametrize(
    ("url", "slug"),
    [
        ("", "empty"),
        (" \t\n", "empty"),
        ("example.org", "scheme"),
        ("//example.org/", "scheme"),
        ("not a url", "scheme"),
        ("mailto:a@example.org", "scheme"),
        ("ftp://example.org/", "scheme"),
        ("javascript:alert(1)", "scheme"),
        ("data:text/html,x", "scheme"),
        ("blob:http://example.org/", "scheme"),
        ("httpx://example.org:99999/", "scheme"),
        ("http://", "host"),
        ("http://a b/", "host"),
        ("http://nul\x00.example/", "host"),
        ("http://1.2.3.4.5/", "host"),
        ("http://256.256.256.256/", "host"),
        ("http://[::1", "host"),
        ("http://[::1]x/", "host"),
        ("http://[:::]/", "host"),
        ("http://xn--/", "host"),
        ("http://:80/", "host"),
        ("http://user@/", "host"),
        (f"http://{'a.' * 130}org/", "host"),
        ("http://example.org:65536/", "port"),
        ("http://example.org:99999999999999999999/", "port"),
        ("http://example.org:-1/", "port"),
        ("http://example.org:http/", "port"),
        ("http://user:1@example.org:0/", "port"),
        ("https://[::1]:65536/", "port"),
        ("http://example.org/\ud800", "encoding"),
        ("http://\udfff.example/", "encoding"),
        ("\ud800", "encoding"),
        ("http://example.org/" + "a" * 100_000, "too-long"),
        ("x" * 100_000, "too-long"),
        ("http://example.org/" + "ü" * 8000, "too-long"),
        (None, "type"),
        (7, "type"),
        (b"http://example.org/", "type"),
        (b"x" * 100_000, "type"),
        (["http://example.org/"], "type"),
    ],
)
def test_bad_input_is_refused_with_a_reason(url: Any, slug: str) -> None:
    assert reason(url) == slug


def test_a_url_may_have_8192_bytes_and_no_more() -> None:
    start = "http://example.org/"
    longest = start + "a" * (uris.MAX_LENGTH - len(start))
    assert uris.parse(longest) == longest
    assert reason(longest + "a") == "too-long"


def test_the_longest_host_name_of_the_dns_is_taken() -> None:
    name = ".".join(["a" * 63] * 3 + ["a" * 61])
    assert uris.parse(f"http://{name}/") == f"http://{name}/"
    assert uris.parse(f"http://{name}./") == f"http://{name}./"
    assert reason(f"http://{name}a/") == "host"


def test_the_reason_is_told_with_what_was_wrong() -> None:
    with pytest.raises(InvalidUrl, match="port: 99999"):
        uris.parse("http://example.org:99999/")


@given(st.one_of(ANY_TEXT, URLS, st.binary(), st.none(), st.floats(), st.lists(st.text())))
@example("http://\x00")
@example("http://e/\ud800")
def test_whatever_is_given_ends_as_a_href_or_a_reason(url: Any) -> None:
    try:
        href = uris.parse(url)
    except InvalidUrl as error:
        assert error.reason in REASONS
        return
    assert href.isascii() and href.isprintable() and " " not in href
    assert href.startswith(("http://", "https://")) and "#" not in href
    assert len(href) <= uris.MAX_LENGTH
    assert uris.parse(href) == href


@given(URLS)
def test_the_parts_of_a_href_make_the_whole(url: str) -> None:
    try:
        href = uris.parse(url)
    except InvalidUrl:
        return
    prefix, path, query = uris.split(href)
    assert prefix + path + ("" if query is None else f"?{query}") == href
    assert path.startswith("/")
    authority = uris.authority(href)
    assert authority and "@" not in authority and uris.without_root_dot(prefix).endswith(authority)
    assert authority.startswith(uris.host(href))
    assert uris.parse(f"http://{uris.host(href)}/") == f"http://{uris.host(href)}/"
    assert uris.surt(href).startswith(f"{prefix.partition(':')[0]}://({uris.surt_authority(authority)})/")
    assert len(uris.fingerprint(href)) == 16


@given(ANY_TEXT)
def test_what_is_no_href_has_parts_all_the_same(damaged: str) -> None:
    for part in (uris.split, uris.authority, uris.host, uris.surt):
        part(damaged)


@pytest.mark.parametrize(
    ("href", "parts"),
    [
        ("http://h/", ("http://h", "/", None)),
        ("https://h/?", ("https://h", "/", "")),
        ("https://u:p@example.org:81/a/b?c?d/e", ("https://u:p@example.org:81", "/a/b", "c?d/e")),
        ("http://[::1]:81/", ("http://[::1]:81", "/", None)),
    ],
)
def test_split(href: str, parts: tuple[str, str, str | None]) -> None:
    assert uris.split(href) == parts


@pytest.mark.parametrize(
    ("href", "authority", "host"),
    [
        ("https://example.org/a:1@b", "example.org", "example.org"),
        ("http://u:80@example.org:8080/", "example.org:8080", "example.org"),
        ("http://[2001:db8::1]/", "[2001:db8::1]", "[2001:db8::1]"),
        ("http://[2001:db8::1]:81/", "[2001:db8::1]:81", "[2001:db8::1]"),
        ("http://127.0.0.1:81/", "127.0.0.1:81", "127.0.0.1"),
    ],
)
def test_authority_and_host(href: str, authority: str, host: str) -> None:
    assert uris.authority(href) == authority
    assert uris.host(href) == host


@pytest.mark.parametrize(
    ("href", "surt"),
    [
        ("http://www.example.com/path?q", "http://(com,example,www,)/path?q"),
        ("https://www.example.com:8080/", "https://(com,example,www,:8080)/"),
        ("http://user:secret@example.com/", "http://(com,example,)/"),
        ("http://localhost/", "http://(localhost,)/"),
        ("http://host1/", "http://(host1,)/"),
        ("http://127.0.0.1/x", "http://(127.0.0.1)/x"),
        ("http://127.0.0.1:81/x", "http://(127.0.0.1:81)/x"),
        ("http://[::1]:81/", "http://([::1]:81)/"),
    ],
)
def test_surt_is_heritrix_s_form(href: str, surt: str) -> None:
    assert uris.surt(href) == surt


def test_fingerprints_differ_by_url_scheme_method_and_body_alone() -> None:
    url = "https://example.org/a?b"
    variants = [
        uris.fingerprint(url),
        uris.fingerprint("http://example.org/a?b"),
        uris.fingerprint("https://example.org/a"),
        uris.fingerprint(url, "POST"),
        uris.fingerprint(url, "POST", b"x"),
        uris.fingerprint(url, "PUT", b"x"),
        uris.fingerprint(url, "GET", b"x"),
        uris.fingerprint(url, "\ud800"),
    ]
    assert len(set(variants)) == len(variants)
    assert uris.fingerprint(url, "GET", b"") == variants[0]


@pytest.mark.parametrize(("method", "body"), [(None, b""), (7, b"x"), ("POST", "x"), ("POST", 7), ("GET", [1])])
def test_a_method_or_body_of_the_wrong_type_is_refused(method: Any, body: Any) -> None:
    with pytest.raises(InvalidUrl) as caught:
        uris.fingerprint("https://example.org/", method, body)
    assert caught.value.reason == "type"


def test_fingerprints_of_one_authority_lie_together() -> None:
    start = uris.authority_hash("https://example.org")
    assert uris.fingerprint("https://example.org/a")[:4] == start
    assert uris.fingerprint("https://example.org/b?c", "POST", b"x")[:4] == start
    assert uris.fingerprint("https://example.net/a")[:4] != start


def test_fingerprints_are_the_same_in_every_process() -> None:
    """They are stored: a change here makes every frontier forget what it has seen."""
    code = "from budgetfrontier.core import uris; print(uris.fingerprint('https://example.org/a?b').hex())"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert printed == uris.fingerprint("https://example.org/a?b").hex() == "fb2d80c65de6ee4fa2ecdc40d281c3fa"
