"""Problems of settings: the path of the value, and the message."""

from __future__ import annotations

import pytest

from budgetfrontier.settings.problems import Problem, ValuePath, dotted


@pytest.mark.parametrize(
    ("path", "text"),
    [((), ""), (("crawl",), "crawl"), (("overrides", 0, "set", "politeness"), "overrides[0].set.politeness")],
)
def test_a_path_as_messages_write_it(path: ValuePath, text: str) -> None:
    assert dotted(path) == text


def test_a_name_without_end_is_shortened() -> None:
    assert len(dotted(("x" * 100_000,))) < 300


def test_a_message_names_the_value_or_what_holds_the_key_or_nothing() -> None:
    path = ("fetch", "requests", 1, "headers")
    assert Problem(path, "is bad").message == "fetch.requests[1].headers: is bad"
    assert Problem(path, "is bad", at_key=True).message == "fetch.requests[1]: is bad"
    assert Problem(path, "is bad", bare=True).message == Problem((), "is bad").message == "is bad"
