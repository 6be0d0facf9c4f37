"""Sets of SURT prefixes: what an entry means, files of them, and lookups."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budgetfrontier.core import uris
from budgetfrontier.settings.surts import SurtPrefixes, surt_prefix


@pytest.mark.parametrize(
    ("entry", "prefix"),
    [
        ("(org,example,", "(org,example,"),
        ("+(Org,Example,)/A", "(org,example,)/A"),
        ("http://(org,example,www,)/", "(org,example,www,)/"),
        ("https://(org,", "(org,"),
        ("example.org", "(org,example,"),
        ("WWW.Example.org", "(org,example,www,"),
        ("example.org/", "(org,example,)/"),
        ("https://example.org", "(org,example,"),
        ("http://example.org/", "(org,example,)/"),
        ("http://example.org/a/b.html", "(org,example,)/a/"),
        ("http://example.org/a/b/?x=/y", "(org,example,)/a/b/"),
        ("example.org/a", "(org,example,)/"),
        ("http://example.org:8080", "(org,example,:8080)/"),
        ("10.0.0.1", "(10.0.0.1)/"),
        ("b\u00fccher.example", "(example,xn--bcher-kva,"),
    ],
)
def test_entries_become_prefixes_as_in_heritrix(entry: str, prefix: str) -> None:
    assert surt_prefix(entry) == prefix


SURTS = st.lists(st.text("(ab,)/", max_size=5).map("(".__add__), max_size=30)


@settings(deadline=None)
@given(SURTS, st.lists(st.sampled_from(("a.b", "b.a", "a", "b", "a.a.b")), min_size=1), st.text("ab/", max_size=4))
def test_lookups_find_what_a_scan_finds(prefixes: list[str], hosts: list[str], path: str) -> None:
    found = SurtPrefixes(prefixes)
    for host in hosts:
        href = f"https://{host}/{path}"
        surt = uris.surt(href).removeprefix("https://")
        assert found.hold(href) is any(map(surt.startswith, prefixes))
        assert found.settle(f"https://{host}/") in (None, found.hold(href))
