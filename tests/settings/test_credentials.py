"""What `fetch.requests` and `fetch.proxy` hold: all that is wrong with it is told with its place."""

from __future__ import annotations

import pytest

from budgetfrontier.errors import SettingsError
from budgetfrontier.settings import Settings
from budgetfrontier.settings.loader import load
from tests.settings.files import Files


def test_all_that_is_wrong_with_requests_and_the_proxy_is_told_with_its_place(files: Files) -> None:
    files.path.write_text(
        "fetch:\n"
        "  proxy: socks5://proxy:1080\n"
        "  requests:\n"
        "    - headers: {X-A: '${TEST_A}${TEST_B}', X-Set: '${TEST_SET}'}\n"
        "      auth: '${TEST_SET}'\n"
        "    - cookies: {a: 'b;c', 'd e': f}\n"
        "  concurrency: many\n"
    )
    with pytest.raises(SettingsError) as caught:
        load(files.path, Settings(), environment={"TEST_SET": "value"})
    assert [problem.removeprefix(f"{files.path}:") for problem in caught.value.problems] == [
        "2:10: fetch.proxy: expected an HTTP proxy, such as http://proxy:3128",
        "4:22: fetch.requests[0].headers.X-A: the environment variable TEST_A is not set",
        "4:22: fetch.requests[0].headers.X-A: the environment variable TEST_B is not set",
        "5:13: fetch.requests[0].auth: expected user:password",
        "6:20: fetch.requests[1].cookies.a: a cookie's value cannot contain a semicolon",
        '6:27: fetch.requests[1].cookies: "d e" cannot be a name in a header',
        '7:16: fetch.concurrency: expected a whole number from 1 to 10000, got "many"',
    ]


def test_without_a_crawl_no_variable_needs_to_be_set(files: Files) -> None:
    files.path.write_text("fetch: {proxy: '${TEST_A}', requests: [{auth: '${TEST_B}'}]}\n")
    assert Settings.from_yaml(files.path).fetch.proxy == "${TEST_A}"
