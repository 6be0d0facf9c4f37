"""The directives of X-Robots-Tag headers and robots meta elements: which of them concern a crawler."""

from __future__ import annotations

import pytest

from budgetfrontier.crawler.robots_tags import tags


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], (False, False)),
        (["noindex"], (True, False)),
        (["NoIndex, NoFollow"], (True, True)),
        (["none"], (True, True)),
        (["all", "nofollow"], (False, True)),
        (["googlebot: nofollow"], (False, False)),
        (["ExampleBot: nofollow"], (False, True)),
        (["googlebot: nofollow", "otherbot: noindex, nofollow"], (False, False)),
        (["otherbot: noindex, nofollow", "nofollow"], (False, True)),
        (["googlebot: noindex, examplebot: nofollow"], (False, True)),  # as proxies join them
        (["examplebot: nofollow, googlebot: noindex"], (False, True)),
        (["noindex, googlebot: nofollow"], (True, False)),
        (["unavailable_after: 25 Jun 2010 15:00:00 PST"], (False, False)),
        (["unavailable_after: Friday, 25-Jun-10 15:00:00 PST, nofollow"], (False, True)),
        (["max-snippet: 20, noindex"], (True, False)),
        (["max-image-preview:large, noindex"], (True, False)),
        (["noarchive, nosnippet, noimageindex, notranslate"], (False, False)),
        (["*: noindex"], (True, False)),
        (["robots : noindex"], (True, False)),
        (["noindexed", "", ":", ",,", "no index", ": noindex"], (False, False)),
        (["\xff\x00: noindex"], (False, False)),
    ],
)
def test_x_robots_tag(values: list[str], expected: tuple[bool, bool]) -> None:
    assert tags(values, "ExampleBot") == expected


def test_tags_for_nobody_in_particular() -> None:
    assert tags(["examplebot: noindex", "nofollow"], "") == (False, True)
