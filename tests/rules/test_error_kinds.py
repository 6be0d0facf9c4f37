"""Kinds of error: texts that differ in what is of one host, page or attempt alone are one kind."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from budgetfrontier.rules.error_kinds import LONGEST, error_kind, status_kind

KINDS = {
    "Connection to www.example.org:8080 timed out after 30.1 s": "Connection to HOST:N timed out after N s",
    "[Errno 111] Connect call failed ('127.0.0.1', 8080)": "[Errno N] Connect call failed (TEXT, N)",
    "Cannot connect to host [2001:db8::1]:443 ssl:True": "Cannot connect to host [ADDRESS]:N ssl:True",
    "no answer from 192.0.2.7": "no answer from ADDRESS",
    "socket.gaierror: [Errno -2] Name or service not known": "socket.gaierror: [Errno -N] Name or service not known",
    "twisted.internet.error.TimeoutError: took longer": "twisted.internet.error.TimeoutError: took longer",
    "cannot read https://a.test/x?y=1#z, too long": "cannot read URL too long",
    "certificate verify failed: /etc/ssl/cert.pem (_ssl.c:997)": "certificate verify failed: PATH (_ssl.c:N)",
    "robots.txt unreachable: timeout": "robots.txt unreachable: timeout",
    "object at 0x7f3bdeadbeef  is gone": "object at N is gone",
    "no connection (-2)": "no connection",
    "status 503": "status 503",
    "robots.txt unreachable: status 500": "robots.txt unreachable: status 500",
    "status 404 of http://a.test/7 after 12 s": "status 404 of URL after N s",
    "exit status 1": "exit status N",
    "status 5000": "status N",
    "status 200.5": "status N",
    "no answer within 8 s (fetch.timeout)": "no answer within N s (fetch.timeout)",
    "longer than fetch.timeout": "longer than fetch.timeout",
    "no address of fetch.timeouts.test": "no address of HOST",
    "robots": "robots",
    "": "no reason",
}


@pytest.mark.parametrize("text", KINDS)
def test_what_differs_is_masked(text: str) -> None:
    assert error_kind(text) == KINDS[text]


@example("//0")
@example("x0P.xx: ")
@given(
    st.one_of(st.text(), st.from_regex(r"[a-zA-Z .:/'\[\]0-9-]{0,60}", fullmatch=True), st.sampled_from(list(KINDS)))
)
def test_a_kind_is_short_its_own_kind_and_has_no_number(text: str) -> None:
    kind = error_kind(text)
    assert 0 < len(kind) <= LONGEST
    assert error_kind(kind) == kind
    assert not re.search(r"\d", re.sub(r"\bstatus [1-9][0-9]{2}\b", "", kind))


label = st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True)


@given(st.lists(label, min_size=2, max_size=4), st.integers(0, 1 << 40), st.lists(label, min_size=1, max_size=3))
def test_hosts_numbers_and_paths_make_no_other_kind(host: list[str], number: int, path: list[str]) -> None:
    name = ".".join([*host, "org"])
    assert error_kind(f"no route to {name} after {number} ms") == "no route to HOST after N ms"
    assert error_kind(f"no file /{'/'.join(path)} there") == "no file PATH there"
    assert error_kind(f"GET http://{name}:{number % 65536}/{path[0]} failed") == "GET URL failed"


def test_a_status_is_a_kind() -> None:
    assert error_kind(status_kind(404)) == status_kind(404)


def test_a_kind_can_be_stored() -> None:
    assert error_kind("no \udcff address") == "no ? address"
